package merge

import (
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/statement"
)

// pairsAtOnce bounds the pairs that are looked at together where ON has no
// equality.
const pairsAtOnce = 1 << 18

// pairs fills the evaluation with the pairs of target and source rows that may
// match, and gives the items for which all of ON is true.
func (c *clauses) pairs(ev *evaluation, n int) ([]int, error) {
	if c.source.total == 0 || c.job.NoMatch {
		return nil, nil
	}
	if c.source.keys == nil {
		return c.allPairs(ev, n)
	}
	cols, err := keyColumns(ev.target, c.bound, func(k *statement.Key) boundExpr { return k.Target })
	if err != nil {
		return nil, err
	}
	row := ordered.NewRow(cols...)
	var buf []byte
	var items []int
	for i := range n {
		if !comparable(cols, c.bound.Keys, i) {
			continue
		}
		buf = row.Append(buf[:0], i)
		id := c.source.keys.Find(buf)
		if id < 0 {
			continue
		}
		for s := c.source.first[id]; s >= 0; s = c.source.next[s] {
			rec, at := c.source.find(s)
			items = append(items, len(ev.targetRows))
			ev.targetRows = append(ev.targetRows, int32(i))
			ev.sourcePicks = append(ev.sourcePicks, rows.Pick{Source: int32(rec), Row: at})
		}
	}
	return c.residual(ev, items)
}

func (c *clauses) allPairs(ev *evaluation, n int) ([]int, error) {
	var out []int
	var items []int
	flush := func() error {
		kept, err := c.residual(ev, items)
		if err != nil {
			return err
		}
		// What does not match is forgotten, so that memory follows the matches.
		base := len(ev.targetRows) - len(items)
		for k, item := range kept {
			ev.targetRows[base+k], ev.sourcePicks[base+k] = ev.targetRows[item], ev.sourcePicks[item]
			out = append(out, base+k)
		}
		ev.targetRows, ev.sourcePicks = ev.targetRows[:base+len(kept)], ev.sourcePicks[:base+len(kept)]
		items = items[:0]
		return nil
	}
	for i := range n {
		for r, rec := range c.source.recs {
			for s := range int32(rec.NumRows()) {
				if c.source.drops(c.source.starts[r] + s) {
					continue
				}
				items = append(items, len(ev.targetRows))
				ev.targetRows = append(ev.targetRows, int32(i))
				ev.sourcePicks = append(ev.sourcePicks, rows.Pick{Source: int32(r), Row: s})
				if len(items) == pairsAtOnce {
					if err := flush(); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return out, flush()
}

func (c *clauses) residual(ev *evaluation, items []int) ([]int, error) {
	for _, list := range [][]*expr.Bound{c.bound.TargetOnly, c.bound.Rest} {
		for _, cond := range list {
			if len(items) == 0 {
				return nil, nil
			}
			var err error
			if items, _, err = ev.filter(cond, items); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}
