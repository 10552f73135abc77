package datafile

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
	"github.com/deltafold/deltafold/internal/ordered"
)

// StatsBounds gives what the statistics of an add action know of a column of
// want, a nested one by its path with dots. It never fails: text that does not
// parse, members that are missing or of another form, and everything that some
// known writer gets wrong are unknown (I4). The writer is taken as unknown; for
// files that this package wrote, [OwnStatsBounds] knows more. The text is parsed
// once, at the first call; the function is safe for concurrent use.
func StatsBounds(stats string, want *arrow.Schema) func(column string) ordered.Bounds {
	return newStats(stats, want, false)
}

// OwnStatsBounds is StatsBounds for statistics that a [Writer] made. It believes
// maxima of strings of 32 characters and more, of floating-point numbers, and
// decimals of many digits.
func OwnStatsBounds(stats string, want *arrow.Schema) func(column string) ordered.Bounds {
	return newStats(stats, want, true)
}

func newStats(stats string, want *arrow.Schema, own bool) func(column string) ordered.Bounds {
	parse := sync.OnceValue(func() *parsedStats { return parseStats(stats) })
	return func(column string) ordered.Bounds {
		return parse().bounds(column, want, own)
	}
}

// StatsNumRecords gives numRecords of an add action's statistics.
func StatsNumRecords(stats string) (int64, bool) {
	p := parseStats(stats)
	return p.rows, p.rows >= 0
}

type parsedStats struct {
	rows          int64 // -1 unknown
	wide          bool  // tightBounds is false
	min, max, nul jsontext.Value
}

func parseStats(stats string) *parsedStats {
	p := &parsedStats{rows: -1}
	v := jsontext.Value(strings.TrimSpace(stats))
	// Checked once as a whole, duplicate names and UTF-8 included, so that the
	// scans below need not look back.
	if len(v) == 0 || v.Kind() != '{' || !v.IsValid() {
		return p
	}
	eachMember(v, func(name, val jsontext.Value) bool {
		switch string(name) {
		case `"numRecords"`:
			if n, ok := wholeNumber(val); ok && n >= 0 {
				p.rows = n
			}
		case `"tightBounds"`:
			p.wide = val.Kind() != 't' && val.Kind() != 'n'
		case `"minValues"`:
			p.min = val
		case `"maxValues"`:
			p.max = val
		case `"nullCount"`:
			p.nul = val
		}
		return true
	})
	return p
}

// wholeNumber reads an integer literal exactly (I7).
func wholeNumber(v jsontext.Value) (int64, bool) {
	if v.Kind() != '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}

func (p *parsedStats) bounds(column string, want *arrow.Schema, own bool) ordered.Bounds {
	b := ordered.Unknown()
	b.Rows = p.rows
	path, t, ok := findColumn(want, column)
	if !ok {
		return b
	}
	if n, ok := wholeNumber(lookup(p.nul, path)); ok && n >= 0 && (p.rows < 0 || n <= p.rows) {
		// Wide bounds: the count is from before rows were deleted and tells only
		// these two cases (protocol notes 1.6).
		if !p.wide || n == 0 || n == p.rows {
			b.NullCount = n
		}
	}
	if !ordered.Supported(t) || p.rows == 0 {
		return b
	}
	lo, okLo := textForm(lookup(p.min, path), t, false, own)
	hi, okHi := textForm(lookup(p.max, path), t, true, own)
	if okLo && okHi && string(lo) > string(hi) {
		return b
	}
	if okLo || okHi {
		if b.NullCount == p.rows && p.rows >= 0 {
			b.NullCount = -1 // all NULL and bounds: one of the two is wrong
			return b
		}
	}
	if okLo {
		b.Min = lo
	}
	if okHi {
		b.Max = hi
	}
	return b
}

// findColumn resolves a column's name, or its path with dots within structs.
func findColumn(s *arrow.Schema, column string) (path []string, t arrow.DataType, ok bool) {
	return findField(s.Fields(), column)
}

func findField(fields []arrow.Field, column string) (path []string, t arrow.DataType, ok bool) {
	for _, exact := range []bool{true, false} {
		for _, f := range fields {
			if f.Name == column || !exact && schema.Fold(f.Name) == schema.Fold(column) {
				return []string{f.Name}, f.Type, true
			}
		}
	}
	for _, f := range fields {
		n := len(f.Name)
		st, isStruct := f.Type.(*arrow.StructType)
		if !isStruct || len(column) <= n+1 || column[n] != '.' || schema.Fold(column[:n]) != schema.Fold(f.Name) {
			continue
		}
		if rest, t, ok := findField(st.Fields(), column[n+1:]); ok {
			return append([]string{f.Name}, rest...), t, true
		}
	}
	return nil, nil, false
}

// lookup follows a path through nested objects; names are exact, as the table's
// schema has them, or differ in case only and are then the only one.
func lookup(v jsontext.Value, path []string) jsontext.Value {
	for _, name := range path {
		var exact, other jsontext.Value
		others := 0
		eachMember(v, func(quoted, val jsontext.Value) bool {
			switch got := unquoteName(quoted); {
			case string(got) == name:
				exact = val
				return false
			case len(got) == len(name) || !isASCII(got):
				if schema.Fold(string(got)) == schema.Fold(name) {
					other, others = val, others+1
				}
			}
			return true
		})
		switch {
		case exact != nil:
			v = exact
		case others == 1:
			v = other
		default:
			return nil
		}
	}
	return v
}

// textForm gives the ordered form of a bound, already widened; false if unknown.
func textForm(v jsontext.Value, t arrow.DataType, upper, own bool) ([]byte, bool) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, false
	}
	text := string(v)
	isString := v.Kind() == '"'
	if isString {
		if err := json.Unmarshal(v, &text); err != nil {
			return nil, false
		}
	}
	switch t := t.(type) {
	case *arrow.BooleanType:
		if v.Kind() != 't' && v.Kind() != 'f' {
			return nil, false
		}
		return form(array.NewBooleanBuilder(memory.DefaultAllocator), v.Kind() == 't')
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		return intForm(v, t)
	case *arrow.Float32Type, *arrow.Float64Type:
		return floatForm(v, text, t, upper, own)
	case *arrow.Decimal128Type:
		if v.Kind() != '0' {
			return nil, false
		}
		return decimalForm(text, t, upper, own)
	case *arrow.StringType:
		if !isString {
			return nil, false
		}
		return stringForm(text, upper, own)
	case *arrow.Date32Type:
		if !isString {
			return nil, false
		}
		d, err := schema.ParseDate(text)
		if err != nil {
			return nil, false
		}
		return form(array.NewDate32Builder(memory.DefaultAllocator), arrow.Date32(d))
	case *arrow.TimestampType:
		if !isString {
			return nil, false
		}
		return timestampForm(text, t, upper, own)
	}
	return nil, false
}

type appender[T any] interface {
	array.Builder
	Append(T)
}

// form gives the ordered form of one value.
func form[T any](b appender[T], v T) ([]byte, bool) {
	defer b.Release()
	b.Append(v)
	arr := b.NewArray()
	defer arr.Release()
	return ordered.Append(nil, arr, 0), true
}

// formOf gives the ordered form of the only value of data.
func formOf(data arrow.ArrayData) []byte {
	arr := array.MakeFromData(data)
	defer arr.Release()
	return ordered.Append(nil, arr, 0)
}

func intForm(v jsontext.Value, t arrow.DataType) ([]byte, bool) {
	n, ok := wholeNumber(v)
	if !ok {
		return nil, false
	}
	switch {
	case t.ID() == arrow.INT8 && n == int64(int8(n)):
		return form(array.NewInt8Builder(memory.DefaultAllocator), int8(n))
	case t.ID() == arrow.INT16 && n == int64(int16(n)):
		return form(array.NewInt16Builder(memory.DefaultAllocator), int16(n))
	case t.ID() == arrow.INT32 && n == int64(int32(n)):
		return form(array.NewInt32Builder(memory.DefaultAllocator), int32(n))
	case t.ID() == arrow.INT64:
		return form(array.NewInt64Builder(memory.DefaultAllocator), n)
	}
	return nil, false
}

// floatForm: NaN is above every number, and many writers leave it out of the
// max, so a max is believed only if it says NaN. A min of NaN comes from writers
// that let the first NaN win: it says nothing.
func floatForm(v jsontext.Value, text string, t arrow.DataType, upper, own bool) ([]byte, bool) {
	bits := 64
	if t.ID() == arrow.FLOAT32 {
		bits = 32
	}
	var f float64
	switch {
	case v.Kind() == '0':
		var err error
		f, err = strconv.ParseFloat(text, bits)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, false
		}
		if math.IsInf(f, 0) {
			return nil, false
		}
	case v.Kind() != '"':
		return nil, false
	case text == "NaN" && upper:
		f = math.NaN()
	case text == "-Infinity":
		f = math.Inf(-1)
	case text == "Infinity":
		f = math.Inf(1)
	default:
		return nil, false
	}
	if upper && !own && !math.IsNaN(f) {
		return nil, false
	}
	if bits == 32 {
		return form(array.NewFloat32Builder(memory.DefaultAllocator), float32(f))
	}
	return form(array.NewFloat64Builder(memory.DefaultAllocator), f)
}

// decimalForm reads a decimal exactly. A writer that is not known may have passed
// the value through float64 (delta-rs#4757): text that a float64 may have printed
// is widened by more than its rounding, where the value has more digits than a
// float64 keeps.
func decimalForm(text string, t *arrow.Decimal128Type, upper, own bool) ([]byte, bool) {
	r, err := schema.ParseDecimal(text, t.Scale)
	if err != nil {
		return nil, false
	}
	v := r.Floor
	if upper && !r.Exact {
		v = new(big.Int).Add(v, big.NewInt(1))
	}
	if !own && r.Digits <= 17 && new(big.Int).Abs(v).Cmp(big.NewInt(1e15)) >= 0 {
		slack := new(big.Int).Rsh(new(big.Int).Abs(v), 50)
		slack.Add(slack, big.NewInt(1))
		if !upper {
			slack.Neg(slack)
		}
		v = new(big.Int).Add(v, slack)
	}
	// Beyond the type's range a lower bound may be brought back to it, an upper one
	// too; but a bound on the wrong side is nonsense.
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Precision)), nil)
	limit.Sub(limit, big.NewInt(1))
	neg := new(big.Int).Neg(limit)
	switch {
	case v.Cmp(limit) > 0 && upper:
		v = limit
	case v.Cmp(neg) < 0 && !upper:
		v = neg
	case v.Cmp(limit) > 0 || v.Cmp(neg) < 0:
		return nil, false
	}
	return form(array.NewDecimal128Builder(memory.DefaultAllocator, t), decimal128.FromBigInt(v))
}

// stringForm: a min may be a prefix, which is never above. A max of 32 units and
// more may be a prefix too, and then is below the values, unless a tie-breaker
// ends it (protocol notes 1.6, field-problems D1). U+FFFD may stand for bytes
// that were not UTF-8 and sorted elsewhere.
func stringForm(s string, upper, own bool) ([]byte, bool) {
	if !own && strings.ContainsRune(s, '\ufffd') {
		return nil, false
	}
	if upper && !own && maybeCut(s) {
		return nil, false
	}
	return ordered.AppendString(nil, s), true
}

// maybeCut says whether a max may be a prefix without a tie-breaker: of 32 UTF-16
// units, of 31 where a pair was not cut, of 32 bytes where a character was not.
func maybeCut(s string) bool {
	if strings.HasSuffix(s, string(rune(tieASCII))) || strings.HasSuffix(s, string(rune(tieUnicode))) {
		return false
	}
	units, ascii := 0, true
	for _, r := range s {
		units += utf16Len(r)
		ascii = ascii && r < 0x80
	}
	return units >= DefaultStringPrefix-1 || !ascii && len(s) > DefaultStringPrefix-utf8.UTFMax
}

// timestampForm: statistics keep milliseconds, cut towards the past, so a max may
// be almost a millisecond too low (field-problems D3); before 1970 some writers cut
// towards 1970, so a min there may be as much too high. Without a zone the instant
// of a timestamp is not known.
func timestampForm(text string, t *arrow.TimestampType, upper, own bool) ([]byte, bool) {
	at, err := schema.ParseTimestamp(text)
	if err != nil {
		return nil, false
	}
	zoned := t.TimeZone != ""
	if zoned && !at.Zoned || !zoned && at.Zoned && !at.UTC {
		return nil, false
	}
	us := at.Micros
	switch {
	case upper && us > math.MaxInt64-1000:
		us = math.MaxInt64
	case upper:
		us += 1000
	case !own && us < math.MinInt64+1000:
		us = math.MinInt64
	case !own && us <= 0:
		us -= 1000
	}
	return form(array.NewTimestampBuilder(memory.DefaultAllocator, t), arrow.Timestamp(us))
}
