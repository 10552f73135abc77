package changefile

import (
	"bytes"
	"context"
	"io"
	"os"
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

type sizedFile struct {
	*os.File
	size int64
}

func (f *sizedFile) Size() int64 { return f.size }
