package tabletest_test

import (
	"hash/fnv"
	"io"
	"strings"
	"testing"

	"github.com/deltafold/deltafold/internal/tabletest"
)

// TestMergeCasesSayMuch counts what generated statements have, so that none of it
// gets lost unseen: each word in at least one of a hundred rich cases, and none
// of them in the others.
func TestMergeCasesSayMuch(t *testing.T) {
	words := []string{
		" RLIKE ", " REGEXP ", " EXCEPT (", "named_struct(", "array(", "map(", "['", "get(", "size(", "array_contains(",
		"'NaN'", "Infinity'", "'-0.0'", "AS DOUBLE)", " * ", "`.a", "`.b",
	}
	seen, rich := map[string]int{}, 0
	for seed := range uint64(3000) {
		sql := tabletest.NewMergeCase(seed, tabletest.MergeProfile{}).SQL("t", "s")
		is := seed%5 == 2 || seed%5 == 3
		if is {
			rich++
		}
		for _, w := range words {
			switch {
			case !strings.Contains(sql, w):
			case is:
				seen[w]++
			case w != " * ":
				t.Fatalf("seed %d has %q and is not rich:\n%s", seed, w, sql)
			}
		}
	}
	t.Logf("%d rich cases: %v", rich, seen)
	for _, w := range words {
		if seen[w]*100 < rich {
			t.Errorf("%q is in %d of %d rich cases", w, seen[w], rich)
		}
	}
}

// TestKeptSeedsStay: seeds that found something once are run again by number, so
// what they make must not change.
func TestKeptSeedsStay(t *testing.T) {
	h := fnv.New64a()
	for seed := range uint64(500) {
		if seed%5 == 2 || seed%5 == 3 {
			continue
		}
		if _, err := io.WriteString(h, tabletest.NewMergeCase(seed, tabletest.MergeProfile{}).SQL("t", "s")); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := h.Sum64(), uint64(13844450476483208754); got != want {
		t.Errorf("the statements of the seeds to 500 that are not rich have the hash %d, want %d", got, want)
	}
}
