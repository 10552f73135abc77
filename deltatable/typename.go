package deltatable

import "github.com/apache/arrow-go/v18/arrow"

// TypeName is the name of a column's type as [ParseDDL] takes it, such as long
// or array<double>, for messages. A type that is none of Delta's keeps the name
// that Arrow has for it.
func TypeName(t arrow.DataType) string {
	s, err := SchemaFromArrow(arrow.NewSchema([]arrow.Field{{Name: "c", Type: t, Nullable: true}}, nil))
	if err != nil {
		return t.String()
	}
	return s.Fields()[0].Type.String()
}
