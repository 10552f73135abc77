package changefile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
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
	if err := p.read(ctx, pr); err != nil {
		return nil, err
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
