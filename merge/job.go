package merge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// Batch is the input of one run (merge-semantics 1, "batch"): rows in Arrow, in
// the types of the target's columns.
type Batch struct {
	// Name is a label for people.
	Name string
	// Digest is the SHA-256 of the multiset of the rows, lower-case hex.
	Digest string
	// Schema is the schema of every record: columns in any order, spelled as in
	// the table where they are the table's.
	Schema *arrow.Schema
	// Files are the input files in the order in which they were given.
	Files []InputFile
}

// InputFile is one file of a batch.
type InputFile struct {
	// Name is the file's name as messages and outcomes give it.
	Name string
	// Records hold the file's rows in order. They are not changed.
	Records []arrow.RecordBatch
	// Present has the columns that the file has at all; a column of the schema
	// that no file has is all NULL in the records.
	Present map[string]bool
}

// NewTable is what a run creates when the table is absent.
type NewTable struct {
	Metadata *deltatable.Metadata
	Protocol *deltatable.Protocol
}

// Attempt is one try at committing, as the BeforeCommit hook sees it.
type Attempt struct {
	// Version is the version that the commit will have if it lands.
	Version deltatable.Version
	// Read is the version that the decisions were made on; nil for a new table.
	Read *deltatable.Version
	// Outcomes are the rows' outcomes, one slice a file, one element a row.
	Outcomes [][]change.Outcome
}

// Recorded is what the BeforeCommit hook gives back.
type Recorded struct {
	// Tags are added to the tags of the commit's commitInfo.
	Tags map[string]string
	// Discard is called when the attempt is known not to have landed; nil for
	// nothing to do. It works as well as it can and reports nothing.
	Discard func(ctx context.Context)
}

// Job is one run of the guarded merge. It is read, never changed, and serves
// one call of Run.
type Job struct {
	// Table is the target. Read is the snapshot on which Roles were derived and
	// the batch was read; nil if the table is absent, and then Create is needed.
	Table  *deltatable.Table
	Read   *deltatable.Snapshot
	Create *NewTable

	Batch *Batch
	Roles *change.Roles

	// Dropped has, for each row of the batch over all files, the outcome of a row
	// that an expectation dropped, "" for others; nil: none is dropped. Such a row
	// is as if the source had never produced it (merge-semantics 4).
	Dropped []change.Outcome
	// FailOnInvalid refuses a batch that holds an invalid row.
	FailOnInvalid bool
	// MissingAsNull takes a payload column that no file has as NULL.
	MissingAsNull bool
	// NoCheck are validity checks switched off for this run besides those that
	// the table remembers.
	NoCheck []change.Check
	// Identifier is the batch's transaction identifier, nil for none
	// (merge-semantics 6).
	Identifier *deltatable.Txn

	// RunID identifies the run; it is the commit's txnId for all attempts (R7).
	RunID string
	// Tags are added to the tags of the commit's commitInfo.
	Tags map[string]string
	// BeforeCommit is called after an attempt's final decisions and before its
	// commit; nil for nothing to do. An error ends the run.
	BeforeCommit func(ctx context.Context, a *Attempt) (*Recorded, error)

	// Retry bounds the attempts (R9); nil is the default of deltatable.
	Retry *deltatable.Retry
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Workers bounds the files worked on at once; 0 is the number of processors.
	Workers int
	// CheckRetries plans every retry anew as well and fails the run if the two
	// differ: an assertion for tests, at the price of a full probe.
	CheckRetries bool
}

// Result is what a run did.
type Result struct {
	// Outcomes are the rows' outcomes, one slice a file, one element a row.
	Outcomes [][]change.Outcome
	// Counts are the numbers of rows by outcome.
	Counts change.Counts
	// Version is the version that was made, nil if there was nothing to commit.
	Version *deltatable.Version
	// Landed is the commit, for Table.AfterCommit; nil where Version is.
	Landed *deltatable.Landed
	// Read is the version that the decisions were made on; nil for a new table.
	Read *deltatable.Version
	// Created says that the commit made the table.
	Created bool
	// AlreadyApplied says that the batch's identifier was recorded already.
	AlreadyApplied bool
	// Retries is the number of commits that were lost to other writers.
	Retries int
	// Stats say how much work it was.
	Stats Stats
	// AllPairs says that a statement's ON has no equality between target and source,
	// so that every pair of rows was compared.
	AllPairs bool
}

// Stats are figures of the landed attempt, in files, row groups and rows.
type Stats struct {
	FilesLive, FilesProbed      int
	RowGroupsRead, RowsProbed   int64
	FilesAdded, FilesRemoved    int
	Inserted, Updated, Deleted  int64
	Copied                      int64
	BytesAdded, BytesRemoved    int64
	OutputsKept, OutputsRebuilt int
}

// ErrTableChanged says that another writer changed the schema, the protocol or
// the properties, or created the table: the batch has to be read and planned
// again from the beginning (R5).
var ErrTableChanged = errors.New("the table's schema, protocol or properties were changed by another writer")

// RefusedError says that the rules refuse the batch as a whole; nothing was
// committed.
type RefusedError struct {
	// Reason is one sentence.
	Reason string
	// Culprits is the number of rows that caused it.
	Culprits int64
}

// Error gives the reason.
func (e *RefusedError) Error() string { return "batch refused: " + e.Reason }

// TargetError says that stored rows of the batch's keys break the rules of a
// state table (merge-semantics 1): nothing was written.
type TargetError struct {
	// Reason is what is wrong, Keys the first keys it is wrong with.
	Reason string
	Keys   []string
}

// Error gives the reason and the keys.
func (e *TargetError) Error() string {
	return fmt.Sprintf("the table breaks the rules of a state table: %s: %s", e.Reason, strings.Join(e.Keys, ", "))
}

func (j *Job) off(c change.Check) bool {
	for _, n := range j.NoCheck {
		if n == c {
			return true
		}
	}
	return j.Roles.Off(c)
}

func (j *Job) now() time.Time {
	if j.Now != nil {
		return j.Now()
	}
	return time.Now() //nolint:forbidigo // the default of the clock option
}
