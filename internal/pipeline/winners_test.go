package pipeline_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge/change"
)

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
