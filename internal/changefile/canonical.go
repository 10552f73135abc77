package changefile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// encoder appends canonical texts of one array's values. Two texts are equal
// exactly when the values are equal as payloads are (merge-semantics 1): NaN
// equals NaN, -0.0 equals 0.0, decimals by value whatever their scale, maps as
// sets. No text is a prefix of another, and the first byte tells the kind:
//
//	b boolean (1 byte)   i any integer (8 bytes, big end first)
//	f float (4 bytes)    d double (8 bytes)
//	n decimal            scale without trailing zeros (uvarint), unscaled (16 bytes)
//	s string, x binary   length (uvarint), bytes
//	D date (4 bytes)     t timestamp, u timestamp_ntz: microseconds (8 bytes)
//	S struct             as a row, see cells
//	L array              length (uvarint), then for each element _ for NULL or its text
//	M map                length (uvarint), then key and value texts by ascending key text
//
// Integers of all widths have one form, so that a column that was widened
// later still gives the digest of the day.
type encoder struct {
	arr   arrow.Array
	value func(dst []byte, i int) []byte // of a value that is not NULL
}

// newEncoder compiles the encoder of an array of a canonical type.
func newEncoder(arr arrow.Array) encoder {
	e := encoder{arr: arr}
	switch a := arr.(type) {
	case *array.Null:
		e.value = func(dst []byte, _ int) []byte { return dst } // every value is NULL
	case *array.Boolean:
		e.value = func(dst []byte, i int) []byte {
			if a.Value(i) {
				return append(dst, 'b', 1)
			}
			return append(dst, 'b', 0)
		}
	case *array.Int8:
		e.value = func(dst []byte, i int) []byte { return fixed64(dst, 'i', uint64(a.Value(i))) }
	case *array.Int16:
		e.value = func(dst []byte, i int) []byte { return fixed64(dst, 'i', uint64(a.Value(i))) }
	case *array.Int32:
		e.value = func(dst []byte, i int) []byte { return fixed64(dst, 'i', uint64(a.Value(i))) }
	case *array.Int64:
		e.value = func(dst []byte, i int) []byte { return fixed64(dst, 'i', uint64(a.Value(i))) }
	case *array.Float32:
		e.value = func(dst []byte, i int) []byte { return appendFloat32(dst, a.Value(i)) }
	case *array.Float64:
		e.value = func(dst []byte, i int) []byte { return appendFloat64(dst, a.Value(i)) }
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		e.value = func(dst []byte, i int) []byte { return appendDecimal(dst, a.Value(i), scale) }
	case *array.String:
		e.value = func(dst []byte, i int) []byte { return appendText(dst, 's', a.Value(i)) }
	case *array.Binary:
		e.value = func(dst []byte, i int) []byte { return appendText(dst, 'x', a.Value(i)) }
	case *array.Date32:
		e.value = func(dst []byte, i int) []byte {
			return binary.BigEndian.AppendUint32(append(dst, 'D'), uint32(a.Value(i)))
		}
	case *array.Timestamp:
		tag := byte('u')
		if a.DataType().(*arrow.TimestampType).TimeZone != "" {
			tag = 't'
		}
		e.value = func(dst []byte, i int) []byte { return fixed64(dst, tag, uint64(a.Value(i))) }
	default:
		e.value = nested(arr)
	}
	return e
}

// nested is the value function of an array whose values have parts.
func nested(arr arrow.Array) func(dst []byte, i int) []byte {
	switch a := arr.(type) {
	case *array.Struct:
		c := makeCells(a.DataType().(*arrow.StructType).Fields(), a.Field)
		return func(dst []byte, i int) []byte { return c.append(append(dst, 'S'), i) }
	case *array.Map:
		k, v := newEncoder(a.Keys()), newEncoder(a.Items())
		return func(dst []byte, i int) []byte { return appendMap(dst, a, i, k, v) }
	case *array.List:
		el := newEncoder(a.ListValues())
		return func(dst []byte, i int) []byte {
			from, to := a.ValueOffsets(i)
			dst = binary.AppendUvarint(append(dst, 'L'), uint64(to-from))
			for j := int(from); j < int(to); j++ {
				dst = el.nullable(dst, j)
			}
			return dst
		}
	default:
		panic(fmt.Sprintf("internal error: changefile made an array of type %s, which is not canonical", arr.DataType()))
	}
}

// isNull is true of every value of a void array, of which arrow-go's IsNull is
// not.
func (e encoder) isNull(i int) bool { return e.arr.IsNull(i) || e.arr.DataType().ID() == arrow.NULL }

func (e encoder) nullable(dst []byte, i int) []byte {
	if e.isNull(i) {
		return append(dst, '_')
	}
	return e.value(dst, i)
}

func fixed64(dst []byte, tag byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tag), v)
}

func appendText[T string | []byte](dst []byte, tag byte, v T) []byte {
	return append(binary.AppendUvarint(append(dst, tag), uint64(len(v))), v...)
}

func appendFloat32(dst []byte, f float32) []byte {
	v := math.Float32bits(f)
	if v<<1 == 0 {
		v = 0 // -0.0
	} else if v<<1 > 0xff<<24 {
		v = 0x7fc00000 // NaN
	}
	return binary.BigEndian.AppendUint32(append(dst, 'f'), v)
}

func appendFloat64(dst []byte, f float64) []byte {
	v := math.Float64bits(f)
	if v<<1 == 0 {
		v = 0 // -0.0
	} else if v<<1 > 0x7ff<<53 {
		v = 0x7ff8 << 48 // NaN
	}
	return fixed64(dst, 'd', v)
}

func appendDecimal(dst []byte, v decimal128.Num, scale int32) []byte {
	ten := decimal128.FromI64(10)
	if v == (decimal128.Num{}) {
		scale = 0
	}
	for scale > 0 {
		q, r := v.Div(ten)
		if r != (decimal128.Num{}) {
			break
		}
		v, scale = q, scale-1
	}
	dst = binary.AppendUvarint(append(dst, 'n'), uint64(scale))
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.HighBits()))
	return binary.BigEndian.AppendUint64(dst, v.LowBits())
}

func appendMap(dst []byte, a *array.Map, i int, k, v encoder) []byte {
	from, to := a.ValueOffsets(i)
	dst = binary.AppendUvarint(append(dst, 'M'), uint64(to-from))
	if to-from == 1 {
		return v.nullable(k.nullable(dst, int(from)), int(from))
	}
	entries := make([][]byte, 0, to-from)
	for j := int(from); j < int(to); j++ {
		entries = append(entries, v.nullable(k.nullable(nil, j), j))
	}
	slices.SortFunc(entries, bytes.Compare)
	for _, e := range entries {
		dst = append(dst, e...)
	}
	return dst
}

// duplicateMapKey finds a map of rec that has one key twice. row is -1 if there
// is none; column is the map's place, key the key's text where it is simple.
func duplicateMapKey(rec arrow.RecordBatch) (row int, column, key string) {
	row = -1
	for c, f := range rec.Schema().Fields() {
		if !hasMap(f.Type) {
			continue
		}
		if i, col, k := findDuplicate(rec.Column(c), f.Name, func(i int) int { return i }); i >= 0 && (row < 0 || i < row) {
			row, column, key = i, col, k
		}
	}
	return row, column, key
}

func hasMap(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.MapType:
		return true
	case *arrow.ListType:
		return hasMap(t.Elem())
	case *arrow.StructType:
		return slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return hasMap(f.Type) })
	}
	return false
}

// findDuplicate looks through arr, whose value i belongs to row rowOf(i).
func findDuplicate(arr arrow.Array, column string, rowOf func(int) int) (int, string, string) {
	if !hasMap(arr.DataType()) {
		return -1, "", ""
	}
	switch a := arr.(type) {
	case *array.Struct:
		for k, f := range a.DataType().(*arrow.StructType).Fields() {
			if i, c, v := findDuplicate(a.Field(k), column+"."+f.Name, rowOf); i >= 0 {
				return i, c, v
			}
		}
	case *array.Map:
		keys := newEncoder(a.Keys())
		for i := range a.Len() {
			if a.IsNull(i) {
				continue
			}
			from, to := a.ValueOffsets(i)
			if to-from < 2 {
				continue
			}
			seen := make(map[string]bool, to-from)
			for j := int(from); j < int(to); j++ {
				text := string(keys.nullable(nil, j))
				if seen[text] {
					return rowOf(i), column, excerpt([]byte(a.Keys().ValueStr(j)))
				}
				seen[text] = true
			}
		}
		down := func(j int) int { return rowOf(owner(a, j)) }
		if i, c, v := findDuplicate(a.Keys(), column+".key", down); i >= 0 {
			return i, c, v
		}
		return findDuplicate(a.Items(), column+".value", down)
	case *array.List:
		return findDuplicate(a.ListValues(), column+".element", func(j int) int { return rowOf(owner(a, j)) })
	}
	return -1, "", ""
}

// owner is the list whose element j is.
func owner(a array.ListLike, j int) int {
	lo, hi := 0, a.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		if _, to := a.ValueOffsets(mid); int(to) > j {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
