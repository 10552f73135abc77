package merge_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// rworld is one table in mode replace in memory.
type rworld struct {
	t     testing.TB
	table *deltatable.Table
	roles *change.ReplaceRoles
	sch   *arrow.Schema
	props map[string]string
	parts []string
}

func newReplaceWorld(t testing.TB, parts []string, props map[string]string) *rworld {
	t.Helper()
	store, err := blobstore.Open(t.Context(), "mem://"+uuid.NewString())
	if err != nil {
		t.Fatal(err)
	}
	text, long := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64
	return &rworld{
		t: t, table: deltatable.NewTable(store, nil), props: props, parts: parts,
		roles: &change.ReplaceRoles{Keys: []string{"a", "b"}, Sequence: "seq"},
		sch: arrow.NewSchema([]arrow.Field{
			{Name: "a", Type: text, Nullable: true},
			{Name: "b", Type: long, Nullable: true},
			{Name: "v", Type: text, Nullable: true},
			{Name: "seq", Type: long, Nullable: true},
		}, nil),
	}
}

// batch is made of rows "a b v seq"; NULL is NULL.
func (w *rworld) batch(lines ...string) *merge.Batch {
	w.t.Helper()
	var objects []string
	for _, l := range lines {
		f := strings.Fields(l)
		quote := func(s string) string {
			if s == "NULL" {
				return "null"
			}
			return fmt.Sprintf("%q", s)
		}
		objects = append(objects, fmt.Sprintf(`{"a":%s,"b":%s,"v":%s,"seq":%s}`, quote(f[0]),
			strings.ReplaceAll(f[1], "NULL", "null"), quote(f[2]), strings.ReplaceAll(f[3], "NULL", "null")))
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, w.sch, strings.NewReader("["+strings.Join(objects, ",")+"]"))
	if err != nil {
		w.t.Fatal(err)
	}
	return &merge.Batch{Name: "r", Schema: w.sch, Files: []merge.InputFile{{
		Name: "r", Records: []arrow.RecordBatch{rec}, Present: map[string]bool{"a": true, "b": true, "v": true, "seq": true},
	}}}
}

func (w *rworld) job(lines ...string) *merge.ReplaceJob {
	w.t.Helper()
	job := &merge.ReplaceJob{
		Table: w.table, Batch: w.batch(lines...), Roles: w.roles, RunID: uuid.NewString(), CheckRetries: true,
		Retry: &deltatable.Retry{Max: 50, Sleep: noSleep}, Workers: 2,
	}
	snap, err := w.table.Snapshot(w.t.Context())
	if err == nil {
		job.Read = snap
		return job
	}
	ds, err := deltatable.SchemaFromArrow(w.sch)
	if err != nil {
		w.t.Fatal(err)
	}
	props := w.roles.Properties()
	for k, v := range w.props {
		props[k] = v
	}
	md, protocol, err := deltatable.NewTableMetadata(ds, w.parts, props)
	if err != nil {
		w.t.Fatal(err)
	}
	job.Create = &merge.NewTable{Metadata: md, Protocol: protocol}
	return job
}

func (w *rworld) apply(lines ...string) *merge.Result {
	w.t.Helper()
	res, err := merge.Replace(w.t.Context(), w.job(lines...))
	if err != nil {
		w.t.Fatalf("replace %q: %v", lines, err)
	}
	return res
}

func (w *rworld) state() []string {
	w.t.Helper()
	snap, err := w.table.Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return stateOf(w.t, snap)
}

func TestReplaceDecidesEachKey(t *testing.T) {
	w := newReplaceWorld(t, nil, nil)
	w.apply("k 1 x 5", "k 1 y 5", "k 2 z 5", "NULL NULL n 1")
	res := w.apply(
		"k 1 tie 5",                // appended
		"k 2 old 4", "k 2 older 3", // stale, and below the batch's highest
		"NULL NULL m 2", "NULL 1 o 1", // NULL equals NULL: replaced; another key: added
	)
	want := []string{"appended", "stale", "superseded_in_batch", "replaced", "added"}
	if diff := gocmp.Diff(want, outcomes(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	state := []string{"NULL 1 o 1", "NULL NULL m 2", "k 1 tie 5", "k 1 x 5", "k 1 y 5", "k 2 z 5"}
	if diff := gocmp.Diff(state, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestReplaceIgnoresIdenticalTiesWhenAsked(t *testing.T) {
	w := newReplaceWorld(t, nil, nil)
	w.roles.IgnoreIdentical = true
	w.apply("k 1 x 5", "k 1 y 5")
	res := w.apply("k 1 x 5", "k 1 z 5")
	if diff := gocmp.Diff([]string{"duplicate", "appended"}, outcomes(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"k 1 x 5", "k 1 y 5", "k 1 z 5"}, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if res := w.apply("k 1 x 5"); res.Version != nil {
		t.Errorf("a batch that changes no row made version %d", *res.Version)
	}
	// Of rows that are the same, all are there already or none.
	res = w.apply("k 1 n 5", "k 1 y 5", "k 1 n 5", "k 1 y 5", "k 1 NULL 5")
	if diff := gocmp.Diff([]string{"appended", "duplicate", "appended", "duplicate", "appended"}, outcomes(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestReplaceFindsManyTies: ties of one key are looked up, not compared in pairs,
// which took more than a minute for 20,000.
func TestReplaceFindsManyTies(t *testing.T) {
	const n = 100_000
	w := newReplaceWorld(t, nil, nil)
	w.roles.IgnoreIdentical = true
	stored, again := make([]string, n), make([]string, n)
	for i := range n {
		stored[i], again[i] = fmt.Sprintf("k 1 v%d 5", i), fmt.Sprintf("k 1 v%d 5", i+n/2)
	}
	w.apply(stored...)
	began := time.Now()
	res := w.apply(again...)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	want := map[string]int64{"duplicate": n / 2, "appended": n / 2}
	if diff := gocmp.Diff(want, countsOf(res)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if got := len(w.state()); got != n+n/2 {
		t.Errorf("%d rows, want %d", got, n+n/2)
	}
}

func TestReplaceRefusesNullSequences(t *testing.T) {
	w := newReplaceWorld(t, nil, nil)
	w.apply("k 1 x 5")
	_, err := merge.Replace(t.Context(), w.job("k 1 y 6", "k 2 y NULL"))
	var refused *merge.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "a=k b=2") {
		t.Errorf("got %v, want a refusal that names the key", err)
	}
}

// TestReplaceRandomSequences applies random batches in random order, with
// random winners in between, and compares with each key's rows at its highest
// sequence over all batches (merge-semantics 4).
func TestReplaceRandomSequences(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("DELTAFOLD_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	runs := 500
	if os.Getenv("DELTAFOLD_SOAK") != "" {
		runs = 2000
	}
	t.Logf("%d random sequences of batches, seed %d", runs, seed)
	null := func(s string) string {
		if rng.IntN(6) == 0 {
			return "NULL"
		}
		return s
	}
	for run := range runs {
		var parts []string
		if rng.IntN(3) == 0 {
			parts = []string{[]string{"a", "v"}[rng.IntN(2)]}
		}
		var props map[string]string
		if rng.IntN(2) == 0 {
			props = map[string]string{"delta.targetFileSize": "8"}
		}
		w := newReplaceWorld(t, parts, props)
		var all []string
		random := func() []string {
			var lines []string
			for range 1 + rng.IntN(5) {
				lines = append(lines, fmt.Sprintf("%s %s v%d %d", null([]string{"x", "y"}[rng.IntN(2)]), null(fmt.Sprint(rng.IntN(2))), rng.IntN(3), rng.IntN(4)))
			}
			all = append(all, lines...)
			return lines
		}
		for range 2 + rng.IntN(4) {
			lines := random()
			job := w.job(lines...)
			if job.Read != nil && rng.IntN(3) == 0 {
				first := true
				job.BeforeCommit = func(context.Context, *merge.Attempt) (*merge.Recorded, error) {
					if first {
						first = false
						w.apply(random()...)
					}
					return &merge.Recorded{}, nil
				}
			}
			if _, err := merge.Replace(t.Context(), job); err != nil {
				t.Fatalf("run %d: %v", run, err)
			}
		}
		if diff := gocmp.Diff(highest(all), w.state()); diff != "" {
			t.Fatalf("run %d (seed %d): state (-want +got):\n%s\nall: %q", run, seed, diff, all)
		}
	}
}

// highest is the multiset of each key's rows at its highest sequence.
func highest(lines []string) []string {
	key := func(l string) (string, int) {
		f := strings.Fields(l)
		n, err := strconv.Atoi(f[3])
		if err != nil {
			panic(err)
		}
		return f[0] + " " + f[1], n
	}
	top := map[string]int{}
	for _, l := range lines {
		k, n := key(l)
		if have, ok := top[k]; !ok || n > have {
			top[k] = n
		}
	}
	var out []string
	for _, l := range lines {
		if k, n := key(l); top[k] == n {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}
