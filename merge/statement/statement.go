// Package statement is the MERGE INTO statement (merge-semantics 5): its parts
// as a tree, parsed from the SQL that Spark takes or put together in Go.
//
// [Parse] gives a [Statement]; [Bind] resolves its names and types against the
// columns of target and source. Expressions are those of package expr.
//
// # Errors
//
// Text that does not parse is a [*expr.SyntaxError], a name or type that does
// not fit a [*expr.BindError], a part of SQL that is not supported an
// [*expr.UnsupportedError]; each with its position.
package statement

import "github.com/deltafold/deltafold/deltatable/expr"

// When says for which rows a clause is.
type When uint8

// The kinds of clauses, as SQL spells them.
const (
	Matched            When = iota + 1 // WHEN MATCHED
	NotMatched                         // WHEN NOT MATCHED [BY TARGET]
	NotMatchedBySource                 // WHEN NOT MATCHED BY SOURCE
)

// Action is what a clause does.
type Action uint8

// The actions.
const (
	Update Action = iota + 1
	Delete
	Insert
)

// Assignment gives a column of the target a value.
type Assignment struct {
	At     expr.Position
	Column string // a top-level column of the target
	Value  expr.Expr
}

// Clause is one WHEN clause.
type Clause struct {
	At        expr.Position
	When      When
	Condition expr.Expr // nil: always
	Action    Action
	// All is UPDATE SET * or INSERT *: every column of the target from the column
	// of its name in the source. Except are columns left out (EXCEPT).
	All    bool
	Except []string
	// Set are the assignments of an UPDATE, or the columns and values of an
	// INSERT, in the order of the text.
	Set []Assignment
}

// Relation is a table or source in a statement.
type Relation struct {
	At    expr.Position
	Name  string // as written, parts joined with dots
	Alias string // "" where none is given: then Name's last part
	// Version and Timestamp are VERSION AS OF and TIMESTAMP AS OF, "" for none.
	Version, Timestamp string

	last string // the last part of a parsed name, which may itself hold dots
}

// Statement is a MERGE INTO statement. It is not changed once made.
type Statement struct {
	Target, Source Relation
	On             expr.Expr
	Clauses        []Clause
	// Evolve is WITH SCHEMA EVOLUTION.
	Evolve bool
}

// Qualifier is the name by which columns of the relation are qualified.
func (r *Relation) Qualifier() string {
	if r.Alias != "" {
		return r.Alias
	}
	if r.last != "" {
		return r.last
	}
	for i := len(r.Name) - 1; i >= 0; i-- {
		if r.Name[i] == '.' {
			return r.Name[i+1:]
		}
	}
	return r.Name
}
