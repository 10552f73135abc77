package rowfile

import (
	"io"
	"strings"
	"unicode"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// tableRows is how many rows settle the widths of a table's columns.
const tableRows = 2000

type tableWriter struct {
	w      io.Writer
	sch    *arrow.Schema
	right  []bool
	widths []int
	held   [][]string // rows until the widths are settled
	open   bool       // the header is out
	buf    []byte
}

func newTableWriter(w io.Writer, sch *arrow.Schema) *tableWriter {
	t := &tableWriter{w: w, sch: sch}
	for _, f := range sch.Fields() {
		switch f.Type.ID() {
		case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
			t.right = append(t.right, true)
		default:
			t.right = append(t.right, false)
		}
		t.widths = append(t.widths, width(show(f.Name)))
	}
	return t
}

// show makes one printable line of a text.
func show(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return string(appendEscaped(nil, s, false))
		}
	}
	return s
}

// width counts the places that a text takes: combining marks take none, wide
// East Asian characters two.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
			r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
			n += 2
		default:
			n++
		}
	}
	return n
}

func (t *tableWriter) Write(rec arrow.RecordBatch) error {
	cells := make([]cell, rec.NumCols())
	for k := range cells {
		cells[k] = newCell(rec.Column(k))
	}
	for i := range int(rec.NumRows()) {
		line := make([]string, len(cells))
		for k, c := range cells {
			if line[k] = "NULL"; !isNull(c.arr, i) {
				if s, ok := c.arr.(*array.String); ok {
					line[k] = show(s.Value(i))
					continue
				}
				b, _ := c.text(nil, i) // fails for invalid UTF-8 only, which it replaces
				line[k] = show(string(b))
			}
		}
		if err := t.line(line); err != nil {
			return err
		}
	}
	return t.flush()
}

func (t *tableWriter) line(line []string) error {
	if !t.open {
		t.held = append(t.held, line)
		if len(t.held) == tableRows {
			t.begin()
		}
		return nil
	}
	t.put(line)
	if len(t.buf) >= flushAt {
		return t.flush()
	}
	return nil
}

// begin settles the widths and writes the header and the rows held back.
func (t *tableWriter) begin() {
	t.open = true
	names, rules := make([]string, len(t.widths)), make([]string, len(t.widths))
	for _, line := range t.held {
		for k, s := range line {
			t.widths[k] = max(t.widths[k], width(s))
		}
	}
	for k, f := range t.sch.Fields() {
		names[k], rules[k] = show(f.Name), strings.Repeat("-", t.widths[k])
	}
	t.put(names)
	t.put(rules)
	for _, line := range t.held {
		t.put(line)
	}
	t.held = nil
}

func (t *tableWriter) put(line []string) {
	for k, s := range line {
		if k > 0 {
			t.buf = append(t.buf, "  "...)
		}
		pad := max(t.widths[k]-width(s), 0)
		switch {
		case t.right[k]:
			t.buf = append(append(t.buf, strings.Repeat(" ", pad)...), s...)
		case k == len(line)-1:
			t.buf = append(t.buf, s...)
		default:
			t.buf = append(append(t.buf, s...), strings.Repeat(" ", pad)...)
		}
	}
	t.buf = append(t.buf, '\n')
}

func (t *tableWriter) flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	_, err := t.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}

// Close writes what was held back.
func (t *tableWriter) Close() error {
	if !t.open {
		t.begin()
	}
	return t.flush()
}
