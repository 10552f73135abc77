package merge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/statement"
)

// decision is what the statement does to the rows of one batch of a target file.
type decision struct {
	ev      *evaluation // its items are the pairs that ON holds for
	lacking *evaluation // its items are the target rows without one
	// branch of each target row, -1 for none; item in the evaluation it belongs to.
	branch []int32
	item   []int32
	// sources are the source rows of the pairs with the action chosen for each.
	sources []matchedRow
}

// decide evaluates ON and the clauses for one batch, whose columns are named as
// in the pair.
func (c *clauses) decide(rec arrow.RecordBatch, add *deltatable.Add, first int64) (*decision, error) {
	n := int(rec.NumRows())
	d := &decision{branch: make([]int32, n), item: make([]int32, n)}
	for i := range d.branch {
		d.branch[i] = -1
	}
	place := func(row int32) string { return fmt.Sprintf("target file %s row %d", add.Path, first+int64(row)+1) }
	d.ev = &evaluation{c: c, target: rec, source: c.source.recs}
	d.ev.where = func(item int) string { return place(d.ev.targetRows[item]) }
	pairs, err := c.pairs(d.ev, n)
	if err != nil {
		return nil, err
	}
	chosen, err := d.ev.choose(statement.Matched, pairs)
	if err != nil {
		return nil, err
	}
	action := make([]int32, len(d.ev.targetRows))
	for i := range action {
		action[i] = -1
	}
	for b, items := range chosen {
		for _, item := range items {
			action[item] = int32(b)
		}
	}
	if err := c.assign(d, pairs, action, rec); err != nil {
		return nil, err
	}
	if !c.bound.Has(statement.NotMatchedBySource) {
		return d, nil
	}
	return d, c.decideLacking(d, rec, pairs, place)
}

// assign gives each matched target row its clause, and refuses a row for which
// more than one source row has one (merge-semantics 5).
func (c *clauses) assign(d *decision, pairs []int, action []int32, rec arrow.RecordBatch) error {
	onlyDelete := c.onlyDelete()
	wrong := &CardinalityError{}
	for _, item := range pairs {
		row, b := d.ev.targetRows[item], action[item]
		m := matchedRow{row: c.sourceNumber(d.ev.sourcePicks[item])}
		if b >= 0 {
			m.action = c.bound.Branches[b].Action
			switch {
			case d.branch[row] < 0:
				d.branch[row], d.item[row] = b, int32(item)
			case !onlyDelete:
				wrong.Rows++
				if key := c.targetKey(rec, int(row)); len(wrong.Keys) < 20 && !slices.Contains(wrong.Keys, key) {
					wrong.Keys = append(wrong.Keys, key)
				}
			}
		}
		d.sources = append(d.sources, m)
	}
	if wrong.Rows > 0 {
		return wrong
	}
	return nil
}

func (c *clauses) sourceNumber(p rows.Pick) int32 { return c.source.starts[p.Source] + p.Row }

// onlyDelete says that the only matched clause is an unconditional delete.
func (c *clauses) onlyDelete() bool {
	n, plain := 0, false
	for _, b := range c.bound.Branches {
		if b.When == statement.Matched {
			n++
			plain = b.Action == statement.Delete && b.Condition == nil
		}
	}
	return n == 1 && plain
}

// targetKey names a target row by the columns that ON compares, or by all.
func (c *clauses) targetKey(rec arrow.RecordBatch, row int) string {
	var parts []string
	for k, f := range rec.Schema().Fields() {
		name := strings.TrimPrefix(f.Name, c.bound.TargetColumn(""))
		isKey := slices.ContainsFunc(c.bound.Keys, func(key statement.Key) bool {
			return slices.Contains(key.Target.Columns(), f.Name)
		})
		if isKey || len(c.bound.Keys) == 0 {
			parts = append(parts, name+"="+rec.Column(k).ValueStr(row))
		}
	}
	return strings.Join(parts, " ")
}

// Error names the keys.
func (e *CardinalityError) Error() string {
	return fmt.Sprintf("target rows are matched by more than one source row that would update or delete them: %s", strings.Join(e.Keys, ", "))
}

// decideLacking evaluates the BY SOURCE clauses for rows without a pair.
func (c *clauses) decideLacking(d *decision, rec arrow.RecordBatch, pairs []int, place func(int32) string) error {
	has := make([]bool, rec.NumRows())
	for _, item := range pairs {
		has[d.ev.targetRows[item]] = true
	}
	d.lacking = &evaluation{c: c, target: rec}
	d.lacking.where = func(item int) string { return place(d.lacking.targetRows[item]) }
	var which []int
	for row, is := range has {
		if !is {
			which = append(which, len(d.lacking.targetRows))
			d.lacking.targetRows = append(d.lacking.targetRows, int32(row))
		}
	}
	chosen, err := d.lacking.choose(statement.NotMatchedBySource, which)
	if err != nil {
		return err
	}
	for b, items := range chosen {
		for _, item := range items {
			row := d.lacking.targetRows[item]
			d.branch[row], d.item[row] = int32(b), int32(item)
		}
	}
	return nil
}
