package deltalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// The columns of a classic log checkpoint (PROTOCOL.md "Checkpoint Schema"), every
// field nullable, in Spark's types.

func optional(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func stringMap() arrow.DataType {
	return arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String)
}

func stringList() arrow.DataType {
	return arrow.ListOfField(optional("element", arrow.BinaryTypes.String))
}

func vectorType() arrow.DataType {
	return arrow.StructOf(
		optional("storageType", arrow.BinaryTypes.String),
		optional("pathOrInlineDv", arrow.BinaryTypes.String),
		optional("offset", arrow.PrimitiveTypes.Int32),
		optional("sizeInBytes", arrow.PrimitiveTypes.Int32),
		optional("cardinality", arrow.PrimitiveTypes.Int64),
	)
}

// shape says which of add's optional columns a checkpoint has.
type shape struct {
	json       bool
	partitions []arrow.Field // of partitionValues_parsed; none: no such column
	stats      []arrow.Field // of stats_parsed; none: no such column
}

func (s *shape) arrow() *arrow.Schema {
	text, long, boolean := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Boolean
	add := []arrow.Field{
		optional("path", text),
		optional("partitionValues", stringMap()),
		optional("size", long),
		optional("modificationTime", long),
		optional("dataChange", boolean),
		optional("tags", stringMap()),
		optional("deletionVector", vectorType()),
		optional("baseRowId", long),
		optional("defaultRowCommitVersion", long),
		optional("clusteringProvider", text),
	}
	if s.json {
		add = append(add, optional("stats", text))
	}
	if len(s.partitions) > 0 {
		add = append(add, optional("partitionValues_parsed", arrow.StructOf(s.partitions...)))
	}
	if len(s.stats) > 0 {
		add = append(add, optional("stats_parsed", arrow.StructOf(s.stats...)))
	}
	return arrow.NewSchema([]arrow.Field{
		optional("txn", arrow.StructOf(
			optional("appId", text), optional("version", long), optional("lastUpdated", long))),
		optional("add", arrow.StructOf(add...)),
		optional("remove", arrow.StructOf(
			optional("path", text), optional("deletionTimestamp", long), optional("dataChange", boolean),
			optional("extendedFileMetadata", boolean), optional("partitionValues", stringMap()), optional("size", long),
			optional("deletionVector", vectorType()), optional("baseRowId", long), optional("defaultRowCommitVersion", long))),
		optional("metaData", arrow.StructOf(
			optional("id", text), optional("name", text), optional("description", text),
			optional("format", arrow.StructOf(optional("provider", text), optional("options", stringMap()))),
			optional("schemaString", text), optional("partitionColumns", stringList()),
			optional("configuration", stringMap()), optional("createdTime", long))),
		optional("protocol", arrow.StructOf(
			optional("minReaderVersion", arrow.PrimitiveTypes.Int32), optional("minWriterVersion", arrow.PrimitiveTypes.Int32),
			optional("readerFeatures", stringList()), optional("writerFeatures", stringList()))),
		optional("domainMetadata", arrow.StructOf(
			optional("domain", text), optional("configuration", text), optional("removed", boolean))),
	}, nil)
}

// shapeOf decides the optional columns. The struct forms are typed by the table's
// schema. Statistics cover as many leaf columns as the table collects them for; all
// of them where the text form, which has everything, is left out.
func (c *content) shapeOf() (*shape, error) {
	sh := &shape{json: c.json}
	if !c.parsed {
		return sh, nil
	}
	md := c.state.Metadata
	fields, err := tableSchema(md)
	if err != nil && c.json {
		return sh, nil //nolint:nilerr // the text form has everything; a type we do not know loses nothing
	}
	if err != nil {
		return nil, err
	}
	var data []arrow.Field
	for _, f := range fields.Fields() {
		if i := slices.IndexFunc(md.PartitionColumns, func(n string) bool { return strings.EqualFold(n, f.Name) }); i < 0 {
			data = append(data, f)
		} else if !c.untyped {
			sh.partitions = append(sh.partitions, optional(f.Name, f.Type))
		}
	}
	leaves := -1
	if c.json {
		leaves = indexedColumns(md)
	}
	sh.stats = statsFields(data, leaves)
	return sh, nil
}

func tableSchema(md *action.Metadata) (*arrow.Schema, error) {
	sch, err := schema.Parse(md.SchemaString)
	if err != nil {
		return nil, fmt.Errorf("schema of the table: %w", err)
	}
	fields, err := sch.Arrow()
	if err != nil {
		return nil, fmt.Errorf("schema of the table: %w", err)
	}
	return fields, nil
}

// indexedColumns returns how many leaf columns have statistics; -1: no limit.
func indexedColumns(md *action.Metadata) int {
	if feature.Property(md, "delta.dataSkippingStatsColumns") != "" {
		return -1
	}
	text := feature.Property(md, "delta.dataSkippingNumIndexedCols")
	if text == "" {
		return 32
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// statsFields returns the fields of stats_parsed (PROTOCOL.md "Per-file Statistics").
func statsFields(data []arrow.Field, leaves int) []arrow.Field {
	bounds, counts := statLeaves(data, &leaves)
	fields := []arrow.Field{optional("numRecords", arrow.PrimitiveTypes.Int64), optional("tightBounds", arrow.FixedWidthTypes.Boolean)}
	if len(bounds) > 0 {
		fields = append(fields, optional("minValues", arrow.StructOf(bounds...)), optional("maxValues", arrow.StructOf(bounds...)))
	}
	if len(counts) > 0 {
		fields = append(fields, optional("nullCount", arrow.StructOf(counts...)))
	}
	return fields
}

// statLeaves returns the columns with bounds and those with null counts, depth first,
// until left, unless negative, is used up. An array or map counts as one leaf.
func statLeaves(data []arrow.Field, left *int) (bounds, counts []arrow.Field) {
	for _, f := range data {
		if *left == 0 {
			break
		}
		if st, ok := f.Type.(*arrow.StructType); ok {
			b, n := statLeaves(st.Fields(), left)
			if len(b) > 0 {
				bounds = append(bounds, optional(f.Name, arrow.StructOf(b...)))
			}
			if len(n) > 0 {
				counts = append(counts, optional(f.Name, arrow.StructOf(n...)))
			}
			continue
		}
		if *left > 0 {
			*left--
		}
		switch f.Type.ID() {
		case arrow.NULL:
			continue
		case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64,
			arrow.DECIMAL128, arrow.DATE32, arrow.TIMESTAMP, arrow.STRING:
			bounds = append(bounds, optional(f.Name, f.Type))
		}
		counts = append(counts, optional(f.Name, arrow.PrimitiveTypes.Int64))
	}
	return bounds, counts
}
