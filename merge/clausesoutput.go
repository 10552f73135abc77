package merge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/statement"
)

// holds implements mode: the results of live files do not change, so an output
// is right while its new rows are still wanted.
func (c *clauses) holds(o *output) bool {
	for _, id := range o.inserts {
		if id >= movedBase {
			if c.moved[id-movedBase].dead {
				return false
			}
			continue
		}
		if _, found := slices.BinarySearch(c.inserts, id); !found {
			return false
		}
	}
	return true
}

// verify implements mode.
func (c *clauses) verify(ctx context.Context, snap *deltatable.Snapshot) error {
	fresh := &clauses{
		job: c.job, bound: c.bound, engine: c.engine, source: c.source,
		files: map[deltatable.FileKey]*fileResult{}, rows: map[int32]insertRow{},
	}
	if err := fresh.plan(ctx, snap, &Stats{}); err != nil {
		return fmt.Errorf("check the retry: %w", err)
	}
	if !slices.Equal(c.inserts, fresh.inserts) {
		return fmt.Errorf("internal error: the retry at version %d differs from planning anew: %d new rows and %d",
			snap.Version(), len(c.inserts), len(fresh.inserts))
	}
	// A file that one of the plans ruled out must come to nothing in the other:
	// its statistics may have changed meanwhile.
	for _, f := range snap.Files() {
		r, o := c.files[f.Key()], fresh.files[f.Key()]
		if r == nil {
			r = &fileResult{}
		}
		if o == nil {
			o = &fileResult{}
		}
		if r.changes != o.changes || r.gone != o.gone || !slices.Equal(r.sources, o.sources) {
			return fmt.Errorf("internal error: the retry at version %d differs from planning anew for %s", snap.Version(), f.Path)
		}
		delete(fresh.files, f.Key())
	}
	if len(fresh.files) > 0 || slices.ContainsFunc(slices.Collect(maps.Keys(c.files)), func(k deltatable.FileKey) bool { _, live := snap.File(k); return !live }) {
		return fmt.Errorf("internal error: the retry at version %d holds results of files that are gone", snap.Version())
	}
	return nil
}

// refusal implements mode: clauses refuse by error only.
func (c *clauses) refusal() ([]change.Outcome, *RefusedError) { return nil, nil }

// outcomes implements mode. A source row that several target rows matched has
// the strongest outcome: updated, then deleted, then matched_unchanged.
func (c *clauses) outcomes() []change.Outcome {
	out := make([]change.Outcome, c.source.total)
	for n := range out {
		out[n] = outNone
		if c.source.drops(int32(n)) {
			out[n] = c.source.dropped[n]
		}
	}
	for _, n := range c.inserts {
		out[n] = outInserted
	}
	for _, r := range c.files {
		for _, m := range r.sources {
			switch {
			case m.action == statement.Update:
				out[m.row] = outUpdated
			case m.action == statement.Delete && out[m.row] != outUpdated:
				out[m.row] = outDeleted
			case out[m.row] == outNone:
				out[m.row] = outUnchanged
			}
		}
	}
	return out
}

// idle implements mode.
func (c *clauses) idle() bool {
	if len(c.inserts) > 0 || c.engine.metadata != nil {
		return false
	}
	for _, r := range c.files {
		if r.changes > 0 {
			return false
		}
	}
	return true
}

// wants implements mode.
func (c *clauses) wants(kept []*output) (*wanted, error) {
	sources, placed := contents(kept, c.snap.KeyOf)
	out := &wanted{}
	for _, f := range c.snap.Files() {
		if r := c.files[c.snap.KeyOf(f)]; r != nil && r.changes > 0 && !sources[c.snap.KeyOf(f)] {
			out.touched = append(out.touched, source{add: f, changes: r.changes})
		}
	}
	for _, n := range c.inserts {
		if !placed[n] {
			out.inserts = append(out.inserts, insert{n, c.rows[n].part})
		}
	}
	for i := range c.moved {
		if id := int32(i) + movedBase; !c.moved[i].dead && !placed[id] {
			out.inserts = append(out.inserts, insert{id, c.moved[i].part})
		}
	}
	return out, nil
}

// fresh implements mode.
func (c *clauses) fresh(ids []int32) (arrow.RecordBatch, error) {
	var recs []arrow.RecordBatch
	at := map[arrow.RecordBatch]int32{}
	picks := make([]rows.Pick, len(ids))
	for i, id := range ids {
		rec, row := c.rows[id].rec, c.rows[id].row
		if id >= movedBase {
			rec, row = c.moved[id-movedBase].rec, c.moved[id-movedBase].row
		}
		n, known := at[rec]
		if !known {
			n = int32(len(recs))
			at[rec] = n
			recs = append(recs, rec)
		}
		picks[i] = rows.Pick{Source: n, Row: row}
	}
	return gatherRows(c.engine.schema, recs, picks)
}

// gatherRows builds a record of picked rows of records of one schema.
func gatherRows(sch *arrow.Schema, recs []arrow.RecordBatch, picks []rows.Pick) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, sch.NumFields())
	sources := make([]arrow.Array, len(recs))
	for k, f := range sch.Fields() {
		for i, rec := range recs {
			sources[i] = rec.Column(k)
		}
		var err error
		if cols[k], err = rows.Gather(f.Type, sources, picks); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return array.NewRecordBatch(sch, cols, int64(len(picks))), nil
}
