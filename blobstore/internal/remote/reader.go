package remote

import (
	"context"
	"io"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// reader reads one object by one request a call.
type reader struct {
	ctx  context.Context //nolint:containedctx // the driver's contract: it holds for the reader's life
	s    *store
	info driver.Info
}

// OpenReader is [driver.Driver]'s.
func (s *store) OpenReader(ctx context.Context, key string, _ int64) (driver.Reader, error) {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	return &reader{ctx: ctx, s: s, info: info}, nil
}

// Size is [driver.Reader]'s.
func (r *reader) Size() int64 { return r.info.Size }

// ReadAt is [io.ReaderAt]'s.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.info.Size {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	data, _, err := r.s.fetch(r.ctx, r.info.Key, driver.Range{Off: off, N: int64(len(p))}, r.info.ETag)
	if err != nil {
		return 0, err
	}
	n := copy(p, data)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close is [driver.Reader]'s.
func (r *reader) Close() error { return nil }
