package tabletest_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge/change"
)

var (
	text    = arrow.BinaryTypes.String
	long    = arrow.PrimitiveTypes.Int64
	boolean = arrow.FixedWidthTypes.Boolean
	double  = arrow.PrimitiveTypes.Float64
)

func schema(pairs ...any) *arrow.Schema {
	var fields []arrow.Field
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, arrow.Field{Name: pairs[i].(string), Type: pairs[i+1].(arrow.DataType), Nullable: true})
	}
	return arrow.NewSchema(fields, nil)
}

func load(t *testing.T, sch *arrow.Schema, name string) []tabletest.Row {
	t.Helper()
	f, err := changefile.Read(t.Context(), changefile.FromFile(name, filepath.Join("testdata", name)), &changefile.Options{Schema: sch})
	if err != nil {
		t.Fatal(err)
	}
	return tabletest.Rows(f.Records...)
}

func strs(outcomes []change.Outcome) (out []string) {
	for _, o := range outcomes {
		out = append(out, string(o))
	}
	return out
}

func TestFixtureVersionedChanges(t *testing.T) {
	w := tabletest.Default()
	o := w.Oracle()
	type outcome struct{ Batch, Row, Outcome string }
	var got, want []outcome
	for n := 1; n <= 6; n++ {
		batch := load(t, w.Input, fmt.Sprintf("versioned-changes/batch-%d.jsonl", n))
		outcomes, refused := o.Apply(tabletest.Batch{Rows: batch})
		if refused {
			t.Fatalf("batch %d is refused: %v", n, outcomes)
		}
		for i, row := range batch {
			got = append(got, outcome{fmt.Sprint(n), fmt.Sprint(row), string(outcomes[i])})
		}
		if d := o.Diff(load(t, w.Table, fmt.Sprintf("versioned-changes/state-after-%d.jsonl", n))); d != "" {
			t.Errorf("after batch %d:\n%s", n, d)
		}
	}
	all := schema("batch", text, "change_id", text, "entity_id", text, "source_version", long, "operation", text, "value", text, "outcome", text)
	for _, row := range load(t, all, "versioned-changes/outcomes.jsonl") {
		b, out := row["batch"].(string), row["outcome"].(string)
		delete(row, "batch")
		delete(row, "outcome")
		want = append(want, outcome{b, fmt.Sprint(row), out})
	}
	order := func(a, b outcome) int { return strings.Compare(a.Batch+a.Row, b.Batch+b.Row) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFixtureOrdersReplay(t *testing.T) {
	sch := schema("order_id", long, "source_version", long, "status", text)
	o := &tabletest.Oracle{Roles: &change.Roles{Mode: change.Guarded, Keys: []string{"order_id"}, Versions: []string{"source_version"}, StatusForm: change.StatusNone, Payload: []string{"status"}, Policy: change.Reject}}
	for _, s := range []fixtureStep{
		{"batch-1", "state-after-1", false, []string{"superseded_in_batch", "accepted", "accepted", "accepted"}},
		{"batch-1", "state-after-1", false, []string{"superseded_in_batch", "duplicate", "duplicate", "duplicate"}},
		{"batch-2-older", "state-after-1", false, []string{"stale"}},
		{"batch-3-newer", "state-after-3", false, []string{"accepted"}},
		{"reject-conflict", "state-after-3", true, []string{"contradiction", "contradiction", "batch_refused"}},
		{"reject-null-key", "state-after-3", true, []string{"invalid_order_id", "batch_refused"}},
		{"reject-null-status", "state-after-3", true, []string{"invalid_payload"}},
		{"reject-null-version", "state-after-3", true, []string{"invalid_version"}},
	} {
		s.check(t, o, sch, "orders-replay/")
	}
}

func TestFixturePumpTombstones(t *testing.T) {
	sch := schema("pump", text, "seq", long, "deleted", boolean, "value", double)
	o := &tabletest.Oracle{Roles: &change.Roles{Mode: change.Guarded, Keys: []string{"pump"}, Versions: []string{"seq"}, StatusForm: change.StatusBoolean, Status: "deleted", Deleted: "deleted", Payload: []string{"value"}, Policy: change.Reject}}
	for _, s := range []fixtureStep{
		{"batch-1", "state-after-1", false, []string{"accepted", "superseded_in_batch"}},
		{"batch-2", "state-after-2", false, []string{"accepted", "superseded_in_batch"}},
		{"batch-3-stale", "state-after-3", false, []string{"stale"}},
		{"reject-tie", "state-after-3", true, []string{"contradiction", "contradiction"}},
		{"batch-4-newer", "state-after-4", false, []string{"accepted", "accepted"}},
		{"reject-tie-with-stored", "state-after-4", true, []string{"conflict"}},
	} {
		s.check(t, o, sch, "pump-tombstones/")
	}
}

// fixtureStep is a batch of a fixture, the state after it, and its outcomes.
type fixtureStep struct {
	batch, state string
	refused      bool
	want         []string
}

func (s *fixtureStep) check(t *testing.T, o *tabletest.Oracle, sch *arrow.Schema, dir string) {
	t.Helper()
	got, refused := o.Apply(tabletest.Batch{Rows: load(t, sch, dir+s.batch+".jsonl")})
	if diff := cmp.Diff(s.want, strs(got)); diff != "" || refused != s.refused {
		t.Errorf("%s: refused %v\n%s", s.batch, refused, diff)
	}
	if d := o.Diff(load(t, sch, dir+s.state+".jsonl")); d != "" {
		t.Errorf("%s:\n%s", s.batch, d)
	}
}

// Each row of the tables of merge-semantics 3.1 and 3.2, in words: what is
// stored, the batch, its outcomes and what is stored then.
func TestRules(t *testing.T) {
	w := tabletest.Default()
	row := func(key string, version int, rest string) tabletest.Row {
		r := tabletest.Row{"change_id": "x", "entity_id": key, "source_version": int64(version), "operation": "upsert", "value": rest}
		if rest == "delete" {
			r["operation"] = "delete"
			delete(r, "value")
		}
		return r
	}
	for _, c := range []struct {
		name         string
		stored, rows []tabletest.Row
		policy       change.Policy
		want         []string
		status       string // of the key k afterwards, with version and value
	}{
		{"absent, upsert", nil, []tabletest.Row{row("k", 5, "a")}, "", []string{"accepted"}, "active 5 a"},
		{"absent, delete", nil, []tabletest.Row{row("k", 5, "delete")}, "", []string{"accepted"}, "deleted 5"},
		{"absent, conflict", nil, []tabletest.Row{row("k", 5, "a"), row("k", 5, "delete"), row("k", 4, "z")}, "", []string{"conflict", "conflict", "superseded_in_batch"}, "conflict 5"},
		{"older", []tabletest.Row{row("k", 5, "a")}, []tabletest.Row{row("k", 4, "b"), row("k", 4, "c")}, "", []string{"stale", "stale"}, "active 5 a"},
		{"newer conflict", []tabletest.Row{row("k", 5, "a")}, []tabletest.Row{row("k", 6, "b"), row("k", 6, "c")}, "", []string{"conflict", "conflict"}, "conflict 6"},
		{"revived", []tabletest.Row{row("k", 5, "delete")}, []tabletest.Row{row("k", 6, "b"), row("k", 6, "b")}, "", []string{"accepted", "accepted"}, "active 6 b"},
		{"repeated", []tabletest.Row{row("k", 5, "a")}, []tabletest.Row{row("k", 5, "a")}, "", []string{"duplicate"}, "active 5 a"},
		{"delete repeated", []tabletest.Row{row("k", 5, "delete")}, []tabletest.Row{row("k", 5, "delete")}, "", []string{"duplicate"}, "deleted 5"},
		{"contradicts what is stored", []tabletest.Row{row("k", 5, "a")}, []tabletest.Row{row("k", 5, "b")}, "", []string{"conflict"}, "conflict 5"},
		{"delete against upsert", []tabletest.Row{row("k", 5, "a")}, []tabletest.Row{row("k", 5, "delete")}, "", []string{"conflict"}, "conflict 5"},
		{"conflict stays", []tabletest.Row{row("k", 5, "a"), row("k", 5, "b")}, []tabletest.Row{row("k", 5, "a")}, "", []string{"conflict"}, "conflict 5"},
		{"conflict resolved", []tabletest.Row{row("k", 5, "a"), row("k", 5, "b")}, []tabletest.Row{row("k", 6, "c")}, "", []string{"accepted"}, "active 6 c"},
		{"reject, contradiction below the highest", []tabletest.Row{row("k", 1, "a")}, []tabletest.Row{row("k", 5, "a"), row("k", 4, "b"), row("k", 4, "c")}, change.Reject, []string{"batch_refused", "contradiction", "contradiction"}, "active 1 a"},
		{"reject, against what is stored", []tabletest.Row{row("k", 5, "a")}, []tabletest.Row{row("k", 5, "b"), row("l", 1, "x")}, change.Reject, []string{"conflict", "batch_refused"}, "active 5 a"},
		{"reject, nothing wrong", []tabletest.Row{row("k", 5, "a")}, []tabletest.Row{row("k", 5, "a"), row("l", 1, "x"), row("l", 1, "x")}, change.Reject, []string{"duplicate", "accepted", "accepted"}, "active 5 a"},
	} {
		roles := *w.Roles
		o := &tabletest.Oracle{Roles: &roles}
		o.Apply(tabletest.Batch{Rows: c.stored})
		if c.policy != "" {
			roles.Policy = c.policy
		}
		got, _ := o.Apply(tabletest.Batch{Rows: c.rows})
		if diff := cmp.Diff(c.want, strs(got)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		r := o.State()[o.KeyOf(row("k", 1, ""))]
		status := fmt.Sprint(r["status"], " ", r["source_version"])
		if r["value"] != nil {
			status += fmt.Sprint(" ", r["value"])
		}
		if status != c.status {
			t.Errorf("%s: stored %s, want %s", c.name, status, c.status)
		}
	}
}

func TestValidity(t *testing.T) {
	w := tabletest.Default()
	good := func(change func(tabletest.Row)) tabletest.Row {
		r := tabletest.Row{"change_id": "x", "entity_id": "k", "source_version": int64(1), "operation": "upsert", "value": "v"}
		change(r)
		return r
	}
	set := func(c string, v tabletest.Value) tabletest.Row { return good(func(r tabletest.Row) { r[c] = v }) }
	rows := []tabletest.Row{
		good(func(tabletest.Row) {}),
		set("change_id", nil), set("change_id", ""), set("change_id", " "), set("change_id", "\t"),
		set("entity_id", nil), set("entity_id", "  "),
		set("source_version", nil), set("source_version", int64(0)),
		set("operation", nil), set("operation", "UPSERT"),
		set("value", nil), set("value", ""), set("operation", "delete"),
		good(func(r tabletest.Row) { clear(r) }),
	}
	want := []string{
		"", "invalid_change_id", "invalid_change_id", "invalid_change_id", "",
		"invalid_entity_id", "invalid_entity_id", "invalid_version", "invalid_version", "invalid_operation", "invalid_operation",
		"invalid_payload", "", "invalid_payload", "invalid_change_id",
	}
	got, _ := w.Oracle().Apply(tabletest.Batch{Rows: rows})
	for i, o := range got {
		if !o.Invalid() {
			got[i] = ""
		}
	}
	if diff := cmp.Diff(want, strs(got)); diff != "" {
		t.Error(diff)
	}
}

func TestDiffNamesWhatIsWrong(t *testing.T) {
	w := tabletest.Default()
	o := w.Oracle()
	row := func(key string, version int, value string) tabletest.Row {
		return tabletest.Row{"change_id": "x", "entity_id": key, "source_version": int64(version), "operation": "upsert", "value": value}
	}
	o.Apply(tabletest.Batch{Rows: []tabletest.Row{row("a", 1, "x"), row("b", 1, "x"), row("c", 1, "x")}})
	rows := o.Rows()
	if d := o.Diff([]tabletest.Row{rows[2], rows[0], rows[1]}); d != "" {
		t.Errorf("equal states differ:\n%s", d)
	}
	lower := tabletest.Row{"entity_id": "a", "source_version": int64(0), "status": "active", "value": "x"}
	extra := tabletest.Row{"entity_id": "d", "source_version": int64(1)}
	want := `key "a"|
   is {entity_id: "a", source_version: int64 0, status: "active", value: "x"}
  not {entity_id: "a", source_version: int64 1, status: "active", value: "x"}
key "b"| has several rows
key "c"| is missing: {entity_id: "c", source_version: int64 1, status: "active", value: "x"}
key "d"| should not be there: {entity_id: "d", source_version: int64 1}`
	if diff := cmp.Diff(want, o.Diff([]tabletest.Row{lower, rows[1], rows[1], extra})); diff != "" {
		t.Error(diff)
	}
}
