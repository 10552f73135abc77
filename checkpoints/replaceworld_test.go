package checkpoints

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// rrow is a row of a table in mode replace; key, payload and sequence "-" are NULL.
type rrow struct {
	key string
	sub string
	seq string // of one digit, so that texts compare as numbers do
	p   string
}

func (r rrow) id() string { return r.key + "/" + r.sub }

var testExpectations = []change.Expectation{
	{Name: "good", Condition: "p <> 'bad'", Action: change.ExpectDrop},
	{Name: "odd", Condition: "p <> 'odd'", Action: change.ExpectWarn},
}

const (
	replaceDDL         = "k string, j string, seq long, p string"
	replaceOutcomesDDL = "_run_id string, _version long, _read_version long, _file string, _row long, batch string, " +
		"k string, j string, seq long, p string, outcome string"
)

type rfile struct {
	add  *deltatable.Add
	rows []rrow
}

// rworld is a table in mode replace that tests write to, as world is a guarded one.
type rworld struct {
	*world
	live   []rfile
	rnd    *rand.Rand
	expect []change.Expectation
	ignore bool
	// tamperRows changes the rows of a file about to be written.
	tamperRows func(rows []rrow) []rrow
}

func newReplaceWorld(ctx context.Context, t tester, seed uint64, props map[string]string) *rworld {
	w := &rworld{world: &world{t: t, ctx: ctx, batches: memoryBatches{}}, rnd: rand.New(rand.NewPCG(seed, 1))}
	w.table, w.outcomes = newTable(ctx, t), newTable(ctx, t)
	w.create(w.outcomes, replaceOutcomesDDL, nil, nil)
	roles := &change.ReplaceRoles{Keys: []string{"k", "j"}, Sequence: "seq"}
	all := roles.Properties()
	for k, v := range props {
		all[k] = v
	}
	w.snap = w.create(w.table, replaceDDL, all, nil)
	return w
}

func replaceRecord(sch *arrow.Schema, rows []rrow) arrow.RecordBatch {
	b := array.NewRecordBuilder(allocator(), sch)
	for _, r := range rows {
		for i, v := range []string{r.key, r.sub, r.seq, r.p} {
			if v == "-" {
				b.Field(i).AppendNull()
			} else if err := b.Field(i).AppendValueFromString(v); err != nil {
				panic(err)
			}
		}
	}
	return b.NewRecordBatch()
}

// writeReplace makes a file of rows, through the tamper hook.
func (w *rworld) writeReplace(rows []rrow) []rfile {
	if w.tamperRows != nil {
		rows = w.tamperRows(slices.Clone(rows))
	}
	if len(rows) == 0 {
		return nil
	}
	adds := w.write(w.table, w.snap, replaceRecord(w.snap.Schema(), rows))
	return []rfile{{adds[0], rows}}
}

// decided is what the model makes of a batch: by reduction, not row by row as the audit.
func (w *rworld) decide(rows []rrow) (outcomes []change.Outcome, gone map[string]bool, fresh []rrow, broken map[string]int64) {
	best, top, exists := map[string]string{}, map[string]string{}, map[rrow]bool{}
	for _, f := range w.live {
		for _, r := range f.rows {
			top[r.id()] = max(top[r.id()], r.seq)
			exists[r] = true
		}
	}
	outcomes, gone, broken = make([]change.Outcome, len(rows)), map[string]bool{}, map[string]int64{}
	for i, r := range rows {
		if w.expect != nil {
			if r.p == "bad" || r.p == "-" {
				outcomes[i] = change.DroppedBy("good")
				broken["good"]++
			}
			if r.p == "odd" || r.p == "-" {
				broken["odd"]++
			}
		}
		if outcomes[i] == "" {
			best[r.id()] = max(best[r.id()], r.seq)
		}
	}
	for i, r := range rows {
		was, had := top[r.id()]
		switch {
		case outcomes[i] != "":
			continue
		case r.seq < best[r.id()]:
			outcomes[i] = change.Superseded
			continue
		case !had:
			outcomes[i] = change.Added
		case r.seq > was:
			outcomes[i] = change.Replaced
			gone[r.id()] = true
		case r.seq < was:
			outcomes[i] = change.Stale
			continue
		case w.ignore && exists[r]:
			outcomes[i] = change.Duplicate
			continue
		default:
			outcomes[i] = change.Appended
		}
		fresh = append(fresh, r)
	}
	return outcomes, gone, fresh, broken
}

// applyReplace commits a batch as a right writer would, but for what the hooks do.
func (w *rworld) applyReplace(rows ...rrow) deltatable.Version {
	rec := replaceRecord(w.snap.Schema(), rows)
	run, digest := uuid.NewString(), fmt.Sprintf("%x", xxh3.HashString(fmt.Sprint(rows)))
	w.batches[digest] = &Batch{Files: []BatchFile{{Records: []arrow.RecordBatch{rec}}}}
	outcomes, gone, fresh, broken := w.decide(rows)
	var adds, removes []*deltatable.Add
	var next []rfile
	deletes := 0
	for _, f := range w.live {
		var keep []rrow
		for _, r := range f.rows {
			if gone[r.id()] {
				deletes++
			} else {
				keep = append(keep, r)
			}
		}
		// Now and then a file is rewritten that need not be.
		if len(keep) == len(f.rows) && w.rnd.IntN(4) > 0 {
			next = append(next, f)
			continue
		}
		removes = append(removes, f.add)
		next = append(next, w.added(&adds, keep)...)
	}
	for part := range slices.Chunk(fresh, 1+w.rnd.IntN(4)) {
		next = append(next, w.added(&adds, part)...)
	}
	counts := change.Counts{}
	for i := range outcomes {
		if w.outcome != nil {
			outcomes[i] = w.outcome(i, outcomes[i])
		}
		counts[outcomes[i]]++
	}
	flags := `{"ties":"append"}`
	if w.ignore {
		flags = `{"ties":"ignore-identical"}`
	}
	tags := map[string]string{
		change.TagRun: run, change.TagBatch: "b", change.TagBatchDigest: digest, change.TagCounts: counts.JSON(),
		change.TagInserts: fmt.Sprint(len(fresh)), change.TagDeletes: fmt.Sprint(deletes), change.TagFlags: flags,
	}
	if w.expect != nil {
		tags[change.TagExpectations] = `[{"name":"good","condition":"p <> 'bad'","action":"drop"},{"name":"odd","condition":"p <> 'odd'","action":"warn"}]`
		tags[change.TagExpectationCounts] = fmt.Sprintf(`{"good":%d,"odd":%d}`, broken["good"], broken["odd"])
	}
	if w.tags != nil {
		w.tags(tags)
	}
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "WRITE", Adds: adds, Removes: removes, Tags: tags})
	w.live = next
	w.writeOutcomes(run, rec, outcomes)
	return w.snap.Version()
}

func (w *rworld) added(adds *[]*deltatable.Add, rows []rrow) []rfile {
	files := w.writeReplace(rows)
	for _, f := range files {
		*adds = append(*adds, f.add)
	}
	return files
}

// direct commits files as they are, with tags, in place of live ones.
func (w *rworld) direct(tags map[string]string, drop func(rfile) bool, rows ...rrow) deltatable.Version {
	var removes, adds []*deltatable.Add
	w.live = slices.DeleteFunc(w.live, func(f rfile) bool {
		if drop != nil && drop(f) {
			removes = append(removes, f.add)
			return true
		}
		return false
	})
	w.live = append(w.live, w.added(&adds, rows)...)
	w.snap = w.commit(w.table, w.snap, &deltatable.Commit{Operation: "WRITE", Adds: adds, Removes: removes, Tags: tags})
	return w.snap.Version()
}

// randomRows is a random batch over few keys and sequences, so that ties, stale and
// superseded rows are common.
func randomRows(r *rand.Rand) []rrow {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	rows := make([]rrow, 1+r.IntN(8))
	for i := range rows {
		rows[i] = rrow{pick("a", "b", "c", "-", ""), pick("x", "-"), pick("1", "2", "3", "4", "5", "6"), pick("u", "v", "odd", "bad", "-")}
	}
	return rows
}
