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
	var given *arrow.Schema
	if extra != "" {
		var err error
		if given, err = parseSchema(extra); err != nil {
			return nil, err
		}
	}
	var fields []arrow.Field
	has := func(name string) bool { _, ok := fieldOf(arrow.NewSchema(fields, nil), name); return ok }
	text := arrow.BinaryTypes.String
	add := func(name string, t arrow.DataType) {
		if name != "" && !has(name) {
			fields = append(fields, arrow.Field{Name: name, Type: t, Nullable: true})
		}
	}
	typed := func(name string, def arrow.DataType) (arrow.DataType, error) {
		if given != nil {
			if f, ok := fieldOf(given, name); ok {
				return f.Type, nil
			}
		}
		if ddl, ok := r.InputTypes[name]; ok {
			s, err := parseSchema("c " + ddl)
			if err != nil {
				return nil, err
			}
			return s.Field(0).Type, nil
		}
		return def, nil
	}
	for _, name := range slices.Concat([]string{r.ChangeID, r.Operation}, slices.Sorted(maps.Keys(r.InputTypes))) {
		t, err := typed(name, text)
		if err != nil {
			return nil, fmt.Errorf("input column %s: %w", name, err)
		}
		// The label comes first, the operation after keys and versions, as people
		// write them; the order means nothing.
		if name == r.ChangeID {
			add(name, t)
		}
	}
	for _, f := range table.Fields() {
		if r.StatusForm == change.StatusWord && f.Name == r.Status {
			continue
		}
		if given != nil {
			if g, ok := fieldOf(given, f.Name); ok && !arrow.TypeEqual(g.Type, f.Type) {
				return nil, usage("--schema gives column %s the type %s, the table has %s", f.Name, g.Type, f.Type)
			}
		}
		add(f.Name, f.Type)
		if f.Name == r.Versions[len(r.Versions)-1] && r.Operation != "" {
			t, err := typed(r.Operation, text)
			if err != nil {
				return nil, err
			}
			add(r.Operation, t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.InputTypes)) {
		t, err := typed(name, text)
		if err != nil {
			return nil, err
		}
		add(name, t)
	}
	if r.Operation != "" {
		add(r.Operation, text)
	}
	if given != nil {
		for _, f := range given.Fields() {
			add(f.Name, f.Type)
		}
	}
	return arrow.NewSchema(fields, nil), nil
}
