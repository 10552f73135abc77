package merge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
)

// keyKind is a type of a key with three values, the second of which is what the
// other side has too.
type keyKind struct {
	ddl, class string
	values     [3]string // JSON
}

var keyKinds = []keyKind{
	{"byte", "number", [3]string{"-3", "1", "7"}},
	{"short", "number", [3]string{"-3", "1", "7"}},
	{"int", "number", [3]string{"-3", "1", "7"}},
	{"long", "number", [3]string{"-3", "1", "9007199254740993"}},
	{"float", "number", [3]string{"-3", "1", "7.5"}},
	{"double", "number", [3]string{"-3", "1", "7.5"}},
	{"decimal(10,2)", "number", [3]string{`"-3.00"`, `"1.00"`, `"7.25"`}},
	{"decimal(38,10)", "number", [3]string{`"-3.0000000000"`, `"1.0000000000"`, `"7.2500000001"`}},
	{"decimal(38,0)", "number", [3]string{`"-3"`, `"1"`, `"12345678901234567890123456789012345678"`}},
	{"boolean", "boolean", [3]string{"false", "true", "false"}},
	{"binary", "binary", [3]string{`"AA=="`, `"MQ=="`, `"/w=="`}},
	{"date", "time", [3]string{`"2020-01-01"`, `"2024-01-01"`, `"2030-01-01"`}},
	{"timestamp", "time", [3]string{`"2020-01-01 00:00:00Z"`, `"2024-01-01 00:00:00Z"`, `"2030-01-01 00:00:00Z"`}},
	{"timestamp_ntz", "time", [3]string{`"2020-01-01 00:00:00"`, `"2024-01-01 00:00:00"`, `"2030-01-01 00:00:00"`}},
}

// TestIntoComparesKeyTypes goes through every pair of key types: those that SQL
// compares match by value, in tables of several files that statistics may rule
// out; the others are refused by name.
func TestIntoComparesKeyTypes(t *testing.T) {
	pairs := 0
	for _, l := range keyKinds {
		for _, r := range keyKinds {
			for _, op := range []string{"=", "<=>"} {
				pairs++
				if err := comparePair(t, l, r, op); err != nil {
					t.Errorf("%s %s %s: %v", l.ddl, op, r.ddl, err)
				}
			}
		}
		// Text is read as a value of the other type.
		text := map[string]string{"number": "1", "boolean": "true", "binary": "1", "time": "2024-01-01"}[l.class]
		s := keyKind{"string", l.class, [3]string{`"` + text + `"`, `"` + text + `"`, `"` + text + `"`}}
		for _, p := range [][2]keyKind{{l, s}, {s, l}} {
			pairs++
			if err := comparePair(t, p[0], p[1], "="); err != nil {
				t.Errorf("%s = %s: %v", p[0].ddl, p[1].ddl, err)
			}
		}
	}
	t.Logf("%d pairs", pairs)
}

func comparePair(t *testing.T, l, r keyKind, op string) error {
	t.Helper()
	spec := intoSpec{ddl: "k " + l.ddl + ", v string", props: small}
	for i, v := range l.values {
		spec.files = append(spec.files, fmt.Sprintf(`{"k":%s,"v":"%d"}`, v, i))
	}
	spec.files = append(spec.files, `{"k":null,"v":"null"}`)
	w := spec.table(t)
	job := w.prepare(t, "MERGE INTO t USING s ON t.k "+op+" s.k WHEN MATCHED THEN UPDATE SET v = 'hit'", "k "+r.ddl, `{"k":`+r.values[1]+`}`)
	res, err := merge.Into(t.Context(), job)
	if l.class != r.class {
		var bind *expr.BindError
		if !errors.As(err, &bind) {
			return fmt.Errorf("want a refusal, got the error %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if out := flat(res); len(out) != 1 || out[0] != "updated" {
		return fmt.Errorf("outcomes %v", out)
	}
	rows, err := w.rowsAt(nil)
	if err != nil {
		return err
	}
	for _, row := range rows {
		hit := l.ddl == "string" || row["v"] == "hit" || row["v"] == "null" || row["v"] == "0" || row["v"] == "2"
		if !hit {
			return fmt.Errorf("the row %v was to be updated", row)
		}
	}
	return nil
}

// TestIntoNullKeys: NULL equals nothing under =, and NULL under <=>.
func TestIntoNullKeys(t *testing.T) {
	spec := intoSpec{ddl: "a long, b string, v string", props: small, files: []string{
		`{"a":null,"b":null,"v":"1"}`, `{"a":1,"b":null,"v":"2"}`, `{"a":null,"b":"x","v":"3"}`, `{"a":1,"b":"x","v":"4"}`,
	}}
	source := `{"a":null,"b":null,"v":"A"},{"a":1,"b":null,"v":"B"},{"a":null,"b":"x","v":"C"},{"a":1,"b":"x","v":"D"}`
	for on, want := range map[string][]string{
		"t.a = s.a AND t.b = s.b":               {"not_matched", "not_matched", "not_matched", "updated"},
		"t.a <=> s.a AND t.b = s.b":             {"not_matched", "not_matched", "updated", "updated"},
		"t.a = s.a AND s.b <=> t.b":             {"not_matched", "updated", "not_matched", "updated"},
		"t.a <=> s.a AND t.b <=> s.b":           {"updated", "updated", "updated", "updated"},
		"NOT (t.a <> s.a) AND NOT (t.b <> s.b)": {"not_matched", "not_matched", "not_matched", "updated"},
	} {
		w := spec.table(t)
		res := w.must(t, w.prepare(t, "MERGE INTO t USING s ON "+on+" WHEN MATCHED THEN UPDATE SET v = s.v", spec.ddl, source))
		if diff := cmp.Diff(want, flat(res)); diff != "" {
			t.Errorf("%s: outcomes (-want +got):\n%s", on, diff)
		}
	}
	// All columns of both sides are NULL, and nothing but.
	w := intoSpec{ddl: "id long, v string", files: []string{`{"id":null,"v":null},{"id":null,"v":null}`}}.table(t)
	res := w.must(t, w.prepare(t, upsertAll+" WHEN NOT MATCHED BY SOURCE AND t.v = 'x' THEN DELETE", "id long, v string", `{"id":null,"v":null}`))
	w.is(t, `{"id":null,"v":null},{"id":null,"v":null},{"id":null,"v":null}`)
	if diff := cmp.Diff([]string{"inserted"}, flat(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestIntoNamesWhateverTheirCase: names resolve without regard to case and keep
// the table's.
func TestIntoNamesWhateverTheirCase(t *testing.T) {
	spec := intoSpec{ddl: "`UserCode` long, `sElect` string, `é` int, `x.y` int, `1inch` string", files: []string{
		`{"UserCode":1,"sElect":"a","é":1,"x.y":1,"1inch":"i"}`,
	}}
	w := spec.table(t)
	w.must(t, w.prepare(t, "merge into T using S on T.USERCODE = s.usercode when matched then update set `SELECT` = s.`select`, T.`É` = S.`é` + 0, `X.Y` = s.`x.Y` "+
		"when not matched by target then insert (`1INCH`, usercode) values (s.`1Inch`, UserCode)",
		"`1inch` string, USERCODE long, `select` string, `É` int, `X.y` int",
		`{"1inch":"j","USERCODE":1,"select":"b","É":2,"X.y":3},{"1inch":"k","USERCODE":2,"select":"c","É":4,"X.y":5}`))
	w.is(t, `{"UserCode":1,"sElect":"b","é":2,"x.y":3,"1inch":"i"},{"UserCode":2,"sElect":null,"é":null,"x.y":null,"1inch":"k"}`)
	w.refuses(t, w.prepare(t, "MERGE INTO t USING s ON t.usercode = s.usercode WHEN MATCHED THEN UPDATE SET `É` = 1, `é` = 2", "usercode long", ""), new(*expr.BindError), "twice")
	w.refuses(t, w.prepare(t, "MERGE INTO t USING s ON usercode = 1 WHEN MATCHED THEN DELETE", "usercode long", ""), new(*expr.BindError), "ambiguous")
	w.refuses(t, w.prepare(t, "MERGE INTO t USING s ON t.usercode = s.usercode WHEN NOT MATCHED THEN INSERT *", "usercode long", ""), new(*expr.BindError), "sElect")
}

// TestIntoFilesOfOneKeyRange: no file is ruled out, and each row is found where
// it is.
func TestIntoFilesOfOneKeyRange(t *testing.T) {
	spec := intoSpec{ddl: "id long, v string", props: small, files: []string{
		`{"id":1,"v":"a"},{"id":5,"v":"a"},{"id":9,"v":"a"}`, `{"id":1,"v":"b"},{"id":6,"v":"b"},{"id":9,"v":"b"}`, `{"id":1,"v":"c"},{"id":9,"v":"c"}`,
	}}
	w := spec.table(t)
	before := w.paths(t)
	res := w.must(t, w.prepare(t, upsertAll, spec.ddl, `{"id":6,"v":"B"},{"id":7,"v":"N"}`))
	w.is(t, `{"id":1,"v":"a"},{"id":5,"v":"a"},{"id":9,"v":"a"},{"id":1,"v":"b"},{"id":6,"v":"B"},{"id":9,"v":"b"},{"id":1,"v":"c"},{"id":9,"v":"c"},{"id":7,"v":"N"}`)
	kept := 0
	for path := range w.paths(t) {
		if _, was := before[path]; was {
			kept++
		}
	}
	if kept != 2 || res.Stats.FilesRemoved != 1 {
		t.Errorf("%d files kept, %d removed", kept, res.Stats.FilesRemoved)
	}
	w.must(t, w.prepare(t, upsertAll, spec.ddl, `{"id":9,"v":"X"}`))
	w.is(t, `{"id":1,"v":"a"},{"id":5,"v":"a"},{"id":9,"v":"X"},{"id":1,"v":"b"},{"id":6,"v":"B"},{"id":9,"v":"X"},{"id":1,"v":"c"},{"id":9,"v":"X"},{"id":7,"v":"N"}`)
}

// TestIntoWideTables merges 500 columns by * and by one.
func TestIntoWideTables(t *testing.T) {
	var ddl, cells []string
	for i := range 499 {
		ddl = append(ddl, fmt.Sprintf("c%d int", i))
		cells = append(cells, fmt.Sprintf(`"c%d":%%[2]d%d`, i, i%10))
	}
	row := func(id, salt int) string { return fmt.Sprintf(`{"id":%[1]d,`+strings.Join(cells, ",")+"}", id, salt) }
	spec := intoSpec{ddl: "id long, " + strings.Join(ddl, ", "), files: []string{row(1, 1) + "," + row(2, 2), row(3, 3)}}
	w := spec.table(t)
	w.must(t, w.prepare(t, upsertAll, strings.Join(ddl, ", ")+", id long", row(2, 20)+","+row(4, 40)))
	w.is(t, row(1, 1)+","+row(2, 20)+","+row(3, 3)+","+row(4, 40))
	w.must(t, w.prepare(t, "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET c7 = s.c7", "id long, c7 int", `{"id":3,"c7":-1}`))
	w.is(t, row(1, 1)+","+row(2, 20)+","+strings.Replace(row(3, 3), `"c7":37`, `"c7":-1`, 1)+","+row(4, 40))
}

// TestIntoSourcesLargerThanTheTarget: a source of many batches for a table of a
// few rows.
func TestIntoSourcesLargerThanTheTarget(t *testing.T) {
	const n = 70_000
	sch := ddlSchema(t, "id long, v string")
	rows := make([]tabletest.Row, n)
	var want []tabletest.Row
	for i := range rows {
		rows[i] = tabletest.Row{"id": int64(i), "v": "s"}
		if i%7 == 0 || i == 3 {
			want = append(want, rows[i])
		}
	}
	w := intoSpec{ddl: "id long, v string", files: []string{`{"id":3,"v":"t"},{"id":70,"v":"t"},{"id":71,"v":"t"},{"id":-1,"v":"t"}`}}.table(t)
	want = append(want, tabletest.Row{"id": int64(-1), "v": "t"})
	job, err := w.job("MERGE INTO t USING s ON t.id = s.id AND s.id <> 71 WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.id % 7 = 0 THEN INSERT * "+
		"WHEN NOT MATCHED BY SOURCE AND t.id > 0 THEN DELETE", sourceBatch(nil, sch, rows))
	if err != nil {
		t.Fatal(err)
	}
	res := w.must(t, job)
	inserted := int64((n-1)/7 + 1 - 1) // but for 70, which matches
	if diff := cmp.Diff(map[string]int64{"updated": 2, "inserted": inserted, "not_matched": n - 2 - inserted}, countsOf(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	got, err := w.rowsAt(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tabletest.RowTexts(sch, want), tabletest.RowTexts(sch, got)); diff != "" {
		t.Errorf("rows (-want +got):\n%.2000s", diff)
	}
}

// TestIntoMovesRowsBetweenPartitions: an update of a partition column takes the
// row out of one partition and into another, once.
func TestIntoMovesRowsBetweenPartitions(t *testing.T) {
	spec := intoSpec{ddl: "id long, p string, d date", parts: []string{"p", "d"}, files: []string{
		`{"id":1,"p":"a","d":"2024-01-01"},{"id":2,"p":"a","d":null},{"id":3,"p":null,"d":null}`, `{"id":4,"p":"b/c d","d":"2024-01-01"}`,
	}}
	w := spec.table(t)
	w.must(t, w.prepare(t, "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.p WHEN NOT MATCHED THEN INSERT * "+
		"WHEN NOT MATCHED BY SOURCE AND t.p IS NULL THEN UPDATE SET d = DATE '2024-02-02', p = ''",
		spec.ddl, `{"id":1,"p":"b/c d","d":"2030-01-01"},{"id":2,"p":"a","d":null},{"id":4,"p":null,"d":null},{"id":5,"p":"%","d":null}`))
	w.is(t, `{"id":1,"p":"b/c d","d":"2024-01-01"},{"id":2,"p":"a","d":null},{"id":3,"p":null,"d":"2024-02-02"},{"id":4,"p":null,"d":"2024-01-01"},{"id":5,"p":"%","d":null}`)
	snap, err := w.snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range snap.Files() {
		rows, err := w.rowsOf(snap, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if p := a.PartitionValues["p"]; p == nil && row["p"] != nil || p != nil && row["p"] != *p {
				t.Errorf("row %v lies in the partition %v", row, a.PartitionValues)
			}
		}
	}
}
