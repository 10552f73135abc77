package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Parse reads the schemaString of a metaData action (PROTOCOL.md "Schema
// Serialization Format"). It is tolerant: "decimal" alone is decimal(10,0),
// blanks within "decimal(p, s)" do not matter, primitive types may come as
// objects {"type": name}, a missing nullable is true, a missing metadata is {}.
// Types that deltafold does not hold are kept as [Unsupported].
func Parse(schemaString string) (*Schema, error) {
	t, err := parseType(jsontext.Value(schemaString), 0)
	if err != nil {
		return nil, fmt.Errorf("parse the table's schema: %w", err)
	}
	if t.Kind != Struct {
		return nil, fmt.Errorf("parse the table's schema: it is of type %s, not a struct", t.String())
	}
	s, err := New(t.Fields)
	if err != nil {
		return nil, fmt.Errorf("parse the table's schema: %w", err)
	}
	return s, nil
}

type jsonField struct {
	Name     *string        `json:"name"`
	Type     jsontext.Value `json:"type"`
	Nullable *bool          `json:"nullable"`
	Metadata jsontext.Value `json:"metadata"`
}

type jsonType struct {
	Type              jsontext.Value `json:"type"`
	Fields            []jsonField    `json:"fields"`
	ElementType       jsontext.Value `json:"elementType"`
	ContainsNull      *bool          `json:"containsNull"`
	KeyType           jsontext.Value `json:"keyType"`
	ValueType         jsontext.Value `json:"valueType"`
	ValueContainsNull *bool          `json:"valueContainsNull"`
}

func parseType(v jsontext.Value, depth int) (Type, error) {
	if depth > maxDepth {
		return Type{}, fmt.Errorf("types nested deeper than %d", maxDepth)
	}
	if v.Kind() == '"' {
		var name string
		if err := json.Unmarshal(v, &name); err != nil {
			return Type{}, err
		}
		return parsePrimitive(name)
	}
	if v.Kind() != '{' {
		return Type{}, fmt.Errorf("a type is neither a name nor an object: %.40s", v)
	}
	var o jsonType
	if err := json.Unmarshal(v, &o); err != nil {
		return Type{}, err
	}
	if o.Type.Kind() != '"' {
		return Type{}, fmt.Errorf("a type has no name: %.40s", v)
	}
	var name string
	if err := json.Unmarshal(o.Type, &name); err != nil {
		return Type{}, err
	}
	switch strings.ToLower(name) {
	case "struct":
		return parseStruct(o.Fields, depth)
	case "array":
		elem, err := parseType(o.ElementType, depth+1)
		if err != nil {
			return Type{}, fmt.Errorf("element of an array: %w", err)
		}
		return Type{Kind: Array, Elem: &elem, ElemNullable: orTrue(o.ContainsNull)}, nil
	case "map":
		key, err := parseType(o.KeyType, depth+1)
		if err != nil {
			return Type{}, fmt.Errorf("key of a map: %w", err)
		}
		val, err := parseType(o.ValueType, depth+1)
		if err != nil {
			return Type{}, fmt.Errorf("value of a map: %w", err)
		}
		return Type{Kind: Map, Key: &key, Elem: &val, ElemNullable: orTrue(o.ValueContainsNull)}, nil
	}
	t, err := parsePrimitive(name)
	if t.Kind == Unsupported {
		t.raw = v.Clone()
	}
	return t, err
}

func parseStruct(in []jsonField, depth int) (Type, error) {
	fields := make([]Field, len(in))
	for i, f := range in {
		if f.Name == nil {
			return Type{}, fmt.Errorf("field %d has no name", i)
		}
		if len(f.Type) == 0 {
			return Type{}, fmt.Errorf("field %s has no type", *f.Name)
		}
		t, err := parseType(f.Type, depth+1)
		if err != nil {
			return Type{}, fmt.Errorf("field %s: %w", *f.Name, err)
		}
		fields[i] = Field{Name: *f.Name, Type: t, Nullable: orTrue(f.Nullable)}
		switch {
		case len(f.Metadata) == 0 || f.Metadata.Kind() == 'n':
		case f.Metadata.Kind() == '{':
			fields[i].metadata = f.Metadata.Clone()
		default:
			return Type{}, fmt.Errorf("field %s: metadata is not an object", *f.Name)
		}
	}
	return Type{Kind: Struct, Fields: fields}, nil
}

func orTrue(b *bool) bool { return b == nil || *b }

var decimalText = regexp.MustCompile(`^decimal\s*(?:\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\))?$`)

func parsePrimitive(name string) (Type, error) {
	low := strings.ToLower(strings.TrimSpace(name))
	if k, ok := primitives[low]; ok {
		return Type{Kind: k}, nil
	}
	if m := decimalText.FindStringSubmatch(low); m != nil {
		p, s := 10, 0
		if m[1] != "" {
			p, _ = strconv.Atoi(m[1]) // overflow gives a number that newDecimal refuses
		}
		if m[2] != "" {
			s, _ = strconv.Atoi(m[2])
		}
		return newDecimal(p, s)
	}
	if low == "" {
		return Type{}, fmt.Errorf("a type has an empty name")
	}
	return Type{Kind: Unsupported, Name: name}, nil
}

// primitives are the names of the JSON form; ParseDDL adds SQL's synonyms.
var primitives = map[string]Kind{
	"boolean": Boolean, "byte": Byte, "short": Short, "integer": Integer, "long": Long,
	"float": Float, "double": Double, "string": String, "binary": Binary, "date": Date,
	"timestamp": Timestamp, "timestamp_ntz": TimestampNTZ, "void": Void, "null": Void,
}

func newDecimal(p, s int) (Type, error) {
	if p < 1 || p > 38 || s < 0 || s > p {
		return Type{}, fmt.Errorf("decimal(%d,%d): the precision must be 1 to 38 and the scale 0 to the precision", p, s)
	}
	return Type{Kind: Decimal, Precision: int32(p), Scale: int32(s)}, nil
}

// JSON gives the schema as a schemaString: members in Spark's order, metadata
// of fields as it was found, byte for byte.
func (s *Schema) JSON() string {
	return string(appendType(nil, &Type{Kind: Struct, Fields: s.fields}))
}

func appendType(b []byte, t *Type) []byte {
	switch t.Kind {
	case Struct:
		b = append(b, `{"type":"struct","fields":[`...)
		for i := range t.Fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendField(b, &t.Fields[i])
		}
		return append(b, "]}"...)
	case Array:
		b = append(b, `{"type":"array","elementType":`...)
		b = appendType(b, t.Elem)
		b = append(b, `,"containsNull":`...)
		return append(strconv.AppendBool(b, t.ElemNullable), '}')
	case Map:
		b = append(b, `{"type":"map","keyType":`...)
		b = appendType(b, t.Key)
		b = append(b, `,"valueType":`...)
		b = appendType(b, t.Elem)
		b = append(b, `,"valueContainsNull":`...)
		return append(strconv.AppendBool(b, t.ElemNullable), '}')
	case Decimal:
		return append(append(append(b, '"'), t.String()...), '"')
	case Unsupported:
		if t.raw != nil {
			return append(b, t.raw...)
		}
		return appendQuoted(b, t.Name)
	case Boolean, Byte, Short, Integer, Long, Float, Double, String, Binary, Date, Timestamp, TimestampNTZ, Void:
	}
	return appendQuoted(b, kindNames[t.Kind])
}

func appendField(b []byte, f *Field) []byte {
	b = append(b, `{"name":`...)
	b = appendQuoted(b, f.Name)
	b = append(b, `,"type":`...)
	b = appendType(b, &f.Type)
	b = append(b, `,"nullable":`...)
	b = strconv.AppendBool(b, f.Nullable)
	b = append(b, `,"metadata":`...)
	if len(f.metadata) == 0 {
		b = append(b, "{}"...)
	} else {
		b = append(b, f.metadata...)
	}
	return append(b, '}')
}

func appendQuoted(b []byte, s string) []byte {
	// Invalid UTF-8 becomes U+FFFD: names come from JSON or DDL and hold none.
	b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\ufffd"))
	return b
}
