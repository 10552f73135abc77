package deltalog

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// content is what a log checkpoint holds.
type content struct {
	state        *State
	removes      []*action.Remove
	txns         []*action.Txn
	json, parsed bool
	untyped      bool // leave partitionValues_parsed out
}

// checkpointRowGroup is the most rows of a row group, checkpointChunk how many are
// built at once.
const (
	checkpointRowGroup = 128 << 10
	checkpointChunk    = 16 << 10
)

// The columns of a log checkpoint, by position.
const (
	txnColumn = iota
	addColumn
	removeColumn
	metadataColumn
	protocolColumn
	domainColumn
)

// encode writes the Parquet file and returns how many rows it has.
func (c *content) encode(w io.Writer) (int64, error) {
	sh, err := c.shapeOf()
	if err != nil {
		return 0, err
	}
	props := parquet.NewWriterProperties(
		parquet.WithCreatedBy("deltafold"),
		parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithMaxRowGroupLength(checkpointRowGroup),
		parquet.WithDictionaryFor("add.path", false),
		parquet.WithDictionaryFor("remove.path", false),
		parquet.WithDictionaryFor("add.stats", false),
		parquet.WithStatsFor("add.stats", false),
		parquet.WithStatsFor("metaData.schemaString", false),
	)
	out := &checkpointWriter{schema: sh.arrow()}
	out.file, err = pqarrow.NewFileWriter(out.schema, w, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return 0, err
	}
	if err := c.writeAll(out); err != nil {
		return 0, err
	}
	return out.rows, out.file.Close()
}

// checkpointWriter writes rows, the actions of one kind after those of another.
type checkpointWriter struct {
	schema *arrow.Schema
	file   *pqarrow.FileWriter
	rows   int64
}

// write writes rows 0 to n of a column, in chunks; the other columns are null.
func (w *checkpointWriter) write(column, n int, row func(b *array.StructBuilder) func(i int) error) error {
	if n == 0 {
		return nil
	}
	b, ok := array.NewBuilder(memory.DefaultAllocator, w.schema.Field(column).Type).(*array.StructBuilder)
	if !ok {
		return fmt.Errorf("internal error: column %s is not a struct", w.schema.Field(column).Name)
	}
	defer b.Release()
	each := row(b)
	for first := 0; first < n; first += checkpointChunk {
		last := min(n, first+checkpointChunk)
		for i := first; i < last; i++ {
			b.Append(true)
			if err := each(i); err != nil {
				return err
			}
		}
		columns := make([]arrow.Array, w.schema.NumFields())
		for at := range columns {
			if at == column {
				columns[at] = b.NewArray()
			} else {
				columns[at] = array.MakeArrayOfNull(memory.DefaultAllocator, w.schema.Field(at).Type, last-first)
			}
		}
		rec := array.NewRecordBatch(w.schema, columns, int64(last-first))
		err := w.file.WriteBuffered(rec)
		rec.Release()
		for _, a := range columns {
			a.Release()
		}
		if err != nil {
			return err
		}
		w.rows += int64(last - first)
	}
	return nil
}

func (c *content) writeAll(w *checkpointWriter) error {
	s := c.state
	domains := sortedKeys(s.Domains)
	err := w.write(protocolColumn, 1, func(b *array.StructBuilder) func(int) error {
		return func(int) error { protocolRow(b, s.Protocol); return nil }
	})
	if err != nil {
		return err
	}
	err = w.write(metadataColumn, 1, func(b *array.StructBuilder) func(int) error {
		return func(int) error { metadataRow(b, s.Metadata); return nil }
	})
	if err != nil {
		return err
	}
	err = w.write(txnColumn, len(c.txns), func(b *array.StructBuilder) func(int) error {
		return func(i int) error { txnRow(b, c.txns[i]); return nil }
	})
	if err != nil {
		return err
	}
	err = w.write(domainColumn, len(domains), func(b *array.StructBuilder) func(int) error {
		return func(i int) error { domainRow(b, s.Domains[domains[i]]); return nil }
	})
	if err != nil {
		return err
	}
	err = w.write(removeColumn, len(c.removes), func(b *array.StructBuilder) func(int) error {
		return func(i int) error { removeRow(b, c.removes[i]); return nil }
	})
	if err != nil {
		return err
	}
	return w.write(addColumn, len(s.Adds), func(b *array.StructBuilder) func(int) error {
		r := newAddRows(b)
		return func(i int) error { return r.row(s.Adds[i]) }
	})
}

// addRows appends adds.
type addRows struct {
	b                 *array.StructBuilder
	stats             int // index of the text form, -1: none
	partitions        int // index of the typed partition values, -1: none
	parsed            int // index of the struct form, -1: none
	partitionBuilders []array.Builder
	partitionNames    []string
	tree              *statNode
}

func newAddRows(b *array.StructBuilder) *addRows {
	r := &addRows{b: b, stats: -1, partitions: -1, parsed: -1}
	for i, f := range b.Type().(*arrow.StructType).Fields() {
		switch f.Name {
		case "stats":
			r.stats = i
		case "partitionValues_parsed":
			r.partitions = i
			sb := b.FieldBuilder(i).(*array.StructBuilder)
			for j, p := range f.Type.(*arrow.StructType).Fields() {
				r.partitionNames = append(r.partitionNames, p.Name)
				r.partitionBuilders = append(r.partitionBuilders, sb.FieldBuilder(j))
			}
		case "stats_parsed":
			r.parsed = i
			r.tree = newStatNode(b.FieldBuilder(i))
		}
	}
	return r
}

func (r *addRows) row(a *action.Add) error {
	f := r.b.FieldBuilder
	appendText(f(0), a.Path)
	appendValues(f(1), a.PartitionValues, true)
	appendInt(f(2), a.Size)
	appendInt(f(3), a.ModificationTime)
	appendBool(f(4), false) // NB: a log checkpoint changes no data, whatever the entry said
	appendStrings(f(5), a.Tags, a.Tags != nil)
	appendVector(f(6), a.DeletionVector)
	appendOptInt(f(7), a.BaseRowID)
	appendOptInt(f(8), a.DefaultRowCommitVersion)
	appendOptText(f(9), a.ClusteringProvider)
	if r.stats >= 0 {
		appendNonEmpty(f(r.stats), a.Stats)
	}
	if r.partitions >= 0 {
		f(r.partitions).(*array.StructBuilder).Append(true)
		for i, name := range r.partitionNames {
			if !appendPartition(r.partitionBuilders[i], a.PartitionValues[name]) {
				return fmt.Errorf("file %s, partition column %s: %w", a.Path, name, errUntyped)
			}
		}
	}
	if r.parsed >= 0 {
		r.tree.append(a.Stats)
	}
	return nil
}

func removeRow(b *array.StructBuilder, r *action.Remove) {
	f := b.FieldBuilder
	appendText(f(0), r.Path)
	appendOptInt(f(1), r.DeletionTimestamp)
	appendBool(f(2), false) // as for adds
	appendBool(f(3), r.ExtendedFileMetadata)
	appendValues(f(4), r.PartitionValues, r.PartitionValues != nil)
	appendOptInt(f(5), r.Size)
	appendVector(f(6), r.DeletionVector)
	appendOptInt(f(7), r.BaseRowID)
	appendOptInt(f(8), r.DefaultRowCommitVersion)
}

func metadataRow(b *array.StructBuilder, m *action.Metadata) {
	f := b.FieldBuilder
	appendText(f(0), m.ID)
	appendNonEmpty(f(1), m.Name)
	appendNonEmpty(f(2), m.Description)
	format := f(3).(*array.StructBuilder)
	format.Append(true)
	appendText(format.FieldBuilder(0), cmp.Or(m.Provider, "parquet"))
	appendStrings(format.FieldBuilder(1), m.FormatOptions, true)
	appendText(f(4), m.SchemaString)
	appendList(f(5), m.PartitionColumns, true)
	appendStrings(f(6), m.Configuration, true)
	appendOptInt(f(7), m.CreatedTime)
}

// protocolRow keeps feature lists NULL unless the versions have them: an empty list
// there makes Spark fail (protocol notes 1.5).
func protocolRow(b *array.StructBuilder, p *action.Protocol) {
	appendInt32(b.FieldBuilder(0), int32(p.MinReader)) //nolint:gosec // checked when decoded
	appendInt32(b.FieldBuilder(1), int32(p.MinWriter)) //nolint:gosec // checked when decoded
	appendList(b.FieldBuilder(2), p.ReaderFeatures, p.MinReader >= 3)
	appendList(b.FieldBuilder(3), p.WriterFeatures, p.MinWriter >= 7)
}

func txnRow(b *array.StructBuilder, t *action.Txn) {
	appendText(b.FieldBuilder(0), t.AppID)
	appendInt(b.FieldBuilder(1), t.Version)
	appendOptInt(b.FieldBuilder(2), t.LastUpdated)
}

func domainRow(b *array.StructBuilder, d *action.DomainMetadata) {
	appendText(b.FieldBuilder(0), d.Domain)
	appendText(b.FieldBuilder(1), d.Configuration)
	appendBool(b.FieldBuilder(2), false)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
