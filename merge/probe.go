package merge

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/policy"
)

// hit is the stored row that a candidate is compared with (R1). The zero hit is
// no stored row.
type hit struct {
	file    *deltatable.Add // nil: none
	pos     int64           // physical row in the file
	version []byte          // ordered form
	status  change.Status
	same    bool // the payloads are equal; only looked at where policy.NeedsPayload
}

func (h *hit) key() deltatable.FileKey { return h.file.Key() }

// found is a hit with the number of its candidate.
type found struct {
	id int32
	hit
}

// prober looks a batch's keys up in files of one snapshot. It is safe for
// concurrent use.
type prober struct {
	job  *Job
	in   *input
	cs   *candidates
	snap *deltatable.Snapshot

	mu    sync.Mutex
	stats *Stats
}

// suspects returns those of the files whose statistics and partition values
// cannot rule every key out (I4).
func (p *prober) suspects(files []*deltatable.Add) []*deltatable.Add {
	var out []*deltatable.Add
	if len(p.cs.all) == 0 {
		return nil
	}
	for _, f := range files {
		excluded := false
		for k, name := range p.job.Roles.Keys {
			if p.snap.Bounds(f, name).Excludes(p.cs.sorted[k]) {
				excluded = true
				break
			}
		}
		if !excluded {
			out = append(out, f)
		}
	}
	return out
}

// probe returns the hits of all candidates in the files, in the order of files
// and rows.
func (p *prober) probe(ctx context.Context, files []*deltatable.Add) ([]found, error) {
	suspects := p.suspects(files)
	results := make([][]found, len(suspects))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(probers(p.job.Workers, p.job.Table))
	for i, f := range suspects {
		g.Go(func() error {
			var err error
			results[i], err = p.probeFile(ctx, f)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	p.stats.FilesProbed += len(suspects)
	return slices.Concat(results...), nil
}

func (p *prober) probeFile(ctx context.Context, add *deltatable.Add) (_ []found, err error) {
	r, err := p.snap.OpenFile(ctx, add)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := r.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	var groups []int
	for g := range r.RowGroups() {
		excluded := false
		for k, name := range p.job.Roles.Keys {
			if r.Bounds(g, name).Excludes(p.cs.sorted[k]) {
				excluded = true
				break
			}
		}
		if !excluded {
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	roles := p.job.Roles
	names := slices.Concat(roles.Keys, roles.Versions)
	if roles.Status != "" {
		names = append(names, roles.Status)
	}
	var hits []found
	var probed int64
	for b, err := range r.Read(ctx, &deltatable.ReadOptions{Columns: names, RowGroups: groups}) {
		if err != nil {
			return nil, err
		}
		probed += b.Rec.NumRows()
		if hits, err = p.match(hits, add, b); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	p.stats.RowGroupsRead += int64(len(groups))
	p.stats.RowsProbed += probed
	p.mu.Unlock()
	return hits, p.comparePayloads(ctx, r, hits)
}

// match appends the hits of one batch of key, version and status columns.
func (p *prober) match(hits []found, add *deltatable.Add, b deltatable.FileBatch) ([]found, error) {
	roles, cols := p.job.Roles, b.Rec.Columns()
	nk, nv := len(roles.Keys), len(roles.Versions)
	keys, versions := ordered.NewRow(cols[:nk]...), ordered.NewRow(cols[nk:nk+nv]...)
	var status arrow.Array
	if roles.Status != "" {
		status = cols[nk+nv]
	}
	var key []byte
	for i := range int(b.Rec.NumRows()) {
		key = keys.Append(key[:0], i)
		id := p.cs.keys.Find(key)
		if id < 0 {
			continue
		}
		h := hit{file: add, pos: b.First + int64(i)}
		for v := nk; v < nk+nv; v++ {
			if cols[v].IsNull(i) {
				return nil, &TargetError{Reason: "a stored version is NULL", Keys: []string{p.keyText(id)}}
			}
		}
		h.version = versions.Append(nil, i)
		var ok bool
		if h.status, ok = statusOf(roles.StatusForm, status, i); !ok {
			return nil, &TargetError{Reason: "a stored status is none that the table may hold", Keys: []string{p.keyText(id)}}
		}
		hits = append(hits, found{id: id, hit: h})
	}
	return hits, nil
}

// statusOf reads the status of a stored row (merge-semantics 1, "state table").
func statusOf(form change.StatusForm, a arrow.Array, i int) (change.Status, bool) {
	switch form {
	case change.StatusNone:
		return change.Active, true
	case change.StatusBoolean:
		b, ok := a.(*array.Boolean)
		if !ok || b.IsNull(i) {
			return 0, false
		}
		if b.Value(i) {
			return change.Deleted, true
		}
		return change.Active, true
	case change.StatusWord:
	}
	s, ok := a.(*array.String)
	if !ok || s.IsNull(i) {
		return 0, false
	}
	return change.ParseStatus(s.Value(i))
}

// comparePayloads reads the payload of those hits on which the decision needs
// it, and of no others.
func (p *prober) comparePayloads(ctx context.Context, r *deltatable.FileReader, hits []found) error {
	var need []*found
	for i := range hits {
		h := &hits[i]
		c := &p.cs.all[h.id]
		if policy.NeedsPayload(h.status, policy.Comparison(bytes.Compare(c.version, h.version)), c.kind) {
			need = append(need, h)
		}
	}
	if len(need) == 0 {
		return nil
	}
	if len(p.in.payload) == 0 {
		for _, h := range need {
			h.same = true
		}
		return nil
	}
	var groups []int
	at := 0
	for g := range r.RowGroups() {
		first, n := r.RowGroup(g)
		start := at
		for at < len(need) && need[at].pos < first+n {
			at++
		}
		if at > start {
			groups = append(groups, g)
		}
	}
	names := p.job.Roles.Payload
	for b, err := range r.Read(ctx, &deltatable.ReadOptions{Columns: names, RowGroups: groups}) {
		if err != nil {
			return err
		}
		for len(need) > 0 && need[0].pos < b.First+b.Rec.NumRows() {
			need[0].same = p.equalPayload(b.Rec.Columns(), int(need[0].pos-b.First), p.cs.all[need[0].id].first)
			need = need[1:]
		}
	}
	if len(need) > 0 {
		return fmt.Errorf("read payload of %s: row %d is not there", need[0].file.Path, need[0].pos)
	}
	return nil
}

func (p *prober) equalPayload(stored []arrow.Array, row int, at ref) bool {
	for i, c := range p.in.payload {
		if !rows.Equal(stored[i], row, p.in.recs[at.rec][c], int(at.row)) {
			return false
		}
	}
	return true
}

// keyText gives a candidate's key as people read it.
func (p *prober) keyText(id int32) string { return p.in.keyText(p.job.Roles.Keys, p.cs.all[id].first) }

func (in *input) keyText(names []string, at ref) string {
	var parts []string
	for i, c := range in.keys {
		parts = append(parts, names[i]+"="+in.recs[at.rec][c].ValueStr(int(at.row)))
	}
	return strings.Join(parts, " ")
}
