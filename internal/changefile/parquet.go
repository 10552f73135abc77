package changefile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

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
	p, err := planColumns(name, fs, o)
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
