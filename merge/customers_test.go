package merge_test

import (
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/statement"
)

// TestIntoCustomers is the fixture customers-merge through the library.
func TestIntoCustomers(t *testing.T) {
	for _, c := range []struct{ changes, after string }{{"changes", "version-1"}, {"changes-ana", "version-1-ana"}} {
		store, err := blobstore.Open(t.Context(), "mem://"+uuid.NewString())
		if err != nil {
			t.Fatal(err)
		}
		ds, err := deltatable.ParseDDL("id long, name string, tier string")
		if err != nil {
			t.Fatal(err)
		}
		sch, err := ds.Arrow()
		if err != nil {
			t.Fatal(err)
		}
		table := deltatable.NewTable(store, nil)
		md, protocol, err := deltatable.NewTableMetadata(ds, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		layout, err := deltatable.NewLayout(md)
		if err != nil {
			t.Fatal(err)
		}
		w, err := table.NewFileWriter(t.Context(), layout, deltatable.Partition{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(customers(t, sch, "customers")); err != nil {
			t.Fatal(err)
		}
		adds, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.TryCommit(t.Context(), nil, &deltatable.Commit{Operation: "WRITE", Metadata: md, Protocol: protocol, Adds: adds}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("../internal/pipeline/testdata/customers-merge/merge.sql")
		if err != nil {
			t.Fatal(err)
		}
		st, err := statement.Parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		snap, err := table.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		source := arrow.NewSchema(append(sch.Fields(), arrow.Field{Name: "deleted", Type: arrow.FixedWidthTypes.Boolean, Nullable: true}), nil)
		rec := customers(t, source, c.changes)
		res, err := merge.Into(t.Context(), &merge.IntoJob{
			Table: table, Read: snap, Statement: st, RunID: uuid.NewString(), CheckRetries: true,
			Source: &merge.Batch{Name: c.changes, Schema: source, Files: []merge.InputFile{{Name: c.changes, Records: []arrow.RecordBatch{rec}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if res.Version == nil || *res.Version != 1 {
			t.Errorf("%s: version %v", c.changes, res.Version)
		}
		after, err := table.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rowsText(customers(t, sch, c.after)), stateOf(t, after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.changes, diff)
		}
		if diff := cmp.Diff(rowsText(customers(t, sch, "customers")), stateOf(t, snap)); diff != "" {
			t.Errorf("version 0 after %s (-want +got):\n%s", c.changes, diff)
		}
	}
}

func customers(t *testing.T, sch *arrow.Schema, name string) arrow.RecordBatch {
	t.Helper()
	data, err := os.ReadFile("../internal/pipeline/testdata/customers-merge/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	text := "[" + strings.Join(strings.Split(strings.TrimSpace(string(data)), "\n"), ",") + "]"
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sch, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}
