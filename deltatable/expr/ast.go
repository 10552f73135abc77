package expr

// An Expr is a parsed expression: one of the node types of this package. It is
// immutable once parsed and safe for concurrent use.
type Expr interface {
	// Pos is where the expression's first or deciding word stands.
	Pos() Position
	// String is SQL text that parses back to the same expression.
	String() string

	node() // closes the set
}

// A Name is a column, or a field of a struct column: a, a.b, `x.y`.c. Which of
// the two a dotted name is, Bind decides against the schema.
type Name struct {
	At    Position
	Parts []string // unquoted, at least one
}

// A Literal is a constant as written. Its value is checked by Bind.
type Literal struct {
	At   Position
	Kind LiteralKind
	Text string // digits with sign and exponent; the characters of a string; the content of a typed literal
	Unit string // the unit of an INTERVAL, else ""
}

// LiteralKind tells what a [Literal] is.
type LiteralKind uint8

// The kinds. Integer has the narrowest of int, bigint and decimal that holds
// it; those with a width come from a suffix (1L, 1S, 1Y, 1D, 1F, 1BD).
const (
	Null LiteralKind = iota
	Boolean
	Integer
	Tinyint
	Smallint
	Bigint
	Decimal
	Float
	Double
	String
	Binary
	Date
	Timestamp
	TimestampNTZ
	Interval
)

// A Logic is a chain of AND or of OR; two operands or more. Chains of one
// operator are flat, so that their length does not add to the depth.
type Logic struct {
	At   Position
	Or   bool
	Args []Expr
}

// A Not is NOT x.
type Not struct {
	At Position
	X  Expr
}

// An Infix is an infix operator: comparisons (=, <=>, <>, <, <=, >, >=, in
// this spelling), arithmetic, bits, ||.
type Infix struct {
	At   Position
	Op   string
	L, R Expr
}

// A Prefix is -x, +x or ~x. A minus before a number is part of the literal.
type Prefix struct {
	At Position
	Op string
	X  Expr
}

// An Is is x IS [NOT] NULL, TRUE, FALSE or UNKNOWN.
type Is struct {
	At   Position
	X    Expr
	Not  bool
	What string // NULL, TRUE, FALSE, UNKNOWN
}

// A Distinct is l IS [NOT] DISTINCT FROM r.
type Distinct struct {
	At   Position
	L, R Expr
	Not  bool
}

// An In is x [NOT] IN (list).
type In struct {
	At   Position
	X    Expr
	Not  bool
	List []Expr // at least one
}

// A Between is x [NOT] BETWEEN low AND high.
type Between struct {
	At           Position
	X, Low, High Expr
	Not          bool
}

// A Like is x [NOT] LIKE pattern [ESCAPE 'c'], or ILIKE or RLIKE.
type Like struct {
	At      Position
	Op      string // LIKE, ILIKE, RLIKE
	X       Expr
	Not     bool
	Pattern Expr
	Escape  string // one character; "" is the backslash, the default
}

// A Field is a struct field of an expression that is not a plain name.
type Field struct {
	At   Position
	X    Expr
	Name string
}

// An Index is x[key], of an array or a map.
type Index struct {
	At     Position
	X, Key Expr
}

// A Call is a function call.
type Call struct {
	At       Position
	Func     string // as written
	Distinct bool
	Star     bool // f(*)
	Args     []Expr
}

// A Lambda is a function argument x -> body.
type Lambda struct {
	At    Position
	Param string
	Body  Expr
}

// A Case is CASE [x] WHEN … THEN … [ELSE …] END.
type Case struct {
	At    Position
	X     Expr // nil without operand
	Whens []When
	Else  Expr // nil without
}

// A When is one branch of a [Case].
type When struct{ Cond, Then Expr }

// A Cast is CAST(x AS type), TRY_CAST(x AS type) or x::type.
type Cast struct {
	At   Position
	Try  bool
	X    Expr
	Type string // as written, white space removed
}

// Pos is the position of the name's first part.
func (e *Name) Pos() Position { return e.At }

// Pos is the literal's first character.
func (e *Literal) Pos() Position { return e.At }

// Pos is the first operator of the chain.
func (e *Logic) Pos() Position { return e.At }

// Pos is the word NOT.
func (e *Not) Pos() Position { return e.At }

// Pos is the operator.
func (e *Infix) Pos() Position { return e.At }

// Pos is the operator.
func (e *Prefix) Pos() Position { return e.At }

// Pos is the word IS.
func (e *Is) Pos() Position { return e.At }

// Pos is the word IS.
func (e *Distinct) Pos() Position { return e.At }

// Pos is the word IN, or the NOT before it.
func (e *In) Pos() Position { return e.At }

// Pos is the word BETWEEN, or the NOT before it.
func (e *Between) Pos() Position { return e.At }

// Pos is the word LIKE, or the NOT before it.
func (e *Like) Pos() Position { return e.At }

// Pos is the point before the field.
func (e *Field) Pos() Position { return e.At }

// Pos is the opening bracket.
func (e *Index) Pos() Position { return e.At }

// Pos is the function's name.
func (e *Call) Pos() Position { return e.At }

// Pos is the parameter.
func (e *Lambda) Pos() Position { return e.At }

// Pos is the word CASE.
func (e *Case) Pos() Position { return e.At }

// Pos is the word CAST, or the two colons.
func (e *Cast) Pos() Position { return e.At }

func (*Name) node()     {}
func (*Literal) node()  {}
func (*Logic) node()    {}
func (*Not) node()      {}
func (*Infix) node()    {}
func (*Prefix) node()   {}
func (*Is) node()       {}
func (*Distinct) node() {}
func (*In) node()       {}
func (*Between) node()  {}
func (*Like) node()     {}
func (*Field) node()    {}
func (*Index) node()    {}
func (*Call) node()     {}
func (*Lambda) node()   {}
func (*Case) node()     {}
func (*Cast) node()     {}
