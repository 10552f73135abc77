package changefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// csvReader is the state of one read of CSV. Each field is handed to the reader
// of its column in JSON Lines, as the token that it would be there, so that both
// formats have one set of rules about values.
type csvReader struct {
	batcher
	s      scanner
	cut    csvCutter
	header []int      // by place in the file: column of the schema, or -1
	cols   []csvField // by column of the schema
	absent []int      // columns that the file lacks
	token  []byte
}

// csvField reads one column.
type csvField struct {
	field
	form csvForm
	want string // what the column takes, for messages
}

// csvForm is how a field becomes a JSON token.
type csvForm uint8

const (
	csvText   csvForm = iota // a string: its text is the value
	csvNumber                // stands as it is
	csvFloat                 // so, or one of three names, quoted
	csvBool
	csvQuoted // quoted: dates, timestamps, binaries
	csvNested // JSON text
	csvVoid
)

func readCSV(ctx context.Context, name string, in io.Reader, o *Options) (*File, error) {
	sch := nullable(o.Schema)
	r := &csvReader{s: scanner{file: name, allowUnknown: o.AllowUnknown}, cut: newCSVCutter(name, in)}
	r.batcher = batcher{
		s: &r.s, file: &File{Name: name, Present: map[string]bool{}},
		bld: array.NewRecordBuilder(memory.DefaultAllocator, sch),
	}
	defer r.bld.Release()
	err := r.columns(sch, &timeReader{o.Zone})
	if err == nil {
		err = r.rows(ctx)
	}
	if err != nil {
		var ie *InputError
		if errors.As(err, &ie) {
			return nil, err
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return r.file, nil
}

// columns reads the header.
func (r *csvReader) columns(sch *arrow.Schema, t *timeReader) error {
	folded, err := foldNames(sch.Fields())
	if err != nil {
		return err
	}
	for i, f := range sch.Fields() {
		c, err := newCSVField(f, r.bld.Field(i), t)
		if err != nil {
			return err
		}
		r.cols = append(r.cols, c)
	}
	more, err := r.cut.record()
	if err != nil {
		return err
	}
	if !more {
		return &InputError{File: r.file.Name, Msg: "the file is empty: CSV begins with a header that names the columns"}
	}
	seen := map[string]string{}
	for k := range r.cut.fields {
		text := r.cut.text(k)
		fail := func(format string, args ...any) error {
			return &InputError{File: r.file.Name, Line: r.cut.fields[k].line, Value: excerpt(text), Msg: fmt.Sprintf(format, args...)}
		}
		if !utf8.Valid(text) {
			return fail("invalid UTF-8 in the header")
		}
		lower := strings.ToLower(string(text))
		if first, twice := seen[lower]; twice {
			return fail("the header names column %s twice", excerpt([]byte(first)))
		}
		seen[lower] = string(text)
		at, known := folded[lower]
		switch {
		case known:
			r.file.Present[sch.Field(at).Name] = true
		case !r.s.allowUnknown:
			return fail("unknown column in the header")
		default:
			at = -1
		}
		r.header = append(r.header, at)
	}
	for i, f := range sch.Fields() {
		if !r.file.Present[f.Name] {
			r.absent = append(r.absent, i)
		}
	}
	return nil
}

func newCSVField(f arrow.Field, bld array.Builder, t *timeReader) (csvField, error) {
	inner, err := newField(f, f.Name, bld, t)
	c := csvField{field: inner}
	if err != nil {
		return c, err
	}
	switch n := inner.node.(type) {
	case *stringNode:
		c.form = csvText
	case *boolNode:
		c.form, c.want = csvBool, "a boolean takes true or false"
	case *intNode:
		c.form, c.want = csvNumber, intName(n.bits)+" takes an integer"
	case *floatNode:
		c.form, c.want = csvFloat, n.name()+" takes a number, NaN, Infinity or -Infinity"
	case *decimalNode:
		c.form, c.want = csvNumber, fmt.Sprintf("decimal(%d,%d) takes a number", n.precision, n.scale)
	case *binaryNode:
		c.form, c.want = csvQuoted, "a binary takes lower-case hexadecimal digits, two for each byte"
	case *dateNode:
		c.form, c.want = csvQuoted, "a date takes YYYY-MM-DD"
	case *timeNode:
		c.form, c.want = csvQuoted, timeWant(n.utc)
	case *voidNode:
		c.form, c.want = csvVoid, "a void column takes only empty fields"
	default:
		c.form = csvNested
	}
	return c, nil
}

func (r *csvReader) rows(ctx context.Context) error {
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		more, err := r.cut.record()
		if err != nil {
			return err
		}
		if !more {
			return r.flush()
		}
		if r.cut.blank() && len(r.header) != 1 {
			continue
		}
		if err := r.row(); err != nil {
			return err
		}
	}
}

// row reads the record that was cut into the builder.
func (r *csvReader) row() error {
	if got, want := len(r.cut.fields), len(r.header); got != want {
		return &InputError{File: r.file.Name, Line: r.cut.line, Msg: fmt.Sprintf("the row has %s, the header %d", countFields(got), want)}
	}
	for k, at := range r.header {
		if at < 0 {
			continue
		}
		f := &r.cut.fields[k]
		if text := r.cut.text(k); len(text) > 0 || f.quoted {
			r.s.line = f.line
			if err := r.value(&r.cols[at], text); err != nil {
				return err
			}
			continue
		}
		r.cols[at].null()
	}
	for _, at := range r.absent {
		r.cols[at].null()
	}
	return r.add(r.cut.line, len(r.cut.buf))
}

func countFields(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

// value reads one field that is not NULL.
func (r *csvReader) value(c *csvField, text []byte) error {
	s := &r.s
	if c.form == csvText {
		if !utf8.Valid(text) {
			return s.fail(c.column, text, "invalid UTF-8")
		}
		c.node.(*stringNode).b.BinaryBuilder.Append(text)
		return nil
	}
	s.b, s.p = text, 0
	if c.form == csvNested {
		s.space()
		if err := c.parse(s); err != nil {
			return err
		}
		if s.space(); s.p < len(text) {
			return s.fail(c.column, text[s.p:], "there is more in the field behind the value")
		}
		return nil
	}
	quote, ok := c.form.token(text)
	if !ok {
		return s.fail(c.column, text, "%s", c.want)
	}
	if quote {
		r.token = append(append(append(r.token[:0], '"'), text...), '"')
		s.b = r.token
	}
	err := c.node.parse(s)
	if ie := (*InputError)(nil); errors.As(err, &ie) {
		ie.Value = excerpt(text) // as it stands in the input
	}
	return err
}

// parse reads the JSON text of a nested value. NULL is an empty field and
// nothing else.
func (c *csvField) parse(s *scanner) error {
	if s.peek() == 'n' {
		return s.mistyped(c.column, "NULL is an empty field")
	}
	return c.node.parse(s)
}

// token says whether text can be a token of its form, and whether it must be
// quoted for that. What the token means is the column's business.
func (f csvForm) token(text []byte) (quote, ok bool) {
	switch f {
	case csvNumber, csvFloat:
		switch string(text) {
		case "NaN", "Infinity", "-Infinity":
			return true, f == csvFloat
		}
		end, ok := numberEnd(text, 0)
		return false, ok && end == len(text)
	case csvBool:
		return false, string(text) == "true" || string(text) == "false"
	case csvQuoted:
		for _, b := range text {
			if !plain[b] {
				return false, false
			}
		}
		return true, true
	case csvText, csvNested, csvVoid:
	}
	return false, false
}
