package datafile

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

var delimiters = []byte(" \n\t\r,}]")

// Scans of JSON that is known to be valid. Pruning looks at a member or two of
// each live file's statistics: decoding them into maps cost several times more.

// eachMember calls visit with each member of an object, its name still quoted,
// until visit returns false. What is no object has no members.
func eachMember(v jsontext.Value, visit func(name, val jsontext.Value) bool) {
	i := skipBlank(v, 0)
	if i >= len(v) || v[i] != '{' {
		return
	}
	for i++; ; {
		i = skipBlank(v, i)
		if i >= len(v) || v[i] != '"' {
			return // the end of the object
		}
		end := skipString(v, i)
		name := v[i:end]
		if i = skipBlank(v, end); i >= len(v) || v[i] != ':' {
			return
		}
		i = skipBlank(v, i+1)
		end = skipValue(v, i)
		if !visit(name, v[i:end]) {
			return
		}
		if i = skipBlank(v, end); i >= len(v) || v[i] != ',' {
			return
		}
		i++
	}
}

func skipBlank(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
		i++
	}
	return i
}

// skipString gives the place after the string that begins at i.
func skipString(v []byte, i int) int {
	for i++; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(v)
}

// skipValue gives the place after the value that begins at i.
func skipValue(v []byte, i int) int {
	depth := 0
	for i < len(v) {
		switch v[i] {
		case '"':
			i = skipString(v, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			if depth == 0 { // a number or a word
				for i < len(v) && bytes.IndexByte(delimiters, v[i]) < 0 {
					i++
				}
				return i
			}
			i++
		}
		if depth == 0 {
			return i
		}
	}
	return len(v)
}

// unquoteName gives a member's name; most have no escapes and are not copied.
func unquoteName(quoted jsontext.Value) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	out, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil // not of valid JSON
	}
	return out
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
