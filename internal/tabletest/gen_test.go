package tabletest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge/change"
)

func TestRandomWorldsAreLawful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := tabletest.RandomWorld(tabletest.NewRand(rapid.Uint64().Draw(t, "seed")), tabletest.WorldOptions{})
		if err := w.Roles.Validate(); err != nil {
			t.Fatal(err)
		}
		back, ok, err := change.RolesFromProperties(w.Roles.Properties())
		if err != nil || !ok {
			t.Fatalf("%v %v", ok, err)
		}
		if diff := cmp.Diff(w.Roles.Properties(), back.Properties()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestGenRepeatsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		w := tabletest.RandomWorld(tabletest.NewRand(seed), tabletest.WorldOptions{})
		a, b := tabletest.NewGen(seed, tabletest.GenOptions{World: w}), tabletest.NewGen(seed, tabletest.GenOptions{World: w})
		for range 3 {
			x, y := a.Batch(), b.Batch()
			if len(x.Rows) != len(y.Rows) {
				t.Fatal("two generators of one seed differ")
			}
			for i := range x.Rows {
				if !tabletest.SameRow(x.Rows[i], y.Rows[i]) {
					t.Fatal("two generators of one seed differ")
				}
			}
			back := tabletest.Rows(x.Records(w.Input)...)
			for i := range x.Rows {
				if !tabletest.SameRow(x.Rows[i], back[i]) {
					t.Fatalf("row %v came back from Arrow as %v", x.Rows[i], back[i])
				}
			}
		}
	})
}

// Different key numbers are different keys, later version numbers later versions.
func TestGenKeysAndVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		w := tabletest.RandomWorld(tabletest.NewRand(seed), tabletest.WorldOptions{})
		g, o := tabletest.NewGen(seed, tabletest.GenOptions{World: w}), w.Oracle()
		keys := map[string]bool{}
		for k := range 500 {
			keys[o.KeyOf(g.Row(k, 1, 0))] = true
		}
		if len(keys) != 500 {
			t.Fatalf("500 key numbers give %d keys", len(keys))
		}
		for v := 1; v < 100; v++ {
			a, b := g.Row(0, v, 0), g.Row(0, v+1, 0)
			for _, c := range w.Roles.Versions {
				if d := tabletest.Compare(a[c], b[c]); d > 0 {
					t.Fatalf("version %d is above %d", v, v+1)
				} else if d < 0 {
					break
				} else if c == w.Roles.Versions[len(w.Roles.Versions)-1] {
					t.Fatalf("versions %d and %d are equal", v, v+1)
				}
			}
		}
	})
}

// Law 1 and 2 for the oracle itself: under quarantine neither order nor split nor
// replay changes the end.
func TestOracleKeepsTheLaws(t *testing.T) {
	seen := map[change.Outcome]int{}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := tabletest.NewRand(seed)
		w := tabletest.RandomWorld(r, tabletest.WorldOptions{Policy: change.Quarantine})
		g := tabletest.NewGen(seed, tabletest.GenOptions{World: w})
		o := w.Oracle()
		var batches []tabletest.Batch
		for range 4 {
			b := g.Batch()
			batches = append(batches, b)
			outcomes, refused := o.Apply(b)
			if refused || len(outcomes) != len(b.Rows) {
				t.Fatalf("%d outcomes for %d rows, refused %v", len(outcomes), len(b.Rows), refused)
			}
			for _, out := range outcomes {
				if out.Invalid() {
					out = "invalid"
				}
				seen[out]++
			}
		}
		other := w.Oracle()
		for _, b := range tabletest.Join(append(batches, batches[r.IntN(4)])...).Permute(r).Split(r, 6) {
			other.Apply(b)
		}
		if d := o.Diff(other.Rows()); d != "" {
			t.Fatalf("another order and split:\n%s", d)
		}
		before := o.Clone()
		for _, b := range batches {
			o.Apply(b)
		}
		if d := before.Diff(o.Rows()); d != "" {
			t.Fatalf("a replay:\n%s", d)
		}
	})
	for _, out := range []change.Outcome{change.Accepted, change.Stale, change.Duplicate, change.Conflicted, change.Superseded, "invalid"} {
		if seen[out] < 20 {
			t.Errorf("%d rows with outcome %s in all: the generator is too tame", seen[out], out)
		}
	}
	t.Logf("outcomes: %v", seen)
}

// A refused batch leaves the state alone and names at least one culprit.
func TestOracleRejects(t *testing.T) {
	refusals, passes := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		w := tabletest.RandomWorld(tabletest.NewRand(seed), tabletest.WorldOptions{Policy: change.Reject})
		g := tabletest.NewGen(seed, tabletest.GenOptions{World: w, Invalid: 10, Conflicts: 10})
		o := w.Oracle()
		for range 5 {
			before := o.Clone()
			outcomes, refused := o.Apply(g.Batch())
			culprits, others := 0, 0
			for _, out := range outcomes {
				if out.Culprit() {
					culprits++
				} else if out != change.BatchRefused {
					others++
				}
			}
			if refused != (culprits > 0) || refused && others > 0 {
				t.Fatalf("refused %v: %v", refused, outcomes)
			}
			if !refused {
				passes++
				continue
			}
			refusals++
			if d := before.Diff(o.Rows()); d != "" {
				t.Fatalf("a refused batch changed the state:\n%s", d)
			}
		}
	})
	if refusals < 20 || passes < 20 {
		t.Errorf("%d batches refused, %d not", refusals, passes)
	}
}
