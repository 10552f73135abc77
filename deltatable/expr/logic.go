package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/internal/ordered"
)

// Truth values, so chosen that AND is the minimum, OR the maximum, and NOT x
// is 2-x.
const (
	isFalse uint8 = iota
	isNull
	isTrue
)

// Sets of truth values: what a condition can be over the rows of a file.
const (
	canFalse uint8 = 1 << isFalse
	canNull  uint8 = 1 << isNull
	canTrue  uint8 = 1 << isTrue
	canAny         = canFalse | canNull | canTrue
)

type boundsFunc = func(column string) ordered.Bounds

// pred is a condition.
type pred interface {
	node
	// test gives a truth value per row.
	test(b *batch) ([]uint8, error)
	// possible is a superset of the truth values that the rows of a file with
	// these statistics have. Being a superset is all that soundness needs:
	// NOT, AND and OR of supersets are supersets.
	possible(bounds boundsFunc) uint8
}

func isBool(n node) bool {
	id := n.typ().ID()
	return id == arrow.BOOL || id == arrow.NULL
}

// asPred sees a boolean value as a condition.
func asPred(n node) (pred, bool) {
	if p, ok := n.(pred); ok {
		return p, true
	}
	if n.typ().ID() == arrow.NULL {
		return &nullPred{}, true
	}
	if c, ok := n.(*columnNode); ok && c.dt.ID() == arrow.BOOL {
		t := &constant{dt: c.dt, i: 1}
		return &compareNode{outcomes: comparisons["="], l: c, r: t, limit: newThreshold(c.dt, t)}, true
	}
	if n.typ().ID() == arrow.BOOL {
		return &valuePred{n}, true
	}
	return nil, false
}

// boolArray makes an array of truth values; the value of a NULL is false.
func boolArray(vs []uint8) *array.Boolean {
	values := make([]byte, bitutil.BytesForBits(int64(len(vs))))
	valid := make([]byte, len(values))
	nulls := 0
	for i, v := range vs {
		switch v {
		case isTrue:
			bitutil.SetBit(values, i)
			bitutil.SetBit(valid, i)
		case isFalse:
			bitutil.SetBit(valid, i)
		default:
			nulls++
		}
	}
	return array.NewBoolean(len(vs), memory.NewBufferBytes(values), memory.NewBufferBytes(valid), nulls)
}

func evalPred(p pred, b *batch) (arrow.Array, error) {
	out, err := p.test(b)
	if err != nil {
		return nil, err
	}
	return boolArray(out), nil
}

type boolTyped struct{}

func (boolTyped) typ() arrow.DataType { return arrow.FixedWidthTypes.Boolean }

// logicNode is AND or OR.
type logicNode struct {
	boolTyped
	or   bool
	args []pred
	// guard: an operand after the first may fail, and must not be asked for rows
	// that the operands before it decide.
	guard bool
}

func (l *logicNode) eval(b *batch) (arrow.Array, error) { return evalPred(l, b) }

func (l *logicNode) test(b *batch) ([]uint8, error) {
	out, err := l.args[0].test(b)
	if err != nil {
		return nil, err
	}
	decided := isFalse
	if l.or {
		decided = isTrue
	}
	for _, a := range l.args[1:] {
		rows := b
		if l.guard {
			var some bool
			if rows, some = b.only(func(i int) bool { return out[i] != decided }); !some {
				break
			}
		}
		next, err := a.test(rows)
		if err != nil {
			return nil, err
		}
		if l.or {
			for i, v := range next {
				out[i] = max(out[i], v)
			}
		} else {
			for i, v := range next {
				out[i] = min(out[i], v)
			}
		}
	}
	return out, nil
}

func (l *logicNode) possible(bounds boundsFunc) uint8 {
	set := l.args[0].possible(bounds)
	for _, a := range l.args[1:] {
		next, both := a.possible(bounds), uint8(0)
		for x := isFalse; x <= isTrue; x++ {
			for y := isFalse; y <= isTrue; y++ {
				if set>>x&1 == 0 || next>>y&1 == 0 {
					continue
				}
				if l.or {
					both |= 1 << max(x, y)
				} else {
					both |= 1 << min(x, y)
				}
			}
		}
		set = both
	}
	return set
}

// notNode is NOT x.
type notNode struct{ pred }

func (n *notNode) eval(b *batch) (arrow.Array, error) { return evalPred(n, b) }

func (n *notNode) test(b *batch) ([]uint8, error) {
	out, err := n.pred.test(b)
	for i, v := range out {
		out[i] = isTrue - v
	}
	return out, err
}

func (n *notNode) possible(bounds boundsFunc) uint8 {
	s := n.pred.possible(bounds)
	return s&canNull | s>>2&canFalse | s<<2&canTrue
}

// nullPred is NULL whatever the row.
type nullPred struct{ boolTyped }

func (n *nullPred) eval(b *batch) (arrow.Array, error) { return evalPred(n, b) }

func (n *nullPred) test(b *batch) ([]uint8, error) { return filled(b.rows, isNull), nil }

func (n *nullPred) possible(boundsFunc) uint8 { return canNull }

func filled(n int, v uint8) []uint8 {
	out := make([]uint8, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// valuePred is a boolean value that is no column: a constant, a struct field.
type valuePred struct{ node }

func (v *valuePred) test(b *batch) ([]uint8, error) {
	arr, err := v.eval(b)
	if err != nil {
		return nil, err
	}
	defer arr.Release()
	out := make([]uint8, arr.Len())
	a := arr.(*array.Boolean)
	for i := range out {
		switch {
		case a.IsNull(i):
			out[i] = isNull
		case a.Value(i):
			out[i] = isTrue
		}
	}
	return out, nil
}

func (v *valuePred) possible(boundsFunc) uint8 {
	if c, ok := v.node.(*constant); ok {
		if c.null {
			return canNull
		}
		return canFalse << (2 * uint8(c.i))
	}
	return canAny
}

// nullTest is x IS NULL.
type nullTest struct {
	boolTyped
	x node
}

func (n *nullTest) eval(b *batch) (arrow.Array, error) { return evalPred(n, b) }

func (n *nullTest) test(b *batch) ([]uint8, error) {
	out := make([]uint8, b.rows)
	if p, ok := n.x.(pred); ok {
		vs, err := p.test(b)
		for i, v := range vs {
			if v == isNull {
				out[i] = isTrue
			}
		}
		return out, err
	}
	arr, err := n.x.eval(b)
	if err != nil {
		return nil, err
	}
	defer arr.Release()
	if arr.DataType().ID() == arrow.NULL {
		return filled(b.rows, isTrue), nil
	}
	for i := range out {
		if arr.IsNull(i) {
			out[i] = isTrue
		}
	}
	return out, nil
}

func (n *nullTest) possible(bounds boundsFunc) uint8 {
	if p, ok := n.x.(pred); ok {
		return outcomesOf(p.possible(bounds), isNull)
	}
	switch x := n.x.(type) {
	case *constant:
		if x.null {
			return canTrue
		}
		return canFalse
	case *columnNode:
		if len(x.path) == 0 {
			null, value := presence(bounds(x.name))
			return set(null, canTrue) | set(value, canFalse)
		}
	}
	return canTrue | canFalse
}

func set(cond bool, s uint8) uint8 {
	if cond {
		return s
	}
	return 0
}

// presence tells whether a column with these statistics may have a NULL, and
// whether it may have a value. Zero Bounds are unknown, as ordered says.
func presence(b ordered.Bounds) (null, value bool) {
	return b.NullCount != 0 || b.Rows == 0, !b.AllNull()
}

// outcomesOf is what "the condition is v" can be.
func outcomesOf(s, v uint8) uint8 {
	return set(s>>v&1 != 0, canTrue) | set(s&^(1<<v) != 0, canFalse)
}

// outcomeTest is x IS TRUE, FALSE or UNKNOWN.
type outcomeTest struct {
	pred
	want uint8
}

func (o *outcomeTest) eval(b *batch) (arrow.Array, error) { return evalPred(o, b) }

func (o *outcomeTest) test(b *batch) ([]uint8, error) {
	out, err := o.pred.test(b)
	for i, v := range out {
		out[i] = isFalse
		if v == o.want {
			out[i] = isTrue
		}
	}
	return out, err
}

func (o *outcomeTest) possible(bounds boundsFunc) uint8 {
	return outcomesOf(o.pred.possible(bounds), o.want)
}
