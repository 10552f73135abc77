package merge

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
)

// plan implements mode.
func (r *replace) plan(ctx context.Context, snap *deltatable.Snapshot, s *Stats) error {
	r.snap, r.files = snap, map[deltatable.FileKey]*heldKeys{}
	if snap == nil {
		return r.decide(s)
	}
	return r.look(ctx, snap.Files(), s)
}

// rebase implements mode.
func (r *replace) rebase(ctx context.Context, snap *deltatable.Snapshot, added []*deltatable.Add, s *Stats) error {
	r.snap = snap
	maps.DeleteFunc(r.files, func(key deltatable.FileKey, _ *heldKeys) bool {
		_, live := snap.File(key)
		return !live
	})
	old := slices.Clone(r.decided)
	if err := r.look(ctx, added, s); err != nil {
		return err
	}
	r.changed = make([]bool, len(old))
	for id := range old {
		r.changed[id] = old[id] != r.decided[id]
	}
	return nil
}

// look finds the batch's keys in files and decides every key.
func (r *replace) look(ctx context.Context, files []*deltatable.Add, s *Stats) error {
	s.FilesLive = len(r.snap.Files())
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.engine.workers)
	for _, f := range files {
		if r.keys.Len() == 0 || !r.mayHold(func(c string) deltatable.Bounds { return r.snap.Bounds(f, c) }) {
			continue
		}
		s.FilesProbed++
		g.Go(func() error { return r.lookIn(gctx, f) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return r.decide(s)
}

func (r *replace) lookIn(ctx context.Context, add *deltatable.Add) (err error) {
	f, err := r.snap.OpenFile(ctx, add)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	var groups []int
	for g := range f.RowGroups() {
		if r.mayHold(func(c string) deltatable.Bounds { return f.Bounds(g, c) }) {
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	names := r.columnsToRead()
	held := map[int32]*heldKey{}
	out := &heldKeys{repeated: formSet{}}
	for b, err := range f.Read(ctx, &deltatable.ReadOptions{Columns: names, RowGroups: groups}) {
		if err != nil {
			return err
		}
		if err := r.note(b, held, out); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(held)) {
		out.keys = append(out.keys, *held[id])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[r.snap.KeyOf(add)] = out
	return nil
}

// note takes down the batch's keys in one batch of a file.
func (r *replace) note(b deltatable.FileBatch, held map[int32]*heldKey, out *heldKeys) error {
	cols, nk := b.Rec.Columns(), len(r.in.keys)
	keys, seq := ordered.NewRow(cols[:nk]...), ordered.NewRow(cols[nk])
	var key, top, form []byte
	for i := range int(b.Rec.NumRows()) {
		key = keys.Append(key[:0], i)
		id := r.keys.Find(key)
		if id < 0 {
			continue
		}
		if cols[nk].IsNull(i) {
			return &TargetError{Reason: "a stored sequence is NULL", Keys: []string{r.keyText(id)}}
		}
		top = seq.Append(top[:0], i)
		h := held[id]
		if h == nil {
			h = &heldKey{id: id}
			held[id] = h
		}
		h.rows++
		if bytes.Compare(top, h.top) > 0 {
			h.top = slices.Clone(top)
		}
		if r.ties != nil && bytes.Equal(top, r.sequence[id]) {
			form = appendForms(form[:0], cols, i)
			if f := r.ties.forms.Find(form); f >= 0 {
				out.repeated[f] = struct{}{}
			}
		}
	}
	return nil
}

// decide gives each key its row of the table of merge-semantics 4.
func (r *replace) decide(s *Stats) error {
	top := make([][]byte, r.keys.Len())
	repeated := r.ties.none()
	for _, f := range r.files {
		for _, k := range f.keys {
			if bytes.Compare(k.top, top[k.id]) > 0 {
				top[k.id] = k.top
			}
		}
		for form := range f.repeated {
			repeated[form] = true
		}
	}
	r.repeated = r.ties.rows(repeated, r.in.total)
	r.decided = make([]replacement, len(top))
	for id := range top {
		switch cmp := bytes.Compare(r.sequence[id], top[id]); {
		case top[id] == nil:
			r.decided[id] = keyAdded
		case cmp > 0:
			r.decided[id] = keyReplaced
		case cmp == 0:
			r.decided[id] = keyAppended
		default:
			r.decided[id] = keyStale
		}
	}
	s.Inserted, s.Deleted = int64(len(r.inserts())), 0
	for _, f := range r.files {
		s.Deleted += r.goneIn(f)
	}
	return nil
}

// goneIn counts the rows of a file that go.
func (r *replace) goneIn(f *heldKeys) (n int64) {
	for _, k := range f.keys {
		if r.decided[k.id] == keyReplaced {
			n += k.rows
		}
	}
	return n
}

// inserts are the rows of the batch that are added.
func (r *replace) inserts() []int32 {
	var out []int32
	for g, id := range r.owner {
		if id < 0 || r.decided[id] == keyStale || r.decided[id] == keyAppended && r.repeated[g] {
			continue
		}
		out = append(out, int32(g))
	}
	return out
}
