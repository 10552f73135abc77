package datafile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/internal/ordered"
)

// oneColumn makes a batch of one column "c" by a builder's own Append.
func oneColumn[T any](t arrow.DataType, vals ...T) arrow.RecordBatch {
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for _, v := range vals {
		b.(appender[T]).Append(v)
	}
	s := arrow.NewSchema([]arrow.Field{field("c", t)}, nil)
	return array.NewRecordBatch(s, []arrow.Array{b.NewArray()}, int64(len(vals)))
}

func statsOf(t testing.TB, recs ...arrow.RecordBatch) string {
	t.Helper()
	_, sum := writeFile(t, WriteOptions{Schema: recs[0].Schema(), Stats: StatsSpec{NumIndexedCols: -1}}, recs...)
	if !json.Valid([]byte(sum.Stats)) {
		t.Errorf("not JSON: %s", sum.Stats)
	}
	return sum.Stats
}

// present fails if bounds of either kind exclude a value that is there.
func present(t testing.TB, stats string, rec arrow.RecordBatch) {
	t.Helper()
	forms, nulls := leafValues([]arrow.RecordBatch{rec}, []int{0})
	for _, b := range []ordered.Bounds{StatsBounds(stats, rec.Schema())("c"), OwnStatsBounds(stats, rec.Schema())("c")} {
		tt, ok := t.(*testing.T)
		if ok {
			sound(tt, stats, b, facts{forms, nulls, rec.NumRows()})
		}
	}
}

func TestStringBoundsAreCutWithTieBreaker(t *testing.T) {
	const top = "\U0010ffff"
	a := func(n int) string { return strings.Repeat("a", n) }
	tops := func(n int) string { return strings.Repeat(top, n) }
	for _, c := range []struct{ value, min, max string }{
		{"", "", ""},
		{a(32), a(32), a(32)},
		{a(33), a(32), a(32) + "\x7f"},
		{a(32) + "\x7f", a(32), a(32) + top},
		{a(32) + "é", a(32), a(32) + top},
		{a(32) + top, a(32), a(32) + top},
		{a(32) + top + "z", a(32), a(32) + top + "\x7f"},
		{a(32) + top + top + "é", a(32), a(32) + top + top + top},
		{a(31) + "\U0001f600", a(31), a(31) + top}, // 33 units: the pair is not cut
		{a(31) + top, a(31), a(31) + top},
		{a(30) + "\U0001f600", a(30) + "\U0001f600", a(30) + "\U0001f600"},
		{strings.Repeat("日", 11), strings.Repeat("日", 11), strings.Repeat("日", 11)},
		{a(31) + "éé", a(31) + "é", a(31) + "é" + top},
		{a(32) + tops(16), a(32), a(32) + tops(16)},
		{a(32) + tops(17), a(32), a(32) + tops(17)},
		{a(32) + tops(18), a(32), "none"},
		{a(32) + tops(40) + "x", a(32), "none"},
	} {
		if got := truncateMin(c.value, 32); got != c.min {
			t.Errorf("min of %q: %q, want %q", c.value, got, c.min)
		}
		got, ok := truncateMax(c.value, 32)
		if !ok {
			got = "none"
		}
		if got != c.max {
			t.Errorf("max of %q: %q, want %q", c.value, got, c.max)
		}
		rec := oneColumn(arrow.BinaryTypes.String, c.value)
		present(t, statsOf(t, rec), rec)
	}
}

func TestStringBoundsHoldForEveryString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.RuneFrom([]rune{'a', '\x7e', '\x7f', 0x80, 0xffff, 0x10000, 0x10fffe, 0x10ffff}), 0, 90, -1).Draw(t, "s")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		if lo := truncateMin(s, n); lo > s || !strings.HasPrefix(s, lo) {
			t.Fatalf("min %q", lo)
		}
		if hi, ok := truncateMax(s, n); ok && hi < s {
			t.Fatalf("max %q", hi)
		}
	})
}

// Field problem D1: a second merge with the same keys must find them.
func TestD1KeysBeyondTheCutAreFound(t *testing.T) {
	k := strings.Repeat("a", 32)
	rec := oneColumn(arrow.BinaryTypes.String, k+"\U0010ffffz", k+"\U0001f600", k+"\uffff", k+"\U0010ffff")
	present(t, statsOf(t, rec), rec)
	// A writer that cuts without a tie-breaker.
	cut := `{"numRecords":4,"minValues":{"c":"` + k + `"},"maxValues":{"c":"` + k + `"},"nullCount":{"c":0}}`
	if StatsBounds(cut, rec.Schema())("c").Excludes([][]byte{ordered.AppendString(nil, k+"z")}) {
		t.Error("a max without tie-breaker is believed")
	}
}

// Field problem D2: no panic and valid JSON for strings cut within characters,
// and for bytes that are not UTF-8.
func TestD2InvalidUTF8GivesNoBoundAndNoPanic(t *testing.T) {
	for _, s := range []string{strings.Repeat("日", 11), strings.Repeat("a", 31) + "é", "\xff\xfe", strings.Repeat("\x80", 40), "a\xc3"} {
		rec := oneColumn(arrow.BinaryTypes.String, s, "b")
		present(t, statsOf(t, rec), rec)
	}
}

// Field problem D3: bounds are in milliseconds, cut towards the past.
func TestD3TimestampsAreFlooredAndWidened(t *testing.T) {
	for _, c := range []struct {
		micros int64
		text   string
	}{
		{1704196800123999, "2024-01-02T12:00:00.123"},
		{-1, "1969-12-31T23:59:59.999"},
		{-1000, "1969-12-31T23:59:59.999"},
		{-1001, "1969-12-31T23:59:59.998"},
		{253402300799999999, "9999-12-31T23:59:59.999"},
		{-62135596800000000, "0001-01-01T00:00:00.000"},
		{-62167219200000001, ""},
		{253402300800000000, ""},
		{math.MaxInt64, ""},
		{math.MinInt64, ""}, // years that not every reader reads have no bounds
	} {
		for typ, zone := range map[arrow.DataType]string{stamp: "Z", stampNTZ: ""} {
			rec := oneColumn(typ, arrow.Timestamp(c.micros))
			stats := statsOf(t, rec)
			want := `{"numRecords":1,"minValues":{},"maxValues":{},"nullCount":{"c":0}}`
			if c.text != "" {
				want = fmt.Sprintf(`{"numRecords":1,"minValues":{"c":"%s%s"},"maxValues":{"c":"%s%s"},"nullCount":{"c":0}}`, c.text, zone, c.text, zone)
			}
			if d := cmp.Diff(want, stats); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			present(t, stats, rec)
		}
	}
}

// Field problem D5: NaN is above everything; D6: the log stays JSON.
func TestD5D6NaNAndInfinityGiveNoWrongBounds(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		vals     []float64
		min, max string
	}{
		{[]float64{1, nan}, `"c":1.0`, ``},
		{[]float64{nan, 1}, `"c":1.0`, ``},
		{[]float64{nan}, ``, ``},
		{[]float64{1, inf}, `"c":1.0`, ``},
		{[]float64{-inf}, ``, ``},
		{[]float64{-inf, 2}, ``, `"c":2.0`},
		{[]float64{0}, `"c":-0.0`, `"c":0.0`},
		{[]float64{math.Copysign(0, -1)}, `"c":-0.0`, `"c":0.0`},
		{[]float64{1e300}, `"c":1.0E300`, `"c":1.0E300`},
	} {
		rec := oneColumn(arrow.PrimitiveTypes.Float64, c.vals...)
		stats := statsOf(t, rec)
		want := fmt.Sprintf(`{"numRecords":%d,"minValues":{%s},"maxValues":{%s},"nullCount":{"c":0}}`, len(c.vals), c.min, c.max)
		if d := cmp.Diff(want, stats); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.vals, d)
		}
		present(t, stats, rec)
		data, _ := writeFile(t, WriteOptions{Schema: rec.Schema()}, rec)
		f := openFile(t, data, rec.Schema())
		forms, nulls := leafValues([]arrow.RecordBatch{rec}, []int{0})
		sound(t, "row group", f.Bounds(0, "c"), facts{forms, nulls, f.NumRows()})
	}
}

// Field problems D7 and D8: all digits, and signed order of decimals.
func TestD7D8DecimalsAndLongsAreExact(t *testing.T) {
	long := oneColumn(arrow.PrimitiveTypes.Int64, int64(1<<53+1), math.MaxInt64)
	if got, want := statsOf(t, long), `{"numRecords":2,"minValues":{"c":9007199254740993},"maxValues":{"c":9223372036854775807},"nullCount":{"c":0}}`; got != want {
		t.Errorf("%s", got)
	}
	present(t, statsOf(t, long), long)
	for p := int32(1); p <= 38; p++ {
		for _, scale := range []int32{0, p / 2, p} {
			typ := &arrow.Decimal128Type{Precision: p, Scale: scale}
			nines, _ := new(big.Int).SetString(strings.Repeat("9", int(p)), 10)
			hi, one := decimal128.FromBigInt(nines), decimal128.FromI64(1)
			rec := oneColumn(typ, hi.Negate(), one, one.Negate(), decimal128.FromI64(0), hi)
			data, sum := writeFile(t, WriteOptions{Schema: rec.Schema(), Stats: StatsSpec{NumIndexedCols: -1}}, rec)
			text := strings.Repeat("9", int(p-scale)) + "." + strings.Repeat("9", int(scale))
			if scale == p {
				text = "0" + text
			}
			text = strings.TrimSuffix(text, ".")
			want := fmt.Sprintf(`{"numRecords":5,"minValues":{"c":-%s},"maxValues":{"c":%s},"nullCount":{"c":0}}`, text, text)
			if d := cmp.Diff(want, sum.Stats); d != "" {
				t.Errorf("%s (-want +got):\n%s", typ, d)
			}
			present(t, sum.Stats, rec)
			exact := ordered.Bounds{Min: ordered.Append(nil, rec.Column(0), 0), Max: ordered.Append(nil, rec.Column(0), 4), Rows: 5}
			f := openFile(t, data, rec.Schema())
			for what, b := range map[string]ordered.Bounds{"stats": OwnStatsBounds(sum.Stats, rec.Schema())("c"), "footer": f.Bounds(0, "c")} {
				if d := cmp.Diff(exact, b); d != "" {
					t.Errorf("%s of %s (-want +got):\n%s", what, typ, d)
				}
			}
		}
	}
	// The case of delta-rs#4757: the writer rounded 999999999999999999 to 1e18.
	typ := &arrow.Decimal128Type{Precision: 18}
	rec := oneColumn(typ, decimal128.FromI64(999999999999999999))
	for _, v := range []string{"1e18", "1000000000000000000", "1000000000000000000.0"} {
		present(t, `{"numRecords":1,"minValues":{"c":`+v+`},"maxValues":{"c":`+v+`},"nullCount":{"c":0}}`, rec)
	}
}

func TestStatisticsOfEmptyAndNullColumns(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{
		field("a", arrow.PrimitiveTypes.Int32), field("b", arrow.FixedWidthTypes.Boolean), field("x", arrow.BinaryTypes.Binary), field("v", arrow.Null),
		field("l", arrow.ListOfField(field("element", arrow.PrimitiveTypes.Int32))), field("st", arrow.StructOf(field("p", arrow.PrimitiveTypes.Int32), field("q", arrow.BinaryTypes.String))),
	}, nil)
	for _, c := range []struct{ rows, want string }{
		{`[]`, `{"numRecords":0,"minValues":{},"maxValues":{},"nullCount":{"a":0,"b":0,"x":0,"l":0,"st":{"p":0,"q":0}}}`},
		{
			`[{"a":null,"st":null},{"a":null,"b":true,"x":"AA==","l":[1],"st":{"p":5}}]`,
			`{"numRecords":2,"minValues":{"st":{"p":5}},"maxValues":{"st":{"p":5}},"nullCount":{"a":2,"b":1,"x":1,"l":1,"st":{"p":1,"q":2}}}`,
		},
	} {
		if d := cmp.Diff(c.want, statsOf(t, recordOf(t, s, c.rows))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

func TestColumnsThatHaveStatistics(t *testing.T) {
	i32 := arrow.PrimitiveTypes.Int32
	s := arrow.NewSchema([]arrow.Field{field("a", i32), field("s", arrow.StructOf(field("x", i32), field("y", i32))), field("m", arrow.MapOf(i32, i32)), field("B", i32), field("sx", i32)}, nil)
	rec := recordOf(t, s, `[{"a":1,"s":{"x":1,"y":1},"B":1,"sx":1}]`)
	for _, c := range []struct {
		spec StatsSpec
		want string // of nullCount
	}{
		{StatsSpec{NumIndexedCols: -1}, `{"a":0,"s":{"x":0,"y":0},"m":1,"B":0,"sx":0}`},
		{StatsSpec{NumIndexedCols: 2}, `{"a":0,"s":{"x":0}}`},
		{StatsSpec{NumIndexedCols: 4}, `{"a":0,"s":{"x":0,"y":0},"m":1}`},
		{StatsSpec{NumIndexedCols: 0}, `{}`},
		{StatsSpec{NumIndexedCols: 1, Always: []string{"b"}}, `{"a":0,"B":0}`},
		{StatsSpec{NumIndexedCols: 32, Columns: []string{"S"}}, `{"s":{"x":0,"y":0}}`},
		{StatsSpec{NumIndexedCols: 32, Columns: []string{}}, `{}`},
		{StatsSpec{Columns: []string{"s.y", "a"}, Always: []string{"B"}}, `{"a":0,"s":{"y":0},"B":0}`},
	} {
		_, sum := writeFile(t, WriteOptions{Schema: s, Stats: c.spec}, rec)
		_, got, _ := strings.Cut(sum.Stats, `"nullCount":`)
		if got = strings.TrimSuffix(got, "}"); got != c.want {
			t.Errorf("%+v: %s, want %s", c.spec, got, c.want)
		}
	}
}

func TestStatisticsOfForeignWriters(t *testing.T) {
	types := map[string]arrow.DataType{
		"i": arrow.PrimitiveTypes.Int32, "l": arrow.PrimitiveTypes.Int64, "d": arrow.PrimitiveTypes.Float64, "s": arrow.BinaryTypes.String,
		"t": stamp, "n": stampNTZ, "dt": arrow.FixedWidthTypes.Date32, "dec": &arrow.Decimal128Type{Precision: 10, Scale: 2}, "b": arrow.FixedWidthTypes.Boolean,
	}
	micros := func(v int64) []byte { return ordered.AppendInt64(nil, v) }
	const noon = 1704196800000000 // 2024-01-02T12:00:00Z
	both := func(b []byte) [2][]byte { return [2][]byte{b, b} }
	none := [2][]byte{}
	for _, c := range []struct {
		column, value string
		want          [2][]byte // min, max; nil: unknown
	}{
		{"i", `7`, both(ordered.Append(nil, oneColumn(arrow.PrimitiveTypes.Int32, int32(7)).Column(0), 0))},
		{"i", `7.0`, none},
		{"i", `3000000000`, none},
		{"i", `"7"`, none},
		{"i", `null`, none},
		{"l", `9007199254740993`, both(micros(9007199254740993))},
		{"l", `9.007199254740993e15`, none},
		{"l", `9223372036854775808`, none},
		{"d", `1.5`, [2][]byte{ordered.Append(nil, oneColumn(arrow.PrimitiveTypes.Float64, 1.5).Column(0), 0), nil}},
		{"d", `"NaN"`, [2][]byte{nil, ordered.Append(nil, oneColumn(arrow.PrimitiveTypes.Float64, math.NaN()).Column(0), 0)}},
		{"d", `"-Infinity"`, [2][]byte{ordered.Append(nil, oneColumn(arrow.PrimitiveTypes.Float64, math.Inf(-1)).Column(0), 0), nil}},
		{"d", `1e999`, none},
		{"s", `"abc"`, both(ordered.AppendString(nil, "abc"))},
		{"s", `"` + strings.Repeat("a", 30) + `"`, both(ordered.AppendString(nil, strings.Repeat("a", 30)))},
		{"s", `"` + strings.Repeat("a", 32) + `"`, [2][]byte{ordered.AppendString(nil, strings.Repeat("a", 32)), nil}},
		{"s", `"` + strings.Repeat("日", 10) + `"`, [2][]byte{ordered.AppendString(nil, strings.Repeat("日", 10)), nil}},
		{"s", `"` + strings.Repeat("a", 32) + `\u007f"`, both(ordered.AppendString(nil, strings.Repeat("a", 32)+"\x7f"))},
		{"s", `"a\ufffd"`, none},
		{"s", `5`, none},
		{"t", `"2024-01-02T12:00:00.000Z"`, [2][]byte{micros(noon), micros(noon + 1000)}},
		{"t", `"2024-01-02 04:00:00-08:00"`, [2][]byte{micros(noon), micros(noon + 1000)}},
		{"t", `"2024-01-02T12:00:00.000000+00:00"`, [2][]byte{micros(noon), micros(noon + 1000)}},
		{"t", `"2024-01-02 12:00:00"`, none},
		{"t", `"yesterday"`, none},
		{"n", `"2024-01-02T12:00:00.000"`, [2][]byte{micros(noon), micros(noon + 1000)}},
		{"n", `"2024-01-02T12:00:00.000Z"`, [2][]byte{micros(noon), micros(noon + 1000)}},
		{"n", `"2024-01-02T12:00:00.000+01:00"`, none},
		{"n", `"+294247-01-10T04:00:54.775807"`, both(micros(math.MaxInt64))},
		{"t", `"1970-01-01T00:00:00.000Z"`, [2][]byte{micros(-1000), micros(1000)}},
		{"n", `"1969-12-31T23:59:59"`, [2][]byte{micros(-1001000), micros(-999000)}},
		{"dt", `"-0001-01-01"`, both(ordered.Append(nil, oneColumn(arrow.FixedWidthTypes.Date32, arrow.Date32(-719893)).Column(0), 0))},
		{"dt", `"2024-02-30"`, none},
		{"dec", `1.239`, [2][]byte{
			ordered.Append(nil, oneColumn(types["dec"], decimal128.FromI64(123)).Column(0), 0),
			ordered.Append(nil, oneColumn(types["dec"], decimal128.FromI64(124)).Column(0), 0),
		}},
		{"dec", `1E+2`, both(ordered.Append(nil, oneColumn(types["dec"], decimal128.FromI64(10000)).Column(0), 0))},
		{"dec", `"1.23"`, none},
		{"dec", `1e500`, [2][]byte{nil, ordered.Append(nil, oneColumn(types["dec"], decimal128.FromI64(9999999999)).Column(0), 0)}},
		{"dec", `1e5000`, none},
		{"b", `true`, both(ordered.Append(nil, oneColumn(types["b"], true).Column(0), 0))},
	} {
		s := arrow.NewSchema([]arrow.Field{field(c.column, types[c.column])}, nil)
		stats := fmt.Sprintf(`{"numRecords":3,"minValues":{%q:%s},"maxValues":{%q:%s},"nullCount":{%q:1}}`, c.column, c.value, c.column, c.value, c.column)
		want := ordered.Bounds{Min: c.want[0], Max: c.want[1], NullCount: 1, Rows: 3}
		if d := cmp.Diff(want, StatsBounds(stats, s)(c.column)); d != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.column, c.value, d)
		}
	}
}

func TestStatisticsWithMissingAndOddMembers(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{field("c", arrow.PrimitiveTypes.Int64), field("st", arrow.StructOf(field("p", arrow.PrimitiveTypes.Int64)))}, nil)
	i := func(v int64) []byte { return ordered.AppendInt64(nil, v) }
	unknown := ordered.Unknown()
	rows := func(n int64) ordered.Bounds { return ordered.Bounds{NullCount: -1, Rows: n} }
	for _, c := range []struct {
		stats, column string
		want          ordered.Bounds
	}{
		{``, "c", unknown},
		{`null`, "c", unknown},
		{`{}`, "c", unknown},
		{`[]`, "c", unknown},
		{`{"numRecords":3`, "c", unknown},
		{`{"numRecords":3}`, "nosuch", rows(3)},
		{`{"numRecords":-3}`, "c", unknown},
		{`{"numRecords":3,"minValues":null,"maxValues":[],"nullCount":7}`, "c", rows(3)},
		{`{"numRecords":3,"minValues":{"c":5},"maxValues":{"c":4},"nullCount":{"c":0}}`, "c", ordered.Bounds{Rows: 3}},
		{`{"numRecords":3,"minValues":{"c":5},"maxValues":{"c":6},"nullCount":{"c":3}}`, "c", rows(3)},
		{`{"numRecords":3,"nullCount":{"c":4}}`, "c", rows(3)},
		{`{"numRecords":3,"nullCount":{"c":3}}`, "c", ordered.Bounds{NullCount: 3, Rows: 3}},
		{`{"numRecords":3,"tightBounds":false,"nullCount":{"c":2}}`, "c", rows(3)},
		{`{"numRecords":3,"tightBounds":false,"nullCount":{"c":3}}`, "c", ordered.Bounds{NullCount: 3, Rows: 3}},
		{`{"numRecords":3,"tightBounds":false,"nullCount":{"c":0},"minValues":{"C":1}}`, "c", ordered.Bounds{Min: i(1), Rows: 3}},
		{`{"numRecords":3,"minValues":{"C":1,"c ":2}}`, "C", ordered.Bounds{Min: i(1), NullCount: -1, Rows: 3}},
		{`{"numRecords":3,"minValues":{"st":{"p":1}},"maxValues":{"st":{"p":2}},"nullCount":{"st":{"p":0}}}`, "ST.p", ordered.Bounds{Min: i(1), Max: i(2), Rows: 3}},
		{`{"numRecords":3,"minValues":{"st":{"p":1}}}`, "st", rows(3)},
		{`{"numRecords":1.5,"minValues":{"c":1}}`, "c", ordered.Bounds{Min: i(1), NullCount: -1, Rows: -1}},
		{`{"numRecords":3,"minValues":{"c":1},"minValues":{"c":2}}`, "c", unknown},
	} {
		if d := cmp.Diff(c.want, StatsBounds(c.stats, s)(c.column)); d != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.column, c.stats, d)
		}
	}
}

// Field problem D13: whatever members are dropped from or spoilt in statistics,
// no value that is there is excluded.
func TestD13SpoiltStatisticsExcludeNothingThatIsThere(t *testing.T) {
	floor := scale(5000)
	seed := rand.Uint64()
	t.Logf("%d spoilt statistics, seed %d", floor, seed)
	for i := range floor {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		typ := randomAtom(r)
		rec := randomBatch(r, arrow.NewSchema([]arrow.Field{field("c", typ)}, nil), 1+r.IntN(6))
		var o map[string]any
		d := json.NewDecoder(strings.NewReader(statsOf(t, rec)))
		d.UseNumber()
		if err := d.Decode(&o); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"numRecords", "minValues", "maxValues", "nullCount"} {
			switch r.IntN(6) {
			case 0:
				delete(o, k)
			case 1:
				o[k] = pick[any](r, nil, true, "x", []any{})
			case 2:
				if m, ok := o[k].(map[string]any); ok {
					m["c"] = pick[any](r, nil, "", "NaN", []any{}, map[string]any{})
					if k != "maxValues" || m["c"] != "" {
						continue
					}
					delete(m, "c") // a max of "" would be a lie, not damage
				}
			}
		}
		if m, ok := o["minValues"].(map[string]any); ok && m["c"] == "NaN" && typ.ID() == arrow.STRING {
			delete(m, "c") // a lie as well
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := o["maxValues"].(map[string]any); ok && m["c"] == "NaN" && typ.ID() == arrow.STRING {
			continue
		}
		present(t, string(bytes.TrimSpace(text)), rec)
		if t.Failed() {
			t.Fatalf("statistics %d of seed %d: type %s", i, seed, typ)
		}
	}
}

func FuzzStatsBounds(f *testing.F) {
	for _, s := range []string{`{"numRecords":3,"minValues":{"c":5},"maxValues":{"c":4},"nullCount":{"c":0}}`, `{"minValues":{"c":"2024-01-02T00:00:00Z"}}`, `{"maxValues":{"c":1e300}}`, ``} {
		f.Add(s)
	}
	r := rand.New(rand.NewPCG(1, 1))
	var schemas []*arrow.Schema
	for range 60 {
		schemas = append(schemas, arrow.NewSchema([]arrow.Field{field("c", randomType(r, 1))}, nil))
	}
	f.Fuzz(func(t *testing.T, stats string) {
		for _, s := range schemas {
			b := StatsBounds(stats, s)("c")
			if b.NullCount < -1 || b.Rows < -1 || b.Min != nil && b.Max != nil && string(b.Min) > string(b.Max) {
				t.Errorf("%+v", b)
			}
		}
		StatsNumRecords(stats)
	})
}
