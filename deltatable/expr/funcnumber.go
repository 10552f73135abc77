package expr

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// numberFunctions are the functions of numbers with fixed types.
var numberFunctions = map[string]*scalar{
	"sqrt":    {params: "d", result: typeDouble, total: true, f: float1(math.Sqrt)},
	"cbrt":    {params: "d", result: typeDouble, total: true, f: float1(math.Cbrt)},
	"exp":     {params: "d", result: typeDouble, total: true, f: float1(math.Exp)},
	"expm1":   {params: "d", result: typeDouble, total: true, f: float1(math.Expm1)},
	"sin":     {params: "d", result: typeDouble, total: true, f: float1(math.Sin)},
	"cos":     {params: "d", result: typeDouble, total: true, f: float1(math.Cos)},
	"tan":     {params: "d", result: typeDouble, total: true, f: float1(math.Tan)},
	"asin":    {params: "d", result: typeDouble, total: true, f: float1(math.Asin)},
	"acos":    {params: "d", result: typeDouble, total: true, f: float1(math.Acos)},
	"atan":    {params: "d", result: typeDouble, total: true, f: float1(math.Atan)},
	"degrees": {params: "d", result: typeDouble, total: true, f: float1(func(x float64) float64 { return x * (180 / math.Pi) })},
	"radians": {params: "d", result: typeDouble, total: true, f: float1(func(x float64) float64 { return x / 180 * math.Pi })},
	"pi":      {params: "", result: typeDouble, total: true, f: func([]cell) (cell, string) { return cell{f: math.Pi}, "" }},
	"e":       {params: "", result: typeDouble, total: true, f: func([]cell) (cell, string) { return cell{f: math.E}, "" }},
	"ln":      {params: "d", result: typeDouble, total: true, f: logarithm(math.Log, 0)},
	"log10":   {params: "d", result: typeDouble, total: true, f: logarithm(math.Log10, 0)},
	"log2":    {params: "d", result: typeDouble, total: true, f: logarithm(math.Log2, 0)},
	"log1p":   {params: "d", result: typeDouble, total: true, f: logarithm(math.Log1p, -1)},
	"log":     {params: "d?d", result: typeDouble, total: true, f: logBase},
	"power":   {params: "dd", result: typeDouble, total: true, f: float2(power)},
	"pow":     {params: "dd", result: typeDouble, total: true, f: float2(power)},
	"atan2":   {params: "dd", result: typeDouble, total: true, f: float2(math.Atan2)},
	"hypot":   {params: "dd", result: typeDouble, total: true, f: float2(math.Hypot)},
	"rint":    {params: "d", result: typeDouble, total: true, f: float1(math.RoundToEven)},
	"isnan":   {params: "d", result: typeBool, total: true, lax: true, f: func(a []cell) (cell, string) { return boolCell(!a[0].null && a[0].f != a[0].f), "" }},
	"sign":    {params: "d", result: typeDouble, total: true, f: float1(signum)},
	"signum":  {params: "d", result: typeDouble, total: true, f: float1(signum)},

	"bit_count": {params: "l", result: typeInt, total: true, f: func(a []cell) (cell, string) {
		n := 0
		for v := uint64(a[0].i); v != 0; v &= v - 1 {
			n++
		}
		return cell{i: int64(n)}, ""
	}},
}

func float1(f func(float64) float64) rowFunc {
	return func(a []cell) (cell, string) { return cell{f: f(a[0].f)}, "" }
}

func float2(f func(x, y float64) float64) rowFunc {
	return func(a []cell) (cell, string) { return cell{f: f(a[0].f, a[1].f)}, "" }
}

// logarithm is NULL at and below its limit, as in Spark.
func logarithm(f func(float64) float64, limit float64) rowFunc {
	return func(a []cell) (cell, string) {
		if a[0].f <= limit {
			return null, ""
		}
		return cell{f: f(a[0].f)}, ""
	}
}

func logBase(a []cell) (cell, string) {
	if len(a) == 1 {
		return logarithm(math.Log, 0)(a)
	}
	if a[0].f <= 0 || a[1].f <= 0 {
		return null, ""
	}
	return cell{f: math.Log(a[1].f) / math.Log(a[0].f)}, ""
}

// power is Java's: NaN for 1 and -1 to an infinite or NaN power.
func power(x, y float64) float64 {
	if y != y || math.Abs(x) == 1 && math.IsInf(y, 0) {
		return math.NaN()
	}
	return math.Pow(x, y)
}

func signum(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// numberSpecial gives the functions whose result's type follows from their
// arguments'.
func numberSpecial(name string) (special, bool) {
	s, ok := map[string]special{
		"abs":                {1, 1, bindAbs},
		"negative":           {1, 1, operatorOf("-")},
		"positive":           {1, 1, operatorOf("+")},
		"ceil":               {1, 1, bindWhole(math.Ceil, 1)},
		"ceiling":            {1, 1, bindWhole(math.Ceil, 1)},
		"floor":              {1, 1, bindWhole(math.Floor, -1)},
		"round":              {1, 2, bindRound(false)},
		"bround":             {1, 2, bindRound(true)},
		"mod":                {2, 2, operatorOf("%")},
		"div":                {2, 2, operatorOf("DIV")},
		"shiftleft":          {2, 2, shiftOf("<<")},
		"shiftright":         {2, 2, shiftOf(">>")},
		"shiftrightunsigned": {2, 2, shiftOf(">>>")},
		"pmod":               {2, 2, bindPmod},
		"greatest":           {2, -1, bindExtreme(1)},
		"least":              {2, -1, bindExtreme(-1)},
		"try_add":            {2, 2, operatorOf("+?")},
		"try_subtract":       {2, 2, operatorOf("-?")},
		"try_multiply":       {2, 2, operatorOf("*?")},
		"try_divide":         {2, 2, operatorOf("/?")},
		"try_mod":            {2, 2, operatorOf("%?")},
	}[name]
	return s, ok
}

// operatorOf binds a function that is an operator; a ? after it: what fails is
// NULL.
func operatorOf(op string) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		if len(args) == 1 {
			return bd.prefixOp(&Prefix{At: e.At, Op: op, X: e.Args[0]})
		}
		n := len(op)
		try := op[n-1] == '?'
		if try {
			n--
		}
		return bd.arithmetic(op[:n], e, e.Args[0], e.Args[1], try)
	}
}

func bindAbs(bd *binder, e *Call, args []node) (node, error) {
	x, err := bd.argument(e.Args[0], args[0], kNumber, e)
	if err != nil {
		return nil, err
	}
	neg := negate(x.typ())
	return bd.function(&funcNode{dt: x.typ(), args: []node{x}, src: e, fresh: always(func(a []cell) (cell, string) {
		c := a[0]
		if c.i < 0 || c.d.Sign() < 0 {
			return neg(a)
		}
		c.f = math.Abs(c.f)
		return c, ""
	})}, true), nil
}

// bindWhole binds ceil and floor.
func bindWhole(f func(float64) float64, up int) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		x, err := bd.argument(e.Args[0], args[0], kNumber, e)
		if err != nil {
			return nil, err
		}
		n := &funcNode{dt: typeBigint, args: []node{x}, src: e}
		switch t := x.typ().(type) {
		case *arrow.Decimal128Type:
			dt := adjusted(t.Precision-t.Scale+min(t.Scale, 1), 0).(*arrow.Decimal128Type)
			n.dt = dt
			n.fresh = always(func(a []cell) (cell, string) {
				v := a[0].d.BigInt()
				q, rest := floorDiv(v, pow10(int(t.Scale)))
				if rest && up > 0 {
					q.Add(q, big.NewInt(1))
				}
				return fitDecimal(q, 0, dt)
			})
		case *arrow.Float32Type, *arrow.Float64Type:
			n.fresh = always(func(a []cell) (cell, string) { return floatInteger(f(a[0].f), typeDouble, typeBigint) })
		default:
			return bd.cast(x, typeBigint, e, false)
		}
		return bd.function(n, true), nil
	}
}

// bindRound binds round (halves away from zero) and bround (halves to even).
func bindRound(even bool) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		x, err := bd.argument(e.Args[0], args[0], kNumber, e)
		if err != nil {
			return nil, err
		}
		digits := int32(0)
		if len(args) > 1 {
			c, ok := args[1].(*constant)
			if !ok || c.null || !isInteger(c.dt) || !c.num.IsInt64() || c.num.Int64() > 100 || c.num.Int64() < -100 {
				return nil, &UnsupportedError{At: e.Args[1].Pos(), What: "rounding to digits that are no constant integer"}
			}
			digits = int32(c.num.Int64())
		}
		dt := x.typ()
		if t, ok := dt.(*arrow.Decimal128Type); ok {
			whole := t.Precision - t.Scale + 1
			if digits < 0 {
				dt = adjusted(max(whole, -digits+1), 0)
			} else {
				s := min(t.Scale, digits)
				dt = &arrow.Decimal128Type{Precision: min(whole+s, maxPrecision), Scale: s}
			}
		}
		return bd.function(&funcNode{dt: dt, args: []node{x}, src: e, fresh: always(rounder(x.typ(), dt, int(digits), even))}, true), nil
	}
}

// roundTo rounds n / 10^scale to digits of a fraction; the result is at that
// many digits, or whole where digits < 0.
func roundTo(n *big.Int, scale, digits int, even bool) *big.Int {
	if digits >= scale {
		return rescale(n, scale, digits)
	}
	d := pow10(scale - digits)
	q := roundQuo(n, d)
	if even && q.Bit(0) == 1 {
		twice := new(big.Int).Lsh(n, 1)
		if new(big.Int).Rem(twice, d).Sign() == 0 && new(big.Int).Quo(twice, d).Bit(0) == 1 { // a half
			q.Sub(q, big.NewInt(int64(n.Sign())))
		}
	}
	if digits < 0 {
		q.Mul(q, pow10(-digits))
	}
	return q
}

func rounder(from, to arrow.DataType, digits int, even bool) rowFunc {
	return func(a []cell) (cell, string) {
		c := a[0]
		switch {
		case isInteger(from):
			if digits >= 0 {
				return c, ""
			}
			n := roundTo(big.NewInt(c.i), 0, digits, even)
			if !fits(n, bitsOf(to)) {
				return null, tooBig(n, to)
			}
			return cell{i: n.Int64()}, ""
		case isFloat(from):
			return roundFloat(c, from.ID() == arrow.FLOAT32, digits, even), ""
		}
		t := to.(*arrow.Decimal128Type)
		n := roundTo(c.d.BigInt(), int(from.(*arrow.Decimal128Type).Scale), min(digits, int(from.(*arrow.Decimal128Type).Scale)), even)
		return fitDecimal(n, max(0, int32(min(digits, int(t.Scale)))), t)
	}
}

// roundFloat rounds the number that the shortest text says.
func roundFloat(c cell, single bool, digits int, even bool) cell {
	r, ok := shortestRat(c.f, single)
	if !ok {
		return c
	}
	const most = 400 // digits after the point that a double may have, and some
	scale := 0
	for d := new(big.Int).Set(r.Denom()); scale < most; scale++ {
		if new(big.Int).Rem(pow10(scale), d).Sign() == 0 {
			break
		}
	}
	if digits >= scale {
		return cell{f: c.f + 0}
	}
	n := new(big.Int).Mul(r.Num(), pow10(scale))
	n.Quo(n, r.Denom())
	f := decimalFloat(roundTo(n, scale, digits, even), int32(max(digits, 0)))
	if single {
		f = float64(float32(f))
	}
	return cell{f: f}
}

// bindPmod is the remainder, with the divisor added once where it is negative.
func bindPmod(bd *binder, e *Call, args []node) (node, error) {
	rest, err := bd.arithmetic("%", e, e.Args[0], e.Args[1], false)
	if err != nil {
		return nil, err
	}
	y, dt := args[1], rest.typ()
	if y.typ().ID() != arrow.DECIMAL128 && !isInteger(y.typ()) || dt.ID() != arrow.DECIMAL128 {
		if y, err = bd.cast(y, dt, e.Args[1], false); err != nil {
			return nil, err
		}
	}
	yt := y.typ()
	return bd.function(&funcNode{dt: dt, args: []node{rest, y}, src: e, fresh: always(func(a []cell) (cell, string) {
		r, y := a[0], a[1]
		switch {
		case isInteger(dt) && r.i < 0 && y.i > 0:
			return cell{i: r.i + y.i}, ""
		case isFloat(dt) && r.f < 0 && y.f > 0:
			return cell{f: math.Mod(r.f+y.f, y.f)}, ""
		case dt.ID() == arrow.DECIMAL128 && r.d.Sign() < 0:
			out := dt.(*arrow.Decimal128Type)
			_, scale := digitsOf(yt)
			by := rescale(bigOf(y, yt), int(scale), int(out.Scale))
			if by.Sign() > 0 {
				return fitDecimal(by.Add(by, r.d.BigInt()), out.Scale, out)
			}
		}
		return r, ""
	})}, true), nil
}

// noText refuses text beside other types: which of them it would be compared as
// is not clear.
func noText(e *Call, args []node) error {
	var text, other bool
	for _, a := range args {
		text = text || a.typ().ID() == arrow.STRING
		other = other || a.typ().ID() != arrow.STRING && a.typ().ID() != arrow.NULL
	}
	if text && other {
		return &BindError{At: e.At, Text: e.String(), Msg: strings.ToLower(e.Func) + " takes values of one type, not text beside others"}
	}
	return nil
}

// bindExtreme binds greatest and least, which pass over NULLs.
func bindExtreme(want int) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		if err := noText(e, args); err != nil {
			return nil, err
		}
		dt, err := bd.same(e, e.Args, args)
		if err != nil {
			return nil, err
		}
		order := cellOrder(dt)
		if order == nil {
			return nil, &BindError{At: e.At, Text: e.String(), Msg: fmt.Sprintf("values of type %s have no order", typeName(dt))}
		}
		return bd.function(&funcNode{dt: dt, args: args, lax: true, src: e, fresh: always(func(a []cell) (cell, string) {
			best := null
			for _, c := range a {
				if !c.null && (best.null || order(c, best)*want > 0) {
					best = c
				}
			}
			return best, ""
		})}, false), nil
	}
}
