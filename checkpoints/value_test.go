package checkpoints

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func fromJSON(t *testing.T, typ arrow.DataType, text string) arrow.Array {
	t.Helper()
	arr, _, err := array.FromJSON(allocator(), typ, strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s %s: %v", typ, text, err)
	}
	return arr
}

// TestPayloadEquality lists values that are equal, then values that are not
// (merge-semantics 1, "payload equality").
func TestPayloadEquality(t *testing.T) {
	str, long, dbl := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64
	list := arrow.ListOf(long)
	obj := arrow.StructOf(arrow.Field{Name: "a", Type: str, Nullable: true}, arrow.Field{Name: "b", Type: long, Nullable: true})
	dict := arrow.MapOf(str, long)
	dec := func(p, s int32) arrow.DataType { return &arrow.Decimal128Type{Precision: p, Scale: s} }
	type v struct {
		typ  arrow.DataType
		text string
	}
	for _, c := range []struct {
		a, b  v
		equal bool
	}{
		{v{str, `[null]`}, v{str, `[null]`}, true},
		{v{str, `[null]`}, v{str, `[""]`}, false},
		{v{str, `["a"]`}, v{str, `["a "]`}, false},
		{v{dbl, `[0]`}, v{dbl, `[-0.0]`}, true},
		{v{dbl, `[1.5]`}, v{arrow.PrimitiveTypes.Float32, `[1.5]`}, true},
		{v{dbl, `[1.5]`}, v{dbl, `[1.25]`}, false},
		{v{long, `[7]`}, v{arrow.PrimitiveTypes.Int32, `[7]`}, true},
		{v{long, `[9007199254740993]`}, v{long, `[9007199254740992]`}, false},
		{v{dec(10, 2), `["1.50"]`}, v{dec(12, 4), `["1.5000"]`}, true},
		{v{dec(10, 2), `["-100.00"]`}, v{dec(12, 0), `["-100"]`}, true},
		{v{dec(10, 2), `["0.00"]`}, v{dec(12, 0), `["0"]`}, true},
		{v{dec(10, 2), `["1.50"]`}, v{dec(10, 2), `["1.05"]`}, false},
		{v{dec(10, 0), `["100"]`}, v{dec(10, 0), `["1"]`}, false},
		{v{list, `[[1,2]]`}, v{list, `[[1,2]]`}, true},
		{v{list, `[[1,2]]`}, v{list, `[[2,1]]`}, false},
		{v{list, `[[]]`}, v{list, `[null]`}, false},
		{v{list, `[[null]]`}, v{list, `[[]]`}, false},
		{v{obj, `[{"a":"x","b":1}]`}, v{obj, `[{"a":"x","b":1}]`}, true},
		{v{obj, `[{"a":null,"b":null}]`}, v{obj, `[null]`}, false},
		{v{obj, `[{"a":"x","b":1}]`}, v{obj, `[{"a":"x","b":2}]`}, false},
		{v{dict, `[[{"key":"x","value":1},{"key":"y","value":2}]]`}, v{dict, `[[{"key":"y","value":2},{"key":"x","value":1}]]`}, true},
		{v{dict, `[[{"key":"x","value":1}]]`}, v{dict, `[[{"key":"x","value":2}]]`}, false},
	} {
		a := string(appendValue(nil, fromJSON(t, c.a.typ, c.a.text), 0))
		b := string(appendValue(nil, fromJSON(t, c.b.typ, c.b.text), 0))
		if (a == b) != c.equal {
			t.Errorf("%s %s and %s %s: equal is %v, want %v", c.a.typ, c.a.text, c.b.typ, c.b.text, a == b, c.equal)
		}
	}
}

// TestKeysOfSeveralColumns: ("a","bc") and ("ab","c") differ.
func TestKeysOfSeveralColumns(t *testing.T) {
	str := arrow.BinaryTypes.String
	x, y := fromJSON(t, str, `["a","ab"]`), fromJSON(t, str, `["bc","c"]`)
	if a, b := appendAll(nil, []arrow.Array{x, y}, 0), appendAll(nil, []arrow.Array{x, y}, 1); string(a) == string(b) {
		t.Errorf("both are %q", a)
	}
}

func TestVersionOrder(t *testing.T) {
	ts := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	for _, c := range []struct {
		typ  arrow.DataType
		text string // ascending
	}{
		{arrow.PrimitiveTypes.Int8, `[-128, -1, 0, 127]`},
		{arrow.PrimitiveTypes.Int64, `[-9223372036854775808, 9007199254740992, 9007199254740993]`},
		{arrow.BinaryTypes.String, `["", "10", "9", "Z", "a", "é"]`},
		{arrow.FixedWidthTypes.Date32, `["1969-12-31", "1970-01-01", "2024-02-29"]`},
		{ts, `["1969-12-31T23:59:59.999999Z", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000001Z"]`},
		{&arrow.Decimal128Type{Precision: 38, Scale: 2}, `["-1.00", "9.99", "10.00", "123456789012345678901234567890123456.00"]`},
	} {
		arr := fromJSON(t, c.typ, c.text)
		for i := range arr.Len() {
			for j := range arr.Len() {
				a, errA := versionValue(arr, i)
				b, errB := versionValue(arr, j)
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				want := min(max(i-j, -1), 1)
				if got := compareVersions([]any{a}, []any{b}); got != want {
					t.Errorf("%s: %s against %s is %d, want %d", c.typ, arr.ValueStr(i), arr.ValueStr(j), got, want)
				}
				if same := versionForm([]any{a}) == versionForm([]any{b}); same != (want == 0) {
					t.Errorf("%s: forms of %s and %s: same is %v", c.typ, arr.ValueStr(i), arr.ValueStr(j), same)
				}
			}
		}
	}
	if got := compareVersions([]any{int64(1), "b"}, []any{int64(1), "a"}); got != 1 {
		t.Errorf("the second column is not looked at: %d", got)
	}
}

func TestMinimumVersions(t *testing.T) {
	for _, c := range []struct {
		typ  arrow.DataType
		text string
		want string // as a value
	}{
		{arrow.PrimitiveTypes.Int32, "1", "[1]"},
		{arrow.BinaryTypes.String, "b", `["b"]`},
		{arrow.FixedWidthTypes.Date32, "2024-02-29", `["2024-02-29"]`},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, "1.5", `["1.50"]`},
		{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, "2024-01-01 00:00:01", `["2024-01-01T00:00:01Z"]`},
	} {
		got, err := parseVersion(c.text, c.typ)
		if err != nil {
			t.Errorf("%s %q: %v", c.typ, c.text, err)
			continue
		}
		want, err := versionValue(fromJSON(t, c.typ, c.want), 0)
		if err != nil || compareVersions([]any{got}, []any{want}) != 0 {
			t.Errorf("%s %q reads as %v, want %v (%v)", c.typ, c.text, got, want, err)
		}
	}
	for _, bad := range []string{"", "x", "1.5", "99999999999999999999"} {
		if v, err := parseVersion(bad, arrow.PrimitiveTypes.Int64); err == nil {
			t.Errorf("%q reads as %v", bad, v)
		}
	}
}
