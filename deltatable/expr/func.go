package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// maxValue bounds the bytes of one value that a function makes.
const maxValue = 64 << 20

// funcNode is a function of values: one call per row.
type funcNode struct {
	dt   arrow.DataType
	args []node
	// fresh gives the function for one evaluation, so that it may keep things
	// (a compiled pattern) from row to row.
	fresh func() rowFunc
	// quick, where it is set, computes whole columns; nil where it does not.
	quick func(args []arrow.Array) arrow.Array
	lax   bool // called with NULLs too; else a NULL argument makes the result NULL
	try   bool // what fails is NULL
	src   Expr
}

// A rowFunc gives a row's value; msg says why there is none. It must not keep
// the slice.
type rowFunc func(a []cell) (out cell, msg string)

func (n *funcNode) typ() arrow.DataType { return n.dt }

func (n *funcNode) eval(b *batch) (arrow.Array, error) {
	read, cols := make([]func(i int) cell, len(n.args)), make([]arrow.Array, len(n.args))
	for k, a := range n.args {
		if c, ok := a.(*constant); ok && n.quick == nil {
			v := c.cell()
			read[k] = func(int) cell { return v }
			continue
		}
		arr, err := a.eval(b)
		if err != nil {
			return nil, err
		}
		defer arr.Release()
		read[k], cols[k] = cellsOf(arr), arr
	}
	if n.quick != nil {
		if out := n.quick(cols); out != nil {
			return out, nil
		}
	}
	f, a := n.fresh(), make([]cell, len(n.args))
	return build(n.dt, b.rows, func(i int) (cell, error) {
		if !b.wants(i) {
			return null, nil
		}
		for k := range a {
			if a[k] = read[k](i); a[k].null && !n.lax {
				return null, nil
			}
		}
		out, msg := f(a)
		switch {
		case msg == "":
			return out, nil
		case n.try:
			return null, nil
		}
		return null, &EvalError{Row: i, Pos: n.src.Pos(), Text: n.src.String(), Msg: msg}
	})
}

// A kind is what a parameter of a function takes; arguments of other types are
// converted as Spark does it implicitly.
type kind byte

const (
	kString kind = 's'
	kInt    kind = 'i'
	kSmall  kind = 'I' // an int or less, or text
	kBigint kind = 'l'
	kDouble kind = 'd'
	kDate   kind = 't'
	kTime   kind = 'T' // timestamp
	kBinary kind = 'b' // binary; a string is its bytes
	kBytes  kind = 'B' // string or binary, as it is
	kNumber kind = 'n' // any number, as it is; text is double
	kAny    kind = 'a'
)

// A scalar is a function with fixed parameters: one row of the tables of
// functions.
type scalar struct {
	params string         // a kind each; after '?' they may be left out; a last '*' repeats the kind before it
	result arrow.DataType // nil: the type of the first argument
	f      rowFunc
	lax    bool
	total  bool // never fails
}

// arity gives the kinds and how many of them must be there.
func (s *scalar) arity() (kinds []kind, least int, more bool) {
	least = -1
	for _, c := range s.params {
		switch c {
		case '?':
			least = len(kinds)
		case '*':
			more = true
		default:
			kinds = append(kinds, kind(c))
		}
	}
	if least < 0 {
		least = len(kinds)
	}
	return kinds, least, more
}

// A special is a function that looks at its arguments' types or is not called
// row by row.
type special struct {
	least, most int // most < 0: any number
	bind        func(bd *binder, e *Call, args []node) (node, error)
}

// call binds a function call.
func (bd *binder) call(e *Call) (node, error) {
	name := strings.ToLower(e.Func)
	if e.Distinct || e.Star {
		return nil, &UnsupportedError{At: e.At, What: "the aggregate function " + name}
	}
	if why, ok := refused[name]; ok {
		return nil, &UnsupportedError{At: e.At, What: "the function " + name + why}
	}
	to, ok := typeWords[name]
	if name == "decimal" {
		to, ok = &arrow.Decimal128Type{Precision: 10}, true
	}
	if ok && len(e.Args) == 1 {
		x, err := bd.bind(e.Args[0])
		if err != nil {
			return nil, err
		}
		return bd.cast(x, to, e, false)
	}
	if f := lazy(name); f != nil {
		return f(bd, e)
	}
	args := make([]node, len(e.Args))
	for i, a := range e.Args {
		if _, is := a.(*Lambda); is {
			return nil, &UnsupportedError{At: a.Pos(), What: "a lambda (in " + name + ")"}
		}
		var err error
		if args[i], err = bd.bind(a); err != nil {
			return nil, err
		}
	}
	for _, table := range []map[string]*scalar{textFunctions, numberFunctions, timeFunctions} {
		if s, ok := table[name]; ok {
			return bd.scalar(e, s, args)
		}
	}
	sp, ok := specialOf(name)
	if !ok {
		return nil, &UnsupportedError{At: e.At, What: "the function " + name}
	}
	if len(args) < sp.least || sp.most >= 0 && len(args) > sp.most {
		return nil, wrongCount(e, sp.least, sp.most)
	}
	return sp.bind(bd, e, args)
}

func specialOf(name string) (special, bool) {
	for _, table := range []func(string) (special, bool){textSpecial, numberSpecial, timeSpecial, nestedSpecial} {
		if s, ok := table(name); ok {
			return s, true
		}
	}
	return special{}, false
}

func wrongCount(e *Call, least, most int) error {
	want := fmt.Sprintf("%d", least)
	switch {
	case most < 0:
		want += " or more"
	case most > least:
		want += fmt.Sprintf(" to %d", most)
	}
	return &BindError{At: e.At, Text: e.String(), Msg: fmt.Sprintf("%s takes %s arguments, this has %d", strings.ToLower(e.Func), want, len(e.Args))}
}

func (bd *binder) scalar(e *Call, s *scalar, args []node) (node, error) {
	kinds, least, more := s.arity()
	if len(args) < least || len(args) > len(kinds) && !more {
		most := len(kinds)
		if more {
			most = -1
		}
		return nil, wrongCount(e, least, most)
	}
	for i := range args {
		var err error
		if args[i], err = bd.argument(e.Args[i], args[i], kinds[min(i, len(kinds)-1)], e); err != nil {
			return nil, err
		}
	}
	dt := s.result
	if dt == nil {
		dt = args[0].typ()
	}
	return bd.function(&funcNode{dt: dt, args: args, fresh: always(s.f), lax: s.lax, src: e}, !s.total), nil
}

func always(f rowFunc) func() rowFunc { return func() rowFunc { return f } }

// function finishes a funcNode: constants are computed once.
func (bd *binder) function(n *funcNode, fails bool) node {
	if fails {
		bd.fallible++
	}
	if !n.lax && slices.ContainsFunc(n.args, func(a node) bool { return a.typ().ID() == arrow.NULL }) && !nested(n.dt) {
		return &constant{dt: n.dt, null: true, src: n.src}
	}
	return bd.fold(n, n.src, n.args...)
}

// argument converts an argument to what the parameter takes.
func (bd *binder) argument(a Expr, n node, k kind, call Expr) (node, error) {
	t := n.typ()
	if t.ID() == arrow.NULL && k != kAny {
		return bd.cast(n, kindType(k), a, false)
	}
	text := t.ID() == arrow.STRING
	var ok bool
	switch k {
	case kAny:
		return n, nil
	case kNumber:
		if isNumber(t) {
			return n, nil
		}
		ok = text
	case kBytes:
		if t.ID() == arrow.BINARY {
			return n, nil
		}
		ok = !nested(t)
	case kBinary:
		ok = text || t.ID() == arrow.BINARY
	case kString:
		ok = !nested(t)
	case kSmall:
		ok = text || isInteger(t) && bitsOf(t) <= 32
	case kInt, kBigint, kDouble:
		ok = text || isNumber(t)
	case kDate, kTime:
		ok = text || timeRank(t) > 0
	}
	if !ok {
		msg := fmt.Sprintf("%s where %s is needed", typeName(t), typeName(kindType(k)))
		return nil, &BindError{At: a.Pos(), Text: a.String(), Msg: msg}
	}
	return bd.cast(n, kindType(k), a, false)
}

func kindType(k kind) arrow.DataType {
	switch k {
	case kInt, kSmall:
		return typeInt
	case kBigint:
		return typeBigint
	case kDouble, kNumber:
		return typeDouble
	case kDate:
		return typeDate
	case kTime:
		return tsUTC
	case kBinary:
		return typeBinary
	case kString, kBytes, kAny:
	}
	return typeString
}

// literalText is an argument that must be a constant text.
func literalText(e *Call, args []node, i int) (string, error) {
	c, ok := args[i].(*constant)
	if !ok || c.null || c.dt.ID() != arrow.STRING {
		return "", &UnsupportedError{At: e.Args[i].Pos(), What: fmt.Sprintf("%s with an argument %d that is no constant text", strings.ToLower(e.Func), i+1)}
	}
	return c.s, nil
}

// same converts arguments to one type.
func (bd *binder) same(e Expr, exprs []Expr, args []node) (arrow.DataType, error) {
	dt := args[0].typ()
	for _, a := range args[1:] {
		w := wider(dt, a.typ(), false)
		if w == nil {
			return nil, &BindError{At: e.Pos(), Text: e.String(), Msg: fmt.Sprintf("%s and %s have no type in common", typeName(dt), typeName(a.typ()))}
		}
		dt = w
	}
	for i := range args {
		var err error
		if args[i], err = bd.cast(args[i], dt, exprs[i], false); err != nil {
			return nil, err
		}
	}
	return dt, nil
}

// refused functions: what makes no sense in a statement that must give the same
// result when it is tried again, and what goes beyond a row.
var refused = map[string]string{
	"rand": undetermined, "random": undetermined, "randn": undetermined, "uuid": undetermined, "shuffle": undetermined,
	"randstr": undetermined, "uniform": undetermined, "monotonically_increasing_id": undetermined,
	"spark_partition_id": undetermined, "input_file_name": undetermined, "input_file_block_start": undetermined, "input_file_block_length": undetermined,
	"count": aggregate, "sum": aggregate, "avg": aggregate, "mean": aggregate, "min": aggregate, "max": aggregate, "first": aggregate, "last": aggregate,
	"any_value": aggregate, "collect_list": aggregate, "collect_set": aggregate, "row_number": aggregate, "rank": aggregate, "lag": aggregate, "lead": aggregate,
	"count_if": aggregate, "max_by": aggregate, "min_by": aggregate, "stddev": aggregate, "variance": aggregate, "explode": aggregate, "posexplode": aggregate,
	"current_user": session, "user": session, "session_user": session, "current_database": session, "current_schema": session, "current_catalog": session,
	"current_timezone": session, "version": session, "reflect": session, "java_method": session,
	"hash": hashed, "xxhash64": hashed,
}

const (
	undetermined = " (its result differs from call to call)"
	aggregate    = " (it is computed over several rows)"
	session      = " (it depends on the session)"
	hashed       = " (Spark's internal hash)"
)
