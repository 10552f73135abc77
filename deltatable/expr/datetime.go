package expr

import (
	"strconv"
	"strings"
	"time"
)

// Text forms of dates and timestamps are those that Spark casts:
// [+-]yyyy[-m[m][-d[d]]], then for timestamps an optional ' ' or 'T' and
// h[h]:m[m][:s[s][.fraction]] and a zone.

const microsPerDay = 24 * 60 * 60 * 1_000_000

// digitsAt reads up to most digits at the start of s.
func digitsAt(s string, least, most int) (int, string, bool) {
	n := 0
	for n < len(s) && n < most && isDigit(s[n]) {
		n++
	}
	if n < least {
		return 0, s, false
	}
	v, err := strconv.Atoi(s[:n])
	return v, s[n:], err == nil
}

// dateAt reads a date at the start of s, and returns days since 1970-01-01.
func dateAt(s string) (days int64, rest string, ok bool) {
	sign := 1
	if s != "" && (s[0] == '+' || s[0] == '-') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	year, s, ok := digitsAt(s, 4, 7)
	if !ok {
		return 0, s, false
	}
	month, day := 1, 1
	if strings.HasPrefix(s, "-") {
		if month, s, ok = digitsAt(s[1:], 1, 2); !ok {
			return 0, s, false
		}
		if strings.HasPrefix(s, "-") {
			if day, s, ok = digitsAt(s[1:], 1, 2); !ok {
				return 0, s, false
			}
		}
	}
	t := time.Date(sign*year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Month() != time.Month(month) || t.Day() != day { // normalised: there is no such day
		return 0, s, false
	}
	return t.Unix() / 86400, s, true // midnights divide without rest
}

// parseDate reads a whole date; a time of day after it is dropped, as Spark's
// cast drops it.
func parseDate(s string) (int64, bool) {
	days, rest, ok := dateAt(s)
	if !ok || rest != "" && rest[0] != ' ' && rest[0] != 'T' {
		return 0, false
	}
	return days, true
}

// parseTimestamp reads a timestamp. For one with zone (ltz) the result is in
// microseconds UTC, where the text's zone counts before the given one; zoned
// is false if there is neither. Without, zoned says that the text has a zone.
func parseTimestamp(s string, ltz bool, zone *time.Location) (us int64, zoned, ok bool) {
	days, rest, ok := dateAt(s)
	if !ok {
		return 0, false, false
	}
	var ofDay int64
	if rest != "" {
		if rest[0] != ' ' && rest[0] != 'T' {
			return 0, false, false
		}
		if ofDay, rest, ok = clockAt(rest[1:]); !ok {
			return 0, false, false
		}
	}
	local := days*microsPerDay + ofDay
	if rest = strings.TrimSpace(rest); rest != "" {
		if zone, ok = parseZone(rest); !ok {
			return 0, false, false
		}
	}
	if !ltz {
		return local, rest != "", true
	}
	if zone == nil {
		return 0, false, true
	}
	return atZone(local, zone), true, true
}

// clockAt reads a time of day in microseconds.
func clockAt(s string) (us int64, rest string, ok bool) {
	h, s, ok := digitsAt(s, 1, 2)
	if !ok || h > 23 || !strings.HasPrefix(s, ":") {
		return 0, s, false
	}
	m, s, ok := digitsAt(s[1:], 1, 2)
	if !ok || m > 59 {
		return 0, s, false
	}
	sec, frac := 0, ""
	if strings.HasPrefix(s, ":") {
		if sec, s, ok = digitsAt(s[1:], 1, 2); !ok || sec > 59 {
			return 0, s, false
		}
		if strings.HasPrefix(s, ".") {
			n := 1
			for n < len(s) && isDigit(s[n]) {
				n++
			}
			frac, s = s[1:n], s[n:]
		}
	}
	micros, _ := strconv.ParseInt((frac + "000000")[:6], 10, 64) // digits only; beyond the sixth they are cut, as Spark does
	return int64(h*3600+m*60+sec)*1_000_000 + micros, s, true
}

// parseZone reads Z, UTC, ±hh:mm, UTC±hh:mm or the name of a region.
func parseZone(s string) (*time.Location, bool) {
	switch strings.ToUpper(s) {
	case "Z", "UTC", "GMT":
		return time.UTC, true
	case "LOCAL":
		return nil, false // the machine's zone is never meant
	}
	o := s
	for _, p := range []string{"UTC", "GMT", "UT"} {
		o = strings.TrimPrefix(o, p)
	}
	if o != "" && (o[0] == '+' || o[0] == '-') {
		h, rest, ok := digitsAt(o[1:], 1, 2)
		m, sec := 0, 0
		if ok && rest != "" {
			m, rest, ok = digitsAt(strings.TrimPrefix(rest, ":"), 2, 2)
		}
		if ok && rest != "" {
			sec, rest, ok = digitsAt(strings.TrimPrefix(rest, ":"), 2, 2)
		}
		if !ok || rest != "" || h > 18 || m > 59 || sec > 59 {
			return nil, false
		}
		off := h*3600 + m*60 + sec
		if o[0] == '-' {
			off = -off
		}
		return time.FixedZone(o, off), true
	}
	loc, err := time.LoadLocation(s)
	return loc, err == nil
}

// atZone is the instant at which clocks in the zone show the local time.
func atZone(local int64, zone *time.Location) int64 {
	if zone == time.UTC {
		return local
	}
	t := time.UnixMicro(local).UTC()
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone).UnixMicro()
}
