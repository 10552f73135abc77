package rowfile

import (
	"bytes"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
)

type csvWriter struct {
	w   io.Writer
	sch *arrow.Schema
	buf []byte
	tmp []byte
}

func newCSVWriter(w io.Writer, sch *arrow.Schema) (*csvWriter, error) {
	c := &csvWriter{w: w, sch: sch}
	for i, f := range sch.Fields() {
		if i > 0 {
			c.buf = append(c.buf, ',')
		}
		c.buf = appendCSV(c.buf, []byte(f.Name), f.Name == "")
	}
	c.buf = append(c.buf, '\n')
	return c, nil
}

// appendCSV writes one field, quoted where RFC 4180 wants it or quote says so.
// A leading space is quoted as well, since some readers drop it.
func appendCSV(dst, text []byte, quote bool) []byte {
	padded := len(text) > 0 && (text[0] == ' ' || text[len(text)-1] == ' ')
	if !quote && !padded && !bytes.ContainsAny(text, "\",\r\n") {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func (w *csvWriter) Write(rec arrow.RecordBatch) error {
	cells := make([]cell, rec.NumCols())
	for k := range cells {
		cells[k] = newCell(rec.Column(k))
	}
	var err error
	for i := range int(rec.NumRows()) {
		for k, c := range cells {
			if k > 0 {
				w.buf = append(w.buf, ',')
			}
			if isNull(c.arr, i) {
				continue
			}
			if w.tmp, err = c.text(w.tmp[:0], i); err != nil {
				return fmt.Errorf("write CSV: column %s: %w", w.sch.Field(k).Name, err)
			}
			// An empty string, and an empty binary, must not read as NULL.
			w.buf = appendCSV(w.buf, w.tmp, len(w.tmp) == 0)
		}
		w.buf = append(w.buf, '\n')
		if len(w.buf) >= flushAt {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

func (w *csvWriter) flush() error {
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// Close writes the header of an output without rows.
func (w *csvWriter) Close() error { return w.flush() }
