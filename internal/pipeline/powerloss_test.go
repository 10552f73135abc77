package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/internal/pipeline"
)

// TestPowerLossLosesNothing cuts the power at any moment of a run: what was not
// fsynced is gone, wholly or in part. Afterwards the table is at the old or at
// the new version, a run that had ended is there, and the batch again completes
// what is missing.
func TestPowerLossLosesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 2))
	cuts := floor(200)
	const perRun = 10
	old, fresh := 0, 0
	for run := 0; run < cuts; run += perRun {
		dir := t.TempDir()
		e := &pipeline.Env{}
		table := filepath.Join(dir, "t")
		for i := range rng.IntN(12) { // with and without a table, at and beside log checkpoints
			batch := filepath.Join(t.TempDir(), fmt.Sprintf("before-%d.jsonl", i))
			randomBatch(t, rng, batch, 40)
			if _, err := pipeline.Apply(t.Context(), e, applyJob(table, batch)); err != nil {
				t.Fatal(err)
			}
		}
		before := stateOrNone(t, e, table)
		_, rec, err := blobstoretest.NewPowerLoss(dir)
		if err != nil {
			t.Fatal(err)
		}
		recorded := &pipeline.Env{Open: func(_ context.Context, url string) (*blobstore.Store, error) {
			return rec.Store(filepath.Base(url)), nil
		}}
		batch := filepath.Join(t.TempDir(), "batch.jsonl")
		randomBatch(t, rng, batch, 1+rng.IntN(60))
		if _, err := pipeline.Apply(t.Context(), recorded, applyJob(table, batch)); err != nil {
			t.Fatal(err)
		}
		end := rec.Cuts()
		after := stateOrNone(t, e, table)
		for range perRun {
			k := rng.IntN(end + 1)
			if rng.IntN(6) == 0 {
				k = end
			}
			copied := filepath.Join(t.TempDir(), "after-power-loss")
			if err := rec.Materialise(k, rng, copied); err != nil {
				t.Fatal(err)
			}
			got := stateOrNone(t, e, filepath.Join(copied, "t"))
			switch {
			case slices.Equal(got, after):
				fresh++
			case slices.Equal(got, before) && k < end:
				old++
			default:
				t.Fatalf("cut %d of %d: the table is neither as before nor as after (-after +got):\n%s\nchanges: %q",
					k, end, cmp.Diff(after, got), rec.Ops(0, k))
			}
			again := filepath.Join(copied, "t")
			if _, err := pipeline.Apply(t.Context(), e, applyJob(again, batch)); err != nil {
				t.Fatalf("cut %d of %d: the batch again: %v\nchanges: %q", k, end, err, rec.Ops(0, k))
			}
			if diff := cmp.Diff(after, stateOrNone(t, e, again)); diff != "" {
				t.Fatalf("cut %d of %d: after the batch again (-want +got):\n%s", k, end, diff)
			}
			checkComplete(t, e, again)
		}
	}
	t.Logf("%d power cuts: %d tables at the old version, %d at the new", old+fresh, old, fresh)
	if old == 0 || fresh == 0 {
		t.Error("the cuts did not meet both versions")
	}
}

// stateOrNone is the state of a table, nil where there is none.
func stateOrNone(t *testing.T, e *pipeline.Env, table string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(table, "_delta_log", "00000000000000000000.json")); err != nil {
		return nil
	}
	return rowsOf(t, latest(t, e, table), nil)
}
