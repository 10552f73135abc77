package checkpoints

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// start is a world with a first batch (version 1): keys a to i in three files, d a conflict,
// i a tombstone.
func start(t *testing.T) *world {
	w := newWorld(t.Context(), t)
	w.apply(
		change1{"a", "1", "upsert", "x"}, change1{"b", "1", "upsert", "x"}, change1{"c", "1", "upsert", "x"},
		change1{"d", "1", "upsert", "x"}, change1{"d", "1", "upsert", "y"},
		change1{"e", "1", "upsert", "x"}, change1{"f", "1", "upsert", "x"},
		change1{"g", "1", "upsert", "x"}, change1{"h", "1", "upsert", "x"}, change1{"i", "2", "delete", "-"},
	)
	return w
}

// wantFinding demands a finding of the check at the version with the keys.
func wantFinding(t *testing.T, r *Report, v deltatable.Version, check string, keys ...string) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Version == v && f.Check == check && (len(keys) == 0 || cmp.Equal(f.Keys, keys)) {
			return
		}
	}
	t.Errorf("no finding of %s at version %d with keys %q; there are %v", check, v, keys, r.Findings)
}

// onlyAt demands that nothing is found at other versions.
func onlyAt(t *testing.T, r *Report, v deltatable.Version) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Version != v {
			t.Errorf("unwanted finding: %v", f)
		}
	}
}

// variants audits with the batches, with the outcomes alone, with neither, and in full.
func (w *world) variants(t *testing.T, each func(t *testing.T, r *Report, name string)) {
	for name, change := range map[string]func(*Options){
		"batches":  nil,
		"outcomes": func(o *Options) { o.Batches = nil },
		"neither":  func(o *Options) { o.Batches, o.Outcomes = nil, nil },
		"full":     func(o *Options) { o.Full = true },
		"passes":   func(o *Options) { o.MemoryBytes = 400 },
	} {
		t.Run(name, func(t *testing.T) { each(t, w.audit(change), name) })
	}
}

func TestCleanHistory(t *testing.T) {
	w := start(t)
	w.apply(change1{"a", "2", "delete", "-"}, change1{"j", "1", "upsert", "x"}, change1{"b", "0", "upsert", "x"}, change1{"c", "1", "upsert", "x"})
	w.apply(change1{"d", "2", "upsert", "z"}, change1{"i", "3", "upsert", "z"}, change1{"e", "1", "upsert", "other"})
	w.variants(t, func(t *testing.T, r *Report, name string) {
		if len(r.Findings) > 0 || r.From != 0 || r.To != 3 {
			t.Errorf("%d to %d: %v", r.From, r.To, r.Findings)
		}
		if got := r.Versions[3].Digest; got != w.digest().String() {
			t.Errorf("digest %s, want %s", got, w.digest())
		}
		for _, v := range r.Versions {
			for _, c := range v.Checks {
				if c.Status == Skipped && (name == "batches" || name == "full") {
					t.Errorf("version %d: %s skipped: %s", v.Version, c.Name, c.Detail)
				}
			}
		}
	})
}

// TestReport pins down the whole report of a version.
func TestReport(t *testing.T) {
	w := start(t)
	w.apply(change1{"a", "2", "delete", "-"}, change1{"j", "1", "upsert", "x"}, change1{"b", "0", "upsert", "x"}, change1{"c", "1", "upsert", "x"})
	two := deltatable.Version(2)
	r := w.audit(func(o *Options) { o.From = &two })
	v := r.Versions[0]
	want := VersionReport{
		Version: 2, Operation: "MERGE", Writer: v.Writer, Run: v.Run, Ours: true, Digest: w.digest().String(),
		Checks: []Check{
			{CheckRecord, OK, v.Checks[0].Detail},
			{CheckFileHash, OK, "2 files hashed, 0 carry no hash"},
			{CheckCounts, OK, `{"accepted":2,"duplicate":1,"invalid_version":1}`},
			{CheckState, OK, "4 rows folded, from the batch's files"},
			{CheckOutcomes, OK, "4 rows, from the batch's files"},
			{CheckRows, OK, "3 rows in the files removed, 4 in the files added"},
			{CheckDigest, OK, w.digest().String()},
			{CheckForm, OK, ""},
			{CheckVersions, OK, "1 keys changed, 1 are new"},
			{CheckOthers, OK, ""},
			{CheckKeys, OK, "1 new keys"},
			{CheckFiles, OK, "2 files added, 1 removed, 2 kept"},
		},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// corruption is a fault of a writer at version 2 and the findings that must name it.
type corruption struct {
	name   string
	tamper func(rows []keyed) []keyed
	keys   []string
	checks []string // in every variant
	fold   []string // where the batch is known
}

func alter(key string, f func(*row1)) func([]keyed) []keyed {
	return func(rows []keyed) []keyed {
		for i := range rows {
			if rows[i].key == key {
				f(&rows[i].row)
			}
		}
		return rows
	}
}

func without(key string) func([]keyed) []keyed {
	return func(rows []keyed) []keyed {
		return slices.DeleteFunc(rows, func(r keyed) bool { return r.key == key })
	}
}

func TestFaultsOfAWriter(t *testing.T) {
	for _, c := range []corruption{
		{"lost row", without("c"), []string{"c"}, []string{CheckVersions, CheckRows, CheckDigest}, nil},
		{"doubled row", func(rows []keyed) []keyed {
			for _, r := range rows {
				if r.key == "c" {
					return append(rows, r)
				}
			}
			return rows
		}, []string{"c"}, []string{CheckKeys, CheckRows, CheckDigest}, nil},
		{"lowered version", alter("c", func(r *row1) { r.version = 0 }), []string{"c"}, []string{CheckVersions, CheckDigest}, nil},
		{"payload of another row", alter("c", func(r *row1) { r.payload = "y" }), []string{"c"}, []string{CheckOthers}, nil},
		{"version of another row raised", alter("c", func(r *row1) { r.version = 9 }), []string{"c"}, []string{CheckDigest}, []string{CheckOthers}},
		{"tombstone dropped", without("i"), []string{"i"}, []string{CheckVersions, CheckRows, CheckDigest}, nil},
		{"tombstone with payload", alter("i", func(r *row1) { r.payload = "x" }), []string{"i"}, []string{CheckForm, CheckOthers}, nil},
		{"unknown status", alter("c", func(r *row1) { r.status = "Active" }), []string{"c"}, []string{CheckForm, CheckDigest}, nil},
		{"update lost", alter("a", func(r *row1) { r.version, r.payload = 1, "x" }), []string{"a"}, []string{CheckDigest}, []string{CheckState}},
		{"update with the wrong payload", alter("a", func(r *row1) { r.payload = "q" }), []string{"a"}, nil, []string{CheckState}},
		{"update not a delete", alter("a", func(r *row1) { r.status = "deleted" }), []string{"a"}, []string{CheckForm, CheckDigest}, []string{CheckState}},
		{"new row lost", without("k"), nil, []string{CheckRows, CheckDigest}, []string{CheckState}},
		{"row out of nowhere", func(rows []keyed) []keyed {
			if rows[0].key == "j" {
				return append(rows, keyed{"z", row1{1, "active", "x"}})
			}
			return rows
		}, []string{"z"}, []string{CheckRows, CheckDigest}, []string{CheckOthers}},
		{"new key that another file has", func(rows []keyed) []keyed {
			if rows[0].key == "j" {
				return append(rows, keyed{"f", row1{1, "active", "x"}})
			}
			return rows
		}, []string{"f"}, []string{CheckKeys, CheckRows, CheckDigest}, []string{CheckOthers}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			w.tamper = c.tamper
			v := w.apply(change1{"a", "2", "upsert", "n"}, change1{"g", "2", "upsert", "n"}, change1{"j", "1", "upsert", "x"}, change1{"k", "1", "upsert", "x"})
			w.variants(t, func(t *testing.T, r *Report, name string) {
				checks := c.checks
				if name != "neither" {
					checks = append(slices.Clone(checks), c.fold...)
				}
				for _, check := range checks {
					switch check {
					case CheckRows, CheckDigest:
						wantFinding(t, r, v, check)
					default:
						wantFinding(t, r, v, check, c.keys...)
					}
				}
				onlyAt(t, r, v)
			})
		})
	}
}

func TestFlippedByte(t *testing.T) {
	w := start(t)
	v := w.apply(change1{"a", "2", "upsert", "n"})
	key := w.fileOf("a").Path
	data, err := w.table.Store().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{len(data) / 3, len(data) - 20} {
		broken := bytes.Clone(data)
		broken[at] ^= 0x40
		if err := w.table.Store().Put(t.Context(), key, broken); err != nil {
			t.Fatal(err)
		}
		w.variants(t, func(t *testing.T, r *Report, _ string) {
			wantFinding(t, r, v, CheckFileHash)
			onlyAt(t, r, v)
		})
	}
}

func TestDroppedFile(t *testing.T) {
	w := start(t)
	v := w.apply(change1{"a", "2", "upsert", "n"})
	path := w.fileOf("a").Path
	if err := w.table.Store().Delete(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	w.variants(t, func(t *testing.T, r *Report, _ string) {
		wantFinding(t, r, v, CheckFiles)
		onlyAt(t, r, v)
		if !strings.Contains(r.Findings[0].Detail, path) {
			t.Errorf("the file is not named: %v", r.Findings)
		}
	})
}

// TestDroppedAdd takes a file out of the log.
func TestDroppedAdd(t *testing.T) {
	w := start(t)
	v := w.apply(change1{"a", "2", "upsert", "n"})
	path := w.fileOf("a").Path
	w.editEntry(v, func(b []byte) []byte {
		var out []byte
		for line := range bytes.Lines(b) {
			if !bytes.HasPrefix(line, []byte(`{"add":`)) || !bytes.Contains(line, []byte(path)) {
				out = append(out, line...)
			}
		}
		return out
	})
	w.variants(t, func(t *testing.T, r *Report, _ string) {
		wantFinding(t, r, v, CheckVersions, "a", "b", "c")
		wantFinding(t, r, v, CheckRows)
		wantFinding(t, r, v, CheckDigest)
		onlyAt(t, r, v)
	})
}

// TestEditedCounts changes the counts that the commit carries.
func TestEditedCounts(t *testing.T) {
	w := start(t)
	v := w.apply(change1{"a", "2", "upsert", "n"}, change1{"a", "1", "upsert", "n"})
	w.editEntry(v, func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte(`\"accepted\":1`), []byte(`\"accepted\":2`))
	})
	r := w.audit(nil)
	wantFinding(t, r, v, CheckCounts)
	onlyAt(t, r, v)
	r = w.audit(func(o *Options) { o.Outcomes = nil })
	wantFinding(t, r, v, CheckOutcomes)
}

// TestFalseOutcome records another outcome than the rules give.
func TestFalseOutcome(t *testing.T) {
	w := start(t)
	w.outcome = func(i int, o change.Outcome) change.Outcome {
		if i == 1 {
			return change.Stale
		}
		return o
	}
	v := w.apply(change1{"a", "2", "upsert", "n"}, change1{"b", "2", "upsert", "n"})
	r := w.audit(nil)
	wantFinding(t, r, v, CheckCounts)
	wantFinding(t, r, v, CheckOutcomes, "b")
	onlyAt(t, r, v)
}

func TestOutcomesMissing(t *testing.T) {
	w := start(t)
	w.outcomes = newTable(t.Context(), t)
	r := w.audit(nil)
	wantFinding(t, r, 1, CheckCounts)
	onlyAt(t, r, 1)
}

func TestEditedDigest(t *testing.T) {
	w := start(t)
	w.apply(change1{"a", "2", "upsert", "n"})
	w.editEntry(1, func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte(change.TagTableDigest+`":"`), []byte(change.TagTableDigest+`":"x`))
	})
	r := w.audit(nil)
	wantFinding(t, r, 1, CheckRecord)
	onlyAt(t, r, 1)
}

// TestDigestThatIgnoresStatus is a writer whose digest leaves the status out.
func TestDigestThatIgnoresStatus(t *testing.T) {
	w := start(t)
	w.tags = func(tags map[string]string) {
		var sum integrity.Sum
		for key, r := range w.state {
			c := canonical(key, r.version, "")
			sum = sum.Plus(integrity.RowHash(c[:len(c)-3]))
		}
		tags[change.TagTableDigest] = sum.String()
	}
	v := w.apply(change1{"a", "2", "delete", "-"})
	wantFinding(t, w.audit(nil), v, CheckDigest)
}

// TestGoldenDigest pins the digest's form: bytes and sum are written down, so that a change
// of the canonical row, such as leaving out the status, fails here.
func TestGoldenDigest(t *testing.T) {
	w := newWorld(t.Context(), t)
	w.apply(change1{"a b", "7", "upsert", "x"}, change1{"", "7", "upsert", "x"}, change1{"d", "2", "delete", "-"},
		change1{"e", "3", "upsert", "x"}, change1{"e", "3", "upsert", "y"})
	r := w.audit(nil)
	if len(r.Findings) > 0 {
		t.Errorf("%v", r.Findings)
	}
	const want = "e50a6ee7d0eeab910659df850dff3a0f"
	if got := r.Versions[1].Digest; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// TestForeignVersions: a lawful one is a note, and the digest goes on across it.
func TestForeignVersions(t *testing.T) {
	w := start(t)
	a := w.writeRows([]keyed{{"n", row1{1, "active", "x"}}})
	a.Tags = nil
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "WRITE", Adds: []*deltatable.Add{a}})
	w.state["n"] = row1{1, "active", "x"}
	w.files = append(w.files, file1{a, []string{"n"}})
	w.apply(change1{"n", "2", "upsert", "y"})
	w.variants(t, func(t *testing.T, r *Report, _ string) {
		if len(r.Findings) > 0 {
			t.Errorf("%v", r.Findings)
		}
		i := slices.IndexFunc(r.Versions[2].Checks, func(c Check) bool { return c.Name == CheckWriter })
		if r.Versions[2].Ours || i < 0 || r.Versions[2].Checks[i].Status != Note {
			t.Errorf("%+v", r.Versions[2])
		}
		j := slices.IndexFunc(r.Versions[3].Checks, func(c Check) bool { return c.Name == CheckDigest })
		if r.Versions[3].Checks[j].Status != OK {
			t.Errorf("%+v", r.Versions[3].Checks[j])
		}
	})
}

func TestForeignAppendDoublesAKey(t *testing.T) {
	w := start(t)
	a := w.writeRows([]keyed{{"n", row1{1, "active", "x"}}, {"b", row1{5, "active", "x"}}})
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "WRITE", Adds: []*deltatable.Add{a}})
	w.variants(t, func(t *testing.T, r *Report, name string) {
		wantFinding(t, r, 2, CheckKeys, "b")
		onlyAt(t, r, 2)
	})
}

func TestForeignDeleteErasesAKey(t *testing.T) {
	w := start(t)
	f := w.files[0]
	a := w.writeRows([]keyed{{"a", w.state["a"]}, {"c", row1{1, "active", "changed"}}})
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "DELETE", Adds: []*deltatable.Add{a}, Removes: []*deltatable.Add{f.add}})
	w.variants(t, func(t *testing.T, r *Report, _ string) {
		wantFinding(t, r, 2, CheckVersions, "b")
		wantFinding(t, r, 2, CheckOthers, "c")
		onlyAt(t, r, 2)
	})
}

// TestRearrangement: a compaction changes no row, whoever writes it.
func TestRearrangement(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprint(damaged), func(t *testing.T) {
			w := start(t)
			var rows []keyed
			var removes []*deltatable.Add
			for _, f := range w.files[:2] {
				removes = append(removes, f.add)
				for _, k := range f.keys {
					rows = append(rows, keyed{k, w.state[k]})
				}
			}
			if damaged {
				rows[0].row.version++
			}
			a := w.writeRows(rows)
			w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "OPTIMIZE", Rearrange: true, Adds: []*deltatable.Add{a}, Removes: removes})
			r := w.audit(nil)
			if damaged {
				wantFinding(t, r, 2, CheckOthers, "a")
			} else if len(r.Findings) > 0 {
				t.Errorf("%v", r.Findings)
			}
		})
	}
}

func TestDigestRecordedAsUnknown(t *testing.T) {
	w := start(t)
	w.tags = func(tags map[string]string) { tags[change.TagTableDigest] = change.DigestUnknown }
	w.apply(change1{"a", "2", "upsert", "n"})
	w.tags = nil
	w.apply(change1{"b", "2", "upsert", "n"})
	if r := w.audit(nil); len(r.Findings) > 0 || r.Versions[3].Digest != w.digest().String() {
		t.Errorf("%v", r.Findings)
	}
}

// TestPlainTable: row counts and hashes are all there is.
func TestPlainTable(t *testing.T) {
	w := newWorld(t.Context(), t)
	w.table = newTable(t.Context(), t)
	w.snap = w.create(w.table, tableDDL, nil, nil)
	for i := range 3 {
		metrics := map[string]string{"numOutputRows": "1"}
		if i == 2 {
			metrics["numOutputRows"] = "2"
		}
		a := w.writeRows([]keyed{{"a", row1{1, "active", "x"}}})
		w.snap = w.commit(w.table, w.snap, &deltatable.Commit{
			Operation: "WRITE", Parameters: map[string]string{"mode": "Append"}, Metrics: metrics, Adds: []*deltatable.Add{a}, BlindAppend: true,
		})
	}
	r := w.audit(nil)
	wantFinding(t, r, 3, CheckRows)
	onlyAt(t, r, 3)
	want := []Check{
		{CheckFileHash, OK, "1 files hashed, 0 carry no hash"},
		{CheckRows, OK, "0 rows in the files removed, 1 in the files added"},
		{CheckFiles, OK, "1 files added, 0 removed, 1 kept"},
	}
	if diff := cmp.Diff(want, r.Versions[2].Checks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMain sets the number of random histories; rapid prints it, and the seed of a failure.
func TestMain(m *testing.M) {
	checks := "50"
	if os.Getenv("DELTAFOLD_SOAK") == "1" {
		checks = "2000"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestCleanHistories: random histories of a right writer give no finding.
func TestCleanHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t.Context(), r)
		w.perFile = rapid.IntRange(1, 4).Draw(r, "rows of a file")
		for range rapid.IntRange(1, 4).Draw(r, "batches") {
			w.apply(drawChanges(r, 10)...)
		}
		for _, change := range []func(*Options){
			nil,
			func(o *Options) { o.Batches = nil },
			func(o *Options) { o.Full = true; o.MemoryBytes = 300 },
		} {
			if rep := w.audit(change); len(rep.Findings) > 0 {
				r.Fatalf("%v", rep.Findings)
			}
		}
	})
}

// TestRandomFaults: a random single fault in a random history is found at its version.
func TestRandomFaults(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t.Context(), r)
		for range rapid.IntRange(0, 2).Draw(r, "batches before") {
			w.apply(drawChanges(r, 10)...)
		}
		done := false
		w.tamper = func(rows []keyed) []keyed {
			if done {
				return rows
			}
			done = true
			i := rapid.IntRange(0, len(rows)-1).Draw(r, "row")
			switch rapid.IntRange(0, 4).Draw(r, "fault") {
			case 0:
				return append(rows, rows[i])
			case 1:
				rows[i].row.version--
			case 2:
				rows[i].row.version++
			case 3:
				rows[i].row.payload += "!"
			case 4:
				rows[i].key += "!"
			}
			return rows
		}
		v := w.apply(drawChanges(r, 10)...)
		w.tamper = nil
		w.apply(drawChanges(r, 10)...)
		rep := w.audit(nil)
		for _, f := range rep.Findings {
			if f.Version < v {
				r.Fatalf("too early: %v", f)
			}
		}
		if found := slices.ContainsFunc(rep.Findings, func(f Finding) bool { return f.Version == v }); found != done {
			r.Fatalf("fault made: %v, found: %v: %v", done, found, rep.Findings)
		}
	})
}
