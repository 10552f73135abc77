package rowfile

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Format gives value i of arr, which must be of a canonical type, as text:
// strings as they are, NULL for NULL, everything else as in CSV. Text of strings
// that are not valid UTF-8 keeps their bytes.
func Format(arr arrow.Array, i int) string {
	if isNull(arr, i) {
		return "NULL"
	}
	if s, ok := arr.(*array.String); ok {
		return s.Value(i)
	}
	c := newCell(arr)
	b, _ := c.text(nil, i) // fails for invalid UTF-8 only, of which it keeps what it can
	return string(b)
}

// Quote is Format with strings as JSON strings, so that spaces and NULL itself
// can be told from text.
func Quote(arr arrow.Array, i int) string {
	if s, ok := arr.(*array.String); ok && arr.IsValid(i) {
		return string(appendEscaped([]byte{'"'}, s.Value(i), true)) + `"`
	}
	return Format(arr, i)
}

// JSON gives value i of arr, which must be of a canonical type, as it stands in
// JSON Lines. Text of strings that are not valid UTF-8 has U+FFFD in their place.
func JSON(arr arrow.Array, i int) string {
	b, _ := newCell(arr).value(nil, i) // fails for invalid UTF-8 only
	return string(b)
}

// cell writes the values of one array. json gives JSON, text the same without
// quotes around what JSON has as a string. Neither is called for NULL.
type cell struct {
	arr  arrow.Array
	json func(dst []byte, i int) ([]byte, error)
	text func(dst []byte, i int) ([]byte, error)
}

// isNull is true of every value of a void array, of which arrow-go's IsNull is
// not.
func isNull(arr arrow.Array, i int) bool { return arr.IsNull(i) || arr.DataType().ID() == arrow.NULL }

// plainCell is a cell whose JSON needs no quotes.
func plainCell(arr arrow.Array, f func(dst []byte, i int) []byte) cell {
	g := func(dst []byte, i int) ([]byte, error) { return f(dst, i), nil }
	return cell{arr, g, g}
}

// quotedCell is a cell whose text needs quotes in JSON but no escapes.
func quotedCell(arr arrow.Array, f func(dst []byte, i int) []byte) cell {
	return cell{
		arr,
		func(dst []byte, i int) ([]byte, error) { return append(f(append(dst, '"'), i), '"'), nil },
		func(dst []byte, i int) ([]byte, error) { return f(dst, i), nil },
	}
}

func newCell(arr arrow.Array) cell {
	switch a := arr.(type) {
	case *array.Null:
		return plainCell(a, func(dst []byte, _ int) []byte { return append(dst, "null"...) })
	case *array.Boolean:
		return plainCell(a, func(dst []byte, i int) []byte { return strconv.AppendBool(dst, a.Value(i)) })
	case *array.Int8:
		return plainCell(a, func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(a.Value(i)), 10) })
	case *array.Int16:
		return plainCell(a, func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(a.Value(i)), 10) })
	case *array.Int32:
		return plainCell(a, func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(a.Value(i)), 10) })
	case *array.Int64:
		return plainCell(a, func(dst []byte, i int) []byte { return strconv.AppendInt(dst, a.Value(i), 10) })
	case *array.Float32:
		return floatCell(a, 32, func(i int) float64 { return float64(a.Value(i)) })
	case *array.Float64:
		return floatCell(a, 64, a.Value)
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return quotedCell(a, func(dst []byte, i int) []byte { return appendDecimal(dst, a.Value(i), scale) })
	case *array.String:
		return stringCell(a)
	case *array.Binary:
		return quotedCell(a, func(dst []byte, i int) []byte { return hex.AppendEncode(dst, a.Value(i)) })
	case *array.Date32:
		return quotedCell(a, func(dst []byte, i int) []byte { return appendDate(dst, int64(a.Value(i))) })
	case *array.Timestamp:
		utc := a.DataType().(*arrow.TimestampType).TimeZone != ""
		return quotedCell(a, func(dst []byte, i int) []byte { return appendTimestamp(dst, int64(a.Value(i)), utc) })
	default:
		c := cell{arr: arr}
		c.json = nestedCell(arr)
		c.text = c.json
		return c
	}
}

// value appends value i as JSON, NULL included.
func (c cell) value(dst []byte, i int) ([]byte, error) {
	if isNull(c.arr, i) {
		return append(dst, "null"...), nil
	}
	return c.json(dst, i)
}

func nestedCell(arr arrow.Array) func(dst []byte, i int) ([]byte, error) {
	switch a := arr.(type) {
	case *array.Struct:
		o := newRow(a.DataType().(*arrow.StructType).Fields(), a.Field)
		return o.append
	case *array.Map:
		return mapCell(a)
	case *array.List:
		return listCell(a)
	}
	panic(fmt.Sprintf("internal error: %s is no canonical type", arr.DataType()))
}

func mapCell(a *array.Map) func(dst []byte, i int) ([]byte, error) {
	k, v := newCell(a.Keys()), newCell(a.Items())
	return func(dst []byte, i int) ([]byte, error) {
		from, to := a.ValueOffsets(i)
		dst = append(dst, `{"$map":[`...)
		var err error
		for j := int(from); j < int(to); j++ {
			if j > int(from) {
				dst = append(dst, ',')
			}
			if dst, err = k.value(append(dst, '['), j); err != nil {
				return dst, err
			}
			if dst, err = v.value(append(dst, ','), j); err != nil {
				return dst, err
			}
			dst = append(dst, ']')
		}
		return append(dst, "]}"...), nil
	}
}

func listCell(a *array.List) func(dst []byte, i int) ([]byte, error) {
	e := newCell(a.ListValues())
	return func(dst []byte, i int) ([]byte, error) {
		from, to := a.ValueOffsets(i)
		dst = append(dst, '[')
		var err error
		for j := int(from); j < int(to); j++ {
			if j > int(from) {
				dst = append(dst, ',')
			}
			if dst, err = e.value(dst, j); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
}

// row writes JSON objects: the rows of a batch and structs.
type row struct {
	heads [][]byte // {"name": or ,"name":
	names []string
	cells []cell
}

func newRow(fields []arrow.Field, column func(int) arrow.Array) *row {
	r := &row{}
	for i, f := range fields {
		head := []byte{','}
		if i == 0 {
			head = []byte{'{'}
		}
		head = append(appendEscaped(append(head, '"'), f.Name, true), `":`...)
		r.heads = append(r.heads, head)
		r.names = append(r.names, f.Name)
		r.cells = append(r.cells, newCell(column(i)))
	}
	return r
}

func (r *row) append(dst []byte, i int) ([]byte, error) {
	if len(r.cells) == 0 {
		dst = append(dst, '{')
	}
	var err error
	for k, c := range r.cells {
		dst = append(dst, r.heads[k]...)
		if dst, err = c.value(dst, i); err != nil {
			return dst, fmt.Errorf("column %s: %w", r.names[k], err)
		}
	}
	return append(dst, '}'), nil
}

func floatCell(arr arrow.Array, bits int, at func(int) float64) cell {
	special := func(v float64) string {
		switch {
		case v != v:
			return "NaN"
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
		return ""
	}
	return cell{
		arr,
		func(dst []byte, i int) ([]byte, error) {
			v := at(i)
			if s := special(v); s != "" {
				return append(append(append(dst, '"'), s...), '"'), nil
			}
			return appendFloat(dst, v, bits), nil
		},
		func(dst []byte, i int) ([]byte, error) {
			v := at(i)
			if s := special(v); s != "" {
				return append(dst, s...), nil
			}
			return appendFloat(dst, v, bits), nil
		},
	}
}

// appendFloat writes the shortest form, as FORMAT's reference writer does:
// an exponent below 1e-4 and from 1e16 on, else a point and a digit.
func appendFloat(dst []byte, v float64, bits int) []byte {
	if a := math.Abs(v); v != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, v, 'e', -1, bits)
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, bits)
	for _, c := range dst[n:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

func stringCell(a *array.String) cell {
	check := func(i int) error {
		if utf8.ValidString(a.Value(i)) {
			return nil
		}
		return fmt.Errorf("%q is not valid UTF-8", a.Value(i))
	}
	return cell{
		a,
		func(dst []byte, i int) ([]byte, error) {
			dst = append(appendEscaped(append(dst, '"'), a.Value(i), true), '"')
			return dst, check(i)
		},
		func(dst []byte, i int) ([]byte, error) { return append(dst, a.Value(i)...), check(i) },
	}
}

const hexDigits = "0123456789abcdef"

// appendEscaped writes s with what JSON wants escaped escaped; with quotes, the
// quote and the backslash too. Invalid UTF-8 becomes U+FFFD.
func appendEscaped(dst []byte, s string, quotes bool) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != 0x7f && (!quotes || c != '"' && c != '\\') {
			i++
			continue
		}
		if c == 0x7f && quotes { // stands for itself in JSON
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

// appendDecimal writes v / 10^scale with exactly scale digits behind the point.
func appendDecimal(dst []byte, v decimal128.Num, scale int32) []byte {
	var digits [40]byte
	var text []byte
	if v.Sign() < 0 {
		dst = append(dst, '-')
	}
	if hi := v.HighBits(); hi == 0 && int64(v.LowBits()) >= 0 || hi == -1 && int64(v.LowBits()) < 0 {
		text = strconv.AppendUint(digits[:0], magnitude(int64(v.LowBits())), 10)
	} else {
		text = v.Abs().BigInt().Append(digits[:0], 10)
	}
	point := len(text) - int(scale)
	if point <= 0 {
		dst = append(dst, '0')
	} else {
		dst = append(dst, text[:point]...)
	}
	if scale <= 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; point < 0; point++ {
		dst = append(dst, '0')
	}
	return append(dst, text[point:]...)
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

const usPerDay = 86_400_000_000

// appendDate writes a day counted from 1970-01-01, proleptic Gregorian.
func appendDate(dst []byte, days int64) []byte {
	// Years begin in March and are taken in cycles of 400 (146,097 days).
	z := days + 719468
	cycle := z / 146097
	if z < 0 && z%146097 != 0 {
		cycle--
	}
	doe := z - cycle*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d, m, y := doy-(153*mp+2)/5+1, mp+3, yoe+cycle*400
	if m > 12 {
		m, y = m-12, y+1
	}
	switch {
	case y < 0:
		dst, y = append(dst, '-'), -y
	case y > 9999:
		dst = append(dst, '+')
	}
	if y < 1000 {
		dst = append(dst, "0000"[:3-digitCount(y)+1]...)
	}
	dst = strconv.AppendInt(dst, y, 10)
	return append(dst, '-', byte('0'+m/10), byte('0'+m%10), '-', byte('0'+d/10), byte('0'+d%10))
}

// digitCount is the number of digits of a y below 1000.
func digitCount(y int64) int {
	switch {
	case y < 10:
		return 1
	case y < 100:
		return 2
	default:
		return 3
	}
}

func appendTimestamp(dst []byte, us int64, utc bool) []byte {
	days, rest := us/usPerDay, us%usPerDay
	if rest < 0 {
		days, rest = days-1, rest+usPerDay
	}
	dst = append(appendDate(dst, days), 'T')
	secs := rest / 1_000_000
	dst = append(pair(dst, secs/3600), ':')
	dst = append(pair(dst, secs/60%60), ':')
	dst = append(pair(dst, secs%60), '.')
	frac := rest % 1_000_000
	dst = pair(pair(pair(dst, frac/10000), frac/100%100), frac%100)
	if utc {
		dst = append(dst, 'Z')
	}
	return dst
}

func pair(dst []byte, v int64) []byte { return append(dst, byte('0'+v/10), byte('0'+v%10)) }
