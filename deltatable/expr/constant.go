package expr

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// A constant is a literal's value. Which field holds it follows from the type;
// numbers never pass through float64 on their way to an exact type (I7).
type constant struct {
	dt    arrow.DataType
	null  bool
	i     int64    // boolean (0, 1), date (days), timestamps (microseconds)
	num   *big.Int // integers and decimals: value = num / 10^scale
	scale int32
	f     float64
	s     string // string, binary
	src   Expr   // for messages
}

var (
	tsUTC = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	tsNTZ = &arrow.TimestampType{Unit: arrow.Microsecond}
)

const maxPrecision = 38

func (c *constant) typ() arrow.DataType { return c.dt }

// eval repeats the value for every row.
func (c *constant) eval(b *batch) (arrow.Array, error) { return c.array(b.rows), nil }

// array gives the value n times.
func (c *constant) array(n int) arrow.Array {
	if c.dt.ID() == arrow.NULL {
		return array.NewNull(n)
	}
	v := c.cell()
	arr, err := build(c.dt, n, func(int) (cell, error) { return v, nil })
	if err != nil {
		panic("expr: internal error: " + err.Error()) // nothing fails
	}
	return arr
}

// float is the value of a number as double, rounded correctly.
func (c *constant) float() float64 {
	if c.num == nil {
		return c.f
	}
	f, _ := strconv.ParseFloat(c.num.String()+"e"+strconv.Itoa(-int(c.scale)), 64) // out of range gives an infinity, as it should
	return f
}

// literal makes the value of a literal. The zone may be nil.
func (bd *binder) literal(e *Literal) (*constant, error) {
	c := &constant{src: e}
	fail := func(what string) (*constant, error) {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: what}
	}
	var msg string
	switch e.Kind {
	case Null:
		c.dt, c.null = arrow.Null, true
	case Boolean:
		c.dt = arrow.FixedWidthTypes.Boolean
		if e.Text == "true" {
			c.i = 1
		}
	case Integer, Tinyint, Smallint, Bigint, Decimal:
		msg = c.setNumber(e)
	case Double, Float:
		f, err := strconv.ParseFloat(e.Text, 64)
		if err != nil {
			return fail("the number is out of range for double")
		}
		c.dt, c.f = arrow.PrimitiveTypes.Float64, f
		if e.Kind == Float {
			f32, err := strconv.ParseFloat(e.Text, 32)
			if err != nil {
				return fail("the number is out of range for float")
			}
			c.dt, c.f = arrow.PrimitiveTypes.Float32, f32
		}
	case String:
		c.dt, c.s = arrow.BinaryTypes.String, e.Text
	case Binary:
		h := e.Text
		if len(h)%2 == 1 {
			h = "0" + h
		}
		b, err := hex.DecodeString(h)
		if err != nil {
			return fail("not hexadecimal digits")
		}
		c.dt, c.s = arrow.BinaryTypes.Binary, string(b)
	case Date:
		msg = c.parse(e.Text, arrow.FixedWidthTypes.Date32, bd)
	case Timestamp:
		msg = c.parse(e.Text, tsUTC, bd)
	case TimestampNTZ:
		msg = c.parse(e.Text, tsNTZ, bd)
	case Interval:
		return nil, &UnsupportedError{At: e.At, What: "an INTERVAL that is not added to a date or timestamp"}
	}
	if msg != "" {
		return fail(msg)
	}
	return c, nil
}

// setNumber reads an integer or decimal literal and picks its type.
func (c *constant) setNumber(e *Literal) string {
	num, scale, ok := parseDecimal(e.Text)
	if !ok {
		return "the number has too many digits (at most 38)"
	}
	c.num, c.scale = num, scale
	digits := int32(len(new(big.Int).Abs(num).String()))
	bits := map[LiteralKind]int{Tinyint: 8, Smallint: 16, Bigint: 64}[e.Kind]
	switch {
	case bits != 0 && !fits(num, bits):
		return "the number is out of range for its suffix"
	case e.Kind == Tinyint:
		c.dt = arrow.PrimitiveTypes.Int8
	case e.Kind == Smallint:
		c.dt = arrow.PrimitiveTypes.Int16
	case e.Kind == Integer && fits(num, 32):
		c.dt = arrow.PrimitiveTypes.Int32
	case e.Kind == Bigint, e.Kind == Integer && fits(num, 64):
		c.dt = arrow.PrimitiveTypes.Int64
	default:
		c.dt = &arrow.Decimal128Type{Precision: max(digits, scale), Scale: scale}
	}
	return ""
}

func fits(n *big.Int, bits int) bool {
	low := new(big.Int).Lsh(big.NewInt(-1), uint(bits-1))
	high := new(big.Int).Not(low)
	return n.Cmp(low) >= 0 && n.Cmp(high) <= 0
}

// parseDecimal reads [sign]digits[.digits][e[sign]digits] exactly; false if it
// is not of this form or has more than 38 digits before or after the point.
func parseDecimal(s string) (*big.Int, int32, bool) {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		x, err := strconv.Atoi(s[i+1:])
		if err != nil || x < -1000 || x > 1000 {
			return nil, 0, false
		}
		mantissa, exponent = s[:i], x
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole, "+-")
	if len(whole)-len(digits) > 1 || digits+frac == "" || strings.Trim(digits+frac, "0123456789") != "" {
		return nil, 0, false
	}
	if len(strings.TrimLeft(digits, "0"))+len(frac) > 4*maxPrecision {
		return nil, 0, false
	}
	num, _ := new(big.Int).SetString(digits+frac, 10)
	if strings.HasPrefix(whole, "-") {
		num.Neg(num)
	}
	scale := len(frac) - exponent
	if scale < 0 {
		num.Mul(num, pow10(-scale))
		scale = 0
	}
	if len(new(big.Int).Abs(num).String()) > maxPrecision || scale > maxPrecision {
		return nil, 0, false
	}
	return num, int32(scale), true
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// parse reads text as a value of type t, as Spark's ANSI cast does (blanks
// around are trimmed). It returns what is wrong, "" if nothing is.
func (c *constant) parse(text string, t arrow.DataType, bd *binder) string {
	c.dt = t
	s := strings.TrimSpace(text)
	bad := fmt.Sprintf("'%s' is no %s", text, typeName(t))
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		num, scale, ok := parseDecimal(s)
		if !ok || scale != 0 || strings.ContainsAny(s, ".eE") {
			return bad
		}
		c.num, c.dt = num, arrow.PrimitiveTypes.Int64
		if !fits(num, 64) {
			return bad + ": out of range"
		}
	case arrow.DECIMAL128:
		num, scale, ok := parseDecimal(s)
		if !ok {
			return bad
		}
		digits := int32(len(new(big.Int).Abs(num).String()))
		c.num, c.scale, c.dt = num, scale, &arrow.Decimal128Type{Precision: max(digits, scale), Scale: scale}
	case arrow.FLOAT32, arrow.FLOAT64:
		f, ok := parseDouble(s)
		if !ok {
			return bad
		}
		c.f = f
		if t.ID() == arrow.FLOAT32 {
			c.f = float64(float32(f))
		}
	case arrow.BOOL:
		switch strings.ToLower(s) {
		case "true", "t", "yes", "y", "1":
			c.i = 1
		case "false", "f", "no", "n", "0":
		default:
			return bad
		}
	case arrow.STRING, arrow.BINARY:
		c.s = text
	case arrow.DATE32:
		days, ok := parseDate(s)
		if !ok {
			return bad
		}
		c.i = days
	case arrow.TIMESTAMP:
		us, zoned, ok := parseTimestamp(s, t.(*arrow.TimestampType).TimeZone != "", bd.zone)
		if !ok {
			return bad
		}
		if ltz := t.(*arrow.TimestampType).TimeZone != ""; ltz && !zoned {
			return fmt.Sprintf("the timestamp '%s' has no time zone", text)
		} else if !ltz && zoned {
			return fmt.Sprintf("'%s' has a time zone, the type timestamp_ntz has none", text)
		}
		c.i = us
	default:
		return fmt.Sprintf("a string cannot be read as %s", typeName(t))
	}
	return ""
}

func parseDouble(s string) (float64, bool) {
	switch strings.ToLower(strings.TrimPrefix(s, "+")) {
	case "nan":
		return math.NaN(), true
	case "inf", "infinity":
		return math.Inf(1), true
	case "-inf", "-infinity":
		return math.Inf(-1), true
	}
	if s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// typeName is the type in SQL's words.
func typeName(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "boolean"
	case *arrow.Int8Type:
		return "tinyint"
	case *arrow.Int16Type:
		return "smallint"
	case *arrow.Int32Type:
		return "int"
	case *arrow.Int64Type:
		return "bigint"
	case *arrow.Float32Type:
		return "float"
	case *arrow.Float64Type:
		return "double"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case *arrow.StringType:
		return "string"
	case *arrow.BinaryType:
		return "binary"
	case *arrow.Date32Type:
		return "date"
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return "timestamp_ntz"
		}
		return "timestamp"
	case *arrow.StructType:
		return "struct"
	case *arrow.ListType:
		return "array"
	case *arrow.MapType:
		return "map"
	case *arrow.NullType:
		return "void"
	}
	return t.String()
}
