package deltatable

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PropertyError says that a table property has a value that cannot be used.
type PropertyError struct {
	Key, Value, Want string
}

func (e *PropertyError) Error() string {
	return fmt.Sprintf("table property %s is %q: want %s", e.Key, e.Value, e.Want)
}

func boolProperty(p map[string]string, key string, absent bool) bool {
	v, ok := p[key]
	if !ok {
		return absent
	}
	return strings.EqualFold(strings.TrimSpace(v), "true")
}

// sizeProperty reads a number of bytes: digits with an optional unit b, k, kb,
// m, mb, g, gb, t, tb (powers of 1024), in either case.
func sizeProperty(p map[string]string, key string, absent int64) (int64, error) {
	v, ok := p[key]
	if !ok {
		return absent, nil
	}
	bad := &PropertyError{Key: key, Value: v, Want: "a size in bytes such as 134217728 or 128mb"}
	s := strings.ToLower(strings.TrimSpace(v))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 {
		return 0, bad
	}
	shift, ok := map[string]uint{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.TrimSpace(s[len(digits):])]
	if !ok || n > math.MaxInt64>>shift {
		return 0, bad
	}
	return n << shift, nil
}

// listProperty reads a JSON list of strings; nil where the property is absent.
func listProperty(p map[string]string, key string) ([]string, error) {
	v, ok := p[key]
	if !ok {
		return nil, nil
	}
	var names []string
	if err := json.Unmarshal([]byte(v), &names); err != nil {
		return nil, &PropertyError{Key: key, Value: v, Want: "a JSON list of column names"}
	}
	return names, nil
}

// splitIdentifiers splits a list such as "a, `b,c`.d" at its outer commas and
// takes the backticks off; the parts of a path stay joined by dots.
func splitIdentifiers(s string) ([]string, error) {
	var (
		names  []string
		cur    strings.Builder
		quoted bool
	)
	flush := func() {
		if n := strings.TrimSpace(cur.String()); n != "" {
			names = append(names, n)
		}
		cur.Reset()
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '`' && quoted && i+1 < len(s) && s[i+1] == '`':
			cur.WriteByte('`')
			i++
		case s[i] == '`':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			flush()
		default:
			cur.WriteByte(s[i])
		}
	}
	if quoted {
		return nil, fmt.Errorf("unclosed backtick in %q", s)
	}
	flush()
	return names, nil
}

// numRecords reads numRecords of an action's statistics, without the rest.
func numRecords(stats string) (int64, bool) {
	if stats == "" {
		return 0, false
	}
	dec := jsontext.NewDecoder(bytes.NewBufferString(stats), jsontext.AllowDuplicateNames(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return 0, false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return 0, false
		}
		if name.String() != "numRecords" {
			if err := dec.SkipValue(); err != nil {
				return 0, false
			}
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseInt(string(raw), 10, 64)
		return n, err == nil && n >= 0
	}
	return 0, false
}
