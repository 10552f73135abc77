package merge

import (
	"bytes"
	"context"
	"fmt"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/failpoint"
)

// rebase carries a lost plan over to a newer snapshot, in which the given files
// are live that were not before. What it gives always equals planning anew
// there; checkRebase asserts it in test builds.
//
// R2: live sets are compared, never actions; all keys are probed in all added
// files. R3: candidates that lost their hit or were found in an added file are
// decided anew, and outputs bound to a source that is gone, to such a candidate,
// or to a file that one now lies in are given up; everything else is kept.
func (r *run) rebase(ctx context.Context, old *plan, snap *deltatable.Snapshot, added []*deltatable.Add) (*plan, error) {
	p := &plan{
		snap:     snap,
		hits:     append([]hit(nil), old.hits...),
		verdicts: append(old.verdicts[:0:0], old.verdicts...),
		stats:    old.stats,
	}
	p.stats.FilesLive = len(snap.Files())
	redo := make([]bool, len(p.hits))
	for id := range p.hits {
		h := &p.hits[id]
		if h.file == nil {
			continue
		}
		now, live := snap.File(h.key())
		if !live {
			*h, redo[id] = hit{}, true
			continue
		}
		h.file = now // the same logical file; its statistics or tags may be new
	}
	got, err := r.prober(p).probe(ctx, added)
	if err != nil {
		return nil, err
	}
	if err := r.place(p, got, redo); err != nil {
		return nil, err
	}
	for id := range p.hits {
		if redo[id] {
			r.decide(p, int32(id))
		}
	}
	r.keep(ctx, old, p, redo)
	return p, nil
}

// keep moves the outputs that are still right from the lost plan to the new one
// and deletes the files of the others: the entry at their version was read and
// is another's (R8).
func (r *run) keep(ctx context.Context, old, p *plan, redo []bool) {
	lies := map[deltatable.FileKey]bool{}
	for id := range p.hits {
		if redo[id] && p.hits[id].file != nil {
			lies[p.hits[id].key()] = true
		}
	}
	for _, o := range old.outputs {
		if o.holds(p.snap, redo, lies) {
			p.outputs = append(p.outputs, o)
			p.stats.OutputsKept++
			continue
		}
		p.stats.OutputsRebuilt++
		// An error changes nothing: the file is only garbage.
		_ = r.job.Table.Discard(context.WithoutCancel(ctx), o.adds)
	}
}

// holds says whether an output of a lost attempt is still right (R3).
func (o *output) holds(snap *deltatable.Snapshot, redo []bool, lies map[deltatable.FileKey]bool) bool {
	for i := range o.sources {
		s := &o.sources[i]
		now, live := snap.File(s.add.Key())
		if !live || lies[s.add.Key()] {
			return false
		}
		s.add = now
	}
	return o.bound(func(id int32) bool { return !redo[id] })
}

// checks says whether retries are checked against planning anew: always in test
// builds.
func (r *run) checks() bool { return r.job.CheckRetries || failpoint.Enabled }

// checkRebase plans anew on the snapshot of p and compares.
func (r *run) checkRebase(ctx context.Context, p *plan) error {
	fresh, err := r.planNew(ctx, p.snap)
	if err != nil {
		return fmt.Errorf("check the retry: %w", err)
	}
	for id := range p.hits {
		a, b := &p.hits[id], &fresh.hits[id]
		same := (a.file == nil) == (b.file == nil)
		if same && a.file != nil {
			same = a.key() == b.key() && a.pos == b.pos && bytes.Equal(a.version, b.version) &&
				a.status == b.status && a.same == b.same
		}
		if !same || p.verdicts[id] != fresh.verdicts[id] {
			return fmt.Errorf("internal error: the retry at version %d differs from planning anew for key %s: %+v and %+v, %+v and %+v",
				p.snap.Version(), r.in.keyText(r.job.Roles.Keys, r.cs.all[id].first), *a, *b, p.verdicts[id], fresh.verdicts[id])
		}
	}
	for _, o := range p.outputs {
		for i := range o.sources {
			if _, live := p.snap.File(o.sources[i].add.Key()); !live {
				return fmt.Errorf("internal error: an output was kept although its source %s is gone", o.sources[i].add.Path)
			}
		}
	}
	return nil
}
