package rows_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/merge/internal/rows"
)

// types are one of each way that Gather copies and Equal compares.
var types = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Float64, &arrow.Decimal128Type{Precision: 38, Scale: 4},
	arrow.FixedWidthTypes.Date32, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.Null,
	arrow.ListOf(arrow.PrimitiveTypes.Int32),
	arrow.StructOf(arrow.Field{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true}),
	arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64),
}

var texts = map[arrow.Type][]string{
	arrow.BOOL: {"true", "false"}, arrow.INT8: {"1", "-8"}, arrow.INT64: {"9007199254740993", "-1"},
	arrow.FLOAT64: {"1.5", "-0.25"}, arrow.DECIMAL128: {`"12345678901234567890.1234"`, `"-1.0000"`},
	arrow.DATE32: {`"2024-02-29"`, `"1969-12-31"`}, arrow.TIMESTAMP: {`"2024-01-02T03:04:05.678901Z"`},
	arrow.STRING: {`""`, `"é"`, `"longer text"`}, arrow.BINARY: {`"AAE="`, `""`}, arrow.NULL: {"null"},
	arrow.LIST: {"[]", "[1,null,3]"}, arrow.STRUCT: {`{"x":"a"}`, `{"x":null}`},
	arrow.MAP: {`[]`, `[{"key":"a","value":1},{"key":"b","value":null}]`},
}

// draw makes an array of dt out of the sample texts and NULLs, at a slice
// offset, so that offsets are exercised as well.
func draw(t *rapid.T, dt arrow.DataType, n int) arrow.Array {
	vals := []string{"null", "null"}
	for range n {
		vals = append(vals, rapid.SampledFrom(append(texts[dt.ID()], "null")).Draw(t, "v"))
	}
	a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader("["+strings.Join(vals, ",")+"]"))
	if err != nil {
		t.Fatal(err)
	}
	return array.NewSlice(a, 2, int64(len(vals)))
}

func TestGatherPicksExactlyTheRowsAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt := rapid.SampledFrom(types).Draw(t, "type")
		sources := []arrow.Array{draw(t, dt, 5), draw(t, dt, 3)}
		var picks []rows.Pick
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			s := rapid.IntRange(0, 1).Draw(t, "source")
			picks = append(picks, rows.Pick{Source: int32(s), Row: int32(rapid.IntRange(-1, sources[s].Len()-1).Draw(t, "row"))})
		}
		got, err := rows.Gather(dt, sources, picks)
		if err != nil {
			t.Fatal(err)
		}
		if got.Len() != len(picks) || !arrow.TypeEqual(got.DataType(), dt) {
			t.Fatalf("got %d rows of %s, want %d of %s", got.Len(), got.DataType(), len(picks), dt)
		}
		for i, p := range picks {
			if p.Row < 0 {
				if dt.ID() != arrow.NULL && got.IsValid(i) {
					t.Fatalf("row %d: got a value, want NULL", i)
				}
				continue
			}
			if !array.SliceEqual(got, int64(i), int64(i+1), sources[p.Source], int64(p.Row), int64(p.Row+1)) {
				t.Fatalf("row %d: got %v, want row %d of %v", i, got, p.Row, sources[p.Source])
			}
			if !rows.Equal(got, i, sources[p.Source], int(p.Row)) {
				t.Fatalf("row %d: not equal to itself", i)
			}
			for j := range i + 1 { // forms say what Equal says
				same := bytes.Equal(rows.AppendForm(nil, got, i), rows.AppendForm(nil, got, j))
				if want := rows.Equal(got, i, got, j); same != want {
					t.Fatalf("rows %d and %d of %s: equal is %v, their forms are equal is %v", j, i, got.DataType(), want, same)
				}
			}
		}
	})
}

func TestEqualFollowsPayloadEquality(t *testing.T) {
	floats := array.NewFloat64Builder(memory.DefaultAllocator)
	floats.AppendValues([]float64{math.NaN(), math.Copysign(0, -1), 0, 1}, nil)
	floats.AppendNull()
	f := floats.NewArray()
	maps, _, err := array.FromJSON(memory.DefaultAllocator, arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), strings.NewReader(
		`[[{"key":"a","value":1},{"key":"b","value":2}],[{"key":"b","value":2},{"key":"a","value":1}],[{"key":"a","value":1},{"key":"b","value":3}]]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		a    arrow.Array
		i, j int
		want bool
	}{
		{"NaN equals NaN", f, 0, 0, true},
		{"-0.0 equals 0.0", f, 1, 2, true},
		{"NULL equals NULL", f, 4, 4, true},
		{"NULL differs from 0.0", f, 4, 2, false},
		{"NaN differs from 1", f, 0, 3, false},
		{"map entries are a set", maps, 0, 1, true},
		{"another map value differs", maps, 0, 2, false},
	} {
		if got := rows.Equal(c.a, c.i, c.a, c.j); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
		if same := bytes.Equal(rows.AppendForm(nil, c.a, c.i), rows.AppendForm(nil, c.a, c.j)); same != c.want {
			t.Errorf("%s: forms are equal is %v", c.name, same)
		}
	}
}
