package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/merge/change"
)

// writeLines makes an input file.
func writeLines(t testing.TB, lines ...string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "batch-*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// readLines reads a table as JSON Lines.
func readLines(t testing.TB, j ReadJob) []string {
	t.Helper()
	var out bytes.Buffer
	j.Format, j.Out = rowfile.JSONL, &out
	if _, err := Read(t.Context(), &Env{}, &j); err != nil {
		t.Fatal(err)
	}
	if out.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func memURL(t testing.TB) string {
	return "mem://" + strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
}

func TestSortedReadsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type item struct {
			id, a int64
			b     string
			null  bool
		}
		n := rapid.IntRange(0, 60).Draw(rt, "n")
		items := make([]item, n)
		lines := make([]string, n)
		for i := range items {
			it := item{int64(i), rapid.Int64Range(-3, 3).Draw(rt, "a"), rapid.SampledFrom([]string{"", "x", "xy", "é"}).Draw(rt, "b"), rapid.Bool().Draw(rt, "null")}
			items[i] = it
			b := fmt.Sprintf("%q", it.b)
			if it.null {
				b = "null"
			}
			lines[i] = fmt.Sprintf(`{"id":%d,"a":%d,"b":%s,"tags":["t%d",null],"m":{"$map":[["k",%d]]},"s":{"x":%d}}`, it.id, it.a, b, it.id, it.id, it.id)
		}
		dir := filepath.Join(t.TempDir(), "t") // TempDir is new for each call
		job := &AppendJob{Table: dir, Files: []string{writeLines(t, lines...)}, Schema: "id long, a long, b string, tags array<string>, m map<string,int>, s struct<x:int>"}
		if _, err := Append(t.Context(), &Env{}, job); err != nil {
			rt.Fatal(err)
		}
		limit := rapid.Int64Range(-1, 70).Draw(rt, "limit")
		slices.SortStableFunc(items, func(x, y item) int {
			switch {
			case x.null != y.null && x.null:
				return 1 // b desc: NULL, the least, comes last
			case x.null != y.null:
				return -1
			case !x.null && x.b != y.b:
				return -strings.Compare(x.b, y.b)
			case x.a != y.a:
				return int(x.a - y.a)
			}
			return int(x.id - y.id)
		})
		var want []string
		for _, it := range items {
			if limit >= 0 && int64(len(want)) == limit {
				break
			}
			want = append(want, fmt.Sprintf(`{"s":{"x":%d},"m":{"$map":[["k",%d]]},"tags":["t%d",null],"id":%d}`, it.id, it.id, it.id, it.id))
		}
		got := readLines(t, ReadJob{Table: dir, Columns: []string{"s", "m", "tags", "id"}, OrderBy: []string{"B DESC", "a", "id asc"}, Limit: limit})
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatal(d)
		}
	})
}

func TestSorterWithLimitKeepsFewRows(t *testing.T) {
	const rows = 300_000
	lines := make([]string, rows)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"id":%d}`, i*7919%rows)
	}
	table := memURL(t)
	if _, err := Append(t.Context(), &Env{}, &AppendJob{Table: table, Files: []string{writeLines(t, lines...)}, Schema: "id long"}); err != nil {
		t.Fatal(err)
	}
	got := readLines(t, ReadJob{Table: table, OrderBy: []string{"id desc"}, Limit: 3})
	if d := cmp.Diff([]string{`{"id":299999}`, `{"id":299998}`, `{"id":299997}`}, got); d != "" {
		t.Error(d)
	}
	all := readLines(t, ReadJob{Table: table, OrderBy: []string{"id"}, Limit: -1})
	if len(all) != rows || all[0] != `{"id":0}` || all[rows-1] != `{"id":299999}` {
		t.Errorf("%d rows from %s to %s", len(all), all[0], all[len(all)-1])
	}
}

// Two writers of one identifier: one is applied, the other finds it so.
func TestConcurrentAppends(t *testing.T) {
	const writers = 6
	for range 10 {
		dir := filepath.Join(t.TempDir(), "t")
		var g errgroup.Group
		reports := make([]*AppendReport, writers)
		for w := range writers {
			file := writeLines(t, fmt.Sprintf(`{"id":%d,"day":"2024-01-0%d"}`, w, w+1))
			g.Go(func() (err error) {
				job := &AppendJob{Table: dir, Files: []string{file}, Schema: "id long, day date", PartitionBy: []string{"day"}}
				if w < 2 {
					job.AppID, job.AppVersion = "feed", 7
				}
				reports[w], err = Append(context.Background(), &Env{}, job)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		applied, versions := 0, map[deltatable.Version]bool{}
		for _, r := range reports {
			if r.Version != nil {
				versions[*r.Version] = true
				applied++
			} else if !r.AlreadyApplied {
				t.Errorf("no version and no reason: %+v", r)
			}
		}
		if applied != writers-1 || len(versions) != writers-1 {
			t.Errorf("%d appends made %d versions, want %d", applied, len(versions), writers-1)
		}
		if got := readLines(t, ReadJob{Table: dir, Limit: -1}); len(got) != writers-1 {
			t.Errorf("%d rows, want %d", len(got), writers-1)
		}
	}
}

func TestConcurrentCreatesMakeOneTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	var g errgroup.Group
	made := make([]bool, 8)
	for i := range made {
		g.Go(func() error {
			_, err := Create(context.Background(), &Env{}, &CreateJob{Table: dir, Schema: "id long"})
			made[i] = err == nil
			if err != nil && !strings.Contains(err.Error(), "there is a table already") {
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := len(slices.DeleteFunc(made, func(b bool) bool { return !b })); n != 1 {
		t.Errorf("%d creates succeeded", n)
	}
}

// A property set beside running batches: neither is lost.
func TestSetPropertiesBesideAppends(t *testing.T) {
	table := filepath.Join(t.TempDir(), "t")
	if _, err := Create(t.Context(), &Env{}, &CreateJob{Table: table, Schema: "id long"}); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	for w := range 4 {
		g.Go(func() error {
			_, err := SetProperties(context.Background(), &Env{}, table, []string{fmt.Sprintf("k%d=v", w)})
			return err
		})
		file := writeLines(t, fmt.Sprintf(`{"id":%d}`, w))
		g.Go(func() error {
			_, err := Append(context.Background(), &Env{}, &AppendJob{Table: table, Files: []string{file}})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	d, err := Describe(t.Context(), &Env{}, table)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"k0": "v", "k1": "v", "k2": "v", "k3": "v"}
	if diff := cmp.Diff(want, d.Properties); diff != "" || *d.Rows != 4 || d.Version != 8 {
		t.Errorf("version %d, %d rows, properties %s", d.Version, *d.Rows, diff)
	}
}

func TestParseTimestamp(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zone data: ", err)
	}
	for text, want := range map[string]string{
		"2024-01-31T12:00:00Z":           "2024-01-31T12:00:00Z",
		" 2024-01-31 12:00:00.25+01:00 ": "2024-01-31T11:00:00.25Z",
		"2024-07-31T12:00Z":              "2024-07-31T12:00:00Z",
		"2024-07-31 12:00:00":            "2024-07-31T10:00:00Z",
		"2024-07-31 12:00":               "2024-07-31T10:00:00Z",
		"2024-01-31":                     "2024-01-30T23:00:00Z",
		"2024-01-31T12:00:00.123456789Z": "2024-01-31T12:00:00.123456789Z",
	} {
		at, err := ParseTimestamp(text, berlin)
		if got := at.UTC().Format(time.RFC3339Nano); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "now", "2024-13-01", "12:00", "2024-01-31T25:00:00Z", "1706702400"} {
		var ue *UsageError
		if _, err := ParseTimestamp(bad, berlin); !errors.As(err, &ue) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if _, err := ParseTimestamp("2024-01-31", nil); err == nil || !strings.Contains(err.Error(), "has no time zone") {
		t.Errorf("without a zone: got %v", err)
	}
}

func TestSplitProperties(t *testing.T) {
	props, outcomes, err := SplitProperties([]string{"a=b=c", " k =", "deltafold.outcomes=none"})
	if diff := cmp.Diff(map[string]string{"a": "b=c", "k": ""}, props); err != nil || diff != "" || outcomes != "none" {
		t.Errorf("%s %q %v", diff, outcomes, err)
	}
	for _, bad := range []string{"a", "=b", "deltafold.keys=[]", "deltafold.outcomes=", "deltafold.mode=plain"} {
		if _, _, err := SplitProperties([]string{bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestActiveViewOfEachStatusForm(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  RoleFlags
		schema string
		rows   []string
		want   []string
	}{
		{"word", RoleFlags{}, defaultDDL, []string{
			`{"change_id":"1","entity_id":"a","source_version":1,"operation":"upsert","value":"x"}`,
			`{"change_id":"2","entity_id":"b","source_version":1,"operation":"delete","value":null}`,
			`{"change_id":"3","entity_id":"c","source_version":1,"operation":"upsert","value":"x"}`,
			`{"change_id":"4","entity_id":"c","source_version":1,"operation":"upsert","value":"y"}`,
		}, []string{`{"entity_id":"a"}`}},
		{"boolean", RoleFlags{Keys: []string{"entity_id"}, Versions: []string{"v"}, Deleted: "gone", OnConflict: "reject"}, "entity_id string, v long, gone boolean, p string", []string{
			`{"entity_id":"a","v":1,"gone":false,"p":"x"}`, `{"entity_id":"b","v":1,"gone":true,"p":null}`,
		}, []string{`{"entity_id":"a"}`}},
		{"none", RoleFlags{Keys: []string{"entity_id"}, Versions: []string{"v"}, Status: NoStatus, OnConflict: "reject"}, "entity_id string, v long, p string", []string{
			`{"entity_id":"a","v":1,"p":"x"}`, `{"entity_id":"b","v":1,"p":"y"}`,
		}, []string{`{"entity_id":"a"}`, `{"entity_id":"b"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "t")
			_, err := Apply(t.Context(), &Env{}, &ApplyJob{Table: table, Files: []string{writeLines(t, c.rows...)}, Schema: c.schema, Roles: c.flags})
			if err != nil {
				t.Fatal(err)
			}
			got := readLines(t, ReadJob{Table: table, Active: true, Columns: []string{"entity_id"}, OrderBy: []string{"entity_id"}, Limit: -1})
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			got = readLines(t, ReadJob{Table: table, Active: true, Where: "entity_id > 'a' OR entity_id = 'a'", Columns: []string{"entity_id"}, OrderBy: []string{"entity_id"}, Limit: -1})
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// An output file is whole or not there, also when the reading fails.
func TestOutputFileIsWholeOrAbsent(t *testing.T) {
	table, out := filepath.Join(t.TempDir(), "t"), filepath.Join(t.TempDir(), "rows.jsonl")
	for i := range 2 {
		if _, err := Append(t.Context(), &Env{}, &AppendJob{Table: table, Files: []string{writeLines(t, fmt.Sprintf(`{"id":%d}`, i))}, Schema: "id long"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(out, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(table, "*.parquet"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v %v", files, err)
	}
	data, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[1], data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), &Env{}, &ReadJob{Table: table, Limit: -1, Output: out}); err == nil {
		t.Fatal("a cut data file was read")
	}
	left, err := os.ReadFile(out)
	if err != nil || string(left) != "before\n" {
		t.Errorf("the output is %q, %v", left, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestAdoptBesideAnAppend(t *testing.T) {
	table := filepath.Join(t.TempDir(), "t")
	row := `{"k":"%s","v":1,"status":"active","p":"x"}`
	appendRow := func(key string) {
		t.Helper()
		if _, err := Append(t.Context(), &Env{}, &AppendJob{Table: table, Files: []string{writeLines(t, fmt.Sprintf(row, key))}, Schema: "k string, v long, status string, p string"}); err != nil {
			t.Fatal(err)
		}
	}
	appendRow("a")
	// A row with the same key lands while adopt checks: it must be found.
	e := &Env{Progress: func(step string) {
		if strings.HasPrefix(step, "checking the rows of version 0") {
			appendRow("a")
		}
	}}
	_, err := Adopt(t.Context(), e, &AdoptJob{Table: table, Roles: RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}}})
	if err == nil || !strings.Contains(err.Error(), "more than one row with one key") {
		t.Errorf("got %v", err)
	}
	d, err := Describe(t.Context(), &Env{}, table)
	if err != nil || d.Mode != change.Plain {
		t.Errorf("mode %s, %v", d.Mode, err)
	}
}

// TestOutcomesLocation: a relative path in deltafold.outcomes is made absolute;
// our own properties are ours in any case of letters.
func TestOutcomesLocation(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"none": "none", "o": filepath.Join(here, "o"), "./a/../o": filepath.Join(here, "o"), "/abs/o": "/abs/o",
		"mem://o": "mem://o", "file:///o%20p": "file:///o%20p",
	} {
		if _, got, err := SplitProperties([]string{"deltafold.outcomes=" + given}); err != nil || got != want {
			t.Errorf("%s: got %q, %v", given, got, err)
		}
	}
	for _, bad := range []string{"DELTAFOLD.KEYS=[]", "Deltafold.Outcomes=none"} {
		if _, _, err := SplitProperties([]string{bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestSplitURL(t *testing.T) {
	for location, want := range map[string][2]string{
		"file:///a/b.jsonl":      {"file:///a", "b.jsonl"},
		"file:///b%20c%25.jsonl": {"file:///", "b c%.jsonl"},
		"file:///a%20b/c.jsonl":  {"file:///a%20b", "c.jsonl"},
		"mem://store/b%20.jsonl": {"mem://store", "b%20.jsonl"},
		"s3://bucket/x/y.csv":    {"s3://bucket", "x/y.csv"},
	} {
		dir, key, err := splitURL(location)
		if err != nil || [2]string{dir, key} != want {
			t.Errorf("%s: got %s and %s, %v", location, dir, key, err)
		}
	}
	for _, bad := range []string{"file:///a/", "file:///a/%zz"} {
		if _, _, err := splitURL(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// TestSetPropertiesOfAForeignTable: what only a new table of ours must not be,
// here partitioned by a binary column, does not matter.
func TestSetPropertiesOfAForeignTable(t *testing.T) {
	e, url := &Env{}, memURL(t)
	table, err := e.OpenTable(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := deltatable.ParseDDL("b binary, v long")
	if err != nil {
		t.Fatal(err)
	}
	md, p, err := deltatable.NewTableMetadata(ds, nil, map[string]string{"delta.checkpointInterval": "5"})
	if err != nil {
		t.Fatal(err)
	}
	md.PartitionColumns = []string{"b"}
	md.Configuration["delta.minReaderVersion"] = "1"
	if _, err := table.TryCommit(t.Context(), nil, &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: p}); err != nil {
		t.Fatal(err)
	}
	rep, err := SetProperties(t.Context(), e, url, []string{"owner=us"})
	if err != nil || rep.Version == nil {
		t.Fatalf("%+v, %v", rep, err)
	}
}

// A batch that is refused while its second partition is written leaves no file.
func TestRefusedAppendLeavesNoFile(t *testing.T) {
	table := filepath.Join(t.TempDir(), "t")
	if _, err := Create(t.Context(), &Env{}, &CreateJob{Table: table, Schema: "id long not null, day date", PartitionBy: []string{"day"}}); err != nil {
		t.Fatal(err)
	}
	file := writeLines(t, `{"id":1,"day":"2024-01-01"}`, `{"id":null,"day":"2024-01-02"}`)
	_, err := Append(t.Context(), &Env{}, &AppendJob{Table: table, Files: []string{file}})
	var ve *deltatable.ValueError
	if !errors.As(err, &ve) {
		t.Fatalf("got %v", err)
	}
	err = filepath.WalkDir(table, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".parquet") {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
