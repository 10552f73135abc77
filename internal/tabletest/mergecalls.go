package tabletest

import (
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/deltafold/deltafold/deltatable/expr"
)

func (c *compiler) call(e *expr.Call) (*formula, error) {
	args, err := c.all(e.Args...)
	if err != nil {
		return nil, err
	}
	switch f := strings.ToUpper(e.Func); f {
	case "COALESCE":
		return coalesce(args)
	case "NULLIF":
		eq, err := comparison("=", args[0], args[1])
		if err != nil {
			return nil, err
		}
		return choice(args[0].typ, []*formula{eq}, []*formula{constant(args[0].typ, nil)}, args[0]), nil
	case "IF":
		branches, t, err := common(args[1:]...)
		if err != nil {
			return nil, err
		}
		return choice(t, args[:1], branches[:1], branches[1]), nil
	case "LENGTH", "UPPER", "LOWER":
		x, err := args[0].cast(otype{kind: kText})
		if err != nil {
			return nil, err
		}
		t := otype{kind: kText}
		if f == "LENGTH" {
			t = otype{kind: kInt, bits: 32}
		}
		return x.mapped(t, func(v any) (any, error) {
			switch f {
			case "UPPER":
				return strings.ToUpper(v.(string)), nil
			case "LOWER":
				return strings.ToLower(v.(string)), nil
			}
			return number{n: big.NewInt(int64(utf8.RuneCountInString(v.(string))))}, nil
		}), nil
	}
	return nestedCall(strings.ToUpper(e.Func), args)
}

func coalesce(args []*formula) (*formula, error) {
	args, t, err := common(args...)
	if err != nil {
		return nil, err
	}
	return &formula{t, func(a, b Row) (any, error) {
		for _, f := range args {
			if v, err := f.eval(a, b); err != nil || v != nil {
				return v, err
			}
		}
		return nil, nil
	}}, nil
}

// choice is the value of the first condition that is true.
func choice(t otype, conds, values []*formula, otherwise *formula) *formula {
	return &formula{t, func(a, b Row) (any, error) {
		for i, c := range conds {
			yes, err := c.isTrue(a, b)
			if err != nil {
				return nil, err
			}
			if yes {
				return values[i].eval(a, b)
			}
		}
		return otherwise.eval(a, b)
	}}
}

func (c *compiler) cases(e *expr.Case) (*formula, error) {
	if e.X != nil {
		panic("tabletest: the oracle knows no CASE with an operand")
	}
	conds := make([]*formula, len(e.Whens))
	values := make([]*formula, len(e.Whens), len(e.Whens)+1)
	for i, w := range e.Whens {
		var err error
		if conds[i], err = c.truth(w.Cond); err != nil {
			return nil, err
		}
		if values[i], err = c.compile(w.Then); err != nil {
			return nil, err
		}
	}
	otherwise := constant(otype{}, nil)
	if e.Else != nil {
		var err error
		if otherwise, err = c.compile(e.Else); err != nil {
			return nil, err
		}
	}
	values, t, err := common(append(values, otherwise)...)
	if err != nil {
		return nil, err
	}
	return choice(t, conds, values[:len(conds)], values[len(conds)]), nil
}

func (c *compiler) castTo(e *expr.Cast) (*formula, error) {
	x, err := c.compile(e.X)
	if err != nil {
		return nil, err
	}
	f, err := x.cast(typeNamed(e.Type))
	if err != nil || !e.Try {
		return f, err
	}
	return &formula{f.typ, func(t, s Row) (any, error) {
		v, err := f.eval(t, s)
		if err != nil {
			if _, inner := x.eval(t, s); inner != nil {
				return nil, inner
			}
			return nil, nil
		}
		return v, nil
	}}, nil
}

func typeNamed(name string) otype {
	switch n := strings.ToUpper(name); n {
	case "BOOLEAN":
		return otype{kind: kBool}
	case "TINYINT", "SMALLINT", "INT", "BIGINT":
		return otype{kind: kInt, bits: map[string]int{"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[n]}
	case "STRING":
		return otype{kind: kText}
	case "DATE":
		return otype{kind: kDay}
	case "TIMESTAMP":
		return otype{kind: kInstant}
	case "DOUBLE":
		return otype{kind: kDouble}
	case "STRUCT<A:INT,B:STRING>":
		return otype{kind: kStruct}
	case "ARRAY<INT>":
		return otype{kind: kList}
	case "MAP<STRING,INT>":
		return otype{kind: kMap}
	default:
		t := otype{kind: kDecimal}
		if _, err := fmt.Sscanf(n, "DECIMAL(%d,%d)", &t.digit, &t.scale); err != nil {
			panic("tabletest: the oracle knows no type " + name)
		}
		return t
	}
}
