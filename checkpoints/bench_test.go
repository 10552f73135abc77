package checkpoints

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/deltafold/deltafold/deltatable"
)

// BenchmarkRewrite audits a version that rewrote all 16 files of a table, a hundredth of
// its rows changed. DELTAFOLD_BENCH_ROWS sets the rows of the table.
func BenchmarkRewrite(b *testing.B) {
	total := 200_000
	if n, err := strconv.Atoi(os.Getenv("DELTAFOLD_BENCH_ROWS")); err == nil {
		total = n
	}
	w := newWorld(b.Context(), b)
	const files = 16
	var first, second deltatable.Commit
	for f := range files {
		rows := make([]keyed, 0, total/files)
		for i := range total / files {
			rows = append(rows, keyed{fmt.Sprintf("key-%08d", i*files+f), row1{1, "active", fmt.Sprintf("value %d", rand.IntN(1000))}})
		}
		a := w.writeRows(rows)
		first.Adds = append(first.Adds, a)
		for i := 0; i < len(rows); i += 100 {
			rows[i].row = row1{2, "active", "changed"}
		}
		second.Removes = append(second.Removes, a)
		second.Adds = append(second.Adds, w.writeRows(rows))
	}
	first.Operation, second.Operation = "WRITE", "MERGE"
	w.snap = w.commit(w.table, w.snap, &first)
	w.snap = w.commit(w.table, w.snap, &second)
	for _, c := range []struct {
		name   string
		from   deltatable.Version
		change func(*Options)
	}{
		{"load", 1, nil}, {"rewrite", 2, nil}, {"full", 2, func(o *Options) { o.Full = true }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				r := w.audit(func(o *Options) {
					o.From, o.To = &c.from, &c.from
					if c.change != nil {
						c.change(o)
					}
				})
				if len(r.Findings) > 0 {
					b.Fatal(r.Findings)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(total), "ns/row")
		})
	}
}
