package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // identifier or keyword
	tokQuoted           // `identifier`
	tokString           // 'text' or "text", unescaped
	tokNumber           // text: digits with point and exponent; raw: with the suffix
	tokOp               // operator or punctuation
)

type token struct {
	kind tokenKind
	text string // unescaped for quoted names and strings
	raw  string // as written
	at   Position
}

// operators, longest first where one is the prefix of another.
var operators = []string{
	">>>", "<=>", "<<", ">>", "<=", ">=", "<>", "!=", "==", "||", "::", "->",
	"<", ">", "=", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", ".", "!", "~", "&", "|", "^", ":", ";", "?",
}

type lexer struct {
	in   string
	pos  int
	line int
	col  int
	out  []token
}

// lex splits the text. The last token is always tokEnd.
func lex(in string) ([]token, error) {
	l := &lexer{in: in, line: 1, col: 1}
	for {
		if err := l.blanks(); err != nil {
			return nil, err
		}
		if l.pos >= len(in) {
			l.out = append(l.out, token{kind: tokEnd, at: l.here()})
			return l.out, nil
		}
		if len(l.out) >= maxTokens {
			return nil, l.fail(l.here(), "", "the expression is too long")
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
}

func (l *lexer) here() Position {
	return Position{Offset: l.pos, Line: l.line, Column: l.col}
}

func (l *lexer) fail(at Position, text, format string, args ...any) error {
	return &SyntaxError{Pos: at.Offset, Line: at.Line, Column: at.Column, Text: text, Msg: fmt.Sprintf(format, args...)}
}

// advance moves over n bytes and counts lines and characters.
func (l *lexer) advance(n int) {
	for _, r := range l.in[l.pos : l.pos+n] {
		l.col++
		if r == '\n' {
			l.line++
			l.col = 1
		}
	}
	l.pos += n
}

// blanks skips white space and both forms of comments.
func (l *lexer) blanks() error {
	for l.pos < len(l.in) {
		rest := l.in[l.pos:]
		switch {
		case strings.ContainsRune(" \t\r\n\f\v", rune(rest[0])):
			l.advance(1)
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.advance(n)
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return l.fail(l.here(), "/*", "the comment is not closed")
			}
			l.advance(n + 2)
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) next() error {
	at, rest := l.here(), l.in[l.pos:]
	c := rest[0]
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case c == '`':
		return l.quotedName(at)
	case c == '\'' || c == '"':
		return l.str(at, false)
	case (c == 'r' || c == 'R') && len(rest) > 1 && (rest[1] == '\'' || rest[1] == '"'):
		l.advance(1)
		return l.str(at, true)
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]) && !l.afterName():
		return l.number(at)
	case c == '_' || unicode.IsLetter(r):
		n := wordLen(rest)
		l.out = append(l.out, token{kind: tokWord, text: rest[:n], raw: rest[:n], at: at})
		l.advance(n)
		return nil
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.out = append(l.out, token{kind: tokOp, text: op, raw: op, at: at})
			l.advance(len(op))
			return nil
		}
	}
	return l.fail(at, string(r), "unexpected character")
}

// afterName tells whether a point continues a name: in a.1b it does not start
// a number. (Names do not begin with a digit unless quoted, so it is refused.)
func (l *lexer) afterName() bool {
	if len(l.out) == 0 {
		return false
	}
	t := l.out[len(l.out)-1]
	return (t.kind == tokQuoted || t.kind == tokWord) && t.at.Offset+len(t.raw) == l.pos
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func wordLen(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) || r == utf8.RuneError {
			return i
		}
	}
	return len(s)
}

func (l *lexer) quotedName(at Position) error {
	rest := l.in[l.pos:]
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		if rest[i] != '`' {
			b.WriteByte(rest[i])
			continue
		}
		if i+1 < len(rest) && rest[i+1] == '`' {
			b.WriteByte('`')
			i++
			continue
		}
		if b.Len() == 0 {
			return l.fail(at, "``", "a quoted name is empty")
		}
		l.out = append(l.out, token{kind: tokQuoted, text: b.String(), raw: rest[:i+1], at: at})
		l.advance(i + 1)
		return nil
	}
	return l.fail(at, "`", "the quoted name is not closed")
}

// str reads a string literal: backslash escapes as Spark unescapes them, a
// doubled quote is one quote; a raw string (r'…') has no escapes.
func (l *lexer) str(at Position, raw bool) error {
	rest := l.in[l.pos:]
	q := rest[0]
	var b strings.Builder
	for i := 1; i < len(rest); {
		switch c := rest[i]; {
		case c == '\\' && !raw && i+1 < len(rest):
			i += unescape(&b, rest[i:])
		case c == q && !raw && i+1 < len(rest) && rest[i+1] == q:
			b.WriteByte(q)
			i += 2
		case c == q:
			if !utf8.ValidString(b.String()) {
				return l.fail(at, "", "the string is not valid UTF-8")
			}
			l.out = append(l.out, token{kind: tokString, text: b.String(), raw: rest[:i+1], at: at})
			l.advance(i + 1)
			return nil
		default:
			b.WriteByte(c)
			i++
		}
	}
	return l.fail(at, string(q), "the string is not closed")
}

// unescape writes what the escape at the start of s stands for and returns the
// bytes it took. \% and \_ keep their backslash: they are LIKE's.
func unescape(b *strings.Builder, s string) int {
	c := s[1]
	switch {
	case c == 'u' && len(s) >= 6 || c == 'U' && len(s) >= 10:
		n := 6
		if c == 'U' {
			n = 10
		}
		if v, err := strconv.ParseUint(s[2:n], 16, 32); err == nil && utf8.ValidRune(rune(v)) {
			b.WriteRune(rune(v))
			return n
		}
	case c >= '0' && c <= '1' && len(s) >= 4 && isOctal(s[2]) && isOctal(s[3]):
		b.WriteRune(rune(c-'0')<<6 | rune(s[2]-'0')<<3 | rune(s[3]-'0'))
		return 4
	case c == '%' || c == '_':
		b.WriteString(s[:2])
		return 2
	}
	if i := slices.Index([]byte("0bnrtZ"), c); i >= 0 {
		b.WriteByte("\x00\b\n\r\t\x1a"[i])
		return 2
	}
	b.WriteByte(c)
	return 2
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

func (l *lexer) number(at Position) error {
	rest := l.in[l.pos:]
	i := 0
	for i < len(rest) && isDigit(rest[i]) {
		i++
	}
	if i < len(rest) && rest[i] == '.' {
		i++
		for i < len(rest) && isDigit(rest[i]) {
			i++
		}
	}
	if i < len(rest) && (rest[i] == 'e' || rest[i] == 'E') {
		j := i + 1
		if j < len(rest) && (rest[j] == '+' || rest[j] == '-') {
			j++
		}
		if j < len(rest) && isDigit(rest[j]) {
			for j < len(rest) && isDigit(rest[j]) {
				j++
			}
			i = j
		}
	}
	n := i + wordLen(rest[i:]) // with suffix
	l.out = append(l.out, token{kind: tokNumber, text: rest[:i], raw: rest[:n], at: at})
	l.advance(n)
	return nil
}
