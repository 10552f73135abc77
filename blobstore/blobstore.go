// Package blobstore keeps objects, whole sequences of bytes, under keys: the
// files of a table and of its log. A [Store] is a folder, memory, or a bucket of
// an object store whose package is linked in.
//
// What a Delta log needs of its store is here and nothing else: reading whole or
// by ranges, writing whole, listing in key order from a key on, and creating an
// object only if it is absent ([Store.Create]), which decides who writes a
// version (PROTOCOL.md "Delta Log Entries"; I1).
//
// # Keys
//
// A key is a relative path with '/' between its non-empty parts, any valid UTF-8
// (%, ?, #, spaces and backslashes included) without NUL and without the parts
// "." and "..". Stores take keys as they are: nothing is escaped or decoded. In a
// folder the key is the file's name. Parts that begin with ".deltafold-tmp-" are
// the file store's own.
//
// # Errors
//
// Errors name the step and the key. [ErrNotFound] and [ErrChanged] are the classes
// that callers tell apart; anything else is a failure that says nothing of the object
// (I4).
// What became of a Create is told by its [Outcome], never by its error.
//
// # Caveats
//
// A file store asks the file system for link(2) or renameat2(2) and for fsync to
// mean what they say; file systems that have neither call refuse Create by name.
package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/filestore"
)

// ErrNotFound is in the chain of an error which says, with certainty, that an
// object is not there.
var ErrNotFound = driver.ErrNotFound

// ErrChanged is in the chain of an error which says that an object was replaced
// after the [Reader] was opened: it can be opened anew.
var ErrChanged = driver.ErrChanged

// Outcome is what became of a [Store.Create]; its zero value is [Unknown].
type Outcome = driver.Outcome

const (
	// Unknown means that the object may be there with our bytes, may come to be
	// there later, or may not. It comes with an error.
	Unknown = driver.Unknown
	// Created means that the object was absent, now has our bytes, and is durable.
	Created = driver.Created
	// Exists means that the object was there already, and nothing was written.
	Exists = driver.Exists
	// NotDone means that nothing was written and nothing will be. It comes with an
	// error.
	NotDone = driver.NotDone
)

// Info describes an object: Key, Size in bytes, ModTime, and ETag ("" if the
// store has none).
type Info = driver.Info

// Driver is what a store's package implements; see [Register]. Use it through
// [New], which checks keys and ranges and names errors.
type Driver = driver.Driver

// DriverReader is what a [Driver] opens for reading.
type DriverReader = driver.Reader

// DriverWriter is what a [Driver] opens for writing.
type DriverWriter = driver.Writer

// Config is what [OpenWith] takes beside a location.
type Config = driver.Config

// Stats counts requests to object stores; see [Config].
type Stats = driver.Stats

// Counts are the figures of [Stats].
type Counts = driver.Counts

// Request is a kind of request that [Stats] counts.
type Request = driver.Request

// The kinds of requests.
const (
	RequestGet    = driver.RequestGet
	RequestHead   = driver.RequestHead
	RequestPut    = driver.RequestPut
	RequestPart   = driver.RequestPart
	RequestList   = driver.RequestList
	RequestDelete = driver.RequestDelete
)

// Range is a part of an object: N bytes from Off on.
type Range = driver.Range

// NoConditionError is the refusal of a store that does not decide conditional
// puts; see [Config].
type NoConditionError = driver.NoConditionError

// LogStoreError is the refusal of a table that others write in a way that
// excludes only each other.
type LogStoreError = driver.LogStoreError

// Store is one root of objects. It is immutable and safe for concurrent use;
// there is nothing to close.
type Store struct {
	d    Driver
	base Driver // d without what Wrap put in between
	url  string
}

// New returns a store on d. url is what [Store.URL] returns.
func New(d Driver, url string) *Store { return &Store{d: d, base: d, url: url} }

// URL returns the store's canonical URL, without a slash at its end. [Open]
// opens the same store by it.
func (s *Store) URL() string { return s.url }

// SingleWriter reports whether the store creates objects without the store's own
// mutual exclusion, because it has none and [Config].UnsafeSingleWriter allows it.
// It is known after [Store.Prepare] or the first Create.
func (s *Store) SingleWriter() bool {
	d, ok := s.base.(driver.SingleWriter)
	return ok && d.SingleWriter()
}

// Prepare finds out whether log entries can be created here, as the first Create
// would: an object store that is not known to decide conditional puts is probed,
// and the log folder is searched for marks of writers that must not share a table
// with us. After a success further calls do nothing. Errors: *[NoConditionError],
// *[LogStoreError], or that it could not be found out.
func (s *Store) Prepare(ctx context.Context) error {
	d, ok := s.base.(driver.Preparer)
	if !ok {
		return nil
	}
	if err := d.Prepare(ctx); err != nil {
		return fmt.Errorf("prepare %s for commits: %w", s.url, err)
	}
	return nil
}

// Wrap returns a store on the same objects whose driver is wrap of this one's:
// the way to put counting, faults or delays in between.
func (s *Store) Wrap(wrap func(Driver) Driver) *Store {
	return &Store{d: wrap(s.d), base: s.base, url: s.url}
}

// Distant reports whether each request of the store costs a round trip to a
// server: callers make fewer and more of them at once then.
func (s *Store) Distant() bool {
	d, ok := s.d.(driver.Distant)
	return ok && d.Distant()
}

// GetInfo returns the whole object and its description, by one request where the
// store can; the description may be of an object that took its place otherwise.
func (s *Store) GetInfo(ctx context.Context, key string) ([]byte, Info, error) {
	const step = "read"
	if err := s.check(ctx, step, key); err != nil {
		return nil, Info{}, err
	}
	if d, ok := s.d.(driver.Describer); ok {
		data, info, err := d.ReadInfo(ctx, key)
		return data, info, s.named(step, key, err)
	}
	info, err := s.d.Stat(ctx, key)
	if err != nil {
		return nil, Info{}, s.named(step, key, err)
	}
	data, err := s.d.Read(ctx, key, 0, -1)
	return data, info, s.named(step, key, err)
}

// Get returns the whole object.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	const step = "read"
	if err := s.check(ctx, step, key); err != nil {
		return nil, err
	}
	data, err := s.d.Read(ctx, key, 0, -1)
	return data, s.named(step, key, err)
}

// GetRange returns n bytes of the object from byte off on, fewer only where the
// object ends; off at or past its end gives none.
func (s *Store) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	const step = "read"
	if err := s.check(ctx, step, key); err != nil {
		return nil, err
	}
	if off < 0 || n < 0 {
		return nil, s.named(step, key, fmt.Errorf("range of %d bytes from %d", n, off))
	}
	data, err := s.d.Read(ctx, key, off, n)
	return data, s.named(step, key, err)
}

// Reader reads one object at random: an [io.ReaderAt] that is safe for
// concurrent use. Whoever opened it closes it.
type Reader struct {
	r   DriverReader
	s   *Store
	key string
}

// OpenReader opens an object. size is what the caller believes its size in bytes
// to be (an add action or a listing says), -1 if unknown: a hint that spares object
// stores requests; a wrong one does no harm. Who gives a size says too that the key
// is written once: stores may give what they read of that key and size before, but
// never of a key in _delta_log. ctx holds for the reader's whole life.
func (s *Store) OpenReader(ctx context.Context, key string, size int64) (*Reader, error) {
	const step = "open"
	if err := s.check(ctx, step, key); err != nil {
		return nil, err
	}
	r, err := s.d.OpenReader(ctx, key, size)
	if err != nil {
		return nil, s.named(step, key, err)
	}
	return &Reader{r: r, s: s, key: key}, nil
}

// Size returns the object's size in bytes.
func (r *Reader) Size() int64 { return r.r.Size() }

// Prefetch starts to fetch ranges that will be read soon and returns at once:
// near ones are fetched together, several at once. A hint that stores may ignore;
// errors come with the reads.
func (r *Reader) Prefetch(ranges []Range) {
	if p, ok := r.r.(driver.Prefetcher); ok {
		p.Prefetch(ranges)
	}
}

// ReadAt is [io.ReaderAt]'s.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(p, off)
	if err == io.EOF { //nolint:errorlint // io.ReaderAt promises io.EOF itself
		return n, err
	}
	return n, r.s.named("read", r.key, err)
}

// Close releases the reader.
func (r *Reader) Close() error { return r.s.named("close", r.key, r.r.Close()) }

// Put writes the object whole and replaces what is there, at once: others see
// the old or the new object. It is durable when Put returns nil; after an error
// it may have happened or not.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	const step = "write"
	if err := s.check(ctx, step, key); err != nil {
		return err
	}
	return s.named(step, key, s.d.Put(ctx, key, data))
}

// Create writes the object whole if there is none under its key. Of any number
// of calls for one key, by goroutines, processes and machines, at most one
// creates it, and no one ever sees a part of it.
//
// The error is nil with [Created] and [Exists], and only with them. [Unknown]
// means what it says: a caller must neither go on as if it had been written nor
// as if it had not (R8). A context that ends before the object is published
// gives [NotDone] where the store can tell.
func (s *Store) Create(ctx context.Context, key string, data []byte) (Outcome, error) {
	const step = "create"
	if err := s.check(ctx, step, key); err != nil {
		return NotDone, err
	}
	outcome, err := s.d.Create(ctx, key, data)
	// Success is recognised positively; a driver that contradicts itself has not
	// said what it did.
	success := outcome == Created || outcome == Exists
	if err == nil && !success {
		return Unknown, s.named(step, key, fmt.Errorf("internal error: driver says %q without an error", outcome))
	}
	if err != nil && (success || outcome != NotDone) {
		outcome = Unknown
	}
	return outcome, s.named(step, key, err)
}

// Writer writes one object in order. It is not safe for concurrent use. Exactly
// one of Close and Abort must be called; after either the writer is finished,
// and a further Abort does nothing, so that it can be deferred.
type Writer struct {
	w    DriverWriter
	s    *Store
	key  string
	err  error // of the first Write that failed
	done bool
}

// NewWriter starts an object under a key that nothing else writes to (data files
// have unique names). It is not visible before Close. ctx holds for the writer's
// whole life: if it ends before Close publishes, nothing becomes visible.
func (s *Store) NewWriter(ctx context.Context, key string) (*Writer, error) {
	const step = "write"
	if err := s.check(ctx, step, key); err != nil {
		return nil, err
	}
	w, err := s.d.NewWriter(ctx, key)
	if err != nil {
		return nil, s.named(step, key, err)
	}
	return &Writer{w: w, s: s, key: key}, nil
}

// Write appends p to the object. After an error nothing more can be written.
func (w *Writer) Write(p []byte) (int, error) {
	if w.done {
		return 0, w.s.named("write", w.key, errFinished)
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.w.Write(p)
	w.err = w.s.named("write", w.key, err)
	return n, w.err
}

// Close makes the object durable and visible. After an error it may be visible
// or not; if a Write had failed, Close aborts and returns that error: half an
// object is never published.
func (w *Writer) Close() error {
	if w.done {
		return w.s.named("write", w.key, errFinished)
	}
	if w.err != nil {
		return errors.Join(w.err, w.Abort())
	}
	w.done = true
	return w.s.named("write", w.key, w.w.Close())
}

// Abort drops the object; nothing of it is left. After Close or Abort it does
// nothing and returns nil.
func (w *Writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	return w.s.named("abort", w.key, w.w.Abort())
}

var errFinished = errors.New("writer is finished")

// List yields the objects whose keys begin with prefix, which need not end at a
// '/', and are not below from ("" for all), in ascending bytewise order of their
// keys. It does not look at keys far below from. An object that comes or goes
// meanwhile may be yielded or not; one that was there all the time is. The first
// error ends the sequence.
func (s *Store) List(ctx context.Context, prefix, from string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range s.d.List(ctx, prefix, from) {
			if err != nil {
				yield(Info{}, s.named("list", prefix, err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Stat describes one object.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) {
	const step = "stat"
	if err := s.check(ctx, step, key); err != nil {
		return Info{}, err
	}
	info, err := s.d.Stat(ctx, key)
	return info, s.named(step, key, err)
}

// Delete removes an object. Deleting one that is not there is no error. After a
// power loss a deleted object may be back.
func (s *Store) Delete(ctx context.Context, key string) error {
	const step = "delete"
	if err := s.check(ctx, step, key); err != nil {
		return err
	}
	return s.named(step, key, s.d.Delete(ctx, key))
}

func (s *Store) named(step, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s/%s: %w", step, s.url, key, err)
}

func (s *Store) check(ctx context.Context, step, key string) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("%s in %s: %w", step, s.url, err)
	}
	return s.named(step, key, ctx.Err())
}

func checkKey(key string) error {
	if key == "" {
		return errors.New("key is empty")
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("key %q is not UTF-8", key)
	}
	if strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("key %q holds a NUL", key)
	}
	for part := range strings.SplitSeq(key, "/") {
		switch {
		case part == "":
			return fmt.Errorf("key %q has an empty part", key)
		case part == "." || part == "..":
			return fmt.Errorf("key %q has the part %q", key, part)
		case strings.HasPrefix(part, filestore.TempPrefix):
			return fmt.Errorf("key %q has a part that begins as temporary files do", key)
		}
	}
	return nil
}
