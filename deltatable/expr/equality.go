package expr

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/internal/ordered"
)

// BindEquality binds both sides of an = or <=>, converted to the type in which
// SQL compares them, so that two values are equal exactly if their forms (see
// package ordered) are; NULL is left to the caller. ok is false where there is
// no such type: a side is NULL itself, or the types are equal only by their
// exact values (decimals that share none, nested types). Types that may not be
// compared are a [*BindError].
//
// An = whose left side is a column is compared in that column's type where this
// loses nothing, so that the column's statistics serve: an integer or decimal of
// the right side that this type cannot hold becomes NULL, and as such equals
// nothing.
func BindEquality(eq *Infix, sch *arrow.Schema, o *Options) (l, r *Bound, ok bool, err error) {
	bd := newBinder(sch, o)
	p, err := bd.compare(eq.Op, eq.L, eq.R, eq.At)
	if err != nil {
		return nil, nil, false, err
	}
	if _, is := p.(*compareNode); !is {
		return nil, nil, false, nil
	}
	sides := [2]*binder{newBinder(sch, o), newBinder(sch, o)}
	exprs := [2]Expr{eq.L, eq.R}
	var nodes [2]node
	for i, e := range exprs {
		if nodes[i], err = sides[i].bind(e); err != nil {
			return nil, nil, false, err
		}
	}
	if t := nodes[0].typ(); eq.Op == "=" && isColumn(nodes[0]) && exactly(nodes[1].typ(), t) {
		x, err := sides[1].cast(nodes[1], t, eq.R, true)
		if err != nil {
			return nil, nil, false, err
		}
		return sides[0].bound(eq.L, nodes[0]), sides[1].bound(eq.R, x), true, nil
	}
	to := wider(nodes[0].typ(), nodes[1].typ(), true)
	if to == nil || !ordered.Supported(to) {
		return nil, nil, false, nil
	}
	var out [2]*Bound
	for i := range nodes {
		n, err := sides[i].cast(nodes[i], to, exprs[i], false)
		if err != nil {
			return nil, nil, false, err
		}
		out[i] = sides[i].bound(exprs[i], n)
	}
	return out[0], out[1], true, nil
}

func isColumn(n node) bool {
	c, ok := n.(*columnNode)
	return ok && len(c.path) == 0
}

// exactly tells whether a number of type from either has an equal in type to, or
// is too great for it: no digits are lost.
func exactly(from, to arrow.DataType) bool {
	if isInteger(to) {
		return isInteger(from)
	}
	_, scale := digitsOf(from)
	_, most := digitsOf(to)
	return to.ID() == arrow.DECIMAL128 && isNumber(from) && !isFloat(from) && scale <= most
}
