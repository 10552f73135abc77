// Package memstore keeps objects in memory, for tests. It is the plainest
// implementation of the driver's contract; "durable" means until the process
// ends.
package memstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// Store is a [driver.Driver] in memory.
type Store struct {
	mu      sync.RWMutex
	objects map[string]object
	writes  int64 // counts writes, for ETags
}

// object is immutable.
type object struct {
	data []byte
	info driver.Info
}

// New returns an empty store.
func New() *Store { return &Store{objects: map[string]object{}} }

func (s *Store) find(key string) (object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[key]
	if !ok {
		return object{}, driver.ErrNotFound
	}
	return o, nil
}

// set stores data, which it keeps; the lock is held.
func (s *Store) set(key string, data []byte) {
	s.writes++
	now := time.Now() //nolint:forbidigo // the clock of the store itself, which no caller sets
	s.objects[key] = object{data: data, info: driver.Info{
		Key: key, Size: int64(len(data)), ModTime: now, ETag: strconv.FormatInt(s.writes, 10),
	}}
}

// Read is [driver.Driver]'s.
func (s *Store) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o, err := s.find(key)
	if err != nil {
		return nil, err
	}
	data := o.data[min(off, int64(len(o.data))):]
	if n >= 0 && n < int64(len(data)) {
		data = data[:n]
	}
	return slices.Clone(data), nil
}

type reader struct {
	*bytes.Reader
}

func (reader) Close() error { return nil }

// OpenReader is [driver.Driver]'s.
func (s *Store) OpenReader(ctx context.Context, key string, _ int64) (driver.Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o, err := s.find(key)
	if err != nil {
		return nil, err
	}
	return reader{bytes.NewReader(o.data)}, nil
}

// Put is [driver.Driver]'s.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, bytes.Clone(data))
	return nil
}

// Create is [driver.Driver]'s.
func (s *Store) Create(ctx context.Context, key string, data []byte) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.NotDone, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[key]; ok {
		return driver.Exists, nil
	}
	s.set(key, bytes.Clone(data))
	return driver.Created, nil
}

type writer struct {
	ctx  context.Context //nolint:containedctx // the driver's contract: it holds for the writer's life
	s    *Store
	key  string
	data []byte
}

// NewWriter is [driver.Driver]'s.
func (s *Store) NewWriter(ctx context.Context, key string) (driver.Writer, error) {
	return &writer{ctx: ctx, s: s, key: key}, ctx.Err()
}

func (w *writer) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	w.data = append(w.data, p...)
	return len(p), nil
}

func (w *writer) Close() error { return w.s.Put(w.ctx, w.key, w.data) }

func (w *writer) Abort() error {
	w.data = nil
	return nil
}

// List is [driver.Driver]'s.
func (s *Store) List(ctx context.Context, prefix, from string) iter.Seq2[driver.Info, error] {
	return func(yield func(driver.Info, error) bool) {
		s.mu.RLock()
		keys := slices.Sorted(maps.Keys(s.objects))
		s.mu.RUnlock()
		first, _ := slices.BinarySearch(keys, max(prefix, from))
		for _, key := range keys[first:] {
			if !strings.HasPrefix(key, prefix) {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(driver.Info{}, err)
				return
			}
			info, err := s.Stat(ctx, key)
			if errors.Is(err, driver.ErrNotFound) {
				continue // deleted meanwhile
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Stat is [driver.Driver]'s.
func (s *Store) Stat(ctx context.Context, key string) (driver.Info, error) {
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	o, err := s.find(key)
	return o.info, err
}

// Delete is [driver.Driver]'s.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}

var _ io.ReaderAt = reader{}
