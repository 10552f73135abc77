package schema

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// DDLError is a mistake in the text given to [ParseDDL].
type DDLError struct {
	Text   string
	Offset int // in bytes, of the place of the mistake
	Msg    string
}

// Column is the place of the mistake in characters, from 1.
func (e *DDLError) Column() int { return utf8.RuneCountInString(e.Text[:e.Offset]) + 1 }

func (e *DDLError) Error() string {
	near := e.Text[e.Offset:]
	if near == "" {
		return fmt.Sprintf("schema text: at the end: %s", e.Msg)
	}
	if len(near) > 20 {
		near = strings.ToValidUTF8(near[:20], "") + "…"
	}
	return fmt.Sprintf("schema text: at character %d (%q): %s", e.Column(), near, e.Msg)
}

// ParseDDL reads a schema in SQL text, as Spark writes it: "a long, b string not
// null, c decimal(10,2), d array<int>, e map<string,long>, f struct<x:int,y:string>,
// `odd name` date comment 'c'". Type names are Spark's and their synonyms. Errors
// are [*DDLError]. The names of columns are not checked; see [Schema.CheckCreate].
func ParseDDL(text string) (s *Schema, err error) {
	p := &ddlParser{text: text}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*DDLError)
			if !ok {
				panic(r)
			}
			s, err = nil, e
		}
	}()
	p.next()
	fields := p.fields("", 0)
	s, err = New(fields)
	if err != nil {
		return nil, &DDLError{Text: text, Offset: 0, Msg: strings.TrimPrefix(err.Error(), "schema: ")}
	}
	return s, nil
}

// ddlParser is a recursive-descent parser with one token of look-ahead; errors
// travel as panics of *DDLError to ParseDDL, which alone starts it.
type ddlParser struct {
	text string
	pos  int    // after the token
	at   int    // of the token
	kind byte   // 'w' word, 'q' name in backticks, 's' string, 'n' number, 0 end, else the character itself
	tok  string // its text; decoded for q and s
}

func (p *ddlParser) fail(at int, format string, args ...any) {
	panic(&DDLError{Text: p.text, Offset: at, Msg: fmt.Sprintf(format, args...)})
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func (p *ddlParser) next() {
	for p.pos < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.pos:])
		if !unicode.IsSpace(r) {
			break
		}
		p.pos += n
	}
	p.at = p.pos
	if p.pos == len(p.text) {
		p.kind, p.tok = 0, ""
		return
	}
	switch c := p.text[p.pos]; {
	case c == '`' || c == '\'' || c == '"':
		p.quoted(c)
	case isWord(c):
		for p.pos < len(p.text) && isWord(p.text[p.pos]) {
			p.pos++
		}
		p.kind, p.tok = 'w', p.text[p.at:p.pos]
		if !utf8.ValidString(p.tok) {
			p.fail(p.at, "the text is not UTF-8")
		}
	default:
		p.pos++
		p.kind, p.tok = c, string(c)
	}
}

// quoted reads a name in backticks or a string; the quote is doubled within.
func (p *ddlParser) quoted(q byte) {
	var b strings.Builder
	for i := p.pos + 1; i < len(p.text); i++ {
		c := p.text[i]
		switch {
		case c == '\\' && q != '`' && i+1 < len(p.text):
			i++
			b.WriteByte(p.text[i])
		case c != q:
			b.WriteByte(c)
		case i+1 < len(p.text) && p.text[i+1] == q:
			b.WriteByte(q)
			i++
		default:
			p.pos, p.tok, p.kind = i+1, b.String(), 's'
			if q == '`' {
				p.kind = 'q'
			}
			if !utf8.ValidString(p.tok) {
				p.fail(p.at, "the text is not UTF-8")
			}
			return
		}
	}
	p.fail(p.at, "the quote %c is not closed", q)
}

func (p *ddlParser) word(words ...string) bool {
	for _, w := range words {
		if p.kind == 'w' && strings.EqualFold(p.tok, w) {
			return true
		}
	}
	return false
}

func (p *ddlParser) accept(c byte) bool {
	if p.kind != c {
		return false
	}
	p.next()
	return true
}

func (p *ddlParser) expect(c byte) {
	if !p.accept(c) {
		p.fail(p.at, "expected %q", c)
	}
}

// fields reads columns up to the end of the text or, within a struct, to '>'.
func (p *ddlParser) fields(where string, depth int) []Field {
	var out []Field
	seen := map[string]bool{}
	for {
		at := p.at
		f := p.field(where, depth)
		if seen[Fold(f.Name)] {
			p.fail(at, "the name %q occurs twice (case does not tell names apart)", f.Name)
		}
		seen[Fold(f.Name)] = true
		out = append(out, f)
		if p.accept(',') {
			continue
		}
		if where == "" && p.kind != 0 {
			p.fail(p.at, "expected a comma or the end")
		}
		return out
	}
}

func (p *ddlParser) field(where string, depth int) Field {
	if p.kind != 'w' && p.kind != 'q' {
		p.fail(p.at, "expected the name of a column")
	}
	f := Field{Name: p.tok, Nullable: true}
	if f.Name == "" {
		p.fail(p.at, "a name must not be empty")
	}
	p.next()
	p.accept(':')
	var char *CharVarchar
	f.Type, char = p.typ(join(where, f.Name), depth)
	var meta []byte
	if char != nil {
		meta = append(meta, `"`+CharVarcharKey+`":"`+char.String()+`"`...)
	}
	for {
		switch {
		case p.word("not"):
			p.next()
			if !p.word("null") {
				p.fail(p.at, "expected NULL after NOT")
			}
			p.next()
			f.Nullable = false
		case p.word("null"):
			p.next()
		case p.word("comment"):
			p.next()
			if p.kind != 's' && p.kind != '"' {
				p.fail(p.at, "expected a string in quotes after COMMENT")
			}
			if len(meta) > 0 {
				meta = append(meta, ',')
			}
			text, _ := jsontext.AppendQuote(nil, p.tok) // valid UTF-8: next checks it
			meta = append(append(meta, `"comment":`...), text...)
			p.next()
		case p.word("default", "generated", "check", "primary", "references", "collate"):
			p.fail(p.at, "%s is not supported", strings.ToUpper(p.tok))
		default:
			if len(meta) > 0 {
				f.metadata = jsontext.Value("{" + string(meta) + "}")
			}
			return f
		}
	}
}

// sqlTypes are Spark's names of atomic types without parameters.
var sqlTypes = map[string]Kind{
	"boolean": Boolean, "bool": Boolean, "byte": Byte, "tinyint": Byte, "short": Short, "smallint": Short,
	"int": Integer, "integer": Integer, "long": Long, "bigint": Long,
	"float": Float, "real": Float, "double": Double, "string": String, "binary": Binary,
	"date": Date, "timestamp": Timestamp, "timestamp_ltz": Timestamp, "timestamp_ntz": TimestampNTZ,
	"void": Void, "null": Void,
}

func (p *ddlParser) typ(where string, depth int) (Type, *CharVarchar) {
	at := p.at
	if depth > maxDepth {
		p.fail(at, "types nested deeper than %d", maxDepth)
	}
	if p.kind != 'w' {
		p.fail(at, "expected a type for %s", where)
	}
	name := strings.ToLower(p.tok)
	p.next()
	if k, ok := sqlTypes[name]; ok {
		return Type{Kind: k}, nil
	}
	switch name {
	case "decimal", "dec", "numeric":
		return p.decimal(at), nil
	case "char", "character", "varchar":
		p.expect('(')
		c, err := parseCharVarchar(name + "(" + strconv.Itoa(p.number()) + ")")
		if err != nil {
			p.fail(at, "%v", err)
		}
		p.expect(')')
		return Type{Kind: String}, &c
	case "array":
		p.expect('<')
		elem, _ := p.typ(where+".element", depth+1)
		p.expect('>')
		return Type{Kind: Array, Elem: &elem, ElemNullable: true}, nil
	case "map":
		p.expect('<')
		key, _ := p.typ(where+".key", depth+1)
		if key.Kind == Map || key.Kind == Void {
			p.fail(at, "the key of a map cannot be of type %s", key.String())
		}
		p.expect(',')
		val, _ := p.typ(where+".value", depth+1)
		p.expect('>')
		return Type{Kind: Map, Key: &key, Elem: &val, ElemNullable: true}, nil
	case "struct":
		p.expect('<')
		fields := p.fields(where, depth+1)
		p.expect('>')
		return Type{Kind: Struct, Fields: fields}, nil
	case "variant", "interval", "geometry", "geography", "object", "time":
		p.fail(at, "the type %s is not supported", name)
	}
	p.fail(at, "there is no type %s", name)
	return Type{}, nil
}

func (p *ddlParser) decimal(at int) Type {
	prec, scale := 10, 0
	if p.accept('(') {
		prec = p.number()
		if p.accept(',') {
			scale = p.number()
		}
		p.expect(')')
	}
	t, err := newDecimal(prec, scale)
	if err != nil {
		p.fail(at, "%v", err)
	}
	return t
}

func (p *ddlParser) number() int {
	n, err := strconv.Atoi(p.tok)
	if p.kind != 'w' || err != nil {
		p.fail(p.at, "expected a whole number")
	}
	p.next()
	return n
}
