package deltatable

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
	"github.com/deltafold/deltafold/internal/ordered"
)

// Version is the number of a commit; the first is 0.
type Version = deltalog.Version

// The actions of a log entry, as PROTOCOL.md "Actions" names them. Those that
// come out of a Snapshot or an Entry are shared and must not be modified.
type (
	// Action is one line of a log entry: exactly one member is set.
	Action = action.Action
	// Add puts a logical file into the table.
	Add = action.Add
	// Remove takes a logical file out of the table.
	Remove = action.Remove
	// FileKey is the identity of a logical file: path as written, and deletion vector (I3).
	FileKey = action.FileKey
	// Metadata is the table's schema, partitioning and properties.
	Metadata = action.Metadata
	// Protocol names what a client must be able to do.
	Protocol = action.Protocol
	// Txn is a transaction identifier: application and version.
	Txn = action.Txn
	// DomainMetadata is a named configuration of a feature or application.
	DomainMetadata = action.DomainMetadata
	// CommitInfo tells where a commit came from.
	CommitInfo = action.CommitInfo
	// DeletionVector describes the deletion vector of a logical file.
	DeletionVector = action.DeletionVector
)

// Bounds is what statistics know of one column in one file or row group.
type Bounds = ordered.Bounds

// Schema is a Delta schema with its field metadata.
type Schema = schema.Schema

// ParseDDL reads a schema from text such as 'a long, b string not null'.
// Errors give the position.
func ParseDDL(text string) (*Schema, error) { return schema.ParseDDL(text) }

// ParseSchema reads a schema from the JSON of a metaData action's schemaString.
func ParseSchema(schemaString string) (*Schema, error) { return schema.Parse(schemaString) }

// RemoveOf is the remove action that takes a out of the table: path and
// deletion vector copied to the byte, with extended file metadata.
func RemoveOf(a *Add, at time.Time, dataChange bool) *Remove {
	return action.RemoveOf(a, at, dataChange)
}

// Options are the settings of a Table. The nil *Options and every zero field
// mean the defaults.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Engine is written as commitInfo.engineInfo. Default "deltafold".
	Engine string
	// Workers bounds parallel reads of one call. Default 4; 8 where the store is distant.
	Workers int
	// Undecided bounds how long a commit whose outcome is unknown is put again
	// (R8). Default: 12 attempts within 2 minutes.
	Undecided *Retry
	// Open opens the stores beside the table's own: those that absolute paths of
	// its actions lie in. url has one scheme for the spellings of an object store: s3
	// for s3a and s3n, gs for gcs, azblob for az, abfss for abfs, wasb and wasbs.
	// Default blobstore.Open.
	Open func(ctx context.Context, url string) (*blobstore.Store, error)
}

// Retry bounds attempts. The nil *Retry and zero fields mean the defaults:
// 100 attempts within 5 minutes. Safe for concurrent use.
type Retry struct {
	// Max is the number of attempts, the first included.
	Max int
	// For is the time from the first attempt after which no further one begins.
	For time.Duration
	// Sleep waits for d or until ctx is done. Default: a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

const (
	defaultMaxRetries = 100
	defaultRetryFor   = 5 * time.Minute
	firstWait         = 10 * time.Millisecond
	longestWait       = 5 * time.Second
)

// Wait sleeps before attempt number attempt+1, attempt counted from 1: a
// random time that grows with attempt, 10 ms to 5 s. It returns ctx's error
// if ctx ends first.
func (r *Retry) Wait(ctx context.Context, attempt int) error {
	limit := longestWait
	if attempt < 10 {
		limit = min(limit, firstWait<<max(attempt-1, 0))
	}
	d := limit/2 + rand.N(limit/2+1)
	if r != nil && r.Sleep != nil {
		return r.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Spent says whether no further attempt is allowed after attempts, the first
// of which began since ago.
func (r *Retry) Spent(attempts int, since time.Duration) bool {
	limit, during := defaultMaxRetries, defaultRetryFor
	if r != nil && r.Max > 0 {
		limit = r.Max
	}
	if r != nil && r.For > 0 {
		during = r.For
	}
	return attempts >= limit || since >= during
}
