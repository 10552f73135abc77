package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/merge"
)

// rowsOf reads a table as JSON Lines, sorted; columns nil for all.
func rowsOf(t *testing.T, snap *deltatable.Snapshot, columns []string) []string {
	t.Helper()
	var buf bytes.Buffer
	var w rowfile.Writer
	for rec, err := range snap.Scan(t.Context(), &deltatable.ScanOptions{Columns: columns}) {
		if err != nil {
			t.Fatal(err)
		}
		if w == nil {
			if w, err = rowfile.NewWriter(&buf, "jsonl", rec.Schema()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if w == nil {
		return nil
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sorted(buf.String())
}

func sorted(text string) []string {
	var lines []string
	for _, l := range strings.Split(text, "\n") {
		if l = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(l), ": ", ":"), ", ", ","); l != "" {
			lines = append(lines, l)
		}
	}
	slices.Sort(lines)
	return lines
}

func expected(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	return sorted(string(data))
}

func latest(t *testing.T, e *pipeline.Env, url string) *deltatable.Snapshot {
	t.Helper()
	table, err := e.OpenTable(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestVersionedChanges(t *testing.T) {
	e, table := &pipeline.Env{}, filepath.Join(t.TempDir(), "state")
	for n := 1; n <= 6; n++ {
		rep, err := pipeline.Apply(t.Context(), e, &pipeline.ApplyJob{
			Table: table, Files: []string{fmt.Sprintf("testdata/versioned-changes/batch-%d.jsonl", n)},
			Batch: fmt.Sprint(n), Audit: true,
		})
		if err != nil {
			t.Fatalf("batch %d: %v", n, err)
		}
		if len(rep.Warnings) > 0 {
			t.Errorf("batch %d: %v", n, rep.Warnings)
		}
		if rep.Audit != nil && len(rep.Audit.Findings) > 0 {
			t.Errorf("batch %d: %v", n, rep.Audit.Findings)
		}
		if diff := cmp.Diff(expected(t, fmt.Sprintf("versioned-changes/state-after-%d.jsonl", n)), rowsOf(t, latest(t, e, table), nil)); diff != "" {
			t.Errorf("state after batch %d (-want +got):\n%s", n, diff)
		}
	}
	columns := []string{"batch", "change_id", "entity_id", "source_version", "operation", "value", "outcome"}
	if diff := cmp.Diff(expected(t, "versioned-changes/outcomes.jsonl"), rowsOf(t, latest(t, e, table+"-outcomes"), columns)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if v := latest(t, e, table).Version(); v != 2 {
		t.Errorf("six batches made version %d, want 2: batches that change nothing make none", v)
	}
	rep, err := pipeline.Audit(t.Context(), e, &pipeline.AuditJob{Table: table, Changes: "testdata/versioned-changes", Full: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Findings {
		t.Errorf("audit: %v", f)
	}
}

func TestOrdersReplay(t *testing.T) {
	e, table := &pipeline.Env{}, filepath.Join(t.TempDir(), "orders")
	apply := func(name string) (*pipeline.ApplyReport, error) {
		j := &pipeline.ApplyJob{Table: table, Files: []string{"testdata/orders-replay/" + name + ".jsonl"}}
		if name == "batch-1" {
			j.Schema = "order_id long, source_version long, status string"
			j.Roles = pipeline.RoleFlags{Keys: []string{"order_id"}, Versions: []string{"source_version"}, Status: "none", OnConflict: "reject"}
		}
		return pipeline.Apply(t.Context(), e, j)
	}
	for _, step := range []struct{ batch, state string }{
		{"batch-1", "state-after-1"}, {"batch-1", "state-after-1"}, {"batch-2-older", "state-after-1"}, {"batch-3-newer", "state-after-3"},
	} {
		if _, err := apply(step.batch); err != nil {
			t.Fatalf("%s: %v", step.batch, err)
		}
		if diff := cmp.Diff(expected(t, "orders-replay/"+step.state+".jsonl"), rowsOf(t, latest(t, e, table), nil)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.batch, diff)
		}
	}
	for _, name := range []string{"reject-conflict", "reject-null-key", "reject-null-status", "reject-null-version"} {
		var refused *merge.RefusedError
		if _, err := apply(name); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if diff := cmp.Diff(expected(t, "orders-replay/state-after-3.jsonl"), rowsOf(t, latest(t, e, table), nil)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPumpTombstones(t *testing.T) {
	e, table := &pipeline.Env{}, filepath.Join(t.TempDir(), "pumps")
	apply := func(name string) error {
		_, err := pipeline.Apply(t.Context(), e, &pipeline.ApplyJob{
			Table: table, Files: []string{"testdata/pump-tombstones/" + name + ".jsonl"},
			Schema: "pump string, seq long, deleted boolean, value double",
			Roles:  pipeline.RoleFlags{Keys: []string{"pump"}, Versions: []string{"seq"}, Deleted: "deleted", OnConflict: "reject"},
		})
		return err
	}
	for i, name := range []string{"batch-1", "batch-2", "batch-3-stale", "batch-4-newer"} {
		if err := apply(name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(expected(t, fmt.Sprintf("pump-tombstones/state-after-%d.jsonl", i+1)), rowsOf(t, latest(t, e, table), nil)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range []string{"reject-tie", "reject-tie-with-stored"} {
		var refused *merge.RefusedError
		if err := apply(name); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
}
