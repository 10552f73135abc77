package pipeline_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/checkpoints"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// check compares everything that is left of a run with what must be.
func (c *chaos) check() {
	c.t.Helper()
	before, made := c.fold()
	if c.t.Failed() {
		return
	}
	for name, rep := range c.reports {
		v, ok := made[name]
		if ok != (rep.Version != nil) || ok && v != *rep.Version {
			c.t.Errorf("%s reported version %v, the log has it at %d (%v)", name, rep.Version, v, ok)
		}
	}
	for name, err := range c.failed {
		if v, ok := made[name]; ok {
			c.t.Errorf("%s failed with %v, and yet version %d is its commit", name, err, v)
		}
	}
	c.checkOutcomes(before, made)
	if c.counts["faults"] == 0 {
		c.noOrphans(c.url)
		c.noOrphans(c.url + "-outcomes")
		c.counts["without faults"]++
	}
	rep, err := pipeline.Audit(c.t.Context(), c.plain, &pipeline.AuditJob{Table: c.url, Changes: c.dir})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range rep.Findings {
		if len(c.others[f.Version].gone) > 0 && f.Check == checkpoints.CheckVersions {
			continue // a removal by a writer that is not guarded: rightly found
		}
		c.t.Errorf("audit: %v", f)
	}
}

// fold applies the commits in their order to an oracle and compares it with
// every version. It gives the oracle before each version, and the version that
// each batch made.
func (c *chaos) fold() ([]*tabletest.Oracle, map[string]deltatable.Version) {
	c.t.Helper()
	o := c.world.Oracle()
	o.Apply(tabletest.Batch{}) // so that it has a state
	var before []*tabletest.Oracle
	made := map[string]deltatable.Version{}
	last := latest(c.t, c.plain, c.url).Version()
	for v := range last + 1 {
		before = append(before, o.Clone())
		e, err := c.table.Entry(c.t.Context(), v)
		if err != nil {
			c.t.Fatalf("version %d: %v", v, err) // a hole
		}
		name := e.Info.Tags[change.TagBatch]
		b, ours := c.batches[name]
		d, other := c.others[v]
		switch {
		case other && name == "":
			o = c.edit(o, d)
		case ours && !other:
			if was, twice := made[name]; twice {
				c.t.Errorf("%s made versions %d and %d", name, was, v)
			}
			made[name] = v
			if _, refused := o.Apply(b); refused {
				c.t.Errorf("version %d is of %s, which had to be refused", v, name)
			}
		default:
			c.t.Fatalf("version %d (%s) is nobody's", v, name)
		}
		snap, err := c.table.SnapshotAt(c.t.Context(), v)
		if err != nil {
			c.t.Fatal(err)
		}
		if d := o.Diff(c.rowsIn(snap, snap.Files()...)); d != "" {
			c.t.Fatalf("version %d (%s %s):\n%s", v, e.Info.Operation, name, d)
		}
	}
	for v := range c.others {
		if v > last {
			c.t.Errorf("version %d is gone", v)
		}
	}
	return append(before, o), made
}

// edit makes an oracle with other rows.
func (c *chaos) edit(o *tabletest.Oracle, d delta) *tabletest.Oracle {
	rows := o.State()
	for _, k := range d.gone {
		delete(rows, k)
	}
	for _, r := range d.set {
		rows[o.KeyOf(r)] = r
	}
	roles := *c.world.Roles
	roles.Policy = change.Quarantine // for rows in conflict
	next := c.world.Oracle()
	next.Roles = &roles
	var b tabletest.Batch
	for _, r := range rows {
		in := tabletest.Row{"change_id": "x", "entity_id": r["entity_id"], "source_version": r["source_version"], "operation": "upsert", "value": r["value"]}
		switch r["status"] {
		case "deleted":
			in["operation"] = "delete"
		case "conflict":
			in["value"] = "one"
			other := maps.Clone(in)
			other["value"] = "another"
			b.Rows = append(b.Rows, other)
		}
		b.Rows = append(b.Rows, in)
	}
	next.Apply(b)
	next.Roles = c.world.Roles
	return next
}

// checkOutcomes: of every run that ended well or that the log has a commit of,
// the outcomes table has the outcomes, once; they are those that the oracle
// gives on the version that was read; and it has nothing else.
func (c *chaos) checkOutcomes(before []*tabletest.Oracle, made map[string]deltatable.Version) {
	c.t.Helper()
	got := map[string][]string{} // by batch: "run version read row outcome"
	snap := latest(c.t, c.plain, c.url+"-outcomes")
	for rec, err := range snap.Scan(c.t.Context(), &deltatable.ScanOptions{Columns: []string{"batch", "_run_id", "_version", "_read_version", "_row", "outcome"}}) {
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range tabletest.Rows(rec) {
			name := r["batch"].(string)
			got[name] = append(got[name], fmt.Sprintf("%s %v %v %06d %s", r["_run_id"], r["_version"], r["_read_version"], r["_row"], r["outcome"]))
		}
	}
	for run, commits := range c.outcomeCommits() {
		if commits != 1 {
			c.t.Errorf("the outcomes of run %s were committed %d times", run, commits)
		}
	}
	for name, lines := range got {
		slices.Sort(lines)
		run, rest, _ := strings.Cut(lines[0], " ")
		var version, read string
		if _, err := fmt.Sscan(rest, &version, &read); err != nil {
			c.t.Fatal(err)
		}
		at := 0
		if read != "<nil>" {
			if _, err := fmt.Sscan(read, &at); err != nil {
				c.t.Fatal(err)
			}
			at++ // the oracle before the version after the one that was read
		}
		v, committed := made[name]
		if committed && (version != fmt.Sprint(int64(v)) || at != int(v)) || !committed && version != "<nil>" {
			c.t.Errorf("%s: outcomes of version %s, read version %s; the log has it at %d (%v)", name, version, read, v, committed)
			continue
		}
		want, _ := before[at].Clone().Apply(c.batches[name])
		var wants []string
		for i, o := range want {
			wants = append(wants, fmt.Sprintf("%s %s %s %06d %s", run, version, read, i+1, o))
		}
		if diff := cmp.Diff(wants, lines); diff != "" {
			c.t.Errorf("outcomes of %s (-want +got):\n%s", name, diff)
		}
	}
	for name := range made {
		if len(got[name]) == 0 {
			c.t.Errorf("%s made version %d and has no outcomes", name, made[name])
		}
	}
	for name, rep := range c.reports {
		if len(rep.Warnings) == 0 && len(got[name]) == 0 {
			c.t.Errorf("%s ended well and has no outcomes", name)
		}
	}
	for name, err := range c.failed {
		var refused *merge.RefusedError
		if len(got[name]) > 0 && !errors.As(err, &refused) {
			c.t.Errorf("%s failed with %v and has outcomes", name, err)
		}
	}
}
