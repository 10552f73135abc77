package deltatable

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable/internal/datafile"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
	"github.com/deltafold/deltafold/internal/ordered"
)

// Layout is the shape of a table's rows and files: schema, partitioning, and
// the properties that govern how files are written. Immutable; safe for
// concurrent use. It can be made from metadata alone, before a table exists.
type Layout struct {
	metadata   *Metadata
	delta      *Schema
	logical    *arrow.Schema
	data       *arrow.Schema // logical without partition columns
	partition  []string      // schema's spelling, metadata's order
	targetSize int64
	stats      datafile.StatsSpec
	codec      string
	prefix     int   // characters of string statistics; 0: the default
	writeErr   error // a property that writers need and cannot use
}

// Table properties read here besides Delta's own: columns that always have
// statistics, as JSON lists of names.
const (
	propKeys     = "deltafold.keys"
	propVersions = "deltafold.versions"
)

const defaultTargetSize = 128 << 20

// NewLayout derives the layout from metadata. Errors name what is wrong in the
// schema, a partition column, or a property (*PropertyError).
func NewLayout(md *Metadata) (*Layout, error) {
	l, err := layoutOf(md)
	if err != nil {
		return nil, err
	}
	return l, l.writeErr
}

// layoutOf is NewLayout for reading: properties that only writers need do not
// stand in its way.
func layoutOf(md *Metadata) (*Layout, error) {
	ds, err := schema.Parse(md.SchemaString)
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	logical, err := ds.Arrow()
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	l := &Layout{metadata: md, delta: ds, logical: logical}
	isPartition := make(map[int]bool, len(md.PartitionColumns))
	for _, c := range md.PartitionColumns {
		i, err := findColumn(logical, c)
		if err != nil {
			return nil, fmt.Errorf("partition column: %w", err)
		}
		isPartition[i] = true
		l.partition = append(l.partition, logical.Field(i).Name)
	}
	var fields []arrow.Field
	for i, f := range logical.Fields() {
		if !isPartition[i] {
			fields = append(fields, f)
		}
	}
	l.data = arrow.NewSchema(fields, nil)
	l.writeErr = l.readProperties()
	return l, nil
}

func (l *Layout) readProperties() error {
	p := l.metadata.Configuration
	var err error
	if l.targetSize, err = sizeProperty(p, "delta.targetFileSize", defaultTargetSize); err != nil {
		return err
	}
	l.stats = datafile.StatsSpec{NumIndexedCols: 32}
	if v, ok := p["delta.dataSkippingNumIndexedCols"]; ok {
		n, err := strconv.Atoi(strings.TrimSpace(v))
		if err != nil || n < -1 {
			return &PropertyError{Key: "delta.dataSkippingNumIndexedCols", Value: v, Want: "a number from -1"}
		}
		l.stats.NumIndexedCols = n
	}
	if v, ok := p["delta.dataSkippingStatsColumns"]; ok {
		if l.stats.Columns, err = splitIdentifiers(v); err != nil {
			return fmt.Errorf("property delta.dataSkippingStatsColumns: %w", err)
		}
	}
	for _, key := range []string{propKeys, propVersions} {
		names, err := listProperty(p, key)
		if err != nil {
			return err
		}
		l.stats.Always = append(l.stats.Always, names...)
	}
	if v, ok := p["delta.dataSkippingStringPrefixLength"]; ok {
		if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n > 0 && n < math.MaxInt16 {
			l.prefix = n
		}
	}
	l.codec = strings.ToLower(p["delta.parquet.compression.codec"])
	return nil
}

// Schema is the logical schema in canonical types, in table order.
func (l *Layout) Schema() *arrow.Schema { return l.logical }

// DataSchema is Schema without the partition columns: what data files hold.
func (l *Layout) DataSchema() *arrow.Schema { return l.data }

// TargetSize is the size in bytes that a data file grows to (table property
// delta.targetFileSize).
func (l *Layout) TargetSize() int64 { return l.targetSize }

// PartitionColumns are the partition columns in the metadata's order; a copy.
func (l *Layout) PartitionColumns() []string { return slices.Clone(l.partition) }

// Partition is one combination of partition values.
type Partition struct {
	// Key is a comparable, typed, canonical form: equal keys, equal partitions,
	// however the values are spelled.
	Key string
	// Values are the partition values as an action holds them; nil is NULL.
	// Shared; do not modify.
	Values map[string]*string
}

// Partition is the partition of one row of rec, which holds all logical
// columns in table order. "" counts as NULL, as Delta stores it.
func (l *Layout) Partition(rec arrow.RecordBatch, row int) (Partition, error) {
	p := Partition{Values: make(map[string]*string, len(l.partition))}
	var key []byte
	for _, c := range l.partition {
		i, err := findColumn(l.logical, c)
		if err != nil {
			return Partition{}, err
		}
		v, err := schema.PartitionString(l.logical.Field(i).Type, rec.Column(i), row)
		if err != nil {
			return Partition{}, fmt.Errorf("partition column %q: %w", c, err)
		}
		p.Values[c] = v
		key = appendPartitionKey(key, rec.Column(i), row, v == nil)
	}
	p.Key = string(key)
	return p, nil
}

// PartitionOf is the partition that a live file belongs to, its values as the
// action has them.
func (l *Layout) PartitionOf(a *Add) (Partition, error) {
	p := Partition{Values: make(map[string]*string, len(l.partition))}
	var key []byte
	for _, c := range l.partition {
		v := partitionValue(a, c)
		arr, err := l.partitionArray(c, v, 1)
		if err != nil {
			return Partition{}, err
		}
		p.Values[c] = v
		key = appendPartitionKey(key, arr, 0, arr.IsNull(0))
	}
	p.Key = string(key)
	return p, nil
}

// partitionValue is a's value of partition column c; a missing one is NULL,
// and so is "" (protocol: for every type). Names are matched exactly, then
// case-insensitively.
func partitionValue(a *Add, c string) *string {
	v, ok := a.PartitionValues[c]
	if !ok {
		for k, w := range a.PartitionValues {
			if strings.EqualFold(k, c) {
				v = w
			}
		}
	}
	if v == nil || *v == "" {
		return nil
	}
	return v
}

func (l *Layout) partitionArray(column string, v *string, n int) (arrow.Array, error) {
	i, err := findColumn(l.logical, column)
	if err != nil {
		return nil, err
	}
	arr, err := schema.PartitionArray(l.logical.Field(i).Type, v, n)
	if err != nil {
		return nil, fmt.Errorf("partition column %q: %w", column, err)
	}
	return arr, nil
}

func appendPartitionKey(key []byte, arr arrow.Array, row int, null bool) []byte {
	if null {
		return append(key, 0x00)
	}
	return ordered.Append(key, arr, row)
}

// bounds is what partition values and statistics know of a's columns.
func (l *Layout) bounds(a *Add) func(column string) Bounds {
	var stats func(string) Bounds
	return func(column string) Bounds {
		i, err := findColumn(l.logical, column)
		if err != nil {
			return ordered.Unknown()
		}
		name := l.logical.Field(i).Name
		if slices.Contains(l.partition, name) {
			return l.partitionBounds(a, name)
		}
		if a.Stats == "" {
			return ordered.Unknown()
		}
		if stats == nil {
			stats = statsOf(a)(a.Stats, l.data)
		}
		return stats(name)
	}
}

func (l *Layout) partitionBounds(a *Add, column string) Bounds {
	arr, err := l.partitionArray(column, partitionValue(a, column), 1)
	if err != nil {
		return ordered.Unknown()
	}
	rows, ok := numRecords(a.Stats)
	if !ok {
		rows = -1
	}
	b := Bounds{Rows: rows, Exact: true}
	if arr.IsNull(0) {
		b.NullCount = rows
		return b
	}
	if !ordered.Supported(arr.DataType()) {
		return ordered.Unknown()
	}
	v := ordered.Append(nil, arr, 0)
	b.Min, b.Max = v, v
	return b
}

// findColumn is the index of the top-level column name: the exact spelling, or
// else the only one that differs in case.
func findColumn(sch *arrow.Schema, name string) (int, error) {
	if is := sch.FieldIndices(name); len(is) == 1 {
		return is[0], nil
	}
	found := -1
	folded := schema.Fold(name)
	for i, f := range sch.Fields() {
		if schema.Fold(f.Name) != folded {
			continue
		}
		if found >= 0 {
			return -1, &ColumnError{Column: name, Msg: "more than one column has this name"}
		}
		found = i
	}
	if found < 0 {
		return -1, &ColumnError{Column: name, Msg: "the table has no such column"}
	}
	return found, nil
}

// project orders columns of the logical schema as names ask; nil: all.
func (l *Layout) project(names []string) (*arrow.Schema, error) {
	if names == nil {
		return l.logical, nil
	}
	fields := make([]arrow.Field, 0, len(names))
	for _, n := range names {
		i, err := findColumn(l.logical, n)
		if err != nil {
			return nil, err
		}
		fields = append(fields, l.logical.Field(i))
	}
	return arrow.NewSchema(fields, nil), nil
}

// statsOf reads the statistics of a file as far as its writer is to be trusted:
// those of our own files have exact bounds for long strings and floats.
func statsOf(a *Add) func(string, *arrow.Schema) func(string) Bounds {
	if a.Tags[TagFileHash] != "" {
		return datafile.OwnStatsBounds
	}
	return datafile.StatsBounds
}
