package expr

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/internal/ordered"
)

// Options are what an expression's meaning depends on besides the schema.
type Options struct {
	// Zone is where timestamps without a zone of their own are taken to be:
	// literals, and dates and timestamp_ntz beside timestamps. nil refuses
	// such an expression.
	Zone *time.Location
	// Now is what current_timestamp() and its kin give for every row, so that a
	// statement has one time however often it is evaluated. The zero value refuses
	// them.
	Now time.Time
}

// A Bound is an expression resolved against a schema. It is immutable and safe
// for concurrent use.
type Bound struct {
	src  Expr
	root node
	cols []string
	zone *time.Location
}

// node is a typed expression.
type node interface {
	typ() arrow.DataType
	// eval gives one value per row. The caller releases the array.
	eval(b *batch) (arrow.Array, error)
}

// Bind resolves e against a schema of canonical Arrow types, without a zone:
// see [BindWith].
func Bind(e Expr, sch *arrow.Schema) (*Bound, error) { return BindWith(e, sch, nil) }

// BindWith resolves names (an exact match first, else without regard to case),
// types and literals. nil options are the defaults. The error is a [*BindError]
// or an [*UnsupportedError], with its position in the text.
func BindWith(e Expr, sch *arrow.Schema, o *Options) (*Bound, error) {
	bd := newBinder(sch, o)
	root, err := bd.bind(e)
	if err != nil {
		return nil, err
	}
	return bd.bound(e, root), nil
}

func (bd *binder) bound(e Expr, root node) *Bound {
	return &Bound{src: e, root: root, cols: bd.cols, zone: bd.zone}
}

func newBinder(sch *arrow.Schema, o *Options) *binder {
	bd := &binder{sch: sch}
	if o != nil {
		bd.zone, bd.now = o.Zone, o.Now
	}
	return bd
}

// Type is the type of the expression's values; void for NULL alone.
func (b *Bound) Type() arrow.DataType { return b.root.typ() }

// IsPredicate tells whether the expression is a condition (boolean or NULL).
func (b *Bound) IsPredicate() bool { return isBool(b.root) }

// Columns are the columns that the expression reads, in the schema's spelling
// and the order of their first use; for a struct field, the whole column.
func (b *Bound) Columns() []string { return append([]string(nil), b.cols...) }

// String is the expression as SQL.
func (b *Bound) String() string { return b.src.String() }

// Eval gives the value for each row. The batch needs only the columns that
// Columns names, in any order. The caller releases the array.
func (b *Bound) Eval(rec arrow.RecordBatch) (arrow.Array, error) {
	bt, err := newBatch(rec, b.cols)
	if err != nil {
		return nil, err
	}
	arr, err := b.root.eval(bt)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", quoteText(b.src.String()), err)
	}
	return arr, nil
}

// Filter gives the condition for each row: true, false or NULL. Value(i) is
// false where the condition is NULL, so that Value(i) alone says whether a row
// is selected. It fails if the expression is no condition.
func (b *Bound) Filter(rec arrow.RecordBatch) (*array.Boolean, error) {
	bt, err := newBatch(rec, b.cols)
	if err != nil {
		return nil, err
	}
	p, ok := asPred(b.root)
	if !ok {
		return nil, &BindError{At: b.src.Pos(), Text: b.src.String(), Msg: "not a condition but " + typeName(b.root.typ())}
	}
	out, err := p.test(bt)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", quoteText(b.src.String()), err)
	}
	return boolArray(out), nil
}

// MayMatch tells whether a row of a file or row group could satisfy the
// condition, as far as its statistics say; false only if it is certain that
// none does. bounds is asked for top-level columns in the schema's spelling.
// What is unknown keeps (I4). Logic is three-valued throughout: for each part
// the set of its possible outcomes is known, so NOT needs no rewriting.
// An expression that is no condition may match.
func (b *Bound) MayMatch(bounds func(column string) ordered.Bounds) bool {
	p, ok := asPred(b.root)
	return !ok || p.possible(bounds)&canTrue != 0
}

type binder struct {
	sch  *arrow.Schema
	zone *time.Location
	now  time.Time
	cols []string
	// fallible counts the nodes made so far whose evaluation may fail.
	fallible int
	// cost counts the nodes made so far, those in use twice twice: it bounds what
	// evaluating takes.
	cost  int
	known map[Expr]bindResult
}

// bindResult is what is known of an expression that is bound already; where one
// is looked at again (the operand of BETWEEN), its node is shared.
type bindResult struct {
	n              node
	cost, fallible int
}

// maxCost bounds what nested BETWEEN, CASE x and the like, which evaluate their
// operands more than once, add up to.
const maxCost = 1_000_000

func (bd *binder) bind(e Expr) (node, error) {
	if r, ok := bd.known[e]; ok {
		bd.cost += r.cost
		bd.fallible += r.fallible
		if bd.cost > maxCost {
			return nil, &BindError{At: e.Pos(), Text: e.String(), Msg: "the expression takes too much to evaluate"}
		}
		return r.n, nil
	}
	cost, fallible := bd.cost, bd.fallible
	bd.cost++
	n, err := bd.bindNew(e)
	if err != nil {
		return nil, err
	}
	if bd.known == nil {
		bd.known = map[Expr]bindResult{}
	}
	bd.known[e] = bindResult{n, bd.cost - cost, bd.fallible - fallible}
	return n, nil
}

func (bd *binder) bindNew(e Expr) (node, error) {
	switch e := e.(type) {
	case *Name:
		return bd.name(e)
	case *Literal:
		c, err := bd.literal(e)
		if err != nil {
			return nil, err
		}
		return c, nil
	case *Logic:
		l := &logicNode{or: e.Or}
		for i, a := range e.Args {
			before := bd.fallible
			p, err := bd.condition(a)
			if err != nil {
				return nil, err
			}
			l.guard = l.guard || i > 0 && bd.fallible > before
			l.args = append(l.args, p)
		}
		return l, nil
	case *Not:
		p, err := bd.condition(e.X)
		if err != nil {
			return nil, err
		}
		return &notNode{p}, nil
	case *Is:
		return bd.is(e)
	case *Infix:
		return bd.infix(e)
	case *Distinct:
		n, err := bd.compare("<=>", e.L, e.R, e.At)
		if err != nil {
			return nil, err
		}
		if !e.Not {
			n = &notNode{n}
		}
		return n, nil
	case *In:
		return bd.in(e)
	case *Between:
		return bd.between(e)
	case *Like:
		return bd.like(e)
	}
	return bd.operand(e)
}

func (bd *binder) operand(e Expr) (node, error) {
	switch e := e.(type) {
	case *Cast:
		return bd.castExpr(e)
	case *Case:
		return bd.caseExpr(e)
	case *Prefix:
		return bd.prefixOp(e)
	case *Call:
		return bd.call(e)
	case *Index:
		return bd.index(e)
	case *Field:
		return bd.field(e)
	}
	return nil, unsupported(e)
}

// unsupported names what Bind cannot do yet.
func unsupported(e Expr) error {
	what := "this expression"
	if _, ok := e.(*Lambda); ok {
		what = "a lambda"
	}
	return &UnsupportedError{At: e.Pos(), What: what}
}

// condition binds an operand of AND, OR, NOT.
func (bd *binder) condition(e Expr) (pred, error) {
	n, err := bd.bind(e)
	if err != nil {
		return nil, err
	}
	p, ok := asPred(n)
	if !ok {
		return nil, &BindError{At: e.Pos(), Text: e.String(), Msg: "expected a condition, this is " + typeName(n.typ())}
	}
	return p, nil
}

func (bd *binder) name(e *Name) (node, error) {
	fail := func(format string, args ...any) error {
		return &BindError{At: e.At, Text: e.String(), Msg: fmt.Sprintf(format, args...)}
	}
	i, n := findField(bd.sch.Fields(), e.Parts[0])
	switch {
	case n == 0:
		return nil, fail("there is no column %s; the columns are %s", quoteName(e.Parts[0]), fieldNames(bd.sch.Fields()))
	case n > 1:
		return nil, fail("the name %s fits %d columns that differ in case only", quoteName(e.Parts[0]), n)
	}
	f := bd.sch.Field(i)
	ref := &columnNode{name: f.Name, dt: f.Type}
	for _, part := range e.Parts[1:] {
		st, ok := ref.dt.(*arrow.StructType)
		if !ok {
			return nil, fail("%s is no struct but %s", quoteName(f.Name), typeName(ref.dt))
		}
		i, n := findField(st.Fields(), part)
		if n != 1 {
			return nil, fail("the struct has %d fields %s; its fields are %s", n, quoteName(part), fieldNames(st.Fields()))
		}
		ref.path, ref.dt = append(ref.path, i), st.Field(i).Type
	}
	ref.col = bd.column(ref.name)
	return ref, nil
}

func (bd *binder) column(name string) int {
	for i, c := range bd.cols {
		if c == name {
			return i
		}
	}
	bd.cols = append(bd.cols, name)
	return len(bd.cols) - 1
}

// findField finds a field by name, exactly or else without regard to case, and
// says how many fit.
func findField(fields []arrow.Field, name string) (index, n int) {
	for i, f := range fields {
		if f.Name == name {
			return i, 1
		}
	}
	for i, f := range fields {
		if strings.EqualFold(f.Name, name) {
			index, n = i, n+1
		}
	}
	return index, n
}

func fieldNames(fields []arrow.Field) string {
	const limit = 12
	var names []string
	for i, f := range fields {
		if i == limit {
			names = append(names, fmt.Sprintf("and %d more", len(fields)-limit))
			break
		}
		names = append(names, quoteName(f.Name))
	}
	return strings.Join(names, ", ")
}

func (bd *binder) is(e *Is) (node, error) {
	n, err := bd.bind(e.X)
	if err != nil {
		return nil, err
	}
	var p pred = &nullTest{x: n}
	if e.What != "NULL" {
		c, ok := asPred(n)
		if !ok {
			return nil, &BindError{At: e.X.Pos(), Text: e.X.String(), Msg: "IS " + e.What + " needs a condition, this is " + typeName(n.typ())}
		}
		p = &outcomeTest{c, map[string]uint8{"TRUE": isTrue, "FALSE": isFalse, "UNKNOWN": isNull}[e.What]}
	}
	if e.Not {
		p = &notNode{p}
	}
	return p, nil
}

func (bd *binder) infix(e *Infix) (node, error) {
	if _, ok := comparisons[e.Op]; ok {
		p, err := bd.compare(e.Op, e.L, e.R, e.At)
		if err != nil {
			return nil, err
		}
		if c, ok := p.(*compareNode); ok {
			return bd.fold(c, e, c.l, c.r), nil
		}
		return p, nil
	}
	switch e.Op {
	case "||":
		return bd.concatOp(e)
	case "&", "|", "^", "<<", ">>", ">>>":
		return bd.bitOp(e)
	case "+", "-":
		if n, err := bd.shifted(e); n != nil || err != nil {
			return n, err
		}
	}
	return bd.arithmetic(e.Op, e, e.L, e.R, false)
}

func (bd *binder) between(e *Between) (node, error) {
	low, err := bd.compare(">=", e.X, e.Low, e.At)
	if err != nil {
		return nil, err
	}
	high, err := bd.compare("<=", e.X, e.High, e.At)
	if err != nil {
		return nil, err
	}
	var p pred = &logicNode{args: []pred{low, high}}
	if e.Not {
		p = &notNode{p}
	}
	return p, nil
}

// concatOp binds a || b.
func (bd *binder) concatOp(e *Infix) (node, error) {
	l, err := bd.bind(e.L)
	if err != nil {
		return nil, err
	}
	r, err := bd.bind(e.R)
	if err != nil {
		return nil, err
	}
	return bd.concat(e, []Expr{e.L, e.R}, []node{l, r})
}

func (bd *binder) like(e *Like) (node, error) {
	x, err := bd.bind(e.X)
	if err != nil {
		return nil, err
	}
	pn, err := bd.bind(e.Pattern)
	if err != nil {
		return nil, err
	}
	if x, err = bd.argument(e.X, x, kString, e); err != nil {
		return nil, err
	}
	if pn, err = bd.argument(e.Pattern, pn, kString, e); err != nil {
		return nil, err
	}
	escape := '\\'
	for _, r := range e.Escape {
		escape = r
	}
	c, fixed := pn.(*constant)
	if fixed && c.null || x.typ().ID() == arrow.NULL {
		return &nullPred{}, nil
	}
	var p pred
	switch {
	case fixed && e.Op != "RLIKE":
		pat, msg := newPattern(c.s, escape)
		if msg != "" {
			return nil, &BindError{At: e.Pattern.Pos(), Text: e.Pattern.String(), Msg: msg}
		}
		if p = (&likeNode{x: x, pat: pat}); e.Op == "ILIKE" {
			p, _ = asPred(bd.matchNode(e, x, pn, escape))
		}
	case fixed:
		if err := checkRegex(pn, e.Pattern); err != nil {
			return nil, err
		}
		fallthrough
	default:
		p, _ = asPred(bd.matchNode(e, x, pn, escape))
	}
	if e.Not {
		p = &notNode{p}
	}
	return p, nil
}
