package deltatable

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/deltatable/internal/feature"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// SchemaFromArrow is the Delta schema of Arrow columns; types that have no
// Delta form are refused by name.
func SchemaFromArrow(sch *arrow.Schema) (*Schema, error) { return schema.FromArrow(sch) }

// NewTableMetadata is metadata and protocol for a new table, with a new id and
// the lowest protocol that the schema and properties need. partitionBy names
// columns in either case; what they are called in the schema is kept. Refused:
// names that Parquet readers of other engines cannot take, names that differ
// only in case, partition columns of a type that has no exact text, a table of
// partition columns alone, properties that CheckProperties refuses.
func NewTableMetadata(sch *Schema, partitionBy []string, props map[string]string) (*Metadata, *Protocol, error) {
	as, err := sch.Arrow()
	if err != nil {
		return nil, nil, fmt.Errorf("convert schema: %w", err)
	}
	if err := checkFieldNames(as.Fields(), ""); err != nil {
		return nil, nil, err
	}
	if err := CheckProperties(props); err != nil {
		return nil, nil, err
	}
	md := &Metadata{
		ID: uuid.NewString(), Provider: "parquet", FormatOptions: map[string]string{},
		SchemaString: sch.JSON(), PartitionColumns: []string{}, Configuration: maps.Clone(props),
	}
	if md.Configuration == nil {
		md.Configuration = map[string]string{}
	}
	for _, c := range partitionBy {
		i, err := findColumn(as, c)
		if err != nil {
			return nil, nil, fmt.Errorf("partition column: %w", err)
		}
		f := as.Field(i)
		if slices.Contains(md.PartitionColumns, f.Name) {
			return nil, nil, &ColumnError{Column: c, Msg: "it is named twice as a partition column"}
		}
		if !partitionType(f.Type) {
			return nil, nil, &ColumnError{Column: c, Msg: fmt.Sprintf("a column of type %s cannot be a partition column", TypeName(f.Type))}
		}
		md.PartitionColumns = append(md.PartitionColumns, f.Name)
	}
	if as.NumFields() == 0 || len(md.PartitionColumns) == as.NumFields() {
		return nil, nil, &ColumnError{Msg: "a table needs a column that is not a partition column"}
	}
	needed := neededFeatures(as, md.Configuration)
	if slices.Contains(needed, feature.ColumnMapping) {
		return nil, nil, &UnsupportedFeatureError{Feature: feature.ColumnMapping, Operation: "write", Reason: "it is not implemented for new tables"}
	}
	p := feature.ForNewTable(needed...)
	maps.DeleteFunc(md.Configuration, func(k, _ string) bool { return strings.HasPrefix(k, featureProperty) })
	if err := feature.CheckWrite(p, md); err != nil {
		return nil, nil, err
	}
	if _, err := NewLayout(md); err != nil {
		return nil, nil, err
	}
	return md, p, nil
}

// featureProperty begins the properties that ask for a feature by name; they
// end in the protocol, not in the metadata.
const featureProperty = "delta.feature."

// enabling are the properties that ask for a table feature when they are true
// (protocol notes 1.4). Those we do not implement are refused with its name.
var enabling = []struct{ key, feature string }{
	{"delta.enableChangeDataFeed", feature.ChangeDataFeed},
	{"delta.enableDeletionVectors", feature.DeletionVectors},
	{"delta.enableInCommitTimestamps", feature.InCommitTimestamp},
	{"delta.enableTypeWidening", feature.TypeWidening},
	{"delta.enableRowTracking", "rowTracking"},
	{"delta.enableIcebergCompatV1", "icebergCompatV1"},
	{"delta.enableIcebergCompatV2", "icebergCompatV2"},
	{"delta.enableIcebergCompatV3", "icebergCompatV3"},
	{"delta.enableVariantShredding", "variantShredding"},
}

// neededFeatures are the features that schema and properties of a new table ask
// for; properties delta.feature.<name>=supported name one each.
func neededFeatures(sch *arrow.Schema, props map[string]string) []string {
	var names []string
	for _, f := range sch.Fields() {
		if hasNTZ(f.Type) {
			names = append(names, feature.TimestampNtz)
			break
		}
	}
	for _, e := range enabling {
		if boolProperty(props, e.key, false) {
			names = append(names, e.feature)
		}
	}
	if mode := strings.ToLower(props["delta.columnMapping.mode"]); mode != "" && mode != "none" {
		names = append(names, feature.ColumnMapping)
	}
	if strings.EqualFold(props["delta.checkpointPolicy"], "v2") {
		names = append(names, feature.V2Checkpoint)
	}
	for k := range props {
		if n, ok := strings.CutPrefix(k, featureProperty); ok {
			names = append(names, n)
		}
		if strings.HasPrefix(k, "delta.constraints.") {
			names = append(names, feature.CheckConstraints)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hasNTZ(t arrow.DataType) bool {
	switch n := t.(type) {
	case *arrow.TimestampType:
		return n.TimeZone == ""
	case arrow.NestedType:
		return slices.ContainsFunc(n.Fields(), func(f arrow.Field) bool { return hasNTZ(f.Type) })
	}
	return false
}

// partitionType: binary has no exact text, nested types none at all.
func partitionType(t arrow.DataType) bool {
	none := []arrow.Type{arrow.BINARY, arrow.STRUCT, arrow.LIST, arrow.MAP, arrow.NULL}
	return !slices.Contains(none, t.ID())
}

// checkFieldNames: without column mapping, readers built on parquet-mr take
// none of " ,;{}()\n\t=" in a column name (protocol notes 1.9); Delta compares
// names case-insensitively.
func checkFieldNames(fields []arrow.Field, parent string) error {
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		path := parent + f.Name
		if f.Name == "" || strings.ContainsAny(f.Name, " ,;{}()\n\t=") {
			return &ColumnError{Column: path, Msg: `a column name must not be empty nor hold any of " ,;{}()=", tab or newline`}
		}
		low := strings.ToLower(f.Name)
		if seen[low] {
			return &ColumnError{Column: path, Msg: "another column has the same name, letter case aside"}
		}
		seen[low] = true
		for t := f.Type; t != nil; {
			switch n := t.(type) {
			case *arrow.StructType:
				if err := checkFieldNames(n.Fields(), path+"."); err != nil {
					return err
				}
				t = nil
			case *arrow.ListType:
				t = n.Elem()
			case *arrow.MapType:
				if err := checkNestedNames(n.KeyType(), path+".key"); err != nil {
					return err
				}
				t = n.ItemType()
			default:
				t = nil
			}
		}
	}
	return nil
}

func checkNestedNames(t arrow.DataType, path string) error {
	if st, ok := t.(*arrow.StructType); ok {
		return checkFieldNames(st.Fields(), path+".")
	}
	return nil
}
