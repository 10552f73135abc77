package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/failpoint"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/statement"
)

// MergeSource is one --source NAME=…: change files, or a Delta table.
type MergeSource struct {
	Name  string
	Files []string // paths or URLs; a single one that is a Delta table is read as one
	// Version of a table source, nil for the latest.
	Version *deltatable.Version
	// Schema is the DDL of --source-schema NAME=…: columns that the target lacks,
	// or has with another type.
	Schema string
}

// MergeJob is one invocation of merge: one statement, at most one commit. Of Fold
// the table, the delivery and the input flags are used.
type MergeJob struct {
	Fold       ApplyJob
	Sources    []MergeSource
	SQL        string
	Evolve     bool
	BreakGuard bool
}

// Merge carries a MERGE statement out (merge-semantics 5). Report and errors are
// those of Apply, and *merge.CardinalityError, *merge.ValueError, and those of
// package statement for a statement that does not parse or bind.
func Merge(ctx context.Context, e *Env, j *MergeJob) (*ApplyReport, error) {
	st, err := statement.Parse(j.SQL)
	if err != nil {
		return nil, usage("%v", err)
	}
	at := slices.IndexFunc(j.Sources, func(s MergeSource) bool { return strings.EqualFold(s.Name, st.Source.Name) })
	if at < 0 {
		return nil, usage("the statement's source is %s: --source %s=FILE or TABLE says where it is", st.Source.Name, st.Source.Name)
	}
	k := &mergeKind{op: "merge", statement: st, source: &j.Sources[at], evolve: j.Evolve, breakGuard: j.BreakGuard}
	return e.fold(ctx, &j.Fold, k)
}

// mergeKind is MERGE and its little sisters delete, update and overwrite.
type mergeKind struct {
	op         string // as the user calls it
	statement  *statement.Statement
	source     *MergeSource // nil: there are no source rows, or they come from the job's files
	evolve     bool
	noMatch    bool
	breakGuard bool   // a guard may be set aside
	broken     bool   // there is one
	operation  string // of commitInfo; "" is MERGE
	parameters map[string]string
	outcomes   string
	self       bool
	check      func(a *applier) error // of the rows that no expectation dropped; nil: none
}

func (k *mergeKind) outcomesAt() string                 { return k.outcomes }
func (k *mergeKind) columns() (keys, versions []string) { return nil, nil }
func (k *mergeKind) expectations() []change.Expectation { return nil }
func (k *mergeKind) ignores() bool                      { return false }

func (k *mergeKind) prepare(_ context.Context, a *applier) (*arrow.Schema, error) {
	if a.snap == nil {
		return nil, fmt.Errorf("%s: %w", a.job.Table, deltatable.ErrNoTable)
	}
	props := a.snap.Properties()
	mode, err := change.ModeOf(props)
	if err != nil {
		return nil, err
	}
	if mode != change.Plain && !k.breakGuard {
		return nil, &RuleError{fmt.Sprintf("table %s is %s: %s could break its rules; --break-guard does it all the same", a.job.Table, mode, k.op)}
	}
	k.broken = mode != change.Plain
	if k.outcomes != change.OutcomesNone {
		k.outcomes = props[change.PropOutcomes]
	}
	sch := a.snap.Schema()
	if k.source == nil || k.source.Schema == "" {
		return nullable(sch), nil
	}
	ds, err := deltatable.ParseDDL(k.source.Schema)
	if err != nil {
		return nil, usage("--source-schema %s: %v", k.source.Name, err)
	}
	given, err := ds.Arrow()
	if err != nil {
		return nil, usage("--source-schema %s: %v", k.source.Name, err)
	}
	fields := slices.DeleteFunc(slices.Clone(sch.Fields()), func(f arrow.Field) bool { _, is := fieldOf(given, f.Name); return is })
	return nullable(arrow.NewSchema(append(fields, given.Fields()...), nil)), nil
}

// sourceReader is a kind that reads its rows itself.
type sourceReader interface {
	readSource(ctx context.Context, a *applier, sch *arrow.Schema) error
}

// readSource reads the statement's source into the applier's batch.
func (k *mergeKind) readSource(ctx context.Context, a *applier, sch *arrow.Schema) error {
	a.batch = &merge.Batch{Name: a.job.Batch, Schema: sch}
	a.files = nil
	if k.source == nil && len(a.in.sources) == 0 {
		a.batch.Digest = changefile.Digest(nil)
		return nil
	}
	if k.source != nil {
		table, err := k.tableSource(ctx, a)
		if err != nil {
			return err
		}
		if table != nil {
			return k.readTable(ctx, a, table)
		}
	}
	for _, src := range a.in.sources {
		a.env.step("reading %s", src.Name)
		f, err := changefile.Read(ctx, src, &changefile.Options{
			Format: a.job.Format, Schema: sch, Zone: a.job.Zone, AllowUnknown: a.job.AllowUnknown,
		})
		if err != nil {
			return err
		}
		a.files = append(a.files, f)
	}
	a.batch.Digest = changefile.Digest(a.files)
	if a.batch.Name == "" {
		a.batch.Name = batchName("", a.in.names)
	}
	k.project(a)
	failpoint.Hit("batch-read")
	return nil
}

// project leaves out columns that no file has and that were not declared: they
// are the target's by default only.
func (k *mergeKind) project(a *applier) {
	present, total := map[string]bool{}, int64(0)
	for _, f := range a.files {
		total += f.Rows
		for c, has := range f.Present {
			present[c] = present[c] || has
		}
	}
	if k.source != nil && k.source.Schema != "" {
		if given, err := parseSchema(k.source.Schema); err == nil {
			for _, f := range given.Fields() {
				present[f.Name] = true
			}
		}
	}
	var keep []int
	var fields []arrow.Field
	for i, f := range a.batch.Schema.Fields() {
		if present[f.Name] || total == 0 {
			keep, fields = append(keep, i), append(fields, f)
		}
	}
	sch := arrow.NewSchema(fields, nil)
	a.batch.Schema, a.batch.Files = sch, nil
	for n, f := range a.files {
		file := merge.InputFile{Name: f.Name, Present: f.Present}
		out := *f
		out.Records = nil
		for _, rec := range f.Records {
			cols := make([]arrow.Array, len(keep))
			for c, i := range keep {
				cols[c] = rec.Column(i)
			}
			out.Records = append(out.Records, array.NewRecordBatch(sch, cols, rec.NumRows()))
		}
		file.Records = out.Records
		a.files[n] = &out
		a.batch.Files = append(a.batch.Files, file)
	}
}

// tableSource opens the source as a Delta table; nil if it is not one.
func (k *mergeKind) tableSource(ctx context.Context, a *applier) (*deltatable.Table, error) {
	if len(k.source.Files) != 1 || k.source.Files[0] == stdinName {
		return nil, nil
	}
	if base, _ := cutQuery(k.source.Files[0]); changefile.FormatOf(base) != "" {
		return nil, nil
	}
	t, err := a.env.OpenTable(ctx, k.source.Files[0])
	if err != nil {
		return nil, err
	}
	switch _, err := t.Snapshot(ctx); {
	case errors.Is(err, deltatable.ErrNoTable) && a.job.Format == "":
		return nil, fmt.Errorf("source %s: %s is no Delta table, and no file whose name tells its format (--format states one)", k.source.Name, k.source.Files[0])
	case errors.Is(err, deltatable.ErrNoTable):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("source %s: %w", k.source.Name, err)
	}
	return t, nil
}

// readTable reads a Delta table as the source, at the version that the flag or
// the statement names.
func (k *mergeKind) readTable(ctx context.Context, a *applier, t *deltatable.Table) error {
	snap, pinned, err := k.sourceSnapshot(ctx, a, t)
	if err != nil {
		return fmt.Errorf("source %s: %w", k.source.Name, err)
	}
	k.self = !pinned && t.Store().URL() == a.table.Store().URL()
	f := &changefile.File{Name: fmt.Sprintf("%s@v%d", t.Store().URL(), snap.Version()), Present: map[string]bool{}}
	for _, field := range snap.Schema().Fields() {
		f.Present[field.Name] = true
	}
	a.batch.Schema = nullable(snap.Schema())
	for rec, err := range snap.Scan(ctx, nil) {
		if err != nil {
			return fmt.Errorf("source %s: %w", k.source.Name, err)
		}
		f.Records = append(f.Records, array.NewRecordBatch(a.batch.Schema, rec.Columns(), rec.NumRows()))
		f.Rows += rec.NumRows()
	}
	a.files = []*changefile.File{f}
	a.batch.Files = []merge.InputFile{{Name: f.Name, Records: f.Records, Present: f.Present}}
	a.batch.Digest = changefile.Digest(a.files)
	if a.batch.Name == "" {
		a.batch.Name = k.source.Name
	}
	failpoint.Hit("batch-read")
	return nil
}

func (k *mergeKind) sourceSnapshot(ctx context.Context, a *applier, t *deltatable.Table) (s *deltatable.Snapshot, pinned bool, err error) {
	rel := &k.statement.Source
	switch {
	case k.source.Version != nil:
		s, err = t.SnapshotAt(ctx, *k.source.Version)
		return s, true, err
	case rel.Version != "":
		v, err := strconv.ParseInt(rel.Version, 10, 64)
		if err != nil {
			return nil, false, usage("VERSION AS OF %s is not a version", rel.Version)
		}
		s, err = t.SnapshotAt(ctx, deltatable.Version(v))
		return s, true, err
	case rel.Timestamp != "":
		at, err := ParseTimestamp(rel.Timestamp, a.job.Zone)
		if err != nil {
			return nil, false, err
		}
		s, err = t.SnapshotAtTime(ctx, at)
		return s, true, err
	}
	if t.Store().URL() == a.table.Store().URL() {
		return a.snap, false, nil // the version that the statement starts from
	}
	s, err = t.Snapshot(ctx)
	return s, false, err
}

func (k *mergeKind) merge(ctx context.Context, a *applier) (*merge.Result, error) {
	if k.check != nil {
		if err := k.check(a); err != nil {
			return a.refusedWhole(err)
		}
	}
	text, err := a.flags().JSON()
	if err != nil {
		return nil, err
	}
	tags := a.tags(map[string]string{change.TagFlags: text})
	if k.broken {
		tags[change.TagBreakGuard] = k.op
	}
	return merge.Into(ctx, &merge.IntoJob{
		Table: a.table, Read: a.snap, Statement: k.statement, Source: a.batch, Dropped: a.dropped, NoMatch: k.noMatch,
		Evolve: k.evolve, Self: k.self, At: a.began, Zone: a.job.Zone, Operation: k.operation, Parameters: k.parameters,
		Identifier: a.identifier(), RunID: a.run, Tags: tags, Retry: a.env.Retry, Now: a.env.Now, Workers: a.env.Workers,
		BeforeCommit: a.record,
	})
}
