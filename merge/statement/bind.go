package statement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable/expr"
)

// Options are what a statement's meaning depends on besides the two schemas.
type Options struct {
	Zone *time.Location // see expr.Options
	// Now is what current_timestamp() and its kin are for the whole statement.
	Now time.Time
}

// Key is an equality of ON between a value of the target row and one of the
// source row, both converted to one type.
type Key struct {
	Target, Source *expr.Bound
	// NullSafe says that NULL equals NULL (<=>); otherwise it equals nothing.
	NullSafe bool
	// Column is the target column that Target is, unconverted, "" if it is more
	// than that: its statistics can rule files out. (Source values that the column's
	// type cannot hold are NULL then, see expr.BindEquality.)
	Column string
}

// Branch is a bound clause.
type Branch struct {
	When      When
	Action    Action
	Condition *expr.Bound // nil: always
	// Values has one element for each column of the target as it will be: nil keeps
	// the value in an update and is NULL in an insert.
	Values []*expr.Bound
	Text   string // of the condition, for commitInfo; "" without one
}

// Bound is a statement resolved against the columns of target and source. It is
// immutable and safe for concurrent use.
//
// All its expressions are bound to Pair: the columns of the target, then those of
// the source, each named QUALIFIER.COLUMN.
type Bound struct {
	Pair *arrow.Schema
	// Target is the target's schema as it will be: with new columns of the source
	// at its end, if the statement evolves the schema.
	Target *arrow.Schema
	// Added are the columns of Target that the table does not have yet.
	Added []string
	Keys  []Key
	// TargetOnly are the conjuncts of ON that read nothing but the target, Rest all
	// others that are no Key.
	TargetOnly, Rest []*expr.Bound
	Branches         []Branch
	On               string // as text, for commitInfo

	target, source string // qualifiers
}

// TargetColumn is the name in Pair of a column of the target, SourceColumn that
// of a column of the source.
func (b *Bound) TargetColumn(name string) string { return b.target + "." + name }

// SourceColumn is described at TargetColumn.
func (b *Bound) SourceColumn(name string) string { return b.source + "." + name }

// Has says whether the statement has a clause of the kind.
func (b *Bound) Has(w When) bool {
	return slices.ContainsFunc(b.Branches, func(c Branch) bool { return c.When == w })
}

// binder resolves names of one statement.
type binder struct {
	st             *Statement
	target, source *arrow.Schema
	opts           *expr.Options
	evolving       bool
	out            *Bound
}

// Bind resolves a statement. evolve adds columns that only the source has, where
// a clause sets all columns, to the target (Delta's schema evolution in MERGE);
// without it such columns are left alone, and a column of the target that the
// source lacks is an error by name.
func Bind(st *Statement, target, source *arrow.Schema, evolve bool, o *Options) (*Bound, error) {
	t, s := st.Target.Qualifier(), st.Source.Qualifier()
	for _, r := range []*Relation{&st.Target, &st.Source} {
		if strings.Contains(r.Qualifier(), ".") {
			return nil, &expr.BindError{At: r.At, Text: r.Qualifier(), Msg: "an alias must not hold a dot"}
		}
	}
	if strings.EqualFold(t, s) {
		return nil, &expr.BindError{At: st.Source.At, Text: s, Msg: "target and source have the same name: give one of them an alias"}
	}
	b := &binder{
		st: st, target: target, source: source,
		opts: &expr.Options{Zone: o.Zone, Now: o.Now}, evolving: evolve || st.Evolve,
		out: &Bound{Target: target, target: t, source: s, On: st.On.String()},
	}
	if len(st.Clauses) == 0 {
		return nil, &expr.BindError{At: st.On.Pos(), Text: "MERGE", Msg: "there is no WHEN clause"}
	}
	if b.evolving {
		b.evolve()
	}
	fields := make([]arrow.Field, 0, target.NumFields()+source.NumFields())
	for _, f := range target.Fields() {
		fields = append(fields, arrow.Field{Name: b.out.TargetColumn(f.Name), Type: f.Type, Nullable: true})
	}
	for _, f := range source.Fields() {
		fields = append(fields, arrow.Field{Name: b.out.SourceColumn(f.Name), Type: f.Type, Nullable: true})
	}
	b.out.Pair = arrow.NewSchema(fields, nil)
	if err := b.on(st.On); err != nil {
		return nil, err
	}
	for i := range st.Clauses {
		if err := b.clause(&st.Clauses[i]); err != nil {
			return nil, err
		}
	}
	return b.out, b.order()
}

// evolve adds what only the source has, if a clause takes all columns or sets
// that one by name.
func (b *binder) evolve() {
	fields := slices.Clone(b.target.Fields())
	for _, f := range b.source.Fields() {
		if _, ok := find(b.target, f.Name); ok || !slices.ContainsFunc(b.st.Clauses, func(c Clause) bool { return c.sets(f.Name) }) {
			continue
		}
		f.Nullable = true
		fields = append(fields, f)
		b.out.Added = append(b.out.Added, f.Name)
	}
	b.out.Target = arrow.NewSchema(fields, nil)
}

// sets tells whether the clause gives a column a value, as far as the text says.
func (c *Clause) sets(column string) bool {
	same := func(name string) bool { return strings.EqualFold(name, column) }
	if c.All {
		return !slices.ContainsFunc(c.Except, same)
	}
	return slices.ContainsFunc(c.Set, func(a Assignment) bool { return same(a.Column) })
}

func find(sch *arrow.Schema, name string) (arrow.Field, bool) {
	for _, f := range sch.Fields() {
		if f.Name == name {
			return f, true
		}
	}
	for _, f := range sch.Fields() {
		if strings.EqualFold(f.Name, name) {
			return f, true
		}
	}
	return arrow.Field{}, false
}

// side says which relations an expression may read.
type side uint8

const (
	ofTarget side = 1 << iota
	ofSource
)

// bind resolves the names of an expression against the relations allowed and
// says which it reads.
func (b *binder) bind(e expr.Expr, allowed side) (*expr.Bound, side, error) {
	full, reads, err := b.qualify(e, allowed)
	if err != nil {
		return nil, 0, err
	}
	out, err := expr.BindWith(full, b.out.Pair, b.opts)
	return out, reads, err
}

func (b *binder) qualify(e expr.Expr, allowed side) (expr.Expr, side, error) {
	var reads side
	full, err := expr.MapNames(e, func(n *expr.Name) (expr.Expr, error) {
		parts, of, err := b.resolve(n, allowed)
		if err != nil {
			return nil, err
		}
		reads |= of
		return &expr.Name{At: n.At, Parts: parts}, nil
	})
	return full, reads, err
}

// resolve finds the relation of a name: by its qualifier, else by its column.
func (b *binder) resolve(n *expr.Name, allowed side) ([]string, side, error) {
	fail := func(msg string, args ...any) error {
		return &expr.BindError{At: n.At, Text: strings.Join(n.Parts, "."), Msg: fmt.Sprintf(msg, args...)}
	}
	n = b.short(n)
	relations := []struct {
		of        side
		sch       *arrow.Schema
		qualifier string
	}{{ofTarget, b.target, b.out.target}, {ofSource, b.source, b.out.source}}
	for _, r := range relations {
		if len(n.Parts) < 2 || !strings.EqualFold(n.Parts[0], r.qualifier) {
			continue
		}
		if allowed&r.of == 0 {
			return nil, 0, fail("columns of %s cannot be used here", r.qualifier)
		}
		f, ok := find(r.sch, n.Parts[1])
		if !ok {
			return nil, 0, fail("%s has no column %s", r.qualifier, n.Parts[1])
		}
		return append([]string{r.qualifier + "." + f.Name}, n.Parts[2:]...), r.of, nil
	}
	var parts []string
	var of side
	for _, r := range relations {
		f, ok := find(r.sch, n.Parts[0])
		if !ok || allowed&r.of == 0 {
			continue
		}
		if parts != nil {
			return nil, 0, fail("ambiguous: both %s and %s have it", b.out.target, b.out.source)
		}
		parts, of = append([]string{r.qualifier + "." + f.Name}, n.Parts[1:]...), r.of
	}
	if parts == nil {
		return nil, 0, fail("no such column here")
	}
	return parts, of, nil
}

// short replaces a table's full name, where it has no alias, by its last part.
func (b *binder) short(n *expr.Name) *expr.Name {
	for _, r := range []*Relation{&b.st.Target, &b.st.Source} {
		k := strings.Count(r.Name, ".") + 1
		if r.Alias == "" && k > 1 && len(n.Parts) > k && strings.EqualFold(strings.Join(n.Parts[:k], "."), r.Name) {
			return &expr.Name{At: n.At, Parts: append([]string{r.Qualifier()}, n.Parts[k:]...)}
		}
	}
	return n
}

// on takes ON apart into keys, conditions on the target alone, and the rest.
func (b *binder) on(e expr.Expr) error {
	for _, c := range conjuncts(e) {
		if eq, ok := c.(*expr.Infix); ok && (eq.Op == "=" || eq.Op == "<=>") {
			done, err := b.key(eq)
			if err != nil {
				return err
			}
			if done {
				continue
			}
		}
		bound, reads, err := b.bind(c, ofTarget|ofSource)
		if err != nil {
			return err
		}
		if !bound.IsPredicate() {
			return &expr.BindError{At: c.Pos(), Text: c.String(), Msg: "not a condition"}
		}
		if reads == ofTarget {
			b.out.TargetOnly = append(b.out.TargetOnly, bound)
		} else {
			b.out.Rest = append(b.out.Rest, bound)
		}
	}
	return nil
}

// conjuncts are the operands of AND, at any depth.
func conjuncts(e expr.Expr) []expr.Expr {
	l, ok := e.(*expr.Logic)
	if !ok || l.Or {
		return []expr.Expr{e}
	}
	var out []expr.Expr
	for _, a := range l.Args {
		out = append(out, conjuncts(a)...)
	}
	return out
}

// key makes a Key of an equality between the two sides, if it is one.
func (b *binder) key(eq *expr.Infix) (bool, error) {
	full, _, err := b.qualify(eq, ofTarget|ofSource)
	if err != nil {
		return false, err
	}
	whole := full.(*expr.Infix)
	left, err := b.reads(eq.L)
	if err != nil {
		return false, err
	}
	right, err := b.reads(eq.R)
	if err != nil {
		return false, err
	}
	straight, turned := left == ofTarget && right == ofSource, left == ofSource && right == ofTarget
	if !straight && !turned {
		return false, nil
	}
	if turned {
		whole = &expr.Infix{At: whole.At, Op: whole.Op, L: whole.R, R: whole.L}
	}
	l, r, ok, err := expr.BindEquality(whole, b.out.Pair, b.opts)
	if err != nil || !ok {
		return false, err
	}
	k := Key{Target: l, Source: r, NullSafe: eq.Op == "<=>"}
	if n, is := whole.L.(*expr.Name); is && len(n.Parts) == 1 {
		if f, has := find(b.out.Pair, n.Parts[0]); has && arrow.TypeEqual(f.Type, l.Type()) {
			k.Column = strings.TrimPrefix(f.Name, b.out.target+".")
		}
	}
	b.out.Keys = append(b.out.Keys, k)
	return true, nil
}

func (b *binder) reads(e expr.Expr) (side, error) {
	_, of, err := b.qualify(e, ofTarget|ofSource)
	return of, err
}

// clause binds one WHEN clause.
func (b *binder) clause(c *Clause) error {
	allowed := map[When]side{Matched: ofTarget | ofSource, NotMatched: ofSource, NotMatchedBySource: ofTarget}[c.When]
	branch := Branch{When: c.When, Action: c.Action}
	if c.Condition != nil {
		cond, _, err := b.bind(c.Condition, allowed)
		if err != nil {
			return err
		}
		if !cond.IsPredicate() {
			return &expr.BindError{At: c.Condition.Pos(), Text: c.Condition.String(), Msg: "not a condition"}
		}
		branch.Condition, branch.Text = cond, c.Condition.String()
	}
	if c.Action != Delete {
		branch.Values = make([]*expr.Bound, b.out.Target.NumFields())
		set := c.Set
		if c.All {
			var err error
			if set, err = b.all(c); err != nil {
				return err
			}
		}
		for _, a := range set {
			if err := b.assign(&branch, a, allowed); err != nil {
				return err
			}
		}
	}
	b.out.Branches = append(b.out.Branches, branch)
	return nil
}

func (b *binder) assign(branch *Branch, a Assignment, allowed side) error {
	f, ok := find(b.out.Target, a.Column)
	if !ok {
		return &expr.BindError{At: a.At, Text: a.Column, Msg: "the target has no such column"}
	}
	i := b.out.Target.FieldIndices(f.Name)[0]
	if branch.Values[i] != nil {
		return &expr.BindError{At: a.At, Text: a.Column, Msg: "the column is set twice"}
	}
	v, _, err := b.bind(a.Value, allowed)
	if err != nil {
		return err
	}
	if branch.Values[i], err = expr.Store(v, f.Type, f.Name); err != nil {
		return err
	}
	return nil
}

// all spells UPDATE SET * and INSERT * out (merge-semantics 5).
func (b *binder) all(c *Clause) ([]Assignment, error) {
	for _, name := range c.Except {
		if _, ok := find(b.out.Target, name); !ok {
			return nil, &expr.BindError{At: c.At, Text: name, Msg: "EXCEPT names a column that the target does not have"}
		}
	}
	var out []Assignment
	for _, f := range b.out.Target.Fields() {
		if slices.ContainsFunc(c.Except, func(x string) bool { return strings.EqualFold(x, f.Name) }) {
			continue
		}
		s, ok := find(b.source, f.Name)
		if !ok {
			if b.evolving {
				continue // an update keeps it, an insert makes it NULL
			}
			return nil, &expr.BindError{At: c.At, Text: f.Name, Msg: "the source has no such column, which * needs (--evolve-schema leaves it alone)"}
		}
		out = append(out, Assignment{At: c.At, Column: f.Name, Value: &expr.Name{At: c.At, Parts: []string{b.out.source, s.Name}}})
	}
	return out, nil
}

// order checks that an unconditional clause is the last of its kind.
func (b *binder) order() error {
	closed := map[When]bool{}
	for i, c := range b.out.Branches {
		if closed[c.When] {
			return &expr.BindError{At: b.st.Clauses[i].At, Text: "WHEN", Msg: "only the last clause of a kind may be without a condition"}
		}
		closed[c.When] = c.Condition == nil
	}
	return nil
}
