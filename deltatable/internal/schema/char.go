package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CharVarchar is the declared type of a column that is stored as string.
// Lengths count characters (code points), as in Spark.
type CharVarchar struct {
	Fixed  bool // CHAR: padded with blanks to Length; else VARCHAR
	Length int
}

func (c CharVarchar) String() string {
	if c.Fixed {
		return "char(" + strconv.Itoa(c.Length) + ")"
	}
	return "varchar(" + strconv.Itoa(c.Length) + ")"
}

// Store gives the stored form of a value: blanks after the limit are cut, a
// CHAR is padded. A value that is longer otherwise is an error, never cut.
func (c CharVarchar) Store(s string) (string, error) {
	n := utf8.RuneCountInString(s)
	for n > c.Length && strings.HasSuffix(s, " ") {
		s, n = s[:len(s)-1], n-1
	}
	if n > c.Length {
		return "", fmt.Errorf("the value has %d characters, more than %s holds", n, c)
	}
	if c.Fixed && n < c.Length {
		s += strings.Repeat(" ", c.Length-n)
	}
	return s, nil
}

// Check says whether a value is in stored form.
func (c CharVarchar) Check(s string) error {
	if n := utf8.RuneCountInString(s); n > c.Length || c.Fixed && n < c.Length {
		return fmt.Errorf("the value has %d characters and the column is %s", n, c)
	}
	return nil
}

func (c CharVarchar) metadata() jsontext.Value {
	return jsontext.Value(`{"` + CharVarcharKey + `":"` + c.String() + `"}`)
}

// CharVarchar gives the declared type of a CHAR or VARCHAR column. A declared
// type that does not parse, or one nested within a container that Spark spells
// in one text, gives false; [ArrowCharVarchar] does the same for Arrow fields.
func (f *Field) CharVarchar() (CharVarchar, bool) {
	if f.Type.Kind != String || !f.hasMetadata() {
		return CharVarchar{}, false
	}
	raw, ok := f.Metadata(CharVarcharKey)
	if !ok {
		return CharVarchar{}, false
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return CharVarchar{}, false
	}
	c, err := parseCharVarchar(text)
	return c, err == nil
}

// ArrowCharVarchar gives the declared type of a column of [Schema.Arrow].
func ArrowCharVarchar(f arrow.Field) (CharVarchar, bool) {
	text, ok := f.Metadata.GetValue(CharVarcharKey)
	if !ok {
		return CharVarchar{}, false
	}
	c, err := parseCharVarchar(text)
	return c, err == nil
}

var charText = regexp.MustCompile(`^(char|character|varchar)\s*\(\s*(\d+)\s*\)$`)

func parseCharVarchar(text string) (CharVarchar, error) {
	m := charText.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return CharVarchar{}, fmt.Errorf("%q is neither char(n) nor varchar(n)", text)
	}
	n, err := strconv.Atoi(m[2])
	if err != nil || n < 1 {
		return CharVarchar{}, fmt.Errorf("%q: the length must be at least 1", text)
	}
	return CharVarchar{Fixed: m[1] != "varchar", Length: n}, nil
}
