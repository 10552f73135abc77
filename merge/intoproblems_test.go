package merge_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
)

// intoSpec is a table of a test: its DDL, and its rows as JSON objects, one list
// a commit.
type intoSpec struct {
	ddl   string
	parts []string
	props map[string]string
	files []string
}

func ddlSchema(t testing.TB, ddl string) *arrow.Schema {
	t.Helper()
	ds, err := deltatable.ParseDDL(ddl)
	if err != nil {
		t.Fatal(err)
	}
	sch, err := ds.Arrow()
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

// jsonRows are the rows of JSON objects with commas between them.
func jsonRows(t testing.TB, sch *arrow.Schema, objects string) []tabletest.Row {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sch, strings.NewReader("["+objects+"]"))
	if err != nil {
		t.Fatal(err)
	}
	return tabletest.Rows(rec)
}

func (s intoSpec) table(t testing.TB) *intoTable {
	t.Helper()
	sch := ddlSchema(t, s.ddl)
	var files [][]tabletest.Row
	for _, f := range s.files {
		files = append(files, jsonRows(t, sch, f))
	}
	w, err := newIntoTable(t.Context(), sch, s.parts, s.props, files...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// small keeps files alone.
var small = map[string]string{"delta.targetFileSize": "8"}

// prepare is a run of a statement whose source has the rows of the JSON objects.
func (w *intoTable) prepare(t testing.TB, sql, sourceDDL, objects string) *merge.IntoJob {
	t.Helper()
	sch := ddlSchema(t, sourceDDL)
	job, err := w.job(sql, sourceBatch(nil, sch, jsonRows(t, sch, objects)))
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func (w *intoTable) must(t testing.TB, job *merge.IntoJob) *merge.Result {
	t.Helper()
	res, err := merge.Into(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// is compares the table's rows with JSON objects.
func (w *intoTable) is(t testing.TB, objects string) {
	t.Helper()
	rows, err := w.rowsAt(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tabletest.RowTexts(w.sch, jsonRows(t, w.sch, objects)), tabletest.RowTexts(w.sch, rows)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// refuses checks that a statement fails with an error that target takes, and
// leaves the table as it was.
func (w *intoTable) refuses(t testing.TB, job *merge.IntoJob, target any, words ...string) {
	t.Helper()
	before, err := w.keys()
	if err != nil {
		t.Fatal(err)
	}
	_, err = merge.Into(t.Context(), job)
	if err == nil || !errors.As(err, target) {
		t.Fatalf("got the error %v, want a %T", err, target)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not name %q", err, word)
		}
	}
	after, err := w.keys()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

const upsertAll = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

var twoColumns = intoSpec{ddl: "id long, v string", files: []string{`{"id":1,"v":"x"},{"id":2,"v":"y"}`, `{"id":3,"v":"z"},{"id":null,"v":"n"}`}}

// TestIntoNamesKeysMatchedTwice: delta-rs wrote extra rows instead (B1).
func TestIntoNamesKeysMatchedTwice(t *testing.T) {
	w := twoColumns.table(t)
	job := w.prepare(t, "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *", twoColumns.ddl,
		`{"id":1,"v":"a"},{"id":2,"v":"b"},{"id":1,"v":"c"},{"id":2,"v":"d"},{"id":1,"v":"e"}`)
	w.refuses(t, job, new(*merge.CardinalityError), "id=1", "id=2")
}

// TestIntoMatchesEachRowOnce: row numbers that start again with each batch made
// clean merges fail beyond 8,192 rows (B2).
func TestIntoMatchesEachRowOnce(t *testing.T) {
	for _, n := range []int{8192, 8193, 25_000, 100_000} {
		if n > 25_000 && (testing.Short() || raceEnabled) {
			continue
		}
		for _, props := range []map[string]string{nil, {"delta.targetFileSize": "20000"}} {
			sch := ddlSchema(t, "id long, v string")
			rows := make([]tabletest.Row, n)
			for i := range rows {
				rows[i] = tabletest.Row{"id": int64(i * 7 % n), "v": fmt.Sprint("v", i)}
			}
			w, err := newIntoTable(t.Context(), sch, nil, props, rows)
			if err != nil {
				t.Fatal(err)
			}
			job, err := w.job(upsertAll, sourceBatch(nil, sch, rows))
			if err != nil {
				t.Fatal(err)
			}
			job.Self = true
			res := w.must(t, job)
			if got := res.Stats; got.Updated != int64(n) || got.Inserted != 0 || got.Deleted != 0 {
				t.Errorf("%d rows: %d updated, %d inserted, %d deleted", n, got.Updated, got.Inserted, got.Deleted)
			}
			if diff := cmp.Diff(map[string]int64{"updated": int64(n)}, countsOf(res)); diff != "" {
				t.Errorf("%d rows: outcomes (-want +got):\n%s", n, diff)
			}
			got, err := w.rowsAt(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(tabletest.RowTexts(sch, rows), tabletest.RowTexts(sch, got)) {
				t.Errorf("%d rows: the merge of a table with itself changed it", n)
			}
		}
	}
}

func countsOf(res *merge.Result) map[string]int64 {
	out := map[string]int64{}
	for k, n := range res.Counts {
		if n > 0 {
			out[string(k)] = n
		}
	}
	return out
}

// TestIntoAllowsHarmlessSecondMatches: legal merges were refused (B3).
func TestIntoAllowsHarmlessSecondMatches(t *testing.T) {
	source := `{"id":1,"v":"a"},{"id":1,"v":"b"}`
	on := "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED "
	w := twoColumns.table(t)
	res := w.must(t, w.prepare(t, on+"AND s.v = 'b' THEN UPDATE SET v = s.v", twoColumns.ddl, source))
	w.is(t, `{"id":1,"v":"b"},{"id":2,"v":"y"},{"id":3,"v":"z"},{"id":null,"v":"n"}`)
	if diff := cmp.Diff([]string{"matched_unchanged", "updated"}, flat(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}

	w = twoColumns.table(t)
	res = w.must(t, w.prepare(t, on+"THEN DELETE", twoColumns.ddl, source))
	w.is(t, `{"id":2,"v":"y"},{"id":3,"v":"z"},{"id":null,"v":"n"}`)
	if diff := cmp.Diff([]string{"deleted", "deleted"}, flat(res)); diff != "" || res.Stats.Deleted != 1 {
		t.Errorf("%d rows deleted, outcomes (-want +got):\n%s", res.Stats.Deleted, diff)
	}

	w = twoColumns.table(t)
	w.refuses(t, w.prepare(t, on+"AND s.v > '' THEN DELETE", twoColumns.ddl, source), new(*merge.CardinalityError), "id=1")
	w.refuses(t, w.prepare(t, on+"AND s.v = 'a' THEN UPDATE SET v = 'c' WHEN MATCHED THEN DELETE", twoColumns.ddl, source), new(*merge.CardinalityError), "id=1")
}

// TestIntoReachesWhatTheSourceLacks: files that were ruled out by the source's
// keys can still be not matched by it (B6).
func TestIntoReachesWhatTheSourceLacks(t *testing.T) {
	spec := intoSpec{ddl: "id long, p string", parts: []string{"p"}, files: []string{
		`{"id":1,"p":"A"},{"id":2,"p":"A"}`, `{"id":3,"p":"B"},{"id":4,"p":"B"}`, `{"id":5,"p":null}`,
	}}
	const upsert = "MERGE INTO t USING s ON t.p = s.p AND t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE "
	w := spec.table(t)
	w.must(t, w.prepare(t, upsert+"THEN DELETE", spec.ddl, `{"id":1,"p":"A"}`))
	w.is(t, `{"id":1,"p":"A"}`)

	w = spec.table(t)
	before := w.paths(t)
	w.must(t, w.prepare(t, upsert+"AND t.p = 'A' THEN DELETE", spec.ddl, `{"id":1,"p":"A"}`))
	w.is(t, `{"id":1,"p":"A"},{"id":3,"p":"B"},{"id":4,"p":"B"},{"id":5,"p":null}`)
	after := w.paths(t)
	for path, part := range before {
		if _, still := after[path]; still != (part != "A") {
			t.Errorf("the file %s of partition %s is still live: %v", path, part, still)
		}
	}
	snap, err := w.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	entry, err := w.table.Entry(t.Context(), snap.Version())
	if err != nil {
		t.Fatal(err)
	}
	if n := entry.Info.OperationMetrics["numTargetRowsNotMatchedBySourceDeleted"]; n != "1" {
		t.Errorf("numTargetRowsNotMatchedBySourceDeleted is %s", n)
	}
}

// paths are the live files with their value of the first partition column.
func (w *intoTable) paths(t testing.TB) map[string]string {
	t.Helper()
	snap, err := w.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, a := range snap.Files() {
		out[a.Path] = ""
		if len(w.parts) > 0 && a.PartitionValues[w.parts[0]] != nil {
			out[a.Path] = *a.PartitionValues[w.parts[0]]
		}
	}
	return out
}

// TestIntoDeletesWhatMatched: a delete was wired to the wrong clause (B7).
func TestIntoDeletesWhatMatched(t *testing.T) {
	w := twoColumns.table(t)
	w.must(t, w.prepare(t, "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v = 'q' THEN DELETE", twoColumns.ddl, `{"id":2,"v":"q"},{"id":3,"v":"r"}`))
	w.is(t, `{"id":1,"v":"x"},{"id":3,"v":"z"},{"id":null,"v":"n"}`)
	snap, err := w.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	entry, err := w.table.Entry(t.Context(), snap.Version())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, k := range []string{"matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates"} {
		got[k] = entry.Info.OperationParameters[k]
	}
	want := map[string]string{
		"matchedPredicates":    `[{"predicate":"s.v = 'q'","actionType":"delete"}]`,
		"notMatchedPredicates": "[]", "notMatchedBySourcePredicates": "[]",
	}
	if diff := cmp.Diff(want, got); diff != "" || entry.Info.Operation != "MERGE" {
		t.Errorf("%s (-want +got):\n%s", entry.Info.Operation, diff)
	}
}

// TestIntoKeepsRowsOfNullConditions: NOT of a NULL condition is no yes (B8).
func TestIntoKeepsRowsOfNullConditions(t *testing.T) {
	spec := intoSpec{ddl: "id long, x int", files: []string{`{"id":1,"x":1},{"id":2,"x":9},{"id":3,"x":null}`}}
	source := `{"id":1,"x":0},{"id":2,"x":0},{"id":3,"x":0},{"id":4,"x":null},{"id":5,"x":7}`
	for _, c := range []struct{ clauses, want string }{
		{"WHEN MATCHED AND t.x > 5 THEN DELETE", `{"id":1,"x":1},{"id":3,"x":null}`},
		{"WHEN MATCHED AND NOT (t.x > 5) THEN DELETE", `{"id":2,"x":9},{"id":3,"x":null}`},
		{"WHEN MATCHED AND t.x > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET x = s.x", `{"id":1,"x":0},{"id":3,"x":0}`},
		{"WHEN MATCHED AND NULL THEN DELETE", `{"id":1,"x":1},{"id":2,"x":9},{"id":3,"x":null}`},
		{"WHEN NOT MATCHED AND s.x > 5 THEN INSERT *", `{"id":1,"x":1},{"id":2,"x":9},{"id":3,"x":null},{"id":5,"x":7}`},
		{"WHEN NOT MATCHED AND NOT (s.x > 5) THEN INSERT *", `{"id":1,"x":1},{"id":2,"x":9},{"id":3,"x":null}`},
	} {
		w := spec.table(t)
		w.must(t, w.prepare(t, "MERGE INTO t USING s ON t.id = s.id "+c.clauses, spec.ddl, source))
		t.Log(c.clauses)
		w.is(t, c.want)
	}
	for cond, want := range map[string]string{
		"t.x > 5":       `{"id":1,"x":1},{"id":3,"x":null}`,
		"NOT (t.x > 5)": `{"id":2,"x":9},{"id":3,"x":null}`,
		"t.x IS NULL":   `{"id":1,"x":1},{"id":2,"x":9}`,
	} {
		w := spec.table(t)
		w.must(t, w.prepare(t, "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND "+cond+" THEN DELETE", spec.ddl, ""))
		w.is(t, want)
	}
}

// TestIntoMatchesColumnsByName: positions swapped partition values (B10).
func TestIntoMatchesColumnsByName(t *testing.T) {
	spec := intoSpec{ddl: "bar string, foo string, id long, value int", parts: []string{"bar", "foo"}, files: []string{
		`{"bar":"b1","foo":"f1","id":1,"value":1},{"bar":"b2","foo":"f2","id":2,"value":2}`,
	}}
	w := spec.table(t)
	w.must(t, w.prepare(t, upsertAll, "extra string, foo string, VALUE int, Bar string, id long",
		`{"extra":"e","foo":"F1","VALUE":10,"Bar":"b1","id":1},{"extra":"e","foo":"f3","VALUE":30,"Bar":"b3","id":3}`))
	w.is(t, `{"bar":"b1","foo":"F1","id":1,"value":10},{"bar":"b2","foo":"f2","id":2,"value":2},{"bar":"b3","foo":"f3","id":3,"value":30}`)
}

// TestIntoEmptySourceReadsNothing: memory grew until it ran out (B11).
func TestIntoEmptySourceReadsNothing(t *testing.T) {
	w := twoColumns.table(t)
	res := w.must(t, w.prepare(t, upsertAll, twoColumns.ddl, ""))
	if res.Version != nil || res.Stats.FilesProbed != 0 || len(flat(res)) != 0 {
		t.Errorf("version %v, %d files read, outcomes %v", res.Version, res.Stats.FilesProbed, flat(res))
	}
	res = w.must(t, w.prepare(t, upsertAll+" WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET v = 'gone'", twoColumns.ddl, ""))
	if res.Stats.FilesProbed != 1 {
		t.Errorf("%d files read", res.Stats.FilesProbed)
	}
	w.is(t, `{"id":1,"v":"x"},{"id":2,"v":"y"},{"id":3,"v":"gone"},{"id":null,"v":"n"}`)
}

// TestIntoEmptyTable: everything is inserted, nothing else happens.
func TestIntoEmptyTable(t *testing.T) {
	for _, parts := range [][]string{nil, {"v"}} {
		w := intoSpec{ddl: "id long, v string", parts: parts}.table(t)
		res := w.must(t, w.prepare(t, upsertAll+" WHEN NOT MATCHED BY SOURCE THEN DELETE", w.spelled(), `{"id":1,"v":"a"},{"id":1,"v":"a"},{"id":null,"v":null}`))
		w.is(t, `{"id":1,"v":"a"},{"id":1,"v":"a"},{"id":null,"v":null}`)
		if diff := cmp.Diff([]string{"inserted", "inserted", "inserted"}, flat(res)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	}
}

func (w *intoTable) spelled() string { return "id long, v string" }

// TestIntoNeverTurnsValuesIntoNull: casts were lenient (B12).
func TestIntoNeverTurnsValuesIntoNull(t *testing.T) {
	spec := intoSpec{ddl: "id long, n int, s string", files: []string{`{"id":1,"n":1,"s":"a"}`}}
	w := spec.table(t)
	const on = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET "
	for set, source := range map[string]string{"n = s.x": "id long, x string", "s = s.x": "id long, x int", "s = 99": "id long", "n = 'abc'": "id long", "n = s.x ": "id long, x boolean"} {
		w.refuses(t, w.prepare(t, on+set, source, `{"id":1}`), new(*expr.BindError), "cast")
	}
	bad := w.prepare(t, on+"n = CAST(s.x AS INT)", "id long, x string", `{"id":7,"x":"abc"},{"id":1,"x":"abc"}`)
	w.refuses(t, bad, new(*merge.ValueError), "abc", "row 1", "CAST")
	wide := w.prepare(t, on+"n = s.x", "id long, x long", `{"id":1,"x":2147483648}`)
	w.refuses(t, wide, new(*merge.ValueError), "2147483648", `n`, "row 1")
	insert := w.prepare(t, upsertAll, "id long, n long, s string", `{"id":1,"n":2,"s":"b"},{"id":2,"n":-2147483649,"s":"b"}`)
	w.refuses(t, insert, new(*merge.ValueError), "-2147483649", "source source-0 row 2")
	w.is(t, `{"id":1,"n":1,"s":"a"}`)

	w.must(t, w.prepare(t, on+"n = CAST(s.x AS INT), s = CAST(99 AS STRING)", "id long, x string", `{"id":7,"x":"abc"},{"id":1,"x":"7"}`))
	w.is(t, `{"id":1,"n":7,"s":"99"}`)
	w.must(t, w.prepare(t, on+"n = TRY_CAST(s.x AS INT)", "id long, x string", `{"id":1,"x":"abc"}`))
	w.is(t, `{"id":1,"n":null,"s":"99"}`)
	w.must(t, w.prepare(t, on+"n = s.x", "id long, x long", `{"id":1,"x":2147483647}`))
	w.is(t, `{"id":1,"n":2147483647,"s":"99"}`)
}

// TestIntoComparesFloatsOneWay: whether NaN and zeros matched depended on the
// join (B13). In ON, as everywhere, NaN equals NaN and -0.0 equals 0.0.
func TestIntoComparesFloatsOneWay(t *testing.T) {
	sch := ddlSchema(t, "d double, v string")
	target := []tabletest.Row{{"d": math.NaN(), "v": "nan"}, {"d": math.Copysign(0, -1), "v": "zero"}, {"d": 1.5, "v": "one"}, {"v": "null"}}
	source := []tabletest.Row{{"d": math.NaN(), "v": "N"}, {"d": 0.0, "v": "Z"}, {"d": 2.5, "v": "O"}, {"v": "null"}}
	for _, on := range []string{"t.d = s.d", "t.d <= s.d AND t.d >= s.d", "t.d BETWEEN s.d AND s.d", "NOT (t.d <> s.d)"} {
		w, err := newIntoTable(t.Context(), sch, nil, nil, target)
		if err != nil {
			t.Fatal(err)
		}
		job, err := w.job("MERGE INTO t USING s ON "+on+" WHEN MATCHED THEN UPDATE SET v = s.v", sourceBatch(nil, sch, source))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"updated", "updated", "not_matched", "not_matched"}, flat(w.must(t, job))); diff != "" {
			t.Errorf("%s: outcomes (-want +got):\n%s", on, diff)
		}
	}
}

// TestIntoEvolvesBesideNotNullColumns: the check looked at an intermediate row
// (B14).
func TestIntoEvolvesBesideNotNullColumns(t *testing.T) {
	w := intoSpec{ddl: "id long not null, v string", files: []string{`{"id":1,"v":"x"},{"id":2,"v":"y"}`}}.table(t)
	job := w.prepare(t, upsertAll, "id long, v string, extra int", `{"id":2,"v":"Y","extra":5},{"id":3,"v":"z","extra":6}`)
	job.Evolve = true
	w.must(t, job)
	w.sch = ddlSchema(t, "id long not null, v string, extra int")
	w.is(t, `{"id":1,"v":"x","extra":null},{"id":2,"v":"Y","extra":5},{"id":3,"v":"z","extra":6}`)
	null := w.prepare(t, upsertAll, "id long, v string, extra int", `{"id":null,"v":"Y","extra":5}`)
	before, err := w.keys()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merge.Into(t.Context(), null); err == nil || !strings.Contains(err.Error(), "id") {
		t.Errorf("a NULL for a column that takes none: got the error %v", err)
	}
	after, err := w.keys()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}
