package expr

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// batch is one record batch with the columns that the expression reads.
type batch struct {
	rows int
	cols []arrow.Array
	// live says which rows are wanted; nil is all of them. What may fail gives NULL
	// for the others instead, so that a branch that is not taken cannot fail.
	live []bool
}

func (b *batch) wants(i int) bool { return b.live == nil || b.live[i] }

// only is the batch with fewer rows wanted; none is false if no row is.
func (b *batch) only(keep func(i int) bool) (out *batch, some bool) {
	live := make([]bool, b.rows)
	for i := range live {
		if b.wants(i) && keep(i) {
			live[i], some = true, true
		}
	}
	return &batch{rows: b.rows, cols: b.cols, live: live}, some
}

func newBatch(rec arrow.RecordBatch, names []string) (*batch, error) {
	b := &batch{rows: int(rec.NumRows())}
	for _, n := range names {
		i := rec.Schema().FieldIndices(n)
		if len(i) == 0 {
			return nil, fmt.Errorf("evaluate an expression: the batch has no column %s", quoteName(n))
		}
		b.cols = append(b.cols, rec.Column(i[0]))
	}
	return b, nil
}

// columnNode is a column, or a field within a struct column.
type columnNode struct {
	name string // of the top-level column
	col  int    // in Bound.cols
	path []int  // field indices below it
	dt   arrow.DataType
}

func (c *columnNode) typ() arrow.DataType { return c.dt }

func (c *columnNode) eval(b *batch) (arrow.Array, error) {
	arr := b.cols[c.col]
	arr.Retain()
	for _, i := range c.path {
		st, ok := arr.(*array.Struct)
		if !ok {
			return nil, fmt.Errorf("column %s: the batch has %s, not a struct", quoteName(c.name), arr.DataType())
		}
		arr = fieldOf(st, i)
		st.Release()
	}
	if !arrow.TypeEqual(arr.DataType(), c.dt) {
		return nil, fmt.Errorf("column %s: the batch has %s, the schema %s", quoteName(c.name), arr.DataType(), c.dt)
	}
	return arr, nil
}

// fieldOf is a struct's field, NULL where the struct is.
func fieldOf(st *array.Struct, i int) arrow.Array {
	child := st.Field(i)
	if st.NullN() == 0 || child.DataType().ID() == arrow.NULL {
		child.Retain()
		return child
	}
	data, n := child.Data(), child.Len()
	bits := make([]byte, bitutil.BytesForBits(int64(data.Offset()+n)))
	nulls := 0
	for r := range n {
		if st.IsValid(r) && child.IsValid(r) {
			bitutil.SetBit(bits, data.Offset()+r)
		} else {
			nulls++
		}
	}
	bufs := append([]*memory.Buffer{memory.NewBufferBytes(bits)}, data.Buffers()[1:]...)
	return array.MakeFromData(array.NewData(child.DataType(), n, bufs, data.Children(), nulls, data.Offset()))
}

// zoneNode turns dates or timestamps without zone into timestamps: midnight,
// or the clock's reading, in the zone; without a zone into timestamp_ntz.
type zoneNode struct {
	x    node
	to   *arrow.TimestampType
	zone *time.Location // nil if to is timestamp_ntz
}

func (z *zoneNode) typ() arrow.DataType { return z.to }

func (z *zoneNode) micros(v int64) int64 {
	if z.x.typ().ID() == arrow.DATE32 {
		v *= microsPerDay
	}
	if z.zone != nil {
		v = atZone(v, z.zone)
	}
	return v
}

func (z *zoneNode) eval(b *batch) (arrow.Array, error) {
	arr, err := z.x.eval(b)
	if err != nil {
		return nil, err
	}
	defer arr.Release()
	at := int64At(arr)
	bld := array.NewTimestampBuilder(memory.DefaultAllocator, z.to)
	defer bld.Release()
	bld.Reserve(arr.Len())
	for i := range arr.Len() {
		if arr.IsNull(i) {
			bld.AppendNull()
		} else {
			bld.Append(arrow.Timestamp(z.micros(at(i))))
		}
	}
	return bld.NewArray(), nil
}

// int64At reads integers, booleans, dates and timestamps as int64.
func int64At(arr arrow.Array) func(i int) int64 {
	switch a := arr.(type) {
	case *array.Boolean:
		return func(i int) int64 {
			if a.Value(i) {
				return 1
			}
			return 0
		}
	case *array.Int8:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int16:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int32:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int64:
		return a.Value
	case *array.Date32:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Timestamp:
		return func(i int) int64 { return int64(a.Value(i)) }
	}
	panic(fmt.Sprintf("expr: internal error: %s is no integer", arr.DataType()))
}
