package changefile

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// canonicalType is the canonical type that holds every value of a type found in
// a file; nested fields become nullable, as Spark reads them.
func canonicalType(t arrow.DataType) (arrow.DataType, error) {
	switch t := t.(type) {
	case *arrow.BooleanType, *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Float32Type, *arrow.Float64Type, *arrow.StringType, *arrow.BinaryType, *arrow.Date32Type, *arrow.NullType:
		return t, nil
	case *arrow.Uint8Type:
		return arrow.PrimitiveTypes.Int16, nil
	case *arrow.Uint16Type:
		return arrow.PrimitiveTypes.Int32, nil
	case *arrow.Uint32Type:
		return arrow.PrimitiveTypes.Int64, nil
	case *arrow.Uint64Type:
		return &arrow.Decimal128Type{Precision: 20}, nil
	case *arrow.Float16Type:
		return arrow.PrimitiveTypes.Float32, nil
	case *arrow.LargeStringType, *arrow.StringViewType:
		return arrow.BinaryTypes.String, nil
	case *arrow.LargeBinaryType, *arrow.BinaryViewType, *arrow.FixedSizeBinaryType:
		return arrow.BinaryTypes.Binary, nil
	case *arrow.Date64Type:
		return arrow.FixedWidthTypes.Date32, nil
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
		}
		return arrow.FixedWidthTypes.Timestamp_us, nil
	case arrow.DecimalType:
		if t.GetPrecision() <= 38 && t.GetScale() >= 0 && t.GetScale() <= t.GetPrecision() {
			return &arrow.Decimal128Type{Precision: t.GetPrecision(), Scale: t.GetScale()}, nil
		}
	case *arrow.DictionaryType:
		return canonicalType(t.ValueType)
	case *arrow.MapType:
		k, err := canonicalType(t.KeyType())
		if err != nil {
			return nil, err
		}
		v, err := canonicalType(t.ItemType())
		if err != nil {
			return nil, err
		}
		return arrow.MapOf(k, v), nil
	case *arrow.StructType:
		var fields []arrow.Field
		for _, f := range t.Fields() {
			ft, err := canonicalType(f.Type)
			if err != nil {
				return nil, fmt.Errorf("field %s: %w", f.Name, err)
			}
			fields = append(fields, arrow.Field{Name: f.Name, Type: ft, Nullable: true})
		}
		return arrow.StructOf(fields...), nil
	case arrow.ListLikeType:
		e, err := canonicalType(t.Elem())
		if err != nil {
			return nil, err
		}
		return arrow.ListOfField(arrow.Field{Name: "element", Type: e, Nullable: true}), nil
	}
	return nil, fmt.Errorf("a file column of type %s has no Delta type", t)
}

// typeName gives the Delta name of a canonical type, for messages.
func typeName(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "boolean"
	case *arrow.Int8Type:
		return "byte"
	case *arrow.Int16Type:
		return "short"
	case *arrow.Int32Type:
		return "integer"
	case *arrow.Int64Type:
		return "long"
	case *arrow.Float32Type:
		return "float"
	case *arrow.Float64Type:
		return "double"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case *arrow.StringType:
		return "string"
	case *arrow.BinaryType:
		return "binary"
	case *arrow.Date32Type:
		return "date"
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return "timestamp_ntz"
		}
		return "timestamp"
	case *arrow.NullType:
		return "void"
	case *arrow.ListType:
		return "array<" + typeName(t.Elem()) + ">"
	case *arrow.MapType:
		return "map<" + typeName(t.KeyType()) + "," + typeName(t.ItemType()) + ">"
	case *arrow.StructType:
		var s []string
		for _, f := range t.Fields() {
			s = append(s, f.Name+":"+typeName(f.Type))
		}
		return "struct<" + strings.Join(s, ",") + ">"
	}
	return t.String()
}
