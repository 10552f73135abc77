package merge_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// world is one guarded table in memory and what tests do with it.
type world struct {
	t     testing.TB
	table *deltatable.Table
	store *blobstore.Store
	roles *change.Roles
	input *arrow.Schema
	spec  worldSpec
}

// worldSpec is what differs between the tables of tests.
type worldSpec struct {
	partition  []string // of entity_id, value, p
	policy     change.Policy
	properties map[string]string
	store      *blobstore.Store
}

func newWorld(t testing.TB, spec worldSpec) *world {
	t.Helper()
	store := spec.store
	if store == nil {
		var err error
		if store, err = blobstore.Open(t.Context(), "mem://"+uuid.NewString()); err != nil {
			t.Fatal(err)
		}
	}
	text := arrow.BinaryTypes.String
	w := &world{t: t, store: store, spec: spec, table: deltatable.NewTable(store, nil)}
	w.roles = &change.Roles{
		Mode: change.Guarded, Keys: []string{"entity_id"}, Versions: []string{"source_version"},
		Operation: "operation", UpsertWord: "upsert", DeleteWord: "delete",
		StatusForm: change.StatusWord, Status: "status", Payload: []string{"value", "p"}, Policy: change.Quarantine,
	}
	if spec.policy != "" {
		w.roles.Policy = spec.policy
	}
	w.input = arrow.NewSchema([]arrow.Field{
		{Name: "entity_id", Type: text, Nullable: true},
		{Name: "source_version", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "operation", Type: text, Nullable: true},
		{Name: "value", Type: text, Nullable: true},
		{Name: "p", Type: text, Nullable: true},
	}, nil)
	return w
}

// metadata is the table's first metadata.
func (w *world) metadata() *merge.NewTable {
	w.t.Helper()
	text := arrow.BinaryTypes.String
	sch, err := deltatable.SchemaFromArrow(arrow.NewSchema([]arrow.Field{
		{Name: "entity_id", Type: text, Nullable: true},
		{Name: "source_version", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "status", Type: text, Nullable: true},
		{Name: "value", Type: text, Nullable: true},
		{Name: "p", Type: text, Nullable: true},
	}, nil))
	if err != nil {
		w.t.Fatal(err)
	}
	props := w.roles.Properties()
	maps.Copy(props, w.spec.properties)
	md, protocol, err := deltatable.NewTableMetadata(sch, w.spec.partition, props)
	if err != nil {
		w.t.Fatal(err)
	}
	return &merge.NewTable{Metadata: md, Protocol: protocol}
}

// row is "key version op value p", NULL for a NULL; value and p may be left out.
func (w *world) batch(rows ...string) *merge.Batch {
	w.t.Helper()
	var objects []string
	for _, r := range rows {
		f := strings.Fields(r)
		for len(f) < 5 {
			f = append(f, "NULL")
		}
		quote := func(s string) string {
			if s == "NULL" {
				return "null"
			}
			return fmt.Sprintf("%q", s)
		}
		objects = append(objects, fmt.Sprintf(`{"entity_id":%s,"source_version":%s,"operation":%s,"value":%s,"p":%s}`,
			quote(f[0]), strings.ReplaceAll(f[1], "NULL", "null"), quote(f[2]), quote(f[3]), quote(f[4])))
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, w.input, strings.NewReader("["+strings.Join(objects, ",")+"]"))
	if err != nil {
		w.t.Fatal(err)
	}
	present := map[string]bool{}
	for _, f := range w.input.Fields() {
		present[f.Name] = true
	}
	return &merge.Batch{
		Name: "test", Digest: fmt.Sprintf("%064d", len(rows)), Schema: w.input,
		Files: []merge.InputFile{{Name: "test.jsonl", Records: []arrow.RecordBatch{rec}, Present: present}},
	}
}

func (w *world) job(rows ...string) *merge.Job {
	w.t.Helper()
	job := &merge.Job{
		Table: w.table, Batch: w.batch(rows...), Roles: w.roles, RunID: uuid.NewString(), CheckRetries: true,
		Retry: &deltatable.Retry{Max: 50, Sleep: noSleep}, Workers: 2,
	}
	snap, err := w.table.Snapshot(w.t.Context())
	if err == nil {
		job.Read = snap
	} else {
		job.Create = w.metadata()
	}
	return job
}

// apply runs a batch that must succeed.
func (w *world) apply(rows ...string) *merge.Result {
	w.t.Helper()
	res, err := merge.Run(w.t.Context(), w.job(rows...))
	if err != nil {
		w.t.Fatalf("apply %q: %v", rows, err)
	}
	return res
}

// state is every row of the latest version as "key version status value p".
func (w *world) state() []string {
	w.t.Helper()
	snap, err := w.table.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return stateOf(w.t, snap)
}

func stateOf(t testing.TB, snap *deltatable.Snapshot) []string {
	t.Helper()
	var recs []arrow.RecordBatch
	for rec, err := range snap.Scan(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
	return rowsText(recs...)
}

// rowsText is one text a row, sorted.
func rowsText(recs ...arrow.RecordBatch) []string {
	var out []string
	for _, rec := range recs {
		for i := range int(rec.NumRows()) {
			var f []string
			for _, c := range rec.Columns() {
				if c.IsNull(i) {
					f = append(f, "NULL")
				} else {
					f = append(f, c.ValueStr(i))
				}
			}
			out = append(out, strings.Join(f, " "))
		}
	}
	slices.Sort(out)
	return out
}

// outcomes are the outcomes of a result, one text a row.
func outcomes(res *merge.Result) []string {
	var out []string
	for _, f := range res.Outcomes {
		for _, o := range f {
			out = append(out, string(o))
		}
	}
	return out
}

// onAttempt makes a BeforeCommit hook that calls f on the n-th attempt.
func onAttempt(job *merge.Job, n int, f func()) {
	attempt := 0
	job.BeforeCommit = func(context.Context, *merge.Attempt) (*merge.Recorded, error) {
		if attempt++; attempt == n {
			f()
		}
		return &merge.Recorded{}, nil
	}
}

// onEachErr calls f before every attempt's commit; an error ends the run.
func onEachErr(job *merge.Job, f func() error) {
	job.BeforeCommit = func(context.Context, *merge.Attempt) (*merge.Recorded, error) {
		return &merge.Recorded{}, f()
	}
}
