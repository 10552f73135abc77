package rowfile_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/internal/tabletest"
)

func write(t testing.TB, format string, sch *arrow.Schema, recs ...arrow.RecordBatch) string {
	t.Helper()
	var buf bytes.Buffer
	w, err := rowfile.NewWriter(&buf, format, sch)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// sample has one column of each type and two rows, the second NULL throughout.
func sample() (*arrow.Schema, arrow.RecordBatch) {
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "d", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "dec", Type: &arrow.Decimal128Type{Precision: 10, Scale: 3}, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "bin", Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "ts", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
		{Name: "ntz", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true},
		{Name: "v", Type: arrow.Null, Nullable: true},
		{Name: "l", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
		{Name: "m", Type: arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64), Nullable: true},
		{Name: "st", Type: arrow.StructOf(arrow.Field{Name: "x\"", Type: arrow.FixedWidthTypes.Date32, Nullable: true}, arrow.Field{Name: "y", Type: arrow.Null, Nullable: true}), Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sch)
	b.Field(0).(*array.BooleanBuilder).Append(true)
	b.Field(1).(*array.Int64Builder).Append(math.MinInt64)
	b.Field(2).(*array.Float32Builder).Append(0.1)
	b.Field(3).(*array.Float64Builder).Append(math.Copysign(0, -1))
	b.Field(4).(*array.Decimal128Builder).Append(decimal128.FromI64(-7))
	b.Field(5).(*array.StringBuilder).Append("a \"b\",\n\u2028ü")
	b.Field(6).(*array.BinaryBuilder).Append([]byte{0, 0xab})
	b.Field(7).(*array.Date32Builder).Append(-1)
	b.Field(8).(*array.TimestampBuilder).Append(-1)
	b.Field(9).(*array.TimestampBuilder).Append(253402300800000000)
	b.Field(10).AppendNull()
	l := b.Field(11).(*array.ListBuilder)
	l.Append(true)
	l.ValueBuilder().(*array.StringBuilder).AppendValues([]string{"x", ""}, []bool{true, false})
	m := b.Field(12).(*array.MapBuilder)
	m.Append(true)
	m.KeyBuilder().(*array.Int32Builder).AppendValues([]int32{2, 1}, nil)
	m.ItemBuilder().(*array.Float64Builder).AppendValues([]float64{math.NaN(), math.Inf(-1)}, nil)
	st := b.Field(13).(*array.StructBuilder)
	st.Append(true)
	st.FieldBuilder(0).(*array.Date32Builder).Append(0)
	st.FieldBuilder(1).AppendNull()
	for i := range sch.Fields() {
		b.Field(i).AppendNull()
	}
	return sch, b.NewRecordBatch()
}

func TestJSONLEncoding(t *testing.T) {
	sch, rec := sample()
	want := `{"b":true,"n":-9223372036854775808,"f":0.1,"d":-0.0,"dec":"-0.007","s":"a \"b\",\n` + "\u2028" + `ü","bin":"00ab","day":"1969-12-31","ts":"1969-12-31T23:59:59.999999Z","ntz":"+10000-01-01T00:00:00.000000","v":null,"l":["x",null],"m":{"$map":[[2,"NaN"],[1,"-Infinity"]]},"st":{"x\"":"1970-01-01","y":null}}
{"b":null,"n":null,"f":null,"d":null,"dec":null,"s":null,"bin":null,"day":null,"ts":null,"ntz":null,"v":null,"l":null,"m":null,"st":null}
`
	if diff := cmp.Diff(want, write(t, rowfile.JSONL, sch, rec)); diff != "" {
		t.Error(diff)
	}
}

func TestCSVEncoding(t *testing.T) {
	sch, rec := sample()
	want := `b,n,f,d,dec,s,bin,day,ts,ntz,v,l,m,st
true,-9223372036854775808,0.1,-0.0,-0.007,"a ""b"",
` + "\u2028" + `ü",00ab,1969-12-31,1969-12-31T23:59:59.999999Z,+10000-01-01T00:00:00.000000,,"[""x"",null]","{""$map"":[[2,""NaN""],[1,""-Infinity""]]}","{""x\"""":""1970-01-01"",""y"":null}"
,,,,,,,,,,,,,
`
	if diff := cmp.Diff(want, write(t, rowfile.CSV, sch, rec)); diff != "" {
		t.Error(diff)
	}
}

func texts(values ...any) (*arrow.Schema, arrow.RecordBatch) {
	sch := arrow.NewSchema([]arrow.Field{{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sch)
	for i, v := range values {
		if s, ok := v.(string); ok {
			b.Field(0).(*array.StringBuilder).Append(s)
		} else {
			b.Field(0).AppendNull()
		}
		b.Field(1).(*array.Int64Builder).Append(int64(math.Pow10(i)))
	}
	return sch, b.NewRecordBatch()
}

func TestCSVTellsNullFromEmpty(t *testing.T) {
	sch, rec := texts("", nil, " ", `"`, "\r", "plain")
	want := "text,n\n\"\",1\n,10\n\" \",100\n\"\"\"\",1000\n\"\r\",10000\nplain,100000\n"
	if diff := cmp.Diff(want, write(t, rowfile.CSV, sch, rec)); diff != "" {
		t.Error(diff)
	}
}

func TestTableAligns(t *testing.T) {
	sch, rec := texts("a", nil, "日本\n", "e\u0301", "")
	want := "text        n\n" +
		"------  -----\n" +
		"a           1\n" +
		"NULL       10\n" +
		"日本\\n    100\n" +
		"e\u0301        1000\n" +
		"        10000\n"
	if diff := cmp.Diff(want, write(t, rowfile.Table, sch, rec)); diff != "" {
		t.Error(diff)
	}
}

func TestTableStreamsLongOutputs(t *testing.T) {
	sch, rec := texts("a", "b")
	recs := make([]arrow.RecordBatch, 3000)
	for i := range recs {
		recs[i] = rec
	}
	got := write(t, rowfile.Table, sch, recs...)
	if n := strings.Count(got, "\n"); n != 6002 {
		t.Errorf("%d lines", n)
	}
}

func TestOutputsWithoutRows(t *testing.T) {
	sch, _ := texts()
	for format, want := range map[string]string{rowfile.JSONL: "", rowfile.CSV: "text,n\n", rowfile.Table: "text  n\n----  -\n"} {
		if got := write(t, format, sch); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
	for _, format := range []string{rowfile.Parquet, rowfile.Arrow} {
		if got := write(t, format, sch); len(got) < 8 {
			t.Errorf("%s: %q is no whole file", format, got)
		}
	}
}

func TestInvalidUTF8IsRefused(t *testing.T) {
	sch, rec := texts("a\xff")
	for format, want := range map[string]string{
		rowfile.JSONL: `write JSON Lines: column text: "a\xff" is not valid UTF-8`,
		rowfile.CSV:   `write CSV: column text: "a\xff" is not valid UTF-8`,
	} {
		w, err := rowfile.NewWriter(io.Discard, format, sch)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(rec); err == nil || err.Error() != want {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestNewWriterRefuses(t *testing.T) {
	ok, _ := texts()
	odd := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.ListOf(arrow.BinaryTypes.LargeString)}}, nil)
	for want, f := range map[string]func() (rowfile.Writer, error){
		`unknown output format "xml"; formats are table, jsonl, csv, parquet and arrow`: func() (rowfile.Writer, error) { return rowfile.NewWriter(io.Discard, "xml", ok) },
		`column c: large_utf8 is no canonical type`:                                     func() (rowfile.Writer, error) { return rowfile.NewWriter(io.Discard, "jsonl", odd) },
	} {
		if w, err := f(); w != nil || err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	sch, rec := sample()
	var plain, quoted []string
	for i := range sch.NumFields() {
		plain = append(plain, rowfile.Format(rec.Column(i), 0))
		quoted = append(quoted, rowfile.Quote(rec.Column(i), 0))
	}
	want := []string{"true", "-9223372036854775808", "0.1", "-0.0", "-0.007", "a \"b\",\n\u2028ü", "00ab", "1969-12-31", "1969-12-31T23:59:59.999999Z", "+10000-01-01T00:00:00.000000", "NULL", `["x",null]`, `{"$map":[[2,"NaN"],[1,"-Infinity"]]}`, `{"x\"":"1970-01-01","y":null}`}
	if diff := cmp.Diff(want, plain); diff != "" {
		t.Error(diff)
	}
	want[5] = `"a \"b\",\n` + "\u2028" + `ü"`
	if diff := cmp.Diff(want, quoted); diff != "" {
		t.Error(diff)
	}
}

// Dates and floats against the standard library.
func TestNumbersAndTimesAgreeWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		day := rapid.Int32().Draw(t, "day")
		d := array.NewDate32Builder(memory.DefaultAllocator)
		d.Append(arrow.Date32(day))
		y, m, dd := time.Unix(int64(day)*86400, 0).UTC().Date()
		sign := ""
		if y < 0 {
			sign, y = "-", -y
		} else if y > 9999 {
			sign = "+"
		}
		if got, want := rowfile.Format(d.NewArray(), 0), fmt.Sprintf("%s%04d-%02d-%02d", sign, y, m, dd); got != want {
			t.Fatalf("day %d: %s, want %s", day, got, want)
		}
		us := rapid.Int64Range(-62135596800000000, 253402300799999999).Draw(t, "us")
		ts := array.NewTimestampBuilder(memory.DefaultAllocator, arrow.FixedWidthTypes.Timestamp_us.(*arrow.TimestampType))
		ts.Append(arrow.Timestamp(us))
		if got, want := rowfile.Format(ts.NewArray(), 0), time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z"); got != want {
			t.Fatalf("%d µs: %s, want %s", us, got, want)
		}
		f := rapid.Float64().Draw(t, "double")
		fb := array.NewFloat64Builder(memory.DefaultAllocator)
		fb.Append(f)
		text := rowfile.Format(fb.NewArray(), 0)
		if back, err := strconv.ParseFloat(text, 64); err != nil || math.Float64bits(back) != math.Float64bits(f) {
			t.Fatalf("%v is written %s", f, text)
		}
		dec := tabletest.RandomDecimal(tabletest.NewRand(rapid.Uint64().Draw(t, "seed")), &arrow.Decimal128Type{Precision: 38})
		scale := int32(rapid.IntRange(0, 38).Draw(t, "scale"))
		db := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 38, Scale: scale})
		db.Append(dec)
		if got, want := rowfile.Format(db.NewArray(), 0), plainDecimal(dec, int(scale)); got != want {
			t.Fatalf("decimal %s, want %s", got, want)
		}
	})
}

func plainDecimal(v decimal128.Num, scale int) string {
	s := v.BigInt().String()
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for len(s) <= scale {
		s = "0" + s
	}
	if scale == 0 {
		return sign + s
	}
	return sign + s[:len(s)-scale] + "." + s[len(s)-scale:]
}

// Every line is JSON to the standard library too, CSV has as many records as
// there are rows, and the Arrow stream gives the same rows back.
func TestEveryFormatHoldsEveryRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := tabletest.NewRand(rapid.Uint64().Draw(t, "seed"))
		sch := arrow.NewSchema(tabletest.RandomFields(r, 2+r.IntN(4), 3), nil)
		rec := tabletest.RandomRecord(r, sch, rapid.IntRange(0, 30).Draw(t, "rows"))
		out := map[string]*bytes.Buffer{}
		for _, format := range rowfile.Formats() {
			out[format] = &bytes.Buffer{}
			w, err := rowfile.NewWriter(out[format], format, sch)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for l := range strings.Lines(out[rowfile.JSONL].String()) {
			if !json.Valid([]byte(l)) {
				t.Fatalf("%s is no JSON", l)
			}
		}
		if n := strings.Count(out[rowfile.JSONL].String(), "\n"); int64(n) != rec.NumRows() {
			t.Fatalf("%d lines for %d rows", n, rec.NumRows())
		}
		recs, err := csv.NewReader(out[rowfile.CSV]).ReadAll()
		if err != nil || int64(len(recs)) != rec.NumRows()+1 {
			t.Fatalf("CSV: %d records for %d rows, %v", len(recs), rec.NumRows(), err)
		}
		if n := strings.Count(out[rowfile.Table].String(), "\n"); int64(n) != rec.NumRows()+2 {
			t.Fatalf("table: %d lines for %d rows", n, rec.NumRows())
		}
		rd, err := ipc.NewReader(out[rowfile.Arrow])
		if err != nil {
			t.Fatal(err)
		}
		for rd.Next() {
			for i := range int(rec.NumCols()) {
				for k := range int(rec.NumRows()) {
					if a, b := rowfile.JSON(rec.Column(i), k), rowfile.JSON(rd.RecordBatch().Column(i), k); a != b {
						t.Fatalf("Arrow: %s came back as %s", a, b)
					}
				}
			}
		}
		if rd.Err() != nil {
			t.Fatal(rd.Err())
		}
	})
}

func BenchmarkJSONL(b *testing.B) {
	r := tabletest.NewRand(1)
	sch := arrow.NewSchema([]arrow.Field{{Name: "entity_id", Type: arrow.BinaryTypes.String}, {Name: "source_version", Type: arrow.PrimitiveTypes.Int64}, {Name: "status", Type: arrow.BinaryTypes.String}, {Name: "at", Type: arrow.FixedWidthTypes.Timestamp_us}, {Name: "price", Type: &arrow.Decimal128Type{Precision: 18, Scale: 2}}}, nil)
	rec := tabletest.RandomRecord(r, sch, 50_000)
	b.SetBytes(int64(len(write(b, rowfile.JSONL, sch, rec))))
	for b.Loop() {
		w, err := rowfile.NewWriter(io.Discard, rowfile.JSONL, sch)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Write(rec); err != nil {
			b.Fatal(err)
		}
	}
}

// Void columns, nested ones too, survive Parquet and Arrow.
func TestVoidIsWritten(t *testing.T) {
	sch, rec := sample()
	want := write(t, rowfile.JSONL, sch, rec)
	f, err := changefile.Read(t.Context(), changefile.FromBytes("f.parquet", []byte(write(t, rowfile.Parquet, sch, rec))), &changefile.Options{Schema: sch})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, write(t, rowfile.JSONL, sch, f.Records...)); diff != "" {
		t.Error(diff)
	}
}
