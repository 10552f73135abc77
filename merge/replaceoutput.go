package merge

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/rows"
)

// holds implements mode.
func (r *replace) holds(o *output) bool {
	for i := range o.sources {
		f := r.files[r.snap.KeyOf(o.sources[i].add)]
		if f == nil {
			continue // it was packed in and holds none of the keys
		}
		for _, k := range f.keys {
			if r.changed[k.id] {
				return false
			}
		}
	}
	for _, g := range o.inserts {
		id := r.owner[g]
		if r.changed[id] || r.decided[id] == keyAppended && r.repeated[g] {
			return false
		}
	}
	return true
}

// verify implements mode.
func (r *replace) verify(ctx context.Context, snap *deltatable.Snapshot) error {
	fresh := &replace{
		job: r.job, in: r.in, engine: r.engine, target: r.target, keys: r.keys, sequence: r.sequence,
		owner: r.owner, rows: r.rows, starts: r.starts, members: r.members, early: r.early, sorted: r.sorted, hasNull: r.hasNull,
		ties: r.ties,
	}
	if err := fresh.plan(ctx, snap, &Stats{}); err != nil {
		return fmt.Errorf("check the retry: %w", err)
	}
	if !slices.Equal(r.decided, fresh.decided) || !slices.Equal(r.repeated, fresh.repeated) {
		return fmt.Errorf("internal error: the retry at version %d differs from planning anew", snap.Version())
	}
	return nil
}

// refusal implements mode: this mode refuses by error only.
func (r *replace) refusal() ([]change.Outcome, *RefusedError) { return nil, nil }

// outcomes implements mode.
func (r *replace) outcomes() []change.Outcome {
	out := slices.Clone(r.early)
	for g, id := range r.owner {
		switch {
		case id < 0:
		case r.decided[id] == keyAppended && r.repeated[g]:
			out[g] = change.Duplicate
		default:
			out[g] = r.decided[id].outcome()
		}
	}
	return out
}

// idle implements mode.
func (r *replace) idle() bool {
	if len(r.inserts()) > 0 {
		return false
	}
	for _, f := range r.files {
		if r.goneIn(f) > 0 {
			return false
		}
	}
	return true
}

// wants implements mode.
func (r *replace) wants(kept []*output) (*wanted, error) {
	sources, placed := contents(kept, r.snap.KeyOf)
	out := &wanted{}
	if r.snap != nil {
		for _, f := range r.snap.Files() {
			held := r.files[r.snap.KeyOf(f)]
			if held == nil || sources[r.snap.KeyOf(f)] {
				continue
			}
			if n := r.goneIn(held); n > 0 {
				out.touched = append(out.touched, source{add: f, changes: n})
			}
		}
	}
	ids := slices.DeleteFunc(r.inserts(), func(g int32) bool { return placed[g] })
	var err error
	out.inserts, err = r.place(ids)
	return out, err
}

// place gives new rows their partitions; it sorts them by key.
func (r *replace) place(ids []int32) ([]insert, error) {
	var out []insert
	slices.SortStableFunc(ids, func(a, b int32) int {
		return bytes.Compare(r.keys.Key(r.owner[a]), r.keys.Key(r.owner[b]))
	})
	for part := range slices.Chunk(ids, 1<<16) {
		rec, err := r.fresh(part)
		if err != nil {
			return nil, err
		}
		for i, g := range part {
			p := r.engine.whole
			if !r.engine.plain {
				if p, err = r.engine.layout.Partition(rec, i); err != nil {
					return nil, err
				}
			}
			out = append(out, insert{g, p})
		}
	}
	return out, nil
}

// fresh implements mode.
func (r *replace) fresh(ids []int32) (arrow.RecordBatch, error) {
	picks := make([]rows.Pick, len(ids))
	for i, g := range ids {
		picks[i] = rows.Pick{Source: r.rows[g].rec, Row: r.rows[g].row}
	}
	return r.target.gather(r.in, picks)
}

// rewrite implements mode: rows of replaced keys go.
func (r *replace) rewrite(_ *source, b deltatable.FileBatch) (*rewritten, error) {
	out := &rewritten{}
	var cols []arrow.Array
	for _, k := range r.target.keys {
		cols = append(cols, b.Rec.Column(k))
	}
	keys := ordered.NewRow(cols...)
	var key []byte
	for i := range int(b.Rec.NumRows()) {
		key = keys.Append(key[:0], i)
		if id := r.keys.Find(key); id >= 0 && r.decided[id] == keyReplaced {
			out.changed++
			out.gone++
			continue
		}
		out.picks = append(out.picks, rows.Pick{Source: 1, Row: int32(i)})
	}
	return out, nil
}
