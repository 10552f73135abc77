package merge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/merge"
)

// TestReplaceIgnoresIdenticalTiesAtRandom compares random batches with a list of
// rows that is changed one batch at a time, in pairs, with winners in between (merge-semantics 4, --ties
// ignore-identical): a row is left out where the table had it before the batch.
func TestReplaceIgnoresIdenticalTiesAtRandom(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	runs, left := soak(400), 0
	for run := range runs {
		var props map[string]string
		if rng.IntN(2) == 0 {
			props = map[string]string{"delta.targetFileSize": "8"}
		}
		w := newReplaceWorld(t, nil, props)
		w.roles.IgnoreIdentical = true
		var model []string
		random := func() (batch []string) {
			for range 1 + rng.IntN(8) {
				batch = append(batch, fmt.Sprintf("%s 1 %s %d", pick("x", "y", "NULL"), pick("v", "w", "NULL"), rng.IntN(3)))
			}
			return batch
		}
		happened := func(batch []string) {
			var n int
			model, n = ignoringIdentical(t, model, batch)
			left += n
		}
		for range 2 + rng.IntN(4) {
			batch := random()
			job := w.job(batch...)
			if job.Read != nil && rng.IntN(2) == 0 {
				wins := 1 + rng.IntN(2)
				job.BeforeCommit = func(context.Context, *merge.Attempt) (*merge.Recorded, error) {
					if wins--; wins >= 0 {
						winner := random()
						w.apply(winner...)
						happened(winner)
					}
					return &merge.Recorded{}, nil
				}
			}
			if _, err := merge.Replace(t.Context(), job); err != nil {
				t.Fatalf("run %d (seed %d): %v", run, seed, err)
			}
			happened(batch)
		}
		if diff := gocmp.Diff(model, w.state()); diff != "" {
			t.Fatalf("run %d (seed %d): state (-want +got):\n%s", run, seed, diff)
		}
	}
	if left < runs {
		t.Errorf("%d rows were left out in %d runs", left, runs)
	}
}

// ignoringIdentical is a table after a batch, sorted, and how many rows of the
// batch were left out.
func ignoringIdentical(t *testing.T, table, batch []string) (after []string, left int) {
	t.Helper()
	sequence := func(line string) int {
		n, err := strconv.Atoi(strings.Fields(line)[3])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	top := func(lines []string, key string) int {
		n := -1
		for _, l := range lines {
			if strings.Fields(l)[0] == key {
				n = max(n, sequence(l))
			}
		}
		return n
	}
	for _, l := range table {
		if key := strings.Fields(l)[0]; top(batch, key) <= top(table, key) {
			after = append(after, l)
		}
	}
	for _, l := range batch {
		key := strings.Fields(l)[0]
		switch n := top(batch, key); {
		case sequence(l) < n || n < top(table, key):
		case slices.Contains(table, l):
			left++
		default:
			after = append(after, l)
		}
	}
	slices.Sort(after)
	return after, left
}
