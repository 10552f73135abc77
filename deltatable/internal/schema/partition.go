package schema

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// PartitionString gives the text of row i of arr, which is of the canonical type
// t, as a value of partitionValues (PROTOCOL.md "Partition Value Serialization").
// nil stands for NULL, which the empty string and empty binary become too. Equal
// values give equal texts: NaN is one, -0.0 is 0.0. Timestamps are UTC with Z and
// six fraction digits. Binary that is not UTF-8 cannot be spelled and is an error.
func PartitionString(t arrow.DataType, arr arrow.Array, i int) (*string, error) {
	if t.ID() == arrow.NULL || arr.DataType().ID() == arrow.NULL || arr.IsNull(i) {
		return nil, nil
	}
	if !arrow.TypeEqual(t, arr.DataType()) {
		return nil, fmt.Errorf("partition value: the column is of type %s and the data of type %s", t, arr.DataType())
	}
	var b []byte
	switch a := arr.(type) {
	case *array.Boolean:
		b = strconv.AppendBool(b, a.Value(i))
	case *array.Int8:
		b = strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int16:
		b = strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int32:
		b = strconv.AppendInt(b, int64(a.Value(i)), 10)
	case *array.Int64:
		b = strconv.AppendInt(b, a.Value(i), 10)
	case *array.Float32:
		b = AppendFloat(b, float64(a.Value(i))+0, 32) // +0 makes -0.0 the same as 0.0
	case *array.Float64:
		b = AppendFloat(b, a.Value(i)+0, 64)
	case *array.Decimal128:
		b = AppendDecimal(b, a.Value(i), t.(*arrow.Decimal128Type).Scale)
	case *array.String:
		b = append(b, a.Value(i)...)
	case *array.Binary:
		b = append(b, a.Value(i)...)
	case *array.Date32:
		b = AppendDate(b, int64(a.Value(i)))
	case *array.Timestamp:
		b = appendPartitionTimestamp(b, int64(a.Value(i)), t.(*arrow.TimestampType).TimeZone != "")
	default:
		return nil, &UnsupportedTypeError{Column: "(partition)", Type: t.String(), Reason: "tables cannot be partitioned by it"}
	}
	if len(b) == 0 {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("partition value %.40q: it is not UTF-8 and cannot be written to the log", b)
	}
	s := string(b)
	return &s, nil
}

func appendPartitionTimestamp(b []byte, micros int64, zoned bool) []byte {
	if zoned {
		return append(AppendTimestamp(b, micros, 'T', 6), 'Z')
	}
	if micros%microsPerSecond == 0 {
		return AppendTimestamp(b, micros, ' ', 0)
	}
	return AppendTimestamp(b, micros, ' ', 6)
}

// PartitionArray gives a column of n rows that all have the value v, read as the
// canonical type t. nil and "" are NULL. It reads every spelling of the protocol
// notes 1.7; a timestamp without a zone is taken as UTC, wherever this runs. A
// value that does not fit its type is an error.
func PartitionArray(t arrow.DataType, v *string, n int) (arrow.Array, error) {
	if v == nil || *v == "" || t.ID() == arrow.NULL {
		return array.MakeArrayOfNull(memory.DefaultAllocator, t, n), nil
	}
	arr, err := partitionArray(t, *v, n)
	if err != nil {
		return nil, fmt.Errorf("partition value %q as %s: %w", *v, t, err)
	}
	return arr, nil
}

func partitionArray(t arrow.DataType, s string, n int) (arrow.Array, error) {
	switch t := t.(type) {
	case *arrow.BooleanType:
		v, err := parseBool(s)
		return fill(array.NewBooleanBuilder(memory.DefaultAllocator), v, n, err)
	case *arrow.Int8Type:
		v, err := parseInt(s, 8)
		return fill(array.NewInt8Builder(memory.DefaultAllocator), int8(v), n, err)
	case *arrow.Int16Type:
		v, err := parseInt(s, 16)
		return fill(array.NewInt16Builder(memory.DefaultAllocator), int16(v), n, err)
	case *arrow.Int32Type:
		v, err := parseInt(s, 32)
		return fill(array.NewInt32Builder(memory.DefaultAllocator), int32(v), n, err)
	case *arrow.Int64Type:
		v, err := parseInt(s, 64)
		return fill(array.NewInt64Builder(memory.DefaultAllocator), v, n, err)
	case *arrow.Float32Type:
		v, err := ParseFloat(s, 32)
		return fill(array.NewFloat32Builder(memory.DefaultAllocator), float32(v), n, err)
	case *arrow.Float64Type:
		v, err := ParseFloat(s, 64)
		return fill(array.NewFloat64Builder(memory.DefaultAllocator), v, n, err)
	case *arrow.Decimal128Type:
		v, err := decimalOf(s, t)
		return fill(array.NewDecimal128Builder(memory.DefaultAllocator, t), v, n, err)
	case *arrow.StringType:
		return fill(array.NewStringBuilder(memory.DefaultAllocator), s, n, nil)
	case *arrow.BinaryType:
		return fill(array.NewBinaryBuilder(memory.DefaultAllocator, t), []byte(s), n, nil)
	case *arrow.Date32Type:
		v, err := ParseDate(strings.TrimSpace(s))
		return fill(array.NewDate32Builder(memory.DefaultAllocator), arrow.Date32(v), n, err)
	case *arrow.TimestampType:
		v, err := partitionInstant(s, t.TimeZone != "")
		return fill(array.NewTimestampBuilder(memory.DefaultAllocator, t), arrow.Timestamp(v), n, err)
	}
	return nil, &UnsupportedTypeError{Column: "(partition)", Type: t.String(), Reason: "tables cannot be partitioned by it"}
}

type builder[T any] interface {
	array.Builder
	Append(T)
}

func fill[T any](b builder[T], v T, n int, err error) (arrow.Array, error) {
	defer b.Release()
	if err != nil {
		return nil, err
	}
	b.Reserve(n)
	for range n {
		b.Append(v)
	}
	return b.NewArray(), nil
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("neither true nor false")
}

func parseInt(s string, bits int) (int64, error) {
	v, err := strconv.ParseInt(strings.TrimSpace(s), 10, bits)
	if err != nil {
		return 0, fmt.Errorf("not an integer of %d bits", bits)
	}
	return v, nil
}

func decimalOf(s string, t *arrow.Decimal128Type) (decimal128.Num, error) {
	r, err := ParseDecimal(s, t.Scale)
	if err != nil {
		return decimal128.Num{}, err
	}
	if !r.Exact {
		return decimal128.Num{}, fmt.Errorf("more than %d fraction digits", t.Scale)
	}
	if r.Floor.BitLen() > 127 {
		return decimal128.Num{}, fmt.Errorf("more than %d digits", t.Precision)
	}
	v := decimal128.FromBigInt(r.Floor)
	if !v.FitsInPrecision(t.Precision) {
		return decimal128.Num{}, fmt.Errorf("more than %d digits", t.Precision)
	}
	return v, nil
}

func partitionInstant(s string, zoned bool) (int64, error) {
	at, err := ParseTimestamp(strings.TrimSpace(s))
	if err != nil {
		return 0, err
	}
	if at.Cut {
		return 0, fmt.Errorf("more than six fraction digits")
	}
	if at.Zoned && !zoned && !at.UTC {
		return 0, fmt.Errorf("a zone in a value of a type that has none")
	}
	return at.Micros, nil
}
