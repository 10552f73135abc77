package pipeline_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

func TestCustomersMerge(t *testing.T) {
	e := &pipeline.Env{}
	sql, err := os.ReadFile("testdata/customers-merge/merge.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ changes, after string }{{"changes", "version-1"}, {"changes-ana", "version-1-ana"}} {
		table := filepath.Join(t.TempDir(), "customers")
		if _, err := pipeline.Append(t.Context(), e, &pipeline.AppendJob{
			Table: table, Files: []string{"testdata/customers-merge/customers.jsonl"}, Schema: "id long, name string, tier string",
		}); err != nil {
			t.Fatal(err)
		}
		rep, err := pipeline.Merge(t.Context(), e, &pipeline.MergeJob{
			Fold: pipeline.ApplyJob{Table: table, Audit: true}, SQL: string(sql),
			Sources: []pipeline.MergeSource{{Name: "changes", Files: []string{"testdata/customers-merge/" + c.changes + ".jsonl"}, Schema: "deleted boolean"}},
		})
		if err != nil {
			t.Fatalf("%s: %v", c.changes, err)
		}
		if rep.Version == nil || *rep.Version != 1 || len(rep.Warnings) > 0 {
			t.Errorf("%s: version %v, warnings %v", c.changes, rep.Version, rep.Warnings)
		}
		if rep.Audit == nil || len(rep.Audit.Findings) > 0 {
			t.Errorf("%s: audit %v", c.changes, rep.Audit)
		}
		if diff := cmp.Diff(expected(t, "customers-merge/"+c.after+".jsonl"), rowsOf(t, latest(t, e, table), nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.changes, diff)
		}
		opened, err := e.OpenTable(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		old, err := opened.SnapshotAt(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected(t, "customers-merge/version-0.jsonl"), rowsOf(t, old, nil)); diff != "" {
			t.Errorf("version 0 (-want +got):\n%s", diff)
		}
	}
}

func replaceJob(table, file, schema string, using []string, sequence string) *pipeline.ReplaceJob {
	return &pipeline.ReplaceJob{
		Fold:  pipeline.ApplyJob{Table: table, Files: []string{"testdata/replace-using/" + file + ".jsonl"}, Schema: schema},
		Using: using, Sequence: sequence,
	}
}

func TestReplaceUsing(t *testing.T) {
	e := &pipeline.Env{}
	positive, err := pipeline.ParseExpectation("positive_amount: total_amount > 0", change.ExpectDrop)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, schema, sequence string
		using, batches, after  []string
		expect                 []change.Expectation
	}{
		{
			"events", "region_id long, device_type string, event_type string, seq long", "seq",
			[]string{"region_id"},
			[]string{"target", "update"},
			[]string{"target", "target-after"},
			nil,
		},
		{
			"bookings", "booking_id long, status string, total_amount double, booking_update_id long", "booking_update_id",
			[]string{"booking_id"},
			[]string{"bookings-1", "bookings-2", "bookings-3"},
			[]string{"bookings-after-1", "bookings-after-2", "bookings-after-3"},
			nil,
		},
		{
			"by-property", "property_id long, booking_id long, status string, booking_update_id long", "booking_update_id",
			[]string{"property_id", "booking_id"},
			[]string{"by-property-1", "by-property-2", "by-property-3"},
			[]string{"by-property-after-1", "by-property-after-2", "by-property-after-3"},
			nil,
		},
		{
			"validated", "booking_id long, status string, total_amount double, booking_update_id long", "booking_update_id",
			[]string{"booking_id"},
			[]string{"expect-drop-1", "expect-drop-2", "expect-drop-3"},
			[]string{"expect-drop-after-1", "expect-drop-after-2", "expect-drop-after-3"},
			[]change.Expectation{positive},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), c.name)
			for i, batch := range c.batches {
				for again := range 2 { // the same content twice is skipped
					j := replaceJob(table, batch, c.schema, c.using, c.sequence)
					j.Fold.Expectations = c.expect
					rep, err := pipeline.ReplaceUsing(t.Context(), e, j)
					if err != nil {
						t.Fatalf("%s: %v", batch, err)
					}
					if len(rep.Warnings) > 0 {
						t.Errorf("%s: %v", batch, rep.Warnings)
					}
					if again == 1 && rep.Version != nil {
						t.Errorf("%s again made version %d", batch, *rep.Version)
					}
					if diff := cmp.Diff(expected(t, "replace-using/"+c.after[i]+".jsonl"), rowsOf(t, latest(t, e, table), nil)); diff != "" {
						t.Errorf("after %s (-want +got):\n%s", batch, diff)
					}
				}
			}
			rep, err := pipeline.Audit(t.Context(), e, &pipeline.AuditJob{Table: table, Full: true})
			if err != nil || len(rep.Findings) > 0 {
				t.Errorf("audit: %v, %v", rep, err)
			}
		})
	}
}

func TestReplaceUsingRefuses(t *testing.T) {
	e, table := &pipeline.Env{}, filepath.Join(t.TempDir(), "bookings")
	schema := "booking_id long, status string, total_amount double, booking_update_id long"
	if _, err := pipeline.ReplaceUsing(t.Context(), e, replaceJob(table, "bookings-1", schema, []string{"booking_id"}, "booking_update_id")); err != nil {
		t.Fatal(err)
	}
	before := rowsOf(t, latest(t, e, table), nil)
	var refused *merge.RefusedError
	if _, err := pipeline.ReplaceUsing(t.Context(), e, replaceJob(table, "reject-null-sequence", "", nil, "")); !errors.As(err, &refused) {
		t.Errorf("a NULL sequence: %v", err)
	}
	var usage *pipeline.UsageError
	if _, err := pipeline.ReplaceUsing(t.Context(), e, replaceJob(table, "bookings-2", "", nil, "booking_update_id + 1")); !errors.As(err, &usage) {
		t.Errorf("an expression as the sequence: %v", err)
	}
	var rule *pipeline.RuleError
	if _, err := pipeline.Apply(t.Context(), e, applyJob(table, "testdata/replace-using/bookings-2.jsonl")); !errors.As(err, &rule) {
		t.Errorf("apply on a table in mode replace: %v", err)
	}
	if _, err := pipeline.Delete(t.Context(), e, &pipeline.ChangeJob{Fold: pipeline.ApplyJob{Table: table}, Where: "booking_id = 1"}); !errors.As(err, &rule) {
		t.Errorf("delete on a table in mode replace: %v", err)
	}
	if diff := cmp.Diff(before, rowsOf(t, latest(t, e, table), nil)); diff != "" {
		t.Errorf("the table changed:\n%s", diff)
	}
}

func TestDeleteUpdateOverwrite(t *testing.T) {
	e, dir := &pipeline.Env{}, t.TempDir()
	table := filepath.Join(dir, "t")
	write := func(name, text string) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := write("a.jsonl", `{"x":1,"p":"A"}
{"x":9,"p":"A"}
{"x":null,"p":"B"}
`)
	if _, err := pipeline.Append(t.Context(), e, &pipeline.AppendJob{Table: table, Files: []string{first}, Schema: "x long, p string", PartitionBy: []string{"p"}}); err != nil {
		t.Fatal(err)
	}
	fold := pipeline.ApplyJob{Table: table}
	step := func(name string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, rowsOf(t, latest(t, e, table), nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err := pipeline.Delete(t.Context(), e, &pipeline.ChangeJob{Fold: fold, Where: "x > 5"})
	step("delete", err, `{"x":1,"p":"A"}`, `{"x":null,"p":"B"}`)
	_, err = pipeline.Update(t.Context(), e, &pipeline.ChangeJob{Fold: fold, Set: []string{"x = x + 1", "p = 'C'"}, Where: "p = 'A'"})
	step("update", err, `{"x":2,"p":"C"}`, `{"x":null,"p":"B"}`)
	over := fold
	over.Files = []string{write("b.jsonl", `{"x":7,"p":"B"}`+"\n")}
	_, err = pipeline.Overwrite(t.Context(), e, &pipeline.ChangeJob{Fold: over, Where: "p = 'B'"})
	step("overwrite", err, `{"x":2,"p":"C"}`, `{"x":7,"p":"B"}`)
	var refused *merge.RefusedError
	if _, err := pipeline.Overwrite(t.Context(), e, &pipeline.ChangeJob{Fold: over, Where: "p = 'C'"}); !errors.As(err, &refused) {
		t.Errorf("a row outside the condition: %v", err)
	}
	_, err = pipeline.Overwrite(t.Context(), e, &pipeline.ChangeJob{Fold: over, All: true})
	step("overwrite all", err, `{"x":7,"p":"B"}`)
	if v := latest(t, e, table).Version(); v != 4 {
		t.Errorf("version %d, want 4", v)
	}
}
