package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
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
		c := newChaos(t, first+uint64(i))
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

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	c := &chaos{
		faulty: newFaulty(t), seed: seed, rng: tabletest.NewRand(seed), counts: map[string]int{},
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
	rep, err := pipeline.Apply(c.t.Context(), e, job)
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
	return name, err
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

// winnerNames are the kinds of winners, as winner numbers them.
var winnerNames = []string{
	"merge", "append", "rewrite", "compaction", "removal", "add again", "restore", "metadata", "property", "update", "add and remove",
}

// winner has another writer commit something lawful.
func (c *chaos) winner() {
	kind := c.rng.IntN(len(winnerNames))
	if len(c.removed) > 0 && c.rng.IntN(4) == 0 {
		kind = slices.Index(winnerNames, "restore")
	}
	if kind == 0 {
		if _, err := c.apply(c.plain, nil); err != nil && c.world.Roles.Policy != change.Reject {
			c.t.Fatal(err)
		}
		c.counts[winnerNames[0]]++
		return
	}
	snap := latest(c.t, c.plain, c.url)
	done := false
	switch winnerNames[kind] {
	case "append":
		done = c.appendRow(snap)
	case "rewrite":
		done = c.replace(snap, false, nil)
	case "compaction":
		done = c.replace(snap, true, nil)
	case "update":
		done = c.replace(snap, false, func(rows []tabletest.Row) []tabletest.Row {
			i := c.rng.IntN(len(rows))
			row := maps.Clone(rows[i])
			row["source_version"] = row["source_version"].(int64) + 1
			rows[i] = row
			return rows[i : i+1]
		})
	case "removal":
		done = c.remove(snap)
	case "add and remove":
		if done = c.appendRow(snap); done {
			c.remove(latest(c.t, c.plain, c.url))
		}
	case "add again":
		if files := snap.Files(); len(files) > 0 {
			again := *files[c.rng.IntN(len(files))]
			again.Stats = ""
			c.commit(snap, &deltatable.Commit{Operation: "COMPUTE STATS", Adds: []*deltatable.Add{&again}, Rearrange: true}, delta{})
			done = true
		}
	case "restore":
		done = c.restore(snap)
	case "metadata":
		md := *snap.Metadata()
		c.commit(snap, &deltatable.Commit{Operation: "REFRESH", Metadata: &md}, delta{})
		done = true
	case "property":
		rep, err := pipeline.SetProperties(c.t.Context(), c.plain, c.url, []string{fmt.Sprintf("team.note=%d", c.rng.Uint64())})
		if err != nil {
			c.t.Fatal(err)
		}
		c.others[*rep.Version] = delta{}
		done = true
	}
	if done {
		c.counts[winnerNames[kind]]++
	}
}

func (c *chaos) commit(snap *deltatable.Snapshot, w *deltatable.Commit, d delta) {
	c.t.Helper()
	landed, err := c.table.TryCommit(c.t.Context(), snap, w)
	if err != nil {
		c.t.Fatalf("seed %d: a winner: %s: %v", c.seed, w.Operation, err)
	}
	c.others[landed.Version] = d
}

// write puts rows of the state table, all of one partition, into a new file.
func (c *chaos) write(snap *deltatable.Snapshot, rows []tabletest.Row) []*deltatable.Add {
	c.t.Helper()
	rec := tabletest.Batch{Rows: rows}.Records(c.world.Table)[0]
	cols := array.NewRecordBatch(snap.Schema(), rec.Columns(), rec.NumRows())
	part, err := snap.Layout().Partition(cols, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	w, err := c.table.NewFileWriter(c.t.Context(), snap.Layout(), part)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := w.Write(cols); err != nil {
		c.t.Fatal(err)
	}
	adds, err := w.Close()
	if err != nil {
		c.t.Fatal(err)
	}
	return adds
}

func (c *chaos) rowsIn(snap *deltatable.Snapshot, files ...*deltatable.Add) []tabletest.Row {
	c.t.Helper()
	var rows []tabletest.Row
	for _, a := range files {
		r, err := snap.OpenFile(c.t.Context(), a)
		if err != nil {
			c.t.Fatal(err)
		}
		for b, err := range r.Read(c.t.Context(), &deltatable.ReadOptions{}) {
			if err != nil {
				c.t.Fatal(err)
			}
			rows = append(rows, tabletest.Rows(b.Rec)...)
		}
		if err := r.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
	return rows
}

func (c *chaos) keys(rows []tabletest.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, c.world.Oracle().KeyOf(r))
	}
	return out
}

// appendRow adds the row of a key that is not there, as another engine would.
func (c *chaos) appendRow(snap *deltatable.Snapshot) bool {
	have := c.keys(c.rowsIn(snap, snap.Files()...))
	for range 20 {
		in := c.gen.Row(c.rng.IntN(14), 1+c.rng.IntN(12), 0)
		if in["operation"] != "upsert" || slices.Contains(have, c.world.Oracle().KeyOf(in)) {
			continue
		}
		row := tabletest.Row{"entity_id": in["entity_id"], "source_version": in["source_version"], "status": "active", "value": in["value"]}
		c.commit(snap, &deltatable.Commit{Operation: "WRITE", Adds: c.write(snap, []tabletest.Row{row})}, delta{set: []tabletest.Row{row}})
		return true
	}
	return false
}

// replace writes the rows of one file, or of all files of its partition, anew;
// edit changes some of them, nil none.
func (c *chaos) replace(snap *deltatable.Snapshot, all bool, edit func([]tabletest.Row) []tabletest.Row) bool {
	if len(snap.Files()) == 0 {
		return false
	}
	one := snap.Files()[c.rng.IntN(len(snap.Files()))]
	files := []*deltatable.Add{one}
	if all {
		files = nil
		part, err := snap.Layout().PartitionOf(one)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, f := range snap.Files() {
			if p, err := snap.Layout().PartitionOf(f); err == nil && p.Key == part.Key {
				files = append(files, f)
			}
		}
	}
	rows := c.rowsIn(snap, files...)
	w := &deltatable.Commit{Operation: "OPTIMIZE", Removes: files, Rearrange: edit == nil}
	d := delta{}
	if edit != nil {
		w.Operation, d.set = "UPDATE", edit(rows)
	}
	w.Adds = c.write(snap, rows)
	c.commit(snap, w, d)
	return true
}

func (c *chaos) remove(snap *deltatable.Snapshot) bool {
	if len(snap.Files()) == 0 {
		return false
	}
	f := snap.Files()[c.rng.IntN(len(snap.Files()))]
	c.commit(snap, &deltatable.Commit{Operation: "DELETE", Removes: []*deltatable.Add{f}}, delta{gone: c.keys(c.rowsIn(snap, f))})
	c.removed = append(c.removed, f)
	return true
}

// restore puts a file back that was removed, if its keys are nowhere else.
func (c *chaos) restore(snap *deltatable.Snapshot) bool {
	have := c.keys(c.rowsIn(snap, snap.Files()...))
	for _, f := range c.removed {
		rows := c.rowsIn(snap, f)
		if slices.ContainsFunc(c.keys(rows), func(k string) bool { return slices.Contains(have, k) }) {
			continue
		}
		c.commit(snap, &deltatable.Commit{Operation: "RESTORE", Adds: []*deltatable.Add{f}}, delta{set: rows})
		return true
	}
	return false
}
