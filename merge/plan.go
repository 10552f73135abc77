package merge

import (
	"bytes"
	"context"
	"fmt"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/policy"
)

// plan is what a run means to do on one snapshot: a hit and a verdict for each
// candidate, and the outputs that carry the verdicts out.
type plan struct {
	snap     *deltatable.Snapshot // nil: the table is to be created
	hits     []hit
	verdicts []policy.Verdict
	outputs  []*output
	stats    Stats
}

// planNew plans on a snapshot from nothing.
func (r *run) planNew(ctx context.Context, snap *deltatable.Snapshot) (*plan, error) {
	p := &plan{
		snap:     snap,
		hits:     make([]hit, len(r.cs.all)),
		verdicts: make([]policy.Verdict, len(r.cs.all)),
	}
	if snap != nil {
		p.stats.FilesLive = len(snap.Files())
		got, err := r.prober(p).probe(ctx, snap.Files())
		if err != nil {
			return nil, err
		}
		if err := r.place(p, got, nil); err != nil {
			return nil, err
		}
	}
	for id := range r.cs.all {
		r.decide(p, int32(id))
	}
	return p, nil
}

func (r *run) prober(p *plan) *prober {
	return &prober{job: r.job, in: r.in, cs: r.cs, snap: p.snap, stats: &p.stats}
}

// place records hits; a candidate that has one already lives in two rows, and
// the table breaks law 6. Where redo is not nil the candidates placed are
// marked in it.
func (r *run) place(p *plan, got []found, redo []bool) error {
	var twice []string
	for _, f := range got {
		if p.hits[f.id].file != nil {
			if len(twice) < 20 {
				twice = append(twice, r.in.keyText(r.job.Roles.Keys, r.cs.all[f.id].first))
			}
			continue
		}
		p.hits[f.id] = f.hit
		if redo != nil {
			redo[f.id] = true
		}
	}
	if len(twice) > 0 {
		return &TargetError{Reason: "more than one row with one key", Keys: twice}
	}
	return nil
}

// decide gives the verdict of one candidate (merge-semantics 3.1 and 3.2).
func (r *run) decide(p *plan, id int32) {
	c, h := &r.cs.all[id], &p.hits[id]
	if h.file == nil {
		p.verdicts[id] = policy.Decide(r.job.Roles.Policy, 0, 0, c.kind, nil)
		return
	}
	cmp := policy.Comparison(bytes.Compare(c.version, h.version))
	p.verdicts[id] = policy.Decide(r.job.Roles.Policy, h.status, cmp, c.kind, func() bool { return h.same })
}

// refusal says whether the rules refuse the batch on this plan, and with which
// outcomes (merge-semantics 2, 3.2; again on every attempt, R6).
func (r *run) refusal(p *plan) ([]change.Outcome, *RefusedError) {
	reject := r.job.Roles.Policy == change.Reject
	if !reject && !r.job.FailOnInvalid {
		return nil, nil
	}
	var culprits int64
	out := make([]change.Outcome, r.in.total)
	for g := range out {
		o := r.cs.outcomes[g]
		switch id := r.cs.owner[g]; {
		case o.Invalid():
		case !reject:
			o = ""
		case r.cs.contradicts != nil && r.cs.contradicts[g]:
			o = change.Contradiction
		case id >= 0 && p.verdicts[id].Refuse:
			o = p.verdicts[id].Outcome
		default:
			o = ""
		}
		if o == "" {
			out[g] = change.BatchRefused
			continue
		}
		out[g] = o
		culprits++
	}
	if culprits == 0 {
		return nil, nil
	}
	reason := fmt.Sprintf("%d of %d rows are not valid (--fail-on-invalid)", culprits, r.in.total)
	if reject {
		reason = fmt.Sprintf("%d of %d rows are not valid or contradict another change of their key and version (policy reject)", culprits, r.in.total)
	}
	return out, &RefusedError{Reason: reason, Culprits: culprits}
}

// outcomes are the rows' outcomes under a plan that is not refused.
func (r *run) outcomes(p *plan) []change.Outcome {
	out := make([]change.Outcome, r.in.total)
	for g := range out {
		if id := r.cs.owner[g]; id >= 0 {
			out[g] = p.verdicts[id].Outcome
		} else {
			out[g] = r.cs.outcomes[g]
		}
	}
	return out
}

// writes says whether any candidate is to be written.
func (p *plan) writes() bool {
	for i := range p.verdicts {
		if p.verdicts[i].Write != policy.WriteNone {
			return true
		}
	}
	return false
}
