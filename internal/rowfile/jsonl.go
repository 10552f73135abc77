package rowfile

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
)

// flushAt is how much text is gathered before it is written.
const flushAt = 256 << 10

type jsonlWriter struct {
	w   io.Writer
	sch *arrow.Schema
	buf []byte
}

func newJSONLWriter(w io.Writer, sch *arrow.Schema) *jsonlWriter {
	return &jsonlWriter{w: w, sch: sch}
}

func (w *jsonlWriter) Write(rec arrow.RecordBatch) error {
	r := newRow(w.sch.Fields(), rec.Column)
	var err error
	for i := range int(rec.NumRows()) {
		if w.buf, err = r.append(w.buf, i); err != nil {
			return fmt.Errorf("write JSON Lines: %w", err)
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

func (w *jsonlWriter) flush() error {
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *jsonlWriter) Close() error { return nil }
