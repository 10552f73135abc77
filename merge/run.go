package merge

import (
	"context"
	"errors"
	"time"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/failpoint"
	"github.com/deltafold/deltafold/merge/change"
)

// run is one call of Run.
type run struct {
	job    *Job
	in     *input
	cs     *candidates
	target *target
	parts  map[deltatable.FileKey]deltatable.Partition // of live files
	base   digestBase
	start  time.Time
}

// Run folds the job's batch into its table as at most one commit
// (merge-semantics 3 and 6). With a *RefusedError, a *TargetError and an
// *deltatable.UndecidedError the result is not nil and holds the outcomes; with
// any other error it is nil. One call at a time may use a Job.
func Run(ctx context.Context, job *Job) (*Result, error) {
	if job.Read == nil && job.Create == nil {
		return nil, deltatable.ErrNoTable
	}
	if res := alreadyApplied(job, job.Read); res != nil {
		return res, nil
	}
	r, err := prepare(job)
	if err != nil {
		return refused(job, err)
	}
	return r.loop(ctx)
}

// prepare does what does not depend on what is stored.
func prepare(job *Job) (*run, error) {
	r := &run{job: job, parts: map[deltatable.FileKey]deltatable.Partition{}, start: job.now()}
	var layout *deltatable.Layout
	if job.Read != nil {
		if err := job.Read.CheckWritable(); err != nil {
			return nil, err
		}
		layout = job.Read.Layout()
	} else {
		var err error
		if layout, err = deltatable.NewLayout(job.Create.Metadata); err != nil {
			return nil, err
		}
	}
	var err error
	if r.in, err = newInput(job, layout.PartitionColumns()); err != nil {
		return nil, err
	}
	if r.target, err = newTarget(job, r.in, layout); err != nil {
		return nil, err
	}
	r.cs, err = reduce(job, r.in)
	return r, err
}

// loop plans, writes and commits until a commit lands or nothing is left to
// commit.
func (r *run) loop(ctx context.Context) (*Result, error) {
	p, err := r.planNew(ctx, r.job.Read)
	if err != nil {
		return r.failed(err)
	}
	for attempt := 1; ; attempt++ {
		res := r.result(p, attempt-1)
		if out, refusal := r.refusal(p); refusal != nil {
			r.discard(ctx, p)
			res.setOutcomes(r, out)
			return res, refusal
		}
		if !p.writes() && r.job.Identifier == nil && p.snap != nil {
			r.discard(ctx, p)
			return res, nil
		}
		rec, landed, err := r.attempt(ctx, p, res)
		var lost *deltatable.ConflictError
		var undecided *deltatable.UndecidedError
		switch {
		case err == nil:
			res.Version, res.Created = &landed.Version, p.snap == nil
			return res, nil
		case errors.As(err, &lost):
			rec.discard(ctx)
		case errors.As(err, &undecided):
			return res, err // nothing is deleted: the entry may still land (R8)
		default:
			rec.discard(ctx)
			r.discard(ctx, p)
			return nil, err
		}
		next, applied, err := r.again(ctx, p, attempt, lost)
		if err != nil {
			r.discard(ctx, p)
			return r.failed(err)
		}
		if applied != nil {
			r.discard(ctx, p)
			applied.Retries = attempt
			return applied, nil
		}
		p = next
	}
}

// attempt writes what is not written yet and tries the commit once.
func (r *run) attempt(ctx context.Context, p *plan, res *Result) (*Recorded, *deltatable.Landed, error) {
	if err := r.planOutputs(p); err != nil {
		return nil, nil, err
	}
	if err := r.write(ctx, p); err != nil {
		return nil, nil, err
	}
	res.count(p)
	c, err := r.commit(ctx, p, res)
	if err != nil {
		return nil, nil, err
	}
	var rec *Recorded
	if r.job.BeforeCommit != nil {
		at := deltatable.Version(0)
		if p.snap != nil {
			at = p.snap.Version() + 1
		}
		if rec, err = r.job.BeforeCommit(ctx, &Attempt{Version: at, Read: res.Read, Outcomes: res.Outcomes}); err != nil {
			return rec, nil, err
		}
		for k, v := range rec.Tags {
			c.Tags[k] = v
		}
	}
	failpoint.Hit("outcomes-written")
	landed, err := r.job.Table.TryCommit(ctx, p.snap, c)
	return rec, landed, err
}

func (rec *Recorded) discard(ctx context.Context) {
	if rec != nil && rec.Discard != nil {
		rec.Discard(context.WithoutCancel(ctx))
	}
}

// again waits and plans the next attempt (R2 to R6, R9).
func (r *run) again(ctx context.Context, p *plan, attempt int, lost error) (*plan, *Result, error) {
	if took := r.job.now().Sub(r.start); r.job.Retry.Spent(attempt, took) {
		return nil, nil, &deltatable.RetryError{Attempts: attempt, Took: took, Err: lost}
	}
	if err := r.job.Retry.Wait(ctx, attempt); err != nil {
		return nil, nil, err
	}
	if p.snap == nil {
		return nil, nil, ErrTableChanged // it was created
	}
	snap, err := r.job.Table.Refresh(ctx, p.snap)
	if err != nil {
		return nil, nil, err
	}
	changes, err := r.winners(ctx, p.snap, snap)
	if err != nil {
		return nil, nil, err
	}
	answer, err := changes.Answer(snap, r.job.Identifier)
	if err != nil {
		return nil, nil, err
	}
	switch answer {
	case deltatable.AlreadyApplied:
		return nil, alreadyApplied(r.job, snap), nil
	case deltatable.PlanAgain:
		return nil, nil, ErrTableChanged
	case deltatable.Pass, deltatable.ProbeAgain, deltatable.Refuse:
	}
	next, err := r.rebase(ctx, p, snap, changes.Added)
	if err != nil || !r.checks() {
		return next, nil, err
	}
	return next, nil, r.checkRebase(ctx, next)
}

// winners reads what was committed after one snapshot up to another.
func (r *run) winners(ctx context.Context, old, now *deltatable.Snapshot) (*deltatable.Changes, error) {
	var entries []*deltatable.Entry
	for v := old.Version() + 1; v <= now.Version(); v++ {
		e, err := r.job.Table.Entry(ctx, v)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return deltatable.Classify(old, entries), nil
}

// discard deletes the data files of a plan that no entry names; what cannot be
// deleted is found by vacuum.
func (r *run) discard(ctx context.Context, p *plan) {
	for _, o := range p.outputs {
		// An error changes nothing: the file is only garbage.
		_ = r.job.Table.Discard(context.WithoutCancel(ctx), o.adds)
	}
}

// failed gives the outcomes that go with an error before any commit.
func (r *run) failed(err error) (*Result, error) {
	var target *TargetError
	if !errors.As(err, &target) {
		return nil, err
	}
	return refused(r.job, err)
}

// refused is the result of a batch that is refused as a whole for a reason that
// no row of its own caused.
func refused(job *Job, err error) (*Result, error) {
	var rule *RefusedError
	var target *TargetError
	if !errors.As(err, &rule) && !errors.As(err, &target) {
		return nil, err
	}
	return uniform(job, job.Read, change.BatchRefused), err
}

// alreadyApplied is the result of a batch whose identifier is recorded in the
// snapshot at or above its version (merge-semantics 6), nil otherwise.
func alreadyApplied(job *Job, snap *deltatable.Snapshot) *Result {
	if job.Identifier == nil || snap == nil {
		return nil
	}
	v, ok := snap.AppVersion(job.Identifier.AppID)
	if !ok || v < job.Identifier.Version {
		return nil
	}
	res := uniform(job, snap, change.AlreadyApplied)
	res.AlreadyApplied = true
	return res
}

// uniform is a result in which all rows have one outcome.
func uniform(job *Job, snap *deltatable.Snapshot, o change.Outcome) *Result {
	res := &Result{Counts: change.Counts{}, Read: versionOf(snap)}
	for _, f := range job.Batch.Files {
		var out []change.Outcome
		for _, rec := range f.Records {
			for range rec.NumRows() {
				out = append(out, o)
			}
		}
		res.Outcomes = append(res.Outcomes, out)
		res.Counts[o] += int64(len(out))
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

func (r *run) result(p *plan, retries int) *Result {
	res := &Result{Read: versionOf(p.snap), Retries: retries, Stats: p.stats}
	res.setOutcomes(r, r.outcomes(p))
	return res
}

func (res *Result) setOutcomes(r *run, out []change.Outcome) {
	res.Outcomes = r.in.byFile(out, len(r.job.Batch.Files))
	res.Counts = change.Counts{}
	for _, o := range out {
		res.Counts[o]++
	}
}

// count fills in the figures of the outputs.
func (res *Result) count(p *plan) {
	s := &res.Stats
	for _, o := range p.outputs {
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
	for id, v := range p.verdicts {
		switch {
		case v.Write == 0:
		case p.hits[id].file == nil:
			s.Inserted++
		default:
			s.Updated++
		}
	}
}
