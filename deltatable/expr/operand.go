package expr

import (
	"strings"
)

// typed literals: the word before a string.
var typedLiterals = map[string]LiteralKind{
	"DATE": Date, "TIMESTAMP": Timestamp, "TIMESTAMP_LTZ": Timestamp, "TIMESTAMP_NTZ": TimestampNTZ, "X": Binary,
}

func (p *parser) primary() (Expr, error) {
	t := p.peek()
	switch t.kind {
	case tokNumber:
		p.i++
		return number(t, false)
	case tokString:
		p.i++
		return &Literal{At: t.at, Kind: String, Text: t.text}, nil
	case tokQuoted:
		p.i++
		return &Name{At: t.at, Parts: []string{t.text}}, nil
	case tokWord:
		return p.wordOperand()
	case tokOp:
		if p.op("(") {
			defer p.plainIn()()
			if isWord(p.peek(), "SELECT") {
				return nil, p.fail("a subquery is not supported")
			}
			e, err := p.expr(precNone)
			if err != nil {
				return nil, err
			}
			if err := p.expect(")"); err != nil {
				return nil, err
			}
			if n, ok := e.(*Name); ok { // (a).b is a field of a, as a.b is
				return n, nil
			}
			return e, nil
		}
	case tokEnd:
		return nil, p.fail("expected an expression")
	}
	return nil, p.fail("expected an expression")
}

// wordOperand parses what starts with a word: constants, CASE, CAST, typed
// literals, calls, lambdas, names.
func (p *parser) wordOperand() (Expr, error) {
	t := p.take()
	next := p.peek()
	up := strings.ToUpper(t.text)
	if kind, ok := typedLiterals[up]; ok && next.kind == tokString {
		p.i++
		text := next.text
		if kind == Binary {
			text = strings.ToLower(text)
		}
		return &Literal{At: t.at, Kind: kind, Text: text}, nil
	}
	switch up {
	case "NULL":
		return &Literal{At: t.at, Kind: Null}, nil
	case "TRUE", "FALSE":
		return &Literal{At: t.at, Kind: Boolean, Text: strings.ToLower(up)}, nil
	case "CASE":
		return p.caseWhen(t.at)
	case "CAST", "TRY_CAST":
		return p.cast(t.at, up == "TRY_CAST")
	case "INTERVAL":
		if next.kind == tokString || next.kind == tokNumber || isOp(next, "-") && p.peek2().kind == tokNumber {
			return p.intervalRest(t.at)
		}
	case "CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP":
		if !isOp(next, "(") && !isOp(next, ".") {
			return &Call{At: t.at, Func: strings.ToLower(up)}, nil
		}
	}
	if reserved[up] {
		return nil, failAt(t, "expected an expression; a column of this name is written in backticks")
	}
	if p.op("->") {
		body, err := p.expr(precNone)
		return &Lambda{At: t.at, Param: t.text, Body: body}, err
	}
	if p.op("(") {
		return p.call(t)
	}
	return &Name{At: t.at, Parts: []string{t.text}}, nil
}

func (p *parser) call(name token) (Expr, error) {
	c := &Call{At: name.at, Func: name.text}
	defer p.plainIn()()
	if p.op(")") {
		return c, nil
	}
	if isOp(p.peek(), "*") && isOp(p.peek2(), ")") {
		p.i += 2
		c.Star = true
		return c, nil
	}
	if done, err := p.wordedCall(c); done || err != nil {
		return c, err
	}
	c.Distinct = p.word("DISTINCT")
	args, err := p.list()
	c.Args = args
	return c, err
}

// wordedCall parses the calls that may have words between their arguments, and
// turns them into plain ones: EXTRACT(part FROM x), SUBSTRING(s FROM a FOR n),
// POSITION(a IN s), OVERLAY(s PLACING r FROM a FOR n), TRIM(BOTH a FROM s). It
// never goes back: that would take exponential time for nested calls.
func (p *parser) wordedCall(c *Call) (done bool, err error) {
	switch strings.ToUpper(c.Func) {
	case "EXTRACT":
		part := p.take()
		if part.kind != tokWord || !p.word("FROM") {
			return true, failAt(part, "expected EXTRACT(part FROM x)")
		}
		c.Func, c.Args = "date_part", []Expr{&Literal{At: part.at, Kind: String, Text: strings.ToUpper(part.text)}}
		return true, p.lastArgument(c)
	case "POSITION":
		p.stopIn = true // call resets it
		return true, p.wordedArguments(c, "IN")
	case "SUBSTRING", "SUBSTR":
		return true, p.wordedArguments(c, "FROM", "FOR")
	case "OVERLAY":
		return true, p.wordedArguments(c, "PLACING", "FROM", "FOR")
	case "TRIM":
		return true, p.trimCall(c)
	}
	return false, nil
}

// lastArgument parses the last argument and the closing parenthesis.
func (p *parser) lastArgument(c *Call) error {
	p.stopIn = false
	x, err := p.expr(precNone)
	if err != nil {
		return err
	}
	c.Args = append(c.Args, x)
	return p.expect(")")
}

// wordedArguments parses arguments with these words between them, of which a
// FOR may be missing; or, where the first does not come, with commas.
func (p *parser) wordedArguments(c *Call, words ...string) error {
	for i, w := range words {
		x, err := p.expr(precNone)
		if err != nil {
			return err
		}
		c.Args = append(c.Args, x)
		if p.word(w) {
			continue
		}
		if i == 0 || w == "FOR" {
			return p.moreArguments(c, i == 0)
		}
		return p.fail("expected %s", w)
	}
	return p.lastArgument(c)
}

// moreArguments parses what follows the first arguments of a plain call.
func (p *parser) moreArguments(c *Call, plain bool) error {
	p.stopIn = false
	if !plain || !p.op(",") {
		return p.expect(")")
	}
	rest, err := p.list()
	c.Args = append(c.Args, rest...)
	return err
}

// trimCall parses TRIM([BOTH | LEADING | TRAILING] [a] FROM s), and plain trim.
func (p *parser) trimCall(c *Call) error {
	kind := ""
	for _, w := range []string{"BOTH", "LEADING", "TRAILING"} {
		if isWord(p.peek(), w) && p.peek2().kind != tokOp && p.peek2().kind != tokEnd {
			p.i++
			kind = w
			break
		}
	}
	var set Expr
	if kind == "" || !isWord(p.peek(), "FROM") {
		var err error
		if set, err = p.expr(precNone); err != nil {
			return err
		}
	}
	if !p.word("FROM") {
		if kind != "" {
			return p.fail("expected FROM")
		}
		c.Args = []Expr{set}
		return p.moreArguments(c, true)
	}
	s, err := p.expr(precNone)
	if err != nil {
		return err
	}
	c.Func = map[string]string{"": "btrim", "BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[kind]
	switch {
	case set == nil:
		c.Args = []Expr{s}
	case c.Func == "btrim":
		c.Args = []Expr{s, set}
	default:
		c.Args = []Expr{set, s}
	}
	return p.expect(")")
}

func (p *parser) cast(at Position, try bool) (Expr, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	x, err := p.expr(precNone)
	if err != nil {
		return nil, err
	}
	if !p.word("AS") {
		return nil, p.fail("expected AS of CAST")
	}
	typ, err := p.typeName()
	if err != nil {
		return nil, err
	}
	return &Cast{At: at, Try: try, X: x, Type: typ}, p.expect(")")
}

func (p *parser) caseWhen(at Position) (Expr, error) {
	c := &Case{At: at}
	defer p.plainIn()()
	var err error
	if !isWord(p.peek(), "WHEN") {
		if c.X, err = p.expr(precNone); err != nil {
			return nil, err
		}
	}
	for p.word("WHEN") {
		var w When
		if w.Cond, err = p.expr(precNone); err != nil {
			return nil, err
		}
		if !p.word("THEN") {
			return nil, p.fail("expected THEN of CASE")
		}
		if w.Then, err = p.expr(precNone); err != nil {
			return nil, err
		}
		c.Whens = append(c.Whens, w)
	}
	if len(c.Whens) == 0 {
		return nil, p.fail("expected WHEN of CASE")
	}
	if p.word("ELSE") {
		if c.Else, err = p.expr(precNone); err != nil {
			return nil, err
		}
	}
	if !p.word("END") {
		return nil, p.fail("expected END of CASE")
	}
	return c, nil
}

// typeName takes a type: a word, then anything within balanced parentheses or
// angle brackets. What it means is Bind's business.
func (p *parser) typeName() (string, error) {
	t := p.take()
	if t.kind != tokWord {
		return "", failAt(t, "expected a type")
	}
	var b strings.Builder
	b.WriteString(strings.ToLower(t.text))
	if !isOp(p.peek(), "(") && !isOp(p.peek(), "<") {
		return b.String(), nil
	}
	for open := 0; ; {
		t := p.take()
		switch {
		case t.kind == tokEnd:
			return "", failAt(t, "the type is not closed")
		case isOp(t, "("), isOp(t, "<"):
			open++
		case isOp(t, ")"), isOp(t, ">"):
			open--
		case isOp(t, ">>"):
			open -= 2
		case isOp(t, ">>>"):
			open -= 3
		case t.kind != tokWord && t.kind != tokQuoted && t.kind != tokNumber && !isOp(t, ",") && !isOp(t, ":"):
			return "", failAt(t, "unexpected in a type")
		}
		b.WriteString(t.raw)
		if open < 0 {
			return "", failAt(t, "unexpected in a type")
		}
		if open == 0 {
			return b.String(), nil
		}
		if next := p.peek(); t.kind != tokOp && next.kind != tokOp && next.kind != tokEnd {
			b.WriteByte(' ') // keep two words apart
		}
	}
}

var suffixes = map[string]LiteralKind{
	"L": Bigint, "S": Smallint, "Y": Tinyint, "D": Double, "F": Float, "BD": Decimal,
}

// number makes the literal of a number token: the kind by suffix, else by
// form. (Without suffix, an exponent makes a double and a point a decimal.)
func number(t token, negative bool) (*Literal, error) {
	digits, suffix := t.text, t.raw[len(t.text):]
	form := Integer
	switch {
	case strings.ContainsAny(digits, "eE"):
		form = Double
	case strings.Contains(digits, "."):
		form = Decimal
	}
	lit := &Literal{At: t.at, Kind: form, Text: digits}
	if suffix != "" {
		kind, ok := suffixes[strings.ToUpper(suffix)]
		whole := kind == Bigint || kind == Smallint || kind == Tinyint
		if !ok || whole && form != Integer {
			return nil, failAt(t, "not a number (suffixes are L, S, Y, D, F, BD)")
		}
		lit.Kind = kind
	}
	if negative {
		lit.Text = "-" + lit.Text
	}
	return lit, nil
}
