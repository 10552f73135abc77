package checkpoints

import (
	"bytes"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// content is what a key stores, as forms.
type content struct {
	version, payload []byte
	status           change.Status
}

// cell is a row that waits for its counterpart.
type cell struct {
	content
	old bool // of a file removed
	// Of the search among the files added, for rows left over:
	count int64  // rows with the key
	text  string // the key as people read it
	form  string // its appendValue form
}

// pass is the comparison of one part. It serves one call.
type pass struct {
	d      *diff
	part   part
	cells  map[string]*cell
	seen   map[string]struct{} // instead of cells, where nothing was removed
	held   int64
	fresh  *keySet // new keys, to look for elsewhere
	form   []byte
	result diffResult
}

// match runs both streams against each other.
func (p *pass) match(ctx context.Context) error {
	olds := p.open(ctx, p.d.prev, p.d.live.removed, &p.result.removed)
	news := p.open(ctx, p.d.cur, p.d.live.added, &p.result.added)
	for {
		ob, o := olds.row()
		nb, n := news.row()
		switch {
		case o == nil && olds.err != nil:
			return olds.err
		case n == nil && news.err != nil:
			return news.err
		case o == nil && n == nil:
			return nil
		}
		if err := p.step(olds, news, rowAt{ob, o}, rowAt{nb, n}); err != nil {
			return err
		}
	}
}

// rowAt is the current row of a stream; row nil at its end.
type rowAt struct {
	in  *encoded
	row *encodedRow
}

func (r rowAt) content() content {
	return content{r.row.version, r.row.payload, r.in.b.statusOf(r.row.i)}
}

// step takes the current rows of one or both streams.
func (p *pass) step(olds, news *cursor, o, n rowAt) error {
	if o.row != nil && n.row != nil && bytes.Equal(o.row.key, n.row.key) {
		p.checkForm(n)
		p.judge(o.content(), n.content(), n)
		olds.next()
		news.next()
		return nil
	}
	if n.row != nil {
		if c := p.cells[string(n.row.key)]; c != nil && c.old {
			p.checkForm(n)
			p.judge(c.content, n.content(), n)
			p.release(n.row.key, c)
			news.next()
			return nil // the old row may stand opposite the next new one
		}
	}
	if o.row != nil {
		c := p.cells[string(o.row.key)]
		switch {
		case c == nil:
			if err := p.hold(o.row.key, o.content(), true); err != nil {
				return err
			}
		case !c.old:
			p.judge(o.content(), c.content, o)
			p.release(o.row.key, c)
		}
		// NB: a second old row of a key is in the sum and nowhere else: it was a finding of
		// the version that made it.
		olds.next()
	}
	if n.row != nil {
		p.checkForm(n)
		if err := p.newRow(n); err != nil {
			return err
		}
		news.next()
	}
	return nil
}

// newRow takes a row of a file added that no old row has met yet.
func (p *pass) newRow(n rowAt) error {
	if len(p.d.live.removed) == 0 {
		return p.onlyNew(n)
	}
	if _, ok := p.cells[string(n.row.key)]; ok {
		p.result.doubled.add(n.text)
		return nil
	}
	return p.hold(n.row.key, n.content(), false)
}

// onlyNew takes a row where nothing was removed, so that no old row will come.
func (p *pass) onlyNew(n rowAt) error {
	key, keys := n.row.key, n.in.b.keys
	before := len(p.seen)
	p.seen[string(key)] = struct{}{}
	if len(p.seen) == before {
		p.result.doubled.add(n.text)
		return nil
	}
	p.held += int64(len(key)) + seenOverhead
	wanted := len(p.d.live.kept) > 0
	if wanted || p.d.guarded {
		p.form = appendAll(p.form[:0], keys, n.row.i)
	}
	if wanted {
		p.fresh.add(string(p.form), keys, n.row.i)
		p.held += 2 * (int64(len(p.form)) + seenOverhead)
	}
	p.isFresh(p.form, n.content().status, n.text)
	if p.held > p.d.budget && len(p.seen) > 1 {
		return errFull
	}
	return nil
}

func (r rowAt) text() string { return keyText(r.in.b.keys, r.row.i) }

func (p *pass) hold(key []byte, c content, old bool) error {
	both := slices.Concat(c.version, c.payload)
	c.version, c.payload = both[:len(c.version)], both[len(c.version):]
	p.cells[string(key)] = &cell{content: c, old: old}
	if p.held += int64(len(key)+len(both)) + rowOverhead; p.held > p.d.budget && len(p.cells) > 1 {
		return errFull
	}
	return nil
}

func (p *pass) release(key []byte, c *cell) {
	p.held -= int64(len(key)+len(c.version)+len(c.payload)) + rowOverhead
	delete(p.cells, string(key))
}

// judge compares a row before and after; at is either, for its key.
func (p *pass) judge(before, after content, at rowAt) {
	order := bytes.Compare(after.version, before.version)
	if order == 0 && after.status == before.status && bytes.Equal(after.payload, before.payload) {
		return
	}
	p.result.changed++
	if !p.d.guarded {
		return
	}
	if order < 0 {
		p.result.lowered.add(at.text)
		return
	}
	p.form = appendAll(p.form[:0], at.in.b.keys, at.row.i)
	if !p.mayWrite(p.form, false, order == 0, after.status) {
		p.result.moved.add(at.text)
	}
}

// isFresh takes a key that is new.
func (p *pass) isFresh(form []byte, now change.Status, text func() string) {
	p.result.fresh++
	if p.d.guarded && !p.mayWrite(form, true, false, now) {
		p.result.appeared.add(text)
	}
}

func (p *pass) mayWrite(form []byte, fresh, sameVersion bool, now change.Status) bool {
	return p.d.mayWrite == nil || p.d.mayWrite(string(form), fresh, sameVersion, now)
}

// checkForm looks at a row of a file added by itself (merge-semantics 1, "state table").
func (p *pass) checkForm(n rowAt) {
	b, i := n.in.b, n.row.i
	null := func(arr arrow.Array) bool { return isNull(arr, i) }
	value := func(arr arrow.Array) bool { return !isNull(arr, i) }
	status := b.statusOf(i)
	if slices.ContainsFunc(b.keys, null) || slices.ContainsFunc(b.versions, null) || status == 0 ||
		status != change.Active && slices.ContainsFunc(b.payload, value) {
		p.result.form.add(n.text)
	}
}

// leftOver judges the rows that met no counterpart. A key may be left over because another
// row of it took the counterpart: whether it is new, gone, or there twice, the files added
// say, which are read again for these keys.
func (p *pass) leftOver(ctx context.Context) error {
	if len(p.d.live.removed) == 0 || len(p.cells) == 0 {
		return nil
	}
	var found []*cell // in the order of the files
	err := p.search(ctx, p.d.cur, p.d.live.added, func(c *cell, cols []arrow.Array, i int) {
		if c.count++; c.count > 1 {
			return
		}
		c.text, c.form = keyText(cols, i), string(appendAll(nil, cols, i))
		found = append(found, c)
		if !c.old {
			p.fresh.add(c.form, cols, i)
		}
	})
	if err != nil {
		return err
	}
	for _, c := range found {
		switch {
		case c.count > 1:
			p.result.doubled.addText(c.text)
		case !c.old:
			p.isFresh([]byte(c.form), c.status, func() string { return c.text })
		}
	}
	if !p.d.guarded {
		return nil
	}
	gone := false
	for _, c := range p.cells {
		gone = gone || c.count == 0
	}
	if !gone {
		return nil
	}
	return p.search(ctx, p.d.prev, p.d.live.removed, func(c *cell, cols []arrow.Array, i int) {
		if c.count == 0 {
			c.count++
			list := &p.result.gone
			if c.status == change.Deleted {
				list = &p.result.erased
			}
			list.add(func() string { return keyText(cols, i) })
		}
	})
}

// search calls fn for the rows of files whose key is held.
func (p *pass) search(
	ctx context.Context, s *deltatable.Snapshot, files []*deltatable.Add, fn func(c *cell, cols []arrow.Array, i int),
) error {
	var buf []byte
	for _, a := range files {
		err := reading{snapshot: s, file: a, columns: p.d.shape.roles.Keys}.rows(ctx, func(cols []arrow.Array, n int) error {
			k := orderedRow(cols)
			for i := range n {
				buf = k.Append(buf[:0], i)
				if c, ok := p.cells[string(buf)]; ok {
					fn(c, cols, i)
				}
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
