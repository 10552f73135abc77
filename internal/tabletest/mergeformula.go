package tabletest

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/deltafold/deltafold/deltatable/expr"
)

// kind and otype are the types of the oracle's formulas.
type kind uint8

const (
	kNull kind = iota
	kBool
	kInt // of some width
	kDecimal
	kDouble
	kText
	kDay
	kInstant
	kStruct
	kList
	kMap
)

type otype struct {
	kind  kind
	bits  int // of kInt
	digit int // of kDecimal: all digits, and those of the fraction
	scale int
}

func typeOfArrow(t arrow.DataType) otype {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return otype{kind: kBool}
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		return otype{kind: kInt, bits: t.(arrow.FixedWidthDataType).BitWidth()}
	case *arrow.Decimal128Type:
		return otype{kind: kDecimal, digit: int(t.Precision), scale: int(t.Scale)}
	case *arrow.StringType:
		return otype{kind: kText}
	case *arrow.Date32Type:
		return otype{kind: kDay}
	case *arrow.TimestampType:
		return otype{kind: kInstant}
	case *arrow.Float64Type:
		return otype{kind: kDouble}
	case *arrow.StructType:
		return otype{kind: kStruct}
	case *arrow.ListType:
		return otype{kind: kList}
	case *arrow.MapType:
		return otype{kind: kMap}
	}
	panic(fmt.Sprintf("tabletest: the oracle knows no type %s", t))
}

func decimalInt(d Decimal) *big.Int { return decimal128.Num(d).BigInt() }

func decimalOf(n *big.Int) Value { return Decimal(decimal128.FromBigInt(n)) }

// formula is a compiled expression: its type, and its value for a pair of rows.
// Values are nil, bool, number, string, day or instant.
type formula struct {
	typ  otype
	eval func(t, s Row) (any, error)
}

func (f *formula) isTrue(t, s Row) (bool, error) {
	v, err := f.eval(t, s)
	return v == true, err
}

func constant(t otype, v any) *formula {
	return &formula{t, func(Row, Row) (any, error) { return v, nil }}
}

// mapped applies a function to the value where it is not NULL.
func (f *formula) mapped(t otype, g func(any) (any, error)) *formula {
	return &formula{t, func(a, b Row) (any, error) {
		v, err := f.eval(a, b)
		if err != nil || v == nil {
			return nil, err
		}
		return g(v)
	}}
}

// stored is the formula by ANSI store assignment.
func (f *formula) stored(to otype) (*formula, error) {
	numeric := func(t otype) bool { return t.kind == kInt || t.kind == kDecimal || t.kind == kDouble }
	dated := func(t otype) bool { return t.kind == kDay || t.kind == kInstant }
	fits := f.typ.kind == kNull || f.typ.kind == to.kind || numeric(f.typ) && numeric(to) || dated(f.typ) && dated(to)
	if !fits {
		return nil, refuse("a value of kind %d for a column of kind %d", f.typ.kind, to.kind)
	}
	return f.cast(to)
}

// cast is CAST.
func (f *formula) cast(to otype) (*formula, error) {
	from := f.typ
	switch {
	case from == to:
		return f, nil
	case from.kind == kNull:
		return constant(to, nil), nil
	case to.kind == kDouble && (from.kind == kInt || from.kind == kDecimal || from.kind == kText):
		return f.mapped(to, toDouble), nil
	case from.kind == kDouble && to.kind == kInt:
		return f.mapped(to, func(v any) (any, error) {
			n, err := wholeOf(v.(float64))
			if err != nil {
				return nil, err
			}
			return toNumber(n, to)
		}), nil
	case from.kind == kDouble || from.kind >= kStruct || to.kind >= kStruct:
		return nil, refuse("no cast from kind %d to %d", from.kind, to.kind)
	case to.kind == kInt || to.kind == kDecimal:
		return f.mapped(to, func(v any) (any, error) { return toNumber(v, to) }), nil
	case to.kind == kText:
		return f.mapped(to, func(v any) (any, error) { return toText(v), nil }), nil
	case to.kind == kInstant && from.kind == kDay:
		return f.mapped(to, func(v any) (any, error) { return instant(int64(v.(day)) * 86_400_000_000), nil }), nil
	case to.kind == kDay && from.kind == kInstant:
		return f.mapped(to, func(v any) (any, error) {
			n, us := int64(v.(instant)), int64(86_400_000_000)
			return day((n - ((n%us)+us)%us) / us), nil
		}), nil
	case to.kind == kBool && from.kind == kInt:
		return f.mapped(to, func(v any) (any, error) { return v.(number).n.Sign() != 0, nil }), nil
	case to.kind == kBool && from.kind == kText:
		return f.mapped(to, func(v any) (any, error) {
			switch strings.ToLower(strings.TrimSpace(v.(string))) {
			case "t", "true", "y", "yes", "1":
				return true, nil
			case "f", "false", "n", "no", "0":
				return false, nil
			}
			return nil, refuse("%q is no boolean", v)
		}), nil
	}
	if from.kind == kText {
		panic("tabletest: the oracle reads no dates from text")
	}
	return nil, refuse("no cast from kind %d to %d", from.kind, to.kind)
}

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func toNumber(v any, to otype) (any, error) {
	var x number
	switch v := v.(type) {
	case number:
		x = v
	case bool:
		x.n = big.NewInt(0)
		if v {
			x.n.SetInt64(1)
		}
	case string:
		n, ok := new(big.Int).SetString(strings.TrimPrefix(strings.TrimSpace(v), "+"), 10)
		if !ok || to.kind != kInt || strings.Contains(v, "_") {
			return nil, refuse("%q is no integer", v)
		}
		x.n = n
	default:
		return nil, refuse("%v is no number", v)
	}
	if to.kind == kInt {
		n := new(big.Int).Quo(x.n, tenTo(x.scale))
		limit := new(big.Int).Lsh(big.NewInt(1), uint(to.bits-1))
		if n.Cmp(limit) >= 0 || n.Cmp(new(big.Int).Neg(limit)) < 0 {
			return nil, refuse("%s does not fit %d bits", n, to.bits)
		}
		return number{n: n}, nil
	}
	n := new(big.Int).Mul(x.n, tenTo(max(0, to.scale-x.scale)))
	if d := x.scale - to.scale; d > 0 {
		half := new(big.Int).Mul(big.NewInt(int64(5*n.Sign())), tenTo(d-1))
		n.Quo(n.Add(n, half), tenTo(d))
	}
	if n.CmpAbs(tenTo(to.digit)) >= 0 {
		return nil, refuse("%s does not fit %d digits", n, to.digit)
	}
	return number{n, to.scale}, nil
}

func toText(v any) string {
	switch v := v.(type) {
	case bool:
		return fmt.Sprint(v)
	case number:
		if v.scale == 0 {
			return v.n.String()
		}
		return new(big.Rat).SetFrac(v.n, tenTo(v.scale)).FloatString(v.scale)
	case day:
		return dayText(int64(v))
	case string:
		return v
	}
	panic(fmt.Sprintf("tabletest: the oracle writes no %T as text", v))
}

// compareValues orders values of one kind.
func compareValues(a, b any) int {
	switch a := a.(type) {
	case bool:
		switch {
		case a == b.(bool):
			return 0
		case a:
			return 1
		}
		return -1
	case number:
		o := b.(number)
		return new(big.Int).Mul(a.n, tenTo(o.scale)).Cmp(new(big.Int).Mul(o.n, tenTo(a.scale)))
	case string:
		return strings.Compare(a, b.(string))
	case day:
		return int(a - b.(day))
	case instant:
		return big.NewInt(int64(a)).Cmp(big.NewInt(int64(b.(instant))))
	case float64:
		return compareDoubles(a, b.(float64))
	case Struct:
		return compareParts(a, b.(Struct))
	case List:
		return compareParts(a, b.(List))
	}
	panic(fmt.Sprintf("tabletest: no order of %T", a))
}

// common brings formulas to one type, as CASE and comparisons do.
func common(fs ...*formula) ([]*formula, otype, error) {
	t := otype{}
	for _, f := range fs {
		var err error
		if t, err = widerOf(t, f.typ); err != nil {
			return nil, t, err
		}
	}
	out := make([]*formula, len(fs))
	for i, f := range fs {
		var err error
		if out[i], err = f.cast(t); err != nil {
			return nil, t, err
		}
	}
	return out, t, nil
}

func widerOf(a, b otype) (otype, error) {
	if a.kind > b.kind {
		a, b = b, a
	}
	switch {
	case a.kind == kNull || a == b:
		return b, nil
	case a.kind == kInt && b.kind == kInt:
		return otype{kind: kInt, bits: max(a.bits, b.bits)}, nil
	case a.kind == kInt && b.kind == kDecimal:
		return widerOf(otype{kind: kDecimal, digit: map[int]int{8: 3, 16: 5, 32: 10, 64: 20}[a.bits]}, b)
	case a.kind == kDecimal && b.kind == kDecimal:
		scale := max(a.scale, b.scale)
		return otype{kind: kDecimal, digit: max(a.digit-a.scale, b.digit-b.scale) + scale, scale: scale}, nil
	case b.kind == kDouble && (a.kind == kInt || a.kind == kDecimal):
		return b, nil
	case a.kind == kDay && b.kind == kInstant:
		return b, nil
	case a.kind == kInt && b.kind == kText:
		return otype{kind: kInt, bits: 64}, nil
	case a.kind == kBool && b.kind == kText:
		return a, nil
	case b.kind == kText || a.kind == kText:
		panic("tabletest: the oracle does not compare this kind with text")
	}
	return a, refuse("kinds %d and %d have no type in common", a.kind, b.kind)
}

// compiler turns one expression into a formula.
type compiler struct {
	o     *mergeOracle
	sides string // that its names may mean
}

func (c *compiler) all(es ...expr.Expr) ([]*formula, error) {
	out := make([]*formula, len(es))
	for i, e := range es {
		var err error
		if out[i], err = c.compile(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) compile(e expr.Expr) (*formula, error) {
	switch e := e.(type) {
	case *expr.Name:
		return c.name(e)
	case *expr.Literal:
		return literalFormula(e)
	case *expr.Logic:
		return c.logic(e)
	case *expr.Not:
		x, err := c.truth(e.X)
		if err != nil {
			return nil, err
		}
		return x.mapped(x.typ, func(v any) (any, error) { return !v.(bool), nil }), nil
	case *expr.Infix:
		return c.infix(e)
	case *expr.Is:
		return c.is(e)
	case *expr.Distinct:
		f, err := c.compared("<=>", e.L, e.R)
		if err != nil || e.Not {
			return f, err
		}
		return f.mapped(f.typ, func(v any) (any, error) { return !v.(bool), nil }), nil
	case *expr.In:
		return c.in(e)
	case *expr.Between:
		return c.between(e)
	case *expr.Like:
		return c.like(e)
	case *expr.Call:
		return c.call(e)
	case *expr.Case:
		return c.cases(e)
	case *expr.Cast:
		return c.castTo(e)
	case *expr.Index:
		return c.index(e)
	case *expr.Field:
		x, err := c.compile(e.X)
		if err != nil {
			return nil, err
		}
		return x.field(e.Name)
	}
	panic(fmt.Sprintf("tabletest: the oracle knows no %T", e))
}

func (c *compiler) name(e *expr.Name) (*formula, error) {
	var found []*formula
	for _, side := range strings.Split(c.sides, "") {
		table, q := c.o.t, c.o.st.Target.Qualifier()
		if side == "s" {
			table, q = c.o.s, c.o.st.Source.Qualifier()
		}
		rest := e.Parts
		if len(rest) > 1 && strings.EqualFold(rest[0], q) {
			rest = rest[1:]
		}
		at := fieldNamed(table.Schema, rest[0])
		if at < 0 {
			continue
		}
		f := table.Schema.Field(at)
		column := &formula{typeOfArrow(f.Type), func(t, s Row) (any, error) {
			row := t
			if side == "s" {
				row = s
			}
			v := enter(row[f.Name], f.Type)
			if n, is := v.(int64); is {
				return number{n: big.NewInt(n)}, nil
			}
			return v, nil
		}}
		var err error
		for _, part := range rest[1:] {
			if column, err = column.field(part); err != nil {
				return nil, err
			}
		}
		found = append(found, column)
	}
	if len(found) != 1 {
		return nil, refuse("%s means %d columns", e, len(found))
	}
	return found[0], nil
}
