package merge_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// benchRows is the size of the state table: DELTAFOLD_BENCH_ROWS, one million
// by default.
func benchRows(b *testing.B) int {
	text := os.Getenv("DELTAFOLD_BENCH_ROWS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// benchKey spreads the numbers below n over the files at random.
func benchKey(i int) string { return fmt.Sprintf("account-%016x", uint64(i)*0x9E3779B97F4A7C15) }

// benchWorld makes a state table of 16 files with random string keys on disk.
func benchWorld(b *testing.B, n int) *world {
	b.Helper()
	store, err := blobstore.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	w := newWorld(b, worldSpec{store: store})
	md := w.metadata()
	layout, err := deltatable.NewLayout(md.Metadata)
	if err != nil {
		b.Fatal(err)
	}
	const files = 16
	c := &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md.Metadata, Protocol: md.Protocol}
	for f := range files {
		fw, err := w.table.NewFileWriter(b.Context(), layout, deltatable.Partition{})
		if err != nil {
			b.Fatal(err)
		}
		for start := f * n / files; start < (f+1)*n/files; start += 1 << 16 {
			end := min(start+1<<16, (f+1)*n/files)
			if err := fw.Write(benchState(layout.Schema(), start, end)); err != nil {
				b.Fatal(err)
			}
		}
		adds, err := fw.Close()
		if err != nil {
			b.Fatal(err)
		}
		c.Adds = append(c.Adds, adds...)
	}
	c.Tags = map[string]string{change.TagTableDigest: change.DigestUnknown}
	if _, err := w.table.TryCommit(b.Context(), nil, c); err != nil {
		b.Fatal(err)
	}
	return w
}

func benchState(sch *arrow.Schema, start, end int) arrow.RecordBatch {
	rb := array.NewRecordBuilder(memory.DefaultAllocator, sch)
	for i := start; i < end; i++ {
		rb.Field(0).(*array.StringBuilder).Append(benchKey(i))
		rb.Field(1).(*array.Int64Builder).Append(1)
		rb.Field(2).(*array.StringBuilder).Append("active")
		rb.Field(3).(*array.StringBuilder).Append(fmt.Sprintf("value-%014d", i))
		rb.Field(4).AppendNull()
	}
	return rb.NewRecordBatch()
}

// benchBatch has k updates of random rows of n at the given version.
func benchBatch(w *world, n, k int, version int64) *merge.Batch {
	rng := rand.New(rand.NewPCG(1, uint64(version)))
	rb := array.NewRecordBuilder(memory.DefaultAllocator, w.input)
	for range k {
		i := rng.IntN(n)
		rb.Field(0).(*array.StringBuilder).Append(benchKey(i))
		rb.Field(1).(*array.Int64Builder).Append(version)
		rb.Field(2).(*array.StringBuilder).Append("upsert")
		rb.Field(3).(*array.StringBuilder).Append(fmt.Sprintf("new-%d-%014d", version, i))
		rb.Field(4).AppendNull()
	}
	present := map[string]bool{"entity_id": true, "source_version": true, "operation": true, "value": true, "p": true}
	return &merge.Batch{Name: "bench", Schema: w.input, Files: []merge.InputFile{{
		Name: "bench", Records: []arrow.RecordBatch{rb.NewRecordBatch()}, Present: present,
	}}}
}

// BenchmarkRun folds batches into a state table on disk: one change, one in a
// hundred and one in ten of its rows, and the same batch again.
func BenchmarkRun(b *testing.B) {
	n := benchRows(b)
	for _, c := range []struct {
		name    string
		changes int
		again   bool
	}{{"one", 1, false}, {"1%", n / 100, false}, {"10%", n / 10, false}, {"1%-again", n / 100, true}} {
		b.Run(c.name, func(b *testing.B) {
			w := benchWorld(b, n)
			version := int64(1)
			b.ReportAllocs()
			for b.Loop() {
				if !c.again || version == 1 {
					version++
				}
				snap, err := w.table.Snapshot(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				_, err = merge.Run(b.Context(), &merge.Job{
					Table: w.table, Read: snap, Batch: benchBatch(w, n, c.changes, version), Roles: w.roles, RunID: uuid.NewString(),
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
