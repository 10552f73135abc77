package schema

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// CharVarcharKey is the metadata key under which Spark keeps the declared type
// of a CHAR or VARCHAR column, whose stored type is string. [Schema.Arrow]
// copies it to the Arrow field's metadata.
const CharVarcharKey = "__CHAR_VARCHAR_TYPE_STRING"

// Arrow gives the canonical Arrow schema: boolean Bool, byte Int8, short Int16,
// integer Int32, long Int64, float Float32, double Float64, decimal Decimal128,
// string String, binary Binary, date Date32, timestamp Timestamp(us, UTC),
// timestamp_ntz Timestamp(us), struct Struct, array List, map Map, void Null.
// The error for a type that deltafold does not hold is [*UnsupportedTypeError].
func (s *Schema) Arrow() (*arrow.Schema, error) {
	fields, err := arrowFields(s.fields, "")
	if err != nil {
		return nil, err
	}
	return arrow.NewSchema(fields, nil), nil
}

func arrowFields(in []Field, where string) ([]arrow.Field, error) {
	out := make([]arrow.Field, len(in))
	for i := range in {
		t, err := in[i].Type.arrow(join(where, in[i].Name))
		if err != nil {
			return nil, err
		}
		out[i] = arrow.Field{Name: in[i].Name, Type: t, Nullable: in[i].Nullable}
		if c, ok := in[i].CharVarchar(); ok {
			out[i].Metadata = arrow.NewMetadata([]string{CharVarcharKey}, []string{c.String()})
		}
	}
	return out, nil
}

// Arrow gives the canonical Arrow type; see [Schema.Arrow].
func (t *Type) Arrow() (arrow.DataType, error) { return t.arrow("") }

func (t *Type) arrow(at string) (arrow.DataType, error) {
	switch t.Kind {
	case Boolean:
		return arrow.FixedWidthTypes.Boolean, nil
	case Byte:
		return arrow.PrimitiveTypes.Int8, nil
	case Short:
		return arrow.PrimitiveTypes.Int16, nil
	case Integer:
		return arrow.PrimitiveTypes.Int32, nil
	case Long:
		return arrow.PrimitiveTypes.Int64, nil
	case Float:
		return arrow.PrimitiveTypes.Float32, nil
	case Double:
		return arrow.PrimitiveTypes.Float64, nil
	case Decimal:
		return &arrow.Decimal128Type{Precision: t.Precision, Scale: t.Scale}, nil
	case String:
		return arrow.BinaryTypes.String, nil
	case Binary:
		return arrow.BinaryTypes.Binary, nil
	case Date:
		return arrow.FixedWidthTypes.Date32, nil
	case Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
	case TimestampNTZ:
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	case Void:
		return arrow.Null, nil
	case Struct, Array, Map:
		return t.arrowNested(at)
	case Unsupported:
	}
	return nil, &UnsupportedTypeError{Column: at, Type: t.Name}
}

func (t *Type) arrowNested(at string) (arrow.DataType, error) {
	if t.Kind == Struct {
		fields, err := arrowFields(t.Fields, at)
		if err != nil {
			return nil, err
		}
		return arrow.StructOf(fields...), nil
	}
	elem, err := t.Elem.arrow(join(at, "element"))
	if err != nil {
		return nil, err
	}
	if t.Kind == Array {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: elem, Nullable: t.ElemNullable}), nil
	}
	key, err := t.Key.arrow(join(at, "key"))
	if err != nil {
		return nil, err
	}
	m := arrow.MapOf(key, elem)
	m.SetItemNullable(t.ElemNullable)
	return m, nil
}

// FromArrow gives the Delta schema of Arrow data, which need not be canonical:
// large, view, dictionary and run-end forms are taken as what they stand for,
// timestamps of every unit as microseconds, unsigned integers as the next wider
// signed ones. Types without a Delta counterpart (uint64, time, duration, union
// and the like) are refused by [*UnsupportedTypeError].
func FromArrow(in *arrow.Schema) (*Schema, error) {
	fields, err := fromArrowFields(in.Fields(), "", 0)
	if err != nil {
		return nil, err
	}
	return New(fields)
}

func fromArrowFields(in []arrow.Field, where string, depth int) ([]Field, error) {
	out := make([]Field, len(in))
	for i, f := range in {
		t, err := fromArrow(f.Type, join(where, f.Name), depth)
		if err != nil {
			return nil, err
		}
		out[i] = Field{Name: f.Name, Type: t, Nullable: f.Nullable || t.Kind == Void}
		if v, ok := f.Metadata.GetValue(CharVarcharKey); ok && t.Kind == String {
			c, err := parseCharVarchar(v)
			if err != nil {
				return nil, fmt.Errorf("schema: column %s: %w", join(where, f.Name), err)
			}
			out[i].metadata = c.metadata()
		}
	}
	return out, nil
}

func fromArrow(t arrow.DataType, at string, depth int) (Type, error) {
	if depth > maxDepth {
		return Type{}, fmt.Errorf("schema: column %s: types nested deeper than %d", at, maxDepth)
	}
	if k, ok := arrowKinds[t.ID()]; ok {
		return Type{Kind: k}, nil
	}
	switch t := t.(type) {
	case arrow.DecimalType:
		d, err := newDecimal(int(t.GetPrecision()), int(t.GetScale()))
		if err != nil {
			return Type{}, &UnsupportedTypeError{Column: at, Type: "arrow " + t.String(), Reason: "Delta's decimals have a precision of 1 to 38 and a scale from 0 to the precision"}
		}
		return d, nil
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return Type{Kind: TimestampNTZ}, nil
		}
		return Type{Kind: Timestamp}, nil
	case *arrow.DictionaryType:
		return fromArrow(t.ValueType, at, depth+1)
	case *arrow.RunEndEncodedType:
		return fromArrow(t.Encoded(), at, depth+1)
	case *arrow.StructType:
		fields, err := fromArrowFields(t.Fields(), at, depth+1)
		if err != nil {
			return Type{}, err
		}
		return Type{Kind: Struct, Fields: fields}, nil
	case *arrow.MapType:
		key, err := fromArrow(t.KeyType(), join(at, "key"), depth+1)
		if err != nil {
			return Type{}, err
		}
		val, err := fromArrow(t.ItemType(), join(at, "value"), depth+1)
		if err != nil {
			return Type{}, err
		}
		return Type{Kind: Map, Key: &key, Elem: &val, ElemNullable: t.ItemField().Nullable}, nil
	case arrow.ListLikeType:
		elem, err := fromArrow(t.Elem(), join(at, "element"), depth+1)
		if err != nil {
			return Type{}, err
		}
		return Type{Kind: Array, Elem: &elem, ElemNullable: t.ElemField().Nullable}, nil
	}
	return Type{}, &UnsupportedTypeError{Column: at, Type: "arrow " + t.String(), Reason: "it has no counterpart in Delta"}
}

var arrowKinds = map[arrow.Type]Kind{
	arrow.BOOL: Boolean, arrow.INT8: Byte, arrow.INT16: Short, arrow.INT32: Integer, arrow.INT64: Long,
	arrow.UINT8: Short, arrow.UINT16: Integer, arrow.UINT32: Long,
	arrow.FLOAT32: Float, arrow.FLOAT64: Double, arrow.DATE32: Date, arrow.DATE64: Date, arrow.NULL: Void,
	arrow.STRING: String, arrow.LARGE_STRING: String, arrow.STRING_VIEW: String,
	arrow.BINARY: Binary, arrow.LARGE_BINARY: Binary, arrow.BINARY_VIEW: Binary, arrow.FIXED_SIZE_BINARY: Binary,
}
