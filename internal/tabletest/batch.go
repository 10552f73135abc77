package tabletest

import (
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// batchRows is the largest record batch of Batch.Records, as changefile's are.
const batchRows = 64 << 10

// Batch is the input of one merge.
type Batch struct {
	Rows []Row
}

// Records are the batch's rows as record batches of sch, at most 64k rows each.
// Columns that a row lacks are NULL; columns that sch lacks are left out.
func (b Batch) Records(sch *arrow.Schema) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	bld := array.NewRecordBuilder(memory.DefaultAllocator, sch)
	defer bld.Release()
	for i, row := range b.Rows {
		for c, f := range sch.Fields() {
			Append(bld.Field(c), row[f.Name])
		}
		if i%batchRows == batchRows-1 || i == len(b.Rows)-1 {
			out = append(out, bld.NewRecordBatch())
		}
	}
	return out
}

// Permute is the batch with its rows in another order.
func (b Batch) Permute(r *rand.Rand) Batch {
	rows := append([]Row(nil), b.Rows...)
	r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return Batch{Rows: rows}
}

// Split is the batch cut into one to n batches of neighbouring rows.
func (b Batch) Split(r *rand.Rand, n int) []Batch {
	var out []Batch
	rows := b.Rows
	for parts := 1 + r.IntN(n); parts > 1 && len(rows) > 1; parts-- {
		k := 1 + r.IntN(len(rows)-1)
		out = append(out, Batch{Rows: rows[:k]})
		rows = rows[k:]
	}
	return append(out, Batch{Rows: rows})
}

// Join is one batch of the rows of all.
func Join(batches ...Batch) Batch {
	var out Batch
	for _, b := range batches {
		out.Rows = append(out.Rows, b.Rows...)
	}
	return out
}
