package interop

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// The guarded merge as SQL (testdata/guarded_merge.sql) is a third statement of
// merge-semantics 2 and 3, on engines that share nothing with deltafold.

// guardedSQL runs one batch as SQL and returns the outcomes of its rows.
func (p *peer) guardedSQL(path string, batch *dataset) rows {
	p.t.Helper()
	return parseRows(p.t, p.name, p.ask("guarded", map[string]any{
		"path": path, "columns": batch.columns, "rows": batch.complete().rows,
	}))
}

func TestGuardedMergeAsSQLOnFixtures(t *testing.T) {
	folder := shared(t, "fixtures/versioned-changes")
	eachPeer(t, []string{"spark", "sail"}, func(t *testing.T, p *peer) {
		path := filepath.Join(t.TempDir(), "state")
		p.create(path, stateTable())
		var outcomes rows
		for n := 1; n <= 6; n++ {
			batch := changes(readFile(t, filepath.Join(folder, fmt.Sprintf("batch-%d.jsonl", n)))...)
			for _, o := range p.guardedSQL(path, batch) {
				o["batch"] = fmt.Sprint(n)
				outcomes = append(outcomes, o)
			}
			want := readFile(t, filepath.Join(folder, fmt.Sprintf("state-after-%d.jsonl", n)))
			equalRows(t, fmt.Sprintf("%s after batch %d", p.name, n), p.rows(path), want)
		}
		want := readFile(t, filepath.Join(folder, "outcomes.jsonl"))
		for _, r := range want {
			r["batch"] = fmt.Sprint(r["batch"])
		}
		equalRows(t, p.name+": outcomes", outcomes, want)
	})
}

// TestGuardedMergeAsSQLOnRandomBatches: deltafold and the SQL fold the same
// random batches, each into its own table; after each batch the states and every
// input's outcome are equal.
func TestGuardedMergeAsSQLOnRandomBatches(t *testing.T) {
	batches := 10
	if soak() {
		batches = 40
	}
	s := seed(t)
	t.Logf("seed %d, %d batches on each peer", s, batches)
	eachPeer(t, []string{"spark", "sail"}, func(t *testing.T, p *peer) {
		random := rand.New(rand.NewPCG(s, 1))
		dir := t.TempDir()
		ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
		p.create(theirs, stateTable())
		seen := map[string]int{}
		var earlier rows
		for n := range batches {
			if n%8 == 0 && n > 0 { // a new history: first batches are decided too
				earlier = nil
				ours, theirs = fmt.Sprint(ours, "x"), fmt.Sprint(theirs, "x")
				p.create(theirs, stateTable())
			}
			batch := randomBatch(random, earlier)
			earlier = append(earlier, batch.rows...)
			name := fmt.Sprintf("random %d", n)
			apply(t, ours, batch, "--batch", name)
			got := outcomesOf(t, ours, name, batch)
			want := p.guardedSQL(theirs, batch)
			for _, o := range want {
				seen[fmt.Sprint(o["outcome"])]++
			}
			what := fmt.Sprintf("seed %d, batch %d", s, n)
			equalRows(t, what+": outcomes of deltafold against "+p.name, got, want)
			equalRows(t, what+": state of deltafold against "+p.name, readRows(t, ours), p.rows(theirs))
			if t.Failed() {
				t.Fatalf("the batch:\n%s", batch.jsonLines(t))
			}
		}
		t.Logf("%d batches, outcomes: %v", batches, seen)
		for _, outcome := range []string{
			"accepted", "stale", "duplicate", "conflict", "superseded_in_batch", "invalid_change_id",
			"invalid_entity_id", "invalid_version", "invalid_operation", "invalid_payload",
		} {
			if seen[outcome] == 0 {
				t.Errorf("no row in %d random batches has the outcome %s", batches, outcome)
			}
		}
	})
}

// outcomesOf reads the outcomes of a batch, in the columns that the SQL gives.
func outcomesOf(t *testing.T, path, batch string, d *dataset) rows {
	t.Helper()
	all := parseRows(t, "outcomes", deltafold(t, nil, "outcomes", path, "--batch", batch, "--format", "jsonl"))
	var out rows
	for _, r := range all {
		short := row{"outcome": r["outcome"]}
		for _, c := range d.columns {
			short[c[0]] = r[c[0]]
		}
		out = append(out, short)
	}
	return out
}

// randomBatch draws from a world that is small on purpose: the same keys and
// versions meet again and again. The odd texts are those on which trimming,
// comparing and partitioning go wrong. Some rows are delivered again.
func randomBatch(r *rand.Rand, earlier rows) *dataset {
	pick := func(values ...any) any { return values[r.IntN(len(values))] }
	var rs rows
	for range r.IntN(8) {
		if len(earlier) > 0 {
			rs = append(rs, earlier[r.IntN(len(earlier))])
		}
	}
	for i := range 1 + r.IntN(30) {
		key := pick("a", "b", "c", "d", "e", " a", "a ", "A", "é", "\t", "b", "c", "ключ", "a\u0000b", "\u00a0")
		version := any(1 + r.IntN(6))
		value := pick("gold", "silver", "", " ", "gold", "Gold", "NULL")
		operation := any("upsert")
		if r.IntN(4) == 0 {
			operation, value = "delete", nil
		}
		change := any(fmt.Sprintf("c%d", i))
		switch r.IntN(12) { // one fault in every other row or so; sometimes two rules are broken
		case 0:
			key = pick(nil, "", "   ")
		case 1:
			version = pick(nil, 0, -3, -9223372036854775808)
		case 2:
			operation = pick(nil, "", "UPSERT", "upsert ", "remove")
		case 3:
			change = pick(nil, "", "  ", "\t")
		case 4:
			value = pick(nil, "x")
		case 5:
			key, version = pick(nil, ""), pick(nil, 0)
		case 6:
			version = 9223372036854775807
		}
		rs = append(rs, row{"change_id": change, "entity_id": key, "source_version": version, "operation": operation, "value": value})
	}
	return changes(rs...)
}
