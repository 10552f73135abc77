package tabletest

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/deltafold/deltafold/deltatable/expr"
)

func dayText(d int64) string { return time.Unix(d*86400, 0).UTC().Format(time.DateOnly) }

func literalFormula(e *expr.Literal) (*formula, error) {
	switch e.Kind {
	case expr.Null:
		return constant(otype{}, nil), nil
	case expr.Boolean:
		return constant(otype{kind: kBool}, strings.EqualFold(e.Text, "true")), nil
	case expr.String:
		return constant(otype{kind: kText}, e.Text), nil
	case expr.Date:
		d, err := time.Parse(time.DateOnly, e.Text)
		if err != nil {
			return nil, refuse("%q is no date", e.Text)
		}
		return constant(otype{kind: kDay}, day(d.Unix()/86400)), nil
	case expr.Timestamp:
		d, err := time.Parse("2006-01-02 15:04:05Z07:00", e.Text)
		if err != nil {
			return nil, refuse("%q is no timestamp", e.Text)
		}
		return constant(otype{kind: kInstant}, instant(d.UnixMicro())), nil
	case expr.Integer, expr.Decimal:
		whole, fraction, _ := strings.Cut(e.Text, ".")
		n, ok := new(big.Int).SetString(whole+fraction, 10)
		if !ok {
			panic(fmt.Sprintf("tabletest: the oracle reads no number %q", e.Text))
		}
		switch {
		case e.Kind == expr.Decimal:
			digits := strings.TrimLeft(strings.TrimLeft(whole+fraction, "-"), "0")
			return constant(otype{kind: kDecimal, digit: max(len(digits), len(fraction)), scale: len(fraction)}, number{n, len(fraction)}), nil
		case n.IsInt64() && n.Int64() == int64(int32(n.Int64())):
			return constant(otype{kind: kInt, bits: 32}, number{n: n}), nil
		}
		return constant(otype{kind: kInt, bits: 64}, number{n: n}), nil
	case expr.Tinyint, expr.Smallint, expr.Bigint, expr.Float, expr.Double, expr.Binary, expr.TimestampNTZ, expr.Interval:
		// The generator writes none.
	}
	panic(fmt.Sprintf("tabletest: the oracle reads no literal %s", e))
}

// truth compiles an operand of AND, OR and NOT.
func (c *compiler) truth(e expr.Expr) (*formula, error) {
	f, err := c.compile(e)
	if err != nil {
		return nil, err
	}
	if f.typ.kind != kBool && f.typ.kind != kNull {
		return nil, refuse("%s is no condition", e)
	}
	return f.cast(otype{kind: kBool})
}

func (c *compiler) logic(e *expr.Logic) (*formula, error) {
	var args []*formula
	for _, a := range e.Args {
		f, err := c.truth(a)
		if err != nil {
			return nil, err
		}
		args = append(args, f)
	}
	return &formula{otype{kind: kBool}, func(t, s Row) (any, error) {
		var out any = !e.Or
		for _, f := range args {
			v, err := f.eval(t, s)
			if err != nil {
				return nil, err
			}
			if v == e.Or {
				return e.Or, nil
			}
			if v == nil {
				out = nil
			}
		}
		return out, nil
	}}, nil
}

func (c *compiler) infix(e *expr.Infix) (*formula, error) {
	switch e.Op {
	case "=", "<=>", "<>", "<", "<=", ">", ">=":
		return c.compared(e.Op, e.L, e.R)
	}
	args, err := c.all(e.L, e.R)
	if err != nil {
		return nil, err
	}
	if e.Op == "||" {
		return joined(args)
	}
	return arithmetic(e.Op, args[0], args[1])
}

func (c *compiler) compared(op string, l, r expr.Expr) (*formula, error) {
	args, err := c.all(l, r)
	if err != nil {
		return nil, err
	}
	return comparison(op, args[0], args[1])
}

func comparison(op string, l, r *formula) (*formula, error) {
	args, t, err := common(l, r)
	switch {
	case err != nil:
		return nil, err
	case t.kind == kMap:
		return nil, refuse("maps do not compare")
	}
	return &formula{otype{kind: kBool}, func(t, s Row) (any, error) {
		a, err := args[0].eval(t, s)
		if err != nil {
			return nil, err
		}
		b, err := args[1].eval(t, s)
		switch {
		case err != nil:
			return nil, err
		case op == "<=>" && (a == nil || b == nil):
			return a == nil && b == nil, nil
		case a == nil || b == nil:
			return nil, nil
		}
		n := compareValues(a, b)
		switch op {
		case "=", "<=>":
			return n == 0, nil
		case "<>":
			return n != 0, nil
		case "<":
			return n < 0, nil
		case "<=":
			return n <= 0, nil
		case ">":
			return n > 0, nil
		}
		return n >= 0, nil
	}}, nil
}

func joined(args []*formula) (*formula, error) {
	for i, a := range args {
		var err error
		if args[i], err = a.cast(otype{kind: kText}); err != nil {
			return nil, err
		}
	}
	return strict(otype{kind: kText}, args, func(vs []any) (any, error) {
		var b strings.Builder
		for _, v := range vs {
			b.WriteString(v.(string))
		}
		return b.String(), nil
	}), nil
}

// strict is a function that is NULL where an argument is.
func strict(t otype, args []*formula, f func([]any) (any, error)) *formula {
	return &formula{t, func(a, b Row) (any, error) {
		vs := make([]any, len(args))
		null := false
		for i, arg := range args {
			v, err := arg.eval(a, b)
			if err != nil {
				return nil, err
			}
			vs[i], null = v, null || v == nil
		}
		if null {
			return nil, nil
		}
		return f(vs)
	}}
}

func arithmetic(op string, l, r *formula) (*formula, error) {
	args, t, err := common(l, r)
	if err != nil {
		return nil, err
	}
	if t.kind == kNull {
		return constant(otype{kind: kInt, bits: 32}, nil), nil
	}
	if t.kind == kDouble {
		return doubleArithmetic(op, t, args), nil
	}
	if t.kind != kInt && t.kind != kDecimal || l.typ.kind == kText || r.typ.kind == kText {
		return nil, refuse("no %s of kind %d", op, t.kind)
	}
	if t.kind == kDecimal {
		t.digit++ // of a sum; the generator multiplies and divides no decimals
	}
	return strict(t, args, func(vs []any) (any, error) {
		a, b := vs[0].(number), vs[1].(number)
		n := new(big.Int)
		switch op {
		case "+":
			n.Add(a.n, b.n)
		case "-":
			n.Sub(a.n, b.n)
		case "*":
			n.Mul(a.n, b.n)
		case "%":
			if b.n.Sign() == 0 {
				return nil, refuse("division by zero")
			}
			n.Rem(a.n, b.n)
		default:
			panic("tabletest: the oracle knows no operator " + op)
		}
		return toNumber(number{n, t.scale}, t)
	}), nil
}

func (c *compiler) is(e *expr.Is) (*formula, error) {
	x, err := c.compile(e.X)
	if err != nil {
		return nil, err
	}
	want := map[string]any{"NULL": nil, "UNKNOWN": nil, "TRUE": true, "FALSE": false}[e.What]
	return &formula{otype{kind: kBool}, func(t, s Row) (any, error) {
		v, err := x.eval(t, s)
		return (v == want) != e.Not, err
	}}, nil
}

func (c *compiler) in(e *expr.In) (*formula, error) {
	args, err := c.all(append([]expr.Expr{e.X}, e.List...)...)
	if err != nil {
		return nil, err
	}
	if args, _, err = common(args...); err != nil {
		return nil, err
	}
	return &formula{otype{kind: kBool}, func(t, s Row) (any, error) {
		x, err := args[0].eval(t, s)
		if err != nil || x == nil {
			return nil, err
		}
		var out any = e.Not
		for _, a := range args[1:] {
			v, err := a.eval(t, s)
			if err != nil {
				return nil, err
			}
			if v == nil {
				out = nil
			} else if compareValues(x, v) == 0 {
				return !e.Not, nil
			}
		}
		return out, nil
	}}, nil
}

func (c *compiler) between(e *expr.Between) (*formula, error) {
	low := &expr.Infix{Op: ">=", L: e.X, R: e.Low}
	high := &expr.Infix{Op: "<=", L: e.X, R: e.High}
	var both expr.Expr = &expr.Logic{Args: []expr.Expr{low, high}}
	if e.Not {
		both = &expr.Not{X: both}
	}
	return c.compile(both)
}

func (c *compiler) like(e *expr.Like) (*formula, error) {
	args, err := c.all(e.X, e.Pattern)
	if err != nil {
		return nil, err
	}
	if e.Op == "RLIKE" {
		return matched(args, e.Not)
	}
	if e.Op != "LIKE" || e.Escape != "" {
		panic("tabletest: the oracle knows LIKE without ESCAPE only")
	}
	for _, a := range args {
		if a.typ.kind != kText && a.typ.kind != kNull {
			return nil, refuse("LIKE of kind %d", a.typ.kind)
		}
	}
	return strict(otype{kind: kBool}, args, func(vs []any) (any, error) {
		return matches([]rune(vs[0].(string)), []rune(vs[1].(string))) != e.Not, nil
	}), nil
}

func matches(s, pattern []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(s) == 0
	case pattern[0] == '%':
		return matches(s, pattern[1:]) || len(s) > 0 && matches(s[1:], pattern)
	}
	return len(s) > 0 && (pattern[0] == '_' || pattern[0] == s[0]) && matches(s[1:], pattern[1:])
}
