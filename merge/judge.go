package merge

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/statement"
)

// planColumns are the table's columns that judging a file needs.
func (c *clauses) planColumns() []string {
	need := map[string]bool{}
	use := func(e *expr.Bound) {
		if e == nil {
			return
		}
		for _, name := range e.Columns() {
			need[name] = true
		}
	}
	for i := range c.bound.Keys {
		use(c.bound.Keys[i].Target)
	}
	for _, list := range [][]*expr.Bound{c.bound.TargetOnly, c.bound.Rest} {
		for _, e := range list {
			use(e)
		}
	}
	for i := range c.bound.Branches {
		use(c.bound.Branches[i].Condition)
	}
	var out []string
	for _, f := range c.snap.Schema().Fields() {
		if need[c.bound.TargetColumn(f.Name)] || c.moves() {
			out = append(out, f.Name)
		}
	}
	return out
}

// moves says whether an update may move a row into another partition.
func (c *clauses) moves() bool {
	for _, p := range c.engine.layout.PartitionColumns() {
		i := c.engine.schema.FieldIndices(p)[0]
		for _, b := range c.bound.Branches {
			if b.Action == statement.Update && b.Values[i] != nil {
				return true
			}
		}
	}
	return false
}

// named gives a record's columns the names of the pair.
func (c *clauses) named(rec arrow.RecordBatch) arrow.RecordBatch {
	fields := slices.Clone(rec.Schema().Fields())
	for i := range fields {
		fields[i].Name = c.bound.TargetColumn(fields[i].Name)
		fields[i].Nullable = true
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), rec.Columns(), rec.NumRows())
}

// judgeFile works out the result of one file.
func (c *clauses) judgeFile(ctx context.Context, add *deltatable.Add) (err error) {
	r, err := c.snap.OpenFile(ctx, add)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := r.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	prefix := c.bound.TargetColumn("")
	var groups []int
	for g := range r.RowGroups() {
		bounds := func(column string) ordered.Bounds {
			if name, ok := strings.CutPrefix(column, prefix); ok {
				return r.Bounds(g, name)
			}
			return ordered.Unknown()
		}
		if c.mayMatch(bounds) || c.mayLack(bounds) {
			groups = append(groups, g)
		}
	}
	res := &fileResult{}
	if len(groups) > 0 {
		err = c.judgeGroups(ctx, r, add, groups, res)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[c.snap.KeyOf(add)] = res
	return nil
}

func (c *clauses) judgeGroups(ctx context.Context, r *deltatable.FileReader, add *deltatable.Add, groups []int, res *fileResult) error {
	seen := map[int32]statement.Action{}
	for b, err := range r.Read(ctx, &deltatable.ReadOptions{Columns: c.planColumns(), RowGroups: groups, BatchRows: writeRows}) {
		if err != nil {
			return err
		}
		d, err := c.decide(c.named(b.Rec), add, b.First)
		if err != nil {
			return err
		}
		for _, m := range d.sources {
			if old, is := seen[m.row]; !is || old == 0 || m.action == statement.Update {
				seen[m.row] = m.action
			}
		}
		if err := c.tally(d, add, res); err != nil {
			return err
		}
	}
	for row, action := range seen {
		res.sources = append(res.sources, matchedRow{row, action})
	}
	slices.SortFunc(res.sources, func(a, b matchedRow) int { return int(a.row - b.row) })
	return nil
}

// tally counts what a decision does, and keeps the rows that it moves.
func (c *clauses) tally(d *decision, add *deltatable.Add, res *fileResult) error {
	for _, b := range d.branch {
		if b < 0 {
			continue
		}
		res.changes++
		branch := &c.bound.Branches[b]
		by := 0
		if branch.Action == statement.Delete {
			res.deleted++
			res.gone++
			by = 1
		} else {
			res.updated++
		}
		if branch.When == statement.NotMatchedBySource {
			res.bySource[by]++
		}
	}
	if !c.moves() {
		return nil
	}
	updates, err := c.updates(d, add)
	if err != nil {
		return err
	}
	for _, u := range updates {
		for k := range u.rows {
			if u.away[k] {
				res.gone++
				res.moves = append(res.moves, movedRow{rec: u.rec, row: int32(k), part: u.parts[k]})
			}
		}
	}
	return nil
}

// update is the new rows of one branch in a batch.
type update struct {
	rec   arrow.RecordBatch
	rows  []int32 // target rows
	away  []bool  // it moves to another partition
	parts []deltatable.Partition
}

// updates makes the new rows of all updated rows of a decision.
func (c *clauses) updates(d *decision, add *deltatable.Add) ([]update, error) {
	var out []update
	home, err := c.engine.layout.PartitionOf(add)
	if err != nil {
		return nil, err
	}
	for b := range c.bound.Branches {
		branch := &c.bound.Branches[b]
		if branch.Action != statement.Update || branch.When == statement.NotMatched {
			continue
		}
		ev := d.ev
		if branch.When == statement.NotMatchedBySource {
			ev = d.lacking
		}
		var u update
		var items []int
		for row, has := range d.branch {
			if int(has) == b {
				u.rows, items = append(u.rows, int32(row)), append(items, int(d.item[row]))
			}
		}
		if len(items) == 0 {
			continue
		}
		if u.rec, err = ev.values(b, items); err != nil {
			return nil, err
		}
		u.away, u.parts = make([]bool, len(items)), make([]deltatable.Partition, len(items))
		for k := range items {
			if !c.moves() {
				continue
			}
			if u.parts[k], err = c.partition(u.rec, k); err != nil {
				return nil, err
			}
			u.away[k] = u.parts[k].Key != home.Key
		}
		out = append(out, u)
	}
	return out, nil
}

// rewrite implements mode: the batch is decided once more, now with all columns.
func (c *clauses) rewrite(s *source, b deltatable.FileBatch) (*rewritten, error) {
	out := &rewritten{}
	d, err := c.decide(c.named(b.Rec), s.add, b.First)
	if err != nil {
		return nil, err
	}
	updates, err := c.updates(d, s.add)
	if err != nil {
		return nil, err
	}
	replaced := map[int32]rows.Pick{}
	var recs []arrow.RecordBatch
	for i, u := range updates {
		recs = append(recs, u.rec)
		for k, row := range u.rows {
			replaced[row] = rows.Pick{Source: int32(i), Row: int32(k)}
			if u.away[k] {
				replaced[row] = rows.Null()
			}
		}
	}
	var fresh []rows.Pick
	for row := range int32(b.Rec.NumRows()) {
		p, is := replaced[row]
		switch {
		case d.branch[row] < 0:
			out.picks = append(out.picks, rows.Pick{Source: 1, Row: row})
			continue
		case is && p.Row >= 0:
			out.picks = append(out.picks, rows.Pick{Source: 0, Row: int32(len(fresh))})
			fresh = append(fresh, p)
		default:
			out.gone++
		}
		out.changed++
	}
	if len(fresh) > 0 {
		out.fresh, err = gatherRows(c.engine.schema, recs, fresh)
	}
	return out, err
}
