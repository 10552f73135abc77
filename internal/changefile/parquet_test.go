package changefile_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
)

var (
	longT    = arrow.PrimitiveTypes.Int64
	stringT  = arrow.BinaryTypes.String
	utcT     = arrow.FixedWidthTypes.Timestamp_us
	ntzT     = &arrow.TimestampType{Unit: arrow.Microsecond}
	nsUTC    = &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	dictText = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: stringT}
)

// column is a Parquet file with one column c of a type, its values in
// arrow-go's JSON form.
func column(t *testing.T, dt arrow.DataType, values string, opts ...pqarrow.WriterOption) []byte {
	t.Helper()
	arr, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	return parquetOf(t, opts, arrow.Field{Name: "c", Type: dt, Nullable: true}, arr)
}

func parquetOf(t *testing.T, opts []pqarrow.WriterOption, f arrow.Field, arr arrow.Array) []byte {
	t.Helper()
	sch := arrow.NewSchema([]arrow.Field{f}, nil)
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(sch, &buf, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties(append(opts, pqarrow.WithStoreSchema())...))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(array.NewRecordBatch(sch, []arrow.Array{arr}, int64(arr.Len()))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func schemaOf(dt arrow.DataType) *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "C", Type: dt}}, nil)
}

// outcome is the file's first column as JSON, or the error.
func outcome(data []byte, o *changefile.Options) string {
	f, err := changefile.Read(context.Background(), changefile.FromBytes("f.parquet", data), o)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, rec := range f.Records {
		for i := range int(rec.NumRows()) {
			out = append(out, rowfile.JSON(rec.Column(0), i))
		}
	}
	return strings.Join(out, " ")
}

func TestParquetConversions(t *testing.T) {
	list := func(e arrow.DataType, nullable bool) arrow.DataType {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: e, Nullable: nullable})
	}
	st := func(fields ...arrow.Field) arrow.DataType { return arrow.StructOf(fields...) }
	x := func(dt arrow.DataType) arrow.Field { return arrow.Field{Name: "x", Type: dt, Nullable: true} }
	for _, c := range []struct {
		name     string
		from, to arrow.DataType
		in, want string
	}{
		{"same", longT, longT, `[1,null]`, `1 null`},
		{"byte to long", arrow.PrimitiveTypes.Int8, longT, `[-128,null,127]`, `-128 null 127`},
		{"short to integer", arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, `[-32768]`, `-32768`},
		{"unsigned to wider", arrow.PrimitiveTypes.Uint32, longT, `[4294967295]`, `4294967295`},
		{"unsigned byte to short", arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int16, `[255]`, `255`},
		{"long to integer", longT, arrow.PrimitiveTypes.Int32, `[1]`, `f.parquet: column C: a file column of type int64 cannot be read as integer`},
		{"unsigned long", arrow.PrimitiveTypes.Uint64, longT, `[1]`, `f.parquet: column C: a file column of type uint64 cannot be read as long`},
		{"unsigned integer to integer", arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int32, `[1]`, `f.parquet: column C: a file column of type uint32 cannot be read as integer`},
		{"integer to double", arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64, `[2147483647]`, `2147483647.0`},
		{"long to double", longT, arrow.PrimitiveTypes.Float64, `[1]`, `f.parquet: column C: a file column of type int64 cannot be read as double`},
		{"float to double", arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, `[1.5]`, `1.5`},
		{"double to float", arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, `[1.5]`, `f.parquet: column C: a file column of type float64 cannot be read as float`},
		{"double to long", arrow.PrimitiveTypes.Float64, longT, `[1]`, `f.parquet: column C: a file column of type float64 cannot be read as long`},
		{"text to long", stringT, longT, `["1"]`, `f.parquet: column C: a file column of type utf8 cannot be read as long`},
		{"integer to decimal", arrow.PrimitiveTypes.Int32, &arrow.Decimal128Type{Precision: 12, Scale: 2}, `[-2147483648]`, `"-2147483648.00"`},
		{"integer to small decimal", arrow.PrimitiveTypes.Int32, &arrow.Decimal128Type{Precision: 11, Scale: 2}, `[1]`, `f.parquet: column C: a file column of type int32 cannot be read as decimal(11,2)`},
		{"decimal to wider", &arrow.Decimal128Type{Precision: 5, Scale: 2}, &arrow.Decimal128Type{Precision: 38, Scale: 30}, `["-123.45"]`, `"-123.450000000000000000000000000000"`},
		{"decimal to narrower", &arrow.Decimal128Type{Precision: 5, Scale: 2}, &arrow.Decimal128Type{Precision: 5, Scale: 1}, `["1.00"]`, `f.parquet: column C: a file column of type decimal(5, 2) cannot be read as decimal(5,1)`},
		{"decimal to fewer before the point", &arrow.Decimal128Type{Precision: 5, Scale: 2}, &arrow.Decimal128Type{Precision: 6, Scale: 4}, `["1.00"]`, `f.parquet: column C: a file column of type decimal(5, 2) cannot be read as decimal(6,4)`},
		{"large string", arrow.BinaryTypes.LargeString, stringT, `["a",null,""]`, `"a" null ""`},
		{"dictionary", dictText, stringT, `["a",null,"b","a"]`, `"a" null "b" "a"`},
		{"text to binary", stringT, arrow.BinaryTypes.Binary, `["a"]`, `f.parquet: column C: a file column of type utf8 cannot be read as binary`},
		{"binary to text", arrow.BinaryTypes.Binary, stringT, `["YQ=="]`, `f.parquet: column C: a file column of type binary cannot be read as string`},
		{"large binary", arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.Binary, `["YQ==",null]`, `"61" null`},
		{"fixed binary", &arrow.FixedSizeBinaryType{ByteWidth: 2}, arrow.BinaryTypes.Binary, `["YWI="]`, `"6162"`},
		{"milliseconds", &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}, utcT, `["2024-01-01T00:00:00.123Z"]`, `"2024-01-01T00:00:00.123000Z"`},
		{"other zone", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "America/Chicago"}, utcT, `["2024-01-01T00:00:00.000001-0600"]`, `"2024-01-01T06:00:00.000001Z"`},
		{"nanoseconds", nsUTC, utcT, `["2024-01-01T00:00:00.123456Z"]`, `"2024-01-01T00:00:00.123456Z"`},
		{"nanoseconds lost", nsUTC, utcT, `["2024-01-01T00:00:00Z","2024-01-01T00:00:00.123456789Z"]`, `f.parquet:2: column C: 1704067200123456789 ns: it has digits below the microsecond`},
		{"ntz in milliseconds", &arrow.TimestampType{Unit: arrow.Millisecond}, ntzT, `["2024-01-01T00:00:00.123"]`, `"2024-01-01T00:00:00.123000"`},
		{"instant to ntz", utcT, ntzT, `["2024-01-01T00:00:00Z"]`, `f.parquet: column C: the file's timestamps are instants (with a zone), the column is timestamp_ntz`},
		{"ntz to instant", ntzT, utcT, `["2024-01-01T00:00:00"]`, `f.parquet: column C: the file's timestamps have no zone and the column is timestamp: state the zone of such timestamps`},
		{"date", arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Date32, `["2024-02-29"]`, `"2024-02-29"`},
		{"date to timestamp", arrow.FixedWidthTypes.Date32, utcT, `["2024-02-29"]`, `f.parquet: column C: a file column of type date32 cannot be read as timestamp`},
		{"time", arrow.FixedWidthTypes.Time64us, longT, `["12:00:00"]`, `f.parquet: column C: a file column of type time64[us] cannot be read as long`},
		{"list of dictionary", list(dictText, true), list(stringT, true), `[["a","b"],null,[],["a",null]]`, `["a","b"] null [] ["a",null]`},
		{"list in full", list(longT, true), list(longT, false), `[[1],[2]]`, `[1] [2]`},
		{"null element", list(longT, true), list(longT, false), `[[1],null,[2,null]]`, `f.parquet:3: column C.element: null: it is declared not null`},
		{"large list", arrow.LargeListOf(arrow.PrimitiveTypes.Int32), list(longT, true), `[[1,2],null,[3]]`, `[1,2] null [3]`},
		{"element type", list(stringT, true), list(longT, true), `[["1"]]`, `f.parquet: column C: elements: a file column of type utf8 cannot be read as long`},
		{
			"struct by name", st(x(nsUTC), arrow.Field{Name: "Y", Type: arrow.BinaryTypes.LargeString, Nullable: true}), st(arrow.Field{Name: "y", Type: stringT, Nullable: true}, x(utcT), arrow.Field{Name: "z", Type: longT, Nullable: true}),
			`[{"x":"2024-01-01T00:00:00Z","Y":"a"},null,{"x":null,"Y":null}]`, `{"y":"a","x":"2024-01-01T00:00:00.000000Z","z":null} null {"y":null,"x":null,"z":null}`,
		},
		{"struct field that is unknown", st(x(longT)), st(arrow.Field{Name: "y", Type: longT, Nullable: true}), `[{"x":1}]`, `f.parquet: column C: unknown field C.x`},
		{"struct field that is missing", st(x(longT)), st(x(longT), arrow.Field{Name: "y", Type: longT}), `[{"x":1}]`, `f.parquet: column C: field C.y is declared not null and is missing`},
		{"struct field null", st(x(longT)), st(arrow.Field{Name: "x", Type: longT}), `[{"x":1},null,{"x":null}]`, `f.parquet:3: column C.x: null: it is declared not null`},
		{"required structs below a null one", st(arrow.Field{Name: "x", Type: st(arrow.Field{Name: "y", Type: longT})}), st(arrow.Field{Name: "x", Type: st(arrow.Field{Name: "y", Type: longT})}), `[null,{"x":{"y":1}},null]`, `null {"x":{"y":1}} null`},
		{"null below structs", st(arrow.Field{Name: "x", Type: st(x(longT)), Nullable: true}), st(arrow.Field{Name: "x", Type: st(arrow.Field{Name: "x", Type: longT})}), `[null,{"x":{"x":1}},{"x":{"x":null}}]`, `f.parquet:3: column C.x.x: null: it is declared not null`},
		{"map", arrow.MapOf(stringT, arrow.PrimitiveTypes.Int32), arrow.MapOf(stringT, longT), `[[{"key":"a","value":1},{"key":"b","value":null}],null,[]]`, `{"$map":[["a",1],["b",null]]} null {"$map":[]}`},
		{"map key twice", arrow.MapOf(stringT, longT), arrow.MapOf(stringT, longT), `[[],[{"key":"a","value":1},{"key":"a","value":2}]]`, `f.parquet:2: column C: a: the key stands twice in one map`},
		{"nanoseconds in a list", list(nsUTC, true), list(utcT, true), `[[],["2024-01-01T00:00:00Z"],["2024-01-01T00:00:00Z","2024-01-01T00:00:00.000000001Z"]]`, `f.parquet:3: column C.element: 1704067200000000001 ns: it has digits below the microsecond`},
		{"struct to list", st(x(longT)), list(longT, true), `[{"x":1}]`, `f.parquet: column C: a file column of type struct<x: int64 nullable> cannot be read as array<long>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := column(t, c.from, c.in)
			if got := outcome(data, &changefile.Options{Schema: schemaOf(c.to)}); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestParquetZone(t *testing.T) {
	data := column(t, ntzT, `["2024-07-01T12:00:00.25","1969-07-01T12:00:00.25"]`)
	chicago, err := time.LoadLocation("America/Chicago")
	if err != nil {
		t.Skip("no time zone data here: ", err)
	}
	if got, want := outcome(data, &changefile.Options{Schema: schemaOf(utcT), Zone: chicago}), `"2024-07-01T17:00:00.250000Z" "1969-07-01T17:00:00.250000Z"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The types that a file brings where none are asked for.
func TestParquetTypesFromFile(t *testing.T) {
	for _, c := range []struct {
		from arrow.DataType
		in   string
		want arrow.DataType
	}{
		{arrow.PrimitiveTypes.Uint8, `[255]`, arrow.PrimitiveTypes.Int16},
		{arrow.PrimitiveTypes.Uint64, `[18446744073709551615]`, &arrow.Decimal128Type{Precision: 20}},
		{arrow.BinaryTypes.LargeString, `["a"]`, stringT},
		{dictText, `["a"]`, stringT},
		{nsUTC, `["2024-01-01T00:00:00Z"]`, utcT},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, `["2024-01-01T00:00:00"]`, ntzT},
		{arrow.LargeListOf(arrow.BinaryTypes.LargeString), `[["a"]]`, arrow.ListOfField(arrow.Field{Name: "element", Type: stringT, Nullable: true})},
		{&arrow.FixedSizeBinaryType{ByteWidth: 1}, `["YQ=="]`, arrow.BinaryTypes.Binary},
	} {
		f := read(t, "f.parquet", column(t, c.from, c.in), nil)
		if got := f.Records[0].Schema().Field(0); !arrow.TypeEqual(got.Type, c.want) || got.Name != "c" {
			t.Errorf("%s was read as %s, want %s", c.from, got, c.want)
		}
	}
	if got, want := outcome(column(t, arrow.FixedWidthTypes.Time64us, `["12:00:00"]`), nil), `f.parquet: column c: a file column of type time64[us] has no Delta type`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestParquetInt96(t *testing.T) {
	for in, want := range map[string]string{
		`["2024-01-01T00:00:00.123456Z",null,"1969-12-31T23:59:59.999999Z"]`: `"2024-01-01T00:00:00.123456Z" null "1969-12-31T23:59:59.999999Z"`,
		`[null,"2024-01-01T00:00:00.000000001Z"]`:                            `f.parquet:2: column C: day 19723, nanosecond 1: it has digits below the microsecond`,
	} {
		data := column(t, nsUTC, in, pqarrow.WithDeprecatedInt96Timestamps(true))
		if got := outcome(data, &changefile.Options{Schema: schemaOf(utcT)}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := outcome(data, &changefile.Options{Schema: schemaOf(longT)}); !strings.HasPrefix(got, "f.parquet: column C: a file column of type timestamp") {
			t.Errorf("INT96 as long: %s", got)
		}
	}
}

// INT96 far from today, in several row groups, beside other columns and alone.
func TestParquetInt96IsNotBoundByNanoseconds(t *testing.T) {
	col := func(name string, rep parquet.Repetition, typ parquet.Type) schema.Node {
		n, err := schema.NewPrimitiveNode(name, rep, typ, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	root, err := schema.NewGroupNode("root", parquet.Repetitions.Required, schema.FieldList{
		col("a", parquet.Repetitions.Required, parquet.Types.Int64), col("t", parquet.Repetitions.Optional, parquet.Types.Int96), col("u", parquet.Repetitions.Required, parquet.Types.Int96),
	}, -1)
	if err != nil {
		t.Fatal(err)
	}
	at := func(day int64, nanos uint64) (v parquet.Int96) {
		binary.LittleEndian.PutUint64(v[:8], nanos)
		binary.LittleEndian.PutUint32(v[8:], uint32(day+2440588))
		return v
	}
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, root)
	values := []parquet.Int96{at(2932896, 86399_999999000), at(-719162, 0), at(19723, 1000)} // 9999-12-31, 0001-01-01, 2024-01-01
	for range 3 {
		rg, err := w.AppendRowGroupChecked()
		if err != nil {
			t.Fatal(err)
		}
		next := func() file.ColumnChunkWriter {
			c, err := rg.NextColumn()
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		a := next().(*file.Int64ColumnChunkWriter)
		_, errA := a.WriteBatch([]int64{1, 2, 3}, nil, nil)
		ts := next().(*file.Int96ColumnChunkWriter)
		_, errT := ts.WriteBatch(values[:2], []int16{1, 0, 1}, nil)
		u := next().(*file.Int96ColumnChunkWriter)
		_, errU := u.WriteBatch(values, nil, nil)
		if err := errors.Join(errA, errT, errU, a.Close(), ts.Close(), u.Close(), rg.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f := read(t, "f.parquet", buf.Bytes(), nil)
	rows := `{"a":1,"t":"9999-12-31T23:59:59.999999Z","u":"9999-12-31T23:59:59.999999Z"}
{"a":2,"t":null,"u":"0001-01-01T00:00:00.000000Z"}
{"a":3,"t":"0001-01-01T00:00:00.000000Z","u":"2024-01-01T00:00:00.000001Z"}
`
	if diff := cmp.Diff(strings.Repeat(rows, 3), string(write(t, rowfile.JSONL, f.Records[0].Schema(), f.Records...))); diff != "" {
		t.Error(diff)
	}
	alone := arrow.NewSchema([]arrow.Field{{Name: "U", Type: utcT}}, nil)
	want := strings.TrimSuffix(strings.Repeat(`"9999-12-31T23:59:59.999999Z" "0001-01-01T00:00:00.000000Z" "2024-01-01T00:00:00.000001Z" `, 3), " ")
	if got := outcome(buf.Bytes(), &changefile.Options{Schema: alone, AllowUnknown: true}); got != want {
		t.Errorf("got %s", got)
	}
}

func TestParquetInvalidUTF8(t *testing.T) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.AppendValues([]string{"ok", "a\xffb"}, nil)
	data := parquetOf(t, nil, arrow.Field{Name: "c", Type: stringT}, b.NewArray())
	if got, want := outcome(data, nil), `f.parquet:2: column c: a\xffb: invalid UTF-8`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParquetColumns(t *testing.T) {
	data := column(t, longT, `[1,2]`)
	two := arrow.NewSchema([]arrow.Field{{Name: "other", Type: stringT}, {Name: "C", Type: longT}}, nil)
	f := read(t, "f.parquet", data, &changefile.Options{Schema: two})
	if diff := cmp.Diff(map[string]bool{"C": true}, f.Present); diff != "" {
		t.Error(diff)
	}
	if got := string(write(t, rowfile.JSONL, f.Records[0].Schema(), f.Records...)); got != "{\"other\":null,\"C\":1}\n{\"other\":null,\"C\":2}\n" {
		t.Errorf("read as %s", got)
	}
	other := arrow.NewSchema([]arrow.Field{{Name: "other", Type: stringT}}, nil)
	if got, want := outcome(data, &changefile.Options{Schema: other}), "f.parquet: column c: unknown field"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := outcome(data, &changefile.Options{Schema: other, AllowUnknown: true}), "null null"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParquetDamage(t *testing.T) {
	good := column(t, stringT, `["some","text","to","damage",null,"more of it"]`)
	for _, data := range [][]byte{nil, []byte("PAR1"), good[:len(good)-1], good[4:], bytes.Repeat([]byte("PAR1"), 40)} {
		_, err := changefile.Read(context.Background(), changefile.FromBytes("f.parquet", data), nil)
		var ie *changefile.InputError
		if !errors.As(err, &ie) {
			t.Errorf("%d bytes of damage: %v", len(data), err)
		}
	}
	for i := range good { // no damage may crash the reader or go on as another kind of error
		bad := bytes.Clone(good)
		bad[i] ^= 0x55
		_, err := changefile.Read(context.Background(), changefile.FromBytes("f.parquet", bad), nil)
		var ie *changefile.InputError
		if err != nil && !errors.As(err, &ie) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

// failing is a reader whose store fails.
type failing struct{ io.Reader }

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("the disk is gone") }
func (failing) Size() int64                       { return math.MaxInt32 }
func (failing) Close() error                      { return nil }

func TestParquetFromStore(t *testing.T) {
	ctx := context.Background()
	s, err := blobstore.Open(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for key, data := range map[string][]byte{"in/f.parquet": column(t, longT, `[7]`), "in/f.jsonl": []byte(`{"c":7}`)} {
		if err := s.Put(ctx, key, data); err != nil {
			t.Fatal(err)
		}
		f, err := changefile.Read(ctx, changefile.FromStore(key, s, key), &changefile.Options{Schema: schemaOf(longT)})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(write(t, rowfile.JSONL, f.Records[0].Schema(), f.Records...)); got != "{\"C\":7}\n" {
			t.Errorf("%s was read as %s", key, got)
		}
	}
	if _, err := changefile.Read(ctx, changefile.FromStore("x.parquet", s, "x.parquet"), nil); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("an object that is not there: %v", err)
	}
	src := changefile.Source{Name: "f.parquet", Open: func(context.Context) (io.ReadCloser, error) { return failing{}, nil }}
	if _, err := changefile.Read(ctx, src, nil); err == nil || err.Error() != "read f.parquet: the disk is gone" {
		t.Errorf("a failing store: %v", err)
	}
}
