package changefile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
)

// changes is n rows of the default input, about 149 bytes each.
func changes(n int) ([]byte, *arrow.Schema) {
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "change_id", Type: arrow.BinaryTypes.String},
		{Name: "entity_id", Type: arrow.BinaryTypes.String},
		{Name: "source_version", Type: arrow.PrimitiveTypes.Int64},
		{Name: "operation", Type: arrow.BinaryTypes.String},
		{Name: "value", Type: arrow.BinaryTypes.String},
	}, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	var b bytes.Buffer
	ops := []string{"upsert", "upsert", "upsert", "delete"}
	for range n {
		fmt.Fprintf(&b, `{"change_id":"c-%012x","entity_id":"account-%d","source_version":%d,"operation":"%s","value":"v%016x%04x"}`+"\n", rng.Uint64N(1<<48), rng.IntN(100000000), rng.Int64N(1<<53), ops[rng.IntN(4)], rng.Uint64(), rng.IntN(65536))
	}
	return b.Bytes(), sch
}

func BenchmarkReadJSONL(b *testing.B) {
	data, sch := changes(200_000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		read(b, "f.jsonl", data, &changefile.Options{Schema: sch})
	}
}

func BenchmarkDigest(b *testing.B) {
	data, sch := changes(1_000_000)
	f := read(b, "f.jsonl", data, &changefile.Options{Schema: sch})
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		changefile.Digest([]*changefile.File{f})
	}
}

func BenchmarkReadParquet(b *testing.B) {
	data, sch := changes(200_000)
	f := read(b, "f.jsonl", data, &changefile.Options{Schema: sch})
	pq := write(b, rowfile.Parquet, sch, f.Records...)
	b.SetBytes(int64(len(data))) // of the same rows as JSON Lines, to compare
	for b.Loop() {
		read(b, "f.parquet", pq, &changefile.Options{Schema: sch})
	}
}
