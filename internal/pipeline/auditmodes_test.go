package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/deltafold/deltafold/checkpoints"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// audited is a table of a mode with the folder of its batches.
type audited struct {
	*testing.T
	env   *pipeline.Env
	table string
	dir   string
	n     int
}

func newAudited(t *testing.T) *audited {
	return &audited{T: t, env: &pipeline.Env{}, table: "mem://" + uuid.NewString(), dir: t.TempDir()}
}

// file writes a batch of JSON lines.
func (a *audited) file(lines ...string) string {
	a.Helper()
	a.n++
	path := filepath.Join(a.dir, fmt.Sprintf("batch-%d.jsonl", a.n))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		a.Fatal(err)
	}
	return path
}

func (a *audited) done(rep *pipeline.ApplyReport, err error) deltatable.Version {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
	if len(rep.Warnings) > 0 {
		a.Fatal(rep.Warnings)
	}
	if rep.Audit != nil {
		for _, f := range rep.Audit.Findings {
			a.Errorf("audit of the run: %v", f)
		}
	}
	return latest(a.T, a.env, a.table).Version()
}

// audit audits the whole table with and without the change files.
func (a *audited) audit(want ...finding) *checkpoints.Report {
	a.Helper()
	var rep *checkpoints.Report
	for _, dir := range []string{a.dir, ""} {
		var err error
		rep, err = pipeline.Audit(a.Context(), a.env, &pipeline.AuditJob{Table: a.table, Changes: dir, Full: dir == ""})
		if err != nil {
			a.Fatal(err)
		}
		for _, f := range rep.Findings {
			if !slices.ContainsFunc(want, func(w finding) bool { return w.is(f) }) {
				a.Errorf("changes %q: unwanted: %v", dir, f)
			}
		}
		for _, w := range want {
			if !slices.ContainsFunc(rep.Findings, w.is) {
				a.Errorf("changes %q: no finding %v; there are %v", dir, w, rep.Findings)
			}
		}
	}
	return rep
}

type finding struct {
	v     deltatable.Version
	check string
	keys  string
}

func (w finding) is(f checkpoints.Finding) bool {
	return f.Version == w.v && f.Check == w.check && strings.Join(f.Keys, "; ") == w.keys
}

// noted demands a note about the writer of a version.
func (a *audited) noted(rep *checkpoints.Report, v deltatable.Version, text string) {
	a.Helper()
	for _, c := range rep.Versions[v-rep.From].Checks {
		if c.Name == checkpoints.CheckWriter && c.Status == checkpoints.Note && strings.Contains(c.Detail, text) {
			return
		}
	}
	a.Errorf("version %d: no note %q in %v", v, text, rep.Versions[v-rep.From].Checks)
}

func (a *audited) replace(j pipeline.ReplaceJob, lines ...string) (*pipeline.ApplyReport, error) {
	a.Helper()
	j.Fold.Table, j.Fold.Files, j.Fold.Audit = a.table, []string{a.file(lines...)}, true
	j.Using, j.Sequence = []string{"k", "j"}, "seq"
	if a.n == 1 {
		j.Fold.Schema = "k string, j long, seq long, p string"
	}
	return pipeline.ReplaceUsing(a.Context(), a.env, &j)
}

// TestAuditReplaceHistories: random batches through the pipeline, in random order, with ties,
// NULL keys and expectations, give no finding.
func TestAuditReplaceHistories(t *testing.T) {
	histories := 25
	if os.Getenv("DELTAFOLD_SOAK") != "" {
		histories = 300
	}
	base, counts, refused := rand.Uint64(), change.Counts{}, 0
	for n := range histories {
		seed := base + uint64(n)
		rnd := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
		a := newAudited(t)
		for range 7 {
			lines := make([]string, 1+rnd.IntN(9))
			for i := range lines {
				lines[i] = fmt.Sprintf(`{"k":%s,"j":%s,"seq":%d,"p":%s}`,
					pick(`"a"`, `"b"`, `"c"`, `""`, "null"), pick("1", "2", "null"), rnd.IntN(7), pick(`"u"`, `"v"`, `"odd"`, `"bad"`, `"worse"`, "null"))
			}
			j := pipeline.ReplaceJob{Again: rnd.IntN(2) == 0}
			if a.n > 0 {
				j.Ties = pick("", change.TiesAppend, change.TiesIgnoreIdentical)
				for _, e := range []change.Expectation{
					{Name: "good", Condition: "p <> 'bad'", Action: change.ExpectDrop},
					{Name: "odd", Condition: "p IS NULL OR p <> 'odd'", Action: change.ExpectWarn},
					{Name: "worse", Condition: "p IS NULL OR p <> 'worse'", Action: change.ExpectFail},
				} {
					if rnd.IntN(3) == 0 {
						j.Fold.Expectations = append(j.Fold.Expectations, e)
					}
				}
			}
			rep, err := a.replace(j, lines...)
			if r := (*merge.RefusedError)(nil); errors.As(err, &r) {
				refused++
				err = nil
			}
			a.done(rep, err)
			for o, n := range rep.Counts {
				counts[o] += n
			}
		}
		a.audit()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("seeds %d to %d: %d batches, %d refused, %s", base, base+uint64(histories)-1, histories*7, refused, counts.JSON())
}

// TestAuditReplaceBrokenGuard: what statements with --break-guard do to a table in mode
// replace.
func TestAuditReplaceBrokenGuard(t *testing.T) {
	a := newAudited(t)
	a.done(a.replace(pipeline.ReplaceJob{}, `{"k":"a","j":1,"seq":5,"p":"u"}`, `{"k":"a","j":1,"seq":5,"p":"v"}`, `{"k":"b","j":1,"seq":2,"p":"u"}`,
		`{"k":null,"j":1,"seq":3,"p":"u"}`, `{"k":"c","j":1,"seq":2,"p":"u"}`))
	fold := pipeline.ApplyJob{Table: a.table}
	where := func(cond string) *pipeline.ChangeJob {
		return &pipeline.ChangeJob{Fold: fold, Where: cond, BreakGuard: true}
	}
	del := a.done(pipeline.Delete(t.Context(), a.env, where("k IS NULL")))
	one := a.done(pipeline.Delete(t.Context(), a.env, where("p = 'v'")))
	j := where("k = 'b'")
	j.Set = []string{"seq = 1"}
	low := a.done(pipeline.Update(t.Context(), a.env, j))
	j = where("k = 'b'")
	j.Set = []string{"p = 'other'"}
	upd := a.done(pipeline.Update(t.Context(), a.env, j))
	mrg := a.done(pipeline.Merge(t.Context(), a.env, &pipeline.MergeJob{
		Fold: fold, BreakGuard: true, SQL: "MERGE INTO t USING s ON t.k = s.k AND t.seq = s.seq WHEN NOT MATCHED THEN INSERT *",
		Sources: []pipeline.MergeSource{{Name: "s", Files: []string{a.file(`{"k":"a","j":1,"seq":4,"p":"u"}`, `{"k":"n","j":1,"seq":1,"p":"u"}`)}}},
	}))
	lawful := a.done(pipeline.Merge(t.Context(), a.env, &pipeline.MergeJob{
		Fold: fold, BreakGuard: true, SQL: "MERGE INTO t USING s ON t.k = s.k AND t.p = s.p WHEN NOT MATCHED THEN INSERT *",
		Sources: []pipeline.MergeSource{{Name: "s", Files: []string{a.file(`{"k":"c","j":1,"seq":2,"p":"tie"}`)}}},
	}))
	after := a.done(a.replace(pipeline.ReplaceJob{}, `{"k":"c","j":1,"seq":9,"p":"u"}`))
	rep := a.audit(
		finding{del, checkpoints.CheckSequence, "(null), 1"}, finding{one, checkpoints.CheckState, "a, 1"},
		finding{low, checkpoints.CheckSequence, "b, 1"}, finding{upd, checkpoints.CheckState, "b, 1"}, finding{mrg, checkpoints.CheckState, "a, 1"},
	)
	for v, op := range map[deltatable.Version]string{del: "delete", one: "delete", low: "update", upd: "update", mrg: "merge", lawful: "merge"} {
		a.noted(rep, v, op+" --break-guard")
	}
	if after != lawful+1 {
		t.Errorf("version %d", after)
	}
}

// TestAuditGuardedBrokenGuard: the same on a guarded table, and expectations there.
func TestAuditGuardedBrokenGuard(t *testing.T) {
	a := newAudited(t)
	apply := func(expect []change.Expectation, lines ...string) deltatable.Version {
		j := &pipeline.ApplyJob{Table: a.table, Files: []string{a.file(lines...)}, Audit: true, Expectations: expect}
		if a.n == 1 {
			j.Schema = "id string, source_version long, operation string, p string"
			j.Roles.Keys = []string{"id"}
		}
		rep, err := pipeline.Apply(t.Context(), a.env, j)
		return a.done(rep, err)
	}
	row := func(id string, v int, op, p string) string {
		return fmt.Sprintf(`{"id":%q,"source_version":%d,"operation":%q,"p":%s}`, id, v, op, p)
	}
	apply(nil, row("a", 3, "upsert", `"u"`), row("b", 3, "upsert", `"u"`), row("c", 3, "delete", "null"), row("d", 3, "upsert", `"u"`))
	// A dropped row supersedes nothing.
	apply([]change.Expectation{{Name: "good", Condition: "p IS NULL OR p <> 'bad'", Action: change.ExpectDrop}},
		row("a", 9, "upsert", `"bad"`), row("a", 4, "upsert", `"n"`), row("d", 4, "upsert", `"bad"`))
	fold := pipeline.ApplyJob{Table: a.table}
	erased := a.done(pipeline.Delete(t.Context(), a.env, &pipeline.ChangeJob{Fold: fold, Where: "id = 'c'", BreakGuard: true}))
	lowered := a.done(pipeline.Update(t.Context(), a.env, &pipeline.ChangeJob{Fold: fold, Where: "id = 'b'", Set: []string{"source_version = 1"}, BreakGuard: true}))
	changed := a.done(pipeline.Update(t.Context(), a.env, &pipeline.ChangeJob{Fold: fold, Where: "id = 'd'", Set: []string{"p = 'x'"}, BreakGuard: true}))
	doubled := a.done(pipeline.Merge(t.Context(), a.env, &pipeline.MergeJob{
		Fold: fold, BreakGuard: true, SQL: "MERGE INTO t USING s ON t.id = s.id AND t.source_version = s.source_version WHEN NOT MATCHED THEN INSERT *",
		Sources: []pipeline.MergeSource{{Name: "s", Files: []string{a.file(`{"id":"a","source_version":7,"status":"active","p":"u"}`)}}},
	}))
	rep := a.audit(
		finding{erased, checkpoints.CheckVersions, "c"}, finding{lowered, checkpoints.CheckVersions, "b"},
		finding{changed, checkpoints.CheckOthers, "d"}, finding{doubled, checkpoints.CheckKeys, "a"},
	)
	for v, op := range map[deltatable.Version]string{erased: "delete", lowered: "update", changed: "update", doubled: "merge"} {
		a.noted(rep, v, op+" --break-guard")
	}
}

// TestAuditPlain: statements on plain tables; then every kind of damage.
func TestAuditPlain(t *testing.T) {
	build := func(t *testing.T) (a *audited, merged, deleted deltatable.Version) {
		a = newAudited(t)
		if _, err := pipeline.Append(t.Context(), a.env, &pipeline.AppendJob{
			Table: a.table, Schema: "id long, p string", Files: []string{a.file(`{"id":1,"p":"u"}`, `{"id":2,"p":"u"}`, `{"id":3,"p":"u"}`)},
		}); err != nil {
			t.Fatal(err)
		}
		fold := pipeline.ApplyJob{Table: a.table, Audit: true}
		fold.Expectations = []change.Expectation{{Name: "good", Condition: "p <> 'bad'", Action: change.ExpectDrop}}
		merged = a.done(pipeline.Merge(t.Context(), a.env, &pipeline.MergeJob{
			Fold: fold, SQL: "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.p = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
			Sources: []pipeline.MergeSource{{Name: "s", Files: []string{a.file(`{"id":1,"p":"n"}`, `{"id":2,"p":"gone"}`, `{"id":3,"p":"bad"}`, `{"id":4,"p":"n"}`)}}},
		}))
		fold = pipeline.ApplyJob{Table: a.table, Audit: true}
		a.done(pipeline.Update(t.Context(), a.env, &pipeline.ChangeJob{Fold: fold, Where: "id = 1", Set: []string{"p = 'x'"}}))
		deleted = a.done(pipeline.Delete(t.Context(), a.env, &pipeline.ChangeJob{Fold: fold, Where: "id = 3"}))
		fold.Files = []string{a.file(`{"id":4,"p":"o"}`, `{"id":4,"p":"o"}`)}
		a.done(pipeline.Overwrite(t.Context(), a.env, &pipeline.ChangeJob{Fold: fold, Where: "id = 4"}))
		return a, merged, deleted
	}
	a, _, _ := build(t)
	a.audit()
	// edit changes the log entry of a version in place.
	edit := func(a *audited, v deltatable.Version, old, by string) {
		table, err := a.env.OpenTable(t.Context(), a.table)
		if err != nil {
			t.Fatal(err)
		}
		store := table.Store()
		key := fmt.Sprintf("_delta_log/%020d.json", v)
		data, err := store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(data, []byte(old)) // in an add action, where it is about files
		if at < 0 {
			t.Fatalf("nothing to edit in %s", data)
		}
		next := slices.Concat(data[:at], []byte(by), data[at+len(old):])
		if err := store.Put(t.Context(), key, next); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, old, by, check string
		ofDelete             bool
	}{
		{"inserts", `"deltafold.inserts":"1"`, `"deltafold.inserts":"2"`, checkpoints.CheckRows, false},
		{"deletes", `"deltafold.deletes":"1"`, `"deltafold.deletes":"0"`, checkpoints.CheckRows, true},
		{"no deletes", `"deltafold.deletes"`, `"lost"`, checkpoints.CheckRows, false},
		{"counts", `\"inserted\":1`, `\"inserted\":2`, checkpoints.CheckCounts, false},
		{"run", `"deltafold.run":"`, `"deltafold.run":"x`, checkpoints.CheckCounts, false},
		{"file hash", `"deltafold.xxh128":"`, `"deltafold.xxh128":"0000`, checkpoints.CheckFileHash, false},
		{"expectation", `p <> 'bad'`, `p <> 'dab'`, checkpoints.CheckExpectations, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, merged, deleted := build(t)
			v := merged
			if c.ofDelete {
				v = deleted
			}
			edit(a, v, c.old, c.by)
			rep, err := pipeline.Audit(t.Context(), a.env, &pipeline.AuditJob{Table: a.table, Changes: a.dir})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(rep.Findings, func(f checkpoints.Finding) bool { return f.Version == v && f.Check == c.check }) {
				t.Errorf("no finding of %s at version %d: %v", c.check, v, rep.Findings)
			}
			for _, f := range rep.Findings {
				if f.Version != v {
					t.Errorf("unwanted: %v", f)
				}
			}
		})
	}
}
