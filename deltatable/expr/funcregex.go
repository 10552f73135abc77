package expr

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// textSpecial gives the functions of strings that look at their arguments'
// types.
func textSpecial(name string) (special, bool) {
	s, ok := map[string]special{
		"concat":             {0, -1, bindConcat},
		"concat_ws":          {1, -1, bindConcatWS},
		"substring":          {2, 3, bindCut(substring, "Bii")},
		"substr":             {2, 3, bindCut(substring, "Bii")},
		"left":               {2, 2, bindCut(textLeft, "Bi")},
		"right":              {2, 2, bindCut(textRight, "Bi")},
		"reverse":            {1, 1, bindReverse},
		"length":             {1, 1, bindLength},
		"len":                {1, 1, bindLength},
		"char_length":        {1, 1, bindLength},
		"character_length":   {1, 1, bindLength},
		"hex":                {1, 1, bindHex},
		"split":              {2, 3, bindRegex("ssi", func(dt *arrow.DataType) { *dt = listOf(typeString) }, regexSplit)},
		"regexp_replace":     {3, 4, bindRegex("sssi", nil, regexReplace)},
		"regexp_extract":     {2, 3, bindRegex("ssi", nil, regexExtract)},
		"regexp_extract_all": {2, 3, bindRegex("ssi", func(dt *arrow.DataType) { *dt = listOf(typeString) }, regexExtractAll)},
		"regexp_substr":      {2, 2, bindRegex("ss", nil, regexSubstr)},
		"regexp_count":       {2, 2, bindRegex("ss", func(dt *arrow.DataType) { *dt = typeInt }, regexCount)},
		"regexp_like":        {2, 2, bindRegexLike},
		"regexp":             {2, 2, bindRegexLike},
		"rlike":              {2, 2, bindRegexLike},
	}[name]
	return s, ok
}

func (bd *binder) texts(e *Call, args []node) error {
	for i := range args {
		var err error
		if args[i], err = bd.argument(e.Args[i], args[i], kString, e); err != nil {
			return err
		}
	}
	return nil
}

// bindConcat joins text (or binaries, if all are).
func bindConcat(bd *binder, e *Call, args []node) (node, error) {
	if len(args) == 0 {
		return &constant{dt: typeString, src: e}, nil
	}
	return bd.concat(e, e.Args, args)
}

func (bd *binder) concat(e Expr, exprs []Expr, args []node) (node, error) {
	dt := typeBinary
	if args[0].typ().ID() == arrow.LIST {
		return bd.concatLists(e, exprs, args)
	}
	for _, a := range args {
		switch {
		case nested(a.typ()):
			return nil, &UnsupportedError{At: e.Pos(), What: "concat of " + typeName(a.typ())}
		case a.typ().ID() != arrow.BINARY:
			dt = typeString
		}
	}
	for i := range args {
		var err error
		if args[i], err = bd.cast(args[i], dt, exprs[i], false); err != nil {
			return nil, err
		}
	}
	return bd.function(&funcNode{dt: dt, args: args, src: e, fresh: always(func(a []cell) (cell, string) {
		var b strings.Builder
		for _, c := range a {
			b.WriteString(c.s)
		}
		return cell{s: b.String()}, ""
	})}, false), nil
}

func (bd *binder) concatLists(e Expr, exprs []Expr, args []node) (node, error) {
	dt, err := bd.same(e, exprs, args)
	if err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: dt, args: args, src: e, fresh: always(func(a []cell) (cell, string) {
		var out []cell
		for _, c := range a {
			out = append(out, c.elements()...)
		}
		return listCell(out), ""
	})}, false), nil
}

// bindCut binds a function that takes a part of a text, or of a binary.
func bindCut(f rowFunc, kinds string) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		for i := range args {
			var err error
			if args[i], err = bd.argument(e.Args[i], args[i], kind(kinds[i]), e); err != nil {
				return nil, err
			}
		}
		g, dt := f, args[0].typ()
		if dt.ID() == arrow.BINARY {
			g = func(a []cell) (cell, string) { // one character for each byte
				out, msg := f(append([]cell{{s: latin(a[0].s)}}, a[1:]...))
				bytes := make([]byte, 0, len(out.s))
				for _, r := range out.s {
					bytes = append(bytes, byte(r))
				}
				return cell{s: string(bytes)}, msg
			}
		}
		return bd.function(&funcNode{dt: dt, args: args, src: e, fresh: always(g)}, false), nil
	}
}

// latin makes a character of each byte.
func latin(s string) string {
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = rune(s[i])
	}
	return string(out)
}

// bindConcatWS joins what is not NULL, text and arrays of text.
func bindConcatWS(bd *binder, e *Call, args []node) (node, error) {
	for i := range args {
		to := typeString
		if args[i].typ().ID() == arrow.LIST {
			to = listOf(typeString)
		}
		var err error
		if args[i], err = bd.cast(args[i], to, e.Args[i], false); err != nil {
			return nil, err
		}
	}
	return bd.function(&funcNode{dt: typeString, args: args, lax: true, src: e, fresh: always(func(a []cell) (cell, string) {
		if a[0].null {
			return null, ""
		}
		var parts []string
		for _, c := range a[1:] {
			if c.isList() {
				for _, el := range c.elements() {
					if !el.null {
						parts = append(parts, el.s)
					}
				}
			} else if !c.null {
				parts = append(parts, c.s)
			}
		}
		return cell{s: strings.Join(parts, a[0].s)}, ""
	})}, false), nil
}

func bindReverse(bd *binder, e *Call, args []node) (node, error) {
	if args[0].typ().ID() == arrow.LIST {
		return bd.function(&funcNode{dt: args[0].typ(), args: args, src: e, fresh: always(func(a []cell) (cell, string) {
			in := a[0].elements()
			out := make([]cell, len(in))
			for i, c := range in {
				out[len(in)-1-i] = c
			}
			return listCell(out), ""
		})}, false), nil
	}
	if err := bd.texts(e, args); err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: typeString, args: args, src: e, fresh: always(text1(func(s string) string {
		r := []rune(s)
		for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
			r[i], r[j] = r[j], r[i]
		}
		return string(r)
	}))}, false), nil
}

// bindLength counts characters, or the bytes of a binary.
func bindLength(bd *binder, e *Call, args []node) (node, error) {
	x, err := bd.argument(e.Args[0], args[0], kBytes, e)
	if err != nil {
		return nil, err
	}
	f := func(a []cell) (cell, string) { return cell{i: int64(utf8.RuneCountInString(a[0].s))}, "" }
	if x.typ().ID() == arrow.BINARY {
		f = func(a []cell) (cell, string) { return cell{i: int64(len(a[0].s))}, "" }
	}
	return bd.function(&funcNode{dt: typeInt, args: []node{x}, src: e, fresh: always(f)}, false), nil
}

func bindHex(bd *binder, e *Call, args []node) (node, error) {
	f := text1(func(s string) string { return fmt.Sprintf("%X", s) })
	k := kBytes
	if isNumber(args[0].typ()) {
		k = kBigint
		f = func(a []cell) (cell, string) { return cell{s: fmt.Sprintf("%X", uint64(a[0].i))}, "" }
	}
	x, err := bd.argument(e.Args[0], args[0], k, e)
	if err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: typeString, args: []node{x}, src: e, fresh: always(f)}, false), nil
}

// regexes compiles patterns, the last one again for free.
type regexes struct {
	text string
	re   *regexp.Regexp
}

func (r *regexes) compile(text string) (*regexp.Regexp, string) {
	if r.re != nil && r.text == text {
		return r.re, ""
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Sprintf("the regular expression %s is not one of RE2: %v", quoteText(text), err)
	}
	r.text, r.re = text, re
	return re, ""
}

// checkRegex compiles a constant pattern when it is bound.
func checkRegex(pattern node, src Expr) error {
	if c, ok := pattern.(*constant); ok && !c.null {
		if _, msg := new(regexes).compile(c.s); msg != "" {
			return &BindError{At: src.Pos(), Text: src.String(), Msg: msg}
		}
	}
	return nil
}

// bindRegex binds a function whose second argument is a pattern.
func bindRegex(kinds string, result func(*arrow.DataType), f func(re *regexp.Regexp, a []cell) (cell, string)) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		for i := range args {
			var err error
			if args[i], err = bd.argument(e.Args[i], args[i], kind(kinds[i]), e); err != nil {
				return nil, err
			}
		}
		if err := checkRegex(args[1], e.Args[1]); err != nil {
			return nil, err
		}
		dt := typeString
		if result != nil {
			result(&dt)
		}
		return bd.function(&funcNode{dt: dt, args: args, src: e, fresh: func() rowFunc {
			var known regexes
			return func(a []cell) (cell, string) {
				re, msg := known.compile(a[1].s)
				if msg != "" {
					return null, msg
				}
				return f(re, a)
			}
		}}, true), nil
	}
}

func bindRegexLike(bd *binder, e *Call, _ []node) (node, error) {
	return bd.like(&Like{At: e.At, Op: "RLIKE", X: e.Args[0], Pattern: e.Args[1]})
}

// regexSplit splits as Java does: a match without length at the start makes no
// empty part.
func regexSplit(re *regexp.Regexp, a []cell) (cell, string) {
	s, limit := a[0].s, int64(-1)
	if len(a) > 2 {
		limit = a[2].i
	}
	var out []cell
	if a[1].s == "" { // characters
		for _, r := range s {
			if limit > 0 && int64(len(out)) == limit {
				break
			}
			out = append(out, cell{s: string(r)})
		}
		if s == "" {
			out = []cell{{}}
		}
		return listCell(out), ""
	}
	at := 0
	for _, m := range re.FindAllStringIndex(s, -1) {
		if limit > 0 && int64(len(out)) == limit-1 {
			break
		}
		if m[1] == 0 || m[0] == m[1] && m[0] == len(s) {
			continue
		}
		out = append(out, cell{s: s[at:m[0]]})
		at = m[1]
	}
	return listCell(append(out, cell{s: s[at:]})), ""
}

// javaReplacement writes what stands for a match: $1 and ${name} are groups, a
// backslash takes the next character as it is.
func javaReplacement(b *strings.Builder, with, s string, m []int, re *regexp.Regexp) string {
	group := func(g int) {
		if m[2*g] >= 0 {
			b.WriteString(s[m[2*g]:m[2*g+1]])
		}
	}
	for i := 0; i < len(with); i++ {
		switch c := with[i]; {
		case c == '\\' && i+1 < len(with):
			i++
			b.WriteByte(with[i])
		case c == '\\':
			return "the replacement ends with a backslash"
		case c == '$' && i+1 < len(with) && isDigit(with[i+1]):
			i++
			g := int(with[i] - '0')
			if g > re.NumSubexp() {
				return fmt.Sprintf("the replacement names the group %d, which the pattern does not have", g)
			}
			for i+1 < len(with) && isDigit(with[i+1]) && g*10+int(with[i+1]-'0') <= re.NumSubexp() {
				i++
				g = g*10 + int(with[i]-'0')
			}
			group(g)
		case c == '$':
			name, _, ok := strings.Cut(with[i+1:], "}")
			g := -1
			if ok && strings.HasPrefix(name, "{") {
				g = re.SubexpIndex(name[1:])
			}
			if g < 0 {
				return "the replacement has a $ that names no group"
			}
			i += len(name) + 1
			group(g)
		default:
			b.WriteByte(c)
		}
	}
	return ""
}

func regexReplace(re *regexp.Regexp, a []cell) (cell, string) {
	s, head := a[0].s, ""
	if len(a) > 3 {
		if a[3].i < 1 {
			return null, "regexp_replace counts characters from 1"
		}
		rest := cut(s, a[3].i-1, 1<<40)
		head, s = s[:len(s)-len(rest)], rest
	}
	var b strings.Builder
	b.WriteString(head)
	at := 0
	for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[at:m[0]])
		if msg := javaReplacement(&b, a[2].s, s, m, re); msg != "" {
			return null, msg
		}
		if at = m[1]; b.Len() > maxValue {
			return null, tooLong
		}
	}
	b.WriteString(s[at:])
	return cell{s: b.String()}, ""
}

// groupOf is the group that an extraction asks for, the first by default.
func groupOf(re *regexp.Regexp, a []cell) (int, string) {
	g := int64(1)
	if len(a) > 2 {
		g = a[2].i
	}
	if g < 0 || g > int64(re.NumSubexp()) {
		return 0, fmt.Sprintf("the pattern has %d groups, not %d", re.NumSubexp(), g)
	}
	return int(g), ""
}

func regexExtract(re *regexp.Regexp, a []cell) (cell, string) {
	m := re.FindStringSubmatchIndex(a[0].s)
	if m == nil {
		return cell{}, ""
	}
	g, msg := groupOf(re, a)
	if msg != "" || m[2*g] < 0 {
		return cell{}, msg
	}
	return cell{s: a[0].s[m[2*g]:m[2*g+1]]}, ""
}

func regexExtractAll(re *regexp.Regexp, a []cell) (cell, string) {
	var out []cell
	for _, m := range re.FindAllStringSubmatchIndex(a[0].s, -1) {
		g, msg := groupOf(re, a)
		if msg != "" {
			return null, msg
		}
		c := cell{}
		if m[2*g] >= 0 {
			c.s = a[0].s[m[2*g]:m[2*g+1]]
		}
		out = append(out, c)
	}
	return listCell(out), ""
}

func regexSubstr(re *regexp.Regexp, a []cell) (cell, string) {
	if m := re.FindStringIndex(a[0].s); m != nil {
		return cell{s: a[0].s[m[0]:m[1]]}, ""
	}
	return null, ""
}

func regexCount(re *regexp.Regexp, a []cell) (cell, string) {
	return cell{i: int64(len(re.FindAllStringIndex(a[0].s, -1)))}, ""
}

// matchNode is x LIKE, ILIKE or RLIKE pattern where the pattern is no constant,
// and RLIKE and ILIKE in general.
func (bd *binder) matchNode(e *Like, x, by node, escape rune) node {
	fold := e.Op == "ILIKE"
	n := &funcNode{dt: typeBool, args: []node{x, by}, src: e, fresh: func() rowFunc {
		var known regexes
		var text string
		var pat *pattern
		return func(a []cell) (cell, string) {
			if e.Op == "RLIKE" {
				re, msg := known.compile(a[1].s)
				if msg != "" {
					return null, msg
				}
				return boolCell(re.MatchString(a[0].s)), ""
			}
			s := a[0].s
			if pat == nil || text != a[1].s {
				p := a[1].s
				if fold {
					p = strings.ToLower(p)
				}
				var msg string
				if pat, msg = newPattern(p, escape); msg != "" {
					return null, msg
				}
				text = a[1].s
			}
			if fold {
				s = strings.ToLower(s)
			}
			return boolCell(pat.match(s)), ""
		}
	}}
	return bd.function(n, true)
}
