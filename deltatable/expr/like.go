package expr

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/internal/ordered"
)

// pattern is a LIKE pattern: runs of literal text and _ between %s.
type pattern struct {
	parts  [][]patternRune // between the %s; at least one
	prefix string          // what every match starts with
}

type patternRune struct {
	r   rune
	any bool // _
}

// newPattern reads a pattern. As in Spark, the escape character stands before
// %, _ or itself only; the second result says what is wrong.
func newPattern(s string, escape rune) (*pattern, string) {
	p := &pattern{parts: [][]patternRune{nil}}
	plain := true
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		last := len(p.parts) - 1
		switch r {
		case escape:
			next, n := utf8.DecodeRuneInString(s[i:])
			if n == 0 {
				return nil, "the LIKE pattern ends with the escape character"
			}
			if next != '%' && next != '_' && next != escape {
				return nil, "in the LIKE pattern the escape character stands before something else than %, _ or itself"
			}
			i += n
			r = next
		case '%':
			p.parts = append(p.parts, nil)
			plain = false
			continue
		case '_':
			p.parts[last] = append(p.parts[last], patternRune{any: true})
			plain = false
			continue
		}
		p.parts[last] = append(p.parts[last], patternRune{r: r})
		if plain {
			p.prefix += string(r)
		}
	}
	return p, ""
}

// match tells whether the whole string fits. % takes as little as it can,
// which finds a match if there is one.
func (p *pattern) match(s string) bool {
	n, ok := matchPart(p.parts[0], s)
	if !ok {
		return false
	}
	s = s[n:]
	if len(p.parts) == 1 {
		return s == ""
	}
	last := len(p.parts) - 1
	for _, part := range p.parts[1:last] {
		for {
			if n, ok := matchPart(part, s); ok {
				s = s[n:]
				break
			}
			if s == "" {
				return false
			}
			_, n := utf8.DecodeRuneInString(s)
			s = s[n:]
		}
	}
	return matchEnd(p.parts[last], s)
}

// matchPart matches a part at the start of s and returns the bytes it took.
func matchPart(part []patternRune, s string) (int, bool) {
	at := 0
	for _, pr := range part {
		r, n := utf8.DecodeRuneInString(s[at:])
		if n == 0 || !pr.any && (r != pr.r || r == utf8.RuneError && n == 1) {
			return 0, false
		}
		at += n
	}
	return at, true
}

func matchEnd(part []patternRune, s string) bool {
	for i := len(part) - 1; i >= 0; i-- {
		r, n := utf8.DecodeLastRuneInString(s)
		if n == 0 || !part[i].any && (r != part[i].r || r == utf8.RuneError && n == 1) {
			return false
		}
		s = s[:len(s)-n]
	}
	return true
}

// likeNode is x LIKE pattern.
type likeNode struct {
	boolTyped
	x   node
	pat *pattern
}

func (l *likeNode) eval(b *batch) (arrow.Array, error) { return evalPred(l, b) }

func (l *likeNode) test(b *batch) ([]uint8, error) {
	arr, err := l.x.eval(b)
	if err != nil {
		return nil, err
	}
	defer arr.Release()
	out, a := make([]uint8, b.rows), arr.(*array.String)
	for i := range out {
		switch {
		case a.IsNull(i):
			out[i] = isNull
		case strings.HasPrefix(a.Value(i), l.pat.prefix) && l.pat.match(a.Value(i)):
			out[i] = isTrue
		}
	}
	return out, nil
}

// possible uses the prefix: a match is not below it, and not above all strings
// that start with it.
func (l *likeNode) possible(bounds boundsFunc) uint8 {
	c, ok := l.x.(*columnNode)
	if !ok || len(c.path) > 0 {
		return canAny
	}
	b := bounds(c.name)
	null, value := presence(b)
	s := set(null, canNull)
	if !value {
		return s
	}
	s |= canFalse
	if b.Min != nil && b.Max != nil && bytes.Compare(b.Min, b.Max) > 0 {
		return s | canTrue
	}
	low := ordered.AppendString(nil, l.pat.prefix)
	if b.Max != nil && bytes.Compare(b.Max, low) < 0 {
		return s
	}
	if next, ok := successor(l.pat.prefix); ok && b.Min != nil && bytes.Compare(b.Min, ordered.AppendString(nil, next)) >= 0 {
		return s
	}
	return s | canTrue
}

// successor is the least string above all that start with prefix, if any.
func successor(prefix string) (string, bool) {
	b := []byte(prefix)
	for len(b) > 0 {
		if b[len(b)-1] < 0xff {
			b[len(b)-1]++
			return string(b), true
		}
		b = b[:len(b)-1]
	}
	return "", false
}
