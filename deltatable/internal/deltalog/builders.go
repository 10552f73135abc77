package deltalog

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// The functions here append one value to a builder whose type the caller knows; a
// wrong type is a bug of ours.

func appendText(b array.Builder, s string) { b.(*array.StringBuilder).Append(s) }
func appendInt(b array.Builder, v int64)   { b.(*array.Int64Builder).Append(v) }
func appendInt32(b array.Builder, v int32) { b.(*array.Int32Builder).Append(v) }
func appendBool(b array.Builder, v bool)   { b.(*array.BooleanBuilder).Append(v) }

func appendNonEmpty(b array.Builder, s string) {
	if s == "" {
		b.AppendNull()
		return
	}
	appendText(b, s)
}

func appendOptText(b array.Builder, s *string) {
	if s == nil {
		b.AppendNull()
		return
	}
	appendText(b, *s)
}

func appendOptInt(b array.Builder, v *int64) {
	if v == nil {
		b.AppendNull()
		return
	}
	appendInt(b, *v)
}

func appendStrings(b array.Builder, m map[string]string, set bool) {
	if !set {
		b.AppendNull()
		return
	}
	mb := b.(*array.MapBuilder)
	mb.Append(true)
	for _, k := range sortedKeys(m) {
		appendText(mb.KeyBuilder(), k)
		appendText(mb.ItemBuilder(), m[k])
	}
}

func appendValues(b array.Builder, m map[string]*string, set bool) {
	if !set {
		b.AppendNull()
		return
	}
	mb := b.(*array.MapBuilder)
	mb.Append(true)
	if len(m) == 0 {
		return
	}
	for _, k := range sortedKeys(m) {
		appendText(mb.KeyBuilder(), k)
		appendOptText(mb.ItemBuilder(), m[k])
	}
}

func appendList(b array.Builder, list []string, set bool) {
	if !set {
		b.AppendNull()
		return
	}
	lb := b.(*array.ListBuilder)
	lb.Append(true)
	for _, s := range list {
		appendText(lb.ValueBuilder(), s)
	}
}

func appendVector(b array.Builder, d *action.DeletionVector) {
	if d == nil {
		b.AppendNull()
		return
	}
	sb := b.(*array.StructBuilder)
	sb.Append(true)
	appendText(sb.FieldBuilder(0), d.StorageType)
	appendText(sb.FieldBuilder(1), d.PathOrInlineDV)
	if d.Offset != nil {
		appendInt32(sb.FieldBuilder(2), *d.Offset)
	} else {
		sb.FieldBuilder(2).AppendNull()
	}
	appendInt32(sb.FieldBuilder(3), d.SizeInBytes)
	appendInt(sb.FieldBuilder(4), d.Cardinality)
}

// errUntyped says that a partition value is not of its column's type.
var errUntyped = errors.New("value is not of the column's type")

// appendPartition appends a partition value; nil and "" are NULL for every type
// (protocol notes 1.7). false: the text is not of the type.
func appendPartition(b array.Builder, v *string) bool {
	if v == nil || *v == "" {
		b.AppendNull()
		return true
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		switch {
		case strings.EqualFold(*v, "true"):
			b.Append(true)
		case strings.EqualFold(*v, "false"):
			b.Append(false)
		default:
			return false
		}
		return true
	case *array.BinaryBuilder:
		b.AppendString(*v)
		return true
	}
	return appendTyped(b, *v)
}

// appendTyped appends the value of a text as partition values and statistics have it,
// exactly (I7). false: it is not of the builder's type, or not exactly, and nothing
// was appended.
func appendTyped(b array.Builder, text string) bool {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(text)
	case *array.Int64Builder:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false
		}
		b.Append(v)
	case *array.Int32Builder:
		v, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return false
		}
		b.Append(int32(v))
	case *array.Int16Builder:
		v, err := strconv.ParseInt(text, 10, 16)
		if err != nil {
			return false
		}
		b.Append(int16(v))
	case *array.Int8Builder:
		v, err := strconv.ParseInt(text, 10, 8)
		if err != nil {
			return false
		}
		b.Append(int8(v))
	case *array.Float64Builder:
		v, err := schema.ParseFloat(text, 64)
		if err != nil {
			return false
		}
		b.Append(v)
	case *array.Float32Builder:
		v, err := schema.ParseFloat(text, 32)
		if err != nil {
			return false
		}
		b.Append(float32(v))
	default:
		return appendExact(b, text)
	}
	return true
}

// appendExact is appendTyped for decimals, dates and timestamps.
func appendExact(b array.Builder, text string) bool {
	switch b := b.(type) {
	case *array.Decimal128Builder:
		t := b.Type().(*arrow.Decimal128Type)
		r, err := schema.ParseDecimal(text, t.Scale)
		if err != nil || !r.Exact || r.Floor.BitLen() > 127 {
			return false
		}
		v := decimal128.FromBigInt(r.Floor)
		if !v.FitsInPrecision(t.Precision) {
			return false
		}
		b.Append(v)
	case *array.Date32Builder:
		v, err := schema.ParseDate(text)
		if err != nil {
			return false
		}
		b.Append(arrow.Date32(v))
	case *array.TimestampBuilder:
		v, err := schema.ParseTimestamp(text)
		ntz := b.Type().(*arrow.TimestampType).TimeZone == ""
		if err != nil || v.Cut || ntz && v.Zoned || v.Micros == math.MinInt64 {
			return false
		}
		b.Append(arrow.Timestamp(v.Micros)) // without a zone: UTC
	default:
		return false
	}
	return true
}
