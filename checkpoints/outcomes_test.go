package checkpoints

import (
	"testing"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// TestOutcomesAppendedTwice: a run whose outcomes are there twice does not add up.
func TestOutcomesAppendedTwice(t *testing.T) {
	w := start(t)
	changes := []change1{{"a", "2", "upsert", "n"}, {"b", "1", "upsert", "x"}}
	v := w.apply(changes...)
	run := w.snap.CommitInfo().Tags[change.TagRun]
	w.writeOutcomes(run, batchRecord(t, changes), []change.Outcome{change.Accepted, change.Duplicate})
	r := w.audit(nil)
	wantFinding(t, r, v, CheckCounts)
	wantFinding(t, r, v, CheckOutcomes)
	onlyAt(t, r, v)
}

// TestOutcomesOfAnotherRun: two runs that claim one version.
func TestOutcomesOfAnotherRun(t *testing.T) {
	w := start(t)
	changes := []change1{{"a", "2", "upsert", "n"}}
	v := w.apply(changes...)
	w.writeOutcomes("another", batchRecord(t, changes), []change.Outcome{change.Accepted})
	r := w.audit(nil)
	wantFinding(t, r, v, CheckCounts)
	onlyAt(t, r, v)
}

// TestOutcomesLost: a run's file is gone from the outcomes table.
func TestOutcomesLost(t *testing.T) {
	w := start(t)
	v := w.apply(change1{"a", "2", "upsert", "n"})
	s, err := w.outcomes.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := w.outcomes.SnapshotAt(t.Context(), s.Version()-1)
	if err != nil {
		t.Fatal(err)
	}
	var last []*deltatable.Add
	for _, a := range s.Files() {
		if _, ok := before.File(a.Key()); !ok {
			last = append(last, a)
		}
	}
	w.commit(w.outcomes, s, &deltatable.Commit{Operation: "DELETE", Removes: last})
	r := w.audit(nil)
	wantFinding(t, r, v, CheckCounts)
	onlyAt(t, r, v)
}

// TestNoOutcomesAreKept: a table whose outcomes location is none.
func TestNoOutcomesAreKept(t *testing.T) {
	w := start(t)
	md := *w.snap.Metadata()
	roles := *testRoles
	roles.Outcomes = change.OutcomesNone
	md.Configuration = roles.Properties()
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md})
	w.apply(change1{"a", "2", "upsert", "n"})
	r := w.audit(func(o *Options) { o.Outcomes = nil })
	if len(r.Findings) > 0 {
		t.Errorf("%v", r.Findings)
	}
	for _, c := range r.Versions[3].Checks {
		if c.Name == CheckCounts && c.Status != Note {
			t.Errorf("%+v", c)
		}
	}
}
