package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// TestRandomWinnersAndFaults has one writer meet winners of every kind and
// faults of every kind of call, at random. Afterwards every version is what the
// oracle makes of the commits in their order, no commit is lost, doubled or
// came of a run that failed, outcomes are those of the landed attempts, once a
// run, and the audit finds nothing.
func TestRandomWinnersAndFaults(t *testing.T) {
	first := seed(t)
	runs := 300
	if os.Getenv(envSoak) != "" {
		runs = 1500
	} else if raceEnabled {
		runs = 60
	}
	total := map[string]int{}
	for i := range runs {
		c := newChaos(t, newFaulty(t), first+uint64(i))
		c.run()
		for k, n := range c.counts {
			total[k] += n
		}
		if t.Failed() {
			t.Fatalf("run %d: %s=%d makes it the first run", i, envSeed, first+uint64(i))
		}
	}
	t.Logf("%d runs: %v", runs, total)
	for _, k := range append(slices.Clone(winnerNames), "applied", "undecided", "failed", "refused", "unchanged", "retries", "faults") {
		if total[k] == 0 && !raceEnabled {
			t.Errorf("no run met %s", k)
		}
	}
}

// delta is what a commit that is no merge did to the state.
type delta struct {
	gone []string // keys as the oracle names them
	set  []tabletest.Row
}

// chaos is one random run.
type chaos struct {
	*faulty
	seed   uint64
	rng    *rand.Rand
	world  *tabletest.World
	gen    *tabletest.Gen
	table  *deltatable.Table
	counts map[string]int

	batches map[string]tabletest.Batch       // by name
	reports map[string]*pipeline.ApplyReport // of runs that ended well, by batch
	failed  map[string]error                 // runs that made no commit, by batch
	others  map[deltatable.Version]delta     // commits that are no merges
	removed []*deltatable.Add                // files that a winner took out, whose rows are nowhere else
	left    int                              // winners left for the run under way
}

func newChaos(t *testing.T, f *faulty, seed uint64) *chaos {
	t.Helper()
	c := &chaos{
		faulty: f, seed: seed, rng: tabletest.NewRand(seed), counts: map[string]int{},
		batches: map[string]tabletest.Batch{}, reports: map[string]*pipeline.ApplyReport{}, failed: map[string]error{},
		others: map[deltatable.Version]delta{},
	}
	w := *tabletest.Default()
	roles := *w.Roles
	w.Roles = &roles
	o := tabletest.GenOptions{World: &w, Keys: 12, MaxRows: 12}
	if c.rng.IntN(5) == 0 {
		roles.Policy = change.Reject
		o.Invalid, o.Conflicts = -1, 30
	}
	if c.rng.IntN(3) == 0 {
		w.Partition = []string{"value"}
	}
	c.world, c.gen = &w, tabletest.NewGen(seed, o)
	var err error
	if c.table, err = c.plain.OpenTable(t.Context(), c.url); err != nil {
		t.Fatal(err)
	}
	return c
}

// apply folds the next random batch, or the given one again under a new name.
func (c *chaos) apply(e *pipeline.Env, b *tabletest.Batch) (string, error) {
	c.t.Helper()
	name, job := c.prepare(b)
	rep, err := pipeline.Apply(c.t.Context(), e, job)
	c.record(name, rep, err)
	return name, err
}

// prepare writes the next random batch, or the given one, to a file.
func (c *chaos) prepare(b *tabletest.Batch) (string, *pipeline.ApplyJob) {
	c.t.Helper()
	c.batchCount++
	name := fmt.Sprintf("batch-%d.jsonl", c.batchCount)
	path := filepath.Join(c.dir, name)
	if b == nil {
		next := c.gen.Batch()
		b = &next
	}
	c.batches[name] = *b
	var text strings.Builder
	for _, row := range b.Rows {
		line := map[string]any{}
		for _, f := range c.world.Input.Fields() {
			line[f.Name] = row[f.Name]
		}
		data, err := json.Marshal(line)
		if err != nil {
			c.t.Fatal(err)
		}
		text.Write(append(data, '\n'))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	job := applyJob(c.url, path)
	if len(c.reports) == 0 { // no table yet
		job.Roles.OnConflict, job.PartitionBy = string(c.world.Roles.Policy), c.world.Partition
		job.Properties = map[string]string{"delta.checkpointInterval": fmt.Sprint(1 + c.rng.IntN(6))}
		if c.rng.IntN(2) == 0 {
			job.Properties["delta.targetFileSize"] = "8"
		}
	}
	return name, job
}

// record notes how the run of a batch ended. A run that was undecided may be
// recorded again once it is known.
func (c *chaos) record(name string, rep *pipeline.ApplyReport, err error) {
	var undecided *deltatable.UndecidedError
	var refused *merge.RefusedError
	switch {
	case err == nil && rep.Version == nil:
		c.counts["unchanged"]++
		c.reports[name] = rep
	case err == nil:
		c.counts["applied"]++
		c.reports[name] = rep
		c.counts["retries"] += rep.Retries
	case errors.As(err, &undecided):
		c.counts["undecided"]++
	case errors.As(err, &refused):
		c.counts["refused"]++
		c.failed[name] = err
	default:
		c.counts["failed"]++
		c.failed[name] = err
	}
}

func (c *chaos) run() {
	t := c.t
	for n := 0; n < 1+c.rng.IntN(3) || len(c.reports) == 0; n++ {
		if _, err := c.apply(c.plain, nil); err != nil && c.world.Roles.Policy != change.Reject {
			t.Fatal(err)
		}
	}
	for range 1 + c.rng.IntN(3) {
		c.left = c.rng.IntN(8)
		c.faults()
		name, err := c.apply(c.env, nil)
		c.state.Decide, c.outcomes.Decide = nil, nil
		if c.rng.IntN(2) == 0 {
			c.land()
		}
		if err != nil && c.failed[name] == nil || c.rng.IntN(4) == 0 {
			b := c.batches[name]
			if _, err := c.apply(c.plain, &b); err != nil && c.world.Roles.Policy != change.Reject {
				t.Fatalf("seed %d: the batch again, without faults: %v", c.seed, err)
			}
		}
	}
	c.land()
	if _, err := pipeline.RepairOutcomes(t.Context(), c.plain, c.url); err != nil {
		t.Fatal(err)
	}
	c.check()
}

func (c *chaos) land() {
	c.t.Helper()
	if err := errors.Join(c.state.Land(), c.outcomes.Land()); err != nil {
		c.t.Fatal(err)
	}
}

// faults has calls of the writer under test go wrong: often a put of the log,
// seldom anything else. Winners, and late answers, come before a put of the
// state table's log.
func (c *chaos) faults() {
	rng := tabletest.NewRand(c.rng.Uint64())
	kinds := []blobstoretest.FaultKind{
		blobstoretest.Fail, blobstoretest.LoseRequest, blobstoretest.LoseAnswer, blobstoretest.LoseAnswer, blobstoretest.Late, blobstoretest.Half,
	}
	if rng.IntN(5) == 0 {
		kinds = []blobstoretest.FaultKind{blobstoretest.LoseRequest, blobstoretest.Late} // no answer at all
	}
	oftenness := []float64{0, 0, 0.002, 0.01}[rng.IntN(4)]
	entry := []float64{0, 0.2, 0.5, 1}[rng.IntN(4)]
	var mu sync.Mutex
	decide := func(state bool) func(blobstoretest.Call) blobstoretest.Fault {
		return func(call blobstoretest.Call) blobstoretest.Fault {
			mu.Lock()
			defer mu.Unlock()
			log := call.Op == blobstoretest.OpCreate && strings.HasSuffix(call.Key, ".json")
			p := oftenness
			if log {
				p = entry
			}
			var f blobstoretest.Fault
			if rng.Float64() < p {
				f.Kind = kinds[rng.IntN(len(kinds))]
				switch {
				case call.Op == blobstoretest.OpCreate && f.Kind == blobstoretest.Half:
					f.Kind = blobstoretest.Late
				case call.Op == blobstoretest.OpClose && f.Kind == blobstoretest.Late:
					f.Kind = blobstoretest.LoseAnswer // a writer does not outlive its context
				}
				c.counts["faults"]++
			}
			if state && log {
				f.Wait = func(context.Context) error {
					if c.rng.IntN(3) == 0 {
						c.land()
					}
					for c.left > 0 && c.rng.IntN(4) > 0 {
						c.left--
						c.winner()
					}
					return nil
				}
			}
			return f
		}
	}
	c.state.Decide, c.outcomes.Decide = decide(true), decide(false)
}
