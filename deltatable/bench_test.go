package deltatable_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
)

const (
	benchFiles = 8
	benchRows  = 125_000 // a file
)

// benchTable is a local table of 8 files with a million rows in all.
func benchTable(b *testing.B) *deltatable.Snapshot {
	b.Helper()
	store, err := blobstore.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	tab := deltatable.NewTable(store, nil)
	s := create(b, tab, "k string, v long, d double", nil, nil)
	tx := tab.Begin(s)
	tx.Write.Operation = "WRITE"
	for f := range benchFiles {
		w, err := tab.NewFileWriter(b.Context(), s.Layout(), deltatable.Partition{})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Write(benchBatch(s.Schema(), f)); err != nil {
			b.Fatal(err)
		}
		adds, err := w.Close()
		if err != nil {
			b.Fatal(err)
		}
		tx.Write.Adds = append(tx.Write.Adds, adds...)
	}
	if _, err := tx.Commit(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	return snapshot(b, tab)
}

func benchBatch(sch *arrow.Schema, f int) arrow.RecordBatch {
	rb := array.NewRecordBuilder(memory.DefaultAllocator, sch)
	for i := range benchRows {
		n := uint64(f*benchRows+i) * 0x9E3779B97F4A7C15
		rb.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("%016x", n))
		rb.Field(1).(*array.Int64Builder).Append(int64(i))
		rb.Field(2).(*array.Float64Builder).Append(float64(n) / 3)
	}
	return rb.NewRecordBatch()
}

func BenchmarkScan(b *testing.B) {
	s := benchTable(b)
	for name, columns := range map[string][]string{"all": nil, "key": {"k"}, "none": {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rows := int64(0)
				for rec, err := range s.Scan(b.Context(), &deltatable.ScanOptions{Columns: columns}) {
					if err != nil {
						b.Fatal(err)
					}
					rows += rec.NumRows()
				}
				if rows != benchFiles*benchRows {
					b.Fatal(rows)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(benchFiles*benchRows), "ns/row")
		})
	}
}

func BenchmarkOpenLongLog(b *testing.B) {
	tab := longLog(b, 10_000)
	for b.Loop() {
		snapshot(b, tab)
	}
}

func BenchmarkHistory20OfLongLog(b *testing.B) {
	tab := longLog(b, 10_000)
	for b.Loop() {
		if _, err := tab.History(b.Context(), 20); err != nil {
			b.Fatal(err)
		}
	}
}
