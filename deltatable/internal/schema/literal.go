package schema

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Texts of dates, timestamps, decimals and floating-point numbers as they stand
// in partition values and statistics. Nothing here passes through float64 except
// floating-point numbers themselves (I7).

const (
	microsPerSecond = 1_000_000
	microsPerDay    = 86_400 * microsPerSecond
)

// daysOf gives days since 1970-01-01 in the proleptic Gregorian calendar.
func daysOf(y, m, d int64) int64 {
	if m <= 2 {
		y--
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := (153*((m+9)%12)+2)/5 + d - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

func civil(days int64) (y, m, d int64) {
	days += 719468
	era := floorDiv(days, 146097)
	doe := days - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// AppendDate writes yyyy-MM-dd; years above 9999 and below 0 carry a sign.
func AppendDate(b []byte, days int64) []byte {
	y, m, d := civil(days)
	switch {
	case y > 9999:
		b = append(b, '+')
	case y < 0:
		b, y = append(b, '-'), -y
	}
	b = pad(b, y, 4)
	b = pad(append(b, '-'), m, 2)
	return pad(append(b, '-'), d, 2)
}

func pad(b []byte, v int64, width int) []byte {
	s := strconv.FormatInt(v, 10)
	for i := len(s); i < width; i++ {
		b = append(b, '0')
	}
	return append(b, s...)
}

// AppendTimestamp writes microseconds since 1970 as a date, sep, and a time of
// day with the given number of fraction digits (0, 3 or 6; digits beyond are cut
// towards the past).
func AppendTimestamp(b []byte, micros int64, sep byte, digits int) []byte {
	days := floorDiv(micros, microsPerDay)
	rest := micros - days*microsPerDay
	b = append(AppendDate(b, days), sep)
	sec := rest / microsPerSecond
	b = pad(b, sec/3600, 2)
	b = pad(append(b, ':'), sec/60%60, 2)
	b = pad(append(b, ':'), sec%60, 2)
	switch digits {
	case 3:
		b = pad(append(b, '.'), rest%microsPerSecond/1000, 3)
	case 6:
		b = pad(append(b, '.'), rest%microsPerSecond, 6)
	}
	return b
}

// ParseDate reads [+-]y…-m-d and gives days since 1970-01-01.
func ParseDate(s string) (int32, error) {
	days, rest, err := scanDate(s)
	if err == nil && rest != "" {
		err = errors.New("text after the date")
	}
	if err != nil {
		return 0, fmt.Errorf("date %q: %w", s, err)
	}
	return int32(days), nil
}

var errForm = errors.New("not of the form year-month-day")

func scanDate(s string) (days int64, rest string, err error) {
	sign := int64(1)
	in := s
	if in != "" && (in[0] == '+' || in[0] == '-') {
		if in[0] == '-' {
			sign = -1
		}
		in = in[1:]
	}
	y, in, ok1 := scanInt(in, 1, 7)
	in, ok2 := strings.CutPrefix(in, "-")
	m, in, ok3 := scanInt(in, 1, 2)
	in, ok4 := strings.CutPrefix(in, "-")
	d, in, ok5 := scanInt(in, 1, 2)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return 0, s, errForm
	}
	y *= sign
	if m < 1 || m > 12 || d < 1 || d > daysIn(y, m) {
		return 0, s, errors.New("no such day")
	}
	days = daysOf(y, m, d)
	if days < math.MinInt32 || days > math.MaxInt32 {
		return 0, s, errors.New("out of range")
	}
	return days, in, nil
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
	}
	return 31
}

func scanInt(s string, minDigits, maxDigits int) (int64, string, bool) {
	n := 0
	var v int64
	for n < len(s) && n < maxDigits && s[n] >= '0' && s[n] <= '9' {
		v = v*10 + int64(s[n]-'0')
		n++
	}
	return v, s[n:], n >= minDigits
}

// Instant is what a text of a timestamp says.
type Instant struct {
	Micros int64 // since 1970-01-01T00:00:00; fractions beyond are cut towards the past
	Zoned  bool  // the text had a zone and Micros are UTC; else they are wall-clock time
	UTC    bool  // the zone was Z or an offset of zero
	Cut    bool  // digits beyond microseconds were cut
}

// ParseTimestamp reads a date, 'T' or blanks, h:m[:s[.fraction]] and an optional
// zone: Z, UTC, GMT or an offset. A date alone is its midnight.
func ParseTimestamp(s string) (Instant, error) {
	at, err := parseTimestamp(s)
	if err != nil {
		return Instant{}, fmt.Errorf("timestamp %q: %w", s, err)
	}
	return at, nil
}

func parseTimestamp(s string) (Instant, error) {
	var at Instant
	days, rest, err := scanDate(s)
	if err != nil {
		return at, err
	}
	var tod int64
	if rest != "" {
		trimmed := strings.TrimLeft(rest, " ")
		if len(trimmed) == len(rest) {
			if rest[0] != 'T' && rest[0] != 't' {
				return at, errors.New("no T or blank after the date")
			}
			trimmed = rest[1:]
		}
		if tod, rest, err = scanTime(trimmed, &at); err != nil {
			return at, err
		}
		if err := scanZone(strings.TrimLeft(rest, " "), &at, &tod); err != nil {
			return at, err
		}
	}
	// days*microsPerDay fits for every int32 day number only within +-292,000 years.
	if days > math.MaxInt64/microsPerDay+1 || days < math.MinInt64/microsPerDay-1 {
		return at, errors.New("out of range")
	}
	v := new(big.Int).Mul(big.NewInt(days), big.NewInt(microsPerDay))
	v.Add(v, big.NewInt(tod))
	if days > -1e8 && days < 1e8 {
		at.Micros = days*microsPerDay + tod
		return at, nil
	}
	if !v.IsInt64() {
		return at, errors.New("out of range")
	}
	at.Micros = v.Int64()
	return at, nil
}

func scanTime(s string, at *Instant) (micros int64, rest string, err error) {
	bad := errors.New("the time of day is not of the form hours:minutes:seconds")
	h, s, ok := scanInt(s, 1, 2)
	s, ok2 := strings.CutPrefix(s, ":")
	m, s, ok3 := scanInt(s, 1, 2)
	if !ok || !ok2 || !ok3 {
		return 0, s, bad
	}
	var sec, frac int64
	if after, more := strings.CutPrefix(s, ":"); more {
		if sec, s, ok = scanInt(after, 1, 2); !ok {
			return 0, s, bad
		}
		frac, s = scanFraction(s, at)
	}
	if h > 23 || m > 59 || sec > 59 {
		return 0, s, errors.New("no such time of day")
	}
	return (h*3600+m*60+sec)*microsPerSecond + frac, s, nil
}

// scanFraction reads a point and digits, of which it keeps microseconds.
func scanFraction(s string, at *Instant) (micros int64, rest string) {
	if len(s) < 2 || s[0] != '.' && s[0] != ',' || s[1] < '0' || s[1] > '9' {
		return 0, s
	}
	unit := int64(microsPerSecond / 10)
	for s = s[1:]; s != "" && s[0] >= '0' && s[0] <= '9'; s = s[1:] {
		digit := int64(s[0] - '0')
		micros += digit * unit
		at.Cut = at.Cut || unit == 0 && digit != 0
		unit /= 10
	}
	return micros, s
}

func scanZone(s string, at *Instant, tod *int64) error {
	switch strings.ToUpper(s) {
	case "":
		return nil
	case "Z", "UTC", "GMT", "[UTC]", "Z[UTC]":
		at.Zoned, at.UTC = true, true
		return nil
	}
	if s[0] != '+' && s[0] != '-' {
		return errors.New("text after the time of day that is no zone")
	}
	h, rest, ok := scanInt(s[1:], 1, 2)
	rest = strings.TrimPrefix(rest, ":")
	var m int64
	if ok && rest != "" {
		m, rest, ok = scanInt(rest, 2, 2)
	}
	if !ok || rest != "" || h > 18 || m > 59 {
		return errors.New("the zone is not of the form +hh:mm")
	}
	off := (h*3600 + m*60) * microsPerSecond
	if s[0] == '-' {
		off = -off
	}
	at.Zoned, at.UTC = true, off == 0
	*tod -= off
	return nil
}

// Rounded is a decimal number brought to a scale: the unscaled value, rounded
// towards minus infinity, and whether nothing was lost by that.
type Rounded struct {
	Floor  *big.Int
	Exact  bool
	Digits int // significant digits of the text, leading and trailing zeros apart
}

// ParseDecimal reads [+-]digits[.digits][e[+-]digits] exactly at the given scale.
func ParseDecimal(s string, scale int32) (Rounded, error) {
	bad := fmt.Errorf("decimal %q: not a number", s)
	mant, expText, hasExp := strings.Cut(strings.ToLower(strings.TrimSpace(s)), "e")
	exp := int64(0)
	if hasExp {
		var err error
		if exp, err = strconv.ParseInt(expText, 10, 32); err != nil {
			return Rounded{}, bad
		}
	}
	neg := strings.HasPrefix(mant, "-")
	if neg || strings.HasPrefix(mant, "+") {
		mant = mant[1:]
	}
	whole, frac, _ := strings.Cut(mant, ".")
	digits := whole + frac
	if digits == "" || len(digits) > 1000 || strings.Trim(digits, "0123456789") != "" {
		return Rounded{}, bad
	}
	shift := exp - int64(len(frac)) + int64(scale)
	if shift > 1000 || shift < -2000 {
		if strings.Trim(digits, "0") == "" {
			shift = 0
		} else {
			return Rounded{}, fmt.Errorf("decimal %q: out of range", s)
		}
	}
	v, _ := new(big.Int).SetString(digits, 10) // digits only, so it parses
	if neg {
		v.Neg(v)
	}
	r := Rounded{Exact: true, Digits: len(strings.Trim(digits, "0"))}
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(shift, -shift)), nil)
	if shift >= 0 {
		r.Floor = v.Mul(v, ten)
		return r, nil
	}
	q, m := new(big.Int).DivMod(v, ten, new(big.Int)) // Euclidean: floor for a positive divisor
	r.Floor, r.Exact = q, m.Sign() == 0
	return r, nil
}

// AppendFloat writes a floating-point number as Java's toString does: shortest
// digits, plain from 1e-3 to 1e7, else as 1.0E10; NaN, Infinity, -Infinity.
func AppendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case math.IsInf(v, 1):
		return append(b, "Infinity"...)
	case math.IsInf(v, -1):
		return append(b, "-Infinity"...)
	}
	if a := math.Abs(v); a == 0 || a >= 1e-3 && a < 1e7 {
		n := len(b)
		b = strconv.AppendFloat(b, v, 'f', -1, bits)
		if !strings.Contains(string(b[n:]), ".") {
			b = append(b, ".0"...)
		}
		return b
	}
	mant, exp, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, bits), "e")
	b = append(b, mant...)
	if !strings.Contains(mant, ".") {
		b = append(b, ".0"...)
	}
	n, _ := strconv.Atoi(exp) // "+10" or "-05", always a number
	return strconv.AppendInt(append(b, 'E'), int64(n), 10)
}

// ParseFloat reads what AppendFloat writes and the usual other spellings.
func ParseFloat(s string, bits int) (float64, error) {
	t := strings.TrimSpace(s)
	if n := len(t); n > 1 && (t[n-1]|0x20 == 'd' || t[n-1]|0x20 == 'f') && t[n-2] >= '0' && t[n-2] <= '9' {
		t = t[:n-1] // Java's 1.0d
	}
	if strings.ContainsAny(t, "_xXpP") {
		return 0, fmt.Errorf("number %q: not a decimal number", s)
	}
	v, err := strconv.ParseFloat(t, bits)
	if err != nil {
		return 0, fmt.Errorf("number %q: not a floating-point number in range", s)
	}
	return v, nil
}

// AppendDecimal writes an unscaled decimal with exactly scale fraction digits.
func AppendDecimal(b []byte, v decimal128.Num, scale int32) []byte {
	digits := v.BigInt().String()
	if digits[0] == '-' {
		b, digits = append(b, '-'), digits[1:]
	}
	for int32(len(digits)) <= scale {
		digits = "0" + digits
	}
	cut := len(digits) - int(scale)
	b = append(b, digits[:cut]...)
	if scale > 0 {
		b = append(append(b, '.'), digits[cut:]...)
	}
	return b
}
