package datafile

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// scale gives the full floor in a soak run and a part of it otherwise.
func scale(full int) int {
	if os.Getenv("DELTAFOLD_SOAK") == "1" {
		return full
	}
	return max(full/5, 1)
}

var (
	stamp    = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	stampNTZ = &arrow.TimestampType{Unit: arrow.Microsecond}
)

// randomAtom is a random canonical atomic type.
func randomAtom(r *rand.Rand) arrow.DataType {
	atoms := []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String,
		arrow.BinaryTypes.Binary, arrow.FixedWidthTypes.Date32, stamp, stampNTZ, nil,
	}
	t := atoms[r.IntN(len(atoms))]
	if t == nil {
		p := 1 + r.IntN(38)
		return &arrow.Decimal128Type{Precision: int32(p), Scale: int32(r.IntN(p + 1))}
	}
	return t
}

func randomType(r *rand.Rand, depth int) arrow.DataType {
	if depth == 0 || r.IntN(3) > 0 {
		return randomAtom(r)
	}
	switch r.IntN(3) {
	case 0:
		return arrow.ListOfField(arrow.Field{Name: "element", Type: randomType(r, depth-1), Nullable: true})
	case 1:
		return arrow.MapOf(randomAtom(r), randomType(r, depth-1))
	}
	n := 1 + r.IntN(3)
	fields := make([]arrow.Field, n)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("f%d", i), Type: randomType(r, depth-1), Nullable: true}
		if n > 1 && r.IntN(10) == 0 {
			fields[i].Type = arrow.Null
		}
	}
	if fields[0].Type == arrow.Null {
		fields[0].Type = randomAtom(r)
	}
	return arrow.StructOf(fields...)
}

func randomSchema(r *rand.Rand) *arrow.Schema {
	fields := make([]arrow.Field, 1+r.IntN(8))
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: randomType(r, 3), Nullable: true}
	}
	return arrow.NewSchema(fields, nil)
}

func pick[T any](r *rand.Rand, vals ...T) T { return vals[r.IntN(len(vals))] }

func randomInt(r *rand.Rand, bits int) int64 {
	shift := 64 - bits
	return pick(r, 0, 1, -1, math.MaxInt64>>shift, math.MinInt64>>shift, int64(r.Uint64())>>shift, int64(r.IntN(100)), int64(r.IntN(100)))
}

func randomString(r *rand.Rand) string {
	alphabet := []rune{'a', 'b', 'z', '~', 0x7f, 0x80, 'é', '日', 0xffff, 0x10000, 0x1f600, 0x10ffff, 0}
	n := pick(r, 0, 1, 3, 8, 30, 31, 32, 33, 34, 63, 64, 65, 66, 80)
	out := make([]rune, n)
	common := pick(r, 'a', 0x10ffff, '日')
	for i := range out {
		out[i] = common
		if r.IntN(4) == 0 || i > 29 && r.IntN(2) == 0 {
			out[i] = pick(r, alphabet...)
		}
	}
	return string(out)
}

func randomDecimal(r *rand.Rand, t *arrow.Decimal128Type) decimal128.Num {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Precision)), nil)
	v := new(big.Int)
	switch r.IntN(4) {
	case 0:
		v.Sub(limit, big.NewInt(1))
	case 1:
		v.SetInt64(int64(r.IntN(10)))
	default:
		for range 3 {
			v.Lsh(v, 64)
			v.Or(v, new(big.Int).SetUint64(r.Uint64()))
		}
		v.Mod(v, limit)
	}
	if r.IntN(2) == 0 {
		v.Neg(v)
	}
	return decimal128.FromBigInt(v)
}

// Dates and timestamps from year -9999 to 292,277 and close to 1970.
func randomMicros(r *rand.Rand) int64 {
	return pick(r, 0, -1, 999, 1000, -999, -1000, -1001, 253402300799999999, -62135596800000000, -62167219200000001,
		math.MaxInt64, math.MinInt64, r.Int64N(4e15)-2e15, int64(r.Uint64()), r.Int64N(1e7)-5e6)
}

func appendRandom(b array.Builder, t arrow.DataType, r *rand.Rand, nullable bool) {
	if nullable && r.IntN(6) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.Int8Builder:
		b.Append(int8(randomInt(r, 8)))
	case *array.Int16Builder:
		b.Append(int16(randomInt(r, 16)))
	case *array.Int32Builder:
		b.Append(int32(randomInt(r, 32)))
	case *array.Int64Builder:
		b.Append(randomInt(r, 64))
	case *array.Float32Builder:
		b.Append(pick(r, 0, float32(math.Copysign(0, -1)), 1.5, float32(r.NormFloat64()), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, 3.4))
	case *array.Float64Builder:
		b.Append(pick(r, 0, math.Copysign(0, -1), 1.5, r.NormFloat64(), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64))
	case *array.Decimal128Builder:
		b.Append(randomDecimal(r, t.(*arrow.Decimal128Type)))
	case *array.StringBuilder:
		b.Append(randomString(r))
	case *array.BinaryBuilder:
		b.Append([]byte(randomString(r))[:])
	case *array.Date32Builder:
		b.Append(arrow.Date32(pick(r, 0, -1, 2932896, -719162, -719528, math.MaxInt32, math.MinInt32, r.Int32N(40000))))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(randomMicros(r)))
	case *array.MapBuilder:
		m := t.(*arrow.MapType)
		b.Append(true)
		for range r.IntN(4) {
			appendRandom(b.KeyBuilder(), m.KeyType(), r, false)
			appendRandom(b.ItemBuilder(), m.ItemType(), r, true)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range pick(r, 0, 1, 2, 5) {
			appendRandom(b.ValueBuilder(), t.(*arrow.ListType).Elem(), r, true)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range t.(*arrow.StructType).Fields() {
			appendRandom(b.FieldBuilder(i), f.Type, r, f.Nullable)
		}
	default:
		panic(fmt.Sprintf("no random value for %T", b))
	}
}

func randomBatch(r *rand.Rand, s *arrow.Schema, rows int) arrow.RecordBatch {
	cols := make([]arrow.Array, s.NumFields())
	for i, f := range s.Fields() {
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		lead := r.IntN(3) // a slice with an offset now and then
		allNull := r.IntN(10) == 0
		for range rows + lead {
			if allNull {
				b.AppendNull()
			} else {
				appendRandom(b, f.Type, r, f.Nullable)
			}
		}
		cols[i] = array.NewSlice(b.NewArray(), int64(lead), int64(rows+lead))
	}
	return array.NewRecordBatch(s, cols, int64(rows))
}

// plain gives row i as a value that go-cmp compares: floats by their bits.
func plain(arr arrow.Array, i int) any {
	if arr.DataType().ID() == arrow.NULL || arr.IsNull(i) {
		return nil
	}
	switch a := arr.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Int8:
		return a.Value(i)
	case *array.Int16:
		return a.Value(i)
	case *array.Int32:
		return a.Value(i)
	case *array.Int64:
		return a.Value(i)
	case *array.Float32:
		return fmt.Sprintf("float %08x", math.Float32bits(a.Value(i)))
	case *array.Float64:
		return fmt.Sprintf("double %016x", math.Float64bits(a.Value(i)))
	case *array.Decimal128:
		return "decimal " + a.Value(i).BigInt().String()
	case *array.String:
		return a.Value(i)
	case *array.Binary:
		return fmt.Sprintf("binary %x", a.Value(i))
	case *array.Date32:
		return a.Value(i)
	case *array.Timestamp:
		return a.Value(i)
	case *array.Map:
		from, to := a.ValueOffsets(i)
		out := [][2]any{}
		for j := from; j < to; j++ {
			out = append(out, [2]any{plain(a.Keys(), int(j)), plain(a.Items(), int(j))})
		}
		return out
	case *array.List:
		from, to := a.ValueOffsets(i)
		out := []any{}
		for j := from; j < to; j++ {
			out = append(out, plain(a.ListValues(), int(j)))
		}
		return out
	case *array.Struct:
		out := map[string]any{}
		for j, f := range a.DataType().(*arrow.StructType).Fields() {
			out[f.Name] = plain(a.Field(j), i)
		}
		return out
	}
	panic(fmt.Sprintf("no plain value for %T", arr))
}

// column gives all values of a column over several batches.
func column(recs []arrow.RecordBatch, name string) []any {
	out := []any{}
	for _, rec := range recs {
		for _, at := range rec.Schema().FieldIndices(name) {
			for i := range int(rec.NumRows()) {
				out = append(out, plain(rec.Column(at), i))
			}
		}
	}
	return out
}

func writeFile(t testing.TB, o WriteOptions, recs ...arrow.RecordBatch) ([]byte, Summary) {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), sum
}

func openFile(t testing.TB, data []byte, want *arrow.Schema) *File {
	t.Helper()
	f, err := Open(context.Background(), bytes.NewReader(data), int64(len(data)), want)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// readAll reads and checks that positions follow each other.
func readAll(t testing.TB, f *File, o ReadOptions) []arrow.RecordBatch {
	t.Helper()
	var out []arrow.RecordBatch
	groups := o.RowGroups
	if groups == nil {
		for i := range f.RowGroups() {
			groups = append(groups, i)
		}
	}
	type span struct{ first, rows int64 }
	var got, want []span
	for b, err := range f.Read(context.Background(), o) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got); n > 0 && got[n-1].first+got[n-1].rows == b.First {
			got[n-1].rows += b.Rec.NumRows()
		} else {
			got = append(got, span{b.First, b.Rec.NumRows()})
		}
		out = append(out, b.Rec)
	}
	for _, g := range groups {
		first, rows := f.RowGroup(g)
		if rows == 0 {
			continue
		}
		if n := len(want); n > 0 && want[n-1].first+want[n-1].rows == first {
			want[n-1].rows += rows
		} else {
			want = append(want, span{first, rows})
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("row positions %v, want %v", got, want)
	}
	return out
}

// recordOf builds a batch from JSON.
func recordOf(t testing.TB, s *arrow.Schema, text string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s, bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}
