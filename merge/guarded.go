package merge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/policy"
)

// guarded is the guarded merge as a mode: merge-semantics 1 to 3.
type guarded struct {
	job    *Job
	in     *input
	cs     *candidates
	target *target
	engine *engine
	base   digestBase

	snap     *deltatable.Snapshot
	hits     []hit
	verdicts []policy.Verdict
	redo     []bool // candidates that the last rebase decided anew
	lies     map[deltatable.FileKey]bool
}

// Run folds the job's batch into its table as at most one commit
// (merge-semantics 3 and 6). With a *RefusedError, a *TargetError and an
// *deltatable.UndecidedError the result is not nil and holds the outcomes; with
// any other error it is nil. One call at a time may use a Job.
func Run(ctx context.Context, job *Job) (*Result, error) {
	g, err := newGuarded(job)
	if err != nil {
		return refusedResult(fileRows(job.Batch), job.Read, err)
	}
	return g.engine.run(ctx)
}

// fileRows counts the rows of each file of a batch.
func fileRows(b *Batch) []int {
	out := make([]int, len(b.Files))
	for f, file := range b.Files {
		for _, rec := range file.Records {
			out[f] += int(rec.NumRows())
		}
	}
	return out
}

// newGuarded does what does not depend on what is stored.
func newGuarded(job *Job) (*guarded, error) {
	layout, err := layoutOf(job.Read, job.Create)
	if err != nil {
		return nil, err
	}
	g := &guarded{job: job}
	if g.in, err = newInput(job, layout.PartitionColumns()); err != nil {
		return nil, err
	}
	if g.target, err = newTarget(job, g.in, layout); err != nil {
		return nil, err
	}
	if g.cs, err = reduce(job, g.in); err != nil {
		return nil, err
	}
	g.engine, err = newEngine(settings{
		table: job.Table, read: job.Read, create: job.Create, identifier: job.Identifier, runID: job.RunID, tags: job.Tags,
		beforeCommit: job.BeforeCommit, retry: job.Retry, now: job.now, workers: workersOrAll(job.Workers, job.Table),
		checkRetries: job.CheckRetries, files: fileRows(job.Batch),
	}, g, layout, g.target.keys)
	return g, err
}

// plan implements mode.
func (g *guarded) plan(ctx context.Context, snap *deltatable.Snapshot, s *Stats) error {
	g.snap = snap
	g.hits, g.verdicts = make([]hit, len(g.cs.all)), make([]policy.Verdict, len(g.cs.all))
	if snap != nil {
		s.FilesLive = len(snap.Files())
		got, err := g.prober(s).probe(ctx, snap.Files())
		if err != nil {
			return err
		}
		if err := g.place(got, nil); err != nil {
			return err
		}
	}
	for id := range g.cs.all {
		g.decide(int32(id))
	}
	g.counts(s)
	return nil
}

func (g *guarded) counts(s *Stats) {
	s.Inserted, s.Updated = 0, 0
	for id, v := range g.verdicts {
		switch {
		case v.Write == policy.WriteNone:
		case g.hits[id].file == nil:
			s.Inserted++
		default:
			s.Updated++
		}
	}
}

func (g *guarded) prober(s *Stats) *prober {
	return &prober{job: g.job, in: g.in, cs: g.cs, snap: g.snap, stats: s}
}

// place records hits; a candidate that has one already lives in two rows, and
// the table breaks law 6. Where redo is not nil the candidates placed are
// marked in it.
func (g *guarded) place(got []found, redo []bool) error {
	var twice []string
	for _, f := range got {
		if g.hits[f.id].file != nil {
			if len(twice) < 20 {
				twice = append(twice, g.keyText(int(f.id)))
			}
			continue
		}
		g.hits[f.id] = f.hit
		if redo != nil {
			redo[f.id] = true
		}
	}
	if len(twice) > 0 {
		return &TargetError{Reason: "more than one row with one key", Keys: twice}
	}
	return nil
}

func (g *guarded) keyText(id int) string { return g.in.keyText(g.job.Roles.Keys, g.cs.all[id].first) }

// decide gives the verdict of one candidate (merge-semantics 3.1 and 3.2).
func (g *guarded) decide(id int32) {
	c, h := &g.cs.all[id], &g.hits[id]
	if h.file == nil {
		g.verdicts[id] = policy.Decide(g.job.Roles.Policy, 0, 0, c.kind, nil)
		return
	}
	cmp := policy.Comparison(bytes.Compare(c.version, h.version))
	g.verdicts[id] = policy.Decide(g.job.Roles.Policy, h.status, cmp, c.kind, func() bool { return h.same })
}

// rebase implements mode. R2: live sets are compared, never actions, and all
// keys are probed in all added files. R3: candidates that lost their hit or
// were found in an added file are decided anew.
func (g *guarded) rebase(ctx context.Context, snap *deltatable.Snapshot, added []*deltatable.Add, s *Stats) error {
	g.snap = snap
	s.FilesLive = len(snap.Files())
	g.redo, g.lies = make([]bool, len(g.hits)), map[deltatable.FileKey]bool{}
	for id := range g.hits {
		h := &g.hits[id]
		if h.file == nil {
			continue
		}
		now, live := snap.File(snap.KeyOf(h.file))
		if !live {
			*h, g.redo[id] = hit{}, true
			continue
		}
		h.file = now // the same logical file; its statistics or tags may be new
	}
	got, err := g.prober(s).probe(ctx, added)
	if err != nil {
		return err
	}
	if err := g.place(got, g.redo); err != nil {
		return err
	}
	for id := range g.hits {
		if !g.redo[id] {
			continue
		}
		g.decide(int32(id))
		if g.hits[id].file != nil {
			g.lies[g.hits[id].key()] = true
		}
	}
	g.counts(s)
	return nil
}

// holds implements mode: an output is rebuilt when a bound key is decided anew,
// or when a key decided anew now lies in one of its sources (R3).
func (g *guarded) holds(o *output) bool {
	for i := range o.sources {
		if g.lies[o.sources[i].add.Key()] {
			return false
		}
	}
	return o.bound(func(id int32) bool { return !g.redo[id] })
}

// verify implements mode.
func (g *guarded) verify(ctx context.Context, snap *deltatable.Snapshot) error {
	fresh := &guarded{job: g.job, in: g.in, cs: g.cs, target: g.target}
	if err := fresh.plan(ctx, snap, &Stats{}); err != nil {
		return fmt.Errorf("check the retry: %w", err)
	}
	for id := range g.hits {
		a, b := &g.hits[id], &fresh.hits[id]
		same := (a.file == nil) == (b.file == nil)
		if same && a.file != nil {
			same = a.key() == b.key() && a.pos == b.pos && bytes.Equal(a.version, b.version) &&
				a.status == b.status && a.same == b.same
		}
		if !same || g.verdicts[id] != fresh.verdicts[id] {
			return fmt.Errorf("internal error: the retry at version %d differs from planning anew for key %s: %+v and %+v, %+v and %+v",
				snap.Version(), g.keyText(id), *a, *b, g.verdicts[id], fresh.verdicts[id])
		}
	}
	return nil
}

// refusal implements mode (merge-semantics 2, 3.2).
func (g *guarded) refusal() ([]change.Outcome, *RefusedError) {
	reject := g.job.Roles.Policy == change.Reject
	if !reject && !g.job.FailOnInvalid {
		return nil, nil
	}
	var culprits int64
	out := make([]change.Outcome, g.in.total)
	for row := range out {
		o := g.cs.outcomes[row]
		switch id := g.cs.owner[row]; {
		case o.Invalid():
		case !reject:
			o = ""
		case g.cs.contradicts != nil && g.cs.contradicts[row]:
			o = change.Contradiction
		case id >= 0 && g.verdicts[id].Refuse:
			o = g.verdicts[id].Outcome
		default:
			o = ""
		}
		if o == "" {
			out[row] = change.BatchRefused
			continue
		}
		out[row] = o
		culprits++
	}
	if culprits == 0 {
		return nil, nil
	}
	reason := fmt.Sprintf("%d of %d rows are not valid (--fail-on-invalid)", culprits, g.in.total)
	if reject {
		reason = fmt.Sprintf("%d of %d rows are not valid or contradict another change of their key and version (policy reject)", culprits, g.in.total)
	}
	return out, &RefusedError{Reason: reason, Culprits: culprits}
}

// outcomes implements mode.
func (g *guarded) outcomes() []change.Outcome {
	out := make([]change.Outcome, g.in.total)
	for row := range out {
		if id := g.cs.owner[row]; id >= 0 {
			out[row] = g.verdicts[id].Outcome
		} else {
			out[row] = g.cs.outcomes[row]
		}
	}
	return out
}

// idle implements mode.
func (g *guarded) idle() bool {
	return !slices.ContainsFunc(g.verdicts, func(v policy.Verdict) bool { return v.Write != policy.WriteNone })
}

// wants implements mode.
func (g *guarded) wants(kept []*output) (*wanted, error) {
	sources, placed := contents(kept, (*deltatable.Add).Key)
	var ids []int32
	for id := range g.verdicts {
		if g.verdicts[id].Write != policy.WriteNone {
			ids = append(ids, int32(id))
		}
	}
	parts, err := g.partitions(ids)
	if err != nil {
		return nil, err
	}
	out := &wanted{}
	touched := map[*deltatable.Add]int{}
	for i, id := range ids {
		h, moves := &g.hits[id], true
		if h.file != nil {
			old, err := g.engine.partitionOf(h.file)
			if err != nil {
				return nil, err
			}
			moves = old.Key != parts[i].Key
		}
		if h.file != nil && !sources[h.key()] {
			at, ok := touched[h.file]
			if !ok {
				at = len(out.touched)
				touched[h.file] = at
				out.touched = append(out.touched, source{add: h.file})
			}
			s := &out.touched[at]
			s.edits = append(s.edits, edit{pos: h.pos, id: id, drop: moves})
		}
		if moves && !placed[id] {
			out.inserts = append(out.inserts, insert{id, parts[i]})
		}
	}
	for i := range out.touched {
		s := &out.touched[i]
		slices.SortFunc(s.edits, func(a, b edit) int { return cmp.Compare(a.pos, b.pos) })
		s.changes = int64(len(s.edits))
	}
	slices.SortFunc(out.inserts, func(a, b insert) int { return bytes.Compare(g.cs.keys.Key(a.id), g.cs.keys.Key(b.id)) })
	return out, nil
}

// fresh implements mode.
func (g *guarded) fresh(ids []int32) (arrow.RecordBatch, error) {
	return g.target.assemble(g, ids, nil)
}

// rewrite implements mode.
func (g *guarded) rewrite(s *source, b deltatable.FileBatch) (*rewritten, error) {
	at, _ := slices.BinarySearchFunc(s.edits, b.First, func(e edit, pos int64) int { return cmp.Compare(e.pos, pos) })
	edits := s.edits[at:]
	out := &rewritten{}
	var ids []int32
	for i := range b.Rec.NumRows() {
		if len(edits) == 0 || edits[0].pos != b.First+i {
			out.picks = append(out.picks, rows.Pick{Source: 1, Row: int32(i)})
			continue
		}
		out.changed++
		if edits[0].drop {
			out.gone++
		} else {
			out.picks = append(out.picks, rows.Pick{Source: 0, Row: int32(len(ids))})
			ids = append(ids, edits[0].id)
		}
		edits = edits[1:]
	}
	if len(ids) == 0 {
		return out, nil
	}
	var err error
	out.fresh, err = g.fresh(ids)
	return out, err
}
