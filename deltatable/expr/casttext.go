package expr

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// parseCells reads text as values of a type (see constant.parse).
func parseCells(to arrow.DataType, zone *time.Location) (cellFunc, string) {
	switch to.ID() {
	case arrow.BINARY:
		return func(c cell) (cell, string) { return c, "" }, ""
	case arrow.DECIMAL128:
		return parseDecimals(to.(*arrow.Decimal128Type)), ""
	case arrow.STRUCT, arrow.LIST, arrow.MAP, arrow.NULL:
		return nil, fmt.Sprintf("string cannot be cast to %s", typeName(to))
	}
	integer := isInteger(to)
	return func(in cell) (cell, string) {
		var c constant
		if msg := c.parse(in.s, to, &binder{zone: zone}); msg != "" {
			return null, msg
		}
		if integer {
			if !fits(c.num, bitsOf(to)) {
				return null, fmt.Sprintf("'%s' is no %s: out of range", in.s, typeName(to))
			}
			return cell{i: c.num.Int64()}, ""
		}
		return cell{i: c.i, f: c.f, s: c.s}, ""
	}, ""
}

func parseDecimals(to *arrow.Decimal128Type) cellFunc {
	return func(in cell) (cell, string) {
		s := trimBlanks(in.s)
		r, ok := new(big.Rat), isDecimalText(s)
		if ok {
			r, ok = r.SetString(s)
		}
		if !ok {
			return null, fmt.Sprintf("'%s' is no %s", in.s, typeName(to))
		}
		n := roundQuo(new(big.Int).Mul(r.Num(), pow10(int(to.Scale))), r.Denom())
		return fitDecimal(n, to.Scale, to)
	}
}

// isDecimalText tells whether s is [sign]digits[.digits][e[sign]digits] of a
// size that is worth computing with.
func isDecimalText(s string) bool {
	const longest, largest = 400, 400
	if len(s) > longest || s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
		return false
	}
	mantissa := s
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		x, err := strconv.Atoi(s[i+1:])
		if err != nil || x > largest || x < -largest {
			return false
		}
		mantissa = s[:i]
	}
	_, err := strconv.ParseFloat(mantissa, 64)
	return err == nil
}

// trimBlanks cuts what Spark's casts cut around a text: white space and control
// characters of ASCII.
func trimBlanks(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// formatCells writes values as text, as Spark's cast to string does.
func formatCells(from arrow.DataType, zone *time.Location) (cellFunc, string) {
	plain := func(f func(c cell) string) (cellFunc, string) {
		return func(c cell) (cell, string) { return cell{s: f(c)}, "" }, ""
	}
	switch t := from.(type) {
	case *arrow.BooleanType:
		return plain(func(c cell) string { return strconv.FormatBool(c.i != 0) })
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		return plain(func(c cell) string { return strconv.FormatInt(c.i, 10) })
	case *arrow.Float32Type:
		return plain(func(c cell) string { return formatFloat(c.f, true) })
	case *arrow.Float64Type:
		return plain(func(c cell) string { return formatFloat(c.f, false) })
	case *arrow.Decimal128Type:
		return plain(func(c cell) string { return formatDecimal(c.d.BigInt(), int(t.Scale)) })
	case *arrow.Date32Type:
		return plain(func(c cell) string { return formatDate(c.i) })
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			zone = time.UTC
		} else if zone == nil {
			return nil, needZone(arrow.BinaryTypes.String)
		}
		return plain(func(c cell) string { return formatTimestamp(wallMicros(c.i, zone)) })
	case *arrow.StructType, *arrow.ListType, *arrow.MapType:
		return formatNested(from, zone)
	case *arrow.BinaryType:
		return func(c cell) (cell, string) {
			if !utf8.ValidString(c.s) {
				return null, "the bytes are not UTF-8"
			}
			return c, ""
		}, ""
	}
	return nil, fmt.Sprintf("%s cannot be cast to string", typeName(from))
}

// formatNested writes [a, b], {k -> v} and {a, b}, NULL as null.
func formatNested(from arrow.DataType, zone *time.Location) (cellFunc, string) {
	var parts []cellFunc
	var types []arrow.DataType
	switch t := from.(type) {
	case *arrow.ListType:
		types = []arrow.DataType{t.Elem()}
	case *arrow.MapType:
		types = []arrow.DataType{t.KeyType(), t.ItemType()}
	case *arrow.StructType:
		for _, f := range t.Fields() {
			types = append(types, f.Type)
		}
	}
	for _, t := range types {
		f, msg := castCells(t, typeString, zone)
		if t.ID() == arrow.NULL {
			f, msg = func(c cell) (cell, string) { return c, "" }, ""
		}
		if msg != "" {
			return nil, msg
		}
		parts = append(parts, f)
	}
	write := func(k int, c cell) (string, string) {
		if c.null {
			return "null", ""
		}
		out, msg := parts[k](c)
		return out.s, msg
	}
	return func(c cell) (cell, string) { return nestedText(c, from, write) }, ""
}

func nestedText(c cell, from arrow.DataType, write func(k int, c cell) (string, string)) (cell, string) {
	var out []string
	var msg string
	add := func(k int, c cell, prefix string) {
		s, m := write(k, c)
		out = append(out, prefix+s)
		if m != "" {
			msg = m
		}
	}
	open, end := "{", "}"
	switch from.(type) {
	case *arrow.ListType:
		open, end = "[", "]"
		for _, e := range c.elements() {
			add(0, e, "")
		}
	case *arrow.MapType:
		keys, items := c.entries()
		for i := range keys {
			key, m := write(0, keys[i])
			if m != "" {
				msg = m
			}
			add(1, items[i], key+" -> ")
		}
	case *arrow.StructType:
		st := c.arr.(*array.Struct)
		for f := range st.NumField() {
			add(f, cellsOf(st.Field(f))(c.at), "")
		}
	}
	return cell{s: open + strings.Join(out, ", ") + end}, msg
}

// formatFloat writes a number as Java does: plain between 1e-3 and 1e7, else
// with an exponent; always with a digit after the point.
func formatFloat(f float64, single bool) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	bits := 64
	if single {
		bits = 32
	}
	a := math.Abs(f)
	if a == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(f, 'f', -1, bits)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	s := strconv.FormatFloat(f, 'e', -1, bits)
	mantissa, exponent, _ := strings.Cut(s, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	x, _ := strconv.Atoi(exponent) // FormatFloat's own
	return mantissa + "E" + strconv.Itoa(x)
}

// shortestRat is the number that the shortest text of f says.
func shortestRat(f float64, single bool) (*big.Rat, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	bits := 64
	if single {
		bits = 32
	}
	return new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, bits))
}

// formatDecimal writes n / 10^scale with all its digits.
func formatDecimal(n *big.Int, scale int) string {
	s := new(big.Int).Abs(n).String()
	if scale > 0 {
		if len(s) <= scale {
			s = strings.Repeat("0", scale-len(s)+1) + s
		}
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if n.Sign() < 0 {
		s = "-" + s
	}
	return s
}

func formatDate(days int64) string {
	y, m, d := civil(days)
	return formatYear(y) + fmt.Sprintf("-%02d-%02d", m, d)
}

func formatYear(y int) string {
	switch {
	case y > 9999:
		return fmt.Sprintf("+%d", y)
	case y < 0:
		return fmt.Sprintf("-%04d", -y)
	}
	return fmt.Sprintf("%04d", y)
}

// formatTimestamp writes local microseconds, without trailing zeros of a
// fraction.
func formatTimestamp(us int64) string {
	day := floorDiv64(us, microsPerDay)
	rest := us - day*microsPerDay
	sec := rest / 1_000_000
	s := formatDate(day) + fmt.Sprintf(" %02d:%02d:%02d", sec/3600, sec/60%60, sec%60)
	if frac := rest % 1_000_000; frac != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%06d", frac), "0")
	}
	return s
}

// civil is the date of a day number.
func civil(days int64) (year, month, day int) {
	t := time.Unix(days*86400, 0).UTC()
	y, m, d := t.Date()
	return y, int(m), d
}
