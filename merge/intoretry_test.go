package merge_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
)

// intoWinner commits something between an attempt's decisions and its commit.
type intoWinner func(t *testing.T, w *intoTable)

func appends(objects string) intoWinner {
	return func(t *testing.T, w *intoTable) {
		t.Helper()
		if err := w.foreign(jsonRows(t, w.sch, objects), nil, false); err != nil {
			t.Fatal(err)
		}
	}
}

// replaces puts rows in the place of the file that holds an id.
func replaces(id int64, objects string) intoWinner {
	return func(t *testing.T, w *intoTable) {
		t.Helper()
		snap, err := w.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range snap.Files() {
			rows, err := w.rowsOf(snap, a)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(rows, func(r tabletest.Row) bool { return r["id"] == id }) {
				continue
			}
			if err := w.foreign(jsonRows(t, w.sch, objects), []*deltatable.Add{a}, false); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Fatalf("no file holds %d", id)
	}
}

func compacts(t *testing.T, w *intoTable) {
	t.Helper()
	snap, err := w.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.foreign(rows, slices.Clone(snap.Files()), true); err != nil {
		t.Fatal(err)
	}
}

// forgetsStats adds the live files again without their statistics.
func forgetsStats(t *testing.T, w *intoTable) {
	t.Helper()
	snap, err := w.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	c := &deltatable.Commit{Operation: "COMPUTE STATS", Rearrange: true}
	for _, a := range snap.Files() {
		again := *a
		again.Stats, again.DataChange = "", false
		c.Adds = append(c.Adds, &again)
	}
	if _, err := w.table.TryCommit(t.Context(), snap, c); err != nil {
		t.Fatal(err)
	}
}

func merges(sql, objects string) intoWinner {
	return func(t *testing.T, w *intoTable) {
		t.Helper()
		w.must(t, w.prepare(t, sql, "id long, v string, p string", objects))
	}
}

// TestIntoRetryEqualsPlanningAnew is TestRetryEqualsPlanningAnew for statements.
func TestIntoRetryEqualsPlanningAnew(t *testing.T) {
	const (
		onID   = "MERGE INTO t USING s ON t.id = s.id "
		upsert = onID + "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
		insert = onID + "WHEN NOT MATCHED THEN INSERT *"
		sync   = upsert + " WHEN NOT MATCHED BY SOURCE THEN DELETE"
		abc    = `{"id":1,"v":"a","p":"A"}`
	)
	for _, s := range []struct {
		name, sql, source string
		parts             []string
		files             []string
		winners           []intoWinner
		outcomes          []string
		rows              string
		noCommit          bool
	}{
		{
			name: "R1: a file that was read and not changed is rewritten", sql: onID + "WHEN MATCHED AND t.v = 'low' THEN UPDATE SET v = s.v", source: `{"id":1,"v":"m","p":null},{"id":2,"v":"m","p":null}`,
			files:    []string{`{"id":1,"v":"high","p":"A"}`, `{"id":2,"v":"low","p":"A"}`},
			winners:  []intoWinner{replaces(1, `{"id":1,"v":"low","p":"A"}`)},
			outcomes: []string{"updated", "updated"}, rows: `{"id":1,"v":"m","p":"A"},{"id":2,"v":"m","p":"A"}`,
		},
		{
			name: "R2: both insert the same new key", sql: insert, source: `{"id":7,"v":"m","p":"A"},{"id":8,"v":"m","p":"A"}`, files: []string{abc},
			winners:  []intoWinner{appends(`{"id":7,"v":"theirs","p":"B"}`)},
			outcomes: []string{"matched_unchanged", "inserted"}, rows: abc + `,{"id":7,"v":"theirs","p":"B"},{"id":8,"v":"m","p":"A"}`,
		},
		{
			name: "R2: an added file holds a key to update", sql: upsert, source: `{"id":7,"v":"m","p":"A"}`, files: []string{abc}, parts: []string{"p"},
			winners:  []intoWinner{appends(`{"id":7,"v":"theirs","p":"B"},{"id":6,"v":"theirs","p":"B"}`)},
			outcomes: []string{"updated"}, rows: abc + `,{"id":7,"v":"m","p":"B"},{"id":6,"v":"theirs","p":"B"}`,
		},
		{
			name: "R2: a row added twice makes the statement ambiguous only for the source", sql: upsert, source: `{"id":7,"v":"m","p":"A"}`, files: []string{abc},
			winners:  []intoWinner{appends(`{"id":7,"v":"t","p":"B"}`), appends(`{"id":7,"v":"u","p":"B"}`)},
			outcomes: []string{"updated"}, rows: abc + `,{"id":7,"v":"m","p":"B"},{"id":7,"v":"m","p":"B"}`,
		},
		{
			name: "R2: a file added by one winner and removed by the next", sql: upsert, source: `{"id":7,"v":"m","p":"A"}`, files: []string{abc},
			winners:  []intoWinner{appends(`{"id":7,"v":"t","p":"B"}`), replaces(7, `{"id":8,"v":"t","p":"B"}`)},
			outcomes: []string{"inserted"}, rows: abc + `,{"id":7,"v":"m","p":"A"},{"id":8,"v":"t","p":"B"}`,
		},
		{
			name: "R2: BY SOURCE sees what was inserted meanwhile", sql: sync, source: `{"id":1,"v":"m","p":"A"},{"id":2,"v":"m","p":"A"}`, files: []string{abc, `{"id":3,"v":"a","p":"A"}`},
			winners:  []intoWinner{appends(`{"id":9,"v":"t","p":"A"},{"id":2,"v":"t","p":"B"}`), appends(`{"id":10,"v":"t","p":"Z"}`)},
			outcomes: []string{"updated", "updated"}, rows: `{"id":1,"v":"m","p":"A"},{"id":2,"v":"m","p":"B"}`,
		},
		{
			name: "R2: BY SOURCE with a condition sees inserted rows that it reaches", sql: onID + "WHEN NOT MATCHED BY SOURCE AND t.p = 'A' THEN UPDATE SET v = 'gone'",
			source: `{"id":1,"v":"m","p":"A"}`, files: []string{abc, `{"id":3,"v":"a","p":"A"}`}, parts: []string{"p"},
			winners:  []intoWinner{appends(`{"id":9,"v":"t","p":"A"},{"id":4,"v":"t","p":"B"}`)},
			outcomes: []string{"matched_unchanged"}, rows: abc + `,{"id":3,"v":"gone","p":"A"},{"id":9,"v":"gone","p":"A"},{"id":4,"v":"t","p":"B"}`,
		},
		{
			name: "R2: BY SOURCE alone, and nothing at first", sql: onID + "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE THEN DELETE",
			source: `{"id":1,"v":"m","p":"A"}`, files: []string{abc},
			winners:  []intoWinner{appends(`{"id":9,"v":"t","p":"A"}`)},
			outcomes: []string{"updated"}, rows: `{"id":1,"v":"m","p":"A"}`,
		},
		{
			name: "R3: the winner rewrote the file of our hit", sql: upsert, source: `{"id":1,"v":"m","p":"A"}`, files: []string{abc + `,{"id":2,"v":"a","p":"A"}`},
			winners:  []intoWinner{merges(onID+"WHEN MATCHED THEN UPDATE SET v = s.v", `{"id":2,"v":"t","p":"A"}`)},
			outcomes: []string{"updated"}, rows: `{"id":1,"v":"m","p":"A"},{"id":2,"v":"t","p":"A"}`,
		},
		{
			name: "R3: the winner deleted our hit", sql: upsert, source: `{"id":1,"v":"m","p":"B"}`, files: []string{abc, `{"id":2,"v":"a","p":"A"}`},
			winners:  []intoWinner{replaces(1, "")},
			outcomes: []string{"inserted"}, rows: `{"id":1,"v":"m","p":"B"},{"id":2,"v":"a","p":"A"}`,
		},
		{
			name: "R3: compaction moves every row", sql: sync, source: `{"id":1,"v":"m","p":"A"},{"id":5,"v":"m","p":"A"}`, files: []string{abc, `{"id":2,"v":"a","p":"A"}`, `{"id":3,"v":"a","p":"B"}`},
			winners:  []intoWinner{compacts},
			outcomes: []string{"updated", "inserted"}, rows: `{"id":1,"v":"m","p":"A"},{"id":5,"v":"m","p":"A"}`,
		},
		{
			name: "R3: statistics are forgotten", sql: upsert, source: `{"id":1,"v":"m","p":"A"},{"id":5,"v":"m","p":"A"}`, files: []string{abc, `{"id":2,"v":"a","p":"A"}`},
			winners:  []intoWinner{forgetsStats},
			outcomes: []string{"updated", "inserted"}, rows: `{"id":1,"v":"m","p":"A"},{"id":5,"v":"m","p":"A"},{"id":2,"v":"a","p":"A"}`,
		},
		{
			name: "R3: rows move between partitions under us", sql: onID + "WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT *", parts: []string{"p"},
			source: `{"id":1,"v":"m","p":"C"},{"id":2,"v":"m","p":"A"}`, files: []string{abc, `{"id":2,"v":"a","p":"B"}`},
			winners:  []intoWinner{merges(onID+"WHEN MATCHED THEN UPDATE SET p = s.p", `{"id":1,"v":"t","p":"B"}`), appends(`{"id":3,"v":"t","p":"C"}`)},
			outcomes: []string{"updated", "updated"}, rows: `{"id":1,"v":"a","p":"C"},{"id":2,"v":"a","p":"A"},{"id":3,"v":"t","p":"C"}`,
		},
		{
			name: "R6: nothing is left to do", sql: onID + "WHEN MATCHED AND t.v <> s.v THEN UPDATE SET v = s.v", source: `{"id":1,"v":"m","p":"A"}`, files: []string{abc},
			winners:  []intoWinner{merges(onID+"WHEN MATCHED THEN UPDATE SET v = s.v", `{"id":1,"v":"m","p":"A"}`)},
			outcomes: []string{"matched_unchanged"}, rows: `{"id":1,"v":"m","p":"A"}`, noCommit: true,
		},
		{
			name: "R9: several losses in a row", sql: upsert, source: `{"id":1,"v":"m","p":"A"},{"id":2,"v":"m","p":"A"}`, files: []string{abc},
			winners:  []intoWinner{appends(`{"id":3,"v":"t","p":"A"}`), merges(upsert, `{"id":1,"v":"t","p":"A"}`), compacts, appends(`{"id":2,"v":"t","p":"B"}`), replaces(3, `{"id":4,"v":"t","p":"A"}`)},
			outcomes: []string{"inserted", "updated"}, rows: `{"id":1,"v":"m","p":"A"},{"id":2,"v":"m","p":"B"},{"id":4,"v":"t","p":"A"}`,
		},
	} {
		for _, props := range []map[string]string{nil, small} {
			name := s.name
			if props != nil {
				name += ", files alone"
			}
			t.Run(name, func(t *testing.T) {
				w := intoSpec{ddl: "id long, v string, p string", parts: s.parts, props: props, files: s.files}.table(t)
				job := w.prepare(t, s.sql, "id long, v string, p string", s.source)
				hook(job, func(attempt int) error {
					if attempt <= len(s.winners) {
						s.winners[attempt-1](t, w)
					}
					return nil
				})
				res := w.must(t, job)
				if diff := cmp.Diff(s.outcomes, flat(res)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				w.is(t, s.rows)
				if (res.Version == nil) != s.noCommit || res.Retries != len(s.winners) {
					t.Errorf("version %v, %d retries", res.Version, res.Retries)
				}
				if err := w.noLitter(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestIntoRetryIsRefusedLate: what a winner adds can make the statement
// ambiguous, or hold a value that cannot be computed (R6).
func TestIntoRetryIsRefusedLate(t *testing.T) {
	spec := intoSpec{ddl: "id long, v string, p string", files: []string{`{"id":1,"v":"1","p":"A"}`}}
	w := spec.table(t)
	job := w.prepare(t, "MERGE INTO t USING s ON t.p = s.p WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *", spec.ddl,
		`{"id":5,"v":"m","p":"A"},{"id":6,"v":"m","p":"B"},{"id":7,"v":"m","p":"B"}`)
	hook(job, func(int) error { appends(`{"id":2,"v":"t","p":"B"}`)(t, w); return nil })
	res, err := merge.Into(t.Context(), job)
	var twice *merge.CardinalityError
	if !errors.As(err, &twice) || !slices.Equal(twice.Keys, []string{"p=B"}) {
		t.Errorf("got the error %v", err)
	}
	if res == nil || !slices.Equal(flat(res), []string{"batch_refused", "batch_refused", "batch_refused"}) {
		t.Errorf("got the result %+v", res)
	}
	w.is(t, `{"id":1,"v":"1","p":"A"},{"id":2,"v":"t","p":"B"}`)

	w = spec.table(t)
	job = w.prepare(t, "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = CAST(t.v AS BIGINT)", spec.ddl, "")
	hook(job, func(int) error { appends(`{"id":2,"v":"text","p":"B"}`)(t, w); return nil })
	var value *merge.ValueError
	if _, err := merge.Into(t.Context(), job); !errors.As(err, &value) || !strings.Contains(err.Error(), "text") {
		t.Errorf("got the error %v", err)
	}
	w.is(t, `{"id":1,"v":"1","p":"A"},{"id":2,"v":"text","p":"B"}`)
	if err := w.noLitter(); err != nil {
		t.Error(err)
	}
}

// TestIntoSelfMergeIsNotCarriedOver: its source would have to be another version
// (merge-semantics 5).
func TestIntoSelfMergeIsNotCarriedOver(t *testing.T) {
	w := twoColumns.table(t)
	job := w.prepare(t, upsertAll, twoColumns.ddl, `{"id":1,"v":"x"},{"id":2,"v":"y"}`)
	job.Self = true
	hook(job, func(int) error { appends(`{"id":9,"v":"t"}`)(t, w); return nil })
	var refused *merge.RefusedError
	if _, err := merge.Into(t.Context(), job); !errors.As(err, &refused) {
		t.Errorf("got the error %v", err)
	}
	w.is(t, `{"id":1,"v":"x"},{"id":2,"v":"y"},{"id":3,"v":"z"},{"id":null,"v":"n"},{"id":9,"v":"t"}`)
}

// TestIntoRetryStartsOverWhenTheTableChanged (R4), and honours identifiers of
// winners (R5).
func TestIntoRetryStartsOverWhenTheTableChanged(t *testing.T) {
	w := twoColumns.table(t)
	job := w.prepare(t, upsertAll, twoColumns.ddl, `{"id":1,"v":"m"}`)
	hook(job, func(int) error {
		snap, err := w.snapshot()
		if err != nil {
			return err
		}
		md := *snap.Metadata()
		md.Configuration = map[string]string{"x": "y"}
		_, err = w.table.TryCommit(t.Context(), snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md})
		return err
	})
	if _, err := merge.Into(t.Context(), job); !errors.Is(err, merge.ErrTableChanged) {
		t.Errorf("got the error %v, want %v", err, merge.ErrTableChanged)
	}
	for _, c := range []struct {
		winner  int64
		applied bool
	}{{6, false}, {7, true}, {9, true}} {
		w := twoColumns.table(t)
		job := w.prepare(t, upsertAll, twoColumns.ddl, `{"id":1,"v":"m"}`)
		job.Identifier = &deltatable.Txn{AppID: "app", Version: 7}
		hook(job, func(attempt int) error {
			if attempt > 1 {
				return nil
			}
			other := w.prepare(t, upsertAll, twoColumns.ddl, `{"id":2,"v":"theirs"}`)
			other.Identifier = &deltatable.Txn{AppID: "app", Version: c.winner}
			w.must(t, other)
			return nil
		})
		if res := w.must(t, job); res.AlreadyApplied != c.applied {
			t.Errorf("winner %d: already applied is %v", c.winner, res.AlreadyApplied)
		}
		again := w.prepare(t, upsertAll, twoColumns.ddl, `{"id":1,"v":"again"}`)
		again.Identifier = job.Identifier
		if res := w.must(t, again); !res.AlreadyApplied || res.Version != nil {
			t.Errorf("the same identifier again: %+v", res)
		}
	}
}

// TestIntoRetryKeepsOutputsThatNoWinnerTouched (R3).
func TestIntoRetryKeepsOutputsThatNoWinnerTouched(t *testing.T) {
	spec := intoSpec{ddl: "id long, v string", props: small, files: []string{`{"id":1,"v":"a"}`, `{"id":2,"v":"a"}`, `{"id":3,"v":"a"}`}}
	for _, c := range []struct {
		winner        intoWinner
		kept, rebuilt int
		rows          string
	}{
		{replaces(3, `{"id":3,"v":"t"}`), 3, 0, `{"id":1,"v":"m"},{"id":2,"v":"m"},{"id":3,"v":"t"},{"id":9,"v":"m"}`},
		{replaces(1, `{"id":1,"v":"t"}`), 2, 1, `{"id":1,"v":"m"},{"id":2,"v":"m"},{"id":3,"v":"a"},{"id":9,"v":"m"}`},
		{appends(`{"id":9,"v":"t"}`), 2, 1, `{"id":1,"v":"m"},{"id":2,"v":"m"},{"id":3,"v":"a"},{"id":9,"v":"m"}`},
	} {
		w := spec.table(t)
		job := w.prepare(t, upsertAll, spec.ddl, `{"id":1,"v":"m"},{"id":2,"v":"m"},{"id":9,"v":"m"}`)
		hook(job, func(attempt int) error {
			if attempt == 1 {
				c.winner(t, w)
			}
			return nil
		})
		res := w.must(t, job)
		if res.Stats.OutputsKept != c.kept || res.Stats.OutputsRebuilt != c.rebuilt {
			t.Errorf("kept %d outputs and rebuilt %d, want %d and %d", res.Stats.OutputsKept, res.Stats.OutputsRebuilt, c.kept, c.rebuilt)
		}
		w.is(t, c.rows)
	}
}
