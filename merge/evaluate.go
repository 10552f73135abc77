package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/statement"
)

// evaluation is a list of items, each a target row, a source row or a pair of
// both, that expressions are evaluated for.
type evaluation struct {
	c           *clauses
	target      arrow.RecordBatch // columns named as in the pair; nil: items have no target row
	targetRows  []int32           // by item
	source      []arrow.RecordBatch
	sourcePicks []rows.Pick // by item; nil: items have no source row
	where       func(item int) string
}

// record gathers the columns that an expression reads, for some of the items.
func (ev *evaluation) record(columns []string, which []int) (arrow.RecordBatch, error) {
	fields := make([]arrow.Field, len(columns))
	cols := make([]arrow.Array, len(columns))
	for k, name := range columns {
		var err error
		if fields[k], cols[k], err = ev.column(name, which); err != nil {
			return nil, err
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(len(which))), nil
}

func (ev *evaluation) column(name string, which []int) (arrow.Field, arrow.Array, error) {
	picks := make([]rows.Pick, len(which))
	if ev.target != nil {
		if at := ev.target.Schema().FieldIndices(name); len(at) == 1 {
			for i, item := range which {
				picks[i] = rows.Pick{Row: ev.targetRows[item]}
			}
			f := ev.target.Schema().Field(at[0])
			a, err := rows.Gather(f.Type, []arrow.Array{ev.target.Column(at[0])}, picks)
			return f, a, err
		}
	}
	if len(ev.source) == 0 {
		return arrow.Field{}, nil, fmt.Errorf("internal error: column %s is not at hand", name)
	}
	at := ev.source[0].Schema().FieldIndices(name)
	if len(at) != 1 {
		return arrow.Field{}, nil, fmt.Errorf("internal error: column %s is not at hand", name)
	}
	sources := make([]arrow.Array, len(ev.source))
	for i, rec := range ev.source {
		sources[i] = rec.Column(at[0])
	}
	for i, item := range which {
		picks[i] = ev.sourcePicks[item]
	}
	f := ev.source[0].Schema().Field(at[0])
	a, err := rows.Gather(f.Type, sources, picks)
	return f, a, err
}

// failed puts the place of a row before an error of its evaluation.
func (ev *evaluation) failed(err error, which []int) error {
	var row *expr.EvalError
	if errors.As(err, &row) && row.Row >= 0 && row.Row < len(which) {
		return &ValueError{Where: ev.where(which[row.Row]), Err: err}
	}
	return err
}

// filter gives those of the items for which a condition is true; NULL is not
// true.
func (ev *evaluation) filter(cond *expr.Bound, which []int) (yes, no []int, err error) {
	rec, err := ev.record(cond.Columns(), which)
	if err != nil {
		return nil, nil, err
	}
	got, err := cond.Filter(rec)
	if err != nil {
		return nil, nil, ev.failed(err, which)
	}
	for i, item := range which {
		if got.Value(i) {
			yes = append(yes, item)
		} else {
			no = append(no, item)
		}
	}
	return yes, no, nil
}

// choose gives, for each branch of the statement, the items that it is for: the
// first clause of the kind whose condition is true wins. Later conditions are
// evaluated for the rest only, as SQL has it.
func (ev *evaluation) choose(when statement.When, which []int) ([][]int, error) {
	out := make([][]int, len(ev.c.bound.Branches))
	for b, branch := range ev.c.bound.Branches {
		if branch.When != when || len(which) == 0 {
			continue
		}
		if branch.Condition == nil {
			out[b] = which
			break
		}
		var err error
		if out[b], which, err = ev.filter(branch.Condition, which); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// values makes the new rows of items under a branch, in table order.
func (ev *evaluation) values(b int, which []int) (arrow.RecordBatch, error) {
	branch, sch := &ev.c.bound.Branches[b], ev.c.engine.schema
	cols := make([]arrow.Array, sch.NumFields())
	for i, f := range sch.Fields() {
		v := branch.Values[i]
		switch {
		case v != nil:
			rec, err := ev.record(v.Columns(), which)
			if err != nil {
				return nil, err
			}
			if cols[i], err = v.Eval(rec); err != nil {
				return nil, ev.failed(err, which)
			}
		case branch.Action == statement.Update && ev.target.Schema().HasField(ev.c.bound.TargetColumn(f.Name)):
			var err error
			if _, cols[i], err = ev.column(ev.c.bound.TargetColumn(f.Name), which); err != nil {
				return nil, err
			}
		default:
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, len(which))
		}
	}
	return array.NewRecordBatch(sch, cols, int64(len(which))), nil
}

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
