package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
)

// query is which rows of a snapshot are given out, and in which order.
type query struct {
	snap    *deltatable.Snapshot
	columns []string // nil: all
	filter  *expr.Bound
	orderBy []string
	limit   int64  // negative: all
	count   *count // nil: rows; else numbers of rows, and no columns
}

// sortedRows is the number of rows in each batch of a sorted result.
const sortedRows = 8192

// schema is the schema of what comes out.
func (q *query) schema() (*arrow.Schema, error) {
	if q.count != nil {
		return q.count.schema()
	}
	sch := q.snap.Schema()
	if q.columns == nil {
		return sch, nil
	}
	var fields []arrow.Field
	for _, c := range q.columns {
		i, err := columnOf(sch, c)
		if err != nil {
			return nil, fmt.Errorf("--columns: %w", err)
		}
		f := sch.Field(i)
		if slices.ContainsFunc(fields, func(g arrow.Field) bool { return g.Name == f.Name }) {
			return nil, usage("--columns names %s twice", c)
		}
		fields = append(fields, f)
	}
	return arrow.NewSchema(fields, nil), nil
}

// columnOf finds a column by name, exactly or else without case.
func columnOf(sch *arrow.Schema, name string) (int, error) {
	if at := sch.FieldIndices(name); len(at) == 1 {
		return at[0], nil
	}
	found := -1
	for i, f := range sch.Fields() {
		if strings.EqualFold(f.Name, name) {
			if found >= 0 {
				return 0, usage("the name %s fits several columns", name)
			}
			found = i
		}
	}
	if found < 0 {
		return 0, usage("there is no column %s; the columns are %s", name, strings.Join(names(sch), ", "))
	}
	return found, nil
}

func names(sch *arrow.Schema) []string {
	out := make([]string, sch.NumFields())
	for i, f := range sch.Fields() {
		out[i] = f.Name
	}
	return out
}

// order is one column of --order-by.
type order struct {
	column string
	desc   bool
}

func parseOrder(sch *arrow.Schema, orderBy []string) ([]order, error) {
	var out []order
	for _, text := range orderBy {
		name, desc := strings.TrimSpace(text), false
		lower := strings.ToLower(name)
		switch {
		case strings.HasSuffix(lower, " desc"):
			name, desc = strings.TrimSpace(name[:len(name)-5]), true
		case strings.HasSuffix(lower, " asc"):
			name = strings.TrimSpace(name[:len(name)-4])
		}
		i, err := columnOf(sch, name)
		if err != nil {
			return nil, fmt.Errorf("--order-by: %w", err)
		}
		f := sch.Field(i)
		if !ordered.Supported(f.Type) {
			return nil, usage("--order-by %s: columns of type %s have no order", f.Name, deltatable.TypeName(f.Type))
		}
		out = append(out, order{f.Name, desc})
	}
	return out, nil
}

// rows yields the result. Sorted results are held in memory, but for a limit
// no more than a few times that many rows.
func (q *query) rows(ctx context.Context) (iter.Seq2[arrow.RecordBatch, error], error) {
	sch, err := q.schema()
	if err != nil {
		return nil, err
	}
	source := q.snap.Schema()
	if q.count != nil {
		source = sch
	}
	by, err := parseOrder(source, q.orderBy)
	if err != nil {
		return nil, err
	}
	switch {
	case q.count != nil:
		return q.counted(ctx, sch, by), nil
	case len(by) == 0:
		return q.unsorted(ctx, names(sch)), nil
	}
	return q.sorted(ctx, sch, by), nil
}

// counted yields numbers of rows, by ascending values unless by says otherwise.
func (q *query) counted(ctx context.Context, sch *arrow.Schema, by []order) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		rec, err := q.count.record(ctx, sch)
		s := &sorter{schema: sch, by: by, limit: q.limit}
		if err == nil {
			err = s.add(ctx, rec)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for rec, err := range s.rows(ctx) {
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func (q *query) unsorted(ctx context.Context, columns []string) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		left := q.limit
		if left == 0 {
			return
		}
		for rec, err := range q.snap.Scan(ctx, &deltatable.ScanOptions{Columns: columns, Filter: q.filter}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if q.limit >= 0 && rec.NumRows() > left {
				rec = rec.NewSlice(0, left)
			}
			left -= rec.NumRows()
			if !yield(rec, nil) || q.limit >= 0 && left == 0 {
				return
			}
		}
	}
}

func (q *query) sorted(ctx context.Context, sch *arrow.Schema, by []order) iter.Seq2[arrow.RecordBatch, error] {
	read := names(sch)
	for _, o := range by {
		if !slices.Contains(read, o.column) {
			read = append(read, o.column)
		}
	}
	return func(yield func(arrow.RecordBatch, error) bool) {
		s := &sorter{schema: sch, by: by, limit: q.limit}
		for rec, err := range q.snap.Scan(ctx, &deltatable.ScanOptions{Columns: read, Filter: q.filter}) {
			if err == nil {
				err = s.add(ctx, rec)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		for rec, err := range s.rows(ctx) {
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// sorter collects rows and gives them out in order.
type sorter struct {
	schema *arrow.Schema
	by     []order
	limit  int64 // negative: all
	recs   []arrow.RecordBatch
	keys   []sortKey
}

// sortKey is one row; index counts over all of recs.
type sortKey struct {
	key   []byte
	index int64
}

func (s *sorter) add(ctx context.Context, rec arrow.RecordBatch) error {
	cols := make([]ordered.Column, len(s.by))
	for i, o := range s.by {
		at, err := columnOf(rec.Schema(), o.column)
		if err != nil {
			return err
		}
		cols[i] = ordered.NewColumn(rec.Column(at))
	}
	first := s.count()
	var arena []byte
	for row := range int(rec.NumRows()) {
		from := len(arena)
		for i := range cols {
			at := len(arena)
			arena = cols[i].Append(arena, row)
			if s.by[i].desc {
				for k := at; k < len(arena); k++ {
					arena[k] = ^arena[k] // forms delimit themselves: inverted, they sort downwards
				}
			}
		}
		s.keys = append(s.keys, sortKey{arena[from:len(arena):len(arena)], first + int64(row)})
	}
	s.recs = append(s.recs, project(rec, s.schema))
	if s.limit >= 0 && int64(len(s.keys)) > 4*s.limit+1<<16 {
		return s.compact(ctx)
	}
	return nil
}

func (s *sorter) count() int64 {
	var n int64
	for _, r := range s.recs {
		n += r.NumRows()
	}
	return n
}

func project(rec arrow.RecordBatch, sch *arrow.Schema) arrow.RecordBatch {
	cols := make([]arrow.Array, sch.NumFields())
	for i, f := range sch.Fields() {
		cols[i] = rec.Column(rec.Schema().FieldIndices(f.Name)[0])
	}
	return array.NewRecordBatch(sch, cols, rec.NumRows())
}

// compact keeps the first limit rows.
func (s *sorter) compact(ctx context.Context) error {
	var recs []arrow.RecordBatch
	for rec, err := range s.rows(ctx) {
		if err != nil {
			return err
		}
		recs = append(recs, rec)
	}
	s.recs = recs
	for i := range s.keys {
		s.keys[i].index = int64(i)
		s.keys[i].key = slices.Clone(s.keys[i].key) // lets go of the arena
	}
	return nil
}

// rows sorts, cuts at the limit and yields.
func (s *sorter) rows(ctx context.Context) iter.Seq2[arrow.RecordBatch, error] {
	slices.SortStableFunc(s.keys, func(a, b sortKey) int { return bytes.Compare(a.key, b.key) })
	if s.limit >= 0 && int64(len(s.keys)) > s.limit {
		s.keys = s.keys[:s.limit]
	}
	return func(yield func(arrow.RecordBatch, error) bool) {
		if len(s.keys) == 0 {
			return
		}
		whole, err := concatenate(s.schema, s.recs)
		if err != nil {
			yield(nil, err)
			return
		}
		for from := 0; from < len(s.keys); from += sortedRows {
			b := array.NewInt64Builder(memory.DefaultAllocator)
			for _, k := range s.keys[from:min(from+sortedRows, len(s.keys))] {
				b.Append(k.index)
			}
			rec, err := take(ctx, whole, b.NewInt64Array())
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// concatenate makes one batch of several. Strings of more than 2 GiB in one
// column do not fit into one and are an error.
func concatenate(sch *arrow.Schema, recs []arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, sch.NumFields())
	var rows int64
	for _, r := range recs {
		rows += r.NumRows()
	}
	for c := range cols {
		parts := make([]arrow.Array, len(recs))
		for i, r := range recs {
			parts[i] = r.Column(c)
		}
		out, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sort column %s", sch.Field(c).Name), err)
		}
		cols[c] = out
	}
	return array.NewRecordBatch(sch, cols, rows), nil
}
