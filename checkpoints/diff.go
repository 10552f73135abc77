package checkpoints

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// diff compares the rows of the files removed with those of the files added, key by key.
//
// Both sides are read as streams. A rewrite keeps the order of the rows that it copies, so
// that most rows stand opposite their old selves and are compared in place; a row that does
// not is held until its counterpart comes. What is left over at the end is new, gone, or a
// second row of its key. Where more rows have to be held than the budget allows, the diff
// is made in passes over parts of the key hash.
type diff struct {
	prev, cur *deltatable.Snapshot // prev nil: there is nothing before
	live      liveSets
	shape     *shape
	// guarded says that laws 3 and 4 apply to the step: the table was guarded before.
	guarded bool
	// mayWrite says whether the commit may write a key (its appendValue form); fresh: the
	// key is new; sameVersion: the row's version did not change; now: its new status. Nil:
	// anything goes.
	mayWrite func(key string, fresh, sameVersion bool, now change.Status) bool
	budget   int64 // bytes of rows held at once

	result diffResult
}

// diffResult is what a diff found, over all passes.
type diffResult struct {
	removed, added  integrity.Sum // of the rows of the files removed and added
	fresh, changed  int64         // keys that are new, and that changed
	passes          int           // those that were given up not counted
	lowered, gone   keyList       // law 3
	erased          keyList       // law 3: tombstones that are gone
	moved, appeared keyList       // law 4
	doubled         keyList       // law 6, within the files added
	elsewhere       keyList       // law 6, in other live files
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

// What a held row costs beside its bytes, roughly: a map entry, and where the row waits for
// a counterpart its cell.
const (
	seenOverhead = 64
	rowOverhead  = 200
)

// run compares everything. It starts with one pass, or with as many as the row counts in
// the log make certain, and splits the parts that turn out too big.
func (d *diff) run(ctx context.Context) error {
	if d.prev != nil {
		d.live.removed = byFirstKey(d.prev, d.live.removed, d.shape.roles.Keys[0])
	}
	d.live.added = byFirstKey(d.cur, d.live.added, d.shape.roles.Keys[0])
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

// byFirstKey sorts files by the least key that statistics know, so that a file and its
// rewrite come at about the same time. It is only about speed.
func byFirstKey(s *deltatable.Snapshot, files []*deltatable.Add, column string) []*deltatable.Add {
	least := make(map[*deltatable.Add][]byte, len(files))
	for _, a := range files {
		least[a] = s.Bounds(a, column).Min
	}
	out := slices.Clone(files)
	slices.SortStableFunc(out, func(a, b *deltatable.Add) int { return bytes.Compare(least[a], least[b]) })
	return out
}

// firstParts are the parts to begin with. Where nothing was removed all keys are held, and
// the log says how many.
func (d *diff) firstParts() []part {
	held := d.onlyNew() * seenOverhead
	if len(d.live.kept) > 0 {
		held *= 3
	}
	bits := uint(0)
	for held>>bits > d.budget && bits < 40 {
		bits++
	}
	parts := make([]part, 0, 1<<bits)
	for v := range uint64(1) << bits {
		parts = append(parts, part{bits, v})
	}
	return parts
}

// onlyNew is the number of rows added where none was removed, as far as the log says; else
// 0.
func (d *diff) onlyNew() (rows int64) {
	if len(d.live.removed) > 0 {
		return 0
	}
	for _, a := range d.live.added {
		if n, ok := d.cur.NumRecords(a); ok && n > 0 {
			rows += n
		}
	}
	return rows
}

func (d *diff) pass(ctx context.Context, pt part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pass{
		d: d, part: pt, cells: map[string]*cell{},
		// NB: the log's row counts may be false; the budget bounds what they ask for.
		seen:  make(map[string]struct{}, min(d.onlyNew(), d.budget/seenOverhead)>>pt.bits),
		fresh: newKeySet(d.cur, d.shape.roles.Keys), result: d.result,
	}
	p.result.passes++
	if err := p.match(ctx); err != nil {
		return err
	}
	if err := p.leftOver(ctx); err != nil {
		return err
	}
	if err := p.probe(ctx); err != nil {
		return err
	}
	d.result = p.result
	return nil
}
