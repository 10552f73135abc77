package expr

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
)

// comparisons gives, for each operator, the truth value where the left side is
// less, equal, greater. <=> is = with NULL as a value.
var comparisons = map[string][3]uint8{
	"=":   {isFalse, isTrue, isFalse},
	"<=>": {isFalse, isTrue, isFalse},
	"<>":  {isTrue, isFalse, isTrue},
	"<":   {isTrue, isFalse, isFalse},
	"<=":  {isTrue, isTrue, isFalse},
	">":   {isFalse, isFalse, isTrue},
	">=":  {isFalse, isTrue, isTrue},
}

// class is how two types are compared.
type class uint8

const (
	classNone   class = iota
	classInt          // int64: integers, booleans, dates, timestamps
	classExact        // decimals, or a decimal and an integer
	classDouble       // at least one float or double
	classBytes
	classNested // structs and arrays, part by part
)

// compareNode compares two values. limit is set where the right side is a
// constant that can be held against the left type's own values.
type compareNode struct {
	boolTyped
	outcomes [3]uint8
	nullSafe bool
	class    class
	l, r     node
	limit    *threshold
}

// compare binds l op r.
func (bd *binder) compare(op string, le, re Expr, at Position) (pred, error) {
	l, r, err := bd.operands(le, re)
	if err != nil {
		return nil, err
	}
	void := l.typ().ID() == arrow.NULL || r.typ().ID() == arrow.NULL
	switch {
	case op == "<=>" && l.typ().ID() == arrow.NULL:
		return &nullTest{x: r}, nil
	case op == "<=>" && void:
		return &nullTest{x: l}, nil
	case void:
		return &nullPred{}, nil
	}
	l, r, err = bd.align(l, r, le, re)
	if err != nil {
		return nil, err
	}
	n := &compareNode{outcomes: comparisons[op], nullSafe: op == "<=>", l: l, r: r}
	if n.class = classOf(l.typ(), r.typ()); n.class == classNone {
		if w := wider(l.typ(), r.typ(), true); w != nil && nested(w) && cellOrder(w) != nil {
			n.class = classNested
			if err = bd.alike(&n.l, &n.r, w, le, re); err != nil {
				return nil, err
			}
			return n, nil
		}
		msg := fmt.Sprintf("%s and %s cannot be compared", typeName(l.typ()), typeName(r.typ()))
		return nil, &BindError{At: at, Text: text(&Infix{Op: op, L: le, R: re}), Msg: msg}
	}
	switch { // a NULL with a type, such as CAST(NULL AS INT)
	case isNullConstant(n.l) && n.nullSafe:
		return &nullTest{x: n.r}, nil
	case isNullConstant(n.r) && n.nullSafe:
		return &nullTest{x: n.l}, nil
	case isNullConstant(n.l) || isNullConstant(n.r):
		return &nullPred{}, nil
	}
	if _, ok := n.l.(*constant); ok { // the constant to the right
		n.l, n.r = n.r, n.l
		n.outcomes[0], n.outcomes[2] = n.outcomes[2], n.outcomes[0]
	}
	if c, ok := n.r.(*constant); ok {
		n.limit = newThreshold(n.l.typ(), c)
	}
	return n, nil
}

func isNullConstant(n node) bool {
	c, ok := n.(*constant)
	return ok && c.null
}

// operands binds both sides; a string literal beside another type is read as
// that type.
func (bd *binder) operands(le, re Expr) (l, r node, err error) {
	if l, err = bd.bind(le); err != nil {
		return nil, nil, err
	}
	if r, err = bd.bind(re); err != nil {
		return nil, nil, err
	}
	if l, err = bd.read(l, r.typ()); err != nil {
		return nil, nil, err
	}
	if r, err = bd.read(r, l.typ()); err != nil {
		return nil, nil, err
	}
	text := func(n node) bool { return n.typ().ID() == arrow.STRING }
	atomic := func(n node) bool { return !text(n) && !nested(n.typ()) && n.typ().ID() != arrow.NULL }
	switch { // text that is no literal is cast, row by row
	case text(l) && atomic(r):
		l, err = bd.cast(l, textPeer(r.typ()), le, false)
	case text(r) && atomic(l):
		r, err = bd.cast(r, textPeer(l.typ()), re, false)
	}
	return l, r, err
}

// read turns a string literal into a constant of type t.
func (bd *binder) read(n node, t arrow.DataType) (node, error) {
	c, ok := n.(*constant)
	if !ok || c.null || nested(t) || c.dt.ID() != arrow.STRING || t.ID() == arrow.STRING || t.ID() == arrow.NULL {
		return n, nil
	}
	out := &constant{src: c.src}
	if msg := out.parse(c.s, t, bd); msg != "" {
		return nil, &BindError{At: c.src.Pos(), Text: c.src.String(), Msg: msg}
	}
	return out, nil
}

// align brings dates and the two timestamps to one type.
func (bd *binder) align(l, r node, le, re Expr) (node, node, error) {
	a, b := timeRank(l.typ()), timeRank(r.typ())
	if a == 0 || b == 0 || a == b {
		return l, r, nil
	}
	widen := func(n node, e Expr, to int) (node, error) {
		z := &zoneNode{x: n, to: tsNTZ}
		if to == 3 {
			if z.to, z.zone = tsUTC, bd.zone; z.zone == nil {
				msg := fmt.Sprintf("%s beside a timestamp needs a time zone, and none is given", typeName(n.typ()))
				return nil, &BindError{At: e.Pos(), Text: e.String(), Msg: msg}
			}
		}
		if c, ok := n.(*constant); ok {
			return &constant{dt: z.to, null: c.null, i: z.micros(c.i), src: c.src}, nil
		}
		return z, nil
	}
	var err error
	if a < b {
		l, err = widen(l, le, b)
	} else {
		r, err = widen(r, re, a)
	}
	return l, r, err
}

func isInteger(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		return true
	}
	return false
}

func isFloat(t arrow.DataType) bool { return t.ID() == arrow.FLOAT32 || t.ID() == arrow.FLOAT64 }

func classOf(l, r arrow.DataType) class {
	exact := func(t arrow.DataType) bool { return isInteger(t) || t.ID() == arrow.DECIMAL128 }
	number := func(t arrow.DataType) bool { return exact(t) || isFloat(t) }
	switch {
	case isInteger(l) && isInteger(r):
		return classInt
	case exact(l) && exact(r):
		return classExact
	case number(l) && number(r):
		return classDouble
	case l.ID() != r.ID():
		return classNone
	}
	switch l.ID() {
	case arrow.BOOL, arrow.DATE32, arrow.TIMESTAMP:
		return classInt
	case arrow.STRING, arrow.BINARY:
		return classBytes
	}
	return classNone
}

func (n *compareNode) eval(b *batch) (arrow.Array, error) { return evalPred(n, b) }

func (n *compareNode) test(b *batch) ([]uint8, error) {
	l, err := n.l.eval(b)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	out := make([]uint8, b.rows)
	if n.limit != nil {
		n.limit.compare(l, n.outcomes, out)
		n.nulls(l, nil, out)
		return out, nil
	}
	r, err := n.r.eval(b)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	order := orderOf(n.class, l, r)
	for i := range out {
		if l.IsValid(i) && r.IsValid(i) {
			out[i] = n.outcomes[1+order(i)]
		}
	}
	n.nulls(l, r, out)
	return out, nil
}

// nulls sets the outcome of the rows in which a side is NULL. r is nil for a
// constant, which is not NULL.
func (n *compareNode) nulls(l, r arrow.Array, out []uint8) {
	if l.NullN() == 0 && (r == nil || r.NullN() == 0) {
		return
	}
	for i := range out {
		ln, rn := l.IsNull(i), r != nil && r.IsNull(i)
		switch {
		case !ln && !rn:
		case !n.nullSafe:
			out[i] = isNull
		case ln && rn:
			out[i] = isTrue
		default:
			out[i] = isFalse
		}
	}
}

func (n *compareNode) possible(bounds boundsFunc) uint8 {
	c, ok := n.l.(*columnNode)
	if !ok || len(c.path) > 0 || n.limit == nil {
		return canAny
	}
	b := bounds(c.name)
	null, value := presence(b)
	var s uint8
	if null {
		s = canNull
		if n.nullSafe {
			s = canFalse
		}
	}
	if value {
		less, equal, greater := n.limit.possible(b)
		s |= set(less, 1<<n.outcomes[0]) | set(equal, 1<<n.outcomes[1]) | set(greater, 1<<n.outcomes[2])
	}
	return s
}

// orderOf compares rows of two arrays, both not NULL.
func orderOf(c class, l, r arrow.Array) func(i int) int {
	switch c {
	case classInt:
		a, b := int64At(l), int64At(r)
		return func(i int) int { return cmp.Compare(a(i), b(i)) }
	case classExact:
		a, b := exactAt(l), exactAt(r)
		return func(i int) int { return compareExact(a(i), b(i)) }
	case classDouble:
		a, b := float64At(l), float64At(r)
		return func(i int) int { return compareFloat(a(i), b(i)) }
	case classBytes:
		a, b := stringAt(l), stringAt(r)
		return func(i int) int { return strings.Compare(a(i), b(i)) }
	case classNested:
		order, a, b := cellOrder(l.DataType()), cellsOf(l), cellsOf(r)
		return func(i int) int { return order(a(i), b(i)) }
	case classNone:
	}
	panic("expr: internal error: comparison without a class")
}

type exact struct {
	num   decimal128.Num
	scale int32
}

func exactAt(arr arrow.Array) func(i int) exact {
	if d, ok := arr.(*array.Decimal128); ok {
		scale := d.DataType().(*arrow.Decimal128Type).Scale
		return func(i int) exact { return exact{d.Value(i), scale} }
	}
	at := int64At(arr)
	return func(i int) exact { return exact{decimal128.FromI64(at(i)), 0} }
}

// compareExact compares at the larger scale; 38 digits and a scale of 38 fit
// into 256 bits.
func compareExact(a, b exact) int {
	if a.scale == b.scale {
		return a.num.Cmp(b.num)
	}
	x, y := decimal256.FromDecimal128(a.num), decimal256.FromDecimal128(b.num)
	if d := b.scale - a.scale; d > 0 {
		x = x.IncreaseScaleBy(d)
	} else {
		y = y.IncreaseScaleBy(-d)
	}
	return x.Cmp(y)
}

// compareFloat orders as Spark does: NaN equals NaN and is the greatest, -0.0
// equals 0.0.
func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	case a == a: // b is NaN
		return -1
	case b == b:
		return 1
	}
	return 0
}

func float64At(arr arrow.Array) func(i int) float64 {
	switch a := arr.(type) {
	case *array.Float64:
		return a.Value
	case *array.Float32:
		return func(i int) float64 { return float64(a.Value(i)) }
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(i int) float64 {
			c := constant{num: a.Value(i).BigInt(), scale: scale}
			return c.float()
		}
	}
	at := int64At(arr)
	return func(i int) float64 { return float64(at(i)) }
}

func stringAt(arr arrow.Array) func(i int) string {
	switch a := arr.(type) {
	case *array.Binary:
		return func(i int) string { return string(a.Value(i)) }
	case *array.String:
		return a.Value
	}
	panic(fmt.Sprintf("expr: internal error: %s is no string", arr.DataType()))
}

// floorDiv is floor(n/d) and whether there is a rest; d > 0.
func floorDiv(n, d *big.Int) (*big.Int, bool) {
	q, m := new(big.Int).DivMod(n, d, new(big.Int)) // Euclidean: with d > 0 this is the floor
	return q, m.Sign() != 0
}
