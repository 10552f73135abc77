package changefile

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scanner reads the JSON of one line. It accepts what RFC 8259 and RFC 7493
// accept and nothing else; go-json-experiment's jsontext, which is three times
// slower, is its oracle in FuzzJSONL and does the rare work here (unknown
// fields).
type scanner struct {
	b    []byte // the line, without its line feed
	p    int
	file string
	line int64
	text []byte // room for strings with escapes

	allowUnknown bool
	maps         int // map columns seen with two or more entries since the last batch
}

// fail makes the error for a value; value is the offending text.
func (s *scanner) fail(column string, value []byte, format string, args ...any) error {
	return &InputError{File: s.file, Line: s.line, Column: column, Value: excerpt(value), Msg: fmt.Sprintf(format, args...)}
}

// malformed makes the error for text that is not JSON at s.p.
func (s *scanner) malformed(column, what string) error {
	if s.p >= len(s.b) {
		return s.fail(column, nil, "malformed JSON: the line ends %s", what)
	}
	end := min(s.p+20, len(s.b))
	return s.fail(column, s.b[s.p:end], "malformed JSON at byte %d, %s", s.p+1, what)
}

func (s *scanner) space() {
	for s.p < len(s.b) {
		if c := s.b[s.p]; c != ' ' && c != '\t' && c != '\r' {
			return
		}
		s.p++
	}
}

// peek is the byte at s.p, or 0 at the end of the line (a NUL byte is no JSON
// either, so the two need not be told apart).
func (s *scanner) peek() byte {
	if s.p < len(s.b) {
		return s.b[s.p]
	}
	return 0
}

// plain marks the bytes that stand for themselves in a string and are ASCII.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// str reads the string at s.p. The result is valid until the next call.
func (s *scanner) str(column string) ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.malformed(column, "where a string was expected")
	}
	b, start := s.b, s.p+1
	p := start
	for p < len(b) && plain[b[p]] {
		p++
	}
	if p < len(b) && b[p] == '"' {
		s.p = p + 1
		return b[start:p], nil
	}
	return s.longStr(column, start, p)
}

// longStr reads the rest of a string that holds more than printable ASCII: b[p]
// is the first byte that is not plain.
func (s *scanner) longStr(column string, start, p int) ([]byte, error) {
	b := s.b
	ascii, escapes := true, false
scan:
	for ; p < len(b); p++ {
		switch c := b[p]; {
		case plain[c]:
		case c == '"':
			break scan
		case c == '\\':
			escapes = true
			p++
		case c >= utf8.RuneSelf:
			ascii = false
		default:
			return nil, s.fail(column, b[start-1:min(p+1, len(b))], "malformed JSON: a control character in a string must be escaped")
		}
	}
	if p >= len(b) {
		s.p = len(b)
		return nil, s.fail(column, b[start-1:], "malformed JSON: the line ends inside a string")
	}
	raw := b[start:p]
	if !ascii && !utf8.Valid(raw) {
		return nil, s.fail(column, b[start-1:p+1], "invalid UTF-8")
	}
	s.p = p + 1
	if !escapes {
		return raw, nil
	}
	var err string
	if s.text, err = unescape(s.text[:0], raw); err != "" {
		return nil, s.fail(column, b[start-1:p+1], "%s", err)
	}
	return s.text, nil
}

// unescape appends raw, a string's inside that is valid UTF-8, to dst. The
// second result says what is wrong with it, if anything.
func unescape(dst, raw []byte) ([]byte, string) {
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...), ""
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i+1:]
		if len(raw) == 0 {
			return dst, "malformed JSON: incomplete escape"
		}
		c := raw[0]
		raw = raw[1:]
		switch c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, rest, fault := codePoint(raw)
			if fault != "" {
				return dst, fault
			}
			dst, raw = utf8.AppendRune(dst, r), rest
		default:
			return dst, fmt.Sprintf("malformed JSON: unknown escape \\%s", excerpt([]byte{c}))
		}
	}
	return dst, ""
}

// codePoint reads what follows \u, with the second half of a surrogate pair, and
// gives what stands behind it.
func codePoint(raw []byte) (r rune, rest []byte, fault string) {
	r, n := hex4(raw)
	if n == 0 {
		return 0, nil, "malformed JSON: \\u takes four hexadecimal digits"
	}
	raw = raw[4:]
	if r < 0xd800 || r >= 0xe000 {
		return r, raw, ""
	}
	var lo rune
	if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
		lo, _ = hex4(raw[2:])
	}
	if r >= 0xdc00 || lo < 0xdc00 || lo >= 0xe000 {
		return 0, nil, fmt.Sprintf("lone surrogate \\u%04x", r)
	}
	return 0x10000 + (r-0xd800)<<10 + (lo - 0xdc00), raw[6:], ""
}

// hex4 reads four hexadecimal digits; n is 0 if they are not there.
func hex4(b []byte) (r rune, n int) {
	if len(b) < 4 {
		return 0, 0
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, 0
		}
		r = r<<4 | rune(c)
	}
	return r, 4
}

// number reads the number at s.p, by the grammar of RFC 8259 section 6.
func (s *scanner) number(column string) ([]byte, error) {
	end, ok := numberEnd(s.b, s.p)
	if !ok {
		s.p = end
		return nil, s.malformed(column, "in a number")
	}
	tok := s.b[s.p:end]
	s.p = end
	return tok, nil
}

// numberEnd is the end of the number that starts at b[p]; not ok: the place
// where it stops being one.
func numberEnd(b []byte, p int) (int, bool) {
	digits := func() bool {
		start := p
		for p < len(b) && b[p]-'0' <= 9 {
			p++
		}
		return p > start
	}
	if p < len(b) && b[p] == '-' {
		p++
	}
	if p < len(b) && b[p] == '0' {
		p++
		if p < len(b) && b[p]-'0' <= 9 {
			return p, false
		}
	} else if !digits() {
		return p, false
	}
	if p < len(b) && b[p] == '.' {
		p++
		if !digits() {
			return p, false
		}
	}
	if p < len(b) && (b[p] == 'e' || b[p] == 'E') {
		p++
		if p < len(b) && (b[p] == '+' || b[p] == '-') {
			p++
		}
		if !digits() {
			return p, false
		}
	}
	return p, true
}

// literal reads word (true, false, null) at s.p.
func (s *scanner) literal(column, word string) error {
	if end := s.p + len(word); end <= len(s.b) && string(s.b[s.p:end]) == word {
		s.p = end
		return nil
	}
	return s.malformed(column, "where a value was expected")
}

// mistyped makes the error for the value at s.p, which is not of the kind that
// want describes. It reads the value, so that malformed JSON is named as such.
func (s *scanner) mistyped(column, want string) error {
	start := s.p
	if err := s.skip(column); err != nil {
		return err
	}
	return s.fail(column, s.b[start:s.p], "%s", want)
}

// skip reads one value of any kind, nested ones included, strictly.
func (s *scanner) skip(column string) error {
	if c := s.peek(); s.p == len(s.b) {
		return s.malformed(column, "where a value was expected")
	} else if c == '-' || c-'0' <= 9 {
		_, err := s.number(column)
		return err
	} else if c == '"' {
		_, err := s.str(column)
		return err
	}
	d := jsontext.NewDecoder(bytes.NewReader(s.b[s.p:]))
	if err := d.SkipValue(); err != nil {
		return s.fail(column, s.b[s.p:min(s.p+20, len(s.b))], "malformed JSON: %s", plainSyntaxError(err))
	}
	s.p += int(d.InputOffset())
	return nil
}
