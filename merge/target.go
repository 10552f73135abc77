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
	plain   bool  // there are no partition columns
	whole   deltatable.Partition
}

func newTarget(j *Job, in *input, l *deltatable.Layout) (*target, error) {
	t := &target{layout: l, schema: l.Schema(), plain: len(l.PartitionColumns()) == 0}
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
	if t.plain {
		empty, err := t.nulls(1)
		if err != nil {
			return nil, err
		}
		if t.whole, err = l.Partition(empty, 0); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *target) nulls(n int) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, t.schema.NumFields())
	for i, f := range t.schema.Fields() {
		cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, n)
	}
	return array.NewRecordBatch(t.schema, cols, int64(n)), nil
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
	default:
		panic(fmt.Sprintf("merge: internal error: status of write %d", w))
	}
}

// assemble builds the rows that the candidates store, in table order. Where
// only is not nil, columns that it does not name stay NULL.
func (t *target) assemble(r *run, p *plan, ids []int32, only map[string]bool) (arrow.RecordBatch, error) {
	picks, withPayload := make([]rows.Pick, len(ids)), make([]rows.Pick, len(ids))
	for i, id := range ids {
		at := r.cs.all[id].first
		picks[i] = rows.Pick{Source: at.rec, Row: at.row}
		withPayload[i] = picks[i]
		if p.verdicts[id].Write != policy.WriteActive {
			withPayload[i] = rows.Null()
		}
	}
	cols := make([]arrow.Array, len(t.input))
	sources := make([]arrow.Array, len(r.in.recs))
	for c, f := range t.schema.Fields() {
		if only != nil && !only[f.Name] {
			cols[c] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, len(ids))
			continue
		}
		if t.input[c] < 0 {
			cols[c] = t.status(r.job.Roles.StatusForm, p, ids)
			continue
		}
		for i := range r.in.recs {
			sources[i] = r.in.recs[i][t.input[c]]
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

func (t *target) status(form change.StatusForm, p *plan, ids []int32) arrow.Array {
	if form == change.StatusBoolean {
		b := array.NewBooleanBuilder(memory.DefaultAllocator)
		for _, id := range ids {
			b.Append(storedStatus(p.verdicts[id].Write) == change.Deleted)
		}
		return b.NewArray()
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for _, id := range ids {
		b.Append(storedStatus(p.verdicts[id].Write).String())
	}
	return b.NewArray()
}

// partitions gives the partition of each candidate's new row.
func (t *target) partitions(r *run, p *plan, ids []int32) ([]deltatable.Partition, error) {
	out := make([]deltatable.Partition, len(ids))
	if t.plain {
		for i := range out {
			out[i] = t.whole
		}
		return out, nil
	}
	only := map[string]bool{}
	for _, c := range t.layout.PartitionColumns() {
		only[c] = true
	}
	const step = 1 << 16
	for start := 0; start < len(ids); start += step {
		part := ids[start:min(start+step, len(ids))]
		rec, err := t.assemble(r, p, part, only)
		if err != nil {
			return nil, err
		}
		for i := range part {
			if out[start+i], err = t.layout.Partition(rec, i); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// digestDelta is what the plan adds to the table's digest: the rows written less
// the rows that they take the place of (merge-semantics 7).
func (r *run) digestDelta(p *plan) integrity.Sum {
	var sum integrity.Sum
	var buf []byte
	for id := range r.cs.all {
		v := p.verdicts[id]
		if v.Write == policy.WriteNone {
			continue
		}
		key := r.cs.keys.Key(int32(id))
		if h := &p.hits[id]; h.file != nil {
			buf = append(append(buf[:0], key...), h.version...)
			sum = sum.Minus(integrity.RowHash(ordered.AppendString(buf, h.status.String())))
		}
		buf = append(append(buf[:0], key...), r.cs.all[id].version...)
		sum = sum.Plus(integrity.RowHash(ordered.AppendString(buf, storedStatus(v.Write).String())))
	}
	return sum
}
