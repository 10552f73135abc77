package tabletest

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/deltafold/deltafold/deltatable/expr"
)

// The types of nested values have one shape each (see mergeStruct and its kin).
var (
	intType  = otype{kind: kInt, bits: 32}
	textType = otype{kind: kText}
)

// toDouble is the nearest double of a number, or a text read as one.
func toDouble(v any) (any, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case number:
		f, _ := new(big.Rat).SetFrac(v.n, tenTo(v.scale)).Float64()
		return f, nil
	case bool:
		return map[bool]float64{false: 0, true: 1}[v], nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || strings.ContainsAny(v, "_xXpP") {
			return nil, refuse("%q is no double", v)
		}
		return f, nil
	}
	return nil, refuse("%v is no double", v)
}

// wholeOf is a double without its fraction; NaN and infinities have none.
func wholeOf(f float64) (number, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return number{}, refuse("%v is no integer", f)
	}
	n, _ := big.NewFloat(f).Int(nil)
	return number{n: n}, nil
}

// compareDoubles has NaN above all others and equal to itself, -0.0 equal to 0.0.
func compareDoubles(a, b float64) int {
	switch {
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	case math.IsNaN(b):
		return -1
	}
	return cmp.Compare(a, b)
}

// compareParts orders structs and arrays by their parts: NULL is the least, and
// equal to itself.
func compareParts(a, b []Value) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		n := map[bool]int{true: 1}[x != nil] - map[bool]int{true: 1}[y != nil]
		if x != nil && y != nil {
			n = compareValues(inside(x), inside(y))
		}
		if n != 0 {
			return n
		}
	}
	return cmp.Compare(len(a), len(b))
}

// inside is a part of a nested value as formulas have it, outside the reverse.
func inside(v Value) any {
	if n, is := v.(int64); is {
		return number{n: big.NewInt(n)}
	}
	return v
}

func outside(v any) Value {
	if n, is := v.(number); is {
		return n.n.Int64()
	}
	return v
}

// field is a field of a struct.
func (f *formula) field(name string) (*formula, error) {
	if f.typ.kind != kStruct {
		return nil, refuse("kind %d has no field %s", f.typ.kind, name)
	}
	at, t := 0, intType
	switch strings.ToLower(name) {
	case "a":
	case "b":
		at, t = 1, textType
	default:
		return nil, refuse("no field %s", name)
	}
	return f.mapped(t, func(v any) (any, error) { return inside(v.(Struct)[at]), nil }), nil
}

// index is x[key].
func (c *compiler) index(e *expr.Index) (*formula, error) {
	args, err := c.all(e.X, e.Key)
	if err != nil {
		return nil, err
	}
	switch args[0].typ.kind { //nolint:exhaustive // the generator indexes nothing else
	case kList:
		return element(args, true), nil
	case kMap:
		return strict(intType, args, func(vs []any) (any, error) {
			for _, entry := range vs[0].(Map) {
				if entry[0] == vs[1] {
					return inside(entry[1]), nil
				}
			}
			return nil, nil
		}), nil
	}
	panic(fmt.Sprintf("tabletest: the oracle indexes no kind %d", args[0].typ.kind))
}

// element is an element of an array, counted from 0; one that is not there is an
// error or NULL.
func element(args []*formula, must bool) *formula {
	return strict(intType, args, func(vs []any) (any, error) {
		list, at := vs[0].(List), vs[1].(number).n.Int64()
		switch {
		case at >= 0 && at < int64(len(list)):
			return inside(list[at]), nil
		case must:
			return nil, refuse("no element %d of %d", at, len(list))
		}
		return nil, nil
	})
}

// nestedCall compiles the functions of rich cases.
func nestedCall(name string, args []*formula) (*formula, error) {
	switch name {
	case "GET":
		return element(args, false), nil
	case "SIZE":
		return args[0].mapped(intType, func(v any) (any, error) {
			return number{n: big.NewInt(int64(len(v.(List))))}, nil
		}), nil
	case "ARRAY_CONTAINS":
		return strict(otype{kind: kBool}, args, func(vs []any) (any, error) {
			var out any = false
			for _, v := range vs[0].(List) {
				switch {
				case v == nil:
					out = nil
				case compareValues(inside(v), vs[1]) == 0:
					return true, nil
				}
			}
			return out, nil
		}), nil
	case "NAMED_STRUCT":
		return gathered(otype{kind: kStruct}, []*formula{args[1], args[3]}, func(vs []Value) any { return Struct(vs) }), nil
	case "ARRAY":
		return gathered(otype{kind: kList}, args, func(vs []Value) any { return List(vs) }), nil
	case "MAP":
		return gathered(otype{kind: kMap}, args, func(vs []Value) any { return Map{{vs[0], vs[1]}} }), nil
	case "REGEXP_LIKE":
		return matched(args, false)
	}
	panic("tabletest: the oracle knows no function " + name)
}

func gathered(t otype, args []*formula, f func([]Value) any) *formula {
	return &formula{t, func(a, b Row) (any, error) {
		vs := make([]Value, len(args))
		for i, arg := range args {
			v, err := arg.eval(a, b)
			if err != nil {
				return nil, err
			}
			vs[i] = outside(v)
		}
		return f(vs), nil
	}}
}

// matched is RLIKE; the generator's patterns mean the same in all engines.
func matched(args []*formula, not bool) (*formula, error) {
	return strict(otype{kind: kBool}, args, func(vs []any) (any, error) {
		p, err := regexp.Compile(vs[1].(string))
		if err != nil {
			return nil, refuse("%v", err)
		}
		return p.MatchString(vs[0].(string)) != not, nil
	}), nil
}

func doubleArithmetic(op string, t otype, args []*formula) *formula {
	return strict(t, args, func(vs []any) (any, error) {
		a, b := vs[0].(float64), vs[1].(float64)
		switch op {
		case "+":
			return a + b, nil
		case "-":
			return a - b, nil
		case "*":
			return a * b, nil
		case "/":
			if b == 0 {
				return nil, refuse("division by zero")
			}
			return a / b, nil
		}
		panic("tabletest: the oracle knows no operator " + op + " of doubles")
	})
}
