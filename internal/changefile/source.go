package changefile

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/deltafold/deltafold/blobstore"
)

// FromFile is the local file at path, under the name name.
func FromFile(name, path string) Source {
	return Source{Name: name, Open: func(context.Context) (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		st, err := f.Stat()
		if err != nil || !st.Mode().IsRegular() {
			return f, nil // pipes are read to their end, directories fail when read
		}
		return &sizedFile{f, st.Size()}, nil
	}}
}

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

// FromStore is the object under key in s, under the name name. Parquet is read
// from it in ranges.
func FromStore(name string, s *blobstore.Store, key string) Source {
	return Source{Name: name, Open: func(ctx context.Context) (io.ReadCloser, error) {
		info, err := s.Stat(ctx, key)
		if err != nil {
			return nil, err
		}
		r, err := s.OpenReader(ctx, key, info.Size)
		if err != nil {
			return nil, err
		}
		return &storeReader{r, io.NewSectionReader(r, 0, info.Size)}, nil
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
