package tabletest

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/merge/statement"
)

// MergeTable is a table as the oracle of MERGE sees it.
type MergeTable struct {
	Schema    *arrow.Schema
	Partition []string // columns in which "" is stored as NULL
	Rows      []Row
}

// MergeResult is what a MERGE statement must do (merge-semantics 5).
type MergeResult struct {
	// Refused says why nothing is written; "" if it is not.
	Refused string
	// Rows are the table's rows afterwards, Outcomes what became of each source
	// row; both nil if it is refused.
	Rows     []Row
	Outcomes []string
	// Twice says that some target row has more than one source row, whether or not
	// a clause applies to it.
	Twice bool
	// Eager says what would be refused if the conditions of all clauses were computed
	// for all rows, whether or not the clause is about them; "" if nothing.
	Eager string
}

// refusal is an error of the statement or of a row, as opposed to a gap of the
// oracle, which panics.
type refusal struct{ msg string }

func (e *refusal) Error() string { return e.msg }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// ApplyMerge carries a statement out the plainest way: every pair of rows, one
// at a time. It shares nothing with package merge but the parsed tree.
func ApplyMerge(st *statement.Statement, t, s *MergeTable) *MergeResult {
	o := &mergeOracle{st: st, t: t, s: s, res: &MergeResult{}}
	err := o.run()
	var r *refusal
	switch {
	case errors.As(err, &r):
		return &MergeResult{Refused: r.msg, Twice: o.res.Twice}
	case err != nil:
		panic(err)
	}
	return o.res
}

type mergeOracle struct {
	st   *statement.Statement
	t, s *MergeTable
	res  *MergeResult

	on      *formula
	clauses []*oracleClause
}

type oracleClause struct {
	*statement.Clause
	cond   *formula
	values []*formula // by column of the target; nil: kept, or NULL in an insert
}

func (o *mergeOracle) run() error {
	if err := o.compile(); err != nil {
		return err
	}
	strongest := make([]int, len(o.s.Rows)) // 0 no pair, 1 unchanged, 2 deleted, 3 updated
	var kept []Row
	for _, row := range o.t.Rows {
		next, err := o.target(row, strongest)
		if err != nil {
			return err
		}
		if next != nil {
			kept = append(kept, next)
		}
	}
	for i, row := range o.s.Rows {
		outcome := []string{"not_matched", "matched_unchanged", "deleted", "updated"}[strongest[i]]
		if strongest[i] == 0 {
			c, err := o.choose(statement.NotMatched, nil, row)
			if err != nil {
				return err
			}
			if c != nil {
				fresh, err := o.assign(c, Row{}, nil, row)
				if err != nil {
					return err
				}
				outcome, kept = "inserted", append(kept, fresh)
			}
		}
		o.res.Outcomes = append(o.res.Outcomes, outcome)
	}
	o.res.Rows = kept
	return o.eager()
}

// eager computes every condition for every pair, and for every row without one.
func (o *mergeOracle) eager() error {
	paired := make([]bool, len(o.s.Rows))
	for _, t := range o.t.Rows {
		alone := true
		for i, s := range o.s.Rows {
			yes, err := o.on.isTrue(t, s)
			if err != nil {
				return err
			}
			if yes {
				alone, paired[i] = false, true
				o.all(t, s)
			}
		}
		if alone {
			o.all(t, nil)
		}
	}
	for i, s := range o.s.Rows {
		if !paired[i] {
			o.all(nil, s)
		}
	}
	return nil
}

// all computes the conditions of all clauses for one row or pair.
func (o *mergeOracle) all(t, s Row) {
	for _, c := range o.clauses {
		if c.cond == nil {
			continue
		}
		if _, err := c.cond.isTrue(t, s); err != nil {
			o.res.Eager = err.Error()
		}
	}
}

// target is what becomes of a target row, nil if it is deleted.
func (o *mergeOracle) target(row Row, strongest []int) (Row, error) {
	var by *oracleClause
	var with Row
	pairs, applied := 0, 0
	for i, s := range o.s.Rows {
		yes, err := o.on.isTrue(row, s)
		if err != nil {
			return nil, err
		}
		if !yes {
			continue
		}
		if pairs++; pairs > 1 {
			o.res.Twice = true
		}
		c, err := o.choose(statement.Matched, row, s)
		if err != nil {
			return nil, err
		}
		rank := 1
		if c != nil {
			applied, by, with = applied+1, c, s
			rank = map[statement.Action]int{statement.Delete: 2, statement.Update: 3}[c.Action]
		}
		strongest[i] = max(strongest[i], rank)
	}
	if applied > 1 && !o.deletesOnly() {
		return nil, refuse("more than one source row for the target row %v", row)
	}
	if pairs == 0 {
		var err error
		if by, err = o.choose(statement.NotMatchedBySource, row, nil); err != nil {
			return nil, err
		}
	}
	switch {
	case by == nil:
		return row, nil
	case by.Action == statement.Delete:
		return nil, nil
	}
	return o.assign(by, row, row, with)
}

func (o *mergeOracle) deletesOnly() bool {
	var matched []*oracleClause
	for _, c := range o.clauses {
		if c.When == statement.Matched {
			matched = append(matched, c)
		}
	}
	return len(matched) == 1 && matched[0].Action == statement.Delete && matched[0].cond == nil
}

func (o *mergeOracle) choose(w statement.When, t, s Row) (*oracleClause, error) {
	for _, c := range o.clauses {
		if c.When != w {
			continue
		}
		if c.cond == nil {
			return c, nil
		}
		yes, err := c.cond.isTrue(t, s)
		if err != nil {
			return nil, err
		}
		if yes {
			return c, nil
		}
	}
	return nil, nil
}

func (o *mergeOracle) assign(c *oracleClause, base, t, s Row) (Row, error) {
	out := Row{}
	for k, v := range base {
		out[k] = v
	}
	for i, f := range o.t.Schema.Fields() {
		if c.values[i] == nil {
			continue
		}
		v, err := c.values[i].eval(t, s)
		if err != nil {
			return nil, err
		}
		if v == "" && contains(o.t.Partition, f.Name) {
			v = nil
		}
		delete(out, f.Name)
		if v != nil {
			out[f.Name] = leave(v, f.Type)
		}
	}
	return out, nil
}

// compile checks names and types.
func (o *mergeOracle) compile() error {
	var err error
	if o.on, err = o.condition(o.st.On, "ts"); err != nil {
		return err
	}
	for i := range o.st.Clauses {
		c := &oracleClause{Clause: &o.st.Clauses[i], values: make([]*formula, o.t.Schema.NumFields())}
		sides := map[statement.When]string{statement.Matched: "ts", statement.NotMatched: "s", statement.NotMatchedBySource: "t"}[c.When]
		if c.Condition != nil {
			if c.cond, err = o.condition(c.Condition, sides); err != nil {
				return err
			}
		}
		if c.Action != statement.Delete {
			if err := o.sets(c, sides); err != nil {
				return err
			}
		}
		o.clauses = append(o.clauses, c)
	}
	return nil
}

func (o *mergeOracle) condition(e expr.Expr, sides string) (*formula, error) {
	f, err := (&compiler{o: o, sides: sides}).compile(e)
	if err != nil {
		return nil, err
	}
	if f.typ.kind != kBool && f.typ.kind != kNull {
		return nil, refuse("%s is no condition", e)
	}
	return f, nil
}

func (o *mergeOracle) sets(c *oracleClause, sides string) error {
	set := c.Set
	if c.All {
		for _, f := range o.t.Schema.Fields() {
			if slices.ContainsFunc(c.Except, func(x string) bool { return strings.EqualFold(x, f.Name) }) {
				continue
			}
			at := fieldNamed(o.s.Schema, f.Name)
			if at < 0 {
				return refuse("the source has no column %s", f.Name)
			}
			name := &expr.Name{Parts: []string{o.st.Source.Qualifier(), o.s.Schema.Field(at).Name}}
			set = append(set, statement.Assignment{Column: f.Name, Value: name})
		}
	}
	for _, a := range set {
		at := fieldNamed(o.t.Schema, a.Column)
		if at < 0 || c.values[at] != nil {
			return refuse("column %s does not exist or is set twice", a.Column)
		}
		f, err := (&compiler{o: o, sides: sides}).compile(a.Value)
		if err != nil {
			return err
		}
		if c.values[at], err = f.stored(typeOfArrow(o.t.Schema.Field(at).Type)); err != nil {
			return err
		}
	}
	return nil
}

// fieldNamed is the column of a name, whatever its case; -1 if there is none.
func fieldNamed(sch *arrow.Schema, name string) int {
	for i, f := range sch.Fields() {
		if strings.EqualFold(f.Name, name) {
			return i
		}
	}
	return -1
}

// enter and leave change between values of rows and of formulas: a decimal is a
// number with its scale there.
func enter(v Value, t arrow.DataType) any {
	switch v := v.(type) {
	case nil:
		return nil
	case Decimal:
		return number{decimalInt(v), int(t.(*arrow.Decimal128Type).Scale)}
	case Date:
		return day(v)
	case Time:
		return instant(v)
	}
	return v
}

func leave(v any, t arrow.DataType) Value {
	switch v := v.(type) {
	case number:
		if t.ID() != arrow.DECIMAL128 {
			return v.n.Int64()
		}
		return decimalOf(v.n)
	case day:
		return Date(v)
	case instant:
		return Time(v)
	}
	return v
}

type (
	// number is n / 10^scale; integers have scale 0.
	number struct {
		n     *big.Int
		scale int
	}
	day     int64
	instant int64
)
