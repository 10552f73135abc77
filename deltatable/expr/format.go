package expr

import (
	"strings"
	"unicode/utf8"
)

// precOf is the binding power of an expression's outermost operator.
func precOf(e Expr) int {
	switch e := e.(type) {
	case *Logic:
		if e.Or {
			return precOr
		}
		return precAnd
	case *Not:
		return precNot
	case *Is, *Distinct, *In, *Between, *Like:
		return precPredicate
	case *Infix:
		return infixes[e.Op].prec
	case *Prefix:
		return precUnary
	case *Literal:
		if strings.HasPrefix(e.Text, "-") && isNumeral(e) {
			return precUnary
		}
	case *Lambda:
		return precNone
	}
	return precPostfix
}

func isNumeral(e Expr) bool {
	l, ok := e.(*Literal)
	return ok && l.Kind >= Integer && l.Kind <= Double
}

// startsWithDigits tells whether the text of an operand begins with a number.
func startsWithDigits(e Expr) bool {
	for {
		x, ok := e.(*Index)
		if !ok {
			return isNumeral(e)
		}
		e = x.X
	}
}

// put writes e, in parentheses where it binds looser than least.
func put(b *strings.Builder, e Expr, least int) {
	if precOf(e) < least {
		b.WriteByte('(')
		write(b, e)
		b.WriteByte(')')
		return
	}
	write(b, e)
}

func write(b *strings.Builder, e Expr) {
	switch e := e.(type) {
	case *Name:
		for i, p := range e.Parts {
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(quoteName(p))
		}
	case *Literal:
		writeLiteral(b, e)
	case *Logic:
		word, prec := " AND ", precAnd
		if e.Or {
			word, prec = " OR ", precOr
		}
		for i, a := range e.Args {
			if i > 0 {
				b.WriteString(word)
			}
			put(b, a, prec+1)
		}
	case *Not:
		b.WriteString("NOT ")
		put(b, e.X, precNot)
	case *Infix:
		prec := infixes[e.Op].prec
		put(b, e.L, prec)
		b.WriteString(" " + e.Op + " ")
		put(b, e.R, prec+1)
	case *Prefix:
		b.WriteString(e.Op)
		if startsWithDigits(e.X) { // a minus before digits would join the literal
			b.WriteByte('(')
			write(b, e.X)
			b.WriteByte(')')
			return
		}
		put(b, e.X, precPostfix) // -(-x): never two signs in a row, which would be a comment
	case *Is, *Distinct, *In, *Between, *Like:
		writePredicate(b, e)
	default:
		writeOperand(b, e)
	}
}

func writePredicate(b *strings.Builder, e Expr) {
	not := func(n bool) string {
		if n {
			return "NOT "
		}
		return ""
	}
	switch e := e.(type) {
	case *Is:
		put(b, e.X, precCompare)
		b.WriteString(" IS " + not(e.Not) + e.What)
	case *Distinct:
		put(b, e.L, precCompare)
		b.WriteString(" IS " + not(e.Not) + "DISTINCT FROM ")
		put(b, e.R, precCompare)
	case *In:
		put(b, e.X, precCompare)
		b.WriteString(" " + not(e.Not) + "IN (")
		writeList(b, e.List)
		b.WriteByte(')')
	case *Between:
		put(b, e.X, precCompare)
		b.WriteString(" " + not(e.Not) + "BETWEEN ")
		put(b, e.Low, precCompare)
		b.WriteString(" AND ")
		put(b, e.High, precCompare)
	case *Like:
		put(b, e.X, precCompare)
		b.WriteString(" " + not(e.Not) + e.Op + " ")
		put(b, e.Pattern, precCompare)
		if e.Escape != "" {
			b.WriteString(" ESCAPE " + quoteString(e.Escape))
		}
	}
}

func writeOperand(b *strings.Builder, e Expr) {
	switch e := e.(type) {
	case *Field:
		if isNumeral(e.X) { // the point would join the digits
			b.WriteString("(" + e.X.String() + ")")
		} else {
			put(b, e.X, precPostfix)
		}
		b.WriteString("." + quoteName(e.Name))
	case *Index:
		put(b, e.X, precPostfix)
		b.WriteByte('[')
		write(b, e.Key)
		b.WriteByte(']')
	case *Call:
		b.WriteString(e.Func + "(")
		if e.Distinct {
			b.WriteString("DISTINCT ")
		}
		if e.Star {
			b.WriteByte('*')
		}
		writeList(b, e.Args)
		b.WriteByte(')')
	case *Lambda:
		b.WriteString(e.Param + " -> ")
		write(b, e.Body)
	case *Case:
		b.WriteString("CASE")
		if e.X != nil {
			b.WriteByte(' ')
			write(b, e.X)
		}
		for _, w := range e.Whens {
			b.WriteString(" WHEN ")
			write(b, w.Cond)
			b.WriteString(" THEN ")
			write(b, w.Then)
		}
		if e.Else != nil {
			b.WriteString(" ELSE ")
			write(b, e.Else)
		}
		b.WriteString(" END")
	case *Cast:
		if e.Try {
			b.WriteString("TRY_")
		}
		b.WriteString("CAST(")
		write(b, e.X)
		b.WriteString(" AS " + e.Type + ")")
	}
}

func writeList(b *strings.Builder, list []Expr) {
	for i, e := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		write(b, e)
	}
}

func writeLiteral(b *strings.Builder, e *Literal) {
	switch e.Kind {
	case Null:
		b.WriteString("NULL")
	case Boolean:
		b.WriteString(strings.ToUpper(e.Text))
	case String:
		b.WriteString(quoteString(e.Text))
	case Binary:
		b.WriteString("X" + quoteString(e.Text))
	case Date:
		b.WriteString("DATE " + quoteString(e.Text))
	case Timestamp:
		b.WriteString("TIMESTAMP " + quoteString(e.Text))
	case TimestampNTZ:
		b.WriteString("TIMESTAMP_NTZ " + quoteString(e.Text))
	case Interval:
		b.WriteString("INTERVAL " + quoteString(e.Text))
		if e.Unit != "" {
			b.WriteString(" " + e.Unit)
		}
	case Integer, Tinyint, Smallint, Bigint, Decimal, Float, Double:
		b.WriteString(e.Text + numberSuffix(e))
	}
}

// numberSuffix is the suffix without which the digits would have another kind.
func numberSuffix(e *Literal) string {
	exponent := strings.ContainsAny(e.Text, "eE")
	switch {
	case e.Kind == Bigint:
		return "L"
	case e.Kind == Smallint:
		return "S"
	case e.Kind == Tinyint:
		return "Y"
	case e.Kind == Float:
		return "F"
	case e.Kind == Double && !exponent:
		return "D"
	case e.Kind == Decimal && (exponent || !strings.Contains(e.Text, ".")):
		return "BD"
	}
	return ""
}

func quoteName(s string) string {
	switch strings.ToUpper(s) {
	case "CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP": // bare, these are functions
		return "`" + s + "`"
	}
	if wordLen(s) == len(s) && s != "" && !isDigit(s[0]) && !reserved[strings.ToUpper(s)] && startsWord(s) {
		return s
	}
	return "`" + strings.ReplaceAll(s, "`", "``") + "`"
}

func startsWord(s string) bool {
	toks, err := lex(s)
	return err == nil && len(toks) == 2 && toks[0].kind == tokWord && toks[0].text == s
}

func quoteString(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			const hex = "0123456789abcdef"
			b.WriteString(`\u00` + string(hex[r>>4]) + string(hex[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

func text(e Expr) string {
	var b strings.Builder
	write(&b, e)
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError))
}

// String is the name, quoted where it must be.
func (e *Name) String() string { return text(e) }

// String is the literal as SQL.
func (e *Literal) String() string { return text(e) }

// String is the chain as SQL.
func (e *Logic) String() string { return text(e) }

// String is NOT x.
func (e *Not) String() string { return text(e) }

// String is l op r.
func (e *Infix) String() string { return text(e) }

// String is the operator before its operand.
func (e *Prefix) String() string { return text(e) }

// String is x IS [NOT] what.
func (e *Is) String() string { return text(e) }

// String is l IS [NOT] DISTINCT FROM r.
func (e *Distinct) String() string { return text(e) }

// String is x [NOT] IN (list).
func (e *In) String() string { return text(e) }

// String is x [NOT] BETWEEN low AND high.
func (e *Between) String() string { return text(e) }

// String is x [NOT] LIKE pattern.
func (e *Like) String() string { return text(e) }

// String is x.name.
func (e *Field) String() string { return text(e) }

// String is x[key].
func (e *Index) String() string { return text(e) }

// String is f(args).
func (e *Call) String() string { return text(e) }

// String is param -> body.
func (e *Lambda) String() string { return text(e) }

// String is CASE … END.
func (e *Case) String() string { return text(e) }

// String is CAST(x AS type).
func (e *Cast) String() string { return text(e) }
