package merge_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// TestReplaceDroppedRowsSetNoFloor: a row that an expectation dropped supersedes
// nothing, removes nothing and sets no sequence (merge-semantics 4).
func TestReplaceDroppedRowsSetNoFloor(t *testing.T) {
	w := newReplaceWorld(t, nil, nil)
	w.apply("k 1 x 5", "l 1 x 5")
	job := w.job("k 1 bad 9", "k 1 good 6", "l 1 bad 9", "m 1 bad NULL", "m 1 good 1")
	dropped := change.DroppedBy("rule")
	job.Dropped = []change.Outcome{dropped, "", dropped, dropped, ""}
	res, err := merge.Replace(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"dropped_rule", "replaced", "dropped_rule", "dropped_rule", "added"}
	if diff := gocmp.Diff(want, outcomes(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"k 1 good 6", "l 1 x 5", "m 1 good 1"}, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// TestReplaceIdentifiersOfOurs: a batch that is delivered again appends its ties
// once, also where another writer applies it meanwhile (merge-semantics 4).
func TestReplaceIdentifiersOfOurs(t *testing.T) {
	own := func(w *rworld) *merge.ReplaceJob {
		job := w.job("k 1 tie 5")
		job.Identifier, job.OwnIdentifier = &deltatable.Txn{AppID: "deltafold-replace-x", Version: 1}, true
		return job
	}
	w := newReplaceWorld(t, nil, nil)
	w.apply("k 1 x 5")
	for i := range 2 {
		res, err := merge.Replace(t.Context(), own(w))
		if err != nil {
			t.Fatal(err)
		}
		if res.AlreadyApplied != (i == 1) {
			t.Errorf("delivery %d: already applied is %v", i, res.AlreadyApplied)
		}
	}
	if diff := gocmp.Diff([]string{"k 1 tie 5", "k 1 x 5"}, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}
