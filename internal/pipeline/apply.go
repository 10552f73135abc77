package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
	in, err := e.inputs(j.Files)
	if err != nil {
		return nil, err
	}
	if j.Resume != "" {
		if rep, err := e.resume(ctx, j); rep != nil || err != nil {
			return rep, err
		}
	}
	a := &applier{env: e, job: j, in: in, run: uuid.NewString()}
	began := e.now()
	for attempt := 1; ; attempt++ {
		rep, err := a.once(ctx)
		if !errors.Is(err, merge.ErrTableChanged) {
			return rep, err
		}
		if took := e.now().Sub(began); e.Retry.Spent(attempt, took) {
			return nil, &deltatable.RetryError{Attempts: attempt, Took: took, Err: err}
		}
		if err := e.Retry.Wait(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// applier is one call of Apply; once is one reading of the batch against one
// state of the table's schema and roles.
type applier struct {
	env *Env
	job *ApplyJob
	in  *inputs
	run string

	table    *deltatable.Table
	snap     *deltatable.Snapshot
	roles    *change.Roles
	create   *merge.NewTable
	files    []*changefile.File
	batch    *merge.Batch
	outcomes *outcomesTable
}

func (a *applier) once(ctx context.Context) (*ApplyReport, error) {
	var err error
	if a.table, err = a.env.OpenTable(ctx, a.job.Table); err != nil {
		return nil, err
	}
	if a.snap, err = current(ctx, a.table); err != nil {
		return nil, fmt.Errorf("open table %s: %w", a.job.Table, err)
	}
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	if a.outcomes, err = a.env.openOutcomes(ctx, a.table.Store().URL(), a.roles.Outcomes); err != nil {
		return nil, err
	}
	if err := a.outcomes.check(a.batch.Schema); err != nil {
		return nil, err
	}
	var warnings []string
	if err := a.outcomes.repair(ctx, a.table, a.snap); err != nil {
		warnings = append(warnings, fmt.Sprintf("outcomes of earlier runs are not complete: %v", err))
	}
	job, err := a.mergeJob()
	if err != nil {
		return nil, err
	}
	a.env.step("merging %s", a.batch.Name)
	res, err := merge.Run(ctx, job)
	if res == nil {
		return nil, err
	}
	rep := a.report(res)
	rep.Warnings = warnings
	var undecided *deltatable.UndecidedError
	if errors.As(err, &undecided) {
		return rep, err
	}
	a.after(ctx, rep, res)
	return rep, err
}

// read finds the roles and reads the files in the types of the table.
func (a *applier) read(ctx context.Context) error {
	var sch *arrow.Schema
	var err error
	if a.snap != nil {
		sch, err = a.existing()
	} else {
		sch, err = a.fresh(ctx)
	}
	if err != nil {
		return err
	}
	o := &changefile.Options{
		Format: a.job.Format, Schema: sch, Zone: a.job.Zone,
		AllowUnknown: a.job.AllowUnknown || a.roles.PayloadGiven,
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

// existing takes roles and types from the table.
func (a *applier) existing() (*arrow.Schema, error) {
	roles, err := GuardedRoles(a.snap)
	if err != nil {
		return nil, err
	}
	if err := CheckFlags(&a.job.Roles, roles); err != nil {
		return nil, err
	}
	if len(a.job.PartitionBy) > 0 || len(a.job.Properties) > 0 {
		return nil, usage("--partition-by and --property are for a new table")
	}
	a.roles, a.create = roles, nil
	return InputSchema(roles, a.snap.Schema(), a.job.Schema)
}

// GuardedRoles gives the roles of a guarded table; another table is a
// *RuleError that says what to do.
func GuardedRoles(s *deltatable.Snapshot) (*change.Roles, error) {
	props := s.Properties()
	roles, ok, err := change.RolesFromProperties(props)
	if err != nil {
		return nil, err
	}
	if ok {
		return roles, nil
	}
	if mode := props[change.PropMode]; mode != "" && mode != string(change.Plain) {
		return nil, &RuleError{fmt.Sprintf("the table is under mode %s, not guarded", mode)}
	}
	return nil, &RuleError{"the table is not guarded: adopt it first (deltafold adopt TABLE --key … --version-column …)"}
}

// fresh derives roles and schema of a table that is to be made.
func (a *applier) fresh(ctx context.Context) (*arrow.Schema, error) {
	sch, err := a.firstSchema(ctx)
	if err != nil {
		return nil, err
	}
	roles, table, err := DeriveRoles(&a.job.Roles, sch)
	if err != nil {
		return nil, err
	}
	a.roles = roles
	a.create, err = NewGuardedTable(roles, table, a.job.PartitionBy, a.job.Properties)
	return sch, err
}

// NewGuardedTable makes the first metadata and protocol of a guarded table.
func NewGuardedTable(roles *change.Roles, table *arrow.Schema, partitionBy []string, given map[string]string) (*merge.NewTable, error) {
	props := roles.Properties()
	for k, v := range given {
		if _, is := props[k]; is {
			return nil, usage("--property %s is set by the role flags", k)
		}
		props[k] = v
	}
	sch, err := deltatable.SchemaFromArrow(table)
	if err != nil {
		return nil, err
	}
	md, protocol, err := deltatable.NewTableMetadata(sch, partitionBy, props)
	if err != nil {
		return nil, err
	}
	if _, _, err := change.RolesFromProperties(props); err != nil {
		return nil, usage("%v", err)
	}
	return &merge.NewTable{Metadata: md, Protocol: protocol}, nil
}

// mergeJob puts the run together.
func (a *applier) mergeJob() (*merge.Job, error) {
	flags := &change.Flags{
		Policy: a.roles.Policy, FailOnInvalid: a.job.FailOnInvalid, MissingAsNull: a.job.MissingAsNull,
		AllowUnknown: a.job.AllowUnknown, Required: a.roles.Required, Format: a.job.Format,
	}
	if a.job.Zone != nil {
		flags.Timezone = a.job.Zone.String()
	}
	job := &merge.Job{
		Table: a.table, Read: a.snap, Create: a.create, Batch: a.batch, Roles: a.roles,
		FailOnInvalid: a.job.FailOnInvalid, MissingAsNull: a.job.MissingAsNull,
		RunID: a.run, Retry: a.env.Retry, Now: a.env.Now, Workers: a.env.Workers,
		BeforeCommit: a.record,
	}
	if a.snap != nil {
		for _, c := range a.job.Roles.NoCheck {
			job.NoCheck = append(job.NoCheck, change.Check(c))
		}
		flags.NoCheck = job.NoCheck
	}
	text, err := flags.JSON()
	if err != nil {
		return nil, err
	}
	job.Tags = map[string]string{change.TagFlags: text}
	if a.job.AppID != "" {
		job.Identifier = &deltatable.Txn{AppID: a.job.AppID, Version: a.job.AppVersion}
	}
	return job, nil
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
	warn("log checkpoint", a.table.PostCommit(ctx, *res.Version))
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
	case res.AlreadyApplied:
		rep.Why = fmt.Sprintf("already applied: the table has a version of application %s at or above %d", a.job.AppID, a.job.AppVersion)
	case res.Counts[change.BatchRefused] > 0:
		rep.Why = "the batch was refused"
	default:
		rep.Why = "no row changed"
	}
	rep.Sample = a.sample(res.Outcomes)
	return rep
}

// sampleRows is the number of outcomes shown.
const sampleRows = 20

func (a *applier) sample(out [][]change.Outcome) []OutcomeRow {
	var rows []OutcomeRow
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
						Key: valuesText(rec, a.roles.Keys, row), Version: valuesText(rec, a.roles.Versions, row),
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
func (e *Env) resume(ctx context.Context, j *ApplyJob) (*ApplyReport, error) {
	run, text, ok := strings.Cut(j.Resume, "@")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || run == "" || err != nil || n < 0 {
		return nil, usage("--resume %s is not RUN@VERSION", j.Resume)
	}
	t, err := e.OpenTable(ctx, j.Table)
	if err != nil {
		return nil, err
	}
	v := deltatable.Version(n)
	entry, err := t.Entry(ctx, v)
	var none *deltatable.VersionRangeError
	if errors.As(err, &none) || errors.Is(err, deltatable.ErrNoTable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if entry.Info == nil || entry.Info.TxnID != run {
		return nil, nil
	}
	rep := &ApplyReport{Run: run, Table: t.Store().URL(), Version: &v, Batch: entry.Info.Tags[change.TagBatch]}
	if rep.Counts, err = change.ParseCounts(entry.Info.Tags[change.TagCounts]); err != nil {
		rep.Warnings = append(rep.Warnings, err.Error())
	}
	rep.Outcomes, err = RepairOutcomes(ctx, e, j.Table)
	if err != nil {
		rep.Warnings = append(rep.Warnings, fmt.Sprintf("outcomes: %v", err))
	}
	return rep, nil
}
