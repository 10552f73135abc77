package deltalog

import (
	"context"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// rebuildStats gives adds that have no statistics as text those of the struct form
// (PROTOCOL.md "Per-file Statistics"; a table may have only these). The text is what
// a writer would have put: times cut to milliseconds towards the past, which readers
// widen; a value that the text cannot hold exactly is left out, which is "unknown" (I4).
func (c *checkpointReader) rebuildStats(ctx context.Context, fr *pqarrow.FileReader, leaves []int, rg int, bare []bareAdd) error {
	return eachBatch(ctx, fr, leaves, rg, func(first int64, rec arrow.RecordBatch) error {
		add, ok := rec.Column(0).(*array.Struct)
		if !ok {
			return nil
		}
		parsed := childStruct(add, "stats_parsed")
		if parsed == nil {
			return nil
		}
		for len(bare) > 0 && bare[0].row < first+rec.NumRows() {
			i := int(bare[0].row - first)
			if parsed.IsValid(i) {
				bare[0].add.Stats = string(appendStats(nil, parsed, i))
			}
			bare = bare[1:]
		}
		return nil
	})
}

// appendStats appends the JSON of a row of stats_parsed.
func appendStats(dst []byte, parsed *array.Struct, i int) []byte {
	dst = append(dst, '{')
	start := len(dst)
	member := func(name string, value func([]byte) ([]byte, bool)) {
		mark := len(dst)
		if mark > start {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendQuote(dst, name), ':')
		out, ok := value(dst)
		if !ok {
			out = dst[:mark]
		}
		dst = out
	}
	if n, ok := intAt(child(parsed, "numRecords"), i); ok {
		member("numRecords", func(b []byte) ([]byte, bool) { return strconv.AppendInt(b, n, 10), true })
	}
	if t := child(parsed, "tightBounds"); t != nil && t.IsValid(i) {
		member("tightBounds", func(b []byte) ([]byte, bool) { return strconv.AppendBool(b, boolAt(t, i, true)), true })
	}
	for _, name := range []string{"minValues", "maxValues", "nullCount"} {
		if s := childStruct(parsed, name); s != nil && s.IsValid(i) {
			member(name, func(b []byte) ([]byte, bool) { return appendStatStruct(b, s, i) })
		}
	}
	return append(dst, '}')
}

// appendStatStruct appends a struct of statistics without the fields that have no
// value; false if none has.
func appendStatStruct(dst []byte, s *array.Struct, i int) ([]byte, bool) {
	dst = append(dst, '{')
	start := len(dst)
	for f, field := range s.DataType().(*arrow.StructType).Fields() {
		a := s.Field(f)
		if a.IsNull(i) {
			continue
		}
		mark := len(dst)
		if mark > start {
			dst = append(dst, ',')
		}
		out, err := jsontext.AppendQuote(dst, field.Name)
		if err == nil {
			out = append(out, ':')
			var ok bool
			if out, ok = appendStat(out, a, i); ok {
				dst = out
				continue
			}
		}
		dst = dst[:mark]
	}
	return append(dst, '}'), len(dst) > start
}

// appendStat appends a value in the JSON form of statistics; false if it has none.
func appendStat(dst []byte, a arrow.Array, i int) ([]byte, bool) {
	switch a := a.(type) {
	case *array.Struct:
		return appendStatStruct(dst, a, i)
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64:
		return strconv.AppendInt(dst, longAt(a, i), 10), true
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32), true
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64), true
	case *array.Decimal128:
		return append(dst, a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)...), true
	case *array.String, *array.LargeString:
		s, _ := stringAt(a, i)
		if !utf8.ValidString(s) {
			return dst, false
		}
		out, err := jsontext.AppendQuote(dst, s)
		return out, err == nil
	case *array.Date32:
		return append(schema.AppendDate(append(dst, '"'), int64(a.Value(i))), '"'), true
	case *array.Timestamp:
		return appendTimestamp(dst, a, i)
	}
	// Booleans and binaries have no bounds; other types are unknown.
	return dst, false
}

func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	return jsontext.AppendFloat(dst, v, bits)
}

// appendTimestamp cuts to milliseconds, as statistics do.
func appendTimestamp(dst []byte, a *array.Timestamp, i int) ([]byte, bool) {
	t := a.DataType().(*arrow.TimestampType)
	v := int64(a.Value(i))
	switch t.Unit {
	case arrow.Millisecond:
		if v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
			return dst, false
		}
		v *= 1000
	case arrow.Microsecond:
	case arrow.Second, arrow.Nanosecond:
		// NB: nanoseconds come from INT96, which may have overflowed: unknown.
		return dst, false
	}
	dst = schema.AppendTimestamp(append(dst, '"'), v, 'T', 3)
	if t.TimeZone != "" {
		dst = append(dst, 'Z')
	}
	return append(dst, '"'), true
}
