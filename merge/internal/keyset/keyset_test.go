package keyset_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/merge/internal/keyset"
)

func TestTableAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.SliceOfN(rapid.ByteRange(0, 2), 0, 4)).Draw(t, "keys")
		table, model := keyset.New(0), map[string]int32{}
		for _, k := range keys {
			want, seen := model[string(k)]
			if !seen {
				want = int32(len(model))
				model[string(k)] = want
			}
			if id, added := table.Insert(k); id != want || added == seen {
				t.Fatalf("insert %v: got %d, %v; want %d, %v", k, id, added, want, !seen)
			}
		}
		table.Seal()
		for _, k := range rapid.SliceOf(rapid.SliceOfN(rapid.ByteRange(0, 2), 0, 4)).Draw(t, "probes") {
			want, ok := model[string(k)]
			if !ok {
				want = -1
			}
			if got := table.Find(k); got != want {
				t.Fatalf("find %v: got %d, want %d", k, got, want)
			}
		}
		for k, id := range model {
			if string(table.Key(id)) != k || table.Find([]byte(k)) != id {
				t.Fatalf("key %d: got %v, want %v", id, table.Key(id), k)
			}
		}
	})
}

// BenchmarkFind probes a table of a million keys: one probe in a hundred hits.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			table := keyset.New(n)
			key := make([]byte, 16)
			for i := range n {
				binary.BigEndian.PutUint64(key, uint64(i)*100)
				table.Insert(key)
			}
			table.Seal()
			i := uint64(0)
			for b.Loop() {
				binary.BigEndian.PutUint64(key, i)
				table.Find(key)
				i = (i + 7919) % uint64(n*100)
			}
		})
	}
}
