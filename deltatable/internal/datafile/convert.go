package datafile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	pq "github.com/apache/arrow-go/v18/parquet/schema"
)

// convertFunc makes an array of the canonical type from a column's values.
type convertFunc func(v *vec, valid *validity, t arrow.DataType, j julian) (arrow.ArrayData, error)

// converter chooses how a stored column becomes a value of type t (protocol
// notes 1.17); nil if it cannot without loss or guesswork. Wider types of the
// table are served where each stored value has an equal one.
func converter(n *pq.PrimitiveNode, t arrow.DataType) convertFunc {
	phys, ann := n.PhysicalType(), annotationOf(n)
	switch t := t.(type) {
	case *arrow.BooleanType:
		if phys == parquet.Types.Boolean {
			return toBool
		}
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		return intConverter(phys, ann, t)
	case *arrow.Float32Type:
		if phys == parquet.Types.Float && ann == annNone {
			return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
				return fixedArray(v.f32, valid, t, arrow.Float32Traits.CastToBytes), nil
			}
		}
	case *arrow.Float64Type:
		switch {
		case phys == parquet.Types.Double && ann == annNone:
			return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
				return fixedArray(v.f64, valid, t, arrow.Float64Traits.CastToBytes), nil
			}
		case phys == parquet.Types.Float && ann == annNone:
			return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
				return fixedArray(mapped(v.f32, func(x float32) float64 { return float64(x) }), valid, t, arrow.Float64Traits.CastToBytes), nil
			}
		}
	case *arrow.Date32Type:
		if phys == parquet.Types.Int32 && (ann == annDate || ann == annNone) {
			return toDate
		}
	case *arrow.TimestampType:
		return timestampConverter(n, phys)
	case *arrow.Decimal128Type:
		return decimalConverter(n, phys, ann, t)
	case *arrow.StringType, *arrow.BinaryType:
		if phys == parquet.Types.ByteArray && ann != annDecimal ||
			phys == parquet.Types.FixedLenByteArray && ann == annNone && t.ID() == arrow.BINARY {
			return toBytes
		}
	}
	return nil
}

type annotation uint8

const (
	annNone    annotation = iota // also UTF8, JSON, ENUM, UUID, BSON: bytes as they are
	annInt                       // signed, or unsigned and narrower than the physical type
	annDate                      //
	annTime                      //
	annStamp                     //
	annDecimal                   //
	annOther                     // what no table column can be
)

func annotationOf(n *pq.PrimitiveNode) annotation {
	switch l := n.LogicalType().(type) {
	case nil, pq.NoLogicalType, pq.StringLogicalType, pq.JSONLogicalType, pq.BSONLogicalType, pq.EnumLogicalType:
		return annNone
	case pq.UUIDLogicalType:
		return annNone
	case pq.IntLogicalType:
		if l.IsSigned() || l.BitWidth() < 32 || l.BitWidth() == 32 && n.PhysicalType() == parquet.Types.Int64 {
			return annInt
		}
	case pq.DateLogicalType:
		return annDate
	case pq.TimeLogicalType:
		return annTime
	case pq.TimestampLogicalType:
		return annStamp
	case pq.DecimalLogicalType:
		return annDecimal
	}
	return annOther
}

// fixedArray spreads values of a fixed width over their slots.
func fixedArray[T any](vals []T, valid *validity, t arrow.DataType, cast func([]T) []byte) arrow.ArrayData {
	vals = spread(vals, valid)
	buffers := []*memory.Buffer{valid.buffer(), memory.NewBufferBytes(cast(vals))}
	return array.NewData(t, valid.n, buffers, nil, valid.nulls, 0)
}

func mapped[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func toBool(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
	vals := spread(v.bools, valid)
	bits := make([]byte, bitutil.BytesForBits(int64(valid.n)))
	for i, b := range vals {
		if b {
			bitutil.SetBit(bits, i)
		}
	}
	return array.NewData(t, valid.n, []*memory.Buffer{valid.buffer(), memory.NewBufferBytes(bits)}, nil, valid.nulls, 0), nil
}

func intConverter(phys parquet.Type, ann annotation, t arrow.DataType) convertFunc {
	if ann != annNone && ann != annInt {
		return nil
	}
	switch {
	case phys == parquet.Types.Int64 && t.ID() == arrow.INT64:
		return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
			return fixedArray(v.i64, valid, t, arrow.Int64Traits.CastToBytes), nil
		}
	case phys != parquet.Types.Int32:
		return nil
	}
	switch t.(type) {
	case *arrow.Int64Type:
		return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
			return fixedArray(mapped(v.i32, func(x int32) int64 { return int64(x) }), valid, t, arrow.Int64Traits.CastToBytes), nil
		}
	case *arrow.Int32Type:
		return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
			return fixedArray(v.i32, valid, t, arrow.Int32Traits.CastToBytes), nil
		}
	case *arrow.Int16Type:
		return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
			out, err := narrow(v.i32, math.MinInt16, math.MaxInt16, func(x int32) int16 { return int16(x) })
			return fixedArray(out, valid, t, arrow.Int16Traits.CastToBytes), err
		}
	default:
		return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
			out, err := narrow(v.i32, math.MinInt8, math.MaxInt8, func(x int32) int8 { return int8(x) })
			return fixedArray(out, valid, t, arrow.Int8Traits.CastToBytes), err
		}
	}
}

func narrow[T any](in []int32, lo, hi int32, f func(int32) T) ([]T, error) {
	for _, v := range in {
		if v < lo || v > hi {
			return make([]T, len(in)), fmt.Errorf("the value %d is outside the type's range", v)
		}
	}
	return mapped(in, f), nil
}

func toBytes(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
	offs := v.offs
	if valid.nulls > 0 {
		offs = make([]int32, valid.n+1)
		j := 0
		for i, d := range valid.def {
			if d == valid.max {
				j++
			}
			offs[i+1] = v.offs[j]
		}
	}
	buffers := []*memory.Buffer{valid.buffer(), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offs)), memory.NewBufferBytes(v.data)}
	return array.NewData(t, valid.n, buffers, nil, valid.nulls, 0), nil
}

// julian says that a file's old dates are of the hybrid Julian calendar: Spark 2
// and Spark 3 in legacy mode mark such files. Values that both calendars write
// alike read as they are; older ones are refused rather than read as other days.
type julian struct{ dates, int96 bool }

const (
	gregorianDay    = -141427               // 1582-10-15
	gregorianMicros = -2_208_988_800_000000 // 1900-01-01, before which zones shift as well
)

var errJulian = errors.New("the file was written in the Julian calendar (org.apache.spark.legacyDateTime) and holds a value before its reform")

func toDate(v *vec, valid *validity, t arrow.DataType, j julian) (arrow.ArrayData, error) {
	if j.dates {
		for _, d := range v.i32 {
			if d < gregorianDay {
				return nil, errJulian
			}
		}
	}
	return fixedArray(v.i32, valid, t, arrow.Int32Traits.CastToBytes), nil
}

func timestampConverter(n *pq.PrimitiveNode, phys parquet.Type) convertFunc {
	if phys == parquet.Types.Int96 {
		return func(v *vec, valid *validity, t arrow.DataType, j julian) (arrow.ArrayData, error) {
			out := make([]int64, len(v.i96))
			for i := range v.i96 {
				us, err := int96Micros(v.i96[i])
				if err != nil {
					return nil, err
				}
				if j.int96 && us < gregorianMicros {
					return nil, errJulian
				}
				out[i] = us
			}
			return fixedArray(out, valid, t, arrow.Int64Traits.CastToBytes), nil
		}
	}
	l, ok := n.LogicalType().(pq.TimestampLogicalType)
	if !ok || phys != parquet.Types.Int64 {
		return nil
	}
	scale, ok := microsOf(l.TimeUnit())
	if !ok {
		return nil
	}
	return func(v *vec, valid *validity, t arrow.DataType, j julian) (arrow.ArrayData, error) {
		vals := v.i64
		for i, x := range vals {
			us, err := scale(x)
			if err != nil {
				return nil, err
			}
			if j.dates && us < gregorianMicros {
				return nil, errJulian
			}
			vals[i] = us
		}
		return fixedArray(vals, valid, t, arrow.Int64Traits.CastToBytes), nil
	}
}

// microsOf converts a unit's values to microseconds; nanoseconds are cut towards
// the past.
func microsOf(u pq.TimeUnitType) (func(int64) (int64, error), bool) {
	switch u {
	case pq.TimeUnitMicros:
		return func(x int64) (int64, error) { return x, nil }, true
	case pq.TimeUnitMillis:
		return func(x int64) (int64, error) {
			if x > math.MaxInt64/1000 || x < math.MinInt64/1000 {
				return 0, fmt.Errorf("the timestamp of %d milliseconds is out of range", x)
			}
			return x * 1000, nil
		}, true
	case pq.TimeUnitNanos:
		return func(x int64) (int64, error) {
			us := x / 1000
			if x%1000 < 0 {
				us--
			}
			return us, nil
		}, true
	case pq.TimeUnitUnknown:
	}
	return nil, false
}

// int96Micros: 8 bytes of nanoseconds of the day, 4 of the Julian day number.
// Through nanoseconds since 1970 it would overflow outside 1677 to 2262.
func int96Micros(v parquet.Int96) (int64, error) {
	day := int64(int32(binary.LittleEndian.Uint32(v[8:]))) - 2440588
	us := int64(binary.LittleEndian.Uint64(v[:8])) / 1000
	const perDay = 86_400_000_000
	if int64(binary.LittleEndian.Uint64(v[:8]))%1000 < 0 {
		us--
	}
	if day > math.MaxInt64/perDay-1 || day < math.MinInt64/perDay+1 || us > math.MaxInt64/4 || us < math.MinInt64/4 {
		return 0, fmt.Errorf("the timestamp of day %d and %d microseconds is out of range", day, us)
	}
	sum := day * perDay
	if us > 0 && sum > math.MaxInt64-us || us < 0 && sum < math.MinInt64-us {
		return 0, fmt.Errorf("the timestamp of day %d and %d microseconds is out of range", day, us)
	}
	return sum + us, nil
}

func decimalConverter(n *pq.PrimitiveNode, phys parquet.Type, ann annotation, t *arrow.Decimal128Type) convertFunc {
	l, ok := n.LogicalType().(pq.DecimalLogicalType)
	if !ok || ann != annDecimal || l.Scale() > t.Scale || l.Scale() < 0 {
		return nil
	}
	fit := fitter(t, l)
	switch phys {
	case parquet.Types.Int32:
		return decimalOf(fit, func(v *vec) []decimal128.Num {
			return mapped(v.i32, func(x int32) decimal128.Num { return decimal128.FromI64(int64(x)) })
		})
	case parquet.Types.Int64:
		return decimalOf(fit, func(v *vec) []decimal128.Num { return mapped(v.i64, decimal128.FromI64) })
	case parquet.Types.ByteArray, parquet.Types.FixedLenByteArray:
		return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
			out := make([]decimal128.Num, len(v.offs)-1)
			for i := range out {
				d, err := bigEndianDecimal(v.data[v.offs[i]:v.offs[i+1]])
				if err == nil {
					d, err = fit(d)
				}
				if err != nil {
					return nil, err
				}
				out[i] = d
			}
			return fixedArray(out, valid, t, arrow.Decimal128Traits.CastToBytes), nil
		}
	}
	return nil
}

func decimalOf(fit func(decimal128.Num) (decimal128.Num, error), get func(*vec) []decimal128.Num) convertFunc {
	return func(v *vec, valid *validity, t arrow.DataType, _ julian) (arrow.ArrayData, error) {
		out := get(v)
		for i := range out {
			var err error
			if out[i], err = fit(out[i]); err != nil {
				return nil, err
			}
		}
		return fixedArray(out, valid, t, arrow.Decimal128Traits.CastToBytes), nil
	}
}

// fitter brings a stored decimal to the table's scale and checks its precision.
func fitter(t *arrow.Decimal128Type, l pq.DecimalLogicalType) func(decimal128.Num) (decimal128.Num, error) {
	up := t.Scale - l.Scale()
	factor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(up)), nil)
	limit := decimal128.GetScaleMultiplier(int(t.Precision))
	return func(v decimal128.Num) (decimal128.Num, error) {
		if up > 0 {
			b := new(big.Int).Mul(v.BigInt(), factor)
			if b.BitLen() > 127 {
				return v, errPrecision(t)
			}
			v = decimal128.FromBigInt(b)
		}
		if !v.Less(limit) || !limit.Negate().Less(v) {
			return v, errPrecision(t)
		}
		return v, nil
	}
}

func errPrecision(t *arrow.Decimal128Type) error {
	return fmt.Errorf("a value has more digits than %s holds", t)
}

// bigEndianDecimal reads two's complement, most significant byte first.
func bigEndianDecimal(b []byte) (decimal128.Num, error) {
	for len(b) > 16 { // sign bytes only may be dropped
		if b[0] != 0 && b[0] != 0xff || (b[0] == 0xff) != (b[1]&0x80 != 0) {
			return decimal128.Num{}, errors.New("a decimal has more than 16 bytes")
		}
		b = b[1:]
	}
	if len(b) == 0 {
		return decimal128.Num{}, errors.New("a decimal has no bytes")
	}
	var full [16]byte
	if b[0]&0x80 != 0 {
		for i := range full {
			full[i] = 0xff
		}
	}
	copy(full[16-len(b):], b)
	return decimal128.New(int64(binary.BigEndian.Uint64(full[:8])), binary.BigEndian.Uint64(full[8:])), nil
}
