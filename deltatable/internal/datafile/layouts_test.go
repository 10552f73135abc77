package datafile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	pq "github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/ordered"
)

// column data of a hand-made file: values of the physical type, with levels.
type rawColumn struct {
	values   any
	def, rep []int16
}

// rawFile writes one row group of hand-made columns.
func rawFile(t *testing.T, fields pq.FieldList, cols ...rawColumn) []byte {
	t.Helper()
	return rawFileOf(t, nil, fields, cols...)
}

// rawFileOf is rawFile with keys in the footer.
func rawFileOf(t *testing.T, keys []string, fields pq.FieldList, cols ...rawColumn) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, pq.MustGroup(pq.NewGroupNode("spark_schema", parquet.Repetitions.Required, fields, -1)))
	for _, k := range keys {
		if err := w.AppendKeyValueMetadata(k, ""); err != nil {
			t.Fatal(err)
		}
	}
	rg, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cols {
		cw, err := rg.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		switch cw := cw.(type) {
		case *file.Int32ColumnChunkWriter:
			_, err = cw.WriteBatch(c.values.([]int32), c.def, c.rep)
		case *file.Int64ColumnChunkWriter:
			_, err = cw.WriteBatch(c.values.([]int64), c.def, c.rep)
		case *file.Int96ColumnChunkWriter:
			_, err = cw.WriteBatch(c.values.([]parquet.Int96), c.def, c.rep)
		case *file.ByteArrayColumnChunkWriter:
			_, err = cw.WriteBatch(c.values.([]parquet.ByteArray), c.def, c.rep)
		case *file.FixedLenByteArrayColumnChunkWriter:
			_, err = cw.WriteBatch(c.values.([]parquet.FixedLenByteArray), c.def, c.rep)
		case *file.Float64ColumnChunkWriter:
			_, err = cw.WriteBatch(c.values.([]float64), c.def, c.rep)
		case *file.Float32ColumnChunkWriter:
			_, err = cw.WriteBatch(c.values.([]float32), c.def, c.rep)
		}
		if err == nil {
			err = cw.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{rg, w} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func int96(day int64, nanos uint64) (v parquet.Int96) {
	binary.LittleEndian.PutUint64(v[:8], nanos)
	binary.LittleEndian.PutUint32(v[8:], uint32(day+2440588))
	return v
}

func group(name string, rep parquet.Repetition, fields ...pq.Node) pq.Node {
	return pq.MustGroup(pq.NewGroupNode(name, rep, fields, -1))
}

func logical(name string, rep parquet.Repetition, l pq.LogicalType, phys parquet.Type, size int) pq.Node {
	return pq.MustPrimitive(pq.NewPrimitiveNodeLogical(name, rep, l, phys, size, -1))
}

var optional, required, repeated = parquet.Repetitions.Optional, parquet.Repetitions.Required, parquet.Repetitions.Repeated

func readColumn(t *testing.T, data []byte, want arrow.Field) []any {
	t.Helper()
	return column(readAll(t, openFile(t, data, arrow.NewSchema([]arrow.Field{want}, nil)), ReadOptions{BatchRows: 2}), want.Name)
}

func TestTimestampsOfEveryLayout(t *testing.T) {
	def := func(n int) []int16 { return bytes16(n, 1) }
	const year9999, year1 = 2932896, -719162
	for name, c := range map[string]struct {
		node pq.Node
		col  rawColumn
		want []any
	}{
		"int96": {
			pq.NewInt96Node("ts", optional, -1),
			rawColumn{[]parquet.Int96{int96(0, 1999), int96(year9999, 86399999999999), int96(year1, 0), int96(-1, 86399999999000)}, []int16{1, 1, 0, 1, 1}, nil},
			[]any{arrow.Timestamp(1), arrow.Timestamp(253402300799999999), nil, arrow.Timestamp(-62135596800000000), arrow.Timestamp(-1)},
		},
		"millis": {
			logical("ts", optional, pq.NewTimestampLogicalType(true, pq.TimeUnitMillis), parquet.Types.Int64, -1),
			rawColumn{[]int64{-1, 5}, def(2), nil},
			[]any{arrow.Timestamp(-1000), arrow.Timestamp(5000)},
		},
		"micros": {
			logical("ts", required, pq.NewTimestampLogicalType(false, pq.TimeUnitMicros), parquet.Types.Int64, -1),
			rawColumn{[]int64{math.MinInt64, math.MaxInt64}, nil, nil},
			[]any{arrow.Timestamp(math.MinInt64), arrow.Timestamp(math.MaxInt64)},
		},
		"nanos": {
			logical("ts", optional, pq.NewTimestampLogicalType(true, pq.TimeUnitNanos), parquet.Types.Int64, -1),
			rawColumn{[]int64{-1, 1999}, def(2), nil},
			[]any{arrow.Timestamp(-1), arrow.Timestamp(1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := rawFile(t, pq.FieldList{c.node}, c.col)
			for _, typ := range []arrow.DataType{stamp, stampNTZ} {
				if d := cmp.Diff(c.want, readColumn(t, data, field("TS", typ))); d != "" {
					t.Errorf("%s (-want +got):\n%s", typ, d)
				}
			}
			f := openFile(t, data, arrow.NewSchema([]arrow.Field{field("ts", stamp)}, nil))
			forms, nulls := leafValues(readAll(t, f, ReadOptions{}), []int{0})
			sound(t, "row group", f.Bounds(0, "ts"), facts{forms, nulls, f.NumRows()})
			if name == "int96" && f.Bounds(0, "ts").Min != nil {
				t.Error("INT96 has bounds")
			}
		})
	}
}

func bytes16(n int, v int16) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestDecimalsOfEveryLayout(t *testing.T) {
	want := []any{"decimal -100", "decimal 0", "decimal 100", nil}
	def := []int16{1, 1, 1, 0}
	dec := func(phys parquet.Type, size int, p, s int32) pq.Node {
		return logical("d", optional, pq.NewDecimalLogicalType(p, s), phys, size)
	}
	for name, c := range map[string]struct {
		node pq.Node
		vals any
	}{
		"int32":                {dec(parquet.Types.Int32, -1, 9, 2), []int32{-100, 0, 100}},
		"int64":                {dec(parquet.Types.Int64, -1, 18, 2), []int64{-100, 0, 100}},
		"int32 of lower scale": {dec(parquet.Types.Int32, -1, 9, 0), []int32{-1, 0, 1}},
		"fixed":                {dec(parquet.Types.FixedLenByteArray, 5, 10, 2), []parquet.FixedLenByteArray{{255, 255, 255, 255, 156}, make([]byte, 5), {0, 0, 0, 0, 100}}},
		"fixed, wide":          {dec(parquet.Types.FixedLenByteArray, 16, 38, 2), []parquet.FixedLenByteArray{append(bytes.Repeat([]byte{255}, 15), 156), make([]byte, 16), append(make([]byte, 15), 100)}},
		"byte arrays":          {dec(parquet.Types.ByteArray, -1, 10, 2), []parquet.ByteArray{{156}, {0}, {0, 100}}},
	} {
		t.Run(name, func(t *testing.T) {
			data := rawFile(t, pq.FieldList{c.node}, rawColumn{c.vals, def, nil})
			typ := &arrow.Decimal128Type{Precision: 12, Scale: 2}
			if d := cmp.Diff(want, readColumn(t, data, field("d", typ))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			f := openFile(t, data, arrow.NewSchema([]arrow.Field{field("d", typ)}, nil))
			forms, nulls := leafValues(readAll(t, f, ReadOptions{}), []int{0})
			sound(t, "row group", f.Bounds(0, "d"), facts{forms, nulls, f.NumRows()})
		})
	}
}

func TestListsAndMapsAreFoundByStructure(t *testing.T) {
	str := func(name string, rep parquet.Repetition) pq.Node {
		return logical(name, rep, pq.StringLogicalType{}, parquet.Types.ByteArray, -1)
	}
	abc := []parquet.ByteArray{[]byte("a"), []byte("b"), []byte("c")}
	listOf := func(t arrow.DataType) arrow.DataType { return arrow.ListOfField(field("element", t)) }
	x := func(v any) map[string]any { return map[string]any{"x": v} }
	for name, c := range map[string]struct {
		node pq.Node
		cols []rawColumn
		typ  arrow.DataType
		want []any
	}{
		"three levels, standard": {
			group("c", optional, group("list", repeated, str("element", optional))),
			[]rawColumn{{abc, []int16{3, 2, 3, 0, 1, 3}, []int16{0, 1, 0, 0, 0, 0}}},
			listOf(arrow.BinaryTypes.String),
			[]any{[]any{"a", nil}, []any{"b"}, nil, []any{}, []any{"c"}},
		},
		"three levels, hive": {
			group("c", optional, group("bag", repeated, str("array_element", optional))),
			[]rawColumn{{abc, []int16{3, 2, 3, 0, 1, 3}, []int16{0, 1, 0, 0, 0, 0}}},
			listOf(arrow.BinaryTypes.String),
			[]any{[]any{"a", nil}, []any{"b"}, nil, []any{}, []any{"c"}},
		},
		"two levels, spark legacy": {
			group("c", optional, str("array", repeated)),
			[]rawColumn{{abc, []int16{2, 2, 0, 1, 2}, []int16{0, 1, 0, 0, 0}}},
			listOf(arrow.BinaryTypes.String),
			[]any{[]any{"a", "b"}, nil, []any{}, []any{"c"}},
		},
		"two levels of structs": {
			group("c", optional, group("array", repeated, str("x", optional))),
			[]rawColumn{{abc, []int16{3, 2, 3, 0, 1, 3}, []int16{0, 1, 0, 0, 0, 0}}},
			listOf(arrow.StructOf(field("x", arrow.BinaryTypes.String))),
			[]any{[]any{x("a"), x(nil)}, []any{x("b")}, nil, []any{}, []any{x("c")}},
		},
		"two levels of structs, odd name": {
			group("c", optional, group("bag", repeated, str("x", optional))),
			[]rawColumn{{abc, []int16{3, 2, 3, 0, 1, 3}, []int16{0, 1, 0, 0, 0, 0}}},
			listOf(arrow.StructOf(field("x", arrow.BinaryTypes.String))),
			[]any{[]any{x("a"), x(nil)}, []any{x("b")}, nil, []any{}, []any{x("c")}},
		},
		"two levels of structs with two members": {
			group("c", optional, group("el", repeated, str("x", optional), str("y", optional))),
			[]rawColumn{{abc, []int16{3, 3, 0, 1, 3}, []int16{0, 1, 0, 0, 0}}, {[]parquet.ByteArray{}, []int16{2, 2, 0, 1, 2}, []int16{0, 1, 0, 0, 0}}},
			listOf(arrow.StructOf(field("x", arrow.BinaryTypes.String))),
			[]any{[]any{x("a"), x("b")}, nil, []any{}, []any{x("c")}},
		},
		"three levels of structs": {
			group("c", optional, group("list", repeated, group("element", optional, str("x", optional)))),
			[]rawColumn{{abc, []int16{4, 3, 2, 4, 0, 1, 4}, []int16{0, 1, 1, 0, 0, 0, 0}}},
			listOf(arrow.StructOf(field("x", arrow.BinaryTypes.String))),
			[]any{[]any{x("a"), x(nil), nil}, []any{x("b")}, nil, []any{}, []any{x("c")}},
		},
		"members that the file lacks": {
			group("c", optional, group("list", repeated, group("element", optional, str("y", optional)))),
			[]rawColumn{{abc, []int16{4, 3, 2, 4, 0, 1, 4}, []int16{0, 1, 1, 0, 0, 0, 0}}},
			listOf(arrow.StructOf(field("x", arrow.BinaryTypes.String))),
			[]any{[]any{x(nil), x(nil), nil}, []any{x(nil)}, nil, []any{}, []any{x(nil)}},
		},
		"a repeated column alone": {
			str("c", repeated),
			[]rawColumn{{abc, []int16{1, 1, 0, 1}, []int16{0, 1, 0, 0}}},
			listOf(arrow.BinaryTypes.String),
			[]any{[]any{"a", "b"}, []any{}, []any{"c"}},
		},
		"lists of lists": {
			group("c", optional, group("list", repeated, group("element", optional, group("list", repeated, str("element", optional))))),
			[]rawColumn{{abc, []int16{5, 4, 5, 3, 2, 1, 0, 5}, []int16{0, 2, 1, 1, 1, 0, 0, 0}}},
			listOf(listOf(arrow.BinaryTypes.String)),
			[]any{[]any{[]any{"a", nil}, []any{"b"}, []any{}, nil}, []any{}, nil, []any{[]any{"c"}}},
		},
		"map, legacy names": {
			group("c", optional, group("map", repeated, str("k", required), logical("v", optional, pq.NoLogicalType{}, parquet.Types.Int32, -1))),
			[]rawColumn{{abc, []int16{2, 2, 0, 1, 2}, []int16{0, 1, 0, 0, 0}}, {[]int32{1, 2}, []int16{3, 2, 0, 1, 3}, []int16{0, 1, 0, 0, 0}}},
			arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32),
			[]any{[][2]any{{"a", int32(1)}, {"b", nil}}, nil, [][2]any{}, [][2]any{{"c", int32(2)}}},
		},
		"map without values": {
			group("c", optional, group("key_value", repeated, str("key", required))),
			[]rawColumn{{abc, []int16{2, 2, 0, 1, 2}, []int16{0, 1, 0, 0, 0}}},
			arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32),
			[]any{[][2]any{{"a", nil}, {"b", nil}}, nil, [][2]any{}, [][2]any{{"c", nil}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := readColumn(t, rawFile(t, pq.FieldList{c.node}, c.cols...), field("c", c.typ))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestColumnsAreFoundByNameWithoutCase(t *testing.T) {
	ints := func(name string) pq.Node { return pq.NewInt32Node(name, optional, -1) }
	data := rawFile(t, pq.FieldList{ints("extra"), ints("B"), ints("a")},
		rawColumn{[]int32{9}, []int16{1}, nil}, rawColumn{[]int32{2}, []int16{1}, nil}, rawColumn{[]int32{1}, []int16{1}, nil})
	want := arrow.NewSchema([]arrow.Field{field("a", arrow.PrimitiveTypes.Int64), field("b", arrow.PrimitiveTypes.Int16), field("none", stamp), field("nothing", arrow.Null)}, nil)
	f := openFile(t, data, want)
	got := readAll(t, f, ReadOptions{Columns: []string{"NONE", "B", "a", "nothing", "a"}})
	if len(got) != 1 || got[0].NumRows() != 1 {
		t.Fatal(got)
	}
	row := []any{}
	for i := range 5 {
		row = append(row, plain(got[0].Column(i), 0))
	}
	if d := cmp.Diff([]any{nil, int16(2), int64(1), nil, int64(1)}, row); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if b := f.Bounds(0, "none"); !b.AllNull() {
		t.Errorf("bounds of a column that is not there: %+v", b)
	}
	for name, v := range map[string]int64{"a": 1} {
		if b := f.Bounds(0, name); string(b.Min) != string(ordered.AppendInt64(nil, v)) {
			t.Errorf("bounds of %s: %+v", name, b)
		}
	}
}

func TestStoredTypesThatDoNotFitAreRefused(t *testing.T) {
	data := rawFile(t, pq.FieldList{
		pq.NewInt64Node("long", optional, -1), pq.NewFloat64Node("double", optional, -1), pq.NewInt32Node("int", optional, -1),
		logical("date", optional, pq.DateLogicalType{}, parquet.Types.Int32, -1),
		logical("dec", optional, pq.NewDecimalLogicalType(9, 3), parquet.Types.Int32, -1),
		logical("ulong", optional, pq.NewIntLogicalType(64, false), parquet.Types.Int64, -1),
	}, rawColumn{[]int64{1 << 40}, []int16{1}, nil}, rawColumn{[]float64{1}, []int16{1}, nil}, rawColumn{[]int32{300}, []int16{1}, nil},
		rawColumn{[]int32{1}, []int16{1}, nil}, rawColumn{[]int32{123456789}, []int16{1}, nil}, rawColumn{[]int64{-1}, []int16{1}, nil})
	for _, c := range []struct {
		column string
		typ    arrow.DataType
		value  bool // the type fits and a value does not
	}{
		{"long", arrow.PrimitiveTypes.Int32, false},
		{"long", stamp, false},
		{"long", arrow.BinaryTypes.String, false},
		{"double", arrow.PrimitiveTypes.Float32, false},
		{"int", arrow.PrimitiveTypes.Int8, true},
		{"int", arrow.PrimitiveTypes.Float64, false},
		{"date", arrow.PrimitiveTypes.Int32, false},
		{"date", stampNTZ, false},
		{"int", arrow.StructOf(field("x", arrow.PrimitiveTypes.Int32)), false},
		{"int", arrow.ListOf(arrow.PrimitiveTypes.Int32), false},
		{"int", arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32), false},
		{"dec", &arrow.Decimal128Type{Precision: 9, Scale: 2}, false},
		{"dec", &arrow.Decimal128Type{Precision: 5, Scale: 3}, true},
		{"ulong", arrow.PrimitiveTypes.Int64, false},
	} {
		f := openFile(t, data, arrow.NewSchema([]arrow.Field{field(c.column, c.typ)}, nil))
		var err error
		for _, err = range f.Read(context.Background(), ReadOptions{}) {
		}
		var m *MismatchError
		if err == nil || errors.As(err, &m) == c.value || !strings.Contains(err.Error(), c.column) {
			t.Errorf("%s as %s: %v", c.column, c.typ, err)
		}
		b := f.Bounds(0, c.column)
		if b.Min != nil || b.Max != nil {
			t.Errorf("%s as %s has bounds", c.column, c.typ)
		}
	}
}

// A list of numbers is not a list of structs all of whose members are missing.
func TestAListOfAtomsIsNoListOfStructs(t *testing.T) {
	node := group("c", optional, group("list", repeated, pq.NewInt32Node("element", optional, -1)))
	data := rawFile(t, pq.FieldList{node}, rawColumn{[]int32{1}, []int16{3}, []int16{0}})
	typ := arrow.ListOfField(field("element", arrow.StructOf(field("x", arrow.PrimitiveTypes.Int32))))
	f := openFile(t, data, arrow.NewSchema([]arrow.Field{field("c", typ)}, nil))
	for _, err := range f.Read(context.Background(), ReadOptions{}) {
		var m *MismatchError
		if !errors.As(err, &m) || m.Column != "c.element" {
			t.Errorf("%v", err)
		}
	}
}

// Spark 2, and Spark 3 in legacy mode, wrote the days of the Julian calendar and
// say so in the footer: what is old enough to differ is refused.
func TestOldJulianValuesAreRefused(t *testing.T) {
	date := logical("c", optional, pq.DateLogicalType{}, parquet.Types.Int32, -1)
	const legacyDates, legacyINT96 = "org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96"
	for _, c := range []struct {
		name    string
		keys    []string
		node    pq.Node
		values  any
		typ     arrow.DataType
		refused bool
	}{
		{"old date, marked", []string{legacyDates}, date, []int32{gregorianDay - 1}, arrow.FixedWidthTypes.Date32, true},
		{"old date, not marked", nil, date, []int32{gregorianDay - 1}, arrow.FixedWidthTypes.Date32, false},
		{"newer date, marked", []string{legacyDates}, date, []int32{gregorianDay}, arrow.FixedWidthTypes.Date32, false},
		{"old INT96, marked", []string{legacyINT96}, pq.NewInt96Node("c", optional, -1), []parquet.Int96{int96(-200000, 0)}, stamp, true},
		{"old INT96, dates marked", []string{legacyDates}, pq.NewInt96Node("c", optional, -1), []parquet.Int96{int96(-200000, 0)}, stamp, false},
		{"newer INT96, marked", []string{legacyINT96}, pq.NewInt96Node("c", optional, -1), []parquet.Int96{int96(0, 0)}, stamp, false},
	} {
		data := rawFileOf(t, c.keys, pq.FieldList{c.node}, rawColumn{c.values, []int16{1}, nil})
		f := openFile(t, data, arrow.NewSchema([]arrow.Field{field("c", c.typ)}, nil))
		var err error
		for _, err = range f.Read(context.Background(), ReadOptions{}) {
		}
		if errors.Is(err, errJulian) != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if b := f.Bounds(0, "c"); c.refused && b.Min != nil {
			t.Errorf("%s: bounds", c.name)
		}
	}
}
