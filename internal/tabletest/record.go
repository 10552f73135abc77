package tabletest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// NewRand is a source of randomness for a seed; the same seed always gives the
// same data.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x64656c7461666f6c)) }

// AtomicTypes are the canonical types without void and the nested ones.
func AtomicTypes() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean,
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		&arrow.Decimal128Type{Precision: 9, Scale: 2}, &arrow.Decimal128Type{Precision: 18, Scale: 18}, &arrow.Decimal128Type{Precision: 38, Scale: 10},
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.FixedWidthTypes.Date32,
		arrow.FixedWidthTypes.Timestamp_us, &arrow.TimestampType{Unit: arrow.Microsecond},
	}
}

// RandomType is a canonical type, nested at most depth levels deep; void only
// where it stands for a whole column's type.
func RandomType(r *rand.Rand, depth int) arrow.DataType {
	if depth == 0 || r.IntN(3) > 0 {
		t := AtomicTypes()
		return t[r.IntN(len(t))]
	}
	switch r.IntN(3) {
	case 0:
		return arrow.ListOfField(arrow.Field{Name: "element", Type: RandomType(r, depth-1), Nullable: r.IntN(3) > 0})
	case 1:
		keys := []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Date32, &arrow.Decimal128Type{Precision: 10, Scale: 3}}
		m := arrow.MapOf(keys[r.IntN(len(keys))], RandomType(r, depth-1))
		m.SetItemNullable(r.IntN(3) > 0)
		return m
	default:
		return arrow.StructOf(RandomFields(r, 1+r.IntN(3), depth-1)...)
	}
}

// RandomFields are n fields with names that are distinct whatever their case.
func RandomFields(r *rand.Rand, n, depth int) []arrow.Field {
	odd := []string{"a", "Bee", "under_score", `quo"te`, "dot.dot", "größe", "名", "$map", "back\\slash", "x%2Fy"}
	fields := make([]arrow.Field, n)
	for i := range fields {
		name := fmt.Sprintf("%s%d", odd[r.IntN(len(odd))], i)
		fields[i] = arrow.Field{Name: name, Type: RandomType(r, depth), Nullable: r.IntN(4) > 0}
	}
	return fields
}

// RandomRecord has rows rows of sch. About one value in five is NULL where the
// field is nullable; extreme values are frequent. Map keys are distinct.
func RandomRecord(r *rand.Rand, sch *arrow.Schema, rows int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sch)
	defer b.Release()
	for i, f := range sch.Fields() {
		for range rows {
			appendRandom(r, b.Field(i), f)
		}
	}
	return b.NewRecordBatch()
}

func appendRandom(r *rand.Rand, b array.Builder, f arrow.Field) {
	if f.Nullable && r.IntN(5) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.StructBuilder:
		b.Append(true)
		for k, kid := range f.Type.(*arrow.StructType).Fields() {
			appendRandom(r, b.FieldBuilder(k), kid)
		}
	case *array.MapBuilder:
		t := f.Type.(*arrow.MapType)
		b.Append(true)
		for k := range r.IntN(4) {
			appendKey(r, b.KeyBuilder(), k)
			appendRandom(r, b.ItemBuilder(), t.ItemField())
		}
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(4) {
			appendRandom(r, b.ValueBuilder(), f.Type.(*arrow.ListType).ElemField())
		}
	default:
		appendAtom(r, b, f.Type)
	}
}

// appendKey appends a map key that differs from those with another k.
func appendKey(r *rand.Rand, b array.Builder, k int) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(fmt.Sprint(k, RandomString(r)))
	case *array.Int32Builder:
		b.Append(int32(k) + 10*r.Int32N(1000))
	case *array.Date32Builder:
		b.Append(arrow.Date32(int32(k) + 10*r.Int32N(1000)))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(int64(k) + 10*r.Int64N(1000)))
	default:
		panic(fmt.Sprintf("no map keys of type %s", b.Type()))
	}
}

// randomInt is an integer of a width in bits: small, extreme or any.
func randomInt(r *rand.Rand, bits uint) int64 {
	lowest, highest := int64(-1)<<(bits-1), int64(1)<<(bits-1)-1
	switch r.IntN(6) {
	case 0:
		return lowest
	case 1:
		return highest
	case 2:
		return []int64{0, -1, 1}[r.IntN(3)]
	case 3:
		if bits == 64 {
			return 1<<53 + 1
		}
		return int64(r.IntN(100))
	default:
		return int64(r.Uint64()) >> (64 - bits)
	}
}

func appendAtom(r *rand.Rand, b array.Builder, t arrow.DataType) {
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
		special := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, math.SmallestNonzeroFloat32, 0.1, 1e16, 1e-5}
		if k := r.IntN(2 * len(special)); k < len(special) {
			b.Append(special[k])
		} else {
			b.Append(float32(r.NormFloat64()))
		}
	case *array.Float64Builder:
		special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, 1e16, 123456789012345680, 1e-5}
		if k := r.IntN(2 * len(special)); k < len(special) {
			b.Append(special[k])
		} else {
			b.Append(r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20)))
		}
	case *array.Decimal128Builder:
		b.Append(RandomDecimal(r, t.(*arrow.Decimal128Type)))
	case *array.StringBuilder:
		b.Append(RandomString(r))
	case *array.BinaryBuilder:
		v := make([]byte, r.IntN(6))
		for i := range v {
			v[i] = byte(r.Uint32())
		}
		b.Append(v)
	case *array.Date32Builder:
		special := []arrow.Date32{0, -1, -719162, -719163, 2932896, 2932897, math.MaxInt32, math.MinInt32}
		if k := r.IntN(2 * len(special)); k < len(special) {
			b.Append(special[k])
		} else {
			b.Append(arrow.Date32(r.Int32N(40000) - 10000))
		}
	case *array.TimestampBuilder:
		special := []arrow.Timestamp{0, -1, -62135596800000000, 253402300799999999, math.MaxInt64, math.MinInt64}
		if k := r.IntN(2 * len(special)); k < len(special) {
			b.Append(special[k])
		} else {
			b.Append(arrow.Timestamp(r.Int64N(4e15) - 1e15))
		}
	default:
		panic(fmt.Sprintf("no random values of type %s", t))
	}
}

// RandomDecimal is a value of t: its bounds, small ones, any.
func RandomDecimal(r *rand.Rand, t *arrow.Decimal128Type) decimal128.Num {
	highest := decimal128.GetScaleMultiplier(int(t.Precision)).Sub(decimal128.FromI64(1))
	switch r.IntN(5) {
	case 0:
		return highest
	case 1:
		return highest.Negate()
	case 2:
		return decimal128.FromI64(int64(r.IntN(5)) - 2)
	default:
		_, v := decimal128.New(int64(r.Uint64()), r.Uint64()).Div(highest)
		return v
	}
}

// RandomString is a short text, often one that is hard to quote or to escape.
func RandomString(r *rand.Rand) string {
	special := []string{"", " ", "null", "NaN", `"`, `\`, "a,b", "line\nbreak", "\r\n", "tab\t", "nul\x00", "\u2028", "ünïcödé", "日本", "😀", "\ufffd", "\ufeff", "%2F", "1", "{\"$map\":[]}", "\x7f", "/", "\U0010ffff"}
	switch r.IntN(3) {
	case 0:
		return special[r.IntN(len(special))]
	case 1:
		return special[r.IntN(len(special))] + special[r.IntN(len(special))]
	default:
		return fmt.Sprintf("v%x", r.Uint32N(1<<16))
	}
}
