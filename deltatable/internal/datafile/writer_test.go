package datafile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

func longs(name string, from, n int64) arrow.RecordBatch {
	vals := make([]int64, n)
	for i := range vals {
		vals[i] = from + int64(i)
	}
	rec := oneColumn(arrow.PrimitiveTypes.Int64, vals...)
	return rec
}

func TestRowGroupsHaveTheRowsAskedFor(t *testing.T) {
	for _, c := range []struct {
		limit   int
		batches []int64
		want    []int64
	}{
		{100, []int64{100}, []int64{100}},
		{100, []int64{40, 60, 100, 0, 1}, []int64{100, 100, 1}},
		{100, []int64{250}, []int64{100, 100, 50}},
		{5000, []int64{sampleRows - 1, 1, 10000}, []int64{5000, 5000, 4096}},
		{0, []int64{DefaultRowGroupRows + 1}, []int64{DefaultRowGroupRows, 1}},
		{100, nil, nil},
	} {
		var recs []arrow.RecordBatch
		at := int64(0)
		for _, n := range c.batches {
			recs = append(recs, longs("c", at, n))
			at += n
		}
		s := longs("c", 0, 0).Schema()
		data, sum := writeFile(t, WriteOptions{Schema: s, RowGroupRows: c.limit}, recs...)
		f := openFile(t, data, s)
		var got []int64
		for g := range f.RowGroups() {
			_, rows := f.RowGroup(g)
			got = append(got, rows)
		}
		if d := cmp.Diff(c.want, got); d != "" || sum.NumRecords != at || f.NumRows() != at {
			t.Errorf("%+v: %d and %d rows (-want +got):\n%s", c, sum.NumRecords, f.NumRows(), d)
		}
	}
}

func TestWideRowsMakeSmallerRowGroups(t *testing.T) {
	s := longs("c", 0, 0).Schema()
	data, _ := writeFile(t, WriteOptions{Schema: s, RowGroupBytes: 8 * 1000}, longs("c", 0, 500), longs("c", 500, 5000))
	f := openFile(t, data, s)
	var got []int64
	for g := range f.RowGroups() {
		_, rows := f.RowGroup(g)
		got = append(got, rows)
	}
	if d := cmp.Diff([]int64{1000, 1000, 1000, 1000, 1000, 500}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	data, _ = writeFile(t, WriteOptions{Schema: s, RowGroupBytes: 1}, longs("c", 0, 3))
	if f := openFile(t, data, s); f.RowGroups() != 3 {
		t.Errorf("%d row groups", f.RowGroups())
	}
}

func TestDictionaryOnlyWhereValuesRepeat(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{
		field("key", arrow.BinaryTypes.String), field("status", arrow.BinaryTypes.String),
		field("l", arrow.ListOfField(field("element", arrow.PrimitiveTypes.Int64))), field("m", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)),
	}, nil)
	var rows []string
	for i := range 500 {
		rows = append(rows, fmt.Sprintf(`{"key":"account-%d","status":"s%d","l":[%d],"m":[{"key":"k%d","value":%d}]}`, i, i%3, i, i%4, i))
	}
	data, _ := writeFile(t, WriteOptions{Schema: s}, recordOf(t, s, "["+strings.Join(rows, ",")+"]"))
	f := openFile(t, data, s)
	got := map[string]bool{}
	md := f.reader.MetaData()
	for i := range md.Schema.NumColumns() {
		cc, err := md.RowGroup(0).ColumnChunk(i)
		if err != nil {
			t.Fatal(err)
		}
		got[md.Schema.Column(i).Path()] = cc.HasDictionaryPage()
	}
	want := map[string]bool{"key": false, "status": true, "l.list.element": false, "m.key_value.key": true, "m.key_value.value": false}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("dictionaries (-want +got):\n%s", d)
	}
	if f.CreatedBy() != createdBy || md.Version() != parquet.V1_0 {
		t.Errorf("created by %q, version %v", f.CreatedBy(), md.Version())
	}
}

func TestStoredSchemaIsWhatEveryReaderKnows(t *testing.T) {
	ds, err := schema.ParseDDL("a byte not null, b timestamp, c timestamp_ntz, d decimal(9,2), e decimal(18,2), f decimal(38,2), g date, l array<int>, m map<string,long>, s struct<x:int,v:void>, v void, x binary, t string")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ds.Arrow()
	if err != nil {
		t.Fatal(err)
	}
	data, _ := writeFile(t, WriteOptions{Schema: s})
	f := openFile(t, data, s)
	md := f.reader.MetaData()
	var got []string
	for i := range md.Schema.NumColumns() {
		c := md.Schema.Column(i)
		got = append(got, fmt.Sprintf("%s %s %s %s/%d/%d", c.Path(), c.PhysicalType(), c.LogicalType(), c.ConvertedType(), c.MaxDefinitionLevel(), c.MaxRepetitionLevel()))
	}
	want := []string{
		"a INT32 Int(bitWidth=8, isSigned=true) INT_8/1/0",
		"b INT64 Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false) TIMESTAMP_MICROS/1/0",
		"c INT64 Timestamp(isAdjustedToUTC=false, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false) NONE/1/0",
		"d INT32 Decimal(precision=9, scale=2) DECIMAL/1/0",
		"e INT64 Decimal(precision=18, scale=2) DECIMAL/1/0",
		"f FIXED_LEN_BYTE_ARRAY Decimal(precision=38, scale=2) DECIMAL/1/0",
		"g INT32 Date DATE/1/0",
		"l.list.element INT32 Int(bitWidth=32, isSigned=true) INT_32/3/1",
		"m.key_value.key BYTE_ARRAY String UTF8/2/1",
		"m.key_value.value INT64 Int(bitWidth=64, isSigned=true) INT_64/3/1",
		"s.x INT32 Int(bitWidth=32, isSigned=true) INT_32/2/0",
		"x BYTE_ARRAY None NONE/1/0",
		"t BYTE_ARRAY String UTF8/1/0",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestValuesThatMayNotBeWrittenAreRefused(t *testing.T) {
	for _, c := range []struct{ ddl, rows, column string }{
		{"a int not null", `[{"a":1},{"a":null}]`, "a"},
		{"s struct<x:int not null>", `[{"s":null},{"s":{"x":null}}]`, "s"},
		{"l array<struct<x:int not null>>", `[{"l":null},{"l":[{"x":1},{"x":null}]}]`, "l"},
		{"v varchar(3)", `[{"v":"日本語"},{"v":"abcd"}]`, "v"},
		{"c char(3)", `[{"c":"abc"},{"c":"ab"}]`, "c"},
	} {
		ds, err := schema.ParseDDL(c.ddl)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ds.Arrow()
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(io.Discard, WriteOptions{Schema: s})
		if err != nil {
			t.Fatal(err)
		}
		rec := recordOf(t, s, c.rows)
		if err := w.Write(rec.NewSlice(0, 1)); err != nil {
			t.Errorf("%s: %v", c.ddl, err)
		}
		err = w.Write(rec.NewSlice(1, 2))
		var v *ValueError
		if !errors.As(err, &v) || v.Column != c.column || v.Row != 1 {
			t.Errorf("%s: %v", c.ddl, err)
		}
		if _, err := w.Close(); err == nil {
			t.Errorf("%s: closed after a refusal", c.ddl)
		}
	}
}

func TestWrittenEstimatesTheSize(t *testing.T) {
	s := longs("c", 0, 0).Schema()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, WriteOptions{Schema: s, RowGroupRows: 10000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(20) {
		if err := w.Write(longs("c", i*5000, 5000)); err != nil {
			t.Fatal(err)
		}
	}
	est := w.Written()
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if est < sum.Size*8/10 || est > sum.Size*12/10 {
		t.Errorf("estimated %d, wrote %d", est, sum.Size)
	}
}

func TestAFailingSinkFailsTheFile(t *testing.T) {
	s := longs("c", 0, 0).Schema()
	broken := errors.New("disk full")
	for limit := 0; limit < 80_000; limit += 7919 {
		w, err := NewWriter(&failing{left: limit, err: broken}, WriteOptions{Schema: s, RowGroupRows: 1000})
		for i := int64(0); err == nil && i < 20; i++ {
			err = w.Write(longs("c", i*1000, 1000))
		}
		if err == nil {
			_, err = w.Close()
		}
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", limit, err)
		}
	}
}

type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return f.left, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

// counting counts the bytes read.
type counting struct {
	*bytes.Reader
	n int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

func TestAProjectionReadsNoOtherColumns(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{field("k", arrow.PrimitiveTypes.Int64), field("v", arrow.PrimitiveTypes.Int64), field("payload", arrow.BinaryTypes.String)}, nil)
	var rows []string
	for i := range 20000 {
		rows = append(rows, fmt.Sprintf(`{"k":%d,"v":%d,"payload":"%0100d"}`, i, i, i*7919))
	}
	data, _ := writeFile(t, WriteOptions{Schema: s, Codec: "uncompressed"}, recordOf(t, s, "["+strings.Join(rows, ",")+"]"))
	src := &counting{Reader: bytes.NewReader(data)}
	f, err := Open(context.Background(), src, int64(len(data)), s)
	if err != nil {
		t.Fatal(err)
	}
	src.n = 0
	readAll(t, f, ReadOptions{Columns: []string{"v", "k"}})
	if src.n > 20000*16*11/10 {
		t.Errorf("%d bytes read for two columns of %d bytes", src.n, 20000*16)
	}
}
