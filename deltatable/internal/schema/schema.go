package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind tells the types of PROTOCOL.md "Schema Serialization Format" apart.
type Kind uint8

// The kinds of types. Unsupported stands for every type that Delta has and
// deltafold does not hold; [Type.Name] says which.
const (
	Unsupported Kind = iota
	Boolean
	Byte
	Short
	Integer
	Long
	Float
	Double
	Decimal
	String
	Binary
	Date
	Timestamp
	TimestampNTZ
	Void
	Struct
	Array
	Map
)

var kindNames = [...]string{
	Boolean: "boolean", Byte: "byte", Short: "short", Integer: "integer", Long: "long",
	Float: "float", Double: "double", Decimal: "decimal", String: "string", Binary: "binary",
	Date: "date", Timestamp: "timestamp", TimestampNTZ: "timestamp_ntz", Void: "void",
	Struct: "struct", Array: "array", Map: "map", Unsupported: "unsupported",
}

// Type is a Delta data type. Which members count depends on Kind; see each.
type Type struct {
	Kind             Kind
	Precision, Scale int32   // Decimal: 1 <= Precision <= 38, 0 <= Scale <= Precision
	Fields           []Field // Struct
	Key              *Type   // Map
	Elem             *Type   // Array: the element; Map: the value
	ElemNullable     bool    // Array: containsNull; Map: valueContainsNull
	Name             string  // Unsupported: the type's name

	raw jsontext.Value // Unsupported: as found, written back verbatim
}

// Field is a column or a member of a struct.
type Field struct {
	Name     string
	Type     Type
	Nullable bool

	metadata jsontext.Value // a JSON object as found; nil means {}
}

// Metadata gives the value of a key of the field's metadata as JSON text.
func (f *Field) Metadata(key string) (jsontext.Value, bool) {
	if len(f.metadata) == 0 {
		return nil, false
	}
	var m map[string]jsontext.Value
	if err := json.Unmarshal(f.metadata, &m); err != nil {
		return nil, false // Parse has checked it: an object always
	}
	v, ok := m[key]
	return v, ok
}

// MetadataKeys is the number of keys of the field's metadata.
func (f *Field) hasMetadata() bool { return len(f.metadata) > 0 && string(f.metadata) != "{}" }

// Schema is the schema of a table: its columns in order.
type Schema struct{ fields []Field }

// New makes a schema of fields, which must not be changed afterwards. Names
// must be unique without regard to case, at each level.
func New(fields []Field) (*Schema, error) {
	if err := checkUnique(fields, "", 0); err != nil {
		return nil, err
	}
	return &Schema{fields: fields}, nil
}

// Fields are the columns in table order. The slice must not be changed.
func (s *Schema) Fields() []Field { return s.fields }

// Field finds a column, an exact name before one that differs in case only.
func (s *Schema) Field(name string) (*Field, bool) {
	for i := range s.fields {
		if s.fields[i].Name == name {
			return &s.fields[i], true
		}
	}
	for i := range s.fields {
		if Fold(s.fields[i].Name) == Fold(name) {
			return &s.fields[i], true
		}
	}
	return nil, false
}

// Walk calls visit for every field at every level, parents first, with its
// path. The element of an array and the key and value of a map add "element",
// "key" and "value" to the paths of the fields within them.
func (s *Schema) Walk(visit func(path []string, f *Field)) {
	walkFields(nil, s.fields, visit)
}

func walkFields(path []string, fields []Field, visit func([]string, *Field)) {
	for i := range fields {
		p := append(path[:len(path):len(path)], fields[i].Name)
		visit(p, &fields[i])
		walkType(p, &fields[i].Type, visit)
	}
}

func walkType(path []string, t *Type, visit func([]string, *Field)) {
	sub := func(name string) []string { return append(path[:len(path):len(path)], name) }
	elem := "element"
	if t.Key != nil {
		walkType(sub("key"), t.Key, visit)
		elem = "value"
	}
	if t.Elem != nil {
		walkType(sub(elem), t.Elem, visit)
	}
	walkFields(path, t.Fields, visit)
}

// Has reports whether a type of this kind occurs at any level. A writer of new
// tables asks for TimestampNTZ, which needs a table feature.
func (s *Schema) Has(k Kind) bool {
	for i := range s.fields {
		if hasKind(&s.fields[i].Type, k) {
			return true
		}
	}
	return false
}

func hasKind(t *Type, k Kind) bool {
	if t.Kind == k {
		return true
	}
	for i := range t.Fields {
		if hasKind(&t.Fields[i].Type, k) {
			return true
		}
	}
	return t.Key != nil && hasKind(t.Key, k) || t.Elem != nil && hasKind(t.Elem, k)
}

// Fold gives the form in which names are compared: Delta resolves names
// without regard to case and keeps their case.
func Fold(name string) string { return strings.ToLower(name) }

// maxDepth bounds the nesting of types: deeper ones are damage or malice.
const maxDepth = 100

func checkUnique(fields []Field, where string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("schema: types nested deeper than %d", maxDepth)
	}
	seen := make(map[string]string, len(fields))
	for i := range fields {
		f := &fields[i]
		if f.Name == "" {
			return fmt.Errorf("schema: a column%s has an empty name", inside(where))
		}
		if other, dup := seen[Fold(f.Name)]; dup {
			return fmt.Errorf("schema: columns %q and %q%s differ in case only or not at all", other, f.Name, inside(where))
		}
		seen[Fold(f.Name)] = f.Name
		if err := checkUniqueType(&f.Type, join(where, f.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

func checkUniqueType(t *Type, where string, depth int) error {
	if t.Kind == Struct {
		return checkUnique(t.Fields, where, depth+1)
	}
	if t.Key != nil {
		if err := checkUniqueType(t.Key, join(where, "key"), depth+1); err != nil {
			return err
		}
	}
	if t.Elem != nil {
		return checkUniqueType(t.Elem, join(where, "element"), depth+1)
	}
	return nil
}

func inside(where string) string {
	if where == "" {
		return ""
	}
	return " in " + where
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// forbidden are the characters that Spark refuses in column names of tables
// without column mapping (PROTOCOL.md "Column Mapping"; protocol notes 1.9).
const forbidden = " ,;{}()\n\t="

// CheckCreate says whether a new table may have this schema: names without the
// characters that Parquet writers refuse, only types that deltafold holds, and
// void only where files can leave it out. Tables that exist already are not
// held to it.
func (s *Schema) CheckCreate() error {
	if len(s.fields) == 0 {
		return fmt.Errorf("schema: a table needs at least one column")
	}
	var bad error
	s.Walk(func(path []string, f *Field) {
		if i := strings.IndexAny(f.Name, forbidden); i >= 0 && bad == nil {
			bad = fmt.Errorf("schema: column name %q: the character %q is not allowed in names of a table without column mapping", strings.Join(path, "."), f.Name[i])
		}
	})
	if bad != nil {
		return bad
	}
	if _, err := s.Arrow(); err != nil {
		return err
	}
	return checkVoid(s.fields, "")
}

// checkVoid: PROTOCOL notes 1.2: no void within arrays and maps, no struct and
// no table of void only.
func checkVoid(fields []Field, where string) error {
	some := false
	for i := range fields {
		t, at := &fields[i].Type, join(where, fields[i].Name)
		some = some || t.Kind != Void
		if t.Kind == Struct {
			if err := checkVoid(t.Fields, at); err != nil {
				return err
			}
		} else if t.Elem != nil && hasKind(t, Void) {
			return fmt.Errorf("schema: column %s: void within an array or a map cannot be stored", at)
		}
	}
	if !some {
		return fmt.Errorf("schema: all columns%s are void, nothing could be stored", inside(where))
	}
	return nil
}

// String gives the type's SQL text, as [ParseDDL] reads it.
func (t *Type) String() string {
	switch t.Kind {
	case Integer:
		return "int"
	case Decimal:
		return "decimal(" + strconv.Itoa(int(t.Precision)) + "," + strconv.Itoa(int(t.Scale)) + ")"
	case Array:
		return "array<" + t.Elem.String() + ">"
	case Map:
		return "map<" + t.Key.String() + "," + t.Elem.String() + ">"
	case Struct:
		parts := make([]string, len(t.Fields))
		for i := range t.Fields {
			parts[i] = quoteName(t.Fields[i].Name) + ":" + t.Fields[i].Type.String()
			if !t.Fields[i].Nullable {
				parts[i] += " not null"
			}
		}
		return "struct<" + strings.Join(parts, ",") + ">"
	case Unsupported:
		return t.Name
	case Boolean, Byte, Short, Long, Float, Double, String, Binary, Date, Timestamp, TimestampNTZ, Void:
	}
	return kindNames[t.Kind]
}

// quoteName puts a name in backticks unless it is a plain word.
func quoteName(name string) string {
	plain := name != ""
	for i := 0; i < len(name); i++ {
		plain = plain && isWord(name[i]) && name[i] < 0x80
	}
	if plain {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// UnsupportedTypeError is the refusal of a type that deltafold does not hold.
type UnsupportedTypeError struct {
	Column string // path of the column, dotted
	Type   string // the type's name
	Reason string // may be empty
}

func (e *UnsupportedTypeError) Error() string {
	msg := fmt.Sprintf("column %s: the type %s is not supported", e.Column, e.Type)
	if e.Reason != "" {
		msg += ": " + e.Reason
	}
	return msg
}
