package datafile

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const benchRows = 2_000_000

var benchSchema = arrow.NewSchema([]arrow.Field{
	field("key", arrow.BinaryTypes.String), field("id", arrow.PrimitiveTypes.Int64), field("source_version", arrow.PrimitiveTypes.Int64),
	field("status", arrow.BinaryTypes.String), field("value", arrow.BinaryTypes.String),
}, nil)

// benchBatches are rows as a state table has them: random string keys.
var benchBatches = sync.OnceValue(func() []arrow.RecordBatch { return stateRows(benchRows) })

func stateRows(rows int) (out []arrow.RecordBatch) {
	r := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < rows; at += 1 << 16 {
		n := min(1<<16, rows-at)
		b := array.NewRecordBuilder(memory.DefaultAllocator, benchSchema)
		for i := range n {
			id := int64(r.Uint64() >> 1)
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("account-%d", id))
			b.Field(1).(*array.Int64Builder).Append(id)
			b.Field(2).(*array.Int64Builder).Append(r.Int64N(1000))
			if s := r.IntN(7); s == 6 {
				b.Field(3).AppendNull()
			} else {
				b.Field(3).(*array.StringBuilder).Append([]string{"active", "deleted", "conflict", "new", "held", "gone"}[s])
			}
			if i%10 == 0 {
				b.Field(4).AppendNull()
			} else {
				b.Field(4).(*array.StringBuilder).Append(fmt.Sprintf("%020d", r.Uint64()))
			}
		}
		out = append(out, b.NewRecordBatch())
	}
	return out
}

func writeBench(b *testing.B, w io.Writer) Summary {
	d, err := NewWriter(w, WriteOptions{Schema: benchSchema, Stats: StatsSpec{NumIndexedCols: 32}})
	for _, rec := range benchBatches() {
		if err == nil {
			err = d.Write(rec)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	sum, err := d.Close()
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

func BenchmarkWrite(b *testing.B) {
	benchBatches()
	for b.Loop() {
		b.SetBytes(writeBench(b, io.Discard).Size)
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.parquet")
	out, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	size := writeBench(b, out).Size
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
	for name, columns := range map[string][]string{
		"all": nil, "key+version": {"key", "source_version"}, "id+version": {"id", "source_version"}, "status": {"status"}, "key": {"key"},
	} {
		b.Run(name, func(b *testing.B) {
			in, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = in.Close() }() // read only
			for b.Loop() {
				f, err := Open(context.Background(), in, size, benchSchema)
				if err != nil {
					b.Fatal(err)
				}
				rows := int64(0)
				for batch, err := range f.Read(context.Background(), ReadOptions{Columns: columns}) {
					if err != nil {
						b.Fatal(err)
					}
					rows += batch.Rec.NumRows()
				}
				if rows != benchRows {
					b.Fatal(rows)
				}
			}
			b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
