package expr

import (
	"cmp"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// cellOrder compares two values of a type, neither NULL; nil if the type has no
// order (maps). Within arrays and structs, NULL equals NULL and comes first.
func cellOrder(dt arrow.DataType) func(a, b cell) int {
	switch t := dt.(type) {
	case *arrow.Float32Type, *arrow.Float64Type:
		return func(a, b cell) int { return compareFloat(a.f, b.f) }
	case *arrow.Decimal128Type:
		return func(a, b cell) int { return a.d.Cmp(b.d) }
	case *arrow.StringType, *arrow.BinaryType:
		return func(a, b cell) int { return strings.Compare(a.s, b.s) }
	case *arrow.ListType:
		return listOrder(t)
	case *arrow.StructType:
		return structOrder(t)
	case *arrow.MapType:
		return nil
	}
	return func(a, b cell) int { return cmp.Compare(a.i, b.i) }
}

// nullsFirst extends an order to NULLs.
func nullsFirst(order func(a, b cell) int) func(a, b cell) int {
	return func(a, b cell) int {
		switch {
		case a.null && b.null:
			return 0
		case a.null:
			return -1
		case b.null:
			return 1
		}
		return order(a, b)
	}
}

func listOrder(t *arrow.ListType) func(a, b cell) int {
	of := cellOrder(t.Elem())
	if of == nil {
		return nil
	}
	of = nullsFirst(of)
	return func(a, b cell) int {
		x, y := a.elements(), b.elements()
		for i := range min(len(x), len(y)) {
			if c := of(x[i], y[i]); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(x), len(y))
	}
}

func structOrder(t *arrow.StructType) func(a, b cell) int {
	var of []func(a, b cell) int
	for _, f := range t.Fields() {
		o := cellOrder(f.Type)
		if o == nil {
			return nil
		}
		of = append(of, nullsFirst(o))
	}
	return func(a, b cell) int {
		for i, o := range of {
			x := cellsOf(a.arr.(*array.Struct).Field(i))(a.at)
			y := cellsOf(b.arr.(*array.Struct).Field(i))(b.at)
			if c := o(x, y); c != 0 {
				return c
			}
		}
		return 0
	}
}
