package datafile

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
)

// A File serves several readers at once, and one that stops early.
func TestConcurrentReadsDoNotDisturbEachOther(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	s := randomSchema(r)
	rec := randomBatch(r, s, 2000)
	data, _ := writeFile(t, WriteOptions{Schema: s, RowGroupRows: 300}, rec)
	f := openFile(t, data, s)
	var wg sync.WaitGroup
	for i := range 6 {
		name := s.Field(i % s.NumFields()).Name
		wg.Go(func() {
			var recs []arrow.RecordBatch
			for b, err := range f.Read(context.Background(), ReadOptions{Columns: []string{name}, BatchRows: 100 + i}) {
				if err != nil {
					t.Error(err)
					return
				}
				recs = append(recs, b.Rec)
				f.Bounds(0, name)
				if i == 5 {
					break
				}
			}
			want := column([]arrow.RecordBatch{rec}, name)
			if got := column(recs, name); i < 5 && !cmp.Equal(want, got) {
				t.Errorf("column %s differs", name)
			}
		})
	}
	wg.Wait()
}

func TestReadingStopsWhenTheContextDoes(t *testing.T) {
	s := longs("c", 0, 0).Schema()
	data, _ := writeFile(t, WriteOptions{Schema: s}, longs("c", 0, 100))
	f := openFile(t, data, s)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	for _, err := range f.Read(ctx, ReadOptions{BatchRows: 10}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("%d batches", n)
	}
}
