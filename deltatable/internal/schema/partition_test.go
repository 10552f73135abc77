package schema

import (
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	ts  = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	ntz = &arrow.TimestampType{Unit: arrow.Microsecond}
	dec = &arrow.Decimal128Type{Precision: 10, Scale: 2}
)

func one[T any](t arrow.DataType, v T) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, t)
	b.(builder[T]).Append(v)
	return b.NewArray()
}

func ptr(s string) *string { return &s }

func TestPartitionValuesAreWrittenExactly(t *testing.T) {
	const noon = 1704196800000000
	for _, c := range []struct {
		arr  arrow.Array
		want *string
	}{
		{one(arrow.BinaryTypes.String, ""), nil},
		{one(arrow.BinaryTypes.Binary, []byte{}), nil},
		{array.MakeArrayOfNull(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, 1), nil},
		{array.NewNull(1), nil},
		{one(arrow.BinaryTypes.String, "null"), ptr("null")},
		{one(arrow.BinaryTypes.String, HiveNull), ptr(HiveNull)},
		{one(arrow.BinaryTypes.String, " a/b%é=日 "), ptr(" a/b%é=日 ")},
		{one(arrow.BinaryTypes.Binary, []byte("ab")), ptr("ab")},
		{one(arrow.FixedWidthTypes.Boolean, true), ptr("true")},
		{one(arrow.PrimitiveTypes.Int8, int8(-128)), ptr("-128")},
		{one(arrow.PrimitiveTypes.Int64, int64(math.MinInt64)), ptr("-9223372036854775808")},
		{one(arrow.PrimitiveTypes.Float64, 1e10), ptr("1.0E10")},
		{one(arrow.PrimitiveTypes.Float64, 1234567.5), ptr("1234567.5")},
		{one(arrow.PrimitiveTypes.Float64, 1e7), ptr("1.0E7")},
		{one(arrow.PrimitiveTypes.Float64, 1e-3), ptr("0.001")},
		{one(arrow.PrimitiveTypes.Float64, 1.5e-4), ptr("1.5E-4")},
		{one(arrow.PrimitiveTypes.Float64, 5.0), ptr("5.0")},
		{one(arrow.PrimitiveTypes.Float32, float32(3.4)), ptr("3.4")},
		{one(arrow.PrimitiveTypes.Float64, math.Copysign(0, -1)), ptr("0.0")},
		{one(arrow.PrimitiveTypes.Float64, math.NaN()), ptr("NaN")},
		{one(arrow.PrimitiveTypes.Float64, math.Inf(-1)), ptr("-Infinity")},
		{one(dec, decimal128.FromI64(-5)), ptr("-0.05")},
		{one(dec, decimal128.FromI64(1234567890)), ptr("12345678.90")},
		{one(arrow.FixedWidthTypes.Date32, arrow.Date32(19724)), ptr("2024-01-02")},
		{one(arrow.FixedWidthTypes.Date32, arrow.Date32(2932897)), ptr("+10000-01-01")},
		{one(arrow.FixedWidthTypes.Date32, arrow.Date32(-719529)), ptr("-0001-12-31")},
		{one(ts, arrow.Timestamp(noon)), ptr("2024-01-02T12:00:00.000000Z")},
		{one(ts, arrow.Timestamp(-1)), ptr("1969-12-31T23:59:59.999999Z")},
		{one(ntz, arrow.Timestamp(noon)), ptr("2024-01-02 12:00:00")},
		{one(ntz, arrow.Timestamp(noon+10)), ptr("2024-01-02 12:00:00.000010")},
	} {
		got, err := PartitionString(c.arr.DataType(), c.arr, 0)
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.arr, err, d)
		}
	}
	for _, bad := range []arrow.Array{one(arrow.BinaryTypes.Binary, []byte{0xff}), one(arrow.BinaryTypes.String, "\xc3")} {
		if s, err := PartitionString(bad.DataType(), bad, 0); err == nil {
			t.Errorf("%v: %q", bad, *s)
		}
	}
}

func TestPartitionValuesAreReadTolerantly(t *testing.T) {
	const noon = 1704196800000000
	for _, c := range []struct {
		typ  arrow.DataType
		text string
		want arrow.Array
	}{
		{ts, "2024-01-02T12:00:00.000000Z", one(ts, arrow.Timestamp(noon))},
		{ts, "2024-01-02T12:00:00Z", one(ts, arrow.Timestamp(noon))},
		{ts, "2024-01-02 12:00:00", one(ts, arrow.Timestamp(noon))},
		{ts, "2024-01-02 12:00:00.1", one(ts, arrow.Timestamp(noon+100000))},
		{ts, "2024-01-02T21:00:00.000001+09:00", one(ts, arrow.Timestamp(noon+1))},
		{ts, "2024-01-02 12:00:00.123456000", one(ts, arrow.Timestamp(noon+123456))},
		{ts, "2024-01-02", one(ts, arrow.Timestamp(noon-12*3600*1e6))},
		{ts, "1969-12-31 23:59:59.5", one(ts, arrow.Timestamp(-500000))},
		{ntz, "2024-01-02T12:00:00", one(ntz, arrow.Timestamp(noon))},
		{arrow.FixedWidthTypes.Boolean, "TRUE", one(arrow.FixedWidthTypes.Boolean, true)},
		{arrow.PrimitiveTypes.Float64, "1.0E10", one(arrow.PrimitiveTypes.Float64, 1e10)},
		{arrow.PrimitiveTypes.Float64, "-Infinity", one(arrow.PrimitiveTypes.Float64, math.Inf(-1))},
		{arrow.PrimitiveTypes.Int32, "+5", one(arrow.PrimitiveTypes.Int32, int32(5))},
		{dec, "1.5", one(dec, decimal128.FromI64(150))},
		{dec, "1.5000", one(dec, decimal128.FromI64(150))},
		{dec, "1.5E+2", one(dec, decimal128.FromI64(15000))},
		{arrow.FixedWidthTypes.Date32, "2024-1-2", one(arrow.FixedWidthTypes.Date32, arrow.Date32(19724))},
		{arrow.BinaryTypes.String, " x ", one(arrow.BinaryTypes.String, " x ")},
		{arrow.BinaryTypes.Binary, "é", one(arrow.BinaryTypes.Binary, []byte("é"))},
		{arrow.BinaryTypes.Binary, "", array.MakeArrayOfNull(memory.DefaultAllocator, arrow.BinaryTypes.Binary, 1)},
	} {
		got, err := PartitionArray(c.typ, &c.text, 1)
		if err != nil || !array.Equal(got, c.want) {
			t.Errorf("%q as %s: %v, %v", c.text, c.typ, got, err)
		}
	}
	for _, c := range []struct {
		typ  arrow.DataType
		text string
	}{
		{arrow.PrimitiveTypes.Int8, "128"},
		{arrow.PrimitiveTypes.Int32, "1.0"},
		{arrow.FixedWidthTypes.Boolean, "yes"},
		{dec, "1.001"},
		{dec, "123456789"},
		{arrow.FixedWidthTypes.Date32, "2023-02-29"},
		{ts, "2024-01-02T25:00:00Z"},
		{ts, "now"},
		{ntz, "2024-01-02T12:00:00+01:00"},
		{ts, "2024-01-02 12:00:00.1234567"},
		{arrow.PrimitiveTypes.Float64, "0x1p3"},
		{arrow.ListOf(arrow.PrimitiveTypes.Int32), "1"},
	} {
		if got, err := PartitionArray(c.typ, &c.text, 1); err == nil {
			t.Errorf("%q as %s: %v", c.text, c.typ, got)
		}
	}
	if got, err := PartitionArray(ts, nil, 3); err != nil || got.Len() != 3 || got.NullN() != 3 {
		t.Errorf("%v %v", got, err)
	}
}

func TestPartitionValuesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arr := rapid.OneOf(
			rapid.Custom(func(t *rapid.T) arrow.Array { return one(ts, arrow.Timestamp(rapid.Int64().Draw(t, "ts"))) }),
			rapid.Custom(func(t *rapid.T) arrow.Array { return one(ntz, arrow.Timestamp(rapid.Int64().Draw(t, "ntz"))) }),
			rapid.Custom(func(t *rapid.T) arrow.Array {
				return one(arrow.FixedWidthTypes.Date32, arrow.Date32(rapid.Int32().Draw(t, "date")))
			}),
			rapid.Custom(func(t *rapid.T) arrow.Array {
				return one(arrow.PrimitiveTypes.Float64, rapid.Float64().Draw(t, "double"))
			}),
			rapid.Custom(func(t *rapid.T) arrow.Array {
				return one(arrow.PrimitiveTypes.Float32, rapid.Float32().Draw(t, "float"))
			}),
			rapid.Custom(func(t *rapid.T) arrow.Array {
				return one(dec, decimal128.FromI64(rapid.Int64Range(-9999999999, 9999999999).Draw(t, "decimal")))
			}),
			rapid.Custom(func(t *rapid.T) arrow.Array {
				return one(arrow.BinaryTypes.String, rapid.StringN(1, 20, -1).Draw(t, "string"))
			}),
		).Draw(t, "array")
		s, err := PartitionString(arr.DataType(), arr, 0)
		if err != nil {
			if strings.Contains(err.Error(), "UTF-8") {
				return
			}
			t.Fatal(err)
		}
		back, err := PartitionArray(arr.DataType(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := PartitionString(arr.DataType(), back, 0)
		if err != nil || *again != *s || !array.ApproxEqual(arr, back) {
			t.Fatalf("%v became %q, then %v", arr, *s, back)
		}
	})
}

func TestPartitionDirs(t *testing.T) {
	long := strings.Repeat("é", 200)
	for _, c := range []struct {
		col  string
		v    *string
		want string
	}{
		{"p", nil, "p=" + HiveNull},
		{"p", ptr(""), "p=" + HiveNull},
		{"p", ptr("New York"), "p=New York"},
		{"p", ptr("a/b"), "p=a%2Fb"},
		{"p", ptr("50%"), "p=50%25"},
		{"p", ptr("x=y"), "p=x%3Dy"},
		{"p", ptr("é}"), "p=é}"},
		{"p", ptr("2024-01-01T00:00:00.000000Z"), "p=2024-01-01T00%3A00%3A00.000000Z"},
		{"p", ptr("\x01\x7f\"#'*:?\\{[]^"), "p=%01%7F%22%23%27%2A%3A%3F%5C%7B%5B%5D%5E"},
		{"a b", ptr("1"), "a b=1"},
	} {
		if got := PartitionDir(c.col, c.v); got != c.want {
			t.Errorf("%s: %q, want %q", c.col, got, c.want)
		}
	}
	a, b := PartitionDir("p", &long), PartitionDir("p", ptr(long+"x"))
	if a == b || len(a) > maxDirName || len(b) > maxDirName || !strings.HasPrefix(a, "p=éé") || strings.ToValidUTF8(a, "") != a {
		t.Errorf("%q %q", a, b)
	}
	if d := PartitionDir(strings.Repeat("c", 300), ptr("v")); len(d) > maxDirName || !strings.Contains(d, "=") {
		t.Errorf("%q", d)
	}
}

func TestPathsAreDecodedOnce(t *testing.T) {
	for _, c := range []struct {
		path, key string
		absolute  bool
	}{
		{"a.parquet", "a.parquet", false},
		{"p=New%20York/a+b.parquet", "p=New York/a+b.parquet", false},
		{"p=a%252Fb/f", "p=a%2Fb/f", false},
		{"p=%253A/x", "p=%3A/x", false},
		{"p=é/日%E6%97%A5", "p=é/日日", false},
		{"p=New York/literal blank", "p=New York/literal blank", false},
		{"a:b/c", "a:b/c", false},
		{"http%3A//x", "http://x", false},
		{"what?x#y", "what?x#y", false},
		{"/abs/a%20b", "/abs/a b", true},
		{"file:/abs/a%20b", "/abs/a b", true},
		{"file:///abs/a%2520b", "/abs/a%20b", true},
		{"file://localhost/x", "/x", true},
		{"s3://bucket/a%20b", "s3://bucket/a b", true},
		{"..a/b..", "..a/b..", false},
	} {
		key, abs, err := DecodePath(c.path)
		if key != c.key || abs != c.absolute || err != nil {
			t.Errorf("%q: %q %v %v", c.path, key, abs, err)
		}
	}
	for _, p := range []string{"", "..", "a/../b", "%2e%2e/x", "a%", "a%2", "a%zz", "%2Fabs", "file://host/x"} {
		if key, _, err := DecodePath(p); err == nil {
			t.Errorf("%q: %q", p, key)
		}
	}
	if got, want := EncodePath("p=a%2Fb:é +~/x.parquet"), "p=a%252Fb%3A%C3%A9%20%2B~/x.parquet"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzDecodePath(f *testing.F) {
	for _, s := range []string{"a/b", "p=New%20York/x", "file:///a", "s3://b/c", "%", "a:b", "日"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if key, abs, err := DecodePath(s); err == nil && !abs {
			again, abs2, err := DecodePath(EncodePath(key))
			if again != key || abs2 || err != nil {
				t.Errorf("%q: key %q became %q, %v, %v", s, key, again, abs2, err)
			}
		}
	})
}
