package expr

import (
	"strings"
	"unicode/utf8"
)

// A Parser reads a text that holds expressions among other words: statements.
// It gives the words one after the other, on the lexer of [Parse] and within its
// bounds. Not safe for concurrent use.
type Parser struct{ p parser }

// NewParser splits the text. The error is a [*SyntaxError].
func NewParser(text string) (*Parser, error) {
	if len(text) > maxText {
		return nil, &SyntaxError{Line: 1, Column: 1, Msg: "the text is longer than 1 MiB"}
	}
	if !utf8.ValidString(text) {
		return nil, &SyntaxError{Line: 1, Column: 1, Msg: "the text is not valid UTF-8"}
	}
	toks, err := lex(text)
	if err != nil {
		return nil, err
	}
	return &Parser{parser{toks: toks}}, nil
}

// At is where the next word stands.
func (p *Parser) At() Position { return p.p.peek().at }

// Done tells whether the text is at its end.
func (p *Parser) Done() bool { return p.p.peek().kind == tokEnd }

// Fail is a [*SyntaxError] at the next word.
func (p *Parser) Fail(msg string) error { return p.p.fail("%s", msg) }

// Next tells whether the keywords come next, in this order, without regard to
// case.
func (p *Parser) Next(words ...string) bool {
	for i, w := range words {
		at := p.p.i + i
		if at >= len(p.p.toks) || !isWord(p.p.toks[at], w) {
			return false
		}
	}
	return true
}

// Words takes the keywords if they come next.
func (p *Parser) Words(words ...string) bool {
	if !p.Next(words...) {
		return false
	}
	p.p.i += len(words)
	return true
}

// Expect takes the keywords, or fails.
func (p *Parser) Expect(words ...string) error {
	if p.Words(words...) {
		return nil
	}
	return p.Fail("expected " + strings.Join(words, " "))
}

// Op takes an operator or a punctuation mark if it comes next.
func (p *Parser) Op(op string) bool { return p.p.op(op) }

// NextOp tells whether an operator or punctuation mark comes next.
func (p *Parser) NextOp(op string) bool { return isOp(p.p.peek(), op) }

// ExpectOp takes an operator or a punctuation mark, or fails.
func (p *Parser) ExpectOp(op string) error { return p.p.expect(op) }

// NextName tells whether a name comes next: a word that is not reserved, or one
// in backticks.
func (p *Parser) NextName() bool {
	t := p.p.peek()
	return t.kind == tokQuoted || t.kind == tokWord && !reserved[strings.ToUpper(t.text)]
}

// Name takes a name, without its backticks; what says for messages which.
func (p *Parser) Name(what string) (string, error) {
	if !p.NextName() {
		return "", p.p.fail("expected %s", what)
	}
	return p.p.take().text, nil
}

// Names takes a name of one or more parts, joined by points.
func (p *Parser) Names(what string) ([]string, error) {
	var parts []string
	for {
		name, err := p.Name(what)
		if err != nil {
			return nil, err
		}
		parts = append(parts, name)
		if !p.Op(".") {
			return parts, nil
		}
	}
}

// Constant takes a string or a number, and gives its text.
func (p *Parser) Constant(what string) (string, error) {
	t := p.p.peek()
	if t.kind != tokString && t.kind != tokNumber {
		return "", p.p.fail("expected %s", what)
	}
	return p.p.take().text, nil
}

// Expr takes an expression.
func (p *Parser) Expr() (Expr, error) { return p.p.expr(precNone) }
