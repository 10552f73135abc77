package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/failpoint"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// Apply folds a batch into a guarded table (merge-semantics 2, 3 and 6). The
// report is not nil where the batch was read and judged, also with an error:
// *merge.RefusedError, *merge.TargetError, *deltatable.UndecidedError. A
// *UsageError and a *RuleError come before anything is read or written.
func Apply(ctx context.Context, e *Env, j *ApplyJob) (*ApplyReport, error) {
	return e.fold(ctx, j, &guardedKind{})
}

// fold runs one batch through a kind, from the beginning again whenever another
// writer changed what the batch was read against (R5, R9).
func (e *Env) fold(ctx context.Context, j *ApplyJob, k kind) (*ApplyReport, error) {
	in, err := e.kindInputs(j.Files, k)
	if err != nil {
		return nil, err
	}
	began := e.now()
	a := &applier{env: e, job: j, kind: k, in: in, run: uuid.NewString(), began: began}
	if j.Resume != "" { // NB: the same id: a put of that run which lands from now on is our own (R7, R8)
		a.run, _, _ = strings.Cut(j.Resume, "@")
	}
	for attempt := 1; ; attempt++ {
		rep, err := a.once(ctx)
		if !errors.Is(err, merge.ErrTableChanged) {
			return rep, err
		}
		if m, ok := k.(*mergeKind); ok && m.self {
			return nil, &merge.RefusedError{Reason: "the source is the target itself, and another writer changed it meanwhile"}
		}
		if took := e.now().Sub(began); e.Retry.Spent(attempt, took) {
			return nil, &deltatable.RetryError{Attempts: attempt, Took: took, Err: err}
		}
		if err := e.Retry.Wait(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// kindInputs are the files of a run; a kind that reads its rows itself may do
// with none, and then names those that it reads.
func (e *Env) kindInputs(files []string, k kind) (*inputs, error) {
	if m, ok := k.(*mergeKind); ok {
		if m.source != nil {
			files = m.source.Files
		}
		if len(files) == 0 {
			return &inputs{}, nil
		}
	}
	return e.inputs(files)
}

// applier is one call of fold; once is one reading of the batch against one
// state of the table's schema and roles.
type applier struct {
	env  *Env
	job  *ApplyJob
	kind kind
	in   *inputs
	run  string
	// began is the time of the run: what current_timestamp() is in it.
	began time.Time

	table    *deltatable.Table
	snap     *deltatable.Snapshot
	files    []*changefile.File
	batch    *merge.Batch
	dropped  []change.Outcome // by expectations; nil: none
	expected *expectations
	outcomes *outcomesTable
}

func (a *applier) once(ctx context.Context) (*ApplyReport, error) {
	var err error
	if a.table, err = a.env.OpenTable(ctx, a.job.Table); err != nil {
		return nil, err
	}
	if a.snap, err = current(ctx, a.table); err != nil {
		return nil, err
	}
	if a.job.Resume != "" { // after the snapshot was read, so that nothing lands in between
		if rep, err := a.env.resume(ctx, a.table, a.job); rep != nil || err != nil {
			return rep, err
		}
	}
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	if a.outcomes, err = a.env.openOutcomes(ctx, a.table.Store().URL(), a.kind.outcomesAt()); err != nil {
		return nil, err
	}
	if err := a.outcomes.check(a.batch.Schema); err != nil {
		return nil, err
	}
	var warnings []string
	if err := a.outcomes.repair(ctx, a.table, a.snap); err != nil {
		warnings = append(warnings, fmt.Sprintf("outcomes of earlier runs are not complete: %v", err))
	}
	a.env.step("merging %s", a.batch.Name)
	res, err := a.judge(ctx)
	if res == nil {
		return nil, err
	}
	rep := a.report(res)
	rep.Warnings = warnings
	if res.AllPairs {
		rep.Warnings = append(rep.Warnings, "ON has no equality between target and source: every pair of rows is compared, which takes long for many rows")
	}
	var undecided *deltatable.UndecidedError
	if errors.As(err, &undecided) {
		return rep, err
	}
	a.after(ctx, rep, res)
	return rep, err
}

// judge evaluates the expectations and carries the batch out.
func (a *applier) judge(ctx context.Context) (*merge.Result, error) {
	var err error
	if a.expected, err = a.expect(); err != nil {
		return nil, err
	}
	if refusal := a.expected.refusal(); refusal != nil {
		return a.refusedByExpectation(), refusal
	}
	a.dropped = nil
	if a.expected != nil {
		a.dropped = a.expected.dropped
	}
	return a.kind.merge(ctx, a)
}

// read finds the roles and reads the files in the types of the table.
func (a *applier) read(ctx context.Context) error {
	sch, err := a.kind.prepare(ctx, a)
	if err != nil {
		return err
	}
	if own, ok := a.kind.(sourceReader); ok {
		return own.readSource(ctx, a, sch)
	}
	o := &changefile.Options{
		Format: a.job.Format, Schema: sch, Zone: a.job.Zone,
		AllowUnknown: a.job.AllowUnknown || a.kind.ignores(),
	}
	a.files = nil
	batch := &merge.Batch{Name: batchName(a.job.Batch, a.in.names), Schema: sch}
	for _, src := range a.in.sources {
		a.env.step("reading %s", src.Name)
		f, err := changefile.Read(ctx, src, o)
		if err != nil {
			return err
		}
		a.files = append(a.files, f)
		batch.Files = append(batch.Files, merge.InputFile{Name: f.Name, Records: f.Records, Present: f.Present})
	}
	batch.Digest = changefile.Digest(a.files)
	a.batch = batch
	failpoint.Hit("batch-read")
	return nil
}

// refusedWhole gives the outcomes of a batch that is refused for a reason that
// is not the engine's; another error has none.
func (a *applier) refusedWhole(err error) (*merge.Result, error) {
	var refused *merge.RefusedError
	if !errors.As(err, &refused) {
		return nil, err
	}
	res := &merge.Result{Counts: change.Counts{}}
	if a.snap != nil {
		v := a.snap.Version()
		res.Read = &v
	}
	for _, f := range a.files {
		out := make([]change.Outcome, f.Rows)
		for i := range out {
			out[i] = change.BatchRefused
		}
		res.Outcomes = append(res.Outcomes, out)
		res.Counts[change.BatchRefused] += f.Rows
	}
	return res, err
}

// identifier is the transaction identifier that the flags give, nil for none.
func (a *applier) identifier() *deltatable.Txn {
	if a.job.AppID == "" {
		return nil
	}
	return &deltatable.Txn{AppID: a.job.AppID, Version: a.job.AppVersion}
}

// tags are those of a kind with what every run adds.
func (a *applier) tags(tags map[string]string) map[string]string {
	if tags == nil {
		tags = map[string]string{}
	}
	a.expected.tag(tags)
	return tags
}

// flags are the settings that decide how the batch is read, for the audit.
func (a *applier) flags() *change.Flags {
	f := &change.Flags{AllowUnknown: a.job.AllowUnknown, Format: a.job.Format}
	if a.job.Zone != nil {
		f.Timezone = a.job.Zone.String()
	}
	return f
}

// record is the BeforeCommit hook: the attempt's outcomes are put before its
// commit, and the commit names them (merge-semantics 6).
func (a *applier) record(ctx context.Context, at *merge.Attempt) (*merge.Recorded, error) {
	if a.outcomes == nil {
		return &merge.Recorded{}, nil
	}
	return a.outcomes.put(ctx, a.outcomeRun(at.Outcomes, &at.Version, at.Read))
}

func (a *applier) outcomeRun(out [][]change.Outcome, v, read *deltatable.Version) *outcomeRun {
	return &outcomeRun{id: a.run, batch: a.batch, files: a.files, outcomes: out, version: v, read: read}
}

// after does what follows a commit, or stands in for it; nothing of it can undo
// or fail the commit.
func (a *applier) after(ctx context.Context, rep *ApplyReport, res *merge.Result) {
	warn := func(what string, err error) {
		if err != nil {
			rep.Warnings = append(rep.Warnings, fmt.Sprintf("%s: %v", what, err))
		}
	}
	warn("outcomes are not in the outcomes table yet (the next run or repair-outcomes completes them)",
		a.outcomes.finish(ctx, a.outcomeRun(res.Outcomes, res.Version, res.Read)))
	failpoint.Hit("outcomes-appended")
	if res.Version == nil {
		return
	}
	warn("log checkpoint", a.table.AfterCommit(ctx, res.Landed))
	if !a.job.Audit {
		return
	}
	a.env.step("auditing version %d", *res.Version)
	audit, err := a.audit(ctx, *res.Version)
	rep.Audit = audit
	warn("audit", err)
}

// report puts together what people are told.
func (a *applier) report(res *merge.Result) *ApplyReport {
	rep := &ApplyReport{
		Run: a.run, Batch: a.batch.Name, Table: a.table.Store().URL(), Counts: res.Counts,
		Version: res.Version, ReadVersion: res.Read, Created: res.Created, AlreadyApplied: res.AlreadyApplied,
		Retries: res.Retries, Stats: res.Stats, Outcomes: change.OutcomesNone,
	}
	if a.outcomes != nil {
		rep.Outcomes = a.outcomes.table.Store().URL()
	}
	switch {
	case res.Version != nil:
	case res.AlreadyApplied && a.job.AppID == "":
		rep.Why = "the same batch was applied already (--again applies it all the same)"
	case res.AlreadyApplied:
		rep.Why = fmt.Sprintf("already applied: the table has a version of application %s at or above %d", a.job.AppID, a.job.AppVersion)
	case res.Counts[change.BatchRefused] > 0:
		rep.Why = "the batch was refused"
	default:
		rep.Why = "no row changed"
	}
	rep.Sample = a.sample(res.Outcomes)
	rep.Expectations = a.expected.counts()
	return rep
}

// sampleRows is the number of outcomes shown.
const sampleRows = 20

func (a *applier) sample(out [][]change.Outcome) []OutcomeRow {
	var rows []OutcomeRow
	keys, versions := a.kind.columns()
	for _, culprits := range []bool{true, false} {
		for f, file := range a.batch.Files {
			i := 0
			for _, rec := range file.Records {
				for row := range int(rec.NumRows()) {
					o := out[f][i]
					i++
					if o.Culprit() != culprits {
						continue
					}
					rows = append(rows, OutcomeRow{
						File: file.Name, Row: a.files[f].Line(int64(i - 1)), Outcome: o,
						Key: valuesText(rec, keys, row), Version: valuesText(rec, versions, row),
					})
					if len(rows) == sampleRows {
						return rows
					}
				}
			}
		}
	}
	return rows
}

func valuesText(rec arrow.RecordBatch, names []string, row int) string {
	var parts []string
	for _, n := range names {
		for _, c := range rec.Schema().FieldIndices(n) {
			parts = append(parts, rowfile.Format(rec.Column(c), row))
		}
	}
	return strings.Join(parts, ",")
}

// resume looks for the commit of an undecided run: a report if it is there.
func (e *Env) resume(ctx context.Context, t *deltatable.Table, j *ApplyJob) (*ApplyReport, error) {
	entry, err := findRun(ctx, t, j.Resume)
	if entry == nil || err != nil {
		return nil, err
	}
	rep := &ApplyReport{Run: entry.Info.TxnID, Table: t.Store().URL(), Version: &entry.Version, Batch: entry.Info.Tags[change.TagBatch]}
	if rep.Counts, err = change.ParseCounts(entry.Info.Tags[change.TagCounts]); err != nil {
		rep.Warnings = append(rep.Warnings, err.Error())
	}
	rep.Outcomes, err = RepairOutcomes(ctx, e, j.Table)
	if err != nil {
		rep.Warnings = append(rep.Warnings, fmt.Sprintf("outcomes: %v", err))
	}
	return rep, nil
}
