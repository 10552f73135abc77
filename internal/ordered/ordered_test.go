package ordered

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"
)

// plain is a type of values beside the comparison that the forms must agree
// with; nil is NULL.
type plain struct {
	t       arrow.DataType
	gen     *rapid.Generator[any]
	compare func(a, b any) int
}

func of[T any](g *rapid.Generator[T]) *rapid.Generator[any] {
	return rapid.OneOf(rapid.Just[any](nil), rapid.Map(g, func(v T) any { return v }), rapid.Map(g, func(v T) any { return v }))
}

func compare[T cmp.Ordered](a, b any) int { return cmp.Compare(a.(T), b.(T)) }

// floats compares as Spark does: one NaN above all, and one zero.
func floats[T float32 | float64](a, b any) int {
	x, y := a.(T), b.(T)
	switch {
	case x != x && y != y:
		return 0
	case x != x:
		return 1
	case y != y:
		return -1
	}
	return cmp.Compare(x, y)
}

func oddFloats[T float32 | float64](g *rapid.Generator[T], bits ...T) *rapid.Generator[any] {
	nan := T(math.NaN())
	odd := append([]T{0, T(math.Copysign(0, -1)), nan, -nan, T(math.Inf(1)), T(math.Inf(-1)), 1, -1}, bits...)
	return of(rapid.OneOf(g, rapid.SampledFrom(odd)))
}

var texts = rapid.OneOf(
	rapid.String(),
	rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a', 'b', 0xFF, 0x10FFFF}), 0, 4, -1),
)

func decimals() *rapid.Generator[any] {
	limit, _ := new(big.Int).SetString(strings.Repeat("9", 38), 10)
	return of(rapid.Custom(func(t *rapid.T) *big.Int {
		v := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "magnitude"))
		v.Rem(v, limit)
		if rapid.Bool().Draw(t, "negative") {
			v.Neg(v)
		}
		return v
	}))
}

func types() []plain {
	i32, i64 := of(rapid.Int32()), of(rapid.Int64())
	decimal := func(a, b any) int { return a.(*big.Int).Cmp(b.(*big.Int)) }
	bytesOf := func(a, b any) int { return bytes.Compare(a.([]byte), b.([]byte)) }
	return []plain{
		{arrow.FixedWidthTypes.Boolean, of(rapid.Bool()), func(a, b any) int {
			return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) // "false" < "true"
		}},
		{arrow.PrimitiveTypes.Int8, of(rapid.Int8()), compare[int8]},
		{arrow.PrimitiveTypes.Int16, of(rapid.Int16()), compare[int16]},
		{arrow.PrimitiveTypes.Int32, i32, compare[int32]},
		{arrow.PrimitiveTypes.Int64, i64, compare[int64]},
		{arrow.FixedWidthTypes.Date32, i32, compare[int32]},
		{arrow.FixedWidthTypes.Timestamp_us, i64, compare[int64]},
		{&arrow.TimestampType{Unit: arrow.Microsecond}, i64, compare[int64]},
		{
			arrow.PrimitiveTypes.Float32,
			oddFloats(rapid.Float32(), math.Float32frombits(0x7FC00001), math.Float32frombits(0xFF800001), math.SmallestNonzeroFloat32),
			floats[float32],
		},
		{
			arrow.PrimitiveTypes.Float64,
			oddFloats(rapid.Float64(), math.Float64frombits(0x7FF8000000000001), math.Float64frombits(0xFFF0000000000001), math.SmallestNonzeroFloat64),
			floats[float64],
		},
		{&arrow.Decimal128Type{Precision: 38, Scale: 4}, decimals(), decimal},
		{arrow.BinaryTypes.String, of(texts), compare[string]},
		{arrow.BinaryTypes.Binary, of(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xFE, 0xFF}), 0, 5)), bytesOf},
		{arrow.Null, rapid.Just[any](nil), nil},
	}
}

func appendValue(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Int8Builder:
		b.Append(v.(int8))
	case *array.Int16Builder:
		b.Append(v.(int16))
	case *array.Int32Builder:
		b.Append(v.(int32))
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.(int32)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(int64)))
	case *array.Float32Builder:
		b.Append(v.(float32))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromBigInt(v.(*big.Int)))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	default:
		panic(fmt.Sprintf("no builder for %T", v))
	}
}

func arrayOf(dt arrow.DataType, values []any) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	defer b.Release()
	for _, v := range values {
		appendValue(b, v)
	}
	return b.NewArray()
}

// compareNulls puts NULL first.
func (p plain) compareNulls(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return p.compare(a, b)
}

// Order and equality of forms are those of the values, alone and in rows, through
// Append and Column, and in arrays that are slices of others.
func TestFormsSortAsValues(t *testing.T) {
	all := types()
	for _, p := range all {
		t.Run(p.t.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				values := rapid.SliceOfN(p.gen, 2, 20).Draw(t, "values")
				arr := arrayOf(p.t, values)
				from := rapid.IntRange(0, len(values)-1).Draw(t, "from")
				slice := array.NewSlice(arr, int64(from), int64(len(values)))
				col := NewColumn(slice)
				forms := make([][]byte, len(values))
				for i := range values {
					forms[i] = Append([]byte("x"), arr, i)[1:]
					if i < from {
						continue
					}
					if got := col.Append(nil, i-from); !bytes.Equal(got, forms[i]) {
						t.Fatalf("Column of a slice: %x, Append: %x", got, forms[i])
					}
					if got := Append(nil, slice, i-from); !bytes.Equal(got, forms[i]) {
						t.Fatalf("Append of a slice: %x, of the whole: %x", got, forms[i])
					}
					if col.IsNull(i-from) != (values[i] == nil) || IsNull(forms[i]) != (values[i] == nil) {
						t.Fatalf("%v: form %x", values[i], forms[i])
					}
				}
				for i := range forms {
					for j := range forms {
						if got, want := bytes.Compare(forms[i], forms[j]), p.compareNulls(values[i], values[j]); got != want {
							t.Fatalf("%v and %v: forms %x and %x compare as %d, want %d", values[i], values[j], forms[i], forms[j], got, want)
						}
					}
				}
			})
		})
	}
}

// Rows sort column by column, and no two rows that differ have the same bytes.
func TestRowsSortByColumns(t *testing.T) {
	all := types()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "rows")
		var cols []plain
		var arrs []arrow.Array
		var values [][]any
		for range rapid.IntRange(1, 3).Draw(t, "columns") {
			p := rapid.SampledFrom(all).Draw(t, "type")
			v := rapid.SliceOfN(p.gen, n, n).Draw(t, "values")
			cols, values, arrs = append(cols, p), append(values, v), append(arrs, arrayOf(p.t, v))
		}
		row := NewRow(arrs...)
		for i := range n {
			for j := range n {
				want := 0
				for c, p := range cols {
					if want = p.compareNulls(values[c][i], values[c][j]); want != 0 {
						break
					}
				}
				if got := bytes.Compare(row.Append(nil, i), row.Append(nil, j)); got != want {
					t.Fatalf("rows %d and %d compare as %d, want %d", i, j, got, want)
				}
			}
		}
	})
}

func TestAppendScalars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := texts.Draw(t, "string"), rapid.Int64().Draw(t, "int")
		if got, want := AppendString(nil, s), Append(nil, arrayOf(arrow.BinaryTypes.String, []any{s}), 0); !bytes.Equal(got, want) {
			t.Fatalf("AppendString(%q) = %x, want %x", s, got, want)
		}
		if got, want := AppendInt64(nil, v), Append(nil, arrayOf(arrow.PrimitiveTypes.Int64, []any{v}), 0); !bytes.Equal(got, want) {
			t.Fatalf("AppendInt64(%d) = %x, want %x", v, got, want)
		}
	})
}

// The forms are in recorded digests: they may not change.
func TestFormsAreFixed(t *testing.T) {
	dec := &arrow.Decimal128Type{Precision: 10, Scale: 2}
	for _, c := range []struct {
		t    arrow.DataType
		v    any
		want string
	}{
		{arrow.BinaryTypes.String, nil, "00"},
		{arrow.BinaryTypes.String, "", "010001"},
		{arrow.BinaryTypes.String, "a\x00b", "016100ff620001"},
		{arrow.FixedWidthTypes.Boolean, true, "0101"},
		{arrow.PrimitiveTypes.Int8, int8(-1), "017f"},
		{arrow.PrimitiveTypes.Int16, int16(1), "018001"},
		{arrow.PrimitiveTypes.Int32, int32(-2), "017ffffffe"},
		{arrow.PrimitiveTypes.Int64, int64(258), "018000000000000102"},
		{arrow.PrimitiveTypes.Float32, float32(1), "01bf800000"},
		{arrow.PrimitiveTypes.Float64, float64(-1), "01400fffffffffffff"},
		{arrow.PrimitiveTypes.Float64, math.Copysign(0, -1), "018000000000000000"},
		{arrow.PrimitiveTypes.Float64, math.NaN(), "01fff8000000000000"},
		{dec, big.NewInt(-1), "017fffffffffffffffffffffffffffffff"},
		{dec, big.NewInt(100), "0180000000000000000000000000000064"},
	} {
		if got := fmt.Sprintf("%x", Append(nil, arrayOf(c.t, []any{c.v}), 0)); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.t, c.v, got, c.want)
		}
	}
}

func TestUnsupported(t *testing.T) {
	for _, dt := range []arrow.DataType{
		arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.StructOf(), arrow.BinaryTypes.LargeString,
		arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String), arrow.PrimitiveTypes.Uint8,
	} {
		if Supported(dt) {
			t.Errorf("%s is supported", dt)
		}
	}
	for _, p := range types() {
		if !Supported(p.t) {
			t.Errorf("%s is not supported", p.t)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("NewColumn of a list did not panic")
		}
	}()
	NewColumn(arrayOf(arrow.ListOf(arrow.PrimitiveTypes.Int8), nil))
}

// Bounds made of a file's values never exclude one of them, however much of them
// is unknown; and exclude what is outside.
func TestBoundsExcludeNoPresentValue(t *testing.T) {
	all := types()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(all[:len(all)-1]).Draw(t, "type")
		file := forms(p, rapid.SliceOfN(p.gen, 1, 8).Draw(t, "file"))
		asked := slices.DeleteFunc(forms(p, rapid.SliceOfN(p.gen, 0, 4).Draw(t, "asked")), IsNull)
		slices.SortFunc(asked, bytes.Compare)
		asked = slices.CompactFunc(asked, bytes.Equal)

		b := Bounds{NullCount: 0, Rows: int64(len(file))}
		var values [][]byte
		for _, f := range file {
			if IsNull(f) {
				b.NullCount++
			} else {
				values = append(values, f)
			}
		}
		outside := false
		if len(values) > 0 {
			b.Min, b.Max = slices.MinFunc(values, bytes.Compare), slices.MaxFunc(values, bytes.Compare)
			outside = !slices.ContainsFunc(asked, func(a []byte) bool {
				return bytes.Compare(b.Min, a) <= 0 && bytes.Compare(a, b.Max) <= 0
			})
		}
		if got := b.Excludes(asked); got != (outside || len(values) == 0) && len(asked) > 0 {
			t.Fatalf("%+v excludes %x: %v", b, asked, got)
		}
		present := slices.ContainsFunc(asked, func(a []byte) bool {
			return slices.ContainsFunc(values, func(v []byte) bool { return bytes.Equal(a, v) })
		})
		for _, weaker := range weaken(b) {
			if weaker.Excludes(asked) && present {
				t.Fatalf("%+v excludes a present value of %x", weaker, asked)
			}
			if weaker.Excludes(asked) && !b.Excludes(asked) {
				t.Fatalf("%+v excludes what %+v does not: %x", weaker, b, asked)
			}
		}
	})
}

// weaken makes less known, part by part.
func weaken(b Bounds) []Bounds {
	var out []Bounds
	for mask := range 16 {
		w := b
		if mask&1 != 0 {
			w.Min = nil
		}
		if mask&2 != 0 {
			w.Max = nil
		}
		if mask&4 != 0 {
			w.NullCount = -1
		}
		if mask&8 != 0 {
			w.Rows = -1
		}
		out = append(out, w)
	}
	return out
}

func forms(p plain, values []any) [][]byte {
	arr := arrayOf(p.t, values)
	out := make([][]byte, len(values))
	for i := range values {
		out[i] = Append(nil, arr, i)
	}
	return out
}

func TestBoundsOdd(t *testing.T) {
	a, b, c := AppendInt64(nil, 1), AppendInt64(nil, 2), AppendInt64(nil, 3)
	null := []byte{0}
	for _, x := range []struct {
		name   string
		b      Bounds
		sorted [][]byte
		want   bool
	}{
		{"zero", Bounds{}, [][]byte{b}, false},
		{"unknown", Unknown(), [][]byte{b}, false},
		{"nothing asked", Unknown(), nil, true},
		{"contradiction", Bounds{Min: c, Max: a, NullCount: 0, Rows: 9}, [][]byte{b}, false},
		{"all null", Bounds{NullCount: 3, Rows: 3}, [][]byte{b}, true},
		{"all null with a minimum", Bounds{Min: a, NullCount: 3, Rows: 3}, [][]byte{b}, false},
		{"more nulls than rows", Bounds{NullCount: 4, Rows: 3}, [][]byte{b}, false},
		{"NULL asked", Bounds{Min: b, Max: b, NullCount: 1, Rows: 2}, [][]byte{null, c}, false},
		{"between values", Bounds{Min: b, Max: b, Rows: -1, NullCount: -1}, [][]byte{a, c}, true},
		{"only min, below", Bounds{Min: b, Rows: -1, NullCount: -1}, [][]byte{a}, true},
		{"only min, above", Bounds{Min: b, Rows: -1, NullCount: -1}, [][]byte{a, c}, false},
		{"only max, above", Bounds{Max: b, Rows: -1, NullCount: -1}, [][]byte{c}, true},
		{"only max, below", Bounds{Max: b, Rows: -1, NullCount: -1}, [][]byte{a, c}, false},
	} {
		if got := x.b.Excludes(x.sorted); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	ids, names := make([]any, 4096), make([]any, 4096)
	for i := range ids {
		ids[i], names[i] = int64(i)*7919, fmt.Sprintf("account-%08d", i)
	}
	id, name := arrayOf(arrow.PrimitiveTypes.Int64, ids), arrayOf(arrow.BinaryTypes.String, names)
	for _, c := range []struct {
		name string
		arr  arrow.Array
	}{{"int64", id}, {"string", name}} {
		b.Run("Append/"+c.name, func(b *testing.B) {
			var dst []byte
			for i := 0; b.Loop(); i++ {
				dst = Append(dst[:0], c.arr, i&4095)
			}
		})
		b.Run("Column/"+c.name, func(b *testing.B) {
			var dst []byte
			col := NewColumn(c.arr)
			for i := 0; b.Loop(); i++ {
				dst = col.Append(dst[:0], i&4095)
			}
		})
	}
}
