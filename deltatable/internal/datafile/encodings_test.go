package datafile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"
)

// Pages of both versions, small ones, and every encoding that writers use, flat
// and within lists, read in batches that do not fit the pages.
func TestEveryEncodingAndPageVersionIsRead(t *testing.T) {
	strs, ints := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	list := func(t arrow.DataType) arrow.DataType { return arrow.ListOfField(field("element", t)) }
	s := arrow.NewSchema([]arrow.Field{
		field("s", strs), field("i", ints), field("ls", list(strs)), field("li", list(ints)), field("b", arrow.FixedWidthTypes.Boolean),
		field("d", arrow.PrimitiveTypes.Float64), field("dec", &arrow.Decimal128Type{Precision: 30, Scale: 5}),
		field("m", arrow.MapOf(strs, list(ints))),
	}, nil)
	r := rand.New(rand.NewPCG(7, 7))
	rec := randomBatch(r, s, 3000)
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		for _, enc := range []struct {
			name string
			strs parquet.Encoding
			ints parquet.Encoding
			dict bool
		}{
			{"plain", parquet.Encodings.Plain, parquet.Encodings.Plain, false},
			{"dictionary", parquet.Encodings.Plain, parquet.Encodings.Plain, true},
			{"delta", parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaBinaryPacked, false},
			{"delta length", parquet.Encodings.DeltaLengthByteArray, parquet.Encodings.DeltaBinaryPacked, false},
		} {
			t.Run(fmt.Sprintf("%s, pages v%d", enc.name, version+1), func(t *testing.T) {
				props := parquet.NewWriterProperties(parquet.WithDataPageVersion(version), parquet.WithDictionaryDefault(enc.dict),
					parquet.WithDataPageSize(2000), parquet.WithBatchSize(64), parquet.WithDictionaryPageSizeLimit(4000),
					parquet.WithEncodingFor("s", enc.strs), parquet.WithEncodingFor("ls.list.element", enc.strs), parquet.WithEncodingFor("m.key_value.key", enc.strs),
					parquet.WithEncodingFor("i", enc.ints), parquet.WithEncodingFor("li.list.element", enc.ints))
				var buf bytes.Buffer
				w, err := pqarrow.NewFileWriter(s, &buf, props, pqarrow.DefaultWriterProps())
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Write(rec); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				got := readAll(t, openFile(t, buf.Bytes(), s), ReadOptions{BatchRows: 701})
				for _, f := range s.Fields() {
					if d := cmp.Diff(column([]arrow.RecordBatch{rec}, f.Name), column(got, f.Name)); d != "" {
						t.Errorf("column %s (-want +got):\n%.2000s", f.Name, d)
					}
				}
			})
		}
	}
}

// A column whose sample repeats and whose rest does not falls back from its
// dictionary in the middle of a chunk.
func TestADictionaryGivenUpMidwayIsRead(t *testing.T) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range 60000 {
		if i < 2*sampleRows {
			b.Append("same")
		} else {
			b.Append(fmt.Sprintf("a rather long value that differs: %d", i))
		}
	}
	s := arrow.NewSchema([]arrow.Field{field("c", arrow.BinaryTypes.String)}, nil)
	rec := array.NewRecordBatch(s, []arrow.Array{b.NewArray()}, 60000)
	data, sum := writeFile(t, WriteOptions{Schema: s, Stats: StatsSpec{NumIndexedCols: 1}}, rec.NewSlice(0, sampleRows), rec.NewSlice(sampleRows, 60000))
	got := readAll(t, openFile(t, data, s), ReadOptions{})
	if d := cmp.Diff(column([]arrow.RecordBatch{rec}, "c"), column(got, "c")); d != "" {
		t.Errorf("(-want +got):\n%.2000s", d)
	}
	present(t, sum.Stats, rec)
}

func BenchmarkStatsBounds(b *testing.B) {
	data, sum := writeFile(b, WriteOptions{Schema: benchSchema, Stats: StatsSpec{NumIndexedCols: 32}}, benchBatches()[0])
	_ = data
	b.ReportAllocs()
	for b.Loop() {
		if StatsBounds(sum.Stats, benchSchema)("key").Min == nil {
			b.Fatal("no bound")
		}
	}
}
