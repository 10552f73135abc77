package checkpoints

import (
	"bytes"
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

// TestOutcomesOfACommitThatIsNone: the log entry of a batch is emptied afterwards, or names
// a run without its batch; the outcomes still claim the version.
func TestOutcomesOfACommitThatIsNone(t *testing.T) {
	for name, edit := range map[string]func([]byte) []byte{
		"emptied": func([]byte) []byte { return nil },
		"no batch": func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte(change.TagBatchDigest), []byte("other"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			v := w.apply(change1{"a", "2", "upsert", "n"})
			w.editEntry(v, edit)
			wantFinding(t, w.audit(nil), v, CheckCounts)
		})
	}
}

// TestOutcomesKeptElsewhere: the outcomes location changes between versions; those of the
// versions before are not looked for in the new table.
func TestOutcomesKeptElsewhere(t *testing.T) {
	w := start(t)
	moved := w.snap.Version() + 1
	md := *w.snap.Metadata()
	roles := *testRoles
	roles.Outcomes = "mem://elsewhere"
	md.Configuration = roles.Properties()
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md})
	w.outcomes = newTable(t.Context(), t)
	w.create(w.outcomes, outcomesDDL, nil, nil)
	v := w.apply(change1{"a", "2", "upsert", "n"})
	r := w.audit(func(o *Options) { o.OutcomesProperty = roles.Outcomes })
	if len(r.Findings) > 0 {
		t.Errorf("%v", r.Findings)
	}
	got := map[deltatable.Version]Status{}
	for _, version := range r.Versions {
		for _, c := range version.Checks {
			if c.Name == CheckCounts {
				got[version.Version] = c.Status
			}
		}
	}
	for at, status := range got {
		if want := map[bool]Status{true: Skipped, false: OK}[at < moved]; status != want {
			t.Errorf("version %d: %v, want %v", at, status, want)
		}
	}
	if _, ok := got[v]; !ok {
		t.Errorf("version %d was not checked", v)
	}
}
