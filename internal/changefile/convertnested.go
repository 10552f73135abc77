package changefile

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// validity copies the validity of a to a bitmap that begins at bit 0; nil if
// nothing is NULL.
func validity(a arrow.Array) *memory.Buffer {
	if a.NullN() == 0 {
		return nil
	}
	d := a.Data()
	out := make([]byte, bitutil.BytesForBits(int64(a.Len())))
	bitutil.CopyBitmap(a.NullBitmapBytes(), d.Offset(), a.Len(), out, 0)
	return memory.NewBufferBytes(out)
}

// undictionary writes the values out.
func (c *converter) undictionary(d *array.Dictionary, values *converter) (arrow.Array, error) {
	dict, err := values.convert(d.Dictionary())
	if err != nil {
		var ce *convertError
		if errors.As(err, &ce) {
			for i := range d.Len() {
				if d.IsValid(i) && d.GetValueIndex(i) == ce.row {
					return nil, &convertError{i, ce.column, ce.value, ce.msg}
				}
			}
		}
		return nil, err
	}
	b := array.NewBuilder(memory.DefaultAllocator, c.to)
	defer b.Release()
	b.Reserve(d.Len())
	add, err := copier(b, dict)
	if err != nil {
		return nil, err
	}
	for i := range d.Len() {
		if k := d.GetValueIndex(i); d.IsNull(i) || dict.IsNull(k) {
			b.AppendNull()
		} else {
			add(k)
		}
	}
	return b.NewArray(), nil
}

// copier appends single values of an array of a canonical scalar type.
func copier(b array.Builder, a arrow.Array) (func(int), error) {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		return func(i int) { b.Append(a.(*array.Boolean).Value(i)) }, nil
	case *array.Int8Builder:
		return func(i int) { b.Append(a.(*array.Int8).Value(i)) }, nil
	case *array.Int16Builder:
		return func(i int) { b.Append(a.(*array.Int16).Value(i)) }, nil
	case *array.Int32Builder:
		return func(i int) { b.Append(a.(*array.Int32).Value(i)) }, nil
	case *array.Int64Builder:
		return func(i int) { b.Append(a.(*array.Int64).Value(i)) }, nil
	case *array.Float32Builder:
		return func(i int) { b.Append(a.(*array.Float32).Value(i)) }, nil
	case *array.Float64Builder:
		return func(i int) { b.Append(a.(*array.Float64).Value(i)) }, nil
	case *array.Decimal128Builder:
		return func(i int) { b.Append(a.(*array.Decimal128).Value(i)) }, nil
	case *array.StringBuilder:
		return func(i int) { b.Append(a.(*array.String).Value(i)) }, nil
	case *array.BinaryBuilder:
		return func(i int) { b.Append(a.(*array.Binary).Value(i)) }, nil
	case *array.Date32Builder:
		return func(i int) { b.Append(a.(*array.Date32).Value(i)) }, nil
	case *array.TimestampBuilder:
		return func(i int) { b.Append(a.(*array.Timestamp).Value(i)) }, nil
	}
	return nil, fmt.Errorf("a dictionary of %s cannot be read", typeName(a.DataType()))
}

// structs matches fields by name, as columns are.
func (c *converter) structs(from arrow.DataType, to *arrow.StructType, cv *conversion) (func(arrow.Array) (arrow.Array, error), error) {
	ft, ok := from.(*arrow.StructType)
	if !ok {
		return nil, nil
	}
	folded, err := foldNames(ft.Fields())
	if err != nil {
		return nil, err
	}
	convs := make([]*converter, to.NumFields())
	place := make([]int, to.NumFields())
	used := map[int]bool{}
	for k, f := range to.Fields() {
		i, ok := folded[strings.ToLower(f.Name)]
		if !ok && !f.Nullable {
			return nil, fmt.Errorf("field %s.%s is declared not null and is missing", c.column, f.Name)
		}
		if !ok {
			place[k] = -1
			continue
		}
		if convs[k], err = newConverter(ft.Field(i).Type, f.Type, c.column+"."+f.Name, cv); err != nil {
			return nil, fmt.Errorf("field %s.%s: %w", c.column, f.Name, err)
		}
		place[k], used[i] = i, true
	}
	for i, f := range ft.Fields() {
		if !used[i] && !cv.allowUnknown {
			return nil, fmt.Errorf("unknown field %s.%s", c.column, f.Name)
		}
	}
	return func(a arrow.Array) (arrow.Array, error) {
		s := a.(*array.Struct)
		kids := make([]arrow.ArrayData, len(convs))
		for k, conv := range convs {
			if conv == nil {
				kids[k] = array.MakeArrayOfNull(memory.DefaultAllocator, to.Field(k).Type, s.Len()).Data()
				continue
			}
			kid, err := conv.convert(s.Field(place[k]))
			if err != nil {
				return nil, err
			}
			kids[k] = kid.Data()
		}
		return array.MakeFromData(array.NewData(to, s.Len(), []*memory.Buffer{validity(a)}, kids, s.NullN(), 0)), nil
	}, nil
}

// lists takes lists of every layout.
func (c *converter) lists(from arrow.DataType, to *arrow.ListType, cv *conversion) (func(arrow.Array) (arrow.Array, error), error) {
	ft, ok := from.(arrow.ListLikeType)
	if !ok || from.ID() == arrow.MAP {
		return nil, nil
	}
	switch from.ID() {
	case arrow.LIST, arrow.LARGE_LIST, arrow.FIXED_SIZE_LIST:
	default:
		return nil, nil
	}
	element, err := newConverter(ft.Elem(), to.Elem(), c.column+".element", cv)
	if err != nil {
		return nil, fmt.Errorf("elements: %w", err)
	}
	return func(a arrow.Array) (arrow.Array, error) {
		l := a.(array.ListLike)
		offsets, values, err := flatten(l)
		if err != nil {
			return nil, err
		}
		kid, err := element.convert(values)
		if err != nil {
			return nil, upTo(err, offsets)
		}
		return array.MakeFromData(array.NewData(to, a.Len(), []*memory.Buffer{validity(a), int32Buffer(offsets)}, []arrow.ArrayData{kid.Data()}, a.NullN(), 0)), nil
	}, nil
}

func (c *converter) maps(from arrow.DataType, to *arrow.MapType, cv *conversion) (func(arrow.Array) (arrow.Array, error), error) {
	ft, ok := from.(*arrow.MapType)
	if !ok {
		return nil, nil
	}
	key, err := newConverter(ft.KeyType(), to.KeyType(), c.column+".key", cv)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	value, err := newConverter(ft.ItemType(), to.ItemType(), c.column+".value", cv)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return func(a arrow.Array) (arrow.Array, error) {
		offsets, entries, err := flatten(a.(*array.Map))
		if err != nil {
			return nil, err
		}
		s := entries.(*array.Struct)
		keys, err := key.convert(s.Field(0))
		if err != nil {
			return nil, upTo(err, offsets)
		}
		values, err := value.convert(s.Field(1))
		if err != nil {
			return nil, upTo(err, offsets)
		}
		kids := array.NewData(to.Elem(), s.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{keys.Data(), values.Data()}, 0, 0)
		return array.MakeFromData(array.NewData(to, a.Len(), []*memory.Buffer{validity(a), int32Buffer(offsets)}, []arrow.ArrayData{kids}, a.NullN(), 0)), nil
	}, nil
}

// flatten gives the values that the lists of l refer to, and the offsets of
// each list in them, beginning at 0.
func flatten(l array.ListLike) ([]int32, arrow.Array, error) {
	n := l.Len()
	offsets := make([]int32, n+1)
	if n == 0 {
		return offsets, array.NewSlice(l.ListValues(), 0, 0), nil
	}
	base, _ := l.ValueOffsets(0)
	_, end := l.ValueOffsets(n - 1)
	if end-base > math.MaxInt32 {
		return nil, nil, fmt.Errorf("more than %d elements in one batch", math.MaxInt32)
	}
	for i := range n {
		_, to := l.ValueOffsets(i)
		offsets[i+1] = int32(to - base)
	}
	return offsets, array.NewSlice(l.ListValues(), base, end), nil
}

func int32Buffer(v []int32) *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(v))
}

// upTo moves a convertError from an element to the list that holds it.
func upTo(err error, offsets []int32) error {
	var ce *convertError
	if !errors.As(err, &ce) {
		return err
	}
	return &convertError{ownerOf(offsets, ce.row), ce.column, ce.value, ce.msg}
}

func ownerOf(offsets []int32, element int) int {
	i := 0
	for i+2 < len(offsets) && int(offsets[i+1]) <= element {
		i++
	}
	return i
}
