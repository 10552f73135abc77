package rows

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// AppendForm appends a form of row i of a to dst. Forms of rows of one type are
// equal exactly where [Equal] says that the rows are; they delimit themselves, so
// those of several columns can be put one after the other. They are not kept: a
// later version may have others.
func AppendForm(dst []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch x := a.(type) {
	case *array.Null:
		return dst
	case *array.Boolean:
		if x.Value(i) {
			return append(dst, 1)
		}
		return append(dst, 0)
	case *array.Int8:
		return append(dst, byte(x.Value(i)))
	case *array.Int16:
		return binary.BigEndian.AppendUint16(dst, uint16(x.Value(i)))
	case *array.Int32:
		return binary.BigEndian.AppendUint32(dst, uint32(x.Value(i)))
	case *array.Int64:
		return binary.BigEndian.AppendUint64(dst, uint64(x.Value(i)))
	case *array.Float32:
		return appendFloat(dst, float64(x.Value(i)))
	case *array.Float64:
		return appendFloat(dst, x.Value(i))
	case *array.Decimal128:
		dst = binary.BigEndian.AppendUint64(dst, uint64(x.Value(i).HighBits()))
		return binary.BigEndian.AppendUint64(dst, x.Value(i).LowBits())
	case *array.Date32:
		return binary.BigEndian.AppendUint32(dst, uint32(x.Value(i)))
	case *array.Timestamp:
		return binary.BigEndian.AppendUint64(dst, uint64(x.Value(i)))
	case *array.String:
		return appendBytes(dst, []byte(x.Value(i)))
	case *array.Binary:
		return appendBytes(dst, x.Value(i))
	case *array.Struct:
		for f := range x.NumField() {
			dst = AppendForm(dst, x.Field(f), i)
		}
		return dst
	case *array.Map:
		return appendEntries(dst, x, i)
	case *array.List:
		start, end := x.ValueOffsets(i)
		dst = binary.AppendUvarint(dst, uint64(end-start))
		for k := start; k < end; k++ {
			dst = AppendForm(dst, x.ListValues(), int(k))
		}
		return dst
	default:
		panic(fmt.Sprintf("rows: internal error: no form of %s", a.DataType()))
	}
}

// appendFloat has one NaN and one zero.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		f = math.NaN()
	case f == 0:
		f = 0 // also -0.0
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(f))
}

func appendBytes(dst, value []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}

// appendEntries has the entries of a map sorted, as their order does not count.
func appendEntries(dst []byte, m *array.Map, i int) []byte {
	start, end := m.ValueOffsets(i)
	entries := make([][]byte, 0, end-start)
	for k := start; k < end; k++ {
		entries = append(entries, AppendForm(AppendForm(nil, m.Keys(), int(k)), m.Items(), int(k)))
	}
	slices.SortFunc(entries, bytes.Compare)
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for _, e := range entries {
		dst = append(dst, e...)
	}
	return dst
}
