package checkpoints

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/merge/change"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestFoldTable runs testdata/fold.txt, a history of one table; -update rewrites it.
func TestFoldTable(t *testing.T) {
	const file = "testdata/fold.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, state: map[string]row1{}}
	blocks := strings.Split(strings.TrimRight(string(data), "\n"), "\n\n")
	for b, block := range blocks {
		asked, want, found := strings.Cut(block, "\n----\n")
		if !found {
			continue
		}
		got := w.foldBlock(asked)
		if diff := cmp.Diff(want, got); diff != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", asked, diff)
		}
		blocks[b] = asked + "\n----\n" + got
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(blocks, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) foldBlock(asked string) string {
	var lines []string
	var changes []change1
	for line := range strings.Lines(asked) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "#") || line == "batch" {
			continue
		}
		f := strings.Split(line, " ")
		lines = append(lines, line)
		changes = append(changes, change1{f[0], f[1], f[2], f[3]})
	}
	next, f, inputs := w.fold(batchRecord(w.t, changes))
	contra := contradictions(inputs)
	w.state = next
	out := make([]string, 0, len(lines))
	for i, line := range lines {
		word := string(f.outcomes[i])
		if slices.Contains(contra, i) {
			word += ", contradicts"
		}
		out = append(out, line+": "+word)
	}
	for _, k := range slices.Sorted(maps.Keys(next)) {
		r := next[k]
		out = append(out, strings.TrimRight(fmt.Sprintf("= %s %d %s %s", k, r.version, r.status, r.payload), " "))
	}
	return strings.Join(out, "\n")
}

// drawChanges draws a batch over few keys, versions and payloads, so that all cells of the
// table of decisions are met.
func drawChanges(t *rapid.T, n int) []change1 {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) change1 {
		c := change1{
			key:     rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", " ", ""}).Draw(t, "key"),
			version: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "version")),
			op:      rapid.SampledFrom([]string{"upsert", "upsert", "upsert", "delete", "NULL"}).Draw(t, "op"),
			payload: rapid.SampledFrom([]string{"x", "y", "-"}).Draw(t, "payload"),
		}
		if c.op == "delete" {
			c.payload = "-"
		}
		return c
	}), 0, n).Draw(t, "batch")
}

// TestFoldOrder is law 1 of the fold: any permutation and any split end in one state.
func TestFoldOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := drawChanges(t, 12)
		at := &world{t: t, state: map[string]row1{}}
		want, _, _ := at.fold(batchRecord(t, changes))
		one := &world{t: t, state: map[string]row1{}}
		rest := rapid.Permutation(changes).Draw(t, "order")
		for len(rest) > 0 {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			one.state, _, _ = one.fold(batchRecord(t, rest[:n]))
			rest = rest[n:]
		}
		if diff := cmp.Diff(want, one.state, cmp.AllowUnexported(row1{})); diff != "" {
			t.Fatalf("at once and in batches differ:\n%s", diff)
		}
		if again, f := at.foldOver(want, changes); !maps.Equal(again, want) || slices.Contains(f.outcomes, change.Accepted) {
			t.Fatalf("a replay changes %v to %v, outcomes %v", want, again, f.outcomes)
		}
	})
}

func (w *world) foldOver(state map[string]row1, changes []change1) (map[string]row1, folded) {
	w.state = state
	next, f, _ := w.fold(batchRecord(w.t, changes))
	return next, f
}
