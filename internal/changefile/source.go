package changefile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/deltafold/deltafold/blobstore"
)

// FromFile is the local file at path, under the name name.
func FromFile(name, path string) Source {
	return Source{Name: name, Open: func(context.Context) (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, unnamed(err)
		}
		st, err := f.Stat()
		if err != nil || !st.Mode().IsRegular() {
			return &stream{f}, nil // pipes are read to their end, directories fail when read
		}
		return &sizedFile{f, st.Size()}, nil
	}}
}

// unnamed is an error of the file system without the step and the name: whoever
// reads a source says both.
func unnamed(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// stream is what can only be read to its end.
type stream struct{ f *os.File }

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.f.Read(p)
	return n, unnamed(err)
}

func (s *stream) Close() error { return s.f.Close() }

// FromReader is what can be read from r, such as standard input, under the name
// name. It can be read once; r is not closed.
func FromReader(name string, r io.Reader) Source {
	return Source{Name: name, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(r), nil }}
}

// FromBytes is data under the name name; it can be read any number of times.
func FromBytes(name string, data []byte) Source {
	return Source{Name: name, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

// readAhead is how much of an object is asked for at once where it is read from
// its beginning: every request of an object store costs a round trip.
const readAhead = 8 << 20

// FromStore is the object under key in s, under the name name. Parquet and Arrow
// files are read from it in ranges, others in pieces of some MB.
func FromStore(name string, s *blobstore.Store, key string) Source {
	return Source{Name: name, Open: func(ctx context.Context) (io.ReadCloser, error) {
		r, err := s.OpenReader(ctx, key, -1)
		if err != nil {
			return nil, err
		}
		all := io.NewSectionReader(r, 0, r.Size())
		return &storeReader{r, bufio.NewReaderSize(all, int(min(r.Size(), readAhead)))}, nil
	}}
}

// storeReader reads an object from its beginning as well as by ranges.
type storeReader struct {
	*blobstore.Reader
	seq io.Reader
}

func (r *storeReader) Read(p []byte) (int, error) { return r.seq.Read(p) }

type sizedFile struct {
	*os.File
	size int64
}

func (f *sizedFile) Size() int64 { return f.size }
