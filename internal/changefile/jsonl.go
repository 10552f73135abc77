package changefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Limits that keep an Arrow array below its 2 GiB of 32-bit offsets: a batch
// ends early when it has taken batchBytes of lines, and no line is longer than
// maxLine.
const (
	batchBytes = 256 << 20
	maxLine    = 1 << 30
	readSize   = 1 << 20
)

// nullable is sch with every top-level field nullable, see File.Records.
func nullable(sch *arrow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, sch.NumFields())
	for i, f := range sch.Fields() {
		f.Nullable = true
		fields[i] = f
	}
	return arrow.NewSchema(fields, nil)
}

// batcher makes batches of the rows of a text.
type batcher struct {
	s     *scanner
	bld   *array.RecordBuilder
	file  *File
	n     int   // rows in the builder
	bytes int   // of their lines
	first int64 // row number of the builder's first row
}

// jsonlReader is the state of one read of JSON Lines.
type jsonlReader struct {
	batcher
	s   scanner
	row *object
}

func readJSONL(ctx context.Context, name string, in io.Reader, o *Options) (*File, error) {
	sch := nullable(o.Schema)
	r := &jsonlReader{s: scanner{file: name, allowUnknown: o.AllowUnknown}}
	r.batcher = batcher{
		s: &r.s, file: &File{Name: name, Present: map[string]bool{}},
		bld: array.NewRecordBuilder(memory.DefaultAllocator, sch),
	}
	defer r.bld.Release()
	var err error
	if r.row, err = newObject(sch.Fields(), "", r.bld.Field, &timeReader{o.Zone}); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if err := r.lines(ctx, in); err != nil {
		var ie *InputError
		if errors.As(err, &ie) {
			return nil, err
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for i, k := range r.row.seen {
		if k.turn > 0 {
			r.file.Present[r.row.names[i]] = true
		}
	}
	return r.file, nil
}

// lines cuts the stream into lines and parses each. A line feed cannot stand
// inside a JSON value unescaped, so the cut needs no parsing.
func (r *jsonlReader) lines(ctx context.Context, in io.Reader) error {
	buf := make([]byte, 0, readSize)
	start := true
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if cap(buf)-len(buf) < readSize/2 {
			grown := make([]byte, len(buf), 2*cap(buf))
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(in, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return err
		}
		if start {
			buf = bytes.TrimPrefix(buf, []byte("\ufeff"))
			start = false
		}
		rest, err := r.whole(buf, end)
		if err != nil {
			return err
		}
		if end {
			return r.flush()
		}
		if len(rest) > maxLine {
			return &InputError{File: r.s.file, Line: r.s.line + 1, Msg: fmt.Sprintf("the line is longer than %d bytes", maxLine)}
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
	}
}

// whole parses the whole lines at the front of b and gives what is left of it;
// at the end of the stream the last line needs no line feed.
func (r *jsonlReader) whole(b []byte, end bool) ([]byte, error) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if err := r.line(b[:i]); err != nil {
			return nil, err
		}
		b = b[i+1:]
	}
	if !end || len(b) == 0 {
		return b, nil
	}
	return nil, r.line(b)
}

func (r *jsonlReader) line(b []byte) error {
	s := &r.s
	s.line++
	s.b, s.p = b, 0
	s.space()
	if s.p == len(b) {
		return nil
	}
	if b[s.p] != '{' {
		return s.mistyped("", "a line takes a JSON object")
	}
	if err := r.row.parse(s); err != nil {
		return err
	}
	s.space()
	if s.p < len(b) {
		return s.fail("", b[s.p:], "there is more on the line behind the object")
	}
	return r.add(s.line, len(b))
}

// add counts the row that was read into the builder from size bytes at a line.
func (r *batcher) add(line int64, size int) error {
	r.file.place(r.file.Rows, line)
	r.file.Rows++
	r.n++
	r.bytes += size
	if r.n == BatchRows || r.bytes >= batchBytes {
		return r.flush()
	}
	return nil
}

// flush ends the batch being built, if it has rows.
func (r *batcher) flush() error {
	if r.n == 0 {
		return nil
	}
	rec := r.bld.NewRecordBatch()
	if r.s.maps > 0 {
		if i, column, key := duplicateMapKey(rec); i >= 0 {
			return &InputError{File: r.s.file, Line: r.file.Line(r.first + int64(i)), Column: column, Value: key, Msg: "the key stands twice in one map"}
		}
	}
	r.file.Records = append(r.file.Records, rec)
	r.first += int64(r.n)
	r.n, r.bytes, r.s.maps = 0, 0, 0
	return nil
}
