package tabletest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// The merge and the oracle, both told from the text, agree on random histories
// of random worlds: every outcome, every state.
func TestMergeAgreesWithTheOracle(t *testing.T) {
	rounds := 1
	if os.Getenv("DELTAFOLD_SOAK") == "1" {
		rounds = 20
	}
	histories, batches, refusals := 0, 0, 0
	for range rounds {
		rapid.Check(t, func(t *rapid.T) {
			seed := rapid.Uint64().Draw(t, "seed")
			w := tabletest.RandomWorld(tabletest.NewRand(seed), tabletest.WorldOptions{})
			opts := tabletest.GenOptions{World: w, Keys: []int{1, 4, 30, 300}[seed%4]}
			if w.Roles.Policy == change.Reject {
				opts.Invalid, opts.Conflicts = 10, 10
			}
			histories++
			refusals += agree(t, w, tabletest.NewGen(seed, opts), 4)
			batches += 4
		})
	}
	t.Logf("%d histories, %d batches, %d of them refused", histories, batches, refusals)
}

// The same with batches that cross record batches and row counts at which tests
// of small data see nothing.
func TestMergeAgreesWithTheOracleOnLargeBatches(t *testing.T) {
	rounds := 2
	if os.Getenv("DELTAFOLD_SOAK") == "1" {
		rounds = 20
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := tabletest.RandomWorld(tabletest.NewRand(seed), tabletest.WorldOptions{Policy: change.Quarantine, FlatPayload: true})
			agree(t, w, tabletest.NewGen(seed, tabletest.GenOptions{World: w, Keys: 5000, MinRows: 8193, MaxRows: 12000}), 3)
		})
	}
}

// tester is what a test of testing and one of rapid have in common here.
type tester interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// agree applies n batches to a new table in memory and to an oracle; it returns
// how many were refused.
func agree(t tester, w *tabletest.World, g *tabletest.Gen, n int) (refusals int) {
	o := w.Oracle()
	store, err := blobstore.Open(t.Context(), "mem://"+uuid.NewString())
	if err != nil {
		t.Fatal(err)
	}
	table := deltatable.NewTable(store, nil)
	for k := range n {
		b := g.Batch()
		want, refused := o.Apply(b)
		if refused {
			refusals++
		}
		got, err := apply(t, table, w, b, fmt.Sprintf("%064x", k))
		var re *merge.RefusedError
		if errors.As(err, &re) != refused || err != nil && !refused {
			t.Fatalf("batch %d: refused %v, %v\n%v", k, refused, err, want)
		}
		if len(got) != len(want) {
			t.Fatalf("batch %d: %d outcomes for %d rows", k, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("batch %d (%s), row %d: outcome %s, want %s\n%v", k, w.Roles.Policy, i, got[i], want[i], b.Rows[i])
			}
		}
		snap, err := table.Snapshot(t.Context())
		if err != nil {
			if refused {
				continue // no batch has made the table yet
			}
			t.Fatal(err)
		}
		var rows []tabletest.Row
		for rec, err := range snap.Scan(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, tabletest.Rows(rec)...)
		}
		if d := o.Diff(rows); d != "" {
			t.Fatalf("after batch %d:\n%s", k, d)
		}
	}
	return refusals
}

func apply(t tester, table *deltatable.Table, w *tabletest.World, b tabletest.Batch, digest string) ([]change.Outcome, error) {
	present := map[string]bool{}
	for _, f := range w.Input.Fields() {
		present[f.Name] = true
	}
	recs := b.Records(w.Input)
	job := &merge.Job{
		Table: table, Roles: w.Roles, RunID: uuid.NewString(),
		Batch: &merge.Batch{Name: "b", Digest: digest, Schema: w.Input, Files: []merge.InputFile{{Name: "b.jsonl", Records: recs, Present: present}}},
	}
	if snap, err := table.Snapshot(t.Context()); err == nil {
		job.Read = snap
	} else {
		sch, err := deltatable.SchemaFromArrow(arrow.NewSchema(w.Table.Fields(), nil))
		if err != nil {
			t.Fatal(err)
		}
		md, protocol, err := deltatable.NewTableMetadata(sch, w.Partition, w.Roles.Properties())
		if err != nil {
			t.Fatal(err)
		}
		job.Create = &merge.NewTable{Metadata: md, Protocol: protocol}
	}
	res, err := merge.Run(t.Context(), job)
	if res == nil {
		return nil, err
	}
	var out []change.Outcome
	for _, f := range res.Outcomes {
		out = append(out, f...)
	}
	return out, err
}
