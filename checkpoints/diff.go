package checkpoints

import (
	"bytes"
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// diff compares the rows of the files removed with those of the files added, key by key.
type diff struct {
	prev, cur *deltatable.Snapshot // prev nil: there is nothing before
	live      liveSets
	shape     *shape
	// guarded says that laws 3, 4 and form apply to the step: the table was guarded before.
	guarded bool
	// mayWrite says whether the commit may write a key (its appendValue form) from an old
	// to a new state; sameVersion: the row's version did not change. Nil: anything goes.
	mayWrite func(key string, fresh, sameVersion bool, now change.Status) bool
	budget   int64 // bytes of rows held at once

	result diffResult
}

// diffResult is what a diff found, over all passes.
type diffResult struct {
	removed, added  integrity.Sum // of the rows of the files removed and added
	fresh, changed  int64         // keys that are new, and that changed
	passes          int
	lowered, gone   keyList // law 3
	moved, appeared keyList // law 4
	doubled         keyList // law 6, within the files added
	elsewhere       keyList // law 6, in other live files
	form            keyList
}

// part is the keys whose hash ends in the given bits.
type part struct {
	bits  uint
	value uint64
}

func (p part) has(hash uint64) bool { return hash&(1<<p.bits-1) == p.value }

// errFull says that the rows of a part do not fit the budget.
var errFull = errors.New("the rows of the pass do not fit")

// rowOverhead is what a held row costs beside its bytes: map entry, slices, key header.
const rowOverhead = 160

// run compares everything. It starts with one pass, or with as many as the row counts in
// the log suggest, and splits the parts that turn out too big.
func (d *diff) run(ctx context.Context) error {
	todo := d.firstParts()
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		err := d.pass(ctx, p)
		switch {
		case errors.Is(err, errFull) && p.bits < 40:
			todo = append(todo, part{p.bits + 1, p.value}, part{p.bits + 1, p.value | 1<<p.bits})
		case err != nil:
			return err
		}
	}
	return nil
}

func (d *diff) firstParts() []part {
	var bytes int64
	count := func(s *deltatable.Snapshot, files []*deltatable.Add) {
		for _, a := range files {
			if n, ok := s.NumRecords(a); ok {
				bytes += n * (rowOverhead + 40)
			}
		}
	}
	if d.prev != nil {
		count(d.prev, d.live.removed)
	}
	if len(d.live.removed) == 0 {
		count(d.cur, d.live.added)
	}
	bits := uint(0)
	for bytes>>bits > d.budget && bits < 40 {
		bits++
	}
	parts := make([]part, 0, 1<<bits)
	for v := range uint64(1) << bits {
		parts = append(parts, part{bits, v})
	}
	return parts
}

// cell is one key in a pass.
type cell struct {
	version, payload []byte
	status           change.Status
	old, seen        bool
}

// pass is the comparison of one part.
type pass struct {
	d      *diff
	part   part
	index  map[string]int
	cells  []cell
	held   int64
	fresh  *keySet // new keys
	buf    []byte
	form   []byte
	result diffResult
}

func (d *diff) pass(ctx context.Context, pt part) error {
	p := &pass{d: d, part: pt, index: map[string]int{}, fresh: newKeySet(d.cur, d.shape.roles.Keys), result: d.result}
	p.result.passes++
	columns := d.shape.columns(true)
	for _, a := range d.live.removed {
		if err := p.read(ctx, reading{snapshot: d.prev, file: a, columns: columns}, p.oldRow); err != nil {
			return err
		}
	}
	for _, a := range d.live.added {
		if err := p.read(ctx, reading{snapshot: d.cur, file: a, columns: columns}, p.newRow); err != nil {
			return err
		}
	}
	if err := p.nameGone(ctx); err != nil {
		return err
	}
	if err := p.probe(ctx); err != nil {
		return err
	}
	d.result = p.result
	return nil
}

func (p *pass) read(ctx context.Context, r reading, row func(b *block, i int, key, version []byte) error) error {
	sum := &p.result.added
	if r.snapshot == p.d.prev {
		sum = &p.result.removed
	}
	return r.rows(ctx, func(cols []arrow.Array, n int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := p.d.shape.block(cols)
		for i := range n {
			key, version, all := b.appendCanonical(p.buf[:0], i)
			p.buf = all
			if p.part.bits > 0 && !p.part.has(integrity.RowHash(key).Lo) {
				continue
			}
			*sum = sum.Plus(integrity.RowHash(all))
			if err := row(b, i, key, version); err != nil {
				return err
			}
		}
		return nil
	})
}

// hold counts what a row costs.
func (p *pass) hold(n int) error {
	if p.held += int64(n) + rowOverhead; p.held > p.d.budget && len(p.cells) > 1 {
		return errFull
	}
	return nil
}

// oldRow takes a row of a file removed. A second row of one key is counted in the sum only:
// it was a finding of the version that made it.
func (p *pass) oldRow(b *block, i int, key, version []byte) error {
	if _, ok := p.index[string(key)]; ok {
		return nil
	}
	payload := appendAll(nil, b.payload, i)
	p.index[string(key)] = len(p.cells)
	p.cells = append(p.cells, cell{version: bytes.Clone(version), payload: payload, status: b.statusOf(i), old: true})
	return p.hold(len(key) + len(version) + len(payload))
}

// newRow takes a row of a file added.
func (p *pass) newRow(b *block, i int, key, version []byte) error {
	r := &p.result
	name := func() string { return keyText(b.keys, i) }
	status := b.statusOf(i)
	if !p.wellFormed(b, i, status) {
		r.form.add(name)
	}
	at, ok := p.index[string(key)]
	if !ok {
		p.index[string(key)] = len(p.cells)
		p.cells = append(p.cells, cell{seen: true})
		p.form = appendAll(p.form[:0], b.keys, i)
		p.fresh.add(string(p.form), b.keys, i)
		r.fresh++
		if p.d.guarded && !p.mayWrite(true, false, status) {
			r.appeared.add(name)
		}
		return p.hold(2*len(key) + len(p.form))
	}
	c := &p.cells[at]
	if c.seen {
		r.doubled.add(name)
		return nil
	}
	c.seen = true
	order := bytes.Compare(version, c.version)
	if order == 0 && status == c.status {
		p.form = appendAll(p.form[:0], b.payload, i)
		if bytes.Equal(p.form, c.payload) {
			return nil
		}
	}
	r.changed++
	if !p.d.guarded {
		return nil
	}
	if order < 0 {
		r.lowered.add(name)
		return nil
	}
	p.form = appendAll(p.form[:0], b.keys, i)
	if !p.mayWrite(false, order == 0, status) {
		r.moved.add(name)
	}
	return nil
}

// mayWrite asks about the key whose form is in p.form.
func (p *pass) mayWrite(fresh, sameVersion bool, now change.Status) bool {
	return p.d.mayWrite == nil || p.d.mayWrite(string(p.form), fresh, sameVersion, now)
}

func (p *pass) wellFormed(b *block, i int, status change.Status) bool {
	for _, arr := range b.keys {
		if isNull(arr, i) {
			return false
		}
	}
	for _, arr := range b.versions {
		if isNull(arr, i) {
			return false
		}
	}
	if status == change.Active {
		return true
	}
	for _, arr := range b.payload {
		if !isNull(arr, i) {
			return false
		}
	}
	return status != 0
}

// nameGone finds the keys of the old rows that are in no file added. Only where there are
// some are the files removed read again, for the keys' text.
func (p *pass) nameGone(ctx context.Context) error {
	if !p.d.guarded {
		return nil
	}
	gone := int64(0)
	for i := range p.cells {
		if c := &p.cells[i]; c.old && !c.seen {
			gone++
		}
	}
	if gone == 0 {
		return nil
	}
	for _, a := range p.d.live.removed {
		r := reading{snapshot: p.d.prev, file: a, columns: p.d.shape.roles.Keys}
		err := r.rows(ctx, func(cols []arrow.Array, n int) error {
			k := orderedRow(cols)
			for i := range n {
				p.buf = k.Append(p.buf[:0], i)
				at, ok := p.index[string(p.buf)]
				if !ok || !p.cells[at].old || p.cells[at].seen {
					continue
				}
				p.cells[at].seen = true // named
				p.result.gone.add(func() string { return keyText(cols, i) })
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// probe looks for the pass's new keys in the other live files (law 6).
func (p *pass) probe(ctx context.Context) error {
	p.fresh.ready()
	return p.fresh.scan(ctx, p.d.cur, p.d.live.kept, p.d.shape.roles.Keys, func(_ string, cols []arrow.Array, i int) error {
		p.result.elsewhere.add(func() string { return keyText(cols, i) })
		return nil
	})
}
