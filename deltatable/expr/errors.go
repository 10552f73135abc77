package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Position is a place in the text of an expression.
type Position struct {
	Offset int // bytes from the start
	Line   int // from 1
	Column int // characters (not bytes) from 1, within the line
}

// String gives "line 1, column 5", or "column 5" for the first line.
func (p Position) String() string {
	if p.Line <= 1 {
		return fmt.Sprintf("column %d", p.Column)
	}
	return fmt.Sprintf("line %d, column %d", p.Line, p.Column)
}

// A SyntaxError reports text that is no expression.
type SyntaxError struct {
	Pos    int    // offset in bytes of the offending token
	Line   int    // its line, from 1
	Column int    // its column in characters, from 1
	Text   string // the offending token, "" at the end of the text
	Msg    string // what is wrong, without position
}

// Error names the position and the offending token.
func (e *SyntaxError) Error() string {
	near := "at the end"
	if e.Text != "" {
		near = "near " + quoteText(e.Text)
	}
	at := Position{Line: e.Line, Column: e.Column}
	return fmt.Sprintf("SQL syntax: %s, %s %s", e.Msg, at, near)
}

// A BindError reports an expression that parses but has no meaning for the
// schema: an unknown column, operands that cannot be compared, a literal that
// is no value of its type.
type BindError struct {
	At   Position
	Text string // the offending part as SQL
	Msg  string
}

// Error names the part and its position.
func (e *BindError) Error() string {
	return fmt.Sprintf("SQL: %s, %s near %s", e.Msg, e.At, quoteText(e.Text))
}

// An UnsupportedError reports an operator, function or form that this version
// does not evaluate. It is refused by name rather than approximated.
type UnsupportedError struct {
	At   Position
	What string // for example "function upper", "operator +"
}

// Error names the construct and its position.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("SQL: %s is not supported, %s", e.What, e.At)
}

// An EvalError reports a row whose value cannot be computed under ANSI rules: an
// overflow, a division by zero, text that is no value of the type it is cast to,
// a value that does not fit the column it is stored in.
type EvalError struct {
	Row    int      // within the evaluated batch, from 0
	Column string   // the column that the value was to be stored in, else ""
	Pos    Position // of the operator or function in the text
	Text   string   // the failing part as SQL
	Msg    string
}

// Error names the row (from 1), the column if there is one, and the place.
func (e *EvalError) Error() string {
	column := ""
	if e.Column != "" {
		column = " for the column " + quoteName(e.Column)
	}
	return fmt.Sprintf("SQL: %s%s, row %d, at %s near %s", e.Msg, column, e.Row+1, e.Pos, quoteText(e.Text))
}

// quoteText quotes the start of a text for messages.
func quoteText(s string) string {
	const limit = 60
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return `"` + strings.ToValidUTF8(s, "\uFFFD") + `"`
}
