package checkpoints

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
)

// replaceDiff compares the rows of a version in mode replace with those of the one before,
// key by key: first the rows of the files removed against those of the files added, which
// leaves the keys that changed, then all rows of these keys and of the batch's. Where the
// rows do not fit the budget, it is made in passes over parts of the key hash.
type replaceDiff struct {
	prev, cur *deltatable.Snapshot // prev nil: there is nothing before
	live      liveSets
	shape     *replaceShape
	batch     *replaceBatch // nil: not at hand
	// law says that the version before was under the same rules; frozen that the commit may
	// change no row.
	law, frozen bool
	budget      int64

	result replaceResult
}

// replaceResult is what was found, over all passes.
type replaceResult struct {
	keys, inserts, deletes int64 // keys changed, and the rows that the rules add and remove
	form                   keyList
	bad                    map[string]replaceProblem // by key form
	passes                 int
}

// replaceProblem is what is wrong with a key.
type replaceProblem int

const (
	fine            replaceProblem = iota
	keyGone                        // no row is left
	keyLowered                     // the highest sequence went down
	keyMoved                       // the commit does not write the key, its rows changed
	keyUnlawful                    // no batch leaves such rows
	keyMissing                     // rows that the rules demand are not there
	keyExtra                       // rows are there that the rules do not give
	keyNullInBatch                 // the batch has a NULL sequence and had to be refused
	keyNullInTarget                // so has the target
)

// cellOverhead is what a key of a pass costs beside its bytes, roughly: a map entry and the
// two maps of its cell.
const cellOverhead = 800

// rcell is a key of a pass.
type rcell struct {
	diff   bag // rows added less rows removed
	now    bag // all rows after the commit; nil until one is found
	inputs []int
}

func (d *replaceDiff) run(ctx context.Context) error {
	d.result.bad = map[string]replaceProblem{}
	first := d.shape.names[0]
	if d.prev != nil {
		d.live.removed = byFirstKey(d.prev, d.live.removed, first)
	}
	d.live.added = byFirstKey(d.cur, d.live.added, first)
	todo := []part{{}}
	for len(todo) > 0 {
		pt := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p := &replacePass{d: d, part: pt, cells: map[string]*rcell{}}
		err := p.run(ctx)
		switch {
		case errors.Is(err, errFull) && pt.bits < 40:
			todo = append(todo, part{pt.bits + 1, pt.value}, part{pt.bits + 1, pt.value | 1<<pt.bits})
		case err != nil:
			return err
		default:
			p.judge()
			d.result.passes++
		}
	}
	return nil
}

// replacePass is the comparison of one part.
type replacePass struct {
	d     *replaceDiff
	part  part
	cells map[string]*rcell
	form  keyList
	held  int64
}

func (p *replacePass) run(ctx context.Context) error {
	if p.d.batch != nil {
		for key, inputs := range p.d.batch.byKey {
			if p.has(key) {
				p.cells[key] = &rcell{diff: bag{}, inputs: inputs}
				p.held += int64(len(key)) + cellOverhead
			}
		}
	}
	// A rewrite keeps the order of its files, so that most rows of a file removed meet their
	// copies in the file added that stands opposite.
	removed, added := p.d.live.removed, p.d.live.added
	for i := range max(len(removed), len(added)) {
		if i < len(removed) {
			if err := p.count(ctx, p.d.prev, removed[i], -1); err != nil {
				return err
			}
		}
		if i < len(added) {
			if err := p.count(ctx, p.d.cur, added[i], 1); err != nil {
				return err
			}
		}
	}
	return p.gather(ctx)
}

func (p *replacePass) has(key string) bool {
	return p.part.bits == 0 || p.part.has(integrity.RowHash([]byte(key)).Lo)
}

// count puts the rows of a file into the cells.
func (p *replacePass) count(ctx context.Context, s *deltatable.Snapshot, f *deltatable.Add, n int) error {
	var key, row []byte
	keys := len(p.d.shape.roles.Keys)
	return reading{snapshot: s, file: f, columns: p.d.shape.names}.rows(ctx, func(cols []arrow.Array, rows int) error {
		for i := range rows {
			key = appendAll(key[:0], cols[:keys], i)
			if !p.has(string(key)) {
				continue
			}
			sequence, err := versionValue(cols[keys], i)
			if err != nil {
				return err
			}
			if sequence == nil && n > 0 {
				p.form.add(func() string { return keyText(cols[:keys], i) })
			}
			row = appendAll(row[:0], cols[keys:], i)
			c := p.cells[string(key)]
			if c == nil {
				c = &rcell{diff: bag{}}
				p.cells[string(key)] = c
				p.held += int64(len(key)) + cellOverhead
			}
			p.put(c.diff, string(row), sequence, n)
			if len(c.diff) == 0 && c.inputs == nil {
				delete(p.cells, string(key))
				p.held -= int64(len(key)) + cellOverhead
			}
			if p.full() {
				return errFull
			}
		}
		return nil
	})
}

func (p *replacePass) put(b bag, row string, sequence any, n int) {
	before := len(b)
	b.add(row, sequence, n)
	p.held += int64(len(b)-before) * (int64(len(row)) + seenOverhead)
}

func (p *replacePass) full() bool { return p.held > p.d.budget && len(p.cells) > 1 }

// gather finds all rows that the keys of the pass have after the commit.
func (p *replacePass) gather(ctx context.Context) error {
	if len(p.d.live.removed) == 0 && len(p.d.live.kept) == 0 {
		for _, c := range p.cells {
			c.now = c.diff
		}
		return nil
	}
	set, err := p.keySet(ctx)
	if err != nil {
		return err
	}
	keys := len(p.d.shape.roles.Keys)
	var row []byte
	files := slices.Concat(p.d.live.kept, p.d.live.added)
	return set.scan(ctx, p.d.cur, files, p.d.shape.names, func(key string, cols []arrow.Array, i int) error {
		sequence, err := versionValue(cols[keys], i)
		if err != nil {
			return err
		}
		row = appendAll(row[:0], cols[keys:], i)
		c := p.cells[key]
		if c.now == nil {
			c.now = bag{}
		}
		if p.put(c.now, string(row), sequence, 1); p.full() {
			return errFull
		}
		return nil
	})
}

// keySet is the keys of the pass, for looking for them elsewhere.
func (p *replacePass) keySet(ctx context.Context) (*keySet, error) {
	set := newKeySet(p.d.cur, p.d.shape.roles.Keys)
	err := p.eachKey(ctx, func(key string, cols []arrow.Array, i int) {
		if p.cells[key] != nil {
			set.add(key, cols, i)
		}
	})
	set.ready()
	return set, err
}

// eachKey calls fn for the key of each row of the files that changed and of the batch.
func (p *replacePass) eachKey(ctx context.Context, fn func(key string, cols []arrow.Array, i int)) error {
	var key []byte
	visit := func(cols []arrow.Array, n int) error {
		for i := range n {
			key = appendAll(key[:0], cols, i)
			fn(string(key), cols, i)
		}
		return nil
	}
	for _, side := range []struct {
		s     *deltatable.Snapshot
		files []*deltatable.Add
	}{{p.d.prev, p.d.live.removed}, {p.d.cur, p.d.live.added}} {
		for _, f := range side.files {
			if err := (reading{snapshot: side.s, file: f, columns: p.d.shape.roles.Keys}).rows(ctx, visit); err != nil {
				return err
			}
		}
	}
	if p.d.batch == nil {
		return nil
	}
	at := 0
	for _, rec := range p.d.batch.recs {
		cols := make([]arrow.Array, len(p.d.shape.roles.Keys))
		for k, name := range p.d.shape.roles.Keys {
			if cols[k] = column(rec, name); cols[k] == nil {
				cols[k] = array.NewNull(int(rec.NumRows()))
			}
		}
		for i := range int(rec.NumRows()) {
			fn(p.d.batch.rows[at].key, cols, i)
			at++
		}
	}
	return nil
}

// judge looks at each key of the pass.
func (p *replacePass) judge() {
	for _, key := range slices.Sorted(maps.Keys(p.cells)) {
		c := p.cells[key]
		if len(c.diff) > 0 {
			p.d.result.keys++
		}
		if bad := p.judgeKey(c); bad != fine {
			p.d.result.bad[key] = bad
		}
	}
	form := &p.d.result.form
	for _, k := range p.form.keys {
		form.addText(k)
	}
	form.n += p.form.n - int64(len(p.form.keys))
}

func (p *replacePass) judgeKey(c *rcell) replaceProblem {
	d := p.d
	before := c.now.less(c.diff)
	var problem replaceProblem
	if d.law {
		was, is := before.top(), c.now.top()
		switch {
		case was != nil && len(c.now) == 0:
			problem = keyGone
		case was != nil && (is == nil || compareSequence(is, was) < 0):
			problem = keyLowered
		}
	}
	if c.inputs != nil {
		if bad := p.judgeBatch(c, before); problem == fine {
			problem = bad
		}
		return problem
	}
	switch {
	case problem != fine || len(c.diff) == 0:
	case d.batch != nil || d.frozen:
		problem = keyMoved
	case d.law && !lawfulReplace(before, c.now):
		problem = keyUnlawful
	}
	return problem
}

// judgeBatch folds the batch's rows of one key and compares.
func (p *replacePass) judgeBatch(c *rcell, before bag) replaceProblem {
	b := p.d.batch
	rows := make([]replaceRow, len(c.inputs))
	for i, n := range c.inputs {
		if rows[i] = b.rows[n]; rows[i].sequence == nil {
			return keyNullInBatch
		}
	}
	if before.hasNull() {
		return keyNullInTarget
	}
	want := foldReplace(before, rows, b.ignore)
	for i, o := range replaceOutcomes(before, rows, b.ignore) {
		b.folded.outcomes[c.inputs[i]] = o
	}
	for _, r := range want.less(before) {
		if r.n > 0 {
			p.d.result.inserts += int64(r.n)
		} else {
			p.d.result.deletes -= int64(r.n)
		}
	}
	problem := fine
	for _, r := range want.less(c.now) {
		if r.n > 0 {
			return keyMissing
		}
		problem = keyExtra
	}
	return problem
}
