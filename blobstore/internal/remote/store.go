package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// store is a [driver.Driver] on a bucket.
type store struct {
	b       Bucket
	o       Options
	readers *readers

	mu       sync.Mutex // held while the store is probed and the log looked at
	decision decision
	logSeen  bool // CheckLog has let it pass
}

// New returns a driver on b. nil options are the defaults. The driver is also a
// [driver.SingleWriter] and a [driver.Preparer].
func New(b Bucket, o *Options) driver.Driver {
	s := &store{b: b, o: o.withDefaults()}
	s.readers = newReaders(s.fetch, s.o.Reading)
	return s
}

// Read is [driver.Driver]'s. A range of none is answered by describing the object.
func (s *store) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if n == 0 {
		_, err := s.Stat(ctx, key)
		return nil, err
	}
	data, _, err := s.fetch(ctx, key, driver.Range{Off: off, N: n}, "")
	return data, err
}

// fetch reads a part of an object whole, as [Bucket.Get] takes it, and describes
// the object. Bytes that are missing are never a success.
func (s *store) fetch(ctx context.Context, key string, part driver.Range, etag string) ([]byte, driver.Info, error) {
	var data []byte
	var info driver.Info
	err := s.task(driver.RequestGet, 0).run(ctx, func(ctx context.Context, alive func()) error {
		var err error
		data, info, err = s.fetchOnce(ctx, key, part, etag, alive)
		return err
	})
	if err != nil {
		return nil, driver.Info{}, err
	}
	info.Key = key
	return data, info, nil
}

func (s *store) fetchOnce(ctx context.Context, key string, part driver.Range, etag string, alive func()) (_ []byte, _ driver.Info, err error) {
	body, info, err := s.b.Get(ctx, s.o.Prefix+key, part, etag)
	if err != nil {
		return nil, info, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if info.Size < 0 {
		return nil, info, &Error{Err: fmt.Errorf("the answer says that the object has %d bytes", info.Size)}
	}
	want := length(part, info.Size)
	data, err := readAll(&living{body, alive}, want)
	n := len(data)
	s.o.Stats.Bytes(int64(n), 0)
	if err != nil {
		return nil, info, &Error{Err: fmt.Errorf("%d of %d bytes arrived: %w", n, want, err)}
	}
	extra, err := io.Copy(io.Discard, io.LimitReader(body, 1))
	switch {
	case err != nil:
		return nil, info, &Error{Err: fmt.Errorf("the end of %d bytes: %w", n, err)}
	case extra > 0:
		return nil, info, &Error{Err: fmt.Errorf("more than the %d bytes asked for arrived", n)}
	}
	return data, info, nil
}

// trusted is how many bytes are made room for because an answer says that they
// come. More are believed in when as many have come.
const trusted = 16 << 20

// readAll reads n bytes. What it takes of memory is bound by what arrives, not by
// what a server says.
func readAll(r io.Reader, n int64) ([]byte, error) {
	data := make([]byte, 0, min(n, trusted))
	for int64(len(data)) < n {
		if len(data) == cap(data) {
			more := make([]byte, len(data), min(n, 2*int64(len(data))))
			copy(more, data)
			data = more
		}
		k, err := io.ReadFull(r, data[len(data):cap(data)])
		data = data[:len(data)+k]
		if err != nil {
			return data, err
		}
	}
	return data, nil
}

// length is how many bytes a part of an object of size bytes has.
func length(part driver.Range, size int64) int64 {
	if part.Off < 0 {
		return min(-part.Off, size)
	}
	n := max(size-part.Off, 0)
	if part.N >= 0 {
		n = min(n, part.N)
	}
	return n
}

// living is a body whose every piece shows that the server is there.
type living struct {
	r     io.Reader
	alive func()
}

func (l *living) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	l.alive()
	return n, err
}

// Put is [driver.Driver]'s.
func (s *store) Put(ctx context.Context, key string, data []byte) error {
	return s.putting(data).run(ctx, func(ctx context.Context, _ func()) error {
		return s.put(ctx, key, data, Always)
	})
}

func (s *store) putting(data []byte) *task { return s.task(driver.RequestPut, int64(len(data))) }

func (s *store) put(ctx context.Context, key string, data []byte, c Condition) error {
	s.o.Stats.Bytes(0, int64(len(data)))
	return s.b.Put(ctx, s.o.Prefix+key, data, c)
}

// Stat is [driver.Driver]'s.
func (s *store) Stat(ctx context.Context, key string) (driver.Info, error) {
	var info driver.Info
	err := s.task(driver.RequestHead, 0).run(ctx, func(ctx context.Context, _ func()) error {
		var err error
		info, err = s.b.Head(ctx, s.o.Prefix+key)
		return err
	})
	if err != nil {
		return driver.Info{}, err
	}
	info.Key = key
	return info, nil
}

// Delete is [driver.Driver]'s.
func (s *store) Delete(ctx context.Context, key string) error {
	return s.task(driver.RequestDelete, 0).run(ctx, func(ctx context.Context, _ func()) error {
		return s.b.Delete(ctx, s.o.Prefix+key)
	})
}

// List is [driver.Driver]'s. Objects whose names are no keys of a store, as the
// empty ones that end in '/' and stand for folders, are left out. An order that
// is not that of bytes is an error: whoever reads the log relies on it.
func (s *store) List(ctx context.Context, prefix, from string) iter.Seq2[driver.Info, error] {
	return func(yield func(driver.Info, error) bool) {
		last := ""
		for page, err := range s.pages(ctx, prefix, from) {
			if err != nil {
				yield(driver.Info{}, err)
				return
			}
			for _, info := range page {
				if info.Key <= last {
					yield(driver.Info{}, fmt.Errorf("the store lists %q after %q: not in the order of bytes", info.Key, last))
					return
				}
				last = info.Key
				key, ours := strings.CutPrefix(info.Key, s.o.Prefix)
				if !ours || !isKey(key) || !strings.HasPrefix(key, prefix) || key < from {
					continue
				}
				info.Key = key
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// pages are the pages of a listing as the bucket gives them.
func (s *store) pages(ctx context.Context, prefix, from string) iter.Seq2[[]driver.Info, error] {
	if from != "" {
		from = s.o.Prefix + from
	}
	return func(yield func([]driver.Info, error) bool) {
		token, seen := "", ""
		for n := 1; ; n++ {
			page, next, err := s.page(ctx, s.o.Prefix+prefix, from, token)
			// A token that was kept at a power of two finds a ring of any length.
			if n&(n-1) == 0 {
				seen = token
			}
			if err == nil && next != "" && (next == token || next == seen) {
				err = errors.New("the store gives the same page of the listing again")
			}
			if !yield(page, err) || err != nil || next == "" {
				return
			}
			token = next
		}
	}
}

func (s *store) page(ctx context.Context, prefix, from, token string) (page []driver.Info, next string, err error) {
	err = s.task(driver.RequestList, 0).run(ctx, func(ctx context.Context, _ func()) error {
		var err error
		page, next, err = s.b.List(ctx, prefix, from, token)
		return err
	})
	return page, next, err
}

// isKey tells whether all parts of a name have something in them.
func isKey(name string) bool {
	return name != "" && !strings.HasPrefix(name, "/") && !strings.HasSuffix(name, "/") && !strings.Contains(name, "//")
}
