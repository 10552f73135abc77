package deltatable

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable/internal/feature"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// WithColumns is a table's metadata with columns added at the end of its schema,
// all else as it was, unknown field metadata included (PROTOCOL.md "Schema
// Serialization Format"). The columns must be nullable: rows that are there have
// none. A type that needs a table feature which the protocol lacks is refused by
// the feature's name.
func WithColumns(md *Metadata, p *Protocol, fields []arrow.Field) (*Metadata, error) {
	old, err := schema.Parse(md.SchemaString)
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	added, err := schema.FromArrow(arrow.NewSchema(fields, nil))
	if err != nil {
		return nil, fmt.Errorf("add columns: %w", err)
	}
	if err := checkFieldNames(fields, ""); err != nil {
		return nil, err
	}
	for _, f := range fields {
		if !f.Nullable {
			return nil, &ColumnError{Column: f.Name, Msg: "a column that is added to rows must be nullable"}
		}
		if hasNTZ(f.Type) && !slices.Contains(p.WriterFeatures, feature.TimestampNtz) {
			return nil, &UnsupportedFeatureError{Feature: feature.TimestampNtz, Operation: "write", Reason: "the table's protocol does not have it"}
		}
	}
	all, err := schema.New(slices.Concat(old.Fields(), added.Fields()))
	if err != nil {
		return nil, fmt.Errorf("add columns: %w", err)
	}
	out := cloneMetadata(md)
	out.SchemaString = all.JSON()
	return out, nil
}
