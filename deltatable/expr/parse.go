package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds on what Parse takes, so that no text can exhaust memory or stack.
const (
	maxText   = 1 << 20 // bytes
	maxTokens = 200_000
	maxDepth  = 200 // nested operators, parentheses and calls
)

// Binding powers, loosest first, as in Spark's grammar: a predicate (IS, IN,
// LIKE, BETWEEN) binds looser than a comparison, NOT looser than a predicate.
const (
	precNone = iota
	precOr
	precAnd
	precNot
	precPredicate
	precCompare
	precBitOr
	precBitXor
	precBitAnd
	precShift
	precSum
	precProduct
	precUnary
	precPostfix
)

// infixes is the table of infix operators; a new operator is a new row. Op is
// the canonical spelling.
var infixes = map[string]struct {
	op   string
	prec int
}{
	"=": {"=", precCompare}, "==": {"=", precCompare}, "<=>": {"<=>", precCompare},
	"<>": {"<>", precCompare}, "!=": {"<>", precCompare},
	"<": {"<", precCompare}, "<=": {"<=", precCompare}, ">": {">", precCompare}, ">=": {">=", precCompare},
	"|": {"|", precBitOr}, "^": {"^", precBitXor}, "&": {"&", precBitAnd},
	"<<": {"<<", precShift}, ">>": {">>", precShift}, ">>>": {">>>", precShift},
	"+": {"+", precSum}, "-": {"-", precSum}, "||": {"||", precSum},
	"*": {"*", precProduct}, "/": {"/", precProduct}, "%": {"%", precProduct}, "DIV": {"DIV", precProduct},
}

// reserved words start no operand; as a name they must be quoted.
var reserved = map[string]bool{
	"AND": true, "AS": true, "BETWEEN": true, "CASE": true, "CAST": true, "DISTINCT": true, "DIV": true,
	"ELSE": true, "END": true, "ESCAPE": true, "EXISTS": true, "FALSE": true, "FROM": true, "ILIKE": true,
	"IN": true, "IS": true, "LIKE": true, "NOT": true, "NULL": true, "OR": true, "REGEXP": true,
	"RLIKE": true, "SELECT": true, "THEN": true, "TRUE": true, "TRY_CAST": true, "WHEN": true, "WHERE": true,
}

type parser struct {
	toks  []token
	i     int
	depth int
	// stopIn: the word IN ends the expression, in POSITION(a IN s).
	stopIn bool
}

// plainIn makes IN an operator again, until the function that it gives is called.
func (p *parser) plainIn() func() {
	was := p.stopIn
	p.stopIn = false
	return func() { p.stopIn = was }
}

// Parse reads one expression, which must be the whole text. The error is a
// [*SyntaxError]. Text, tokens and nesting are bounded (1 MiB, 200,000, 200).
func Parse(text string) (Expr, error) {
	if len(text) > maxText {
		return nil, &SyntaxError{Line: 1, Column: 1, Msg: fmt.Sprintf("the expression is longer than %d bytes", maxText)}
	}
	if !utf8.ValidString(text) {
		return nil, &SyntaxError{Line: 1, Column: 1, Msg: "the expression is not valid UTF-8"}
	}
	toks, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	e, err := p.expr(precNone)
	if err != nil {
		return nil, err
	}
	if p.peek().kind != tokEnd {
		return nil, p.fail("expected an operator or the end")
	}
	return e, nil
}

func (p *parser) peek() token { return p.toks[p.i] }

func (p *parser) peek2() token { return p.toks[min(p.i+1, len(p.toks)-1)] }

func (p *parser) take() token {
	t := p.toks[p.i]
	if t.kind != tokEnd {
		p.i++
	}
	return t
}

func (p *parser) fail(format string, args ...any) error {
	return failAt(p.peek(), format, args...)
}

func failAt(t token, format string, args ...any) error {
	return &SyntaxError{Pos: t.at.Offset, Line: t.at.Line, Column: t.at.Column, Text: t.raw, Msg: fmt.Sprintf(format, args...)}
}

// word tells whether the next token is the keyword, and takes it if so.
func (p *parser) word(w string) bool {
	if !isWord(p.peek(), w) {
		return false
	}
	p.i++
	return true
}

func isWord(t token, w string) bool { return t.kind == tokWord && strings.EqualFold(t.text, w) }

func (p *parser) op(o string) bool {
	if !isOp(p.peek(), o) {
		return false
	}
	p.i++
	return true
}

func isOp(t token, o string) bool { return t.kind == tokOp && t.text == o }

func (p *parser) expect(o string) error {
	if p.op(o) {
		return nil
	}
	return p.fail("expected %s", o)
}

func (p *parser) enter(extra int) error {
	if p.depth+extra > maxDepth {
		return p.fail("the expression is nested deeper than %d levels", maxDepth)
	}
	return nil
}

// expr parses operators that bind at least as tightly as least. After a
// predicate nothing tighter than AND may follow: limit keeps that.
func (p *parser) expr(least int) (Expr, error) {
	p.depth++
	defer func() { p.depth-- }()
	if err := p.enter(0); err != nil {
		return nil, err
	}
	left, limit, err := p.prefix(least)
	for chain := 1; err == nil; chain++ {
		prec := p.infixPrec()
		if prec == precNone || prec < least || prec > limit {
			break
		}
		if prec > precAnd {
			if err := p.enter(chain); err != nil {
				return nil, err
			}
		}
		switch prec {
		case precOr, precAnd:
			left, err = p.logic(left, prec)
		case precPredicate:
			left, err = p.predicate(left)
			limit = precAnd
		default:
			t := p.take()
			var right Expr
			right, err = p.expr(prec + 1)
			left = &Infix{At: t.at, Op: infixes[strings.ToUpper(t.text)].op, L: left, R: right}
			limit = min(limit, prec)
		}
	}
	if err != nil {
		return nil, err
	}
	return left, nil
}

// infixPrec is the binding power of the operator that comes next, or precNone.
func (p *parser) infixPrec() int {
	t := p.peek()
	switch t.kind {
	case tokOp:
		return infixes[t.text].prec
	case tokWord:
		switch strings.ToUpper(t.text) {
		case "OR":
			return precOr
		case "AND":
			return precAnd
		case "IN":
			if p.stopIn {
				return precNone
			}
			return precPredicate
		case "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN":
			return precPredicate
		case "NOT":
			switch strings.ToUpper(p.peek2().text) {
			case "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN":
				return precPredicate
			}
		case "DIV":
			return precProduct
		}
	case tokEnd, tokQuoted, tokString, tokNumber:
	}
	return precNone
}

func (p *parser) logic(left Expr, prec int) (Expr, error) {
	t := p.take()
	right, err := p.expr(prec + 1)
	if err != nil {
		return nil, err
	}
	or := prec == precOr
	if l, ok := left.(*Logic); ok && l.Or == or {
		l.Args = append(l.Args, right) // not shared: the chain is still being built
		return l, nil
	}
	return &Logic{At: t.at, Or: or, Args: []Expr{left, right}}, nil
}

// predicate parses what follows the operand of IS, IN, LIKE, BETWEEN.
func (p *parser) predicate(x Expr) (Expr, error) {
	at := p.peek().at
	if p.word("IS") {
		return p.is(x, at)
	}
	not := p.word("NOT")
	t := p.take()
	switch op := strings.ToUpper(t.text); op {
	case "IN":
		if err := p.expect("("); err != nil {
			return nil, err
		}
		if isWord(p.peek(), "SELECT") {
			return nil, p.fail("a subquery is not supported here")
		}
		list, err := p.list()
		if err != nil {
			return nil, err
		}
		return &In{At: at, X: x, Not: not, List: list}, nil
	case "BETWEEN":
		low, err := p.expr(precCompare)
		if err != nil {
			return nil, err
		}
		if !p.word("AND") {
			return nil, p.fail("expected AND of BETWEEN")
		}
		high, err := p.expr(precCompare)
		if err != nil {
			return nil, err
		}
		return &Between{At: at, X: x, Low: low, High: high, Not: not}, nil
	default:
		return p.like(&Like{At: at, Op: op, X: x, Not: not})
	}
}

// like parses what follows the word LIKE, ILIKE, RLIKE or REGEXP.
func (p *parser) like(l *Like) (Expr, error) {
	if l.Op == "REGEXP" {
		l.Op = "RLIKE"
	}
	var err error
	if l.Pattern, err = p.expr(precCompare); err != nil {
		return nil, err
	}
	if l.Op != "RLIKE" && p.word("ESCAPE") {
		t := p.take()
		if t.kind != tokString || utf8.RuneCountInString(t.text) != 1 {
			return nil, failAt(t, "ESCAPE takes one character as a string")
		}
		if t.text != `\` {
			l.Escape = t.text
		}
	}
	return l, nil
}

func (p *parser) is(x Expr, at Position) (Expr, error) {
	not := p.word("NOT")
	for _, w := range []string{"NULL", "TRUE", "FALSE", "UNKNOWN"} {
		if p.word(w) {
			return &Is{At: at, X: x, Not: not, What: w}, nil
		}
	}
	if !p.word("DISTINCT") {
		return nil, p.fail("expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS")
	}
	if !p.word("FROM") {
		return nil, p.fail("expected FROM after DISTINCT")
	}
	r, err := p.expr(precCompare)
	if err != nil {
		return nil, err
	}
	return &Distinct{At: at, L: x, R: r, Not: not}, nil
}

// list parses expressions up to the closing parenthesis, at least one.
func (p *parser) list() ([]Expr, error) {
	var out []Expr
	for {
		e, err := p.expr(precNone)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		if p.op(",") {
			continue
		}
		return out, p.expect(")")
	}
}

// prefix parses an operand with its prefix operators, and says how tightly
// what follows may bind to it. NOT is no operand of tighter operators.
func (p *parser) prefix(least int) (Expr, int, error) {
	t := p.peek()
	if least <= precNot && (p.word("NOT") || p.op("!")) {
		x, err := p.expr(precNot)
		return &Not{At: t.at, X: x}, precAnd, err
	}
	for _, o := range []string{"-", "+", "~"} {
		if !p.op(o) {
			continue
		}
		if o == "-" && p.peek().kind == tokNumber {
			lit, err := number(p.take(), true)
			if err == nil {
				lit.At = t.at
				// A postfix binds to the whole literal: -1::int.
				e, err := p.postfix(lit)
				return e, precUnary, err
			}
			return nil, 0, err
		}
		x, err := p.expr(precUnary)
		return &Prefix{At: t.at, Op: o, X: x}, precUnary, err
	}
	e, err := p.primary()
	if err != nil {
		return nil, 0, err
	}
	e, err = p.postfix(e)
	return e, precPostfix, err
}

func (p *parser) postfix(e Expr) (Expr, error) {
	for chain := 1; ; chain++ {
		if err := p.enter(chain); err != nil {
			return nil, err
		}
		t := p.peek()
		switch {
		case p.op("."):
			name := p.take()
			if name.kind != tokWord && name.kind != tokQuoted {
				return nil, failAt(name, "expected a field name after the point")
			}
			if n, ok := e.(*Name); ok {
				n.Parts = append(n.Parts, name.text)
				chain--
			} else {
				e = &Field{At: t.at, X: e, Name: name.text}
			}
		case p.op("["):
			key, err := p.expr(precNone)
			if err != nil {
				return nil, err
			}
			if err := p.expect("]"); err != nil {
				return nil, err
			}
			e = &Index{At: t.at, X: e, Key: key}
		case p.op("::"):
			typ, err := p.typeName()
			if err != nil {
				return nil, err
			}
			e = &Cast{At: t.at, X: e, Type: typ}
		default:
			return e, nil
		}
	}
}
