package expr

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// A cellFunc converts a value that is not NULL; msg says why there is no result.
type cellFunc func(c cell) (out cell, msg string)

// castCells gives the conversion of an atomic type into another by the rules of
// Spark's ANSI cast. msg, where there is none, says why.
func castCells(from, to arrow.DataType, zone *time.Location) (f cellFunc, msg string) {
	cannot := fmt.Sprintf("%s cannot be cast to %s", typeName(from), typeName(to))
	same := func(c cell) (cell, string) { return c, "" }
	switch {
	case arrow.TypeEqual(from, to):
		return same, ""
	case from.ID() == arrow.STRING:
		return parseCells(to, zone)
	case to.ID() == arrow.STRING:
		return formatCells(from, zone)
	case isNumber(from) && isNumber(to):
		return numberCells(from, to), ""
	case from.ID() == arrow.BOOL && isNumber(to):
		return numberCells(arrow.PrimitiveTypes.Int8, to), ""
	case isNumber(from) && to.ID() == arrow.BOOL:
		return func(c cell) (cell, string) {
			return boolCell(c.i != 0 || c.f != 0 || c.d != decimal128.Num{}), ""
		}, ""
	case from.ID() == arrow.DATE32 && to.ID() == arrow.TIMESTAMP:
		return datesToTimestamps(to, zone)
	case from.ID() == arrow.TIMESTAMP:
		return timestampCells(from, to, zone)
	case isNumber(from) && isZoned(to):
		return secondsToTimestamps(from), ""
	}
	return nil, cannot
}

func isNumber(t arrow.DataType) bool {
	return isInteger(t) || isFloat(t) || t.ID() == arrow.DECIMAL128
}

func isZoned(t arrow.DataType) bool {
	ts, ok := t.(*arrow.TimestampType)
	return ok && ts.TimeZone != ""
}

func needZone(t arrow.DataType) string {
	return fmt.Sprintf("a conversion between %s and timestamp needs a time zone, and none is given", typeName(t))
}

const overflow = "overflow"

// tooBig says that a value does not fit a type.
func tooBig(v any, to arrow.DataType) string {
	return fmt.Sprintf("%s: %v does not fit %s", overflow, v, typeName(to))
}

// bitsOf is the width of an integer type.
func bitsOf(t arrow.DataType) int { return t.(arrow.FixedWidthDataType).BitWidth() }

func fitsInt(v int64, bits int) bool {
	return v >= -1<<(bits-1) && v <= 1<<(bits-1)-1
}

// numberCells converts between numeric types.
func numberCells(from, to arrow.DataType) cellFunc {
	switch {
	case isInteger(to):
		return integerCells(from, to)
	case to.ID() == arrow.FLOAT64, to.ID() == arrow.FLOAT32:
		single := to.ID() == arrow.FLOAT32
		return func(c cell) (cell, string) {
			f := toDouble(c, from)
			if single {
				f = float64(float32(f))
				if isInteger(from) {
					f = float64(float32(c.i))
				}
			}
			return cell{f: f}, ""
		}
	}
	dec := to.(*arrow.Decimal128Type)
	return func(c cell) (cell, string) {
		switch {
		case isInteger(from):
			return fitDecimal(big.NewInt(c.i), 0, dec)
		case isFloat(from):
			return floatDecimal(c.f, from, dec)
		}
		return fitDecimal(c.d.BigInt(), from.(*arrow.Decimal128Type).Scale, dec)
	}
}

// toDouble is a number as double.
func toDouble(c cell, t arrow.DataType) float64 {
	switch {
	case isInteger(t):
		return float64(c.i)
	case isFloat(t):
		return c.f
	}
	return decimalFloat(c.d.BigInt(), t.(*arrow.Decimal128Type).Scale)
}

func integerCells(from, to arrow.DataType) cellFunc {
	bits := bitsOf(to)
	return func(c cell) (cell, string) {
		switch {
		case isInteger(from):
			if !fitsInt(c.i, bits) {
				return null, tooBig(c.i, to)
			}
			return c, ""
		case isFloat(from):
			return floatInteger(c.f, from, to)
		}
		n := c.d.BigInt()
		n.Quo(n, pow10(int(from.(*arrow.Decimal128Type).Scale))) // towards zero
		if !fits(n, bits) {
			return null, tooBig(n, to)
		}
		return cell{i: n.Int64()}, ""
	}
}

func floatInteger(f float64, from, to arrow.DataType) (cell, string) {
	t := math.Trunc(f)
	limit := math.Ldexp(1, bitsOf(to)-1)
	if !(t >= -limit && t < limit) { // so written, NaN fails
		return null, tooBig(formatFloat(f, from.ID() == arrow.FLOAT32), to)
	}
	return cell{i: int64(t)}, ""
}

// fitDecimal brings a number to a decimal type's scale, rounding half up.
func fitDecimal(n *big.Int, scale int32, to *arrow.Decimal128Type) (cell, string) {
	n = rescale(n, int(scale), int(to.Scale))
	if n.CmpAbs(pow10(int(to.Precision))) >= 0 {
		return null, tooBig(formatDecimal(n, int(to.Scale)), to)
	}
	return cell{d: decimal128.FromBigInt(n)}, ""
}

// rescale brings n / 10^from to n / 10^to, halves away from zero.
func rescale(n *big.Int, from, to int) *big.Int {
	if to >= from {
		return new(big.Int).Mul(n, pow10(to-from))
	}
	d := pow10(from - to)
	return roundQuo(n, d)
}

// roundQuo is n/d rounded half away from zero; d is not 0.
func roundQuo(n, d *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(n, d, new(big.Int))
	if r.Lsh(r.Abs(r), 1).CmpAbs(d) >= 0 {
		q.Add(q, big.NewInt(int64(n.Sign()*d.Sign())))
	}
	return q
}

// floatDecimal takes the shortest decimal text of the number, as Spark does.
func floatDecimal(f float64, from arrow.DataType, to *arrow.Decimal128Type) (cell, string) {
	r, ok := shortestRat(f, from.ID() == arrow.FLOAT32)
	if !ok {
		return null, tooBig(formatFloat(f, false), to)
	}
	n := new(big.Int).Mul(r.Num(), pow10(int(to.Scale)))
	n = roundQuo(n, r.Denom())
	if n.CmpAbs(pow10(int(to.Precision))) >= 0 {
		return null, tooBig(formatFloat(f, from.ID() == arrow.FLOAT32), to)
	}
	return cell{d: decimal128.FromBigInt(n)}, ""
}

func datesToTimestamps(to arrow.DataType, zone *time.Location) (cellFunc, string) {
	if !isZoned(to) {
		zone = time.UTC
	} else if zone == nil {
		return nil, needZone(arrow.FixedWidthTypes.Date32)
	}
	return func(c cell) (cell, string) {
		if c.i > maxDay || c.i < -maxDay {
			return null, tooBig("the date", to)
		}
		return cell{i: atZone(c.i*microsPerDay, zone)}, ""
	}, ""
}

// maxDay keeps a day within the microseconds that int64 holds.
const maxDay = math.MaxInt64 / microsPerDay

func timestampCells(from, to arrow.DataType, zone *time.Location) (cellFunc, string) {
	zoned := isZoned(from)
	switch {
	case to.ID() == arrow.TIMESTAMP && zone == nil:
		return nil, needZone(tsNTZ)
	case to.ID() == arrow.TIMESTAMP && zoned:
		return func(c cell) (cell, string) { return cell{i: wallMicros(c.i, zone)}, "" }, ""
	case to.ID() == arrow.TIMESTAMP:
		return func(c cell) (cell, string) { return cell{i: atZone(c.i, zone)}, "" }, ""
	case to.ID() == arrow.DATE32 && zoned && zone == nil:
		return nil, needZone(to)
	case to.ID() == arrow.DATE32:
		if !zoned {
			zone = time.UTC
		}
		return func(c cell) (cell, string) { return cell{i: floorDiv64(wallMicros(c.i, zone), microsPerDay)}, "" }, ""
	case zoned && isInteger(to):
		bits := bitsOf(to)
		return func(c cell) (cell, string) {
			s := floorDiv64(c.i, 1_000_000)
			if !fitsInt(s, bits) {
				return null, tooBig(s, to)
			}
			return cell{i: s}, ""
		}, ""
	case zoned && isFloat(to):
		return func(c cell) (cell, string) {
			f := float64(c.i) / 1e6
			if to.ID() == arrow.FLOAT32 {
				f = float64(float32(f))
			}
			return cell{f: f}, ""
		}, ""
	case zoned && to.ID() == arrow.DECIMAL128:
		return func(c cell) (cell, string) {
			return fitDecimal(big.NewInt(c.i), 6, to.(*arrow.Decimal128Type))
		}, ""
	}
	return nil, fmt.Sprintf("%s cannot be cast to %s", typeName(from), typeName(to))
}

// secondsToTimestamps reads numbers as seconds since 1970-01-01 UTC.
func secondsToTimestamps(from arrow.DataType) cellFunc {
	return func(c cell) (cell, string) {
		r := new(big.Rat)
		switch {
		case isInteger(from):
			r.SetInt64(c.i)
		case isFloat(from):
			if math.IsNaN(c.f) || math.IsInf(c.f, 0) {
				return null, tooBig(formatFloat(c.f, false), tsUTC)
			}
			r.SetFloat64(c.f)
		default:
			r.SetFrac(c.d.BigInt(), pow10(int(from.(*arrow.Decimal128Type).Scale)))
		}
		n := new(big.Int).Mul(r.Num(), big.NewInt(1_000_000))
		n.Quo(n, r.Denom())
		if !n.IsInt64() {
			return null, tooBig(n.String()+" microseconds", tsUTC)
		}
		return cell{i: n.Int64()}, ""
	}
}

func floorDiv64(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// wallMicros is what clocks in the zone show at an instant.
func wallMicros(us int64, zone *time.Location) int64 {
	if zone == time.UTC || zone == nil {
		return us
	}
	_, off := time.UnixMicro(us).In(zone).Zone()
	return us + int64(off)*1_000_000
}
