package merge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/statement"
)

// intoTable is a table in memory that MERGE statements run on.
type intoTable struct {
	ctx   context.Context
	store *blobstore.Store
	table *deltatable.Table
	sch   *arrow.Schema
	parts []string
}

// newIntoTable makes a table with one commit for each list of rows.
func newIntoTable(ctx context.Context, sch *arrow.Schema, parts []string, props map[string]string, files ...[]tabletest.Row) (*intoTable, error) {
	store, err := blobstore.Open(ctx, "mem://"+uuid.NewString())
	if err != nil {
		return nil, err
	}
	w := &intoTable{ctx: ctx, store: store, table: deltatable.NewTable(store, nil), sch: sch, parts: parts}
	ds, err := deltatable.SchemaFromArrow(sch)
	if err != nil {
		return nil, err
	}
	md, protocol, err := deltatable.NewTableMetadata(ds, parts, props)
	if err != nil {
		return nil, err
	}
	if _, err := w.table.TryCommit(ctx, nil, &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: protocol}); err != nil {
		return nil, err
	}
	for _, rows := range files {
		if err := w.foreign(rows, nil, false); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// snapshot is the latest version.
func (w *intoTable) snapshot() (*deltatable.Snapshot, error) { return w.table.Snapshot(w.ctx) }

// foreign commits rows as another engine would, in place of the files removed.
func (w *intoTable) foreign(rows []tabletest.Row, remove []*deltatable.Add, rearrange bool) error {
	snap, err := w.snapshot()
	if err != nil {
		return err
	}
	adds, err := w.write(snap, rows)
	if err != nil {
		return err
	}
	tx := w.table.Begin(snap)
	tx.Write = deltatable.Commit{Operation: "WRITE", Adds: adds, Removes: remove, Rearrange: rearrange}
	for _, a := range remove {
		tx.Read.Files = append(tx.Read.Files, a.Key())
	}
	_, err = tx.Commit(w.ctx, nil)
	return err
}

// write puts rows into new files, one for each partition.
func (w *intoTable) write(snap *deltatable.Snapshot, rows []tabletest.Row) ([]*deltatable.Add, error) {
	var keys []string
	parts, groups := map[string]deltatable.Partition{}, map[string][]tabletest.Row{}
	for _, rec := range (tabletest.Batch{Rows: rows}).Records(w.sch) {
		for i := range int(rec.NumRows()) {
			p, err := snap.Layout().Partition(rec, i)
			if err != nil {
				return nil, err
			}
			if _, known := parts[p.Key]; !known {
				keys, parts[p.Key] = append(keys, p.Key), p
			}
			groups[p.Key] = append(groups[p.Key], rows[i])
		}
		rows = rows[rec.NumRows():]
	}
	var adds []*deltatable.Add
	for _, k := range keys {
		fw, err := w.table.NewFileWriter(w.ctx, snap.Layout(), parts[k])
		if err != nil {
			return nil, err
		}
		for _, rec := range (tabletest.Batch{Rows: groups[k]}).Records(w.sch) {
			if err := fw.Write(rec); err != nil {
				return nil, err
			}
		}
		got, err := fw.Close()
		if err != nil {
			return nil, err
		}
		adds = append(adds, got...)
	}
	return adds, nil
}

// rowsAt are the rows of a version; the latest if it is nil.
func (w *intoTable) rowsAt(v *deltatable.Version) ([]tabletest.Row, error) {
	snap, err := w.snapshot()
	if err == nil && v != nil {
		snap, err = w.table.SnapshotAt(w.ctx, *v)
	}
	if err != nil {
		return nil, err
	}
	return readRows(w.ctx, snap)
}

// keys lists the store.
func (w *intoTable) keys() ([]string, error) {
	var out []string
	for info, err := range w.store.List(w.ctx, "", "") {
		if err != nil {
			return nil, err
		}
		out = append(out, info.Key)
	}
	return out, nil
}

// sourceBatch is rows as the source of a statement, cut into files and records.
func sourceBatch(r *rand.Rand, sch *arrow.Schema, rows []tabletest.Row) *merge.Batch {
	b := &merge.Batch{Name: "source", Digest: fmt.Sprintf("%064d", len(rows)), Schema: sch}
	present := map[string]bool{}
	for _, f := range sch.Fields() {
		present[f.Name] = true
	}
	for first := true; first || len(rows) > 0; first = false {
		n := len(rows)
		if r != nil && n > 0 {
			n = 1 + r.IntN(n)
		}
		f := merge.InputFile{Name: fmt.Sprintf("source-%d", len(b.Files)), Present: present}
		for part := range slices.Chunk(rows[:n], max(1, n/2+1)) {
			f.Records = append(f.Records, tabletest.Batch{Rows: part}.Records(sch)...)
		}
		b.Files, rows = append(b.Files, f), rows[n:]
	}
	return b
}

// intoNow is the clock of the statements of tests.
var intoNow = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// job is a run of a statement on the latest version.
func (w *intoTable) job(sql string, source *merge.Batch) (*merge.IntoJob, error) {
	st, err := statement.Parse(sql)
	if err != nil {
		return nil, err
	}
	snap, err := w.snapshot()
	if err != nil {
		return nil, err
	}
	return &merge.IntoJob{
		Table: w.table, Read: snap, Statement: st, Source: source, Zone: time.UTC, RunID: uuid.NewString(),
		Retry: &deltatable.Retry{Max: 50, Sleep: noSleep}, Workers: 2, CheckRetries: true,
		Now: func() time.Time { return intoNow },
	}, nil
}

// hook calls f before each commit, with the number of the attempt from 1.
func hook(job *merge.IntoJob, f func(attempt int) error) {
	n := 0
	job.BeforeCommit = func(context.Context, *merge.Attempt) (*merge.Recorded, error) {
		n++
		return &merge.Recorded{}, f(n)
	}
}

// isRefusal says that the rules or the data refuse a statement.
func isRefusal(err error) bool {
	var rule *merge.RefusedError
	var cardinality *merge.CardinalityError
	var value *merge.ValueError
	var bind *expr.BindError
	return errors.As(err, &rule) || errors.As(err, &cardinality) || errors.As(err, &value) || errors.As(err, &bind)
}

// flat are the outcomes of all files.
func flat(res *merge.Result) []string {
	out := []string{}
	for _, f := range res.Outcomes {
		for _, o := range f {
			out = append(out, string(o))
		}
	}
	return out
}
