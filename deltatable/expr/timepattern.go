package expr

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

func decimal(v int64) decimal128.Num { return decimal128.FromI64(v) }

// A timePattern is a pattern of letters such as yyyy-MM-dd HH:mm:ss, in the
// meaning of Java's DateTimeFormatter.
type timePattern struct {
	text  string
	parts []patternPart
	zoned bool // it has an offset or a zone
	named bool // it has a day of the week, which says nothing when a text is read
}

type patternPart struct {
	letter  byte // 0: literal
	count   int
	literal string
}

// most letters in a row of each supported kind.
var patternLetters = map[byte]int{
	'y': 9, 'u': 9, 'M': 4, 'L': 4, 'd': 2, 'D': 3, 'H': 2, 'h': 2, 'K': 2, 'k': 2, 'm': 2, 's': 2, 'S': 9, 'a': 1, 'E': 4, 'Q': 2, 'q': 2,
	'X': 3, 'x': 3, 'Z': 3,
}

func newTimePattern(text string) (*timePattern, string) {
	p := &timePattern{text: text}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\'':
			lit, n := quotedPattern(text[i:])
			if n == 0 {
				return nil, fmt.Sprintf("the pattern '%s' (a quote is not closed)", text)
			}
			p.parts = append(p.parts, patternPart{literal: lit})
			i += n
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			n := 1
			for i+n < len(text) && text[i+n] == c {
				n++
			}
			if most, ok := patternLetters[c]; !ok || n > most {
				return nil, fmt.Sprintf("%s in the pattern '%s'", text[i:i+n], text)
			}
			p.named = p.named || c == 'E'
			p.zoned = p.zoned || c == 'X' || c == 'x' || c == 'Z'
			p.parts = append(p.parts, patternPart{letter: c, count: n})
			i += n
		case strings.IndexByte("[]{}#", c) >= 0:
			return nil, fmt.Sprintf("%c in the pattern '%s'", c, text)
		default:
			p.parts = append(p.parts, patternPart{literal: text[i : i+1]})
			i++
		}
	}
	return p, ""
}

// quotedPattern reads quoted text at the start of s and the bytes it took, 0 if
// the quote is not closed; two quotes are one.
func quotedPattern(s string) (string, int) {
	if strings.HasPrefix(s, "''") {
		return "'", 2
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '\'':
			b.WriteByte(s[i])
		case strings.HasPrefix(s[i:], "''"):
			b.WriteByte('\'')
			i++
		default:
			return b.String(), i + 1
		}
	}
	return "", 0
}

// format writes what clocks show, in microseconds, and their offset in seconds.
func (p *timePattern) format(us, offset int64) string {
	day := floorDiv64(us, microsPerDay)
	y, m, d := civil(day)
	t := time.UnixMicro(us).UTC()
	var b strings.Builder
	for _, part := range p.parts {
		pad := func(v int) { fmt.Fprintf(&b, "%0*d", part.count, v) }
		switch part.letter {
		case 0:
			b.WriteString(part.literal)
		case 'y', 'u':
			b.WriteString(patternYear(y, part.count))
		case 'M', 'L':
			switch part.count {
			case 3:
				b.WriteString(time.Month(m).String()[:3])
			case 4:
				b.WriteString(time.Month(m).String())
			default:
				pad(m)
			}
		case 'd':
			pad(d)
		case 'D':
			pad(t.YearDay())
		case 'H':
			pad(t.Hour())
		case 'k':
			pad((t.Hour()+23)%24 + 1)
		case 'h':
			pad((t.Hour()+11)%12 + 1)
		case 'K':
			pad(t.Hour() % 12)
		case 'm':
			pad(t.Minute())
		case 's':
			pad(t.Second())
		case 'S':
			b.WriteString(fmt.Sprintf("%09d", t.Nanosecond())[:part.count])
		case 'a':
			b.WriteString([]string{"AM", "PM"}[t.Hour()/12])
		case 'E':
			name := t.Weekday().String()
			if part.count < 4 {
				name = name[:3]
			}
			b.WriteString(name)
		case 'Q', 'q':
			pad((m-1)/3 + 1)
		default:
			b.WriteString(patternOffset(part, offset))
		}
	}
	return b.String()
}

func patternYear(y, count int) string {
	switch {
	case count == 2:
		return fmt.Sprintf("%02d", ((y%100)+100)%100)
	case count >= 4 && y > 9999:
		return fmt.Sprintf("+%d", y)
	case y < 0:
		return fmt.Sprintf("-%0*d", count, -y)
	}
	return fmt.Sprintf("%0*d", count, y)
}

func patternOffset(part patternPart, offset int64) string {
	if part.letter == 'X' && offset == 0 {
		return "Z"
	}
	sign := "+"
	if offset < 0 {
		sign, offset = "-", -offset
	}
	h, m := offset/3600, offset/60%60
	switch {
	case part.letter != 'Z' && part.count == 1 && m == 0:
		return fmt.Sprintf("%s%02d", sign, h)
	case part.letter != 'Z' && part.count == 3:
		return fmt.Sprintf("%s%02d:%02d", sign, h, m)
	}
	return fmt.Sprintf("%s%02d%02d", sign, h, m)
}

// patternFields are the fields that a text gives.
type patternFields struct {
	year, month, day, yearDay      int
	hour, half, minute, second, ns int
	offset                         int64
	twelve, hasDOY                 bool
}

// parse reads a whole text. wall is in microseconds, offset in seconds.
func (p *timePattern) parse(s string) (wall, offset int64, msg string) {
	bad := fmt.Sprintf("'%s' is not of the form %s", s, p.text)
	f := patternFields{year: 1970, month: 1, day: 1}
	rest := s
	for i, part := range p.parts {
		adjacent := i+1 < len(p.parts) && isNumeric(p.parts[i+1])
		var ok bool
		if rest, ok = f.take(part, rest, adjacent); !ok {
			return 0, 0, bad
		}
	}
	if rest != "" || f.month < 1 || f.month > 12 || f.day < 1 || f.day > daysIn(f.year, f.month) || f.hour > 23 || f.minute > 59 || f.second > 59 {
		return 0, 0, bad
	}
	hour := f.hour
	if f.twelve {
		if hour > 12 {
			return 0, 0, bad
		}
		hour = hour%12 + 12*f.half
	}
	day := dayOf(f.year, f.month, f.day)
	if f.hasDOY {
		day = dayOf(f.year, 1, 1) + int64(f.yearDay) - 1
		if y, _, _ := civil(day); f.yearDay < 1 || y != f.year {
			return 0, 0, bad
		}
	}
	return day*microsPerDay + int64(hour*3600+f.minute*60+f.second)*1_000_000 + int64(f.ns/1000), f.offset, ""
}

func isNumeric(part patternPart) bool {
	switch part.letter {
	case 'M', 'L':
		return part.count < 3
	case 0, 'a', 'E', 'X', 'x', 'Z':
		return false
	}
	return true
}

// take reads one part of the pattern at the start of s.
func (f *patternFields) take(part patternPart, s string, adjacent bool) (string, bool) {
	switch {
	case part.letter == 0:
		if len(s) < len(part.literal) || !strings.EqualFold(s[:len(part.literal)], part.literal) {
			return s, false
		}
		return s[len(part.literal):], true
	case part.letter == 'a':
		if len(s) < 2 || !strings.EqualFold(s[:2], "AM") && !strings.EqualFold(s[:2], "PM") {
			return s, false
		}
		f.half = strings.Index("AP", strings.ToUpper(s[:1]))
		return s[2:], true
	case part.letter == 'X' || part.letter == 'x' || part.letter == 'Z':
		return f.takeOffset(part, s)
	case !isNumeric(part):
		return f.takeName(part, s)
	}
	least, most := part.count, part.count
	switch {
	case part.letter == 'y' || part.letter == 'u':
		if part.count != 2 && !adjacent {
			most = 7
		}
	case part.count == 1 && part.letter != 'S' && !adjacent:
		most = 2
		if part.letter == 'D' {
			most = 3
		}
	}
	v, rest, ok := digitsAt(s, least, most)
	if !ok {
		return s, false
	}
	f.set(part, v, len(s)-len(rest))
	return rest, true
}

func (f *patternFields) set(part patternPart, v, digits int) {
	switch part.letter {
	case 'y', 'u':
		if part.count == 2 {
			v += 2000
		}
		f.year = v
	case 'M', 'L':
		f.month = v
	case 'd':
		f.day = v
	case 'D':
		f.yearDay, f.hasDOY = v, true
	case 'H':
		f.hour = v
	case 'k':
		f.hour = v % 24
	case 'h', 'K':
		f.hour, f.twelve = v, true
	case 'm':
		f.minute = v
	case 's':
		f.second = v
	case 'S':
		for ; digits < 9; digits++ {
			v *= 10
		}
		f.ns = v
	}
}

// takeName reads the name of a month.
func (f *patternFields) takeName(part patternPart, s string) (string, bool) {
	for i := range 12 {
		name := time.Month(i + 1).String()
		if part.count < 4 {
			name = name[:3]
		}
		if len(s) >= len(name) && strings.EqualFold(s[:len(name)], name) {
			f.month = i + 1
			return s[len(name):], true
		}
	}
	return s, false
}

func (f *patternFields) takeOffset(part patternPart, s string) (string, bool) {
	if part.letter == 'X' && strings.HasPrefix(s, "Z") {
		return s[1:], true
	}
	if s == "" || s[0] != '+' && s[0] != '-' {
		return s, false
	}
	h, rest, ok := digitsAt(s[1:], 2, 2)
	m := 0
	if ok && part.count == 3 && part.letter != 'Z' {
		if !strings.HasPrefix(rest, ":") {
			return s, false
		}
		rest = rest[1:]
	}
	if ok && (part.count > 1 || part.letter == 'Z' || rest != "" && isDigit(rest[0])) {
		m, rest, ok = digitsAt(rest, 2, 2)
	}
	if !ok || h > 18 || m > 59 {
		return s, false
	}
	f.offset = int64(h*3600 + m*60)
	if s[0] == '-' {
		f.offset = -f.offset
	}
	return rest, true
}
