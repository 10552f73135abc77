package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/failpoint"
	"github.com/deltafold/deltafold/merge/change"
)

// AppendJob is one invocation of append: one batch, at most one commit.
type AppendJob struct {
	Table  string
	Files  []string // paths, URLs or "-"
	Schema string   // --schema, the DDL of the input; "" for none
	// PartitionBy and Properties are for a table that the run makes.
	PartitionBy  []string
	Properties   map[string]string
	Format       string
	AllowUnknown bool
	Zone         *time.Location
	Batch        string
	AppID        string // the batch's transaction identifier; "" for none
	AppVersion   int64
	Resume       string // RUN@VERSION of a run whose commit was undecided
	// BreakGuard appends to a table under a guard all the same; the commit says
	// so (merge-semantics 8).
	BreakGuard bool
	// Expectations are checked on the rows as read. Those that drop leave rows
	// out, one that fails is a *merge.RefusedError.
	Expectations []change.Expectation
}

// AppendReport is what an append did.
type AppendReport struct {
	Run, Batch, Table string
	Rows              int64 // appended, as counted from the footers of the files
	Dropped           int64 // left out by expectations
	// Expectations are the numbers of rows that violated each, by name.
	Expectations map[string]int64
	Files        int // data files added
	Version      *deltatable.Version
	// Why says why no version was made; "" where one was.
	Why                     string
	Created, AlreadyApplied bool
	Warnings                []string
}

// Append adds the rows of a batch to a plain table, which it makes where there
// is none. On a guarded table it is a *RuleError.
func Append(ctx context.Context, e *Env, j *AppendJob) (*AppendReport, error) {
	in, err := e.inputs(j.Files)
	if err != nil {
		return nil, err
	}
	t, err := e.OpenTable(ctx, j.Table)
	if err != nil {
		return nil, err
	}
	a := &appender{env: e, job: j, in: in, table: t, run: uuid.NewString()}
	if j.Resume != "" { // NB: the same id: a put of that run which lands from now on is our own (R7, R8)
		a.run, _, _ = strings.Cut(j.Resume, "@")
	}
	var rep *AppendReport
	err = e.restart(ctx, func() error {
		rep, err = a.once(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	rep.Run, rep.Table = a.run, t.Store().URL()
	if rep.Batch == "" {
		rep.Batch = batchName(j.Batch, in.names)
	}
	if rep.Version != nil {
		rep.Warnings = postCommit(ctx, t, *rep.Version)
	}
	return rep, nil
}

// appender is one call of Append; once is one try on one state of the table.
type appender struct {
	env   *Env
	job   *AppendJob
	in    *inputs
	table *deltatable.Table
	run   string

	expected *expectations
	dropped  int64

	snap   *deltatable.Snapshot // nil: the run makes the table
	md     *deltatable.Metadata
	proto  *deltatable.Protocol
	layout *deltatable.Layout
	broken bool // the table has a guard, which is set aside
}

func (a *appender) once(ctx context.Context) (*AppendReport, error) {
	var err error
	if a.snap, err = current(ctx, a.table); err != nil {
		return nil, err
	}
	if a.job.Resume != "" { // after the snapshot was read, so that nothing lands in between
		if rep, err := resumeAppend(ctx, a.table, a.job.Resume); rep != nil || err != nil {
			return rep, err
		}
	}
	if a.snap != nil && a.job.AppID != "" {
		if v, ok := a.snap.AppVersion(a.job.AppID); ok && v >= a.job.AppVersion {
			return &AppendReport{AlreadyApplied: true, Why: alreadyApplied(a.job.AppID, v)}, nil
		}
	}
	if a.snap != nil {
		err = a.existing()
	} else {
		err = a.fresh(ctx)
	}
	if err != nil {
		return nil, err
	}
	recs, rows, err := a.read(ctx)
	if err != nil {
		return nil, err
	}
	if rows == 0 && a.snap != nil && a.job.AppID == "" {
		rep := &AppendReport{Why: "the batch has no rows", Dropped: a.dropped, Expectations: a.expected.counts()}
		if a.dropped > 0 {
			rep.Why = "expectations dropped every row"
		}
		return rep, nil
	}
	adds, written, err := a.write(ctx, recs)
	var landed *deltatable.Landed
	switch {
	case err != nil:
	case written != rows: // counted from the footers
		err = fmt.Errorf("internal error: %d rows read, %d rows in the files written; nothing is committed", rows, written)
	default:
		landed, err = a.commit(ctx, adds, rows)
	}
	if err != nil {
		var undecided *deltatable.UndecidedError
		if !errors.As(err, &undecided) { // else the commit may name them yet (R8)
			// What cannot be deleted is found by vacuum, never by a reader.
			_ = a.table.Discard(context.WithoutCancel(ctx), adds)
		}
		return nil, fmt.Errorf("append to table %s: %w", a.job.Table, err)
	}
	return &AppendReport{
		Rows: rows, Files: len(adds), Version: &landed.Version, Created: a.snap == nil,
		Dropped: a.dropped, Expectations: a.expected.counts(),
	}, nil
}

func alreadyApplied(app string, v int64) string {
	return fmt.Sprintf("already applied: the table has version %d of application %s", v, app)
}

// existing checks that rows may be appended to the table.
func (a *appender) existing() error {
	mode, err := change.ModeOf(a.snap.Properties())
	if err != nil {
		return err
	}
	if mode != change.Plain && !a.job.BreakGuard {
		return &RuleError{fmt.Sprintf("table %s is %s: append could break its rules; use apply, or --break-guard to append all the same", a.job.Table, mode)}
	}
	a.broken = mode != change.Plain
	if err := checkTableFlags(a.snap, a.job.PartitionBy, a.job.Properties); err != nil {
		return err
	}
	if err := a.snap.CheckAppendable(); err != nil {
		return fmt.Errorf("append to table %s: %w", a.job.Table, err)
	}
	a.layout, a.md, a.proto = a.snap.Layout(), nil, nil // those of a try at creating the table
	if a.job.Schema == "" {
		return nil
	}
	given, err := parseSchema(a.job.Schema)
	if err != nil {
		return err
	}
	for _, g := range given.Fields() {
		f, ok := fieldOf(a.snap.Schema(), g.Name)
		switch {
		case !ok && !a.job.AllowUnknown:
			return usage("--schema has column %s, which the table lacks", g.Name)
		case ok && !arrow.TypeEqual(g.Type, f.Type):
			return usage("--schema gives column %s the type %s, the table has %s", f.Name, deltatable.TypeName(g.Type), deltatable.TypeName(f.Type))
		}
	}
	return nil
}

// fresh makes metadata for a table that is not there: from --schema, or from
// the first file, where it is Parquet or Arrow.
func (a *appender) fresh(ctx context.Context) error {
	var ds *deltatable.Schema
	var err error
	if a.job.Schema != "" {
		if ds, err = deltatable.ParseDDL(a.job.Schema); err != nil {
			return usage("--schema: %v", err)
		}
	} else {
		sch, err := a.ownSchema(ctx)
		if err != nil {
			return err
		}
		if ds, err = deltatable.SchemaFromArrow(sch); err != nil {
			return err
		}
	}
	if text := notShared(a.table.Store().URL(), a.job.Properties[change.PropOutcomes]); text != "" {
		return usage("%s", text)
	}
	a.md, a.proto, err = deltatable.NewTableMetadata(ds, a.job.PartitionBy, a.job.Properties)
	if err != nil {
		return newTableError(err)
	}
	a.layout, err = deltatable.NewLayout(a.md)
	return err
}

func (a *appender) ownSchema(ctx context.Context) (*arrow.Schema, error) {
	src := a.in.sources[0]
	format := a.job.Format
	if format == "" {
		format = changefile.FormatOf(src.Name)
	}
	if format != changefile.FormatParquet && format != changefile.FormatArrow {
		return nil, usage("a new table needs --schema: types of text inputs are never guessed")
	}
	f, err := changefile.Read(ctx, src, &changefile.Options{Format: format})
	if err != nil {
		return nil, err
	}
	if len(f.Records) == 0 {
		return nil, usage("%s has no rows: a new table needs --schema", f.Name)
	}
	return f.Records[0].Schema(), nil
}

// read reads the batch in the table's types, and leaves out what expectations
// drop.
func (a *appender) read(ctx context.Context) ([]arrow.RecordBatch, int64, error) {
	o := &changefile.Options{Format: a.job.Format, Schema: a.layout.Schema(), Zone: a.job.Zone, AllowUnknown: a.job.AllowUnknown}
	var files []*changefile.File
	for _, src := range a.in.sources {
		a.env.step("reading %s", src.Name)
		f, err := changefile.Read(ctx, src, o)
		if err != nil {
			return nil, 0, err
		}
		files = append(files, f)
	}
	failpoint.Hit("batch-read")
	var err error
	if a.expected, err = expect(nil, a.job.Expectations, &expectedRows{files, nullable(o.Schema), a.job.Zone}); err != nil {
		return nil, 0, err
	}
	if refusal := a.expected.refusal(); refusal != nil {
		return nil, 0, refusal
	}
	return a.kept(ctx, files)
}

// write writes the rows into data files, one partition after the other in the
// order in which the input has them. With an error it gives the files that are
// there already.
func (a *appender) write(ctx context.Context, recs []arrow.RecordBatch) (adds []*deltatable.Add, rows int64, err error) {
	parts, err := a.split(ctx, recs)
	if err != nil {
		return nil, 0, err
	}
	for i, p := range parts {
		a.env.step("writing partition %d of %d", i+1, len(parts))
		w, err := a.table.NewFileWriter(ctx, a.layout, p.partition)
		if err != nil {
			return adds, 0, err
		}
		for _, rec := range p.recs {
			if err := w.Write(rec); err != nil {
				return adds, 0, errors.Join(err, w.Abort())
			}
		}
		out, err := w.Close()
		if err != nil {
			return adds, 0, err
		}
		adds, rows = append(adds, out...), rows+w.Rows()
	}
	return adds, rows, nil
}

// partitionRows are the rows of one partition.
type partitionRows struct {
	partition deltatable.Partition
	recs      []arrow.RecordBatch
}

func (a *appender) split(ctx context.Context, recs []arrow.RecordBatch) ([]*partitionRows, error) {
	if len(a.layout.PartitionColumns()) == 0 {
		if len(recs) == 0 {
			return nil, nil
		}
		return []*partitionRows{{recs: recs}}, nil
	}
	var parts []*partitionRows
	at := map[string]*partitionRows{}
	for _, rec := range recs {
		byPart, order := map[*partitionRows]*array.Int64Builder{}, []*partitionRows{}
		for i := range int(rec.NumRows()) {
			p, err := a.layout.Partition(rec, i)
			if err != nil {
				return nil, err
			}
			pr := at[p.Key]
			if pr == nil {
				pr = &partitionRows{partition: p}
				at[p.Key], parts = pr, append(parts, pr)
			}
			if byPart[pr] == nil {
				byPart[pr], order = array.NewInt64Builder(memory.DefaultAllocator), append(order, pr)
			}
			byPart[pr].Append(int64(i))
		}
		for _, pr := range order {
			taken, err := take(ctx, rec, byPart[pr].NewInt64Array())
			if err != nil {
				return nil, err
			}
			pr.recs = append(pr.recs, taken)
		}
	}
	return parts, nil
}

// take gives the rows of rec at the indices.
func take(ctx context.Context, rec arrow.RecordBatch, indices arrow.Array) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, rec.NumCols())
	for i := range cols {
		out, err := compute.TakeArray(ctx, rec.Column(i), indices)
		if err != nil {
			return nil, fmt.Errorf("take rows: %w", err)
		}
		cols[i] = out
	}
	return array.NewRecordBatch(rec.Schema(), cols, int64(indices.Len())), nil
}

func (a *appender) commit(ctx context.Context, adds []*deltatable.Add, rows int64) (*deltatable.Landed, error) {
	var bytes int64
	for _, add := range adds {
		bytes += add.Size
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	tx := a.table.Begin(a.snap)
	tx.Write = deltatable.Commit{
		TxnID: a.run, Operation: "WRITE", Adds: adds, Metadata: a.md, Protocol: a.proto, Tags: rowTags(a.run, rows),
		Parameters: map[string]string{"mode": "Append", "partitionBy": jsonText(a.layout.PartitionColumns())},
		Metrics:    map[string]string{"numFiles": n(int64(len(adds))), "numOutputRows": n(rows), "numOutputBytes": n(bytes)},
	}
	tx.Write.Tags[change.TagBatch] = batchName(a.job.Batch, a.in.names)
	a.expected.tag(tx.Write.Tags)
	if a.broken {
		tx.Write.Tags[change.TagBreakGuard] = "append"
	}
	if a.job.AppID != "" {
		at := a.env.now().UnixMilli()
		tx.Write.Txns = []deltatable.Txn{{AppID: a.job.AppID, Version: a.job.AppVersion, LastUpdated: &at}}
		tx.Read.Apps = []string{a.job.AppID}
	}
	return tx.Commit(ctx, a.env.Retry)
}

// resumeAppend looks for the commit of an undecided run: a report if it is there.
func resumeAppend(ctx context.Context, t *deltatable.Table, at string) (*AppendReport, error) {
	entry, err := findRun(ctx, t, at)
	if entry == nil || err != nil {
		return nil, err
	}
	rep := &AppendReport{
		Run: entry.Info.TxnID, Table: t.Store().URL(), Version: &entry.Version,
		Batch: entry.Info.Tags[change.TagBatch], Created: entry.Version == 0,
	}
	rep.Rows, _ = strconv.ParseInt(entry.Info.Tags[change.TagInserts], 10, 64) // a figure for people
	for range entry.Adds() {
		rep.Files++
	}
	return rep, nil
}
