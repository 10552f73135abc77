package merge_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
)

// TestTombstonesSurviveRewrites rewrites files that hold a tombstone and a
// conflict beside the row that changes, alone and in a pack.
func TestTombstonesSurviveRewrites(t *testing.T) {
	for name, spec := range map[string]worldSpec{"alone": alone(worldSpec{}), "packed": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spec)
			w.apply("a 1 upsert x", "c 4 upsert x", "c 4 upsert y", "d 5 delete")
			w.apply("a 2 upsert y")
			w.apply("a 3 upsert z", "n 1 upsert new")
			want := []string{"a 3 active z NULL", "c 4 conflict NULL NULL", "d 5 deleted NULL NULL", "n 1 active new NULL"}
			if diff := cmp.Diff(want, w.state()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if res := w.apply("d 4 upsert late", "c 4 upsert x"); res.Version != nil {
				t.Errorf("a tombstone and a conflict let version %d pass", *res.Version)
			}
			w.checkDigest(t)
		})
	}
}

// TestMergesAreNoBlindAppends: what a merge adds depends on what it read, also
// where it adds new keys only.
func TestMergesAreNoBlindAppends(t *testing.T) {
	w := newWorld(t, worldSpec{})
	w.apply("a 1 upsert x")
	w.apply("b 1 upsert x")
	for v := range latestVersion(t, w) + 1 {
		e, err := w.table.Entry(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if e.Info.IsBlindAppend == nil || *e.Info.IsBlindAppend {
			t.Errorf("version %d says that it is a blind append", v)
		}
	}
}

func latestVersion(t testing.TB, w *world) deltatable.Version {
	t.Helper()
	snap, err := w.table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap.Version()
}

// TestDigestsTellStatusesApart: a row that goes from active to conflict at the
// same version changes the table's digest.
func TestDigestsTellStatusesApart(t *testing.T) {
	w := newWorld(t, worldSpec{})
	w.apply("a 1 upsert x", "b 2 delete")
	w.checkDigest(t)
	w.apply("a 1 upsert y")
	w.checkDigest(t)
}

// TestRetryGivesUpNewRowsThatAWinnerAdded: a file of new rows alone has no source
// that a winner could take away, and yet it is bound to their keys (R3).
func TestRetryGivesUpNewRowsThatAWinnerAdded(t *testing.T) {
	for _, c := range []struct{ winner, outcome, state string }{
		{"new 2 active theirs NULL", "accepted", "new 3 active mine NULL"},
		{"new 3 active mine NULL", "duplicate", "new 3 active mine NULL"},
		{"new 3 active theirs NULL", "conflict", "new 3 conflict NULL NULL"},
		{"new 4 active theirs NULL", "stale", "new 4 active theirs NULL"},
	} {
		w := newWorld(t, alone(worldSpec{}))
		w.apply("a 1 upsert x")
		job := w.job("new 3 upsert mine", "other 1 upsert o")
		onAttempt(job, 1, func() { w.foreign(t, false, nil, c.winner) })
		res, err := merge.Run(t.Context(), job)
		if err != nil {
			t.Errorf("%s: %v", c.winner, err)
			continue
		}
		if diff := cmp.Diff([]string{c.outcome, "accepted"}, outcomes(res)); diff != "" {
			t.Errorf("%s: outcomes (-want +got):\n%s", c.winner, diff)
		}
		if diff := cmp.Diff([]string{"a 1 active x NULL", c.state, "other 1 active o NULL"}, w.state()); diff != "" {
			t.Errorf("%s: state (-want +got):\n%s", c.winner, diff)
		}
		w.checkDigest(t)
	}
}

// TestRetryRefusesATableThatAWinnerBroke: a winner that doubles a key of the
// batch, or spoils its row, has the batch refused whole, late (merge-semantics 1,
// R2), and no file of the lost attempt stays.
func TestRetryRefusesATableThatAWinnerBroke(t *testing.T) {
	for _, winner := range []string{"a 1 active twice NULL", "a NULL active x NULL", "n NULL active x NULL", "n 1 strange x NULL"} {
		w := newWorld(t, alone(worldSpec{}))
		w.apply("a 1 upsert x")
		var files []string
		job := w.job("a 2 upsert mine", "n 1 upsert mine")
		onAttempt(job, 1, func() {
			ours := w.listed(t)
			w.foreign(t, false, nil, winner)
			for _, f := range w.listed(t) {
				if !slices.Contains(ours, f) || slices.ContainsFunc(w.files(t), func(a *deltatable.Add) bool { return a.Path == f }) || strings.HasPrefix(f, "_delta_log/") {
					files = append(files, f) // what is there without our attempt
				}
			}
		})
		res, err := merge.Run(t.Context(), job)
		var broken *merge.TargetError
		if !errors.As(err, &broken) || res == nil || res.Version != nil {
			t.Errorf("%s: got %+v, %v, want a refusal", winner, res, err)
			continue
		}
		if diff := cmp.Diff([]string{"batch_refused", "batch_refused"}, outcomes(res)); diff != "" {
			t.Errorf("%s: outcomes (-want +got):\n%s", winner, diff)
		}
		if diff := cmp.Diff(files, w.listed(t)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", winner, diff)
		}
	}
}
