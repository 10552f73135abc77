// Package driver is the seam between package blobstore, which checks keys and
// names errors, and the stores behind it. Its types are exported to others as
// aliases by blobstore.
package driver

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// ErrNotFound is in the chain of an error which says that an object is not
// there. Drivers return it, or wrap it, only when that is certain.
var ErrNotFound = errors.New("object not found")

// ErrChanged is in the chain of an error of a reader whose object was replaced
// after it was opened.
var ErrChanged = errors.New("object was replaced while it was read")

// Outcome is what became of a Create.
type Outcome uint8

const (
	// Unknown means that the object may exist now with our bytes, may come to exist
	// later, or may not; durable or not. It always comes with an error. NB: the zero
	// value, so that a forgotten outcome never counts as success (I4).
	Unknown Outcome = iota
	// Created means that the object was absent, now has our bytes, and is durable.
	Created
	// Exists means that the object was there; nothing was written. It is not told
	// whose it is: a repeated put can meet its own earlier bytes (R8).
	Exists
	// NotDone means that nothing was written and nothing will be. It always comes
	// with an error that says why.
	NotDone
)

// String returns created, exists, not done or unknown.
func (o Outcome) String() string {
	switch o {
	case Unknown:
	case Created:
		return "created"
	case Exists:
		return "exists"
	case NotDone:
		return "not done"
	}
	return "unknown"
}

// Info describes one object.
type Info struct {
	// Key is the object's full key in its store.
	Key string
	// Size is in bytes.
	Size int64
	// ModTime is when the store says the object was last written.
	ModTime time.Time
	// ETag changes when the object's bytes do; "" if the store has none.
	ETag string
}

// Reader reads one object at random. ReadAt is safe for concurrent use, and
// fails or goes on with the same object if the key is replaced meanwhile.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size is the object's size in bytes.
	Size() int64
}

// Writer writes one object in order. Exactly one of Close and Abort ends it.
type Writer interface {
	io.Writer
	// Close makes the object durable and visible under its key. After an error
	// the object may be visible or not, and no temporary is left as far as that
	// could be helped.
	Close() error
	// Abort drops what was written; nothing becomes visible.
	Abort() error
}

// Driver stores objects under keys. The caller, blobstore.Store, passes only
// valid keys and ranges and adds the step and the key to errors. All methods are
// safe for concurrent use by goroutines and by processes.
type Driver interface {
	// Read returns n bytes from off, fewer only where the object ends; n < 0 is
	// up to the end. An off at or past the end gives none.
	Read(ctx context.Context, key string, off, n int64) ([]byte, error)
	// OpenReader opens an object. size is what the caller believes its size to
	// be, -1 if it does not know; a driver may spare a request with it. Who gives a
	// size says too that the key is written once: a driver may give what it read of
	// an object of that key and size before. A wrong size does no harm.
	OpenReader(ctx context.Context, key string, size int64) (Reader, error)
	// Put writes the object whole, replacing what is there at once; it is durable
	// when Put returns nil. A reader sees the old or the new object, never parts.
	Put(ctx context.Context, key string, data []byte) error
	// Create writes the object whole if, atomically, there is none. The error is
	// nil with Created and Exists and only with them.
	Create(ctx context.Context, key string, data []byte) (Outcome, error)
	// NewWriter starts an object under a key that nothing else writes.
	NewWriter(ctx context.Context, key string) (Writer, error)
	// List yields the objects whose keys begin with prefix and are not below
	// from, in ascending bytewise order of keys. A prefix without objects gives
	// none. The first error ends it.
	List(ctx context.Context, prefix, from string) iter.Seq2[Info, error]
	// Stat describes one object.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes an object; none being there is no error.
	Delete(ctx context.Context, key string) error
}

// Describer is a [Driver] that reads an object and describes it in one request.
type Describer interface {
	// ReadInfo returns all bytes of an object, and the object's description.
	ReadInfo(ctx context.Context, key string) ([]byte, Info, error)
}

// Distant is a [Driver] that may be behind a network.
type Distant interface {
	// Distant reports whether a request costs a round trip, so that it is worth
	// while to save requests and to make many at once.
	Distant() bool
}

// SingleWriter is a [Driver] that may write without conditions because its
// user vouched for it ([Config.UnsafeSingleWriter]).
type SingleWriter interface {
	// SingleWriter reports whether commits are made without the store's own
	// mutual exclusion.
	SingleWriter() bool
}

// Range is a part of an object: N bytes from Off on.
type Range struct{ Off, N int64 }

// Prefetcher is a [Reader] that can fetch ranges before they are read.
type Prefetcher interface {
	// Prefetch starts to fetch ranges that will be read soon, in the order given,
	// near ones together, and returns at once. It is a hint: errors come with the
	// reads. What was prefetched and is read once may be dropped.
	Prefetch(ranges []Range)
}
