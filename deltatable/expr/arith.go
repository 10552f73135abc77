package expr

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const divisionByZero = "division by zero"

// arithmetic binds + - * / % div by the rules of Spark under ANSI.
func (bd *binder) arithmetic(op string, src Expr, le, re Expr, try bool) (node, error) {
	l, err := bd.bind(le)
	if err != nil {
		return nil, err
	}
	r, err := bd.bind(re)
	if err != nil {
		return nil, err
	}
	if op == "+" || op == "-" {
		if n, err := bd.dateShift(op, src, [2]Expr{le, re}, [2]node{l, r}); n != nil || err != nil {
			return n, err
		}
	}
	if l, r, err = bd.numbers(l, r, le, re); err != nil {
		return nil, err
	}
	lt, rt := l.typ(), r.typ()
	if !isNumber(lt) || !isNumber(rt) {
		msg := fmt.Sprintf("%s %s %s has no meaning", typeName(lt), op, typeName(rt))
		return nil, &BindError{At: src.Pos(), Text: src.String(), Msg: msg}
	}
	n := &funcNode{src: src, try: try}
	switch {
	case isFloat(lt) || isFloat(rt):
		n.dt = typeDouble
		if arrow.TypeEqual(lt, rt) {
			n.dt = lt
		}
		if op == "DIV" {
			return nil, &BindError{At: src.Pos(), Text: src.String(), Msg: "div takes integers and decimals"}
		}
		if op == "/" {
			n.dt = typeDouble
		}
		err = bd.alike(&l, &r, n.dt, le, re)
		n.fresh = always(floatOp(op, n.dt.ID() == arrow.FLOAT32))
	case isInteger(lt) && isInteger(rt) && op == "/":
		n.dt = typeDouble
		err = bd.alike(&l, &r, n.dt, le, re)
		n.fresh = always(floatOp(op, false))
	case isInteger(lt) && isInteger(rt):
		n.dt = wider(lt, rt, true)
		if op == "DIV" {
			n.dt = typeBigint
		}
		err = bd.alike(&l, &r, n.dt, le, re)
		n.fresh = always(integerOp(op, n.dt))
		n.quick = func(args []arrow.Array) arrow.Array { return quickIntegers(op, args[0], args[1], n.dt) }
	default:
		n.dt = decimalResult(op, literalDecimal(l), literalDecimal(r))
		n.fresh = always(decimalOp(op, lt, rt, n.dt))
	}
	if err != nil {
		return nil, err
	}
	n.args = []node{l, r}
	return bd.function(n, true), nil
}

// numbers reads text beside a number as a number, and NULL as the other's type.
func (bd *binder) numbers(l, r node, le, re Expr) (node, node, error) {
	to := func(n, other node) arrow.DataType {
		switch {
		case n.typ().ID() == arrow.NULL && isNumber(other.typ()):
			return other.typ()
		case n.typ().ID() == arrow.NULL:
			return typeDouble
		case n.typ().ID() == arrow.STRING && isInteger(other.typ()):
			return typeBigint
		case n.typ().ID() == arrow.STRING && (isNumber(other.typ()) || other.typ().ID() == arrow.NULL):
			return typeDouble
		}
		return n.typ()
	}
	lt, rt := to(l, r), to(r, l)
	l, err := bd.cast(l, lt, le, false)
	if err != nil {
		return nil, nil, err
	}
	r, err = bd.cast(r, rt, re, false)
	return l, r, err
}

func (bd *binder) alike(l, r *node, dt arrow.DataType, le, re Expr) (err error) {
	if *l, err = bd.cast(*l, dt, le, false); err != nil {
		return err
	}
	*r, err = bd.cast(*r, dt, re, false)
	return err
}

// literalDecimal is the decimal type of an operand: of an integer literal just
// the digits that it has.
func literalDecimal(n node) *arrow.Decimal128Type {
	p, s := digitsOf(n.typ())
	if c, ok := n.(*constant); ok && isInteger(c.dt) && !c.null {
		if l, is := c.src.(*Literal); is && l.Kind >= Integer {
			p = int32(len(new(big.Int).Abs(c.num).String()))
		}
	}
	return &arrow.Decimal128Type{Precision: p, Scale: s}
}

// quickIntegers computes + and - of integers without NULLs a column at a time;
// nil where there is a NULL or something overflows, and the rows have to be gone
// through one by one.
func quickIntegers(op string, l, r arrow.Array, dt arrow.DataType) arrow.Array {
	x, okX := l.(*array.Int64)
	y, okY := r.(*array.Int64)
	if !okX || !okY || op != "+" && op != "-" || l.NullN() > 0 || r.NullN() > 0 {
		return nil
	}
	out := make([]int64, l.Len())
	xs, ys := x.Int64Values(), y.Int64Values()
	for i, a := range xs {
		b := ys[i]
		if op == "-" {
			out[i] = a - b
			if (out[i] < a) != (b > 0) {
				return nil
			}
			continue
		}
		out[i] = a + b
		if (out[i] > a) != (b > 0) {
			return nil
		}
	}
	return array.NewInt64Data(array.NewData(dt, len(out), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(out))}, nil, 0, 0))
}

// decimalResult is the type of an operation on decimals, by Spark's rules.
func decimalResult(op string, a, b *arrow.Decimal128Type) arrow.DataType {
	whole := a.Precision - a.Scale
	switch op {
	case "+", "-":
		s := max(a.Scale, b.Scale)
		return adjusted(max(whole, b.Precision-b.Scale)+s+1, s)
	case "*":
		return adjusted(a.Precision+b.Precision+1, a.Scale+b.Scale)
	case "/":
		s := max(6, a.Scale+b.Precision+1)
		return adjusted(whole+b.Scale+s, s)
	case "%":
		s := max(a.Scale, b.Scale)
		return adjusted(min(whole, b.Precision-b.Scale)+s, s)
	}
	return typeBigint // DIV
}

// adjusted gives up fraction digits beyond the sixth for whole ones.
func adjusted(p, s int32) arrow.DataType {
	if p > maxPrecision {
		whole := p - s
		s = max(maxPrecision-whole, min(s, 6))
		p = maxPrecision
	}
	return &arrow.Decimal128Type{Precision: p, Scale: s}
}

func bigOf(c cell, t arrow.DataType) *big.Int {
	if isInteger(t) {
		return big.NewInt(c.i)
	}
	return c.d.BigInt()
}

func decimalOp(op string, lt, rt, dt arrow.DataType) rowFunc {
	_, ls := digitsOf(lt)
	_, rs := digitsOf(rt)
	common := max(ls, rs)
	out, _ := dt.(*arrow.Decimal128Type)
	return func(a []cell) (cell, string) {
		x, y := bigOf(a[0], lt), bigOf(a[1], rt)
		if (op == "/" || op == "%" || op == "DIV") && y.Sign() == 0 {
			return null, divisionByZero
		}
		if op == "*" {
			return fitDecimal(x.Mul(x, y), ls+rs, out)
		}
		x, y = rescale(x, int(ls), int(common)), rescale(y, int(rs), int(common))
		switch op {
		case "+":
			return fitDecimal(x.Add(x, y), common, out)
		case "-":
			return fitDecimal(x.Sub(x, y), common, out)
		case "%":
			return fitDecimal(x.Rem(x, y), common, out)
		case "DIV":
			x.Quo(x, y)
			if !x.IsInt64() {
				return null, tooBig(x, dt)
			}
			return cell{i: x.Int64()}, ""
		}
		q := roundQuo(x.Mul(x, pow10(int(out.Scale))), y)
		return fitDecimal(q, out.Scale, out)
	}
}

func floatOp(op string, single bool) rowFunc {
	return func(a []cell) (cell, string) {
		x, y := a[0].f, a[1].f
		var f float64
		switch op {
		case "+":
			f = x + y
		case "-":
			f = x - y
		case "*":
			f = x * y
		case "/", "%":
			if y == 0 {
				return null, divisionByZero
			}
			if f = x / y; op == "%" {
				f = math.Mod(x, y)
			}
		}
		if single {
			f = float64(float32(f))
		}
		return cell{f: f}, ""
	}
}

func integerOp(op string, dt arrow.DataType) rowFunc {
	width := bitsOf(dt)
	return func(a []cell) (cell, string) {
		x, y := a[0].i, a[1].i
		var v int64
		ok := true
		switch op {
		case "+":
			v = x + y
			ok = (v > x) == (y > 0)
		case "-":
			v = x - y
			ok = (v < x) == (y > 0)
		case "*":
			v, ok = multiply(x, y)
		case "%", "DIV":
			if y == 0 {
				return null, divisionByZero
			}
			if op == "%" {
				if y == -1 {
					return cell{}, ""
				}
				return cell{i: x % y}, ""
			}
			if ok = x != math.MinInt64 || y != -1; ok {
				v = x / y
			}
		}
		if !ok || !fitsInt(v, width) {
			return null, fmt.Sprintf("%s: %d %s %d does not fit %s", overflow, x, op, y, typeName(dt))
		}
		return cell{i: v}, ""
	}
}

func multiply(x, y int64) (int64, bool) {
	neg := (x < 0) != (y < 0)
	abs := func(v int64) uint64 {
		if v < 0 {
			return -uint64(v)
		}
		return uint64(v)
	}
	hi, lo := bits.Mul64(abs(x), abs(y))
	if neg {
		return -int64(lo), hi == 0 && lo <= 1<<63
	}
	return int64(lo), hi == 0 && lo < 1<<63
}

// prefixOp binds -x, +x, ~x.
func (bd *binder) prefixOp(e *Prefix) (node, error) {
	x, err := bd.bind(e.X)
	if err != nil {
		return nil, err
	}
	t := x.typ()
	if t.ID() == arrow.STRING || t.ID() == arrow.NULL {
		if x, err = bd.cast(x, typeDouble, e.X, false); err != nil {
			return nil, err
		}
		t = typeDouble
	}
	if !isNumber(t) || e.Op == "~" && !isInteger(t) {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: fmt.Sprintf("%s before %s has no meaning", e.Op, typeName(t))}
	}
	switch e.Op {
	case "+":
		return x, nil
	case "~":
		return bd.function(&funcNode{dt: t, args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) { return cell{i: ^a[0].i}, "" })}, false), nil
	}
	return bd.function(&funcNode{dt: t, args: []node{x}, src: e, fresh: always(negate(t))}, true), nil
}

func negate(t arrow.DataType) rowFunc {
	return func(a []cell) (cell, string) {
		c := a[0]
		if isInteger(t) && c.i == -1<<(bitsOf(t)-1) {
			return null, fmt.Sprintf("%s: -(%d) does not fit %s", overflow, c.i, typeName(t))
		}
		return cell{i: -c.i, f: -c.f, d: decimal128.FromBigInt(new(big.Int).Neg(c.d.BigInt()))}, ""
	}
}

// shiftOf binds the functions that are shifts.
func shiftOf(op string) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, _ []node) (node, error) {
		return bd.bitOp(&Infix{At: e.At, Op: op, L: e.Args[0], R: e.Args[1]})
	}
}

// bitOp binds & | ^ << >> >>>.
func (bd *binder) bitOp(e *Infix) (node, error) {
	l, err := bd.bind(e.L)
	if err != nil {
		return nil, err
	}
	r, err := bd.bind(e.R)
	if err != nil {
		return nil, err
	}
	lt, rt := l.typ(), r.typ()
	if !isInteger(lt) || !isInteger(rt) {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: fmt.Sprintf("%s %s %s has no meaning", typeName(lt), e.Op, typeName(rt))}
	}
	dt := wider(lt, rt, true)
	shift := e.Op != "&" && e.Op != "|" && e.Op != "^"
	if shift {
		dt = typeInt
		if bitsOf(lt) == 64 {
			dt = typeBigint
		}
		if l, err = bd.cast(l, dt, e.L, false); err == nil && bitsOf(rt) > 32 {
			r, err = bd.cast(r, typeInt, e.R, false)
		}
	} else {
		err = bd.alike(&l, &r, dt, e.L, e.R)
	}
	if err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: dt, args: []node{l, r}, src: e, fresh: always(bitFunc(e.Op, bitsOf(dt)))}, false), nil
}

func bitFunc(op string, width int) rowFunc {
	return func(a []cell) (cell, string) {
		x, y := a[0].i, a[1].i
		by := uint(y) & uint(width-1)
		switch op {
		case "&":
			return cell{i: x & y}, ""
		case "|":
			return cell{i: x | y}, ""
		case "^":
			return cell{i: x ^ y}, ""
		case "<<":
			if width == 32 {
				return cell{i: int64(int32(x) << by)}, ""
			}
			return cell{i: x << by}, ""
		case ">>":
			return cell{i: x >> by}, ""
		}
		if width == 32 {
			return cell{i: int64(int32(uint32(x) >> by))}, ""
		}
		return cell{i: int64(uint64(x) >> by)}, ""
	}
}
