package expr

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// inNode is x IN (constants): a set of the left type's own values. Constants
// that are no value of that type are left out, as no value equals them.
type inNode struct {
	boolTyped
	x       node
	hasNull bool // the list has a NULL: not found is NULL, then
	ints    map[int64]bool
	decs    map[decimal128.Num]bool
	floats  map[float64]bool // without NaN
	nan     bool
	strs    map[string]bool
	forms   [][]byte // ascending, distinct
}

// in binds x IN (list): a set where the list is of constants, else a chain of
// comparisons. One double in the list makes all of them double, as in Spark.
func (bd *binder) in(e *In) (node, error) {
	x, err := bd.bind(e.X)
	if err != nil {
		return nil, err
	}
	n := &inNode{x: x, ints: map[int64]bool{}, decs: map[decimal128.Num]bool{}, floats: map[float64]bool{}, strs: map[string]bool{}}
	chain := &logicNode{or: true}
	simple, exact, double := true, false, isFloat(x.typ())
	for _, item := range e.List {
		p, err := bd.compare("=", e.X, item, item.Pos())
		if err != nil {
			return nil, err
		}
		chain.args = append(chain.args, p)
		c, ok := p.(*compareNode)
		switch {
		case ok && c.limit != nil && c.l.typ() == x.typ():
			n.add(c.limit, x.typ())
			exact = exact || !isFloat(c.r.typ())
			double = double || isFloat(c.r.typ())
		case ok:
			simple = false
			double = double || c.class == classDouble
			exact = exact || c.class != classDouble
		default:
			n.hasNull = true // compared with NULL
		}
	}
	if double && exact {
		for _, a := range chain.args {
			if c, ok := a.(*compareNode); ok && c.class != classDouble {
				simple = false
				c.class, c.limit = classDouble, nil
			}
		}
	}
	var p pred = n
	switch {
	case x.typ().ID() == arrow.NULL:
		p = &nullPred{}
	case !simple || isConstant(x):
		p = chain
	}
	slices.SortFunc(n.forms, slices.Compare)
	n.forms = slices.CompactFunc(n.forms, slices.Equal)
	if e.Not {
		p = &notNode{p}
	}
	return p, nil
}

func isConstant(n node) bool {
	_, ok := n.(*constant)
	return ok
}

func (n *inNode) add(th *threshold, t arrow.DataType) {
	if th.outside != 0 || th.between {
		return
	}
	n.forms = append(n.forms, th.form)
	switch t.ID() {
	case arrow.DECIMAL128:
		n.decs[th.dec] = true
	case arrow.FLOAT32, arrow.FLOAT64:
		if math.IsNaN(th.f) {
			n.nan = true
		} else {
			n.floats[th.f] = true // -0.0 and 0.0 are one key
		}
	case arrow.STRING, arrow.BINARY:
		n.strs[th.s] = true
	default:
		n.ints[th.i] = true
	}
}

func (n *inNode) eval(b *batch) (arrow.Array, error) { return evalPred(n, b) }

func (n *inNode) test(b *batch) ([]uint8, error) {
	arr, err := n.x.eval(b)
	if err != nil {
		return nil, err
	}
	defer arr.Release()
	absent := isFalse
	if n.hasNull {
		absent = isNull
	}
	out, has := make([]uint8, b.rows), n.lookup(arr)
	for i := range out {
		switch {
		case arr.IsNull(i):
			out[i] = isNull
		case has(i):
			out[i] = isTrue
		default:
			out[i] = absent
		}
	}
	return out, nil
}

func (n *inNode) lookup(arr arrow.Array) func(i int) bool {
	switch a := arr.(type) {
	case *array.Decimal128:
		return func(i int) bool { return n.decs[a.Value(i)] }
	case *array.String:
		return func(i int) bool { return n.strs[a.Value(i)] }
	case *array.Binary:
		return func(i int) bool { return n.strs[string(a.Value(i))] }
	case *array.Float32, *array.Float64:
		at := float64At(arr)
		return func(i int) bool {
			v := at(i)
			return n.floats[v] || n.nan && v != v
		}
	}
	at := int64At(arr)
	return func(i int) bool { return n.ints[at(i)] }
}

func (n *inNode) possible(bounds boundsFunc) uint8 {
	c, ok := n.x.(*columnNode)
	if !ok || len(c.path) > 0 {
		return canAny
	}
	b := bounds(c.name)
	null, value := presence(b)
	s := set(null, canNull)
	if value {
		s |= canFalse
		if n.hasNull {
			s |= canNull
		}
		if !b.Excludes(n.forms) {
			s |= canTrue
			if b.Exact && b.Min != nil && slices.Equal(b.Min, b.Max) {
				s = set(null, canNull) | canTrue // the one value is in the list
			}
		}
	}
	return s
}
