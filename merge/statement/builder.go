package statement

import (
	"fmt"
	"strings"

	"github.com/deltafold/deltafold/deltatable/expr"
)

// Builder puts a MERGE statement together in Go. Conditions, assignments and
// ON are SQL text of the expressions of package expr; what does not parse is
// told by Build. A Builder serves one statement and one goroutine.
//
//	st, err := statement.Into("customers", "c").Using("changes", "u").On("c.id = u.id").
//		WhenMatched("u.deleted").Delete().
//		WhenMatched().Update("name = u.name", "tier = u.tier").
//		WhenNotMatched("NOT u.deleted").InsertAll().
//		Build()
type Builder struct {
	st  Statement
	err error
}

// Into begins a statement on a target. The alias, "" for none, qualifies its
// columns.
func Into(target, alias string) *Builder {
	return &Builder{st: Statement{Target: Relation{Name: target, Alias: alias}}}
}

// Using names the source. The alias, "" for none, qualifies its columns.
func (b *Builder) Using(source, alias string) *Builder {
	b.st.Source = Relation{Name: source, Alias: alias}
	return b
}

// On says which rows match.
func (b *Builder) On(condition string) *Builder {
	b.st.On = b.parse("ON", condition)
	return b
}

// WithSchemaEvolution adds columns that only the source has to the target.
func (b *Builder) WithSchemaEvolution() *Builder {
	b.st.Evolve = true
	return b
}

// WhenMatched begins a clause for target rows with a source row, under all of
// the conditions; none: always. What it does, the returned value is told.
func (b *Builder) WhenMatched(conditions ...string) *ClauseBuilder {
	return b.when(Matched, conditions)
}

// WhenNotMatched begins a clause for source rows without a target row.
func (b *Builder) WhenNotMatched(conditions ...string) *ClauseBuilder {
	return b.when(NotMatched, conditions)
}

// WhenNotMatchedBySource begins a clause for target rows without a source row.
func (b *Builder) WhenNotMatchedBySource(conditions ...string) *ClauseBuilder {
	return b.when(NotMatchedBySource, conditions)
}

// Build gives the statement, or the first thing that is wrong with it. Names and
// types are checked when it is bound.
func (b *Builder) Build() (*Statement, error) {
	if b.err != nil {
		return nil, b.err
	}
	switch {
	case b.st.Target.Name == "":
		return nil, fmt.Errorf("MERGE: no target")
	case b.st.Source.Name == "":
		return nil, fmt.Errorf("MERGE INTO %s: no source", b.st.Target.Name)
	case b.st.On == nil:
		return nil, fmt.Errorf("MERGE INTO %s: no ON condition", b.st.Target.Name)
	}
	out := b.st
	return &out, nil
}

// ClauseBuilder is a WHEN clause that does not say yet what it does: one of its
// methods ends it.
type ClauseBuilder struct {
	b      *Builder
	clause Clause
}

func (b *Builder) when(w When, conditions []string) *ClauseBuilder {
	c := &ClauseBuilder{b: b, clause: Clause{When: w}}
	var all []expr.Expr
	for _, text := range conditions {
		if e := b.parse("WHEN", text); e != nil {
			all = append(all, e)
		}
	}
	switch len(all) {
	case 0:
	case 1:
		c.clause.Condition = all[0]
	default:
		c.clause.Condition = &expr.Logic{Args: all}
	}
	return c
}

// Update sets columns of the matched rows: 'column = expression' each.
func (c *ClauseBuilder) Update(set ...string) *Builder { return c.end(Update, set) }

// UpdateAll sets every column from the source's column of its name, but for those
// named.
func (c *ClauseBuilder) UpdateAll(except ...string) *Builder {
	c.clause.All, c.clause.Except = true, except
	return c.end(Update, nil)
}

// Delete removes the rows.
func (c *ClauseBuilder) Delete() *Builder { return c.end(Delete, nil) }

// Insert adds a row for each source row: 'column = expression' each; other
// columns are NULL.
func (c *ClauseBuilder) Insert(set ...string) *Builder { return c.end(Insert, set) }

// InsertAll adds a row with every column from the source's column of its name, but
// for those named.
func (c *ClauseBuilder) InsertAll(except ...string) *Builder {
	c.clause.All, c.clause.Except = true, except
	return c.end(Insert, nil)
}

func (c *ClauseBuilder) end(a Action, set []string) *Builder {
	c.clause.Action = a
	if (a == Insert) != (c.clause.When == NotMatched) {
		c.b.fail(fmt.Errorf("MERGE: a clause for rows that are not matched inserts, and no other does"))
	}
	if a == Update && c.clause.When == NotMatchedBySource && c.clause.All {
		c.b.fail(fmt.Errorf("MERGE: a BY SOURCE clause has no source row to take all columns from"))
	}
	if a != Delete && !c.clause.All && len(set) == 0 {
		c.b.fail(fmt.Errorf("MERGE: an update or insert sets no column"))
	}
	for _, text := range set {
		got, err := ParseAssignments(text)
		if err != nil {
			c.b.fail(fmt.Errorf("MERGE: %s: %w", strings.TrimSpace(text), err))
			continue
		}
		c.clause.Set = append(c.clause.Set, got...)
	}
	c.b.st.Clauses = append(c.b.st.Clauses, c.clause)
	return c.b
}

func (b *Builder) parse(where, text string) expr.Expr {
	e, err := expr.Parse(text)
	if err != nil {
		b.fail(fmt.Errorf("MERGE: %s %s: %w", where, text, err))
		return nil
	}
	return e
}

// fail keeps the first error.
func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}
