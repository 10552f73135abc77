package checkpoints

import (
	"testing"

	"github.com/deltafold/deltafold/merge/change"
)

// TestGuardedExpectations: what the run dropped, against its recorded expectations, in the
// guarded mode.
func TestGuardedExpectations(t *testing.T) {
	const dropBad = `[{"name":"good","condition":"p <> 'bad'","action":"drop"}]`
	for _, c := range []struct {
		name, list, counts string
		outcome            change.Outcome // of the row; "" as it should be
		checks             []string
	}{
		{"clean", `[{"name":"good","condition":"p <> 'other'","action":"drop"}]`, `{"good":0}`, "", nil},
		{"warned", `[{"name":"good","condition":"p <> 'bad'","action":"warn"}]`, `{"good":1}`, "", nil},
		{"miscounted", `[{"name":"good","condition":"p <> 'bad'","action":"warn"}]`, `{"good":2}`, "", []string{CheckExpectations}},
		{"not dropped", dropBad, `{"good":1}`, "", []string{CheckExpectations, CheckOutcomes, CheckOthers}},
		{"wrongly dropped", `[{"name":"good","condition":"p <> 'other'","action":"drop"}]`, `{"good":0}`, change.DroppedBy("good"), []string{CheckExpectations, CheckOutcomes}},
		{"dropped by another", dropBad, `{"good":1}`, change.DroppedBy("other"), []string{CheckExpectations, CheckOutcomes}},
		{"dropped by none", "", "", change.DroppedBy("good"), []string{CheckExpectations}},
		{"had to be refused", `[{"name":"good","condition":"p <> 'bad'","action":"fail"}]`, `{"good":1}`, "", []string{CheckExpectations}},
		{"refused", "", "", change.FailedExpectation, []string{CheckCounts}},
		{"damaged", "[", "", "", []string{CheckRecord}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			w.tags = func(tags map[string]string) {
				if c.list != "" {
					tags[change.TagExpectations] = c.list
				}
				if c.counts != "" {
					tags[change.TagExpectationCounts] = c.counts
				}
				if c.outcome != "" {
					tags[change.TagCounts] = change.Counts{c.outcome: 1}.JSON()
				}
			}
			if c.outcome != "" {
				w.outcome = func(int, change.Outcome) change.Outcome { return c.outcome }
			}
			v := w.apply(change1{"a", "2", "upsert", "bad"})
			r := w.audit(nil)
			if len(c.checks) == 0 && len(r.Findings) > 0 {
				t.Errorf("%v", r.Findings)
			}
			onlyAt(t, r, v)
			for _, check := range c.checks {
				wantFinding(t, r, v, check)
			}
		})
	}
}
