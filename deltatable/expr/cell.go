package expr

import (
	"fmt"
	"math/big"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A cell is one value on its way through a function. Which field holds it
// follows from its type; a value of a nested type stays where it lies.
type cell struct {
	null   bool
	i      int64          // boolean (0, 1), integers, date (days), timestamps (microseconds)
	f      float64        // float, double
	d      decimal128.Num // decimal, at its type's scale
	s      string         // string, binary
	*inner                // struct, array, map
}

// inner is where a value of a nested type is.
type inner struct {
	arr  arrow.Array
	at   int
	list []cell // array: elements, where they do not lie in an Arrow array
}

// listCell makes an array of elements.
func listCell(elements []cell) cell {
	if elements == nil {
		elements = []cell{}
	}
	return cell{inner: &inner{list: elements}}
}

func (c cell) isList() bool {
	if c.inner == nil {
		return false
	}
	_, ok := c.arr.(*array.List)
	return ok || c.list != nil
}

// elements are the elements of an array.
func (c cell) elements() []cell {
	l, ok := c.arr.(*array.List)
	if !ok {
		return c.list
	}
	start, end := l.ValueOffsets(c.at)
	read := cellsOf(l.ListValues())
	out := make([]cell, 0, end-start)
	for i := start; i < end; i++ {
		out = append(out, read(int(i)))
	}
	return out
}

// entries are the keys and values of a map.
func (c cell) entries() (keys, items []cell) {
	m := c.arr.(*array.Map)
	start, end := m.ValueOffsets(c.at)
	k, v := cellsOf(m.Keys()), cellsOf(m.Items())
	for i := start; i < end; i++ {
		keys, items = append(keys, k(int(i))), append(items, v(int(i)))
	}
	return keys, items
}

var null = cell{null: true}

func boolCell(b bool) cell {
	if b {
		return cell{i: 1}
	}
	return cell{}
}

// cellsOf reads the values of an array.
func cellsOf(arr arrow.Array) func(i int) cell {
	read := valuesOf(arr)
	if arr.NullN() == 0 && arr.DataType().ID() != arrow.NULL {
		return read
	}
	return func(i int) cell {
		if arr.IsNull(i) {
			return null
		}
		return read(i)
	}
}

func valuesOf(arr arrow.Array) func(i int) cell {
	switch a := arr.(type) {
	case *array.Null:
		return func(int) cell { return null }
	case *array.Float32:
		return func(i int) cell { return cell{f: float64(a.Value(i))} }
	case *array.Float64:
		return func(i int) cell { return cell{f: a.Value(i)} }
	case *array.Decimal128:
		return func(i int) cell { return cell{d: a.Value(i)} }
	case *array.String:
		return func(i int) cell { return cell{s: a.Value(i)} }
	case *array.Binary:
		return func(i int) cell { return cell{s: string(a.Value(i))} }
	case *array.Struct, *array.List, *array.Map:
		return func(i int) cell { return cell{inner: &inner{arr: arr, at: i}} }
	}
	at := int64At(arr)
	return func(i int) cell { return cell{i: at(i)} }
}

// appendCell puts a value into a builder of its type.
func appendCell(bld array.Builder, c cell) {
	if c.null {
		bld.AppendNull()
		return
	}
	switch b := bld.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(c.i != 0)
	case *array.Int8Builder:
		b.Append(int8(c.i))
	case *array.Int16Builder:
		b.Append(int16(c.i))
	case *array.Int32Builder:
		b.Append(int32(c.i))
	case *array.Int64Builder:
		b.Append(c.i)
	case *array.Float32Builder:
		b.Append(float32(c.f))
	case *array.Float64Builder:
		b.Append(c.f)
	case *array.Decimal128Builder:
		b.Append(c.d)
	case *array.StringBuilder:
		b.Append(c.s)
	case *array.BinaryBuilder:
		b.AppendString(c.s)
	case *array.Date32Builder:
		b.Append(arrow.Date32(c.i))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(c.i))
	default:
		appendNested(bld, c)
	}
}

func appendNested(bld array.Builder, c cell) {
	switch b := bld.(type) {
	case *array.StructBuilder:
		st := c.arr.(*array.Struct)
		b.Append(true)
		for f := range b.NumField() {
			appendCell(b.FieldBuilder(f), cellsOf(st.Field(f))(c.at))
		}
	case *array.ListBuilder:
		b.Append(true)
		for _, e := range c.elements() {
			appendCell(b.ValueBuilder(), e)
		}
	case *array.MapBuilder:
		b.Append(true)
		keys, items := c.entries()
		for i := range keys {
			appendCell(b.KeyBuilder(), keys[i])
			appendCell(b.ItemBuilder(), items[i])
		}
	default:
		panic(fmt.Sprintf("expr: internal error: no values of type %s", bld.Type()))
	}
}

// build makes an array of n values; value may fail for a row.
func build(dt arrow.DataType, n int, value func(i int) (cell, error)) (arrow.Array, error) {
	if dt.ID() == arrow.NULL {
		return array.NewNull(n), nil
	}
	bld := array.NewBuilder(memory.DefaultAllocator, dt)
	defer bld.Release()
	bld.Reserve(n)
	for i := range n {
		c, err := value(i)
		if err != nil {
			return nil, err
		}
		appendCell(bld, c)
	}
	return bld.NewArray(), nil
}

// cell is the constant as a value.
func (c *constant) cell() cell {
	switch {
	case c.null:
		return null
	case c.dt.ID() == arrow.DECIMAL128:
		return cell{d: decimal128.FromBigInt(c.num)}
	case isInteger(c.dt):
		return cell{i: c.num.Int64()}
	}
	return cell{i: c.i, f: c.f, s: c.s}
}

// constantOf makes a constant of a value of an atomic type.
func constantOf(dt arrow.DataType, c cell, src Expr) *constant {
	out := &constant{dt: dt, null: c.null, src: src}
	switch {
	case c.null:
	case dt.ID() == arrow.DECIMAL128:
		out.num, out.scale = c.d.BigInt(), dt.(*arrow.Decimal128Type).Scale
	case isInteger(dt):
		out.num = big.NewInt(c.i)
	default:
		out.i, out.f, out.s = c.i, c.f, c.s
	}
	return out
}

// decimalFloat is a decimal as double, rounded correctly.
func decimalFloat(n *big.Int, scale int32) float64 {
	f, _ := strconv.ParseFloat(n.String()+"e"+strconv.Itoa(-int(scale)), 64) // out of range gives an infinity, as it should
	return f
}
