package remote

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// Bucket is what one cloud's package implements: single attempts, without a
// retry of its own or of its SDK. Keys are full keys in the bucket, taken as
// they are. Every error is an [*Error], so that its class is known. Safe for
// concurrent use.
type Bucket interface {
	// Get starts to read an object from part.Off on, part.N bytes or, if that is
	// negative, all; if part.Off is negative, its last -part.Off bytes. Fewer come
	// only where the object ends; a range at or past the end gives an empty body.
	// If etag is not "", an object with another one is an error of class Changed.
	// The caller closes the body. Info is that of the whole object.
	Get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (driver.Info, error)
	// Put writes an object whole in one request; under IfAbsent only if there is
	// none, decided by the store: class Exists if there is one.
	Put(ctx context.Context, key string, data []byte, c Condition) error
	// List returns one page of the objects whose keys begin with prefix, in
	// ascending bytewise order of keys, from the first one that is not below from
	// on ("" for all), and the token of the next page, "" if this is the last.
	List(ctx context.Context, prefix, from, token string) (page []driver.Info, next string, err error)
	// Delete removes an object; none being there is no error.
	Delete(ctx context.Context, key string) error
	// StartUpload starts to write an object in parts. Nothing is visible before
	// Complete.
	StartUpload(ctx context.Context, key string) (Upload, error)
}

// Condition is what a put asks of what is there.
type Condition uint8

// The conditions of a put.
const (
	Always   Condition = iota // replace what is there
	IfAbsent                  // write only if nothing is there
)

// Upload is an object being written in parts. Part may be called concurrently
// and again for the same number after an error, which replaces the part.
type Upload interface {
	// Part sends one part; numbers begin at 1 and all parts but the last have the
	// size that the bucket asked for.
	Part(ctx context.Context, number int, data []byte) error
	// Complete makes the object visible, of parts parts; it replaces what is there.
	Complete(ctx context.Context, parts int) error
	// Abort drops all parts.
	Abort(ctx context.Context) error
}

// Class says what a failed request means to who made it.
type Class uint8

// The classes of errors. The zero value is the one that promises nothing (I4).
const (
	Unclear   Class = iota // anything may have happened: a lost answer, a 5xx; repeat
	Throttled              // refused for now, nothing was done; repeat later
	Conflict               // another request to the object is under way (S3's 409), undecided; repeat
	NotFound               // the object is not there, for certain
	Exists                 // the condition of a put failed: an object is there
	Changed                // the object is not the one with the etag asked for
	Expired                // the credentials have expired; repeat once they were renewed
	Refused                // the store will not: permission, signature, bad request; final, nothing was done
)

// Error is a failed request.
type Error struct {
	Class     Class
	Status    int    // of HTTP; 0 if there was no answer
	Code      string // the store's own code, such as SlowDown
	RequestID string // as the store gave it, for its operator
	// RetryAfter is how long the store asked to wait; 0 if it did not.
	RetryAfter time.Duration
	Err        error // without secrets: no signed URL, no header
}

// Error names the status, the store's code and the request's id.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Code != "" && !strings.Contains(text, e.Code) {
		text = e.Code + ": " + text
	}
	if e.RequestID != "" && !strings.Contains(text, e.RequestID) {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Unwrap gives the SDK's error, and driver.ErrNotFound or driver.ErrChanged where
// that is certain.
func (e *Error) Unwrap() []error {
	switch e.Class { //nolint:exhaustive // the others are no classes of callers
	case NotFound:
		return []error{e.Err, driver.ErrNotFound}
	case Changed:
		return []error{e.Err, driver.ErrChanged}
	}
	return []error{e.Err}
}
