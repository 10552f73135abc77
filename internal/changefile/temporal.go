package changefile

import (
	"math"
	"time"
)

const usPerSecond = 1_000_000

// parseDate reads a date at the start of b: YYYY-MM-DD, or a sign and four to
// seven digits for the year. It returns days since 1970-01-01 in the proleptic
// Gregorian calendar and what follows the date.
func parseDate(b []byte) (days int64, rest []byte, fault string) {
	const want = "a date takes a string YYYY-MM-DD"
	sign, signed := int64(1), false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		if b[0] == '-' {
			sign = -1
		}
		signed, b = true, b[1:]
	}
	n := 0
	var y int64
	for n < len(b) && n < 8 && b[n]-'0' <= 9 {
		y = y*10 + int64(b[n]-'0')
		n++
	}
	if n < 4 || n > 7 || !signed && n != 4 {
		return 0, nil, want
	}
	b = b[n:]
	if len(b) < 6 || b[0] != '-' || b[3] != '-' {
		return 0, nil, want
	}
	m, okM := two(b[1:])
	d, okD := two(b[4:])
	if !okM || !okD {
		return 0, nil, want
	}
	y *= sign
	if m < 1 || m > 12 || d < 1 || d > daysIn(y, m) {
		return 0, nil, "there is no such day"
	}
	return civilDays(y, m, d), b[6:], ""
}

func two(b []byte) (int64, bool) {
	if len(b) < 2 || b[0]-'0' > 9 || b[1]-'0' > 9 {
		return 0, false
	}
	return int64(b[0]-'0')*10 + int64(b[1]-'0'), true
}

func daysIn(y, m int64) int64 {
	switch m {
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// civilDays counts days from 1970-01-01: years begin in March and are taken in
// cycles of 400 (146,097 days).
func civilDays(y, m, d int64) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	cycle := y / 400
	if y < 0 && y%400 != 0 {
		cycle--
	}
	yoe := y - cycle*400
	return cycle*146097 + yoe*365 + yoe/4 - yoe/100 + (153*(m-3)+2)/5 + d - 1 - 719468
}

// timeReader reads timestamps; zone may be nil.
type timeReader struct {
	zone *time.Location
}

func timeWant(utc bool) string {
	if utc {
		return "a timestamp takes a string YYYY-MM-DDTHH:MM:SS.ffffffZ"
	}
	return "a timestamp_ntz takes a string YYYY-MM-DDTHH:MM:SS.ffffff"
}

// parse reads b as a timestamp (utc) or a timestamp_ntz and returns
// microseconds since 1970-01-01T00:00:00.
func (r *timeReader) parse(b []byte, utc bool) (us int64, fault string) {
	days, b, fault := parseDate(b)
	if fault == "there is no such day" {
		return 0, fault
	}
	if fault != "" || len(b) < 9 || b[0] != 'T' && b[0] != ' ' || b[3] != ':' || b[6] != ':' {
		return 0, timeWant(utc)
	}
	h, ok1 := two(b[1:])
	m, ok2 := two(b[4:])
	sec, ok3 := two(b[7:])
	if !ok1 || !ok2 || !ok3 {
		return 0, timeWant(utc)
	}
	if h > 23 || m > 59 || sec > 59 {
		return 0, "there is no such time of day"
	}
	b = b[9:]
	frac, b, fault := fraction(b)
	if fault != "" {
		if fault == "?" {
			fault = timeWant(utc)
		}
		return 0, fault
	}
	secs := days*86400 + h*3600 + m*60 + sec
	offset, zoned, ok := zoneOffset(b)
	switch {
	case !ok:
		return 0, timeWant(utc)
	case zoned && !utc:
		return 0, "a timestamp_ntz takes no zone"
	case zoned:
		secs -= offset
	case utc:
		if secs, fault = r.local(secs); fault != "" {
			return 0, fault
		}
	}
	us, ok = micros(secs, frac)
	if !ok {
		return 0, "the time is out of range"
	}
	return us, ""
}

// fraction reads .fff at the start of b as microseconds.
func fraction(b []byte) (us int64, rest []byte, fault string) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b, ""
	}
	n := 1
	for ; n < len(b) && b[n]-'0' <= 9; n++ {
		if n <= 6 {
			us = us*10 + int64(b[n]-'0')
		} else if b[n] != '0' {
			return 0, nil, "it has digits below the microsecond"
		}
	}
	if n == 1 {
		return 0, nil, "?"
	}
	for i := n; i <= 6; i++ {
		us *= 10
	}
	return us, b[n:], ""
}

// zoneOffset reads the rest of a timestamp: nothing, Z or ±HH:MM, in seconds
// east of UTC.
func zoneOffset(b []byte) (seconds int64, zoned, ok bool) {
	switch {
	case len(b) == 0:
		return 0, false, true
	case len(b) == 1 && b[0] == 'Z':
		return 0, true, true
	case len(b) == 6 && (b[0] == '+' || b[0] == '-') && b[3] == ':':
		h, ok1 := two(b[1:])
		m, ok2 := two(b[4:])
		if !ok1 || !ok2 || h > 23 || m > 59 {
			return 0, false, false
		}
		seconds = h*3600 + m*60
		if b[0] == '-' {
			seconds = -seconds
		}
		return seconds, true, true
	default:
		return 0, false, false
	}
}

// local turns a local time, counted in seconds as if it were UTC, into UTC.
func (r *timeReader) local(secs int64) (int64, string) {
	if r.zone == nil {
		return 0, "the timestamp has no zone: add Z or an offset, or state the zone of such timestamps"
	}
	if r.zone == time.UTC {
		return secs, ""
	}
	// The offsets in force a day before and a day after are the only two that
	// can apply; each does if it is in force at the instant that it leads to.
	at := func(s int64) int64 {
		_, o := time.Unix(s, 0).In(r.zone).Zone()
		return int64(o)
	}
	before, after := at(secs-86400), at(secs+86400)
	okBefore, okAfter := at(secs-before) == before, at(secs-after) == after
	switch {
	case before == after && okBefore, okBefore && !okAfter:
		return secs - before, ""
	case okAfter && !okBefore:
		return secs - after, ""
	case okBefore && okAfter:
		return 0, "the local time occurs twice in " + r.zone.String() + ": add an offset"
	default:
		return 0, "the local time does not occur in " + r.zone.String()
	}
}

// micros is secs*1e6 + us, unless that overflows.
func micros(secs, us int64) (int64, bool) {
	const most = math.MaxInt64 / usPerSecond
	if secs >= 0 {
		if secs > most || secs == most && us > math.MaxInt64%usPerSecond {
			return 0, false
		}
		return secs*usPerSecond + us, true
	}
	// One second nearer to zero first, so that the lowest values do not overflow
	// on the way.
	secs++
	us -= usPerSecond
	if secs < -most || secs == -most && us < math.MinInt64%usPerSecond {
		return 0, false
	}
	return secs*usPerSecond + us, true
}
