package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// pickNode is CASE, IF, coalesce and their kin: each row takes the first value
// whose condition holds. Values, and conditions after the first, are computed
// for the rows that need them alone.
type pickNode struct {
	dt    arrow.DataType
	conds []pred // nil: the value is taken if it is not NULL
	vals  []node // may have one more than conds: ELSE
}

func (p *pickNode) typ() arrow.DataType { return p.dt }

func (p *pickNode) eval(b *batch) (arrow.Array, error) {
	choice := make([]int, b.rows) // 0: undecided; -1: not wanted; else the value, from 1
	for i := range choice {
		if !b.wants(i) {
			choice[i] = -1
		}
	}
	read := make([]func(int) cell, len(p.vals))
	for k, v := range p.vals {
		open, some := b.only(func(i int) bool { return choice[i] == 0 })
		if !some {
			break
		}
		if k < len(p.conds) {
			taken, err := p.conds[k].test(open)
			if err != nil {
				return nil, err
			}
			if open, some = open.only(func(i int) bool { return taken[i] == isTrue }); !some {
				continue
			}
		}
		arr, err := v.eval(open)
		if err != nil {
			return nil, err
		}
		defer arr.Release()
		read[k] = cellsOf(arr)
		for i := range choice {
			if open.live[i] && (p.conds != nil || arr.IsValid(i)) {
				choice[i] = k + 1
			}
		}
	}
	return build(p.dt, b.rows, func(i int) (cell, error) {
		if choice[i] <= 0 {
			return null, nil
		}
		return read[choice[i]-1](i), nil
	})
}

// pick finishes a pickNode: one type for all values; conditions that are
// constants, and values after a certain one, are left out.
func (bd *binder) pick(e Expr, conds []pred, vals []node, exprs []Expr) (node, error) {
	dt, err := bd.same(e, exprs, vals)
	if err != nil {
		return nil, err
	}
	if dt.ID() == arrow.NULL {
		return &constant{dt: arrow.Null, null: true, src: e}, nil
	}
	return &pickNode{dt: dt, conds: conds, vals: vals}, nil
}

func (bd *binder) caseExpr(e *Case) (node, error) {
	var conds []pred
	var vals []node
	var exprs []Expr
	for _, w := range e.Whens {
		c, err := bd.caseCondition(e, w)
		if err != nil {
			return nil, err
		}
		v, err := bd.bind(w.Then)
		if err != nil {
			return nil, err
		}
		conds, vals, exprs = append(conds, c), append(vals, v), append(exprs, w.Then)
	}
	if e.Else != nil {
		v, err := bd.bind(e.Else)
		if err != nil {
			return nil, err
		}
		vals, exprs = append(vals, v), append(exprs, e.Else)
	}
	return bd.pick(e, conds, vals, exprs)
}

func (bd *binder) caseCondition(e *Case, w When) (pred, error) {
	if e.X == nil {
		return bd.condition(w.Cond)
	}
	return bd.compare("=", e.X, w.Cond, w.Cond.Pos())
}

// lazy gives the functions that must not compute all their arguments, nil for
// others.
func lazy(name string) func(bd *binder, e *Call) (node, error) {
	switch name {
	case "if", "iff":
		return bindIf
	case "coalesce":
		return bindCoalesce
	case "nvl", "ifnull":
		return two(bindCoalesce)
	case "nvl2":
		return bindNVL2
	case "nullif":
		return two(bindNullIf)
	case "nanvl":
		return two(bindNaNVL)
	case "isnull":
		return bindIsNull(false)
	case "isnotnull":
		return bindIsNull(true)
	}
	return nil
}

func bindIf(bd *binder, e *Call) (node, error) {
	if len(e.Args) != 3 {
		return nil, wrongCount(e, 3, 3)
	}
	c, err := bd.condition(e.Args[0])
	if err != nil {
		return nil, err
	}
	return bd.choose(e, []pred{c}, e.Args[1:])
}

func bindCoalesce(bd *binder, e *Call) (node, error) {
	if len(e.Args) == 0 {
		return nil, wrongCount(e, 1, -1)
	}
	return bd.choose(e, nil, e.Args)
}

// two checks a function of two arguments.
func two(f func(bd *binder, e *Call) (node, error)) func(bd *binder, e *Call) (node, error) {
	return func(bd *binder, e *Call) (node, error) {
		if len(e.Args) != 2 {
			return nil, wrongCount(e, 2, 2)
		}
		return f(bd, e)
	}
}

func (bd *binder) choose(e *Call, conds []pred, exprs []Expr) (node, error) {
	vals := make([]node, len(exprs))
	for i, a := range exprs {
		var err error
		if vals[i], err = bd.bind(a); err != nil {
			return nil, err
		}
	}
	return bd.pick(e, conds, vals, exprs)
}

func bindNVL2(bd *binder, e *Call) (node, error) {
	if len(e.Args) != 3 {
		return nil, wrongCount(e, 3, 3)
	}
	x, err := bd.bind(e.Args[0])
	if err != nil {
		return nil, err
	}
	return bd.choose(e, []pred{&notNode{&nullTest{x: x}}}, e.Args[1:])
}

// bindNullIf is CASE WHEN a = b THEN NULL ELSE a END.
func bindNullIf(bd *binder, e *Call) (node, error) {
	c, err := bd.compare("=", e.Args[0], e.Args[1], e.At)
	if err != nil {
		return nil, err
	}
	return bd.choose(e, []pred{c}, []Expr{&Literal{At: e.At, Kind: Null}, e.Args[0]})
}

func bindNaNVL(bd *binder, e *Call) (node, error) {
	c, err := bd.bind(&Call{At: e.At, Func: "isnan", Args: e.Args[:1]})
	if err != nil {
		return nil, err
	}
	p, _ := asPred(c) // isnan is boolean
	return bd.choose(e, []pred{p}, []Expr{e.Args[1], e.Args[0]})
}

func bindIsNull(not bool) func(bd *binder, e *Call) (node, error) {
	return func(bd *binder, e *Call) (node, error) {
		if len(e.Args) != 1 {
			return nil, wrongCount(e, 1, 1)
		}
		return bd.is(&Is{At: e.At, X: e.Args[0], Not: not, What: "NULL"})
	}
}
