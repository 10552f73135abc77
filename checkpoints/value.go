package checkpoints

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
)

// appendValue appends a form of one value that is equal for two values exactly where
// merge-semantics 1 calls them equal ("payload equality"): NULL equals NULL, NaN equals
// NaN, -0.0 equals 0.0, decimals by value, lists and structs deep, map entries as a set.
// Integers of all widths have one form, and so have floats, so that a widened column stays
// equal to itself. Forms delimit themselves.
func appendValue(dst []byte, arr arrow.Array, i int) []byte {
	if arr.DataType().ID() == arrow.NULL || arr.IsNull(i) {
		return append(dst, 0)
	}
	switch a := arr.(type) {
	case *array.Boolean:
		if a.Value(i) {
			return append(dst, 'b', 1)
		}
		return append(dst, 'b', 0)
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)))
	case *array.Float64:
		return appendFloat(dst, a.Value(i))
	case *array.Decimal128:
		return appendDecimal(dst, a, i)
	case *array.String:
		return appendText(append(dst, 's'), a.Value(i))
	case *array.Binary:
		return appendText(append(dst, 'x'), a.ValueString(i))
	case *array.Struct:
		dst = append(dst, '{')
		for f := range a.NumField() {
			dst = appendValue(dst, a.Field(f), i)
		}
		return append(dst, '}')
	case *array.Map: // NB: before List, which it contains
		return appendMap(dst, a, i)
	case *array.List:
		start, end := a.ValueOffsets(i)
		dst = binary.AppendUvarint(append(dst, '['), uint64(end-start))
		for j := start; j < end; j++ {
			dst = appendValue(dst, a.ListValues(), int(j))
		}
		return dst
	}
	n, ok := integer(arr, i)
	if !ok {
		panic(fmt.Sprintf("bug: no value form for type %s", arr.DataType()))
	}
	return binary.BigEndian.AppendUint64(append(dst, 'i'), uint64(n))
}

// integer reads integers, dates and timestamps, which are counts of one unit.
func integer(arr arrow.Array, i int) (int64, bool) {
	switch a := arr.(type) {
	case *array.Int8:
		return int64(a.Value(i)), true
	case *array.Int16:
		return int64(a.Value(i)), true
	case *array.Int32:
		return int64(a.Value(i)), true
	case *array.Int64:
		return a.Value(i), true
	case *array.Date32:
		return int64(a.Value(i)), true
	case *array.Timestamp:
		return int64(a.Value(i)), true
	}
	return 0, false
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendFloat(dst []byte, f float64) []byte {
	switch {
	case f == 0:
		f = 0 // -0.0 equals 0.0
	case f != f:
		f = math.NaN()
	}
	return binary.BigEndian.AppendUint64(append(dst, 'f'), math.Float64bits(f))
}

func appendDecimal(dst []byte, a *array.Decimal128, i int) []byte {
	scale := a.DataType().(*arrow.Decimal128Type).Scale
	digits := a.Value(i).BigInt().String()
	for scale > 0 && strings.HasSuffix(digits, "0") && digits != "0" {
		digits, scale = digits[:len(digits)-1], scale-1
	}
	if digits == "0" {
		scale = 0
	}
	return appendText(append(dst, 'd', byte(scale)), digits)
}

func appendMap(dst []byte, a *array.Map, i int) []byte {
	start, end := a.ValueOffsets(i)
	entries := make([][]byte, 0, end-start)
	for j := start; j < end; j++ {
		e := appendValue(nil, a.Keys(), int(j))
		entries = append(entries, appendValue(e, a.Items(), int(j)))
	}
	slices.SortFunc(entries, bytes.Compare)
	dst = binary.AppendUvarint(append(dst, 'm'), uint64(len(entries)))
	for _, e := range entries {
		dst = append(dst, e...)
	}
	return dst
}

// versionValue is one column of a source version as a plain Go value: int64, *big.Rat or
// string; nil for NULL.
func versionValue(arr arrow.Array, i int) (any, error) {
	if arr.DataType().ID() == arrow.NULL || arr.IsNull(i) {
		return nil, nil //nolint:nilnil // NULL is a value here
	}
	switch a := arr.(type) {
	case *array.String:
		return strings.Clone(a.Value(i)), nil
	case *array.Decimal128:
		return decimalRat(a.Value(i).BigInt(), a.DataType().(*arrow.Decimal128Type).Scale), nil
	}
	if n, ok := integer(arr, i); ok {
		return n, nil
	}
	return nil, fmt.Errorf("a version cannot be of type %s", deltatable.TypeName(arr.DataType()))
}

func decimalRat(unscaled *big.Int, scale int32) *big.Rat {
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(unscaled, ten)
}

// compareVersions orders two source versions, column by column from the left. Neither has
// a NULL.
func compareVersions(a, b []any) int {
	for i := range a {
		c := 0
		switch x := a[i].(type) {
		case int64:
			y := b[i].(int64)
			switch {
			case x < y:
				c = -1
			case x > y:
				c = 1
			}
		case *big.Rat:
			c = x.Cmp(b[i].(*big.Rat))
		case string:
			c = strings.Compare(x, b[i].(string))
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// versionForm is a text that is equal for equal versions only.
func versionForm(v []any) string {
	var out []byte
	for _, x := range v {
		switch x := x.(type) {
		case int64:
			out = binary.BigEndian.AppendUint64(append(out, 'i'), uint64(x))
		case *big.Rat:
			out = appendText(append(out, 'd'), x.RatString())
		case string:
			out = appendText(append(out, 's'), x)
		}
	}
	return string(out)
}

// parseVersion reads the remembered minimum in the version column's type.
func parseVersion(text string, t arrow.DataType) (any, error) {
	switch t.ID() {
	case arrow.STRING:
		return text, nil
	case arrow.DECIMAL128:
		if r, ok := new(big.Rat).SetString(text); ok {
			return r, nil
		}
		return nil, fmt.Errorf("%q is not a decimal", text)
	case arrow.DATE32:
		d, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil, err
		}
		return d.Unix() / 86400, nil
	case arrow.TIMESTAMP:
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", time.DateOnly} {
			if ts, err := time.Parse(layout, text); err == nil {
				return ts.UnixMicro(), nil
			}
		}
		return nil, fmt.Errorf("%q is not a timestamp", text)
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || !n.IsInt64() {
		return nil, fmt.Errorf("%q is not an integer", text)
	}
	return n.Int64(), nil
}

// keyText is a key as people read it.
func keyText(key []arrow.Array, i int) string {
	parts := make([]string, len(key))
	for k, arr := range key {
		parts[k] = strings.Clone(arr.ValueStr(i))
	}
	return strings.Join(parts, ", ")
}
