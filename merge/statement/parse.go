package statement

import (
	"fmt"
	"strings"

	"github.com/deltafold/deltafold/deltatable/expr"
)

// maxClauses bounds what a statement may hold: every clause is looked at for
// every row.
const maxClauses = 500

// parser reads one statement.
type parser struct {
	*expr.Parser
	st *Statement
}

// Parse reads one MERGE INTO statement, which must be the whole text but for
// comments and a semicolon at its end. The error is a [*expr.SyntaxError], or
// an [*expr.UnsupportedError] for parts of SQL that are not supported.
func Parse(text string) (*Statement, error) {
	ep, err := expr.NewParser(text)
	if err != nil {
		return nil, err
	}
	p := &parser{Parser: ep, st: &Statement{}}
	if err := p.statement(); err != nil {
		return nil, err
	}
	return p.st, nil
}

// ParseAssignments reads a list of assignments to top-level columns, as SET
// takes it: a = x + 1, `b c` = NULL. The errors are those of Parse.
func ParseAssignments(text string) ([]Assignment, error) {
	ep, err := expr.NewParser(text)
	if err != nil {
		return nil, err
	}
	p := &parser{Parser: ep, st: &Statement{}}
	out, err := p.assignments()
	if err == nil && !p.Done() {
		err = p.Fail("expected an operator, a comma or the end")
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func unsupported(at expr.Position, format string, args ...any) error {
	return &expr.UnsupportedError{At: at, What: fmt.Sprintf(format, args...)}
}

func (p *parser) statement() error {
	if p.Next("WITH") {
		return unsupported(p.At(), "WITH before MERGE")
	}
	if err := p.Expect("MERGE"); err != nil {
		return err
	}
	p.st.Evolve = p.Words("WITH", "SCHEMA", "EVOLUTION")
	if err := p.Expect("INTO"); err != nil {
		return err
	}
	var err error
	if p.st.Target, err = p.relation("the target table", "USING", false); err != nil {
		return err
	}
	if err := p.Expect("USING"); err != nil {
		return err
	}
	if p.st.Source, err = p.relation("the source table", "ON", true); err != nil {
		return err
	}
	if err := p.Expect("ON"); err != nil {
		return err
	}
	if p.st.On, err = p.Expr(); err != nil {
		return err
	}
	for p.Next("WHEN") {
		if len(p.st.Clauses) == maxClauses {
			return p.Fail(fmt.Sprintf("there are more than %d clauses", maxClauses))
		}
		if err := p.clause(); err != nil {
			return err
		}
	}
	p.Op(";")
	if !p.Done() {
		return p.Fail("expected WHEN or the end")
	}
	if len(p.st.Clauses) == 0 {
		return p.Fail("expected WHEN")
	}
	return nil
}

// relation reads a table with its version and alias; until is the word that
// follows it, which is no alias.
func (p *parser) relation(what, until string, versioned bool) (Relation, error) {
	r := Relation{At: p.At()}
	if p.NextOp("(") {
		return r, unsupported(p.At(), "a subquery (%s must be a name)", what)
	}
	parts, err := p.Names("the name of " + what)
	if err != nil {
		return r, err
	}
	r.Name, r.last = strings.Join(parts, "."), parts[len(parts)-1]
	if p.NextOp("(") {
		return r, unsupported(r.At, "a table function (%s must be a name)", what)
	}
	if err := p.asOf(&r, versioned); err != nil {
		return r, err
	}
	if p.Words("AS") || p.NextName() && !p.Next(until) {
		if r.Alias, err = p.Name("an alias"); err != nil {
			return r, err
		}
	}
	if p.NextOp("(") {
		return r, unsupported(p.At(), "a list of column aliases")
	}
	return r, nil
}

// asOf reads [FOR] VERSION AS OF n or [FOR] TIMESTAMP AS OF t.
func (p *parser) asOf(r *Relation, allowed bool) error {
	at := p.At()
	kind := ""
	for _, k := range []string{"VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"} {
		if p.Words(k, "AS", "OF") || p.Words("FOR", k, "AS", "OF") {
			kind = k
			break
		}
	}
	if kind == "" {
		return nil
	}
	if !allowed {
		return unsupported(at, "AS OF on the target")
	}
	if strings.HasSuffix(kind, "VERSION") {
		var err error
		if r.Version, err = p.Constant("a version"); err == nil && !isDigits(r.Version) {
			err = &expr.BindError{At: at, Text: r.Version, Msg: "VERSION AS OF takes a number"}
		}
		return err
	}
	p.Words("TIMESTAMP") // a typed literal
	text, err := p.Constant("a timestamp as text")
	r.Timestamp = text
	return err
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (p *parser) clause() error {
	c := Clause{At: p.At()}
	p.Words("WHEN")
	switch {
	case p.Words("MATCHED"):
		c.When = Matched
	case p.Words("NOT", "MATCHED"):
		c.When = NotMatched
		if p.Words("BY", "SOURCE") {
			c.When = NotMatchedBySource
		} else if !p.Words("BY", "TARGET") && p.Next("BY") {
			return p.Fail("expected BY SOURCE or BY TARGET")
		}
	default:
		return p.Fail("expected MATCHED or NOT MATCHED")
	}
	var err error
	if p.Words("AND") {
		if c.Condition, err = p.Expr(); err != nil {
			return err
		}
	}
	if err := p.Expect("THEN"); err != nil {
		return err
	}
	at := p.At()
	switch {
	case p.Words("DELETE"):
		c.Action = Delete
	case p.Words("UPDATE"):
		c.Action = Update
		if err := p.Expect("SET"); err != nil {
			return err
		}
		if p.Op("*") {
			err = p.everything(&c)
		} else {
			c.Set, err = p.assignments()
		}
	case p.Words("INSERT"):
		c.Action = Insert
		if p.Op("*") {
			err = p.everything(&c)
		} else {
			c.Set, err = p.insert()
		}
	default:
		return p.Fail("expected UPDATE, DELETE or INSERT")
	}
	switch {
	case err != nil:
		return err
	case c.Action == Insert && c.When != NotMatched:
		return &expr.SyntaxError{Pos: at.Offset, Line: at.Line, Column: at.Column, Text: "INSERT", Msg: "only WHEN NOT MATCHED [BY TARGET] can insert"}
	case c.Action != Insert && c.When == NotMatched:
		return &expr.SyntaxError{Pos: at.Offset, Line: at.Line, Column: at.Column, Text: "WHEN", Msg: "WHEN NOT MATCHED [BY TARGET] can only insert"}
	case c.All && c.When == NotMatchedBySource:
		return &expr.SyntaxError{Pos: at.Offset, Line: at.Line, Column: at.Column, Text: "UPDATE", Msg: "WHEN NOT MATCHED BY SOURCE has no source columns for SET *"}
	}
	p.st.Clauses = append(p.st.Clauses, c)
	return nil
}

// everything reads what may follow the star: EXCEPT (a, b).
func (p *parser) everything(c *Clause) error {
	c.All = true
	if !p.Words("EXCEPT") {
		return nil
	}
	if err := p.ExpectOp("("); err != nil {
		return err
	}
	for {
		_, name, err := p.column()
		if err != nil {
			return err
		}
		c.Except = append(c.Except, name)
		if !p.Op(",") {
			return p.ExpectOp(")")
		}
	}
}

// column reads a column of the target: a, or t.a with the target's name.
func (p *parser) column() (expr.Position, string, error) {
	at := p.At()
	parts, err := p.Names("a column of the target")
	if err != nil {
		return at, "", err
	}
	if q := p.st.Target.Qualifier(); len(parts) > 1 && q != "" && strings.EqualFold(parts[0], q) {
		parts = parts[1:]
	}
	if len(parts) > 1 {
		return at, "", unsupported(at, "assigning to %s (only whole columns of the target can be set)", (&expr.Name{Parts: parts}).String())
	}
	return at, parts[0], nil
}

func (p *parser) assignments() ([]Assignment, error) {
	var out []Assignment
	for {
		at, name, err := p.column()
		if err != nil {
			return nil, err
		}
		if !p.Op("=") && !p.Op("==") {
			return nil, p.Fail("expected =")
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, Assignment{At: at, Column: name, Value: v})
		if !p.Op(",") {
			return out, nil
		}
	}
}

// value reads an expression; DEFAULT alone is none.
func (p *parser) value() (expr.Expr, error) {
	at, is := p.At(), p.Next("DEFAULT")
	v, err := p.Expr()
	if n, ok := v.(*expr.Name); err == nil && is && ok && len(n.Parts) == 1 {
		return nil, unsupported(at, "DEFAULT as a value")
	}
	return v, err
}

// insert reads (a, b) VALUES (x, y).
func (p *parser) insert() ([]Assignment, error) {
	if p.Next("VALUES") {
		return nil, unsupported(p.At(), "INSERT without a list of columns")
	}
	if err := p.ExpectOp("("); err != nil {
		return nil, err
	}
	var out []Assignment
	for {
		at, name, err := p.column()
		if err != nil {
			return nil, err
		}
		out = append(out, Assignment{At: at, Column: name})
		if !p.Op(",") {
			break
		}
	}
	if err := p.ExpectOp(")"); err != nil {
		return nil, err
	}
	if err := p.Expect("VALUES"); err != nil {
		return nil, err
	}
	if err := p.ExpectOp("("); err != nil {
		return nil, err
	}
	for i := range out {
		if i > 0 && !p.Op(",") {
			return nil, p.Fail(fmt.Sprintf("expected a comma: INSERT names %d columns and has %d values", len(out), i))
		}
		var err error
		if out[i].Value, err = p.value(); err != nil {
			return nil, err
		}
	}
	if p.NextOp(",") {
		return nil, p.Fail(fmt.Sprintf("INSERT names %d columns and has more values", len(out)))
	}
	return out, p.ExpectOp(")")
}
