package tabletest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Value is one value of a row: nil for NULL, else a plain Go value by the column's
// type: bool, int64 for every integer type, float32, float64, Decimal, string,
// Bytes, Date, Time for both timestamp types, List, Map or Struct.
type Value any

// The kinds of Value that Go has no type of its own for.
type (
	// Decimal is unscaled; all values of a column have the column's scale.
	Decimal decimal128.Num
	// Bytes is a binary value.
	Bytes string
	// Date is in days since 1970-01-01.
	Date int32
	// Time is in microseconds since 1970-01-01T00:00:00.
	Time int64
	// List is an array.
	List []Value
	// Struct has its values in the order of the type's fields.
	Struct []Value
	// Map has pairs of key and value, in any order.
	Map [][2]Value
)

// Row is one row by column name; a column that is not there is NULL.
type Row map[string]Value

// Equal reports payload equality (merge-semantics 1): NULL equals NULL, NaN
// equals NaN, -0.0 equals 0.0, nested values deep, maps as sets of entries.
func Equal(a, b Value) bool {
	switch x := a.(type) {
	case float32:
		y, ok := b.(float32)
		return ok && (x == y || x != x && y != y)
	case float64:
		y, ok := b.(float64)
		return ok && (x == y || math.IsNaN(x) && math.IsNaN(y))
	case List:
		y, ok := b.(List)
		return ok && equalAll(x, y)
	case Struct:
		y, ok := b.(Struct)
		return ok && equalAll(x, y)
	case Map:
		y, ok := b.(Map)
		return ok && equalMaps(x, y)
	}
	switch b.(type) {
	case List, Struct, Map:
		return false
	}
	return a == b
}

func equalAll(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// equalMaps compares two maps with distinct keys.
func equalMaps(a, b Map) bool {
	if len(a) != len(b) {
		return false
	}
	for _, e := range a {
		found := false
		for _, f := range b {
			found = found || Equal(e[0], f[0]) && Equal(e[1], f[1])
		}
		if !found {
			return false
		}
	}
	return true
}

// Compare orders two values of one atomic type that are not nil, as source
// versions are ordered (merge-semantics 1): strings by their bytes.
func Compare(a, b Value) int {
	switch x := a.(type) {
	case int64:
		return cmp.Compare(x, b.(int64))
	case string:
		return strings.Compare(x, b.(string))
	case Bytes:
		return bytes.Compare([]byte(x), []byte(b.(Bytes)))
	case Decimal:
		return decimal128.Num(x).Cmp(decimal128.Num(b.(Decimal)))
	case Date:
		return cmp.Compare(x, b.(Date))
	case Time:
		return cmp.Compare(x, b.(Time))
	case bool:
		switch y := b.(bool); {
		case x == y:
			return 0
		case y:
			return -1
		}
		return 1
	}
	panic(fmt.Sprintf("values of type %T have no order here", a))
}

// Append appends v to a builder of a canonical type that fits it.
func Append(b array.Builder, v Value) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Int8Builder:
		b.Append(int8(v.(int64)))
	case *array.Int16Builder:
		b.Append(int16(v.(int64)))
	case *array.Int32Builder:
		b.Append(int32(v.(int64)))
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Float32Builder:
		b.Append(v.(float32))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.Decimal128Builder:
		b.Append(decimal128.Num(v.(Decimal)))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append([]byte(v.(Bytes)))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.(Date)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(Time)))
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range v.(Struct) {
			Append(b.FieldBuilder(i), f)
		}
	case *array.MapBuilder:
		b.Append(true)
		for _, e := range v.(Map) {
			Append(b.KeyBuilder(), e[0])
			Append(b.ItemBuilder(), e[1])
		}
	case *array.ListBuilder:
		b.Append(true)
		for _, e := range v.(List) {
			Append(b.ValueBuilder(), e)
		}
	default:
		panic(fmt.Sprintf("no values of type %s", b.Type()))
	}
}

// At is value i of an array of a canonical type.
func At(arr arrow.Array, i int) Value {
	if arr.IsNull(i) {
		return nil
	}
	switch a := arr.(type) {
	case *array.Null:
		return nil
	case *array.Boolean:
		return a.Value(i)
	case *array.Int8:
		return int64(a.Value(i))
	case *array.Int16:
		return int64(a.Value(i))
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Int64:
		return a.Value(i)
	case *array.Float32:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.Decimal128:
		return Decimal(a.Value(i))
	case *array.String:
		return strings.Clone(a.Value(i))
	case *array.Binary:
		return Bytes(a.Value(i))
	case *array.Date32:
		return Date(a.Value(i))
	case *array.Timestamp:
		return Time(a.Value(i))
	case *array.Struct:
		s := Struct{}
		for k := range a.NumField() {
			s = append(s, At(a.Field(k), i))
		}
		return s
	case *array.Map:
		m := Map{}
		from, to := a.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			m = append(m, [2]Value{At(a.Keys(), j), At(a.Items(), j)})
		}
		return m
	case *array.List:
		l := List{}
		from, to := a.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			l = append(l, At(a.ListValues(), j))
		}
		return l
	}
	panic(fmt.Sprintf("no values of type %s", arr.DataType()))
}

// Rows are the rows of record batches; NULL columns are left out.
func Rows(recs ...arrow.RecordBatch) []Row {
	var rows []Row
	for _, rec := range recs {
		for i := range int(rec.NumRows()) {
			row := Row{}
			for c, f := range rec.Schema().Fields() {
				if v := At(rec.Column(c), i); v != nil {
					row[f.Name] = v
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// text writes a value unambiguously, for keys of Go maps and for messages.
func text(v Value) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case string:
		return fmt.Sprintf("%q", x)
	case Bytes:
		return fmt.Sprintf("x%q", string(x))
	case Decimal:
		return "decimal " + decimal128.Num(x).ToString(0)
	case Date:
		return fmt.Sprintf("date %d", int32(x))
	case Time:
		return fmt.Sprintf("time %d", int64(x))
	case List:
		return "[" + strings.Join(textsOf(x), " ") + "]"
	case Struct:
		return "{" + strings.Join(textsOf(x), " ") + "}"
	case Map:
		entries := make([]string, len(x))
		for i, e := range x {
			entries[i] = text(e[0]) + ":" + text(e[1])
		}
		slices.Sort(entries)
		return "map[" + strings.Join(entries, " ") + "]"
	}
	return fmt.Sprintf("%T %v", v, v)
}

func textsOf(vs []Value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = text(v)
	}
	return out
}
