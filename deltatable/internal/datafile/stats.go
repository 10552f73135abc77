package datafile

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// DefaultIndexedCols is the number of leaf columns with statistics where the
// table does not say (delta.dataSkippingNumIndexedCols).
const DefaultIndexedCols = 32

// StatsSpec says which columns have statistics (protocol notes 1.6).
type StatsSpec struct {
	// NumIndexedCols counts leaf columns, depth first, an array or a map as one;
	// -1: all, 0: none.
	NumIndexedCols int
	// Columns, if not nil, are the columns instead: paths with dots; the name of
	// a struct stands for all its leaves (delta.dataSkippingStatsColumns).
	Columns []string
	// Always have statistics whatever the rest says: keys and versions.
	Always []string
}

// wants says whether leaf number i with this path is to have statistics.
func (s *StatsSpec) wants(path string, i int) bool {
	if covers(s.Always, path) {
		return true
	}
	if s.Columns != nil {
		return covers(s.Columns, path)
	}
	return s.NumIndexedCols < 0 || i < s.NumIndexedCols
}

func covers(columns []string, path string) bool {
	p := schema.Fold(path)
	for _, c := range columns {
		c = schema.Fold(c)
		if p == c || strings.HasPrefix(p, c) && p[len(c)] == '.' {
			return true
		}
	}
	return false
}

// collectors gather statistics as batches pass. They form a tree like the
// schema's: structs nest in the JSON too.
type collectors struct {
	columns []*collector // one for each column of the schema; nil: nothing wanted
	names   []string
}

// collector is a leaf, or a struct if kids is set.
type collector struct {
	names []string
	kids  []*collector
	nulls int64
	rows  int64
	value valueStats // nil for types without bounds
}

// valueStats keeps the least and the greatest value. visible, if not nil, says
// which rows are not within a NULL struct.
type valueStats interface {
	add(arr arrow.Array, visible []bool)
	// appendMin and appendMax append the bound's JSON, or give false if there is none.
	appendMin(b []byte, prefix int) ([]byte, bool)
	appendMax(b []byte, prefix int) ([]byte, bool)
}

func newCollectors(s *arrow.Schema, spec StatsSpec) *collectors {
	c := &collectors{columns: make([]*collector, s.NumFields())}
	leaf := 0
	for i, f := range s.Fields() {
		c.names = append(c.names, f.Name)
		c.columns[i] = newCollector(f.Type, f.Name, &spec, &leaf)
	}
	return c
}

func newCollector(t arrow.DataType, path string, spec *StatsSpec, leaf *int) *collector {
	if st, ok := t.(*arrow.StructType); ok {
		c := &collector{}
		some := false
		for _, f := range st.Fields() {
			kid := newCollector(f.Type, path+"."+f.Name, spec, leaf)
			some = some || kid != nil
			c.names, c.kids = append(c.names, f.Name), append(c.kids, kid)
		}
		if !some {
			return nil
		}
		return c
	}
	i := *leaf
	*leaf++
	if t.ID() == arrow.NULL || !spec.wants(path, i) {
		return nil
	}
	return &collector{value: newValueStats(t)}
}

func newValueStats(t arrow.DataType) valueStats {
	switch t := t.(type) {
	case *arrow.Int8Type:
		return &intStats[int8]{values: func(a arrow.Array) []int8 { return a.(*array.Int8).Int8Values() }, text: appendInt}
	case *arrow.Int16Type:
		return &intStats[int16]{values: func(a arrow.Array) []int16 { return a.(*array.Int16).Int16Values() }, text: appendInt}
	case *arrow.Int32Type:
		return &intStats[int32]{values: func(a arrow.Array) []int32 { return a.(*array.Int32).Int32Values() }, text: appendInt}
	case *arrow.Int64Type:
		return &intStats[int64]{values: func(a arrow.Array) []int64 { return a.(*array.Int64).Int64Values() }, text: appendInt}
	case *arrow.Date32Type:
		return &intStats[arrow.Date32]{values: func(a arrow.Array) []arrow.Date32 { return a.(*array.Date32).Date32Values() }, text: appendDate}
	case *arrow.TimestampType:
		text := appendTimestampNTZ
		if t.TimeZone != "" {
			text = appendTimestamp
		}
		return &intStats[arrow.Timestamp]{values: func(a arrow.Array) []arrow.Timestamp { return a.(*array.Timestamp).TimestampValues() }, text: text}
	case *arrow.Float32Type:
		return &floatStats[float32]{values: func(a arrow.Array) []float32 { return a.(*array.Float32).Float32Values() }, bits: 32}
	case *arrow.Float64Type:
		return &floatStats[float64]{values: func(a arrow.Array) []float64 { return a.(*array.Float64).Float64Values() }, bits: 64}
	case *arrow.Decimal128Type:
		return &decimalStats{scale: t.Scale}
	case *arrow.StringType:
		return &stringStats{}
	}
	return nil // boolean, binary, array, map: null counts only
}

func (c *collectors) add(rec arrow.RecordBatch) {
	for i, col := range c.columns {
		if col != nil {
			col.add(rec.Column(i), nil)
		}
	}
}

func (c *collector) add(arr arrow.Array, visible []bool) {
	if c.kids != nil {
		st := arr.(*array.Struct)
		if st.NullN() > 0 {
			inner := make([]bool, st.Len())
			for i := range inner {
				inner[i] = st.IsValid(i) && (visible == nil || visible[i])
			}
			visible = inner
		}
		for i, kid := range c.kids {
			if kid != nil {
				kid.add(st.Field(i), visible)
			}
		}
		return
	}
	c.rows += int64(arr.Len())
	if visible == nil {
		c.nulls += int64(arr.NullN())
	} else {
		for i := range visible {
			if !visible[i] || arr.IsNull(i) {
				c.nulls++
			}
		}
	}
	if c.value != nil {
		c.value.add(arr, visible)
	}
}

// json writes the statistics of a file of n rows.
func (c *collectors) json(n int64, prefix int) string {
	b := appendInt([]byte(`{"numRecords":`), n)
	for _, part := range []struct {
		name string
		leaf func(*collector, []byte) ([]byte, bool)
	}{
		{"minValues", func(l *collector, b []byte) ([]byte, bool) {
			if l.value == nil || l.nulls == l.rows {
				return b, false
			}
			return l.value.appendMin(b, prefix)
		}},
		{"maxValues", func(l *collector, b []byte) ([]byte, bool) {
			if l.value == nil || l.nulls == l.rows {
				return b, false
			}
			return l.value.appendMax(b, prefix)
		}},
		{"nullCount", func(l *collector, b []byte) ([]byte, bool) { return appendInt(b, l.nulls), true }},
	} {
		b = append(append(append(b, `,"`...), part.name...), `":`...)
		b, _ = appendObject(b, c.names, c.columns, part.leaf)
	}
	return string(append(b, '}'))
}

// appendObject writes an object of the members that have something to say; some
// tells whether there was one.
func appendObject(b []byte, names []string, kids []*collector, leaf func(*collector, []byte) ([]byte, bool)) (out []byte, some bool) {
	b = append(b, '{')
	for i, kid := range kids {
		if kid == nil {
			continue
		}
		start := len(b)
		if some {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(names[i], "\ufffd"))
		b = append(b, ':')
		var ok bool
		if kid.kids != nil {
			b, ok = appendObject(b, kid.names, kid.kids, leaf)
		} else {
			b, ok = leaf(kid, b)
		}
		if !ok {
			b = b[:start]
		}
		some = some || ok
	}
	return append(b, '}'), some
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64
}

// intStats is for all types whose order is that of integers.
type intStats[T integer] struct {
	values   func(arrow.Array) []T
	text     func(b []byte, v int64) []byte
	any      bool
	min, max T
}

func (s *intStats[T]) add(arr arrow.Array, visible []bool) {
	vals := s.values(arr)
	if visible == nil && arr.NullN() == 0 {
		if len(vals) == 0 {
			return
		}
		lo, hi := vals[0], vals[0]
		for _, v := range vals {
			lo, hi = min(lo, v), max(hi, v)
		}
		s.see(lo)
		s.see(hi)
		return
	}
	for i, v := range vals {
		if arr.IsValid(i) && (visible == nil || visible[i]) {
			s.see(v)
		}
	}
}

func (s *intStats[T]) see(v T) {
	if !s.any {
		s.any, s.min, s.max = true, v, v
		return
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
}

func (s *intStats[T]) appendMin(b []byte, _ int) ([]byte, bool) { return s.append(b, s.min) }
func (s *intStats[T]) appendMax(b []byte, _ int) ([]byte, bool) { return s.append(b, s.max) }

func (s *intStats[T]) append(b []byte, v T) ([]byte, bool) {
	n := len(b)
	b = s.text(b, int64(v))
	return b, s.any && len(b) > n
}

// floatStats: NaN is the greatest value of all in SQL, so with a NaN there is no
// max (any reader takes that as unknown). Zeros are widened to -0.0 and 0.0.
// Infinite bounds are left out: they are no JSON numbers, and readers differ on
// the spelling.
type floatStats[T float32 | float64] struct {
	values   func(arrow.Array) []T
	bits     int
	any, nan bool
	min, max T
}

func (s *floatStats[T]) add(arr arrow.Array, visible []bool) {
	for i, v := range s.values(arr) {
		if arr.IsNull(i) || visible != nil && !visible[i] {
			continue
		}
		switch {
		case v != v:
			s.nan = true
		case !s.any:
			s.any, s.min, s.max = true, v, v
		default:
			s.min, s.max = min(s.min, v), max(s.max, v)
		}
	}
}

func (s *floatStats[T]) appendMin(b []byte, _ int) ([]byte, bool) {
	v := float64(s.min)
	if v == 0 {
		v = math.Copysign(0, -1)
	}
	return appendFloat(b, v, s.bits), s.any && !math.IsInf(v, 0)
}

func (s *floatStats[T]) appendMax(b []byte, _ int) ([]byte, bool) {
	v := float64(s.max)
	if v == 0 {
		v = 0 // -0.0 to 0.0
	}
	return appendFloat(b, v, s.bits), s.any && !s.nan && !math.IsInf(v, 0)
}

type decimalStats struct {
	scale    int32
	any      bool
	min, max decimal128.Num
}

func (s *decimalStats) add(arr arrow.Array, visible []bool) {
	a := arr.(*array.Decimal128)
	for i, v := range a.Values() {
		if a.IsNull(i) || visible != nil && !visible[i] {
			continue
		}
		switch {
		case !s.any:
			s.any, s.min, s.max = true, v, v
		case v.Less(s.min):
			s.min = v
		case s.max.Less(v):
			s.max = v
		}
	}
}

func (s *decimalStats) appendMin(b []byte, _ int) ([]byte, bool) {
	return schema.AppendDecimal(b, s.min, s.scale), s.any
}

func (s *decimalStats) appendMax(b []byte, _ int) ([]byte, bool) {
	return schema.AppendDecimal(b, s.max, s.scale), s.any
}

// stringStats orders strings by their UTF-8 bytes, as SQL does.
type stringStats struct {
	any      bool
	min, max []byte
}

func (s *stringStats) add(arr arrow.Array, visible []bool) {
	a := arr.(*array.String)
	offs, data := a.ValueOffsets(), []byte(nil)
	if buf := a.Data().Buffers()[2]; buf != nil {
		data = buf.Bytes()
	}
	nulls := a.NullN() > 0
	newMin, newMax := false, false
	for i := range a.Len() {
		if nulls && a.IsNull(i) || visible != nil && !visible[i] {
			continue
		}
		v := data[offs[i]:offs[i+1]]
		if !s.any {
			s.any, s.min, s.max, newMin, newMax = true, v, v, true, true
			continue
		}
		if bytes.Compare(v, s.min) < 0 {
			s.min, newMin = v, true
		} else if bytes.Compare(v, s.max) > 0 {
			s.max, newMax = v, true
		}
	}
	// The array's memory is not ours beyond this call.
	if newMin {
		s.min = bytes.Clone(s.min)
	}
	if newMax {
		s.max = bytes.Clone(s.max)
	}
	if s.any && s.min == nil {
		s.min = []byte{}
	}
	if s.any && s.max == nil {
		s.max = []byte{}
	}
}

func (s *stringStats) appendMin(b []byte, prefix int) ([]byte, bool) {
	if !s.any || !utf8.Valid(s.min) {
		return b, false // JSON cannot say it exactly
	}
	return quoted(b, truncateMin(string(s.min), prefix)), true
}

func (s *stringStats) appendMax(b []byte, prefix int) ([]byte, bool) {
	if !s.any || !utf8.Valid(s.max) {
		return b, false
	}
	v, ok := truncateMax(string(s.max), prefix)
	return quoted(b, v), ok
}
