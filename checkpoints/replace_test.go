package checkpoints

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// TestReplaceHistories: random histories of right writers give no finding, whatever is at
// hand, and in passes.
func TestReplaceHistories(t *testing.T) {
	histories := 60
	if os.Getenv("DELTAFOLD_SOAK") != "" {
		histories = 600
	}
	base := rand.Uint64()
	outcomes, batches := change.Counts{}, 0
	for n := range histories {
		seed := base + uint64(n)
		w := newReplaceWorld(t.Context(), t, seed, nil)
		for range 6 {
			w.ignore = w.rnd.IntN(3) == 0
			w.expect = nil
			if w.rnd.IntN(2) == 0 {
				w.expect = testExpectations
			}
			w.outcome = func(_ int, o change.Outcome) change.Outcome {
				outcomes[o]++
				return o
			}
			w.applyReplace(randomRows(w.rnd)...)
			batches++
		}
		variants := replaceVariants()
		names := slices.Sorted(maps.Keys(variants))
		for _, name := range []string{"batches", names[n%len(names)]} {
			if r := w.audit(variants[name]); len(r.Findings) > 0 {
				t.Fatalf("seed %d, %s: %v", seed, name, r.Findings)
			}
		}
	}
	t.Logf("seeds %d to %d: %d batches, %s", base, base+uint64(histories)-1, batches, outcomes.JSON())
	for _, o := range []change.Outcome{change.Added, change.Replaced, change.Appended, change.Stale, change.Superseded, change.Duplicate, change.DroppedBy("good")} {
		if outcomes[o] == 0 {
			t.Errorf("no row was %s", o)
		}
	}
}

func replaceVariants() map[string]func(*Options) {
	return map[string]func(*Options){
		"batches":  nil,
		"outcomes": func(o *Options) { o.Batches = nil },
		"no table": func(o *Options) { o.Outcomes = nil },
		"neither":  func(o *Options) { o.Batches, o.Outcomes = nil, nil },
		"full":     func(o *Options) { o.Full = true },
		"passes":   func(o *Options) { o.MemoryBytes = 300 },
	}
}

// startReplace is a world with keys a (two rows at 3), b (1), NULL (2) and c (5).
func startReplace(t *testing.T) *rworld {
	w := newReplaceWorld(t.Context(), t, 1, nil)
	w.applyReplace(
		rrow{"a", "x", "3", "u"}, rrow{"a", "x", "3", "v"}, rrow{"b", "x", "1", "u"}, rrow{"-", "-", "2", "u"}, rrow{"c", "x", "5", "u"},
	)
	return w
}

// TestReplaceReport pins down the whole report of a version.
func TestReplaceReport(t *testing.T) {
	w := startReplace(t)
	w.applyReplace(rrow{"a", "x", "4", "n"}, rrow{"-", "-", "2", "n"}, rrow{"c", "x", "1", "n"}, rrow{"d", "x", "1", "n"}, rrow{"d", "x", "0", "n"})
	two := deltatable.Version(2)
	v := w.audit(func(o *Options) { o.From = &two }).Versions[0]
	got := map[string]Check{}
	for _, c := range v.Checks {
		got[c.Name] = c
	}
	want := map[string]Check{
		CheckRecord:   {CheckRecord, OK, got[CheckRecord].Detail},
		CheckFileHash: {CheckFileHash, OK, got[CheckFileHash].Detail},
		CheckCounts:   {CheckCounts, OK, `{"added":1,"appended":1,"replaced":1,"stale":1,"superseded_in_batch":1}`},
		CheckForm:     {CheckForm, OK, ""},
		CheckSequence: {CheckSequence, OK, "3 keys changed"},
		CheckOthers:   {CheckOthers, OK, ""},
		CheckState:    {CheckState, OK, "5 rows folded, from the batch's files"},
		CheckOutcomes: {CheckOutcomes, OK, "5 rows, from the batch's files"},
		CheckRows:     {CheckRows, OK, got[CheckRows].Detail},
		CheckFiles:    {CheckFiles, OK, got[CheckFiles].Detail},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// damage is a fault of a writer at version 2, and the checks that must name it.
type damage struct {
	name   string
	batch  []rrow
	tamper func(rows []rrow) []rrow
	touch  bool // all files are rewritten
	setup  func(w *rworld)
	key    string
	checks []string // where the batch is known
	alone  []string // also where it is not
}

func lose(of rrow) func([]rrow) []rrow {
	return func(rows []rrow) []rrow {
		return slices.DeleteFunc(rows, func(r rrow) bool { return r == of })
	}
}

func swap(of, by rrow) func([]rrow) []rrow {
	return func(rows []rrow) []rrow {
		for i := range rows {
			if rows[i] == of {
				rows[i] = by
			}
		}
		return rows
	}
}

func double(of rrow) func([]rrow) []rrow {
	return func(rows []rrow) []rrow {
		if slices.Contains(rows, of) {
			rows = append(rows, of)
		}
		return rows
	}
}

func replaceDamages() []damage {
	plain := []rrow{{"d", "x", "1", "n"}}
	a1, a2, c := rrow{"a", "x", "3", "u"}, rrow{"a", "x", "3", "v"}, rrow{"c", "x", "5", "u"}
	null := rrow{"-", "-", "2", "u"}
	return []damage{
		{name: "tie doubled", batch: []rrow{{"a", "x", "3", "n"}}, tamper: double(rrow{"a", "x", "3", "n"}), key: "a, x", checks: []string{CheckState, CheckRows}},
		{name: "tie lost", batch: []rrow{{"a", "x", "3", "n"}, {"d", "x", "1", "n"}}, tamper: lose(rrow{"a", "x", "3", "n"}), key: "a, x", checks: []string{CheckState, CheckRows}},
		{name: "another key's row altered", batch: plain, tamper: swap(a1, rrow{"a", "x", "3", "other"}), touch: true, key: "a, x", checks: []string{CheckOthers}, alone: []string{CheckState}},
		{name: "another key's row lost", batch: plain, tamper: lose(a2), touch: true, key: "a, x", checks: []string{CheckOthers, CheckRows}, alone: []string{CheckState, CheckRows}},
		{name: "another key lost", batch: plain, tamper: lose(c), touch: true, key: "c, x", checks: []string{CheckSequence, CheckRows}, alone: []string{CheckSequence}},
		{name: "the NULL key lost", batch: plain, tamper: lose(null), touch: true, key: "(null), (null)", checks: []string{CheckSequence}, alone: []string{CheckSequence}},
		{name: "another key lowered", batch: plain, tamper: swap(c, rrow{"c", "x", "4", "u"}), touch: true, key: "c, x", checks: []string{CheckSequence}, alone: []string{CheckSequence}},
		{name: "another key raised", batch: plain, tamper: swap(a1, rrow{"a", "x", "4", "u"}), touch: true, key: "a, x", checks: []string{CheckOthers}, alone: []string{CheckState}},
		{
			name: "replaced by a lower row", batch: []rrow{{"a", "x", "5", "n"}}, tamper: swap(rrow{"a", "x", "5", "n"}, rrow{"a", "x", "2", "n"}),
			key: "a, x", checks: []string{CheckSequence}, alone: []string{CheckSequence},
		},
		{name: "old rows kept", batch: []rrow{{"a", "x", "5", "n"}}, tamper: func(rows []rrow) []rrow {
			if slices.Contains(rows, rrow{"a", "x", "5", "n"}) {
				rows = append(rows, a1)
			}
			return rows
		}, key: "a, x", checks: []string{CheckState, CheckRows}, alone: []string{CheckState}},
		{name: "superseded row stored", batch: []rrow{{"d", "x", "2", "n"}, {"d", "x", "1", "n"}}, tamper: func(rows []rrow) []rrow {
			if slices.Contains(rows, rrow{"d", "x", "2", "n"}) {
				rows = append(rows, rrow{"d", "x", "1", "n"})
			}
			return rows
		}, key: "d, x", checks: []string{CheckState, CheckRows}},
		{name: "payload of the batch altered", batch: []rrow{{"b", "x", "2", "n"}}, tamper: swap(rrow{"b", "x", "2", "n"}, rrow{"b", "x", "2", "m"}), key: "b, x", checks: []string{CheckState}},
		{name: "NULL sequence stored", batch: []rrow{{"b", "x", "2", "n"}}, tamper: swap(rrow{"b", "x", "2", "n"}, rrow{"b", "x", "-", "n"}), key: "b, x", checks: []string{CheckForm, CheckSequence}, alone: []string{CheckForm, CheckSequence}},
		{name: "NULL sequence in the batch", batch: []rrow{{"b", "x", "-", "n"}}, setup: func(w *rworld) {
			w.outcome = func(int, change.Outcome) change.Outcome { return change.Stale }
		}, key: "b, x", checks: []string{CheckState}},
		{name: "identical tie stored under ignore-identical", batch: []rrow{{"a", "x", "3", "u"}}, setup: func(w *rworld) {
			w.tags = func(tags map[string]string) { tags[change.TagFlags] = `{"ties":"ignore-identical"}` }
		}, key: "a, x", checks: []string{CheckState, CheckOutcomes}},
		{name: "outcome", batch: []rrow{{"a", "x", "3", "n"}}, setup: func(w *rworld) {
			w.outcome = func(int, change.Outcome) change.Outcome { return change.Replaced }
		}, key: "a, x", checks: []string{CheckOutcomes}},
		{name: "dropped row stored", batch: []rrow{{"a", "x", "3", "bad"}}, setup: func(w *rworld) {
			// The run records the expectation, and takes the row all the same.
			w.tags = func(tags map[string]string) {
				tags[change.TagExpectations] = `[{"name":"good","condition":"p <> 'bad'","action":"drop"}]`
			}
		}, key: "a, x", checks: []string{CheckOthers, CheckOutcomes, CheckExpectations}},
		{name: "good row dropped", batch: []rrow{{"a", "x", "3", "bad"}, {"b", "x", "1", "-"}}, setup: func(w *rworld) {
			w.expect = testExpectations
			w.tags = func(tags map[string]string) {
				tags[change.TagExpectations] = `[{"name":"good","condition":"p <> 'worse'","action":"drop"}]`
				tags[change.TagExpectationCounts] = `{"good":1}`
			}
		}, key: "a, x", checks: []string{CheckState, CheckOutcomes, CheckExpectations}},
	}
}

func TestReplaceDamage(t *testing.T) {
	for _, d := range replaceDamages() {
		t.Run(d.name, func(t *testing.T) {
			w := startReplace(t)
			if d.touch {
				w.rnd = rand.New(zero{})
			}
			if d.setup != nil {
				d.setup(w)
			}
			w.tamperRows = d.tamper
			v := w.applyReplace(d.batch...)
			for name, variant := range replaceVariants() {
				checks := d.checks
				if name == "neither" {
					checks = d.alone
				}
				r := w.audit(variant)
				onlyAt(t, r, v)
				for _, check := range checks {
					keys := []string{d.key}
					if check == CheckRows {
						keys = nil
					}
					if name == "no table" && (check == CheckOutcomes || check == CheckExpectations) {
						keys = nil // counts only
					}
					if !hasFinding(r, v, check, keys...) {
						t.Errorf("%s: no finding of %s with keys %q; there are %v", name, check, keys, r.Findings)
					}
				}
			}
		})
	}
}

// zero makes every random choice the first one: all files are rewritten.
type zero struct{}

func (zero) Uint64() uint64 { return 0 }

func hasFinding(r *Report, v deltatable.Version, check string, keys ...string) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Version == v && f.Check == check && (len(keys) == 0 || cmp.Equal(f.Keys, keys))
	})
}

// TestReplaceForeign: what other writers, and ours with --break-guard, do to the table.
func TestReplaceForeign(t *testing.T) {
	breaks := map[string]string{change.TagRun: "r", change.TagBreakGuard: "append"}
	holds := func(key string) func(rfile) bool {
		return func(f rfile) bool { return slices.ContainsFunc(f.rows, func(r rrow) bool { return r.key == key }) }
	}
	for _, c := range []struct {
		name  string
		drop  func(rfile) bool
		rows  []rrow
		check string // "" for a lawful one
		keys  []string
	}{
		{"tie", nil, []rrow{{"a", "x", "3", "w"}}, "", nil},
		{"new key", nil, []rrow{{"n", "x", "3", "w"}, {"n", "x", "3", "w"}}, "", nil},
		{"new key at two sequences", nil, []rrow{{"n", "x", "3", "w"}, {"n", "x", "4", "w"}}, CheckState, []string{"n, x"}},
		{"older row", nil, []rrow{{"a", "x", "1", "w"}}, CheckState, []string{"a, x"}},
		{"newer row beside old ones", nil, []rrow{{"-", "-", "9", "w"}}, CheckState, []string{"(null), (null)"}},
		{"all gone", func(rfile) bool { return true }, nil, CheckSequence, []string{"(null), (null)", "a, x", "b, x", "c, x"}},
		{"lowered", holds("c"), []rrow{{"c", "x", "1", "u"}}, CheckSequence, nil},
		{"NULL sequence", nil, []rrow{{"z", "x", "-", "u"}}, CheckForm, []string{"z, x"}},
	} {
		for _, tags := range []map[string]string{nil, breaks} {
			t.Run(fmt.Sprintf("%s/%v", c.name, tags != nil), func(t *testing.T) {
				w := startReplace(t)
				v := w.direct(tags, c.drop, c.rows...)
				r := w.audit(nil)
				onlyAt(t, r, v)
				if c.check == "" {
					if len(r.Findings) > 0 {
						t.Errorf("%v", r.Findings)
					}
				} else {
					wantFinding(t, r, v, c.check, c.keys...)
				}
				noted := slices.ContainsFunc(r.Versions[v].Checks, func(c Check) bool { return c.Name == CheckWriter && c.Status == Note })
				if !noted {
					t.Errorf("no note: %v", r.Versions[v].Checks)
				}
			})
		}
	}
}

// TestReplaceEmptyPartitionKey: "" in a key that is a partition column would be NULL.
func TestReplaceEmptyPartitionKey(t *testing.T) {
	w := newReplaceWorld(t.Context(), t, 1, nil)
	w.table = newTable(t.Context(), t)
	sch, err := deltatable.ParseDDL(replaceDDL)
	if err != nil {
		t.Fatal(err)
	}
	roles := &change.ReplaceRoles{Keys: []string{"k", "j"}, Sequence: "seq"}
	md, p, err := deltatable.NewTableMetadata(sch, []string{"k"}, roles.Properties())
	if err != nil {
		t.Fatal(err)
	}
	w.snap = w.commit(w.table, nil, &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: p})
	w.applyReplace(rrow{"-", "x", "1", "u"})
	v := w.applyReplace(rrow{"", "y", "1", "u"})
	r := w.audit(nil)
	onlyAt(t, r, v)
	wantFinding(t, r, v, CheckState, "(null), y")
}

// TestReplaceNullsFromBefore: a table with NULL sequences from before is reported where a
// batch meets them, and in full.
func TestReplaceNullsFromBefore(t *testing.T) {
	w := newReplaceWorld(t.Context(), t, 1, nil)
	one := w.direct(nil, nil, rrow{"z", "x", "-", "u"})
	two := w.applyReplace(rrow{"z", "x", "1", "n"})
	three := w.applyReplace(rrow{"y", "x", "1", "n"})
	r := w.audit(nil)
	wantFinding(t, r, one, CheckForm, "z, x")
	wantFinding(t, r, two, CheckState, "z, x")
	r = w.audit(func(o *Options) { o.From, o.Full = &three, true })
	if hasFinding(r, three, CheckForm) {
		t.Errorf("%v", r.Findings) // replaced at version 2
	}
	w = newReplaceWorld(t.Context(), t, 1, nil)
	w.direct(nil, nil, rrow{"z", "x", "-", "u"})
	w.rnd = rand.New(rand.NewPCG(3, 3))
	v := w.direct(nil, nil, rrow{"y", "x", "1", "n"})
	r = w.audit(func(o *Options) { o.From, o.Full = &v, true })
	wantFinding(t, r, v, CheckForm, "z, x")
}
