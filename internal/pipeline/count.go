package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
)

// count is what --count and --count-by ask for: the number of rows, by the
// values of columns where there are any. NULL is a value like any other.
type count struct {
	snap   *deltatable.Snapshot
	filter *expr.Bound
	by     []string
	as     string // name of the column of numbers
}

// defaultCountName is the name of the column of numbers.
const defaultCountName = "count"

// schema is the schema of the result.
func (c *count) schema() (*arrow.Schema, error) {
	sch := c.snap.Schema()
	var fields []arrow.Field
	for _, name := range c.by {
		i, err := columnOf(sch, name)
		if err != nil {
			return nil, fmt.Errorf("--count-by: %w", err)
		}
		f := sch.Field(i)
		if !ordered.Supported(f.Type) {
			return nil, usage("--count-by %s: values of type %s are not counted", f.Name, deltatable.TypeName(f.Type))
		}
		fields = append(fields, f)
	}
	fields = append(fields, arrow.Field{Name: c.as, Type: arrow.PrimitiveTypes.Int64})
	for i, f := range fields {
		if slices.ContainsFunc(fields[:i], func(g arrow.Field) bool { return strings.EqualFold(f.Name, g.Name) }) {
			return nil, usage("the result would have two columns %s: --count-as names the numbers", f.Name)
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

// group is one combination of values.
type group struct {
	rec  arrow.RecordBatch // one row
	rows int64
}

// record counts. Memory holds one row for each combination of values.
func (c *count) record(ctx context.Context, sch *arrow.Schema) (arrow.RecordBatch, error) {
	columns := names(sch)[:sch.NumFields()-1]
	groups, order := map[string]*group{}, []string{}
	if len(columns) == 0 {
		groups[""], order = &group{}, []string{""} // no rows are a number, too
	}
	var key []byte
	for rec, err := range c.snap.Scan(ctx, &deltatable.ScanOptions{Columns: columns, Filter: c.filter}) {
		if err != nil {
			return nil, err
		}
		if len(columns) == 0 {
			groups[""].rows += rec.NumRows()
			continue
		}
		row := ordered.NewRow(rec.Columns()...)
		for i := range int(rec.NumRows()) {
			key = row.Append(key[:0], i)
			g := groups[string(key)]
			if g == nil {
				g = &group{rec: rec.NewSlice(int64(i), int64(i)+1)}
				groups[string(key)], order = g, append(order, string(key))
			}
			g.rows++
		}
	}
	slices.Sort(order)
	return c.result(sch, groups, order)
}

func (c *count) result(sch *arrow.Schema, groups map[string]*group, order []string) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, sch.NumFields())
	for i := range len(cols) - 1 {
		parts := make([]arrow.Array, len(order))
		for k, key := range order {
			parts[k] = groups[key].rec.Column(i)
		}
		if len(parts) == 0 {
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, sch.Field(i).Type, 0)
			continue
		}
		out, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return nil, fmt.Errorf("count by %s: %w", sch.Field(i).Name, err)
		}
		cols[i] = out
	}
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for _, key := range order {
		b.Append(groups[key].rows)
	}
	cols[len(cols)-1] = b.NewArray()
	return array.NewRecordBatch(sch, cols, int64(len(order))), nil
}
