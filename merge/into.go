package merge

import (
	"context"
	"time"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/statement"
)

// IntoJob is one run of MERGE with clauses (merge-semantics 5). It is read,
// never changed, and serves one call of Into.
type IntoJob struct {
	// Table is the target, Read the snapshot that the statement starts from.
	Table *deltatable.Table
	Read  *deltatable.Snapshot
	// Statement says what to do; Source are the rows that it calls by the name of
	// its source.
	Statement *statement.Statement
	Source    *Batch
	// Dropped is as in Job.
	Dropped []change.Outcome
	// NoMatch says that ON is never true, whatever the rows: a statement that
	// deletes, updates or overwrites by its BY SOURCE clauses alone.
	NoMatch bool
	// Evolve adds columns that only the source has to the table.
	Evolve bool
	// Self says that the source was read from the target at Read: a retry, which
	// would need another version of it, fails (merge-semantics 5).
	Self bool
	// Zone is that of timestamps without one in the statement; nil refuses them.
	Zone *time.Location
	// At is what current_timestamp() and its kin are, over all attempts and calls of
	// one statement; zero is the clock's time.
	At time.Time
	// Operation and Parameters are what commitInfo says; "" for "MERGE" and the
	// statement's clauses.
	Operation  string
	Parameters map[string]string

	// The rest is as in Job.
	Identifier   *deltatable.Txn
	RunID        string
	Tags         map[string]string
	BeforeCommit func(ctx context.Context, a *Attempt) (*Recorded, error)
	Retry        *deltatable.Retry
	Now          func() time.Time
	Workers      int
	CheckRetries bool
}

// ValueError says that a value of the statement does not fit where it goes, or
// cannot be computed: nothing was committed.
type ValueError struct {
	// Where is the target file and row, or the source file and row.
	Where string
	Err   error
}

// Error gives the place and the reason.
func (e *ValueError) Error() string { return e.Where + ": " + e.Err.Error() }

// Unwrap gives the reason.
func (e *ValueError) Unwrap() error { return e.Err }

// CardinalityError says that target rows are matched by more than one source row
// for which an update or a delete applies (merge-semantics 5).
type CardinalityError struct {
	// Keys are the first of them, Rows how many there are as far as was read.
	Keys []string
	Rows int64
}

// Into carries a MERGE statement out as at most one commit. A *RefusedError, a
// *CardinalityError and a *ValueError come with the outcomes, as does an
// *deltatable.UndecidedError; with any other error the result is nil.
func Into(ctx context.Context, job *IntoJob) (*Result, error) {
	c, err := newClauses(job)
	if err != nil {
		return nil, err
	}
	res, err := c.engine.run(ctx)
	if res != nil {
		res.AllPairs = c.source.keys == nil && !job.NoMatch
	}
	return res, err
}

// now is the job's clock.
func (j *IntoJob) now() time.Time {
	if j.Now != nil {
		return j.Now()
	}
	return time.Now() //nolint:forbidigo // the default of the clock option
}

// Outcomes of source rows of a MERGE (merge-semantics 5).
const (
	outInserted  = change.Outcome("inserted")
	outUpdated   = change.Outcome("updated")
	outDeleted   = change.Outcome("deleted")
	outUnchanged = change.Outcome("matched_unchanged")
	outNone      = change.Outcome("not_matched")
)
