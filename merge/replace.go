package merge

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/keyset"
)

// ReplaceJob is one run of REPLACE USING (merge-semantics 4). It is read, never
// changed, and serves one call of Replace.
type ReplaceJob struct {
	// Table is the target. Read is the snapshot on which Roles were derived and the
	// batch was read; nil if the table is absent, and then Create is needed.
	Table  *deltatable.Table
	Read   *deltatable.Snapshot
	Create *NewTable
	// Batch has every column of the table.
	Batch *Batch
	Roles *change.ReplaceRoles
	// Dropped has, for each row of the batch over all files, the outcome of a row
	// that an expectation dropped, "" for others; nil: none is dropped. Such a row
	// is as if the source had never produced it.
	Dropped []change.Outcome

	// OwnIdentifier says that Identifier is one of ours: a batch that changes no row
	// does not record it.
	OwnIdentifier bool

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

// Replace folds the job's batch into its table as at most one commit. Results
// and errors are those of Run.
func Replace(ctx context.Context, job *ReplaceJob) (*Result, error) {
	r, err := newReplace(job)
	if err != nil {
		return refusedResult(fileRows(job.Batch), job.Read, err)
	}
	return r.engine.run(ctx)
}

// replacement is what becomes of a key (merge-semantics 4).
type replacement uint8

const (
	keyAdded    replacement = iota + 1 // not in the target
	keyReplaced                        // the batch's sequence is higher
	keyAppended                        // the sequences are equal
	keyStale                           // the batch's sequence is lower
)

func (r replacement) outcome() change.Outcome {
	return [...]change.Outcome{"", "added", "replaced", "appended", change.Stale}[r]
}

// replace is REPLACE USING as a mode. What a file holds of the batch's keys does
// not change while it is live; a retry looks at the added files only and decides
// each key again from all (R2, R3).
type replace struct {
	job    *ReplaceJob
	in     *input
	engine *engine
	target *target

	keys     *keyset.Table
	sequence [][]byte // by key: the highest of the batch
	owner    []int32  // by row: its key if it has the highest sequence; -1
	rows     []ref    // by row
	starts   []int32  // by key: where its rows begin in members
	members  []int32
	early    []change.Outcome
	sorted   [][][]byte
	hasNull  []bool // by key column: the batch has a NULL in it

	mu       sync.Mutex
	snap     *deltatable.Snapshot
	files    map[deltatable.FileKey]*heldKeys
	decided  []replacement
	changed  []bool // keys whose decision the last rebase changed
	ties     *ties  // of --ties ignore-identical, nil otherwise
	repeated []bool // rows that exist in the target exactly (--ties ignore-identical)
}

// heldKeys is what a file holds of the batch's keys.
type heldKeys struct {
	keys     []heldKey
	repeated formSet // forms of rows of the batch that it holds exactly, at the same sequence
}

type heldKey struct {
	id   int32
	rows int64
	top  []byte // the highest sequence, ordered form
}

func newReplace(job *ReplaceJob) (*replace, error) {
	layout, err := layoutOf(job.Read, job.Create)
	if err != nil {
		return nil, err
	}
	r := &replace{job: job}
	if err := emptyPartitionKeys(job, layout.PartitionColumns()); err != nil {
		return nil, err
	}
	if r.in, err = storedForm(job.Batch, layout.PartitionColumns()); err != nil {
		return nil, err
	}
	if r.in.keys, err = r.in.find(job.Roles.Keys); err != nil {
		return nil, err
	}
	if r.in.versions, err = r.in.find([]string{job.Roles.Sequence}); err != nil {
		return nil, err
	}
	for _, n := range append(slices.Clone(job.Roles.Keys), job.Roles.Sequence) {
		if r.in.total > 0 && !r.in.present[n] {
			return nil, &RefusedError{Reason: "no file of the batch has column " + n}
		}
	}
	if err := r.reduce(); err != nil {
		return nil, err
	}
	if r.target, err = plainTarget(r.in, layout, job.Roles.Keys); err != nil {
		return nil, err
	}
	if job.Roles.IgnoreIdentical {
		r.ties = r.newTies()
	}
	now := job.Now
	if now == nil {
		now = time.Now //nolint:forbidigo // the default of the clock option
	}
	r.engine, err = newEngine(settings{
		table: job.Table, read: job.Read, create: job.Create, identifier: job.Identifier, runID: job.RunID, tags: job.Tags,
		beforeCommit: job.BeforeCommit, retry: job.Retry, now: now, workers: workersOrAll(job.Workers, job.Table),
		checkRetries: job.CheckRetries, files: fileRows(job.Batch), ownIdentifier: job.OwnIdentifier,
	}, r, layout, r.target.keys)
	return r, err
}

// emptyPartitionKeys refuses "" in a partition column that is a key: Delta stores
// it as NULL, which is another key here (merge-semantics 1).
func emptyPartitionKeys(job *ReplaceJob, partitions []string) error {
	for _, key := range job.Roles.Keys {
		at := job.Batch.Schema.FieldIndices(key)
		if !slices.Contains(partitions, key) || len(at) != 1 {
			continue
		}
		for _, f := range job.Batch.Files {
			for _, rec := range f.Records {
				s, ok := rec.Column(at[0]).(*array.String)
				if !ok {
					continue
				}
				for i := range s.Len() {
					if s.IsValid(i) && s.ValueLen(i) == 0 {
						return &RefusedError{Culprits: 1, Reason: fmt.Sprintf("%s: key column %s is a partition column and cannot hold \"\", which Delta stores as NULL", f.Name, key)}
					}
				}
			}
		}
	}
	return nil
}

// plainTarget maps every column of the table to the batch's of its name.
func plainTarget(in *input, l *deltatable.Layout, keys []string) (*target, error) {
	t := &target{layout: l, schema: l.Schema()}
	for _, f := range t.schema.Fields() {
		c, ok := in.columns[f.Name]
		if !ok {
			return nil, fmt.Errorf("internal error: the batch's schema lacks table column %s", f.Name)
		}
		t.input = append(t.input, c)
	}
	for _, k := range keys {
		t.keys = append(t.keys, t.schema.FieldIndices(k)[0])
	}
	return t, nil
}

// reduce finds the highest sequence of each key; rows below it never count.
func (r *replace) reduce() error {
	n := r.in.total
	r.keys, r.owner, r.early, r.rows = keyset.New(n), make([]int32, n), make([]change.Outcome, n), make([]ref, n)
	r.hasNull = make([]bool, len(r.in.keys))
	var key []byte
	var nulls []string
	for rec := range r.in.recs {
		row := ordered.NewRow(r.in.columnsOf(rec, r.in.keys)...)
		for i := range r.in.lens[rec] {
			at := ref{int32(rec), int32(i)}
			g := r.in.global(at)
			r.rows[g], r.owner[g] = at, -1
			if r.job.Dropped != nil && r.job.Dropped[g] != "" {
				r.early[g] = r.job.Dropped[g]
				continue
			}
			if r.in.recs[rec][r.in.versions[0]].IsNull(i) {
				if len(nulls) < 20 {
					nulls = append(nulls, r.in.keyText(r.job.Roles.Keys, at))
				}
				continue
			}
			key = row.Append(key[:0], i)
			id, added := r.keys.Insert(key)
			seq := r.in.appendRow(nil, r.in.versions, at)
			if added {
				r.sequence = append(r.sequence, seq)
			} else if bytes.Compare(seq, r.sequence[id]) > 0 {
				r.sequence[id] = seq
			}
			r.owner[g] = id
		}
	}
	if len(nulls) > 0 {
		return &RefusedError{Reason: fmt.Sprintf("sequence column %s is NULL for %s", r.job.Roles.Sequence, strings.Join(nulls, ", ")), Culprits: int64(len(nulls))}
	}
	r.keys.Seal()
	for g, id := range r.owner {
		if id >= 0 && !bytes.Equal(r.in.appendRow(nil, r.in.versions, r.rows[g]), r.sequence[id]) {
			r.early[g], r.owner[g] = change.Superseded, -1
		}
	}
	r.group()
	return r.sortKeys()
}

// sortKeys collects the distinct values of each key column.
func (r *replace) sortKeys() error {
	r.sorted = make([][][]byte, len(r.in.keys))
	for g, id := range r.owner {
		if id < 0 {
			continue
		}
		for k, c := range r.in.keys {
			v := r.in.appendRow(nil, []int{c}, r.rows[g])
			if ordered.IsNull(v) {
				r.hasNull[k] = true
				continue
			}
			r.sorted[k] = append(r.sorted[k], v)
		}
	}
	for k := range r.sorted {
		slices.SortFunc(r.sorted[k], bytes.Compare)
		r.sorted[k] = slices.CompactFunc(r.sorted[k], bytes.Equal)
	}
	return nil
}

// mayHold says whether statistics leave room for a key of the batch (I4). NULL
// equals NULL in this mode.
func (r *replace) mayHold(bounds func(column string) deltatable.Bounds) bool {
	for k, name := range r.job.Roles.Keys {
		b := bounds(name)
		if b.Excludes(r.sorted[k]) && (!r.hasNull[k] || b.NullCount == 0) {
			return false
		}
	}
	return true
}

func (r *replace) keyText(id int32) string {
	return r.in.keyText(r.job.Roles.Keys, r.rows[r.rowsOf(id)[0]])
}

// rowsOf are the rows of a key at its highest sequence.
func (r *replace) rowsOf(id int32) []int32 { return r.members[r.starts[id]:r.starts[id+1]] }

// group sorts the rows that count by key.
func (r *replace) group() {
	n := r.keys.Len()
	r.starts = make([]int32, n+1)
	for _, id := range r.owner {
		if id >= 0 {
			r.starts[id+1]++
		}
	}
	for i := range n {
		r.starts[i+1] += r.starts[i]
	}
	r.members = make([]int32, r.starts[n])
	next := slices.Clone(r.starts[:n])
	for g, id := range r.owner {
		if id >= 0 {
			r.members[next[id]] = int32(g)
			next[id]++
		}
	}
}
