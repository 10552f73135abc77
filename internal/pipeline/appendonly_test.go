package pipeline_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

// TestNoGuardOnAppendOnlyTables: into a table that only grows no change could be
// folded, whichever way it comes under a mode; a plain one may be made.
func TestNoGuardOnAppendOnlyTables(t *testing.T) {
	e, dir := &pipeline.Env{}, t.TempDir()
	props := map[string]string{"delta.appendOnly": "true"}
	const ddl = "k string, source_version long, v string"
	empty := filepath.Join(dir, "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	guarded := pipeline.RoleFlags{Keys: []string{"k"}}
	for name, run := range map[string]func(table string) error{
		"create": func(table string) error {
			_, err := pipeline.Create(t.Context(), e, &pipeline.CreateJob{Table: table, Schema: ddl, Roles: guarded, Properties: props})
			return err
		},
		"apply": func(table string) error {
			_, err := pipeline.Apply(t.Context(), e, &pipeline.ApplyJob{Table: table, Files: []string{empty}, Schema: ddl, Roles: guarded, Properties: props})
			return err
		},
		"replace": func(table string) error {
			_, err := pipeline.ReplaceUsing(t.Context(), e, &pipeline.ReplaceJob{
				Fold: pipeline.ApplyJob{Table: table, Files: []string{empty}, Schema: ddl, Properties: props}, Using: []string{"k"}, Sequence: "source_version",
			})
			return err
		},
	} {
		table := filepath.Join(dir, name)
		var usage *pipeline.UsageError
		if err := run(table); !errors.As(err, &usage) || !strings.Contains(err.Error(), "delta.appendOnly") {
			t.Errorf("%s: got the error %v", name, err)
		}
		if _, err := os.Stat(table); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was written: %v", name, err)
		}
	}
	for name, job := range map[string]*pipeline.AdoptJob{
		"adopt":         {Roles: guarded},
		"adopt --using": {Using: []string{"k"}, Sequence: "source_version"},
	} {
		job.Table = filepath.Join(dir, name)
		if _, err := pipeline.Create(t.Context(), e, &pipeline.CreateJob{Table: job.Table, Schema: ddl + ", status string", Properties: props}); err != nil {
			t.Fatal(err)
		}
		var rule *pipeline.RuleError
		if _, err := pipeline.Adopt(t.Context(), e, job); !errors.As(err, &rule) || !strings.Contains(err.Error(), "delta.appendOnly") {
			t.Errorf("%s: got the error %v", name, err)
		}
		if diff := cmp.Diff(deltatable.Version(0), latest(t, e, job.Table).Version()); diff != "" {
			t.Errorf("%s: version (-want +got):\n%s", name, diff)
		}
	}
}

// TestExpectationsHaveOneName: two expectations of one name are refused where the
// table is made, before anything is written.
func TestExpectationsHaveOneName(t *testing.T) {
	e, dir := &pipeline.Env{}, t.TempDir()
	empty := filepath.Join(dir, "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, second := range []change.Expectation{
		{Name: "positive", Condition: "seq > 0", Action: change.ExpectWarn},
		{Name: "positive", Condition: "seq > 5", Action: change.ExpectDrop},
	} {
		table := filepath.Join(dir, string(second.Action))
		given := []change.Expectation{{Name: "positive", Condition: "seq > 0", Action: change.ExpectWarn}, second}
		_, err := pipeline.ReplaceUsing(t.Context(), e, &pipeline.ReplaceJob{
			Fold:  pipeline.ApplyJob{Table: table, Files: []string{empty}, Schema: "k string, seq long", Expectations: given},
			Using: []string{"k"}, Sequence: "seq",
		})
		var usage *pipeline.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), "expectation positive is given twice") {
			t.Errorf("%s: got the error %v", second.Action, err)
		}
		if _, err := os.Stat(table); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was written: %v", second.Action, err)
		}
	}
}
