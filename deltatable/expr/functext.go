package expr

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFunctions are the functions of strings and binaries.
var textFunctions = map[string]*scalar{
	"upper": {params: "s", result: typeString, total: true, f: text1(upper)},
	"ucase": {params: "s", result: typeString, total: true, f: text1(upper)},
	"lower": {params: "s", result: typeString, total: true, f: text1(strings.ToLower)},
	"lcase": {params: "s", result: typeString, total: true, f: text1(strings.ToLower)},
	"trim":  {params: "s", result: typeString, total: true, f: text1(func(s string) string { return strings.Trim(s, " ") })},
	"btrim": {params: "s?s", result: typeString, total: true, f: trimmer(strings.Trim, 1)},
	"ltrim": {params: "s?s", result: typeString, total: true, f: trimmer(strings.TrimLeft, 0)},
	"rtrim": {params: "s?s", result: typeString, total: true, f: trimmer(strings.TrimRight, 0)},

	"octet_length": {params: "B", result: typeInt, total: true, f: func(a []cell) (cell, string) { return cell{i: int64(len(a[0].s))}, "" }},
	"bit_length":   {params: "B", result: typeInt, total: true, f: func(a []cell) (cell, string) { return cell{i: 8 * int64(len(a[0].s))}, "" }},

	"substring_index": {params: "ssi", result: typeString, total: true, f: substringIndex},
	"split_part":      {params: "ssi", result: typeString, f: splitPart},
	"replace":         {params: "ss?s", result: typeString, f: textReplace},
	"translate":       {params: "sss", result: typeString, total: true, f: translate},
	"overlay":         {params: "ssi?i", result: typeString, total: true, f: overlay},
	"lpad":            {params: "si?s", result: typeString, f: padder(true)},
	"rpad":            {params: "si?s", result: typeString, f: padder(false)},
	"repeat":          {params: "si", result: typeString, f: textRepeat},
	"space": {params: "i", result: typeString, f: func(a []cell) (cell, string) {
		return textRepeat([]cell{{s: " "}, a[0]})
	}},
	"initcap": {params: "s", result: typeString, total: true, f: text1(initcap)},

	"instr":      {params: "ss", result: typeInt, total: true, f: func(a []cell) (cell, string) { return cell{i: position(a[0].s, a[1].s, 1)}, "" }},
	"locate":     {params: "ss?i", result: typeInt, total: true, f: locate},
	"position":   {params: "ss?i", result: typeInt, total: true, f: locate},
	"charindex":  {params: "ss?i", result: typeInt, total: true, f: locate},
	"startswith": {params: "ss", result: typeBool, total: true, f: text2(strings.HasPrefix)},
	"endswith":   {params: "ss", result: typeBool, total: true, f: text2(strings.HasSuffix)},
	"contains":   {params: "ss", result: typeBool, total: true, f: text2(strings.Contains)},

	"ascii": {params: "s", result: typeInt, total: true, f: func(a []cell) (cell, string) {
		for _, r := range a[0].s {
			return cell{i: int64(r)}, ""
		}
		return cell{}, ""
	}},
	"chr":      {params: "l", result: typeString, total: true, f: chr},
	"char":     {params: "l", result: typeString, total: true, f: chr},
	"md5":      {params: "b", result: typeString, total: true, f: text1(func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) })},
	"sha":      {params: "b", result: typeString, total: true, f: text1(func(s string) string { h := sha1.Sum([]byte(s)); return hex.EncodeToString(h[:]) })},
	"sha1":     {params: "b", result: typeString, total: true, f: text1(func(s string) string { h := sha1.Sum([]byte(s)); return hex.EncodeToString(h[:]) })},
	"sha2":     {params: "bi", result: typeString, total: true, f: sha2},
	"crc32":    {params: "b", result: typeBigint, total: true, f: func(a []cell) (cell, string) { return cell{i: int64(crc32.ChecksumIEEE([]byte(a[0].s)))}, "" }},
	"unhex":    {params: "s", result: typeBinary, f: unhex},
	"base64":   {params: "b", result: typeString, total: true, f: text1(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
	"unbase64": {params: "s", result: typeBinary, f: unbase64},
}

// longUpper are the letters whose capitals are several letters.
var longUpper = strings.NewReplacer("ß", "SS", "ŉ", "ʼN", "ǰ", "J̌", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL", "ﬃ", "FFI", "ﬄ", "FFL", "ﬅ", "ST", "ﬆ", "ST", "և", "ԵՒ")

func upper(s string) string { return strings.ToUpper(longUpper.Replace(s)) }

func text1(f func(string) string) rowFunc {
	return func(a []cell) (cell, string) { return cell{s: f(a[0].s)}, "" }
}

func text2(f func(s, t string) bool) rowFunc {
	return func(a []cell) (cell, string) { return boolCell(f(a[0].s, a[1].s)), "" }
}

// trimmer cuts characters of a set, the space by default; at says which of two
// arguments is the set.
func trimmer(f func(s, set string) string, at int) rowFunc {
	return func(a []cell) (cell, string) {
		if len(a) == 1 {
			return cell{s: f(a[0].s, " ")}, ""
		}
		return cell{s: f(a[1-at].s, a[at].s)}, ""
	}
}

// cut gives the characters from start up to end; below 0 and beyond the end are
// allowed.
func cut(s string, start, end int64) string {
	if end <= start || start >= int64(len(s)) {
		return ""
	}
	from, to, n := len(s), len(s), int64(0)
	for i := range s {
		if n == max(start, 0) {
			from = i
		}
		if n == end {
			to = i
			break
		}
		n++
	}
	if end <= 0 {
		return ""
	}
	return s[min(from, to):to]
}

func substring(a []cell) (cell, string) {
	s, pos := a[0].s, a[1].i
	start := int64(0)
	switch {
	case pos > 0:
		start = pos - 1
	case pos < 0:
		start = int64(utf8.RuneCountInString(s)) + pos
	}
	end := int64(1) << 40
	if len(a) > 2 {
		end = start + a[2].i
	}
	return cell{s: cut(s, start, end)}, ""
}

func textLeft(a []cell) (cell, string) { return cell{s: cut(a[0].s, 0, a[1].i)}, "" }

func textRight(a []cell) (cell, string) {
	if a[1].i <= 0 {
		return cell{}, ""
	}
	n := int64(utf8.RuneCountInString(a[0].s))
	return cell{s: cut(a[0].s, max(0, n-a[1].i), n)}, ""
}

func substringIndex(a []cell) (cell, string) {
	s, sep, n := a[0].s, a[1].s, a[2].i
	if sep == "" || n == 0 {
		return cell{}, ""
	}
	if n > 0 {
		at := 0
		for ; n > 0; n-- {
			i := strings.Index(s[at:], sep)
			if i < 0 {
				return cell{s: s}, ""
			}
			at += i + len(sep)
		}
		return cell{s: s[:at-len(sep)]}, ""
	}
	end := len(s)
	for ; n < 0; n++ {
		i := strings.LastIndex(s[:end], sep)
		if i < 0 {
			return cell{s: s}, ""
		}
		end = i
	}
	return cell{s: s[end+len(sep):]}, ""
}

func splitPart(a []cell) (cell, string) {
	n := a[2].i
	if n == 0 {
		return null, "split_part counts from 1, or -1 from the end"
	}
	parts := []string{a[0].s}
	if a[1].s != "" {
		parts = strings.Split(a[0].s, a[1].s)
	}
	if n < 0 {
		n += int64(len(parts)) + 1
	}
	if n < 1 || n > int64(len(parts)) {
		return cell{}, ""
	}
	return cell{s: parts[n-1]}, ""
}

func textReplace(a []cell) (cell, string) {
	with := ""
	if len(a) > 2 {
		with = a[2].s
	}
	if a[1].s == "" {
		return cell{s: a[0].s}, ""
	}
	if n := strings.Count(a[0].s, a[1].s); n > 0 && len(with) > maxValue/n {
		return null, tooLong
	}
	return cell{s: strings.ReplaceAll(a[0].s, a[1].s, with)}, ""
}

const tooLong = "the result is longer than 64 MiB"

func translate(a []cell) (cell, string) {
	to := []rune(a[2].s)
	table := map[rune]rune{}
	for i, r := range []rune(a[1].s) {
		if _, ok := table[r]; ok {
			continue
		}
		table[r] = -1
		if i < len(to) {
			table[r] = to[i]
		}
	}
	return cell{s: strings.Map(func(r rune) rune {
		if t, ok := table[r]; ok {
			return t
		}
		return r
	}, a[0].s)}, ""
}

func overlay(a []cell) (cell, string) {
	n := int64(utf8.RuneCountInString(a[1].s))
	if len(a) > 3 && a[3].i >= 0 {
		n = a[3].i
	}
	head, _ := substring([]cell{a[0], {i: 1}, {i: a[2].i - 1}})
	tail, _ := substring([]cell{a[0], {i: a[2].i + n}})
	return cell{s: head.s + a[1].s + tail.s}, ""
}

func padder(left bool) rowFunc {
	return func(a []cell) (cell, string) {
		s, n, pad := a[0].s, a[1].i, " "
		if len(a) > 2 {
			pad = a[2].s
		}
		missing := n - int64(utf8.RuneCountInString(s))
		if missing <= 0 || pad == "" {
			return cell{s: cut(s, 0, n)}, ""
		}
		if n > maxValue/4 {
			return null, tooLong
		}
		runes := []rune(pad)
		var b strings.Builder
		for i := range missing {
			b.WriteRune(runes[i%int64(len(runes))])
		}
		if left {
			return cell{s: b.String() + s}, ""
		}
		return cell{s: s + b.String()}, ""
	}
}

func textRepeat(a []cell) (cell, string) {
	s, n := a[0].s, a[1].i
	if n <= 0 || s == "" {
		return cell{}, ""
	}
	if n > int64(maxValue/len(s)) {
		return null, tooLong
	}
	return cell{s: strings.Repeat(s, int(n))}, ""
}

// initcap makes the first letter of each word between spaces a capital, and all
// others small.
func initcap(s string) string {
	first := true
	return strings.Map(func(r rune) rune {
		was := first
		first = r == ' '
		if was {
			return unicode.ToTitle(r)
		}
		return r
	}, strings.ToLower(s))
}

// position is where sub stands in s from the character from on, counted from 1;
// 0 is nowhere.
func position(s, sub string, from int64) int64 {
	switch {
	case from < 1:
		return 0
	case sub == "":
		return 1 // wherever it was to be looked for, as in Spark
	}
	skipped := len(s) - len(cut(s, from-1, 1<<40))
	if from > int64(utf8.RuneCountInString(s))+1 {
		return 0
	}
	i := strings.Index(s[skipped:], sub)
	if i < 0 {
		return 0
	}
	return int64(utf8.RuneCountInString(s[:skipped+i])) + 1
}

func locate(a []cell) (cell, string) {
	from := int64(1)
	if len(a) > 2 {
		from = a[2].i
	}
	return cell{i: position(a[1].s, a[0].s, from)}, ""
}

func chr(a []cell) (cell, string) {
	if a[0].i < 0 {
		return cell{}, ""
	}
	return cell{s: string(rune(a[0].i & 0xff))}, ""
}

func sha2(a []cell) (cell, string) {
	in := []byte(a[0].s)
	switch a[1].i {
	case 0, 256:
		h := sha256.Sum256(in)
		return cell{s: hex.EncodeToString(h[:])}, ""
	case 224:
		h := sha256.Sum224(in)
		return cell{s: hex.EncodeToString(h[:])}, ""
	case 384:
		h := sha512.Sum384(in)
		return cell{s: hex.EncodeToString(h[:])}, ""
	case 512:
		h := sha512.Sum512(in)
		return cell{s: hex.EncodeToString(h[:])}, ""
	}
	return null, ""
}

func unhex(a []cell) (cell, string) {
	s := a[0].s
	if len(s)%2 == 1 {
		s = "0" + s
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return null, "not hexadecimal digits"
	}
	return cell{s: string(b)}, ""
}

func unbase64(a []cell) (cell, string) {
	b, err := base64.StdEncoding.DecodeString(a[0].s)
	if err != nil {
		return null, "not base64"
	}
	return cell{s: string(b)}, ""
}
