package pipeline_test

import (
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
)

// Key types by their names in Delta.
var (
	keyTypes   = []string{"byte", "short", "int", "long", "string", "binary", "boolean", "date", "timestamp", "timestamp_ntz", "decimal(10,2)"}
	noKeyTypes = []string{"float", "double", "array<long>", "map<string,long>", "struct<a:long>"}
)

// TestKeyTypes pins which key types are refused where (B13, merge-semantics 1, 4
// and 5): the guarded merge and REPLACE USING take atomic types other than float
// and double, whichever way their table comes about, and refuse the others by
// name before anything is written; MERGE takes what SQL compares.
func TestKeyTypes(t *testing.T) {
	for _, typ := range append(slices.Clone(keyTypes), noKeyTypes...) {
		t.Run(typ, func(t *testing.T) {
			lawful := slices.Contains(keyTypes, typ)
			dir := t.TempDir()
			guarded := pipeline.RoleFlags{Keys: []string{"k"}}
			ddl := fmt.Sprintf("k %s, source_version long, v string", typ)
			empty := filepath.Join(dir, "empty.jsonl")
			if err := os.WriteFile(empty, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			e := &pipeline.Env{}
			for name, run := range map[string]func(table string) error{
				"create": func(table string) error {
					_, err := pipeline.Create(t.Context(), e, &pipeline.CreateJob{Table: table, Schema: ddl, Roles: guarded})
					return err
				},
				"apply": func(table string) error {
					_, err := pipeline.Apply(t.Context(), e, &pipeline.ApplyJob{Table: table, Files: []string{empty}, Schema: ddl, Roles: guarded})
					return err
				},
				"replace": func(table string) error {
					_, err := pipeline.ReplaceUsing(t.Context(), e, &pipeline.ReplaceJob{
						Fold: pipeline.ApplyJob{Table: table, Files: []string{empty}, Schema: ddl}, Using: []string{"k"}, Sequence: "source_version",
					})
					return err
				},
			} {
				table := filepath.Join(dir, name)
				keyTypeRefused(t, name, typ, lawful, run(table))
				if _, err := os.Stat(table); !lawful && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: something was written: %v", name, err)
				}
			}
			for name, job := range map[string]*pipeline.AdoptJob{
				"adopt":         {Roles: guarded},
				"adopt --using": {Using: []string{"k"}, Sequence: "source_version"},
			} {
				job.Table = filepath.Join(dir, name)
				columns := ddl
				if name == "adopt" {
					columns += ", status string"
				}
				if _, err := pipeline.Create(t.Context(), e, &pipeline.CreateJob{Table: job.Table, Schema: columns}); err != nil {
					t.Fatal(err)
				}
				_, err := pipeline.Adopt(t.Context(), e, job)
				keyTypeRefused(t, name, typ, lawful, err)
				want := deltatable.Version(0)
				if lawful {
					want = 1
				}
				if diff := cmp.Diff(want, latest(t, e, job.Table).Version()); diff != "" {
					t.Errorf("%s: version (-want +got):\n%s", name, diff)
				}
			}
			keyTypeMerges(t, filepath.Join(dir, "merge"), ddl, typ, empty)
		})
	}
}

// keyTypeRefused checks the error of what would make k a key.
func keyTypeRefused(t *testing.T, name, typ string, lawful bool, err error) {
	t.Helper()
	var rule *pipeline.RuleError
	switch {
	case lawful && err != nil:
		t.Errorf("%s with a key of type %s: %v", name, typ, err)
	case !lawful && (!errors.As(err, &rule) || !strings.Contains(err.Error(), "key column k is "+typ+":")):
		t.Errorf("%s with a key of type %s: got the error %v", name, typ, err)
	}
}

// keyTypeMerges: MERGE's ON takes all types but maps, which do not compare.
func keyTypeMerges(t *testing.T, table, ddl, typ, source string) {
	t.Helper()
	e := &pipeline.Env{}
	if _, err := pipeline.Create(t.Context(), e, &pipeline.CreateJob{Table: table, Schema: ddl}); err != nil {
		t.Fatal(err)
	}
	_, err := pipeline.Merge(t.Context(), e, &pipeline.MergeJob{
		Fold: pipeline.ApplyJob{Table: table}, Sources: []pipeline.MergeSource{{Name: "s", Files: []string{source}, Schema: ddl}},
		SQL: "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v",
	})
	if isMap := strings.HasPrefix(typ, "map"); (err != nil) != isMap {
		t.Errorf("MERGE ON a key of type %s: got the error %v", typ, err)
	}
}
