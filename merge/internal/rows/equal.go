package rows

import (
	"bytes"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Equal says whether row i of a and row j of b hold the same value, both being
// arrays of one type: payload equality of merge-semantics 1. NULL equals NULL,
// NaN equals NaN, -0.0 equals 0.0, strings and binaries are compared by bytes,
// nested values deep, the entries of a map as a set.
func Equal(a arrow.Array, i int, b arrow.Array, j int) bool {
	if a.IsNull(i) || b.IsNull(j) {
		return a.IsNull(i) && b.IsNull(j)
	}
	switch x := a.(type) {
	case *array.Null:
		return true
	case *array.Boolean:
		return x.Value(i) == b.(*array.Boolean).Value(j)
	case *array.Int8:
		return x.Value(i) == b.(*array.Int8).Value(j)
	case *array.Int16:
		return x.Value(i) == b.(*array.Int16).Value(j)
	case *array.Int32:
		return x.Value(i) == b.(*array.Int32).Value(j)
	case *array.Int64:
		return x.Value(i) == b.(*array.Int64).Value(j)
	case *array.Float32:
		return floatsEqual(float64(x.Value(i)), float64(b.(*array.Float32).Value(j)))
	case *array.Float64:
		return floatsEqual(x.Value(i), b.(*array.Float64).Value(j))
	case *array.Decimal128:
		return x.Value(i) == b.(*array.Decimal128).Value(j)
	case *array.Date32:
		return x.Value(i) == b.(*array.Date32).Value(j)
	case *array.Timestamp:
		return x.Value(i) == b.(*array.Timestamp).Value(j)
	case *array.String:
		return x.Value(i) == b.(*array.String).Value(j)
	case *array.Binary:
		return bytes.Equal(x.Value(i), b.(*array.Binary).Value(j))
	case *array.Struct:
		y := b.(*array.Struct)
		for f := range x.NumField() {
			if !Equal(x.Field(f), i, y.Field(f), j) {
				return false
			}
		}
		return true
	case *array.Map:
		return mapsEqual(x, i, b.(*array.Map), j)
	case *array.List:
		return listsEqual(x, i, b.(*array.List), j)
	default:
		panic(fmt.Sprintf("rows: internal error: equality of %s", a.DataType()))
	}
}

func floatsEqual(x, y float64) bool {
	return x == y || math.IsNaN(x) && math.IsNaN(y)
}

func listsEqual(x *array.List, i int, y *array.List, j int) bool {
	xs, xe := x.ValueOffsets(i)
	ys, ye := y.ValueOffsets(j)
	if xe-xs != ye-ys {
		return false
	}
	for k := range xe - xs {
		if !Equal(x.ListValues(), int(xs+k), y.ListValues(), int(ys+k)) {
			return false
		}
	}
	return true
}

// mapsEqual compares entries as a set: each entry of one side is matched with
// one entry of the other that no earlier entry took.
func mapsEqual(x *array.Map, i int, y *array.Map, j int) bool {
	xs, xe := x.ValueOffsets(i)
	ys, ye := y.ValueOffsets(j)
	if xe-xs != ye-ys {
		return false
	}
	taken := make([]bool, ye-ys)
	for k := xs; k < xe; k++ {
		found := false
		for l := ys; l < ye && !found; l++ {
			if !taken[l-ys] && Equal(x.Keys(), int(k), y.Keys(), int(l)) && Equal(x.Items(), int(k), y.Items(), int(l)) {
				taken[l-ys], found = true, true
			}
		}
		if !found {
			return false
		}
	}
	return true
}
