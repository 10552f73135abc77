// Package ordered turns values into bytes that sort as SQL sorts the values.
//
// For two values a and b of one type, bytes.Compare of their forms is the order
// of a and b, and the forms are equal exactly when the values are: strings and
// binaries by their bytes, NaN equal to itself and greater than all, -0.0 equal
// to 0.0, false before true, NULL before everything. Forms delimit themselves,
// so those of several columns can be put one after the other and still sort
// column by column, and no two different rows give the same bytes. They serve as
// hash-table keys, as statistics ([Bounds]) and as the canonical row of package
// integrity.
//
// # Format
//
//	NULL                     00
//	any other value          01, then:
//	boolean                  one byte, 00 or 01
//	integers, date,
//	timestamps               big-endian two's complement, sign bit inverted
//	float, double            big-endian IEEE 754 of the value (-0.0 as 0.0, one NaN);
//	                         all bits inverted if negative, else the sign bit
//	decimal                  16 bytes big-endian two's complement of the unscaled
//	                         value, sign bit inverted
//	string, binary           the bytes, each 00 as 00 FF; then 00 01
//
// # Caveats
//
// Forms of different types (int and bigint, or decimals of different scale) do
// not compare: convert first. The forms are persistent through the table digest
// (merge-semantics 7): changing them changes every recorded digest.
package ordered

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

const (
	null    = 0x00
	present = 0x01
)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindInt8
	kindInt16
	kindInt32
	kindInt64
	kindFloat32
	kindFloat64
	kindDecimal
	kindBytes
	kindUnsupported
)

// Supported tells whether values of type t have an ordered form: all canonical
// atomic types, and the void type, whose every value is NULL.
func Supported(t arrow.DataType) bool { return kindOf(t) != kindUnsupported }

func kindOf(t arrow.DataType) kind {
	switch t.ID() {
	case arrow.NULL:
		return kindNull
	case arrow.BOOL:
		return kindBool
	case arrow.INT8:
		return kindInt8
	case arrow.INT16:
		return kindInt16
	case arrow.INT32, arrow.DATE32:
		return kindInt32
	case arrow.INT64, arrow.TIMESTAMP:
		return kindInt64
	case arrow.FLOAT32:
		return kindFloat32
	case arrow.FLOAT64:
		return kindFloat64
	case arrow.DECIMAL128:
		return kindDecimal
	case arrow.STRING, arrow.BINARY:
		return kindBytes
	default:
		return kindUnsupported
	}
}

// Column appends the values of one array without looking at its type for each
// row. It holds the array's buffers: it is valid as long as the array is. It is
// immutable and safe for concurrent use.
type Column struct {
	kind   kind
	nulls  []byte // validity bitmap, nil if no value is NULL
	offset int    // of row 0 in nulls, and in bools
	bools  []byte
	i8     []int8
	i16    []int16
	i32    []int32
	i64    []int64
	f32    []float32
	f64    []float64
	dec    []decimal128.Num
	ends   []int32 // string i is data[ends[i]:ends[i+1]]
	data   []byte
}

// NewColumn binds to arr. It panics if arr's type is not [Supported]: callers
// check types when they bind a schema.
func NewColumn(arr arrow.Array) Column {
	c := Column{kind: kindOf(arr.DataType()), offset: arr.Data().Offset()}
	if arr.NullN() > 0 {
		c.nulls = arr.NullBitmapBytes()
	}
	switch a := arr.(type) {
	case *array.Null:
	case *array.Boolean:
		if b := a.Data().Buffers()[1]; b != nil {
			c.bools = b.Bytes()
		}
	case *array.Int8:
		c.i8 = a.Int8Values()
	case *array.Int16:
		c.i16 = a.Int16Values()
	case *array.Int32:
		c.i32 = a.Int32Values()
	case *array.Date32:
		c.i32 = arrow.Int32Traits.CastFromBytes(arrow.Date32Traits.CastToBytes(a.Date32Values()))
	case *array.Int64:
		c.i64 = a.Int64Values()
	case *array.Timestamp:
		c.i64 = arrow.Int64Traits.CastFromBytes(arrow.TimestampTraits.CastToBytes(a.TimestampValues()))
	case *array.Float32:
		c.f32 = a.Float32Values()
	case *array.Float64:
		c.f64 = a.Float64Values()
	case *array.Decimal128:
		c.dec = a.Values()
	case *array.String:
		c.ends, c.data = stringBuffers(a.Data())
	case *array.Binary:
		c.ends, c.data = stringBuffers(a.Data())
	default:
		panic(fmt.Sprintf("ordered: internal error: no ordered form for arrays of type %s", arr.DataType()))
	}
	return c
}

func stringBuffers(d arrow.ArrayData) (ends []int32, data []byte) {
	if b := d.Buffers()[1]; b != nil && b.Len() > 0 {
		ends = arrow.Int32Traits.CastFromBytes(b.Bytes())[d.Offset():]
	}
	if b := d.Buffers()[2]; b != nil {
		data = b.Bytes()
	}
	return ends, data
}

// IsNull tells whether row i is NULL.
func (c *Column) IsNull(i int) bool {
	return c.kind == kindNull || c.nulls != nil && !bitutil.BitIsSet(c.nulls, c.offset+i)
}

// Append appends the form of row i to dst.
func (c *Column) Append(dst []byte, i int) []byte {
	if c.IsNull(i) {
		return append(dst, null)
	}
	switch c.kind {
	case kindBytes:
		return appendBytes(append(dst, present), c.data[c.ends[i]:c.ends[i+1]])
	case kindInt64:
		return appendUint64(dst, uint64(c.i64[i])^1<<63)
	case kindInt32:
		return appendUint32(dst, uint32(c.i32[i])^1<<31)
	case kindInt16:
		u := uint16(c.i16[i]) ^ 1<<15
		return append(dst, present, byte(u>>8), byte(u))
	case kindInt8:
		return append(dst, present, byte(c.i8[i])^1<<7)
	case kindBool:
		if bitutil.BitIsSet(c.bools, c.offset+i) {
			return append(dst, present, 1)
		}
		return append(dst, present, 0)
	case kindFloat64:
		return appendUint64(dst, float64Bits(c.f64[i]))
	case kindFloat32:
		return appendUint32(dst, float32Bits(c.f32[i]))
	case kindDecimal:
		d := c.dec[i]
		dst = appendUint64(dst, uint64(d.HighBits())^1<<63)
		return binary.BigEndian.AppendUint64(dst, d.LowBits())
	case kindNull, kindUnsupported: // all of the former is NULL, and none of the latter is made
	}
	panic("ordered: internal error: zero Column")
}

// Row is several columns of one batch, in order of their weight.
type Row []Column

// NewRow binds to arrs, as [NewColumn] does to each.
func NewRow(arrs ...arrow.Array) Row {
	r := make(Row, len(arrs))
	for i, a := range arrs {
		r[i] = NewColumn(a)
	}
	return r
}

// Append appends the forms of all columns at row i to dst.
func (r Row) Append(dst []byte, i int) []byte {
	for c := range r {
		dst = r[c].Append(dst, i)
	}
	return dst
}

// Append appends the form of arr's row i to dst. Use [Column] for many rows of
// one array. It panics if arr's type is not [Supported].
func Append(dst []byte, arr arrow.Array, i int) []byte {
	if _, ok := arr.(*array.Null); ok || arr.IsNull(i) {
		return append(dst, null)
	}
	switch a := arr.(type) { // the usual types of keys, without binding a Column
	case *array.String:
		return AppendString(dst, a.Value(i))
	case *array.Int64:
		return AppendInt64(dst, a.Value(i))
	}
	c := NewColumn(arr)
	return c.Append(dst, i)
}

// AppendString appends the form of a string, the same as that of row i of a
// string array which holds s.
func AppendString(dst []byte, s string) []byte { return appendBytes(append(dst, present), s) }

// AppendInt64 appends the form of a bigint, or of a timestamp in microseconds.
func AppendInt64(dst []byte, v int64) []byte { return appendUint64(dst, uint64(v)^1<<63) }

// IsNull tells whether form, one value's, is NULL's.
func IsNull(form []byte) bool { return len(form) == 1 && form[0] == null }

// appendBytes escapes 00 and ends with 00 01. Runs without a 00, which is to say
// nearly all values, are appended whole.
func appendBytes[T string | []byte](dst []byte, s T) []byte {
	from := 0
	for i := range len(s) {
		if s[i] == 0 {
			dst = append(dst, s[from:i+1]...)
			dst = append(dst, 0xFF)
			from = i + 1
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, 0x00, 0x01)
}

func appendUint64(dst []byte, u uint64) []byte {
	return append(dst, present, byte(u>>56), byte(u>>48), byte(u>>40), byte(u>>32),
		byte(u>>24), byte(u>>16), byte(u>>8), byte(u))
}

func appendUint32(dst []byte, u uint32) []byte {
	return append(dst, present, byte(u>>24), byte(u>>16), byte(u>>8), byte(u))
}

func float64Bits(f float64) uint64 {
	switch {
	case f == 0:
		return 1 << 63
	case f != f:
		return 0x7FF8_0000_0000_0000 | 1<<63
	}
	u := math.Float64bits(f)
	if u>>63 != 0 {
		return ^u
	}
	return u | 1<<63
}

func float32Bits(f float32) uint32 {
	switch {
	case f == 0:
		return 1 << 31
	case f != f:
		return 0x7FC0_0000 | 1<<31
	}
	u := math.Float32bits(f)
	if u>>31 != 0 {
		return ^u
	}
	return u | 1<<31
}
