package merge

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/policy"
)

// target is the state table as the merge writes it: for each column, where its
// values come from.
type target struct {
	layout *deltatable.Layout
	schema *arrow.Schema
	// input is the batch's column of each table column, -1 for the status.
	input   []int
	payload []bool
	keys    []int // the table's columns that are keys
}

func newTarget(j *Job, in *input, l *deltatable.Layout) (*target, error) {
	t := &target{layout: l, schema: l.Schema()}
	isPayload := map[string]bool{}
	for _, n := range j.Roles.Payload {
		isPayload[n] = true
	}
	for _, f := range t.schema.Fields() {
		if f.Name == j.Roles.Status && j.Roles.Status != "" {
			t.input, t.payload = append(t.input, -1), append(t.payload, false)
			continue
		}
		c, ok := in.columns[f.Name]
		if !ok {
			return nil, fmt.Errorf("internal error: the batch's schema lacks table column %s", f.Name)
		}
		if got := j.Batch.Schema.Field(c).Type; !arrow.TypeEqual(got, f.Type) {
			return nil, fmt.Errorf("internal error: column %s is %s in the batch, %s in the table", f.Name, got, f.Type)
		}
		t.input, t.payload = append(t.input, c), append(t.payload, isPayload[f.Name])
	}
	for _, k := range j.Roles.Keys {
		at := t.schema.FieldIndices(k)
		if len(at) != 1 {
			return nil, fmt.Errorf("internal error: the table has %d columns %s", len(at), k)
		}
		t.keys = append(t.keys, at[0])
	}
	return t, nil
}

// nullRows are n rows of nothing but NULL.
func nullRows(sch *arrow.Schema, n int) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, sch.NumFields())
	for i, f := range sch.Fields() {
		cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, n)
	}
	return array.NewRecordBatch(sch, cols, int64(n)), nil
}

// storedStatus is what a write stores as the row's status.
func storedStatus(w policy.Write) change.Status {
	switch w {
	case policy.WriteActive:
		return change.Active
	case policy.WriteTombstone:
		return change.Deleted
	case policy.WriteConflict:
		return change.Conflict
	case policy.WriteNone: // nothing is stored
	}
	panic(fmt.Sprintf("merge: internal error: status of write %d", w))
}

// assemble builds the rows that the candidates store, in table order. Where
// only is not nil, columns that it does not name stay NULL.
func (t *target) assemble(g *guarded, ids []int32, only map[string]bool) (arrow.RecordBatch, error) {
	picks, withPayload := make([]rows.Pick, len(ids)), make([]rows.Pick, len(ids))
	for i, id := range ids {
		at := g.cs.all[id].first
		picks[i] = rows.Pick{Source: at.rec, Row: at.row}
		withPayload[i] = picks[i]
		if g.verdicts[id].Write != policy.WriteActive {
			withPayload[i] = rows.Null()
		}
	}
	cols := make([]arrow.Array, len(t.input))
	sources := make([]arrow.Array, len(g.in.recs))
	for c, f := range t.schema.Fields() {
		if only != nil && !only[f.Name] {
			cols[c] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, len(ids))
			continue
		}
		if t.input[c] < 0 {
			cols[c] = g.status(ids)
			continue
		}
		for i := range g.in.recs {
			sources[i] = g.in.recs[i][t.input[c]]
		}
		use := picks
		if t.payload[c] {
			use = withPayload
		}
		var err error
		if cols[c], err = rows.Gather(f.Type, sources, use); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return array.NewRecordBatch(t.schema, cols, int64(len(ids))), nil
}

// status is the status column of new rows.
func (g *guarded) status(ids []int32) arrow.Array {
	if g.job.Roles.StatusForm == change.StatusBoolean {
		b := array.NewBooleanBuilder(memory.DefaultAllocator)
		for _, id := range ids {
			b.Append(storedStatus(g.verdicts[id].Write) == change.Deleted)
		}
		return b.NewArray()
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, id := range ids {
		b.Append(storedStatus(g.verdicts[id].Write).String())
	}
	return b.NewArray()
}

// partitions gives the partition of each candidate's new row.
func (g *guarded) partitions(ids []int32) ([]deltatable.Partition, error) {
	out := make([]deltatable.Partition, len(ids))
	if g.engine.plain {
		for i := range out {
			out[i] = g.engine.whole
		}
		return out, nil
	}
	only := map[string]bool{}
	for _, c := range g.target.layout.PartitionColumns() {
		only[c] = true
	}
	const step = 1 << 16
	for start := 0; start < len(ids); start += step {
		part := ids[start:min(start+step, len(ids))]
		rec, err := g.target.assemble(g, part, only)
		if err != nil {
			return nil, err
		}
		for i := range part {
			if out[start+i], err = g.target.layout.Partition(rec, i); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// digestDelta is what the plan adds to the table's digest: the rows written less
// the rows that they take the place of (merge-semantics 7).
func (g *guarded) digestDelta() integrity.Sum {
	var sum integrity.Sum
	var buf []byte
	for id := range g.cs.all {
		v := g.verdicts[id]
		if v.Write == policy.WriteNone {
			continue
		}
		key := g.cs.keys.Key(int32(id))
		if h := &g.hits[id]; h.file != nil {
			buf = append(append(buf[:0], key...), h.version...)
			sum = sum.Minus(integrity.RowHash(ordered.AppendString(buf, h.status.String())))
		}
		buf = append(append(buf[:0], key...), g.cs.all[id].version...)
		sum = sum.Plus(integrity.RowHash(ordered.AppendString(buf, storedStatus(v.Write).String())))
	}
	return sum
}

// gather builds rows in table order out of rows of the batch.
func (t *target) gather(in *input, picks []rows.Pick) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, len(t.input))
	sources := make([]arrow.Array, len(in.recs))
	for c, f := range t.schema.Fields() {
		for i := range in.recs {
			sources[i] = in.recs[i][t.input[c]]
		}
		var err error
		if cols[c], err = rows.Gather(f.Type, sources, picks); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return array.NewRecordBatch(t.schema, cols, int64(len(picks))), nil
}
