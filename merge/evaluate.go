package merge

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable/expr"
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
