package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
)

var (
	typeBool   arrow.DataType = arrow.FixedWidthTypes.Boolean
	typeInt    arrow.DataType = arrow.PrimitiveTypes.Int32
	typeBigint arrow.DataType = arrow.PrimitiveTypes.Int64
	typeDouble arrow.DataType = arrow.PrimitiveTypes.Float64
	typeString arrow.DataType = arrow.BinaryTypes.String
	typeBinary arrow.DataType = arrow.BinaryTypes.Binary
	typeDate   arrow.DataType = arrow.FixedWidthTypes.Date32
)

// digitsOf is the precision of the decimal that holds all values of an exact
// numeric type, and its scale.
func digitsOf(t arrow.DataType) (precision, scale int32) {
	switch t := t.(type) {
	case *arrow.Int8Type:
		return 3, 0
	case *arrow.Int16Type:
		return 5, 0
	case *arrow.Int32Type:
		return 10, 0
	case *arrow.Int64Type:
		return 20, 0
	case *arrow.Decimal128Type:
		return t.Precision, t.Scale
	}
	return 0, 0
}

// textPeer is the type as which text is read beside a value of type t.
func textPeer(t arrow.DataType) arrow.DataType {
	switch {
	case isInteger(t):
		return typeBigint
	case isNumber(t):
		return typeDouble
	}
	return t
}

// timeRank orders date, timestamp_ntz, timestamp; 0 for all other types.
func timeRank(t arrow.DataType) int {
	switch t := t.(type) {
	case *arrow.Date32Type:
		return 1
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return 2
		}
		return 3
	}
	return 0
}

// wider is the type that two types have in common, nil if there is none: what
// branches of CASE, arguments of coalesce and elements of an array become. With
// exact, decimals that together need more than 38 digits have none; otherwise
// fraction digits are given up, as in Spark.
func wider(a, b arrow.DataType, exact bool) arrow.DataType {
	switch {
	case arrow.TypeEqual(a, b), b.ID() == arrow.NULL:
		return a
	case a.ID() == arrow.NULL:
		return b
	case isInteger(a) && isInteger(b):
		if bitsOf(a) > bitsOf(b) {
			return a
		}
		return b
	case isNumber(a) && isNumber(b):
		return widerNumber(a, b, exact)
	case timeRank(a) > 0 && timeRank(b) > 0:
		if timeRank(a) > timeRank(b) {
			return a
		}
		return b
	case nested(a) || nested(b):
		return widerNested(a, b, exact)
	case a.ID() == arrow.STRING:
		return textPeer(b)
	case b.ID() == arrow.STRING:
		return textPeer(a)
	}
	return nil
}

func widerNumber(a, b arrow.DataType, exact bool) arrow.DataType {
	if isFloat(a) || isFloat(b) {
		return typeDouble
	}
	p1, s1 := digitsOf(a)
	p2, s2 := digitsOf(b)
	scale, whole := max(s1, s2), max(p1-s1, p2-s2)
	if whole+scale > maxPrecision {
		if exact {
			return nil
		}
		scale = max(0, maxPrecision-whole)
	}
	return &arrow.Decimal128Type{Precision: min(whole+scale, maxPrecision), Scale: scale}
}

func widerNested(a, b arrow.DataType, exact bool) arrow.DataType {
	switch a := a.(type) {
	case *arrow.ListType:
		if b, ok := b.(*arrow.ListType); ok {
			if e := wider(a.Elem(), b.Elem(), exact); e != nil {
				return listOf(e)
			}
		}
	case *arrow.MapType:
		if b, ok := b.(*arrow.MapType); ok {
			k, v := wider(a.KeyType(), b.KeyType(), exact), wider(a.ItemType(), b.ItemType(), exact)
			if k != nil && v != nil {
				return arrow.MapOf(k, v)
			}
		}
	case *arrow.StructType:
		b, ok := b.(*arrow.StructType)
		if !ok || a.NumFields() != b.NumFields() {
			return nil
		}
		fields := make([]arrow.Field, a.NumFields())
		for i, f := range a.Fields() {
			at, n := findField(b.Fields(), f.Name)
			if n != 1 || at != i {
				return nil
			}
			t := wider(f.Type, b.Field(i).Type, exact)
			if t == nil {
				return nil
			}
			fields[i] = arrow.Field{Name: f.Name, Type: t, Nullable: true}
		}
		return arrow.StructOf(fields...)
	}
	return nil
}

func listOf(e arrow.DataType) arrow.DataType {
	return arrow.ListOfField(arrow.Field{Name: "element", Type: e, Nullable: true})
}
