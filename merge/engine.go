package merge

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/failpoint"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/rows"
)

// settings are what every kind of run has in common.
type settings struct {
	table      *deltatable.Table
	read       *deltatable.Snapshot // nil: the table is to be made
	create     *NewTable
	metadata   *deltatable.Metadata // of the table after the commit, where it changes
	identifier *deltatable.Txn
	// ownIdentifier says that a run which changes no row does not record it.
	ownIdentifier bool
	runID         string
	tags          map[string]string
	beforeCommit  func(ctx context.Context, a *Attempt) (*Recorded, error)
	retry         *deltatable.Retry
	now           func() time.Time
	workers       int
	checkRetries  bool
	files         []int // rows of each input file
}

// mode is a way of folding rows into a table: what differs between the guarded
// merge and others. A mode holds its own plan for one snapshot at a time; the
// engine holds the outputs that carry it out, commits and retries.
type mode interface {
	// plan plans on a snapshot from nothing; nil stands for a new table.
	plan(ctx context.Context, snap *deltatable.Snapshot, s *Stats) error
	// rebase carries the plan of a lost attempt over to a newer snapshot, in which
	// the files added are live that were not before. The result always equals
	// planning anew there (R2, R3).
	rebase(ctx context.Context, snap *deltatable.Snapshot, added []*deltatable.Add, s *Stats) error
	// holds says after rebase whether an output whose sources are all live is
	// still right (R3).
	holds(o *output) bool
	// verify plans anew on the snapshot and compares: an assertion for tests.
	verify(ctx context.Context, snap *deltatable.Snapshot) error

	// refusal gives the outcomes of a batch that the rules refuse on this plan, and
	// why; nil if they do not (judged on every attempt, R6).
	refusal() ([]change.Outcome, *RefusedError)
	// outcomes gives the outcome of every input row.
	outcomes() []change.Outcome
	// idle says that no row of the table changes.
	idle() bool
	// wants gives what outputs have to carry out, but for what those do that are
	// kept: the touched files not among their sources and the new rows not among
	// their inserts.
	wants(kept []*output) (*wanted, error)
	// fresh builds the new rows of the given numbers, in table order.
	fresh(ids []int32) (arrow.RecordBatch, error)
	// rewrite says what becomes of the rows of one batch of a touched file.
	rewrite(s *source, b deltatable.FileBatch) (*rewritten, error)
	// describe fills in what the commit says of the operation.
	describe(ctx context.Context, snap *deltatable.Snapshot, res *Result, c *deltatable.Commit) error
}

// wanted is what the outputs of a plan have to carry out.
type wanted struct {
	touched []source
	inserts []insert
}

// insert is a new row and the partition that it belongs to.
type insert struct {
	id   int32
	part deltatable.Partition
}

// rewritten is one batch of a touched file as it is to be written: rows of the
// new record, source 0 of the picks, in the places of stored ones, source 1.
type rewritten struct {
	fresh   arrow.RecordBatch // nil if no row is replaced
	picks   []rows.Pick
	changed int64 // stored rows that are replaced or gone
	gone    int64 // stored rows that are gone
}

// engine is one run of a mode.
type engine struct {
	settings
	mode   mode
	layout *deltatable.Layout
	schema *arrow.Schema
	keys   []int // columns that rows of one output are sorted by; none: not sorted
	plain  bool  // there are no partition columns
	whole  deltatable.Partition
	parts  map[deltatable.FileKey]deltatable.Partition // of live files
	start  time.Time
}

// state is the plan of one attempt as the engine sees it.
type state struct {
	snap    *deltatable.Snapshot
	outputs []*output
	stats   Stats
}

// workersOrAll is the number of files worked on at once: by default as many as there
// are processors, and more where much of the time is waiting for answers.
func workersOrAll(n int, t *deltatable.Table) int {
	switch {
	case n > 0:
		return n
	case t.Store().Distant():
		return max(4, runtime.GOMAXPROCS(0))
	}
	return runtime.GOMAXPROCS(0)
}

// probers is the number of files looked into at once: that takes little memory, and
// where the store is distant mostly time of waiting.
func probers(n int, t *deltatable.Table) int {
	if n <= 0 && t.Store().Distant() {
		return 16
	}
	return workersOrAll(n, t)
}

// layoutOf is the layout that a run writes with. It refuses a table that cannot
// be written, by the name of the feature (I8).
func layoutOf(read *deltatable.Snapshot, create *NewTable) (*deltatable.Layout, error) {
	if read == nil {
		if create == nil {
			return nil, deltatable.ErrNoTable
		}
		return deltatable.NewLayout(create.Metadata)
	}
	if err := read.CheckWritable(); err != nil {
		return nil, err
	}
	return read.Layout(), nil
}

func newEngine(s settings, m mode, l *deltatable.Layout, keys []int) (*engine, error) {
	e := &engine{
		settings: s, mode: m, layout: l, schema: l.Schema(), keys: keys,
		plain: len(l.PartitionColumns()) == 0, parts: map[deltatable.FileKey]deltatable.Partition{}, start: s.now(),
	}
	if !e.plain {
		return e, nil
	}
	empty, err := nullRows(e.schema, 1)
	if err != nil {
		return nil, err
	}
	e.whole, err = l.Partition(empty, 0)
	return e, err
}

// run plans, writes and commits until a commit lands or nothing is left to
// commit.
func (e *engine) run(ctx context.Context) (*Result, error) {
	if res := e.alreadyApplied(e.read); res != nil {
		return res, nil
	}
	st := &state{snap: e.read}
	if err := e.mode.plan(ctx, st.snap, &st.stats); err != nil {
		return e.refused(err)
	}
	for attempt := 1; ; attempt++ {
		res := e.result(st, attempt-1)
		if out, refusal := e.mode.refusal(); refusal != nil {
			e.discard(ctx, st.outputs)
			res.setOutcomes(e.files, out)
			return res, refusal
		}
		if e.mode.idle() && (e.identifier == nil || e.ownIdentifier) && st.snap != nil {
			e.discard(ctx, st.outputs)
			return res, nil
		}
		rec, landed, err := e.attempt(ctx, st, res)
		var lost *deltatable.ConflictError
		var undecided *deltatable.UndecidedError
		switch {
		case err == nil:
			res.Version, res.Created, res.Landed = &landed.Version, st.snap == nil, landed
			return res, nil
		case errors.As(err, &lost):
			rec.discard(ctx)
		case errors.As(err, &undecided):
			return res, err // nothing is deleted: the entry may still land (R8)
		default:
			rec.discard(ctx)
			e.discard(ctx, st.outputs)
			return e.refused(err)
		}
		next, applied, err := e.again(ctx, st, attempt, lost)
		if err != nil {
			e.discard(ctx, st.outputs)
			return e.refused(err)
		}
		if applied != nil {
			e.discard(ctx, st.outputs)
			applied.Retries = attempt
			return applied, nil
		}
		st = next
	}
}

// attempt writes what is not written yet and tries the commit once.
func (e *engine) attempt(ctx context.Context, st *state, res *Result) (*Recorded, *deltatable.Landed, error) {
	if err := e.planOutputs(st); err != nil {
		return nil, nil, err
	}
	rec, err := e.prepare(ctx, st, res)
	if err != nil {
		return rec, nil, err
	}
	res.count(st)
	c := &deltatable.Commit{TxnID: e.runID, Tags: map[string]string{change.TagRun: e.runID, change.TagCounts: res.Counts.JSON()}}
	if err := e.mode.describe(ctx, st.snap, res, c); err != nil {
		return rec, nil, err
	}
	e.fill(st, c)
	if rec != nil {
		for k, v := range rec.Tags {
			c.Tags[k] = v
		}
	}
	failpoint.Hit("outcomes-written")
	landed, err := e.table.TryCommit(ctx, st.snap, c)
	return rec, landed, err
}

// prepare makes durable what the commit will name (I2): the data files that are not
// written yet, and what beforeCommit records. Where a request takes long they are
// written at the same time, as neither knows of the other.
func (e *engine) prepare(ctx context.Context, st *state, res *Result) (rec *Recorded, err error) {
	record := func() (err error) {
		if e.beforeCommit == nil {
			return nil
		}
		at := deltatable.Version(0)
		if st.snap != nil {
			at = st.snap.Version() + 1
		}
		rec, err = e.beforeCommit(ctx, &Attempt{Version: at, Read: res.Read, Outcomes: res.Outcomes})
		return err
	}
	if !e.table.Store().Distant() {
		if err := e.write(ctx, st); err != nil {
			return nil, err
		}
		err := record()
		return rec, err
	}
	// NB: record goes on when writing fails: only what it has finished can be
	// discarded for certain.
	g, writing := errgroup.WithContext(ctx)
	g.Go(record)
	g.Go(func() error { return e.write(writing, st) })
	err = g.Wait()
	return rec, err
}

// fill puts the actions into a commit, anew for each attempt (R7).
func (e *engine) fill(st *state, c *deltatable.Commit) {
	for k, v := range e.tags {
		c.Tags[k] = v
	}
	if st.snap == nil {
		c.Protocol, c.Metadata = e.create.Protocol, e.create.Metadata
	}
	if e.metadata != nil {
		c.Metadata = e.metadata
	}
	if id := e.identifier; id != nil {
		at := e.now().UnixMilli()
		c.Txns = []deltatable.Txn{{AppID: id.AppID, Version: id.Version, LastUpdated: &at}}
	}
	for _, o := range st.outputs {
		c.Adds = append(c.Adds, o.adds...)
		for i := range o.sources {
			c.Removes = append(c.Removes, o.sources[i].add)
		}
	}
}

func (rec *Recorded) discard(ctx context.Context) {
	if rec != nil && rec.Discard != nil {
		rec.Discard(context.WithoutCancel(ctx))
	}
}

// again waits and plans the next attempt (R2 to R6, R9).
func (e *engine) again(ctx context.Context, st *state, attempt int, lost error) (*state, *Result, error) {
	if took := e.now().Sub(e.start); e.retry.Spent(attempt, took) {
		return nil, nil, &deltatable.RetryError{Attempts: attempt, Took: took, Err: lost}
	}
	if err := e.retry.Wait(ctx, attempt); err != nil {
		return nil, nil, err
	}
	if st.snap == nil {
		return nil, nil, ErrTableChanged // it was created
	}
	winners, snap, err := e.table.Winners(ctx, st.snap)
	if err != nil {
		return nil, nil, err
	}
	changes := deltatable.Classify(st.snap, winners)
	answer, err := changes.Answer(snap, e.identifier)
	if err != nil {
		return nil, nil, err
	}
	switch answer {
	case deltatable.AlreadyApplied:
		return nil, e.alreadyApplied(snap), nil
	case deltatable.PlanAgain:
		return nil, nil, ErrTableChanged
	case deltatable.Pass, deltatable.ProbeAgain, deltatable.Refuse:
	}
	next, err := e.rebase(ctx, st, snap, changes.Added)
	return next, nil, err
}

// rebase carries a lost attempt over to a newer snapshot: outputs that are still
// right are kept, the files of the others deleted, for the entry at their
// version was read and is another's (R3, R8).
func (e *engine) rebase(ctx context.Context, old *state, snap *deltatable.Snapshot, added []*deltatable.Add) (*state, error) {
	st := &state{snap: snap, stats: old.stats}
	if err := e.mode.rebase(ctx, snap, added, &st.stats); err != nil {
		return nil, err
	}
	var gone []*output
	for _, o := range old.outputs {
		if o.live(snap) && e.mode.holds(o) {
			st.outputs = append(st.outputs, o)
			st.stats.OutputsKept++
			continue
		}
		st.stats.OutputsRebuilt++
		gone = append(gone, o)
	}
	e.discard(ctx, gone)
	if e.checkRetries || failpoint.Enabled { // always in test builds
		return st, e.mode.verify(ctx, snap)
	}
	return st, nil
}

// live says whether all sources are live in a snapshot, and takes them over as
// they are there: statistics and tags may be new.
func (o *output) live(snap *deltatable.Snapshot) bool {
	for i := range o.sources {
		now, live := snap.File(snap.KeyOf(o.sources[i].add))
		if !live {
			return false
		}
		o.sources[i].add = now
	}
	return true
}

// discard deletes the data files of outputs that no entry names; what cannot
// be deleted is found by vacuum.
func (e *engine) discard(ctx context.Context, outputs []*output) {
	var adds []*deltatable.Add
	for _, o := range outputs {
		adds = append(adds, o.adds...)
		o.adds = nil
	}
	// An error changes nothing: the files are only garbage.
	_ = e.table.Discard(context.WithoutCancel(ctx), adds)
}

// refused gives outcomes to an error that refuses the batch as a whole, for a
// reason that no row of its own caused.
func (e *engine) refused(err error) (*Result, error) {
	return refusedResult(e.files, e.read, err)
}

func refusedResult(files []int, read *deltatable.Snapshot, err error) (*Result, error) {
	var rule *RefusedError
	var target *TargetError
	var cardinality *CardinalityError
	var value *ValueError
	if !errors.As(err, &rule) && !errors.As(err, &target) && !errors.As(err, &cardinality) && !errors.As(err, &value) {
		return nil, err
	}
	return uniform(files, read, change.BatchRefused), err
}

// alreadyApplied is the result of a batch whose identifier is recorded in the
// snapshot at or above its version (merge-semantics 6), nil otherwise.
func (e *engine) alreadyApplied(snap *deltatable.Snapshot) *Result {
	if e.identifier == nil || snap == nil {
		return nil
	}
	v, ok := snap.AppVersion(e.identifier.AppID)
	if !ok || v < e.identifier.Version {
		return nil
	}
	res := uniform(e.files, snap, change.AlreadyApplied)
	res.AlreadyApplied = true
	return res
}

// uniform is a result in which all rows have one outcome.
func uniform(files []int, snap *deltatable.Snapshot, o change.Outcome) *Result {
	res := &Result{Counts: change.Counts{}, Read: versionOf(snap)}
	for _, n := range files {
		out := make([]change.Outcome, n)
		for i := range out {
			out[i] = o
		}
		res.Outcomes = append(res.Outcomes, out)
		res.Counts[o] += int64(n)
	}
	return res
}

func versionOf(s *deltatable.Snapshot) *deltatable.Version {
	if s == nil {
		return nil
	}
	v := s.Version()
	return &v
}

func (e *engine) result(st *state, retries int) *Result {
	res := &Result{Read: versionOf(st.snap), Retries: retries, Stats: st.stats}
	res.setOutcomes(e.files, e.mode.outcomes())
	return res
}

func (res *Result) setOutcomes(files []int, out []change.Outcome) {
	res.Outcomes, res.Counts = nil, change.Counts{}
	for _, o := range out {
		res.Counts[o]++
	}
	for _, n := range files {
		res.Outcomes = append(res.Outcomes, out[:n:n])
		out = out[n:]
	}
}

// count fills in the figures of the outputs.
func (res *Result) count(st *state) {
	s := &res.Stats
	for _, o := range st.outputs {
		s.Copied += o.copied
		s.FilesRemoved += len(o.sources)
		s.FilesAdded += len(o.adds)
		for i := range o.sources {
			s.BytesRemoved += o.sources[i].add.Size
		}
		for _, a := range o.adds {
			s.BytesAdded += a.Size
		}
	}
}
