package merge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// foreign commits rows of the state table as another engine would: without our
// tags. remove lists files to take out, nil for none; rearrange says that no row
// changes.
func (w *world) foreign(t testing.TB, rearrange bool, remove []*deltatable.Add, rows ...string) {
	t.Helper()
	snap, err := w.table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	adds := w.write(t, snap, rows)
	tx := w.table.Begin(snap)
	tx.Write = deltatable.Commit{Operation: "WRITE", Adds: adds, Removes: remove, Rearrange: rearrange}
	for _, a := range remove {
		tx.Read.Files = append(tx.Read.Files, a.Key())
	}
	if _, err := tx.Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// write puts rows, "key version status value p", into new files.
func (w *world) write(t testing.TB, snap *deltatable.Snapshot, rows []string) []*deltatable.Add {
	t.Helper()
	parts := map[string][]string{}
	for _, r := range rows {
		f := strings.Fields(r)
		part := ""
		if len(w.spec.partition) > 0 {
			part = f[4]
		}
		quote := func(s string) string {
			if s == "NULL" {
				return "null"
			}
			return fmt.Sprintf("%q", s)
		}
		parts[part] = append(parts[part], fmt.Sprintf(`{"entity_id":%s,"source_version":%s,"status":%s,"value":%s,"p":%s}`,
			quote(f[0]), strings.ReplaceAll(f[1], "NULL", "null"), quote(f[2]), quote(f[3]), quote(f[4])))
	}
	var adds []*deltatable.Add
	for _, objects := range parts {
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, snap.Schema(), strings.NewReader("["+strings.Join(objects, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		part, err := snap.Layout().Partition(rec, 0)
		if err != nil {
			t.Fatal(err)
		}
		fw, err := w.table.NewFileWriter(t.Context(), snap.Layout(), part)
		if err != nil {
			t.Fatal(err)
		}
		if err := fw.Write(rec); err != nil {
			t.Fatal(err)
		}
		got, err := fw.Close()
		if err != nil {
			t.Fatal(err)
		}
		adds = append(adds, got...)
	}
	return adds
}

// files are the live files of the latest version.
func (w *world) files(t testing.TB) []*deltatable.Add {
	t.Helper()
	snap, err := w.table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(snap.Files())
}

// fileOf is the live file that holds the key.
func (w *world) fileOf(t testing.TB, key string) *deltatable.Add {
	t.Helper()
	snap, err := w.table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range snap.Files() {
		if slices.ContainsFunc(w.rowsOf(t, snap, a), func(r string) bool { return strings.HasPrefix(r, key+" ") }) {
			return a
		}
	}
	t.Fatalf("no live file holds %s", key)
	return nil
}

func (w *world) rowsOf(t testing.TB, snap *deltatable.Snapshot, a *deltatable.Add) []string {
	t.Helper()
	r, err := snap.OpenFile(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []string
	for b, err := range r.Read(t.Context(), &deltatable.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(b.Rec.NumRows()) {
			var f []string
			for _, c := range b.Rec.Columns() {
				if c.IsNull(i) {
					f = append(f, "NULL")
				} else {
					f = append(f, c.ValueStr(i))
				}
			}
			out = append(out, strings.Join(f, " "))
		}
	}
	return out
}

// replaceFile has another engine rewrite the file of a key as rows.
func (w *world) replaceFile(t testing.TB, key string, rearrange bool, rows ...string) {
	t.Helper()
	w.foreign(t, rearrange, []*deltatable.Add{w.fileOf(t, key)}, rows...)
}

// compact has another engine rewrite all files as one, changing no row.
func (w *world) compact(t testing.TB) {
	t.Helper()
	snap, err := w.table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.foreign(t, true, slices.Clone(snap.Files()), stateOf(t, snap)...)
}

// alone is a table whose files are too large to be packed with each other: with a
// target size of 8 bytes nothing is packed, and each file is rewritten alone.
func alone(spec worldSpec) worldSpec {
	spec.properties = map[string]string{"delta.targetFileSize": "8"}
	return spec
}

// TestRetryEqualsPlanningAnew drives each retry obligation with a winner that
// commits between an attempt's decisions and its commit. CheckRetries makes
// every run assert that the retry equals planning anew (design: "Retry").
func TestRetryEqualsPlanningAnew(t *testing.T) {
	type scenario struct {
		name     string
		spec     worldSpec
		setup    [][]string // batches applied first
		batch    []string
		winners  []func(t *testing.T, w *world)
		outcomes []string
		state    []string
		noCommit bool
	}
	ours := func(rows ...string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { t.Helper(); w.apply(rows...) }
	}
	for _, s := range []scenario{
		{
			name:     "R2: both insert the same new key",
			setup:    [][]string{{"a 1 upsert x"}},
			batch:    []string{"new 1 upsert mine"},
			winners:  []func(*testing.T, *world){ours("new 2 upsert theirs")},
			outcomes: []string{"stale"}, noCommit: true,
			state: []string{"a 1 active x NULL", "new 2 active theirs NULL"},
		},
		{
			name:     "R2: the same new key, ours is newer",
			setup:    [][]string{{"a 1 upsert x"}},
			batch:    []string{"new 3 upsert mine", "other 1 upsert o"},
			winners:  []func(*testing.T, *world){ours("new 2 upsert theirs")},
			outcomes: []string{"accepted", "accepted"},
			state:    []string{"a 1 active x NULL", "new 3 active mine NULL", "other 1 active o NULL"},
		},
		{
			name:     "R3: the winner rewrote the file of our hit",
			setup:    [][]string{{"a 1 upsert x", "b 1 upsert x"}},
			batch:    []string{"a 3 upsert mine"},
			winners:  []func(*testing.T, *world){ours("b 2 upsert theirs")},
			outcomes: []string{"accepted"},
			state:    []string{"a 3 active mine NULL", "b 2 active theirs NULL"},
		},
		{
			name:     "R3: the winner wrote our key at a higher version",
			setup:    [][]string{{"a 1 upsert x"}},
			batch:    []string{"a 3 upsert mine", "b 1 upsert new"},
			winners:  []func(*testing.T, *world){ours("a 5 upsert theirs")},
			outcomes: []string{"stale", "accepted"},
			state:    []string{"a 5 active theirs NULL", "b 1 active new NULL"},
		},
		{
			name: "R3: compaction moves every row", spec: alone(worldSpec{}),
			setup:    [][]string{{"a 1 upsert x"}, {"b 1 upsert x"}, {"c 1 upsert x"}},
			batch:    []string{"a 2 upsert mine", "c 1 upsert x"},
			winners:  []func(*testing.T, *world){func(t *testing.T, w *world) { w.compact(t) }},
			outcomes: []string{"accepted", "duplicate"},
			state:    []string{"a 2 active mine NULL", "b 1 active x NULL", "c 1 active x NULL"},
		},
		{
			name: "R1: a file that was read and not changed is rewritten", spec: alone(worldSpec{}),
			setup: [][]string{{"a 9 upsert x"}, {"b 1 upsert x"}},
			batch: []string{"a 3 upsert mine", "b 2 upsert mine"},
			winners: []func(*testing.T, *world){func(t *testing.T, w *world) {
				w.replaceFile(t, "a", false, "a 2 active older NULL")
			}},
			outcomes: []string{"accepted", "accepted"},
			state:    []string{"a 3 active mine NULL", "b 2 active mine NULL"},
		},
		{
			name: "R1: the row that made us stale is deleted", spec: alone(worldSpec{}),
			setup: [][]string{{"a 9 upsert x"}, {"b 1 upsert x"}},
			batch: []string{"a 3 upsert mine", "b 2 upsert mine"},
			winners: []func(*testing.T, *world){func(t *testing.T, w *world) {
				w.foreign(t, false, []*deltatable.Add{w.fileOf(t, "a")})
			}},
			outcomes: []string{"accepted", "accepted"},
			state:    []string{"a 3 active mine NULL", "b 2 active mine NULL"},
		},
		{
			name: "R3: a delete leaves our hit nowhere", spec: alone(worldSpec{}),
			setup: [][]string{{"a 1 upsert x"}, {"b 1 upsert x"}},
			batch: []string{"a 2 upsert mine"},
			winners: []func(*testing.T, *world){func(t *testing.T, w *world) {
				w.foreign(t, false, []*deltatable.Add{w.fileOf(t, "a")})
			}},
			outcomes: []string{"accepted"},
			state:    []string{"a 2 active mine NULL", "b 1 active x NULL"},
		},
		{
			name: "R2: a file added by one winner and removed by the next", spec: alone(worldSpec{}),
			setup: [][]string{{"a 1 upsert x"}},
			batch: []string{"n 1 upsert mine"},
			winners: []func(*testing.T, *world){func(t *testing.T, w *world) {
				w.foreign(t, false, nil, "n 7 active theirs NULL")
				w.foreign(t, false, []*deltatable.Add{w.fileOf(t, "n")})
			}},
			outcomes: []string{"accepted"},
			state:    []string{"a 1 active x NULL", "n 1 active mine NULL"},
		},
		{
			name: "R2: a file is added again without a remove", spec: alone(worldSpec{}),
			setup: [][]string{{"a 1 upsert x"}, {"b 1 upsert x"}},
			batch: []string{"a 2 upsert mine"},
			winners: []func(*testing.T, *world){func(t *testing.T, w *world) {
				snap, err := w.table.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				again := *w.fileOf(t, "a")
				again.Stats, again.DataChange = "", false
				if _, err := w.table.TryCommit(t.Context(), snap, &deltatable.Commit{Operation: "COMPUTE STATS", Adds: []*deltatable.Add{&again}, Rearrange: true}); err != nil {
					t.Fatal(err)
				}
			}},
			outcomes: []string{"accepted"},
			state:    []string{"a 2 active mine NULL", "b 1 active x NULL"},
		},
		{
			name:  "R3: a file that was packed in is rewritten",
			setup: [][]string{{"a 1 upsert x"}},
			batch: []string{"n 1 upsert mine"},
			winners: []func(*testing.T, *world){func(t *testing.T, w *world) {
				w.replaceFile(t, "a", false, "a 8 active theirs NULL", "c 1 active theirs NULL")
			}},
			outcomes: []string{"accepted"},
			state:    []string{"a 8 active theirs NULL", "c 1 active theirs NULL", "n 1 active mine NULL"},
		},
		{
			name:     "R6: nothing is left to write",
			setup:    [][]string{{"a 1 upsert x"}},
			batch:    []string{"a 2 upsert y"},
			winners:  []func(*testing.T, *world){ours("a 2 upsert y")},
			outcomes: []string{"duplicate"}, noCommit: true,
			state: []string{"a 2 active y NULL"},
		},
		{
			name:     "R3: a conflict stored by the winner",
			setup:    [][]string{{"a 1 upsert x"}},
			batch:    []string{"a 2 upsert mine"},
			winners:  []func(*testing.T, *world){ours("a 2 upsert theirs")},
			outcomes: []string{"conflict"},
			state:    []string{"a 2 conflict NULL NULL"},
		},
		{
			name:  "R9: several losses in a row",
			setup: [][]string{{"a 1 upsert x"}},
			batch: []string{"a 9 upsert mine", "n 1 upsert mine"},
			winners: []func(*testing.T, *world){
				ours("a 2 upsert t"), ours("n 3 upsert t"), ours("m 1 upsert t"), ours("a 3 delete"),
			},
			outcomes: []string{"accepted", "stale"},
			state:    []string{"a 9 active mine NULL", "m 1 active t NULL", "n 3 active t NULL"},
		},
		{
			name: "R3: a partition moves under us", spec: worldSpec{partition: []string{"p"}},
			setup:    [][]string{{"a 1 upsert x A", "b 1 upsert x B"}},
			batch:    []string{"a 5 upsert mine C", "b 5 upsert mine B"},
			winners:  []func(*testing.T, *world){ours("a 2 upsert theirs B"), ours("c 1 upsert theirs C")},
			outcomes: []string{"accepted", "accepted"},
			state:    []string{"a 5 active mine C", "b 5 active mine B", "c 1 active theirs C"},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, s.spec)
			for _, rows := range s.setup {
				w.apply(rows...)
			}
			job := w.job(s.batch...)
			attempt := 0
			onEach(job, func() {
				if attempt < len(s.winners) {
					s.winners[attempt](t, w)
				}
				attempt++
			})
			res, err := merge.Run(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.outcomes, outcomes(res)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(s.state, w.state()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if (res.Version == nil) != s.noCommit {
				t.Errorf("version %v, want none: %v", res.Version, s.noCommit)
			}
			if res.Retries != len(s.winners) {
				t.Errorf("%d retries, want %d", res.Retries, len(s.winners))
			}
			w.checkDigest(t)
		})
	}
}

// onEach calls f before every attempt's commit.
func onEach(job *merge.Job, f func()) { onEachErr(job, func() error { f(); return nil }) }

// checkDigest compares the recorded digest of the latest commit with one made
// from all rows.
func (w *world) checkDigest(t testing.TB) {
	t.Helper()
	snap, err := w.table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.table.Entry(t.Context(), snap.Version())
	if err != nil {
		t.Fatal(err)
	}
	got, ok := e.Info.Tags[change.TagTableDigest]
	if !ok {
		return
	}
	want, err := merge.CheckTable(t.Context(), snap, w.roles)
	if err != nil {
		t.Fatal(err)
	}
	if got != want.String() {
		t.Errorf("version %d records digest %s, its rows give %s", snap.Version(), got, want)
	}
}

func TestRetryKeepsOutputsThatNoWinnerTouched(t *testing.T) {
	w := newWorld(t, alone(worldSpec{}))
	for _, k := range []string{"a", "b", "c"} {
		w.apply(k + " 1 upsert x")
	}
	job := w.job("a 2 upsert m", "b 2 upsert m", "n 1 upsert m")
	onAttempt(job, 1, func() { w.apply("c 2 upsert t") })
	res, err := merge.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if res.Stats.OutputsKept != 3 || res.Stats.OutputsRebuilt != 0 {
		t.Errorf("kept %d outputs and rebuilt %d, want 3 and 0", res.Stats.OutputsKept, res.Stats.OutputsRebuilt)
	}
	job = w.job("a 3 upsert m", "b 3 upsert m")
	onAttempt(job, 1, func() { w.apply("a 5 upsert t") })
	if res, err = merge.Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if res.Stats.OutputsKept != 1 || res.Stats.OutputsRebuilt != 1 {
		t.Errorf("kept %d outputs and rebuilt %d, want 1 and 1", res.Stats.OutputsKept, res.Stats.OutputsRebuilt)
	}
	want := []string{"a 5 active t NULL", "b 3 active m NULL", "c 2 active t NULL", "n 1 active m NULL"}
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestRetryIsRefusedLateUnderReject(t *testing.T) {
	w := newWorld(t, worldSpec{policy: change.Reject})
	w.apply("a 1 upsert x")
	job := w.job("a 2 upsert mine", "b 1 upsert mine")
	onAttempt(job, 1, func() { w.apply("a 2 upsert theirs") })
	res, err := merge.Run(t.Context(), job)
	var refused *merge.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if diff := cmp.Diff([]string{"conflict", "batch_refused"}, outcomes(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a 2 active theirs NULL"}, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestRetryStartsOverWhenTheTableChanged(t *testing.T) {
	for name, change := range map[string]func(*deltatable.Metadata){
		"a property": func(md *deltatable.Metadata) { md.Configuration["x"] = "y" },
		"the schema": func(md *deltatable.Metadata) {
			md.SchemaString = strings.Replace(md.SchemaString, `"fields":[`, `"fields":[{"name":"extra","type":"string","nullable":true,"metadata":{}},`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldSpec{})
			w.apply("a 1 upsert x")
			job := w.job("a 2 upsert y")
			onAttempt(job, 1, func() {
				snap, err := w.table.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				md := *snap.Metadata()
				conf := map[string]string{}
				for k, v := range md.Configuration {
					conf[k] = v
				}
				md.Configuration = conf
				change(&md)
				if _, err := w.table.TryCommit(t.Context(), snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md}); err != nil {
					t.Fatal(err)
				}
			})
			if _, err := merge.Run(t.Context(), job); !errors.Is(err, merge.ErrTableChanged) {
				t.Errorf("got %v, want %v", err, merge.ErrTableChanged)
			}
		})
	}
	w := newWorld(t, worldSpec{})
	job := w.job("a 1 upsert x")
	onAttempt(job, 1, func() { w.apply("b 1 upsert x") })
	if _, err := merge.Run(t.Context(), job); !errors.Is(err, merge.ErrTableChanged) {
		t.Errorf("created meanwhile: got %v, want %v", err, merge.ErrTableChanged)
	}
}

func TestRetryHonoursIdentifiersOfWinners(t *testing.T) {
	for _, c := range []struct {
		winner  int64
		applied bool
	}{{6, false}, {7, true}, {9, true}} {
		w := newWorld(t, worldSpec{})
		w.apply("a 1 upsert x")
		job := w.job("a 2 upsert mine")
		job.Identifier = &deltatable.Txn{AppID: "app", Version: 7}
		onAttempt(job, 1, func() {
			other := w.job("b 1 upsert theirs")
			other.Identifier = &deltatable.Txn{AppID: "app", Version: c.winner}
			if _, err := merge.Run(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		})
		res, err := merge.Run(t.Context(), job)
		if err != nil || res.AlreadyApplied != c.applied {
			t.Errorf("winner %d: already applied is %v (%v), want %v", c.winner, res.AlreadyApplied, err, c.applied)
		}
	}
}

func TestDigestGoesOnAfterForeignCommits(t *testing.T) {
	w := newWorld(t, alone(worldSpec{}))
	w.apply("a 1 upsert x", "b 1 upsert x")
	w.apply("c 1 upsert x")
	w.foreign(t, false, nil, "f 1 active theirs NULL", "g 4 deleted NULL NULL")
	w.replaceFile(t, "c", false, "c 2 active theirs NULL")
	w.apply("a 2 upsert y", "f 2 upsert y")
	w.checkDigest(t)
	w.compact(t)
	job := w.job("n 1 upsert y")
	onAttempt(job, 1, func() { w.foreign(t, false, nil, "h 1 active theirs NULL") })
	if _, err := merge.Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.checkDigest(t)
}

func TestFailedRunsLeaveNoDataFiles(t *testing.T) {
	w := newWorld(t, alone(worldSpec{}))
	w.apply("a 1 upsert x")
	before := w.listed(t)
	job := w.job("a 2 upsert y", "b 1 upsert y")
	boom := errors.New("boom")
	onEachErr(job, func() error { return boom })
	if _, err := merge.Run(t.Context(), job); !errors.Is(err, boom) {
		t.Fatalf("got %v, want %v", err, boom)
	}
	if diff := cmp.Diff(before, w.listed(t)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

func (w *world) listed(t testing.TB) []string {
	t.Helper()
	var out []string
	for info, err := range w.store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key)
	}
	return out
}
