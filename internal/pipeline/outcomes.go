package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/go-json-experiment/json"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// Columns of an outcomes table around those of the input (merge-semantics 6).
const (
	colRunID       = "_run_id"
	colVersion     = "_version"
	colReadVersion = "_read_version"
	colFile        = "_file"
	colRow         = "_row"
	colBatch       = "batch"
	colOutcome     = "outcome"
)

// tagOutcomesAdds holds, in the commitInfo of a state commit, what the outcomes
// table needs to take over the attempt's file: a JSON object with its add
// actions and its schema. With it a run that died can be completed.
const tagOutcomesAdds = "deltafold.outcomesAdds"

// repairedApp begins the application id under which an outcomes table records up
// to which state version it is known to be complete; the state table's id ends it,
// since a folder of outcomes may be older than the table.
const repairedApp = "deltafold-outcomes-complete-"

// outcomesTable is the outcomes table of one state table as one run sees it. A
// nil one is none: nothing is kept.
type outcomesTable struct {
	env   *Env
	table *deltatable.Table
	snap  *deltatable.Snapshot // nil: not made yet
	last  *pending             // the file of the latest attempt
	upTo  *deltatable.Version  // the state version that repair has reached
	app   string               // of repair: the application id of upTo
	lost  []string             // of repair: runs whose file is gone
}

// pending is an outcomes file that is written and not yet committed.
type pending struct {
	Schema string        `json:"schema"`
	Adds   []*pendingAdd `json:"adds"`
	// Location is the outcomes table's when the file was written; either table
	// may have moved since.
	Location string            `json:"location,omitzero"`
	adds     []*deltatable.Add // of Adds
	run      string
}

// pendingAdd is the part of an add action that an outcomes file has.
type pendingAdd struct {
	Path             string            `json:"path"`
	Size             int64             `json:"size"`
	ModificationTime int64             `json:"modificationTime"`
	Stats            string            `json:"stats,omitzero"`
	Tags             map[string]string `json:"tags,omitzero"`
}

// outcomeRun is what a run has to say about its rows.
type outcomeRun struct {
	id            string
	batch         *merge.Batch
	files         []*changefile.File
	outcomes      [][]change.Outcome
	version, read *deltatable.Version
}

func (e *Env) openOutcomes(ctx context.Context, state, property string) (*outcomesTable, error) {
	if property == change.OutcomesNone {
		return nil, nil
	}
	if text := notShared(state, property); text != "" {
		return nil, &RuleError{text}
	}
	url := OutcomesURL(state, property)
	t, err := e.OpenTable(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("outcomes: %w", err)
	}
	o := &outcomesTable{env: e, table: t}
	if o.snap, err = current(ctx, t); err != nil {
		return nil, fmt.Errorf("open outcomes table %s: %w", url, err)
	}
	if o.snap != nil && !isOutcomes(o.snap) || t.Store().URL() == state {
		return nil, &RuleError{fmt.Sprintf("the table at %s is no table of outcomes: set %s to another location", url, change.PropOutcomes)}
	}
	return o, nil
}

// isOutcomes tells a table of outcomes by its columns; one that batches are
// applied to is none.
func isOutcomes(snap *deltatable.Snapshot) bool {
	if mode, err := change.ModeOf(snap.Properties()); err != nil || mode != change.Plain {
		return false
	}
	for _, c := range reserved() {
		if _, ok := fieldOf(snap.Schema(), c); !ok {
			return false
		}
	}
	return true
}

// reserved are the names that an input column must not have.
func reserved() []string {
	return []string{colRunID, colVersion, colReadVersion, colFile, colRow, colBatch, colOutcome}
}

// check refuses input columns that collide, by name, before anything is written.
func (o *outcomesTable) check(input *arrow.Schema) error {
	if o == nil {
		return nil
	}
	for _, f := range input.Fields() {
		for _, r := range reserved() {
			if strings.EqualFold(f.Name, r) {
				return &RuleError{fmt.Sprintf("input column %s collides with a column of the outcomes table; set deltafold.outcomes to none or rename it", f.Name)}
			}
		}
	}
	_, _, err := o.merged(outcomesSchema(input.Fields()))
	return err
}

func outcomesSchema(input []arrow.Field) *arrow.Schema {
	text, long := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	fields := []arrow.Field{
		{Name: colRunID, Type: text},
		{Name: colVersion, Type: long},
		{Name: colReadVersion, Type: long},
		{Name: colFile, Type: text},
		{Name: colRow, Type: long},
		{Name: colBatch, Type: text},
	}
	fields = append(append(fields, input...), arrow.Field{Name: colOutcome, Type: text})
	for i := range fields {
		fields[i].Nullable = true
	}
	return arrow.NewSchema(fields, nil)
}

// merged is the metadata of the outcomes table with the columns of sch merged
// in by name, and whether that differs from what it has.
func (o *outcomesTable) merged(sch *arrow.Schema) (md *deltatable.Metadata, differs bool, err error) {
	fields := sch.Fields()
	if o.snap != nil {
		fields = slices.Clone(o.snap.Schema().Fields())
		for _, f := range sch.Fields() {
			have, ok := fieldOf(o.snap.Schema(), f.Name)
			if !ok {
				fields, differs = append(fields, f), true
				continue
			}
			if !arrow.TypeEqual(have.Type, f.Type) {
				return nil, false, &RuleError{fmt.Sprintf("input column %s is %s, the outcomes table has it as %s", f.Name, deltatable.TypeName(f.Type), deltatable.TypeName(have.Type))}
			}
		}
		if !differs {
			return o.snap.Metadata(), false, nil
		}
	}
	ds, err := deltatable.SchemaFromArrow(arrow.NewSchema(fields, nil))
	if err != nil {
		return nil, false, err
	}
	if o.snap == nil {
		md, _, err := deltatable.NewTableMetadata(ds, nil, nil)
		return md, true, err
	}
	next := *o.snap.Metadata()
	next.SchemaString = ds.JSON()
	return &next, true, nil
}

// put writes an attempt's file and gives the tags that name it.
func (o *outcomesTable) put(ctx context.Context, r *outcomeRun) (*merge.Recorded, error) {
	p, err := o.write(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("write outcomes: %w", err)
	}
	o.last = p
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write outcomes: %w", err)
	}
	tags := map[string]string{tagOutcomesAdds: string(text)}
	if len(p.adds) > 0 {
		tags[change.TagOutcomesFile] = p.adds[0].Path
	}
	return &merge.Recorded{Tags: tags, Discard: func(ctx context.Context) {
		o.last = nil
		// An error changes nothing: a file that no commit names is no outcome.
		_ = o.table.Discard(ctx, p.adds)
	}}, nil
}

// write makes the file of a run's outcomes: the rows of all files in order.
func (o *outcomesTable) write(ctx context.Context, r *outcomeRun) (*pending, error) {
	present := map[string]bool{}
	for _, f := range r.batch.Files {
		for c, has := range f.Present {
			present[c] = present[c] || has
		}
	}
	var input []arrow.Field
	var cols []int
	for i, f := range r.batch.Schema.Fields() {
		if present[f.Name] {
			input, cols = append(input, f), append(cols, i)
		}
	}
	sch := outcomesSchema(input)
	ds, err := deltatable.SchemaFromArrow(sch)
	if err != nil {
		return nil, err
	}
	md, _, err := deltatable.NewTableMetadata(ds, nil, map[string]string{"delta.targetFileSize": "1tb"})
	if err != nil {
		return nil, err
	}
	layout, err := deltatable.NewLayout(md)
	if err != nil {
		return nil, err
	}
	w, err := o.table.NewFileWriter(ctx, layout, deltatable.Partition{})
	if err != nil {
		return nil, err
	}
	for f, file := range r.batch.Files {
		if err := r.writeFile(w, sch, cols, f, file); err != nil {
			return nil, errors.Join(err, w.Abort())
		}
	}
	adds, err := w.Close()
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	p := &pending{Schema: ds.JSON(), Location: o.location(), adds: adds, run: r.id}
	for _, a := range adds {
		p.Adds = append(p.Adds, &pendingAdd{a.Path, a.Size, a.ModificationTime, a.Stats, a.Tags})
	}
	return p, nil
}

func (r *outcomeRun) writeFile(w *deltatable.FileWriter, sch *arrow.Schema, cols []int, f int, file merge.InputFile) error {
	i := 0
	for _, rec := range file.Records {
		n := int(rec.NumRows())
		arrays := []arrow.Array{
			repeatText(r.id, n), repeatVersion(r.version, n), repeatVersion(r.read, n), repeatText(file.Name, n),
		}
		row, out := array.NewInt64Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
		for range n {
			row.Append(r.files[f].Line(int64(i)))
			out.Append(string(r.outcomes[f][i]))
			i++
		}
		arrays = append(arrays, row.NewArray(), repeatText(r.batch.Name, n))
		for _, c := range cols {
			arrays = append(arrays, rec.Column(c))
		}
		arrays = append(arrays, out.NewArray())
		if err := w.Write(array.NewRecordBatch(sch, arrays, int64(n))); err != nil {
			return err
		}
	}
	return nil
}

func repeatText(s string, n int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for range n {
		b.Append(s)
	}
	return b.NewArray()
}

func repeatVersion(v *deltatable.Version, n int) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for range n {
		if v == nil {
			b.AppendNull()
		} else {
			b.Append(int64(*v))
		}
	}
	return b.NewArray()
}

// finish commits the outcomes of a run that has ended: the file that its commit
// names, or for a batch without a commit one that is written now.
func (o *outcomesTable) finish(ctx context.Context, r *outcomeRun) error {
	if o == nil {
		return nil
	}
	p := o.last
	if r.version == nil || p == nil {
		var err error
		if p, err = o.write(ctx, r); err != nil {
			return fmt.Errorf("write outcomes: %w", err)
		}
	}
	return o.commit(ctx, p)
}

// commit takes a file over, once: on condition of the identifier (run, 1), so
// that of a writer and one that completes it a single one succeeds.
func (o *outcomesTable) commit(ctx context.Context, p *pending) error {
	ds, err := deltatable.ParseSchema(p.Schema)
	if err != nil {
		return fmt.Errorf("outcomes of run %s: %w", p.run, err)
	}
	sch, err := ds.Arrow()
	if err != nil {
		return fmt.Errorf("outcomes of run %s: %w", p.run, err)
	}
	began := o.env.now()
	for attempt := 1; ; attempt++ {
		done, err := o.tryCommit(ctx, p, sch)
		if done || err != nil && !isLost(err) {
			return err
		}
		took := o.env.now().Sub(began)
		if o.env.Retry.Spent(attempt, took) {
			return &deltatable.RetryError{Attempts: attempt, Took: took, Err: err}
		}
		if err := o.env.Retry.Wait(ctx, attempt); err != nil {
			return err
		}
		if o.snap, err = current(ctx, o.table); err != nil {
			return err
		}
	}
}

func isLost(err error) bool {
	var conflict *deltatable.ConflictError
	var matrix *deltatable.TransactionConflictError
	return errors.As(err, &conflict) || errors.As(err, &matrix)
}

// location is the table's URL as it is recorded: without the parameters, which
// say how to get there from here.
func (o *outcomesTable) location() string {
	base, _ := cutQuery(o.table.Store().URL())
	return base
}

func (o *outcomesTable) tryCommit(ctx context.Context, p *pending, sch *arrow.Schema) (bool, error) {
	if o.has(p) {
		return true, nil
	}
	md, differs, err := o.merged(sch)
	if err != nil {
		return false, err
	}
	tx := o.table.Begin(o.snap)
	at := o.env.now().UnixMilli()
	tx.Write = deltatable.Commit{
		Operation: "WRITE", Parameters: map[string]string{"mode": "Append", "partitionBy": "[]"},
		Tags: map[string]string{change.TagRun: p.run}, Adds: p.adds,
		Txns: []deltatable.Txn{{AppID: p.run, Version: 1, LastUpdated: &at}},
	}
	if o.upTo != nil {
		if have, ok := o.watermark(); !ok || have < int64(*o.upTo) {
			tx.Write.Txns = append(tx.Write.Txns, deltatable.Txn{AppID: o.app, Version: int64(*o.upTo), LastUpdated: &at})
		}
	}
	if differs {
		tx.Write.Metadata = md
	}
	if o.snap == nil {
		ds, err := deltatable.ParseSchema(md.SchemaString)
		if err != nil {
			return false, err
		}
		if tx.Write.Metadata, tx.Write.Protocol, err = deltatable.NewTableMetadata(ds, nil, nil); err != nil {
			return false, err
		}
	}
	landed, err := tx.Commit(ctx, o.env.Retry)
	if err != nil {
		return false, err
	}
	// The log checkpoint of the outcomes table is a convenience.
	_ = o.table.AfterCommit(ctx, landed)
	return true, nil
}

// has says whether a run's outcomes are in the table.
func (o *outcomesTable) has(p *pending) bool {
	if o.snap == nil {
		return false
	}
	if v, ok := o.snap.AppVersion(p.run); ok && v >= 1 {
		return true
	}
	return slices.ContainsFunc(p.adds, func(a *deltatable.Add) bool {
		_, live := o.snap.File(a.Key())
		return live
	})
}
