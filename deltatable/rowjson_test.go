package deltatable_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/go-json-experiment/json/jsontext"
)

// The row encoding of the shared tables' expected files, one object a row: as
// small as a test needs it.

func encodeRows(rec arrow.RecordBatch) []string {
	rows := make([]string, rec.NumRows())
	for i := range rows {
		var b strings.Builder
		b.WriteByte('{')
		for c, f := range rec.Schema().Fields() {
			if c > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(f.Name) + ":")
			encodeValue(&b, rec.Column(c), i)
		}
		b.WriteByte('}')
		rows[i] = b.String()
	}
	return rows
}

func quote(s string) string {
	q, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(err)
	}
	return string(q)
}

func encodeFloat(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return `"NaN"`
	case math.IsInf(v, 0):
		return map[bool]string{true: `"Infinity"`, false: `"-Infinity"`}[v > 0]
	}
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func encodeValue(b *strings.Builder, arr arrow.Array, i int) {
	if arr.IsNull(i) || arr.DataType().ID() == arrow.NULL {
		b.WriteString("null")
		return
	}
	switch a := arr.(type) {
	case *array.Boolean:
		fmt.Fprint(b, a.Value(i))
	case *array.Int8:
		fmt.Fprint(b, a.Value(i))
	case *array.Int16:
		fmt.Fprint(b, a.Value(i))
	case *array.Int32:
		fmt.Fprint(b, a.Value(i))
	case *array.Int64:
		fmt.Fprint(b, a.Value(i))
	case *array.Float32:
		b.WriteString(encodeFloat(float64(a.Value(i)), 32))
	case *array.Float64:
		b.WriteString(encodeFloat(a.Value(i), 64))
	case *array.Decimal128:
		b.WriteString(quote(a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)))
	case *array.String:
		b.WriteString(quote(a.Value(i)))
	case *array.Binary:
		b.WriteString(quote(hex.EncodeToString(a.Value(i))))
	case *array.Date32:
		b.WriteString(quote(a.Value(i).ToTime().Format("2006-01-02")))
	case *array.Timestamp:
		form := "2006-01-02T15:04:05.000000"
		if a.DataType().(*arrow.TimestampType).TimeZone != "" {
			form += "Z"
		}
		b.WriteString(quote(time.UnixMicro(int64(a.Value(i))).UTC().Format(form)))
	case *array.Struct:
		b.WriteByte('{')
		for c, f := range a.DataType().(*arrow.StructType).Fields() {
			if c > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(f.Name) + ":")
			encodeValue(b, a.Field(c), i)
		}
		b.WriteByte('}')
	case *array.Map:
		from, to := a.ValueOffsets(i)
		b.WriteString(`{"$map":[`)
		for j := from; j < to; j++ {
			if j > from {
				b.WriteByte(',')
			}
			b.WriteByte('[')
			encodeValue(b, a.Keys(), int(j))
			b.WriteByte(',')
			encodeValue(b, a.Items(), int(j))
			b.WriteByte(']')
		}
		b.WriteString(`]}`)
	case *array.List:
		from, to := a.ValueOffsets(i)
		b.WriteByte('[')
		for j := from; j < to; j++ {
			if j > from {
				b.WriteByte(',')
			}
			encodeValue(b, a.ListValues(), int(j))
		}
		b.WriteByte(']')
	default:
		panic(fmt.Sprintf("no row encoding for %s", arr.DataType()))
	}
}

// canonicalRow writes a row's JSON so that equal values are equal texts:
// floats by value, map entries sorted.
func canonicalRow(text string) (string, error) {
	dec := jsontext.NewDecoder(strings.NewReader(text))
	v, err := canonicalValue(dec)
	if err != nil {
		return "", fmt.Errorf("row %s: %w", text, err)
	}
	return v, nil
}

func canonicalValue(dec *jsontext.Decoder) (string, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return "", err
	}
	switch tok.Kind() { // the rest are literals
	case '0':
		s := tok.String()
		if strings.ContainsAny(s, ".eE") {
			f, err := strconv.ParseFloat(s, 64)
			return strconv.FormatFloat(f, 'e', -1, 64), err
		}
		return s, nil
	case '"':
		return quote(tok.String()), nil
	case '[':
		parts, err := canonicalList(dec)
		return "[" + strings.Join(parts, ",") + "]", err
	case '{':
		return canonicalObject(dec)
	}
	return tok.String(), nil
}

func canonicalList(dec *jsontext.Decoder) (parts []string, err error) {
	for dec.PeekKind() != ']' {
		v, err := canonicalValue(dec)
		if err != nil {
			return nil, err
		}
		parts = append(parts, v)
	}
	_, err = dec.ReadToken()
	return parts, err
}

func canonicalObject(dec *jsontext.Decoder) (string, error) {
	var b bytes.Buffer
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return "", err
		}
		key := name.String()
		fmt.Fprintf(&b, "%s:", quote(key))
		if key != "$map" {
			v, err := canonicalValue(dec)
			if err != nil {
				return "", err
			}
			b.WriteString(v + ",")
			continue
		}
		if _, err := dec.ReadToken(); err != nil {
			return "", err
		}
		parts, err := canonicalList(dec)
		if err != nil {
			return "", err
		}
		slices.Sort(parts)
		b.WriteString(strings.Join(parts, ";"))
	}
	_, err := dec.ReadToken()
	return "{" + b.String() + "}", err
}
