package checkpoints

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// wide is a guarded table with all that testRoles has not: two keys, one of them a
// partition column, two version columns, a boolean status, nested payload.
func wide(t *testing.T) *world {
	roles := &change.Roles{
		Mode: change.Guarded, Keys: []string{"part", "id"}, Versions: []string{"day", "n"}, Deleted: "gone", Status: "gone",
		StatusForm: change.StatusBoolean, Payload: []string{"obj", "tags", "list", "price"}, Policy: change.Reject,
	}
	w := newWorld(t.Context(), t)
	w.table = newTable(t.Context(), t)
	sch, err := deltatable.ParseDDL("part string, id long, day date, n int, gone boolean, obj struct<a:string,b:double>, tags map<string,int>, list array<timestamp>, price decimal(10,2)")
	if err != nil {
		t.Fatal(err)
	}
	md, p, err := deltatable.NewTableMetadata(sch, []string{"part"}, roles.Properties())
	if err != nil {
		t.Fatal(err)
	}
	w.snap = w.commit(w.table, nil, &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: p})
	return w
}

const (
	wideA = `{"part":"x/y","id":1,"day":"2024-01-01","n":1,"gone":false,"obj":{"a":"q","b":1.5},"tags":[{"key":"m","value":1},{"key":"n","value":2}],"list":["2024-01-01T00:00:00Z"],"price":"1.50"}`
	wideB = `{"part":"x/y","id":2,"day":"2024-01-01","n":5,"gone":true}`
)

// wideVersion commits files that take the place of all others; each is a JSON array of rows.
func (w *world) wideVersion(t *testing.T, operation string, files ...string) {
	t.Helper()
	c := &deltatable.Commit{Operation: operation, Removes: slices.Clone(w.snap.Files())}
	for _, f := range files {
		c.Adds = append(c.Adds, w.write(w.table, w.snap, rowsOf(t, w.snap.Schema(), f))...)
	}
	w.snap = w.commit(w.table, w.snap, c)
}

func TestOtherShapes(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		check string // "": no finding
		key   string
	}{
		"the same":                   {[]string{`[` + wideB + `,` + wideA + `]`}, "", ""},
		"map in another order":       {[]string{`[` + replace(wideA, `{"key":"m","value":1},{"key":"n","value":2}`, `{"key":"n","value":2},{"key":"m","value":1}`) + `,` + wideB + `]`}, "", ""},
		"second version column less": {[]string{`[` + wideA + `,` + replace(wideB, `"n":5`, `"n":4`) + `]`}, CheckVersions, "x/y, 2"},
		"first version column wins":  {[]string{`[` + wideA + `,` + replace(replace(wideB, `"n":5`, `"n":4`), `2024-01-01`, `2024-01-02`) + `]`}, "", ""},
		"nested value":               {[]string{`[` + replace(wideA, `"b":1.5`, `"b":2.5`) + `,` + wideB + `]`}, CheckOthers, "x/y, 1"},
		"time in a list":             {[]string{`[` + replace(wideA, `00:00:00Z"]`, `00:00:00.000001Z"]`) + `,` + wideB + `]`}, CheckOthers, "x/y, 1"},
		"decimal":                    {[]string{`[` + replace(wideA, `1.50`, `1.51`) + `,` + wideB + `]`}, CheckOthers, "x/y, 1"},
		"payload of a tombstone":     {[]string{`[` + wideA + `,` + replace(wideB, `"gone":true`, `"gone":true,"price":"0.00"`) + `]`}, CheckForm, "x/y, 2"},
		"no status":                  {[]string{`[` + wideA + `,` + replace(wideB, `"gone":true`, `"gone":null`) + `]`}, CheckForm, "x/y, 2"},
		"no version":                 {[]string{`[` + wideA + `,` + replace(wideB, `"n":5`, `"n":null`) + `]`}, CheckForm, "x/y, 2"},
		"key in another partition":   {[]string{`[` + wideA + `]`, `[` + replace(wideB, "x/y", "z") + `]`}, CheckVersions, "x/y, 2"},
		"one key in two files":       {[]string{`[` + wideA + `,` + wideB + `]`, `[` + wideB + `]`}, CheckKeys, "x/y, 2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wide(t)
			w.wideVersion(t, "WRITE", `[`+wideA+`,`+wideB+`]`)
			w.wideVersion(t, "WRITE", c.files...)
			for _, full := range []bool{false, true} {
				r := w.audit(func(o *Options) { o.Full = full })
				if c.check == "" && len(r.Findings) > 0 {
					t.Errorf("%v", r.Findings)
				}
				if c.check != "" {
					wantFinding(t, r, 2, c.check, c.key)
				}
				// The digest of the changed files and that of all files are one.
				if full && !slices.ContainsFunc(r.Versions[2].Checks, func(c Check) bool { return c.Name == CheckDigest && c.Status == OK }) {
					t.Errorf("%+v", r.Versions[2].Checks)
				}
			}
		})
	}
}

func replace(s, old, with string) string { return strings.ReplaceAll(s, old, with) }

// TestVacuumedVersions: a file that vacuum may have removed is no finding, one that it may
// not is.
func TestVacuumedVersions(t *testing.T) {
	later := func(d time.Duration) func(*Options) {
		return func(o *Options) { o.Now = func() time.Time { return time.Now().Add(d) } }
	}
	for name, c := range map[string]struct {
		vacuum bool
		at     time.Duration
		found  bool
	}{
		"within the retention":         {false, 6 * 24 * time.Hour, true},
		"after the retention":          {false, 8 * 24 * time.Hour, false},
		"a vacuum is in the log":       {true, 0, false},
		"a vacuum, after retention":    {true, 8 * 24 * time.Hour, false},
		"within, seen from the future": {false, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			gone := w.fileOf("a")
			w.apply(change1{"a", "2", "upsert", "n"})
			if c.vacuum {
				w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "VACUUM END"})
			}
			if err := w.table.Store().Delete(t.Context(), gone.Path); err != nil {
				t.Fatal(err)
			}
			w.apply(change1{"b", "2", "upsert", "n"})
			r := w.audit(later(c.at))
			for _, f := range r.Findings {
				if f.Check != CheckFiles || !c.found {
					t.Errorf("unwanted: %v", f)
				}
			}
			if c.found {
				wantFinding(t, r, 1, CheckFiles)
				wantFinding(t, r, 2, CheckFiles)
			}
		})
	}
}

func TestRetention(t *testing.T) {
	w := start(t)
	for text, want := range map[string]time.Duration{
		"interval 2 weeks": 14 * 24 * time.Hour, "INTERVAL 36 hours": 36 * time.Hour, "interval 1 day 12 hours": 36 * time.Hour,
		"interval 3 months": defaultRetention, "": defaultRetention, "interval 0 seconds": 0,
	} {
		md := *w.snap.Metadata()
		md.Configuration = map[string]string{propRetention: text}
		w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md})
		if got := retention(w.snap); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// TestRangeAfterForeignVersion: the digest is found from the last version that recorded one.
func TestRangeAfterForeignVersion(t *testing.T) {
	w := start(t)
	a := w.writeRows([]keyed{{"n", row1{1, "active", "x"}}})
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "WRITE", Adds: []*deltatable.Add{a}})
	w.state["n"] = row1{1, "active", "x"}
	w.files = append(w.files, file1{a, []string{"n"}})
	v := w.apply(change1{"n", "2", "upsert", "y"})
	r := w.audit(func(o *Options) { o.From, o.To = &v, &v })
	i := slices.IndexFunc(r.Versions[0].Checks, func(c Check) bool { return c.Name == CheckDigest })
	if len(r.Findings) > 0 || r.Versions[0].Checks[i].Status != OK {
		t.Errorf("%v, %+v", r.Findings, r.Versions[0].Checks[i])
	}
}

// TestAdoptedTable: the baseline is taken as recorded, and verified in full.
func TestAdoptedTable(t *testing.T) {
	for _, right := range []bool{true, false} {
		w := newWorld(t.Context(), t)
		w.table = newTable(t.Context(), t)
		w.snap = w.create(w.table, tableDDL, nil, nil)
		a := w.writeRows([]keyed{{"a", row1{1, "active", "x"}}})
		w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "WRITE", Adds: []*deltatable.Add{a}})
		w.state["a"] = row1{1, "active", "x"}
		w.files = append(w.files, file1{a, []string{"a"}})
		md := *w.snap.Metadata()
		md.Configuration = testRoles.Properties()
		sum := w.digest()
		if !right {
			sum.Lo++
		}
		w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md, Tags: map[string]string{change.TagTableDigest: sum.String()}})
		if right {
			w.apply(change1{"a", "2", "upsert", "y"}, change1{"b", "2", "upsert", "y"})
		}
		if r := w.audit(nil); len(r.Findings) > 0 {
			t.Errorf("%v", r.Findings)
		}
		r := w.audit(func(o *Options) { o.Full = true })
		if right && len(r.Findings) > 0 {
			t.Errorf("%v", r.Findings)
		} else if !right {
			wantFinding(t, r, 2, CheckDigest)
		}
	}
}

// TestDamagedRoles: properties that contradict each other are a finding of their version.
func TestDamagedRoles(t *testing.T) {
	w := start(t)
	md := *w.snap.Metadata()
	md.Configuration = testRoles.Properties()
	md.Configuration[change.PropKeys] = "k"
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: &md})
	r := w.audit(nil)
	wantFinding(t, r, 2, CheckRecord)
	onlyAt(t, r, 2)
}

// TestReadableRange: a range that starts where the log starts to be readable.
func TestReadableRange(t *testing.T) {
	w := start(t)
	w.apply(change1{"a", "2", "upsert", "n"})
	none := deltatable.Version(9)
	if _, err := Audit(t.Context(), w.table, &Options{To: &none}); err == nil {
		t.Error("a version that is not there was audited")
	}
	one := deltatable.Version(0)
	two := deltatable.Version(2)
	if _, err := Audit(t.Context(), w.table, &Options{From: &two, To: &one}); err == nil {
		t.Error("an empty range was audited")
	}
	if _, err := Audit(t.Context(), newTable(t.Context(), t), nil); err == nil {
		t.Error("no table was audited")
	}
}
