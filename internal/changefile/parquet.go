package changefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// sizedReaderAt is what a Source may return to be read in ranges.
type sizedReaderAt interface {
	io.ReaderAt
	Size() int64
}

// readParquet reads the whole file, one row group after the other.
func readParquet(ctx context.Context, name string, in io.Reader, o *Options) (f *File, err error) {
	ra, err := readerAt(in)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	// arrow-go panics on some damaged files; damage is an input error. What the
	// store or the context ended is neither.
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, &InputError{File: name, Msg: fmt.Sprintf("damaged Parquet file: %v", p)}
		}
		if below := ra.failure(); err != nil && below != nil {
			f, err = nil, fmt.Errorf("read %s: %w", name, below)
		} else if err != nil && ctx.Err() != nil {
			f, err = nil, fmt.Errorf("read %s: %w", name, ctx.Err())
		}
	}()
	pf, err := file.NewParquetReader(ra)
	if err != nil {
		return nil, &InputError{File: name, Msg: "no readable Parquet file: " + err.Error()}
	}
	defer pf.Close() // the Source's reader is closed by Read
	pr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: BatchRows}, memory.DefaultAllocator)
	if err != nil {
		return nil, &InputError{File: name, Msg: "no readable Parquet file: " + err.Error()}
	}
	fs, err := pr.Schema()
	if err != nil {
		return nil, &InputError{File: name, Msg: "no readable Parquet file: " + err.Error()}
	}
	p, err := planParquet(name, fs, o)
	if err != nil {
		return nil, err
	}
	rr, err := pr.GetRecordReader(ctx, nil, nil)
	if err != nil {
		return nil, &InputError{File: name, Msg: "no readable Parquet file: " + err.Error()}
	}
	defer rr.Release()
	for rr.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.add(rr.RecordBatch()); err != nil {
			return nil, err
		}
	}
	if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
		return nil, &InputError{File: name, Line: p.file.Rows + 1, Msg: "unreadable Parquet data at or after this row: " + err.Error()}
	}
	if n := pf.NumRows(); n != p.file.Rows {
		return nil, &InputError{File: name, Msg: fmt.Sprintf("damaged Parquet file: its footer counts %d rows, its columns hold %d", n, p.file.Rows)}
	}
	return p.file, nil
}

// readerAt makes a seekable reader of in, in ranges where it can.
func readerAt(in io.Reader) (*watchedReader, error) {
	if r, ok := in.(sizedReaderAt); ok {
		return watch(r, r.Size()), nil
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return watch(bytes.NewReader(data), int64(len(data))), nil
}

// watchedReader remembers the first error of the reader below, to tell a store
// that fails from a file that is damaged.
type watchedReader struct {
	*io.SectionReader
	below watchedAt
}

type watchedAt struct {
	io.ReaderAt
	mu  sync.Mutex
	err error
}

func watch(r io.ReaderAt, size int64) *watchedReader {
	w := &watchedReader{below: watchedAt{ReaderAt: r}}
	w.SectionReader = io.NewSectionReader(&w.below, 0, size)
	return w
}

func (w *watchedAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := w.ReaderAt.ReadAt(p, off)
	if err != nil && err != io.EOF {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = err
		}
	}
	return n, err
}

func (w *watchedReader) failure() error {
	w.below.mu.Lock()
	defer w.below.mu.Unlock()
	return w.below.err
}

// parquetPlan knows which column of the file fills which column of the batch.
type parquetPlan struct {
	sch   *arrow.Schema
	from  []int // by column of sch: column of the file, or -1
	convs []*converter
	zone  *timeReader
	file  *File
}

func planParquet(name string, fs *arrow.Schema, o *Options) (*parquetPlan, error) {
	fail := func(column, format string, args ...any) error {
		return &InputError{File: name, Column: column, Msg: fmt.Sprintf(format, args...)}
	}
	folded, err := foldNames(fs.Fields())
	if err != nil {
		return nil, fail("", "%s", err)
	}
	p := &parquetPlan{zone: &timeReader{o.Zone}, file: &File{Name: name, Present: map[string]bool{}}}
	want := o.Schema
	if want == nil {
		fields := make([]arrow.Field, fs.NumFields())
		for i, f := range fs.Fields() {
			t, err := canonicalType(f.Type)
			if err != nil {
				return nil, fail(f.Name, "%s", err)
			}
			fields[i] = arrow.Field{Name: f.Name, Type: t}
		}
		want = arrow.NewSchema(fields, nil)
	}
	if _, err := foldNames(want.Fields()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	p.sch = nullable(want)
	used := make([]bool, fs.NumFields())
	for _, f := range p.sch.Fields() {
		i, ok := folded[strings.ToLower(f.Name)]
		if !ok {
			p.from, p.convs = append(p.from, -1), append(p.convs, nil)
			continue
		}
		used[i] = true
		c, err := newConverter(fs.Field(i).Type, f.Type, f.Name, &conversion{zone: p.zone, allowUnknown: o.AllowUnknown})
		if err != nil {
			return nil, fail(f.Name, "%s", err)
		}
		p.from, p.convs = append(p.from, i), append(p.convs, c)
		p.file.Present[f.Name] = true
	}
	for i, u := range used {
		if !u && !o.AllowUnknown {
			return nil, fail(fs.Field(i).Name, "unknown field")
		}
	}
	return p, nil
}

// add converts one batch of the file and appends it.
func (p *parquetPlan) add(rec arrow.RecordBatch) error {
	cols := make([]arrow.Array, len(p.from))
	n := int(rec.NumRows())
	if n == 0 {
		return nil
	}
	for k, i := range p.from {
		if i < 0 {
			cols[k] = array.MakeArrayOfNull(memory.DefaultAllocator, p.sch.Field(k).Type, n)
			continue
		}
		arr, err := p.convs[k].convert(rec.Column(i))
		if err != nil {
			var ce *convertError
			if errors.As(err, &ce) {
				return &InputError{File: p.file.Name, Line: p.file.Rows + int64(ce.row) + 1, Column: ce.column, Value: excerpt([]byte(ce.value)), Msg: ce.msg}
			}
			return fmt.Errorf("read %s: column %s: %w", p.file.Name, p.sch.Field(k).Name, err)
		}
		cols[k] = arr
	}
	out := array.NewRecordBatch(p.sch, cols, int64(n))
	if i, column, key := duplicateMapKey(out); i >= 0 {
		return &InputError{File: p.file.Name, Line: p.file.Rows + int64(i) + 1, Column: column, Value: key, Msg: "the key stands twice in one map"}
	}
	for from := 0; from < n; from += BatchRows {
		p.file.Records = append(p.file.Records, out.NewSlice(int64(from), int64(min(from+BatchRows, n))))
	}
	p.file.Rows += int64(n)
	return nil
}
