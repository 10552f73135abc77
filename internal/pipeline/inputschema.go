package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/merge/change"
)

// defaultColumns are the five columns of an input that needs no --schema.
func defaultColumns() *arrow.Schema {
	text := arrow.BinaryTypes.String
	return arrow.NewSchema([]arrow.Field{
		{Name: defaultChangeID, Type: text, Nullable: true},
		{Name: defaultKey, Type: text, Nullable: true},
		{Name: defaultVersion, Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: defaultOperation, Type: text, Nullable: true},
		{Name: "value", Type: text, Nullable: true},
	}, nil)
}

// parseSchema reads --schema.
func parseSchema(ddl string) (*arrow.Schema, error) {
	s, err := deltatable.ParseDDL(ddl)
	if err != nil {
		return nil, usage("--schema: %v", err)
	}
	sch, err := s.Arrow()
	if err != nil {
		return nil, usage("--schema: %v", err)
	}
	return sch, nil
}

// firstSchema is the schema of the input of a table that is to be made
// (command.md, "Commands"): --schema, or a Parquet file's own, or the five
// default columns; types of text inputs are never guessed.
func (a *applier) firstSchema(ctx context.Context) (*arrow.Schema, error) {
	if a.job.Schema != "" {
		return parseSchema(a.job.Schema)
	}
	src := a.in.sources[0]
	format := a.job.Format
	if format == "" {
		format = changefile.FormatOf(src.Name)
	}
	if format == changefile.FormatParquet || format == changefile.FormatArrow {
		f, err := changefile.Read(ctx, src, &changefile.Options{Format: format})
		if err != nil {
			return nil, err
		}
		if len(f.Records) == 0 {
			return nil, usage("%s has no rows: a new table needs --schema", f.Name)
		}
		return f.Records[0].Schema(), nil
	}
	want := defaultColumns()
	for _, src := range a.in.sources {
		f, err := changefile.Read(ctx, src, &changefile.Options{Format: a.job.Format, Schema: want, AllowUnknown: true})
		if err != nil {
			return nil, usage("a new table needs --schema unless its input has the five default columns with a string value (%v)", err)
		}
		for _, field := range want.Fields() {
			if f.Rows > 0 && !f.Present[field.Name] {
				return nil, usage("a new table needs --schema: %s lacks the default column %s", f.Name, field.Name)
			}
		}
	}
	return want, nil
}

// InputSchema is the schema of the input of a table that is there: the table's
// columns but for a status in words, and those that only the input has, with
// their remembered types or those of the DDL in extra.
func InputSchema(r *change.Roles, table *arrow.Schema, extra string) (*arrow.Schema, error) {
	b := &inputBuilder{roles: r, given: arrow.NewSchema(nil, nil)}
	if extra != "" {
		var err error
		if b.given, err = parseSchema(extra); err != nil {
			return nil, err
		}
	}
	// The label comes first, the operation after keys and versions, as people
	// write them; the order means nothing.
	if err := b.addOwn(r.ChangeID); err != nil {
		return nil, err
	}
	if err := b.addTable(table); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(r.InputTypes)) {
		if err := b.addOwn(name); err != nil {
			return nil, err
		}
	}
	b.add(r.Operation, arrow.BinaryTypes.String)
	for _, f := range b.given.Fields() {
		b.add(f.Name, f.Type)
	}
	return arrow.NewSchema(b.fields, nil), nil
}

// inputBuilder puts the schema of an input together.
type inputBuilder struct {
	roles  *change.Roles
	given  *arrow.Schema // what the caller says of columns
	fields []arrow.Field
}

// add adds a column unless it is there.
func (b *inputBuilder) add(name string, t arrow.DataType) {
	if _, is := fieldOf(arrow.NewSchema(b.fields, nil), name); name != "" && !is {
		b.fields = append(b.fields, arrow.Field{Name: name, Type: t, Nullable: true})
	}
}

// addOwn adds a column that only the input has: with the type that is given, or
// else remembered, or else as text.
func (b *inputBuilder) addOwn(name string) error {
	t := arrow.DataType(arrow.BinaryTypes.String)
	if f, ok := fieldOf(b.given, name); ok {
		t = f.Type
	} else if ddl, ok := b.roles.InputTypes[name]; ok {
		s, err := parseSchema("c " + ddl)
		if err != nil {
			return fmt.Errorf("input column %s: %w", name, err)
		}
		t = s.Field(0).Type
	}
	b.add(name, t)
	return nil
}

// addTable adds the columns of the table, and the operation after the last
// version.
func (b *inputBuilder) addTable(table *arrow.Schema) error {
	r := b.roles
	for _, f := range table.Fields() {
		if r.StatusForm == change.StatusWord && f.Name == r.Status {
			continue
		}
		if g, ok := fieldOf(b.given, f.Name); ok && !arrow.TypeEqual(g.Type, f.Type) {
			return usage("--schema gives column %s the type %s, the table has %s", f.Name, deltatable.TypeName(g.Type), deltatable.TypeName(f.Type))
		}
		b.add(f.Name, f.Type)
		if f.Name != r.Versions[len(r.Versions)-1] {
			continue
		}
		if err := b.addOwn(r.Operation); err != nil {
			return err
		}
	}
	return nil
}
