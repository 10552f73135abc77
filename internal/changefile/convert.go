package changefile

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// converter turns arrays of one Arrow type into arrays of a canonical type
// without losing any value.
type converter struct {
	to      arrow.DataType
	column  string
	convert func(arrow.Array) (arrow.Array, error)
}

// conversion says how values are read, see Options.
type conversion struct {
	zone         *timeReader
	allowUnknown bool
}

// convertError is a value that cannot be converted; row is its place in the
// array handed to convert.
type convertError struct {
	row                int
	column, value, msg string
}

func (e *convertError) Error() string { return e.column + ": " + e.value + ": " + e.msg }

// newConverter compiles the conversion, or says that there is none.
func newConverter(from, to arrow.DataType, column string, cv *conversion) (*converter, error) {
	c := &converter{to: to, column: column}
	if d, ok := from.(*arrow.DictionaryType); ok {
		values, err := newConverter(d.ValueType, to, column, cv)
		if err != nil {
			return nil, err
		}
		c.convert = func(a arrow.Array) (arrow.Array, error) { return c.undictionary(a.(*array.Dictionary), values) }
		return c, nil
	}
	if from.ID() == arrow.NULL && to.ID() != arrow.NULL {
		c.convert = func(a arrow.Array) (arrow.Array, error) {
			return array.MakeArrayOfNull(memory.DefaultAllocator, to, a.Len()), nil
		}
		return c, nil
	}
	var err error
	switch t := to.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type, *arrow.Float64Type, *arrow.Float32Type:
		c.convert = c.numbers(from)
	case *arrow.Decimal128Type:
		c.convert = c.decimals(from, t)
	case *arrow.StringType:
		c.convert = c.strings(from)
	case *arrow.BinaryType:
		c.convert = c.binaries(from)
	case *arrow.Date32Type:
		c.convert = c.dates(from)
	case *arrow.TimestampType:
		c.convert, err = c.timestamps(from, t, cv)
	case *arrow.StructType:
		c.convert, err = c.structs(from, t, cv)
	case *arrow.MapType:
		c.convert, err = c.maps(from, t, cv)
	case *arrow.ListType:
		c.convert, err = c.lists(from, t, cv)
	case *arrow.BooleanType, *arrow.NullType:
		if from.ID() == to.ID() {
			c.convert = same
		}
	default:
		return nil, fmt.Errorf("%s is no canonical type", to)
	}
	if err == nil && c.convert == nil {
		err = fmt.Errorf("a file column of type %s cannot be read as %s", from, typeName(to))
	}
	return c, err
}

func same(a arrow.Array) (arrow.Array, error) { return a, nil }

// intWidth is the width of an integer type in bits and the bits that its
// values need in a signed type; 0 for other types.
func intWidth(t arrow.DataType) (width int) {
	switch t.ID() {
	case arrow.INT8:
		return 8
	case arrow.UINT8:
		return 9
	case arrow.INT16:
		return 16
	case arrow.UINT16:
		return 17
	case arrow.INT32:
		return 32
	case arrow.UINT32:
		return 33
	case arrow.INT64:
		return 64
	case arrow.UINT64:
		return 65
	}
	return 0
}

// intAt reads an integer array of any width; uint64 values are the caller's.
func intAt(a arrow.Array) func(int) int64 {
	switch a := a.(type) {
	case *array.Int8:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Uint8:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int16:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Uint16:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int32:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Uint32:
		return func(i int) int64 { return int64(a.Value(i)) }
	case *array.Int64:
		return a.Value
	}
	panic(fmt.Sprintf("internal error: %s is no integer type", a.DataType()))
}

// build makes an array of type to; add appends value i, which is not NULL.
func build[B array.Builder](a arrow.Array, to arrow.DataType, add func(b B, i int) error) (arrow.Array, error) {
	b := array.NewBuilder(memory.DefaultAllocator, to)
	defer b.Release()
	b.Reserve(a.Len())
	tb := b.(B)
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
		} else if err := add(tb, i); err != nil {
			return nil, err
		}
	}
	return b.NewArray(), nil
}

func (c *converter) numbers(from arrow.DataType) func(arrow.Array) (arrow.Array, error) {
	if from.ID() == c.to.ID() {
		return same
	}
	w := intWidth(from)
	fits := func(width int) bool { return w > 0 && w <= width }
	switch c.to.ID() {
	case arrow.INT16:
		if fits(16) {
			return func(a arrow.Array) (arrow.Array, error) {
				at := intAt(a)
				return build(a, c.to, func(b *array.Int16Builder, i int) error { b.Append(int16(at(i))); return nil })
			}
		}
	case arrow.INT32:
		if fits(32) {
			return func(a arrow.Array) (arrow.Array, error) {
				at := intAt(a)
				return build(a, c.to, func(b *array.Int32Builder, i int) error { b.Append(int32(at(i))); return nil })
			}
		}
	case arrow.INT64:
		if fits(64) {
			return func(a arrow.Array) (arrow.Array, error) {
				at := intAt(a)
				return build(a, c.to, func(b *array.Int64Builder, i int) error { b.Append(at(i)); return nil })
			}
		}
	case arrow.FLOAT32:
		if from.ID() == arrow.FLOAT16 {
			return func(a arrow.Array) (arrow.Array, error) {
				h := a.(*array.Float16)
				return build(a, c.to, func(b *array.Float32Builder, i int) error { b.Append(h.Value(i).Float32()); return nil })
			}
		}
	case arrow.FLOAT64:
		return c.doubles(from, fits(33))
	}
	return nil
}

func (c *converter) doubles(from arrow.DataType, ints bool) func(arrow.Array) (arrow.Array, error) {
	var at func(a arrow.Array) func(int) float64
	switch {
	case ints:
		at = func(a arrow.Array) func(int) float64 {
			v := intAt(a)
			return func(i int) float64 { return float64(v(i)) }
		}
	case from.ID() == arrow.FLOAT32:
		at = func(a arrow.Array) func(int) float64 {
			return func(i int) float64 { return float64(a.(*array.Float32).Value(i)) }
		}
	case from.ID() == arrow.FLOAT16:
		at = func(a arrow.Array) func(int) float64 {
			return func(i int) float64 { return float64(a.(*array.Float16).Value(i).Float32()) }
		}
	default:
		return nil
	}
	return func(a arrow.Array) (arrow.Array, error) {
		v := at(a)
		return build(a, c.to, func(b *array.Float64Builder, i int) error { b.Append(v(i)); return nil })
	}
}

// decimals takes decimals and integers whose every value fits.
func (c *converter) decimals(from arrow.DataType, to *arrow.Decimal128Type) func(arrow.Array) (arrow.Array, error) {
	var digits, scale int32
	switch t := from.(type) {
	case arrow.DecimalType:
		digits, scale = t.GetPrecision()-t.GetScale(), t.GetScale()
	default:
		w := intWidth(from)
		if w == 0 {
			return nil
		}
		digits = map[int]int32{8: 3, 9: 3, 16: 5, 17: 5, 32: 10, 33: 10, 64: 19, 65: 20}[w]
	}
	if scale > to.Scale || digits > to.Precision-to.Scale {
		return nil
	}
	if arrow.TypeEqual(from, to) {
		return same
	}
	up := to.Scale - scale
	return func(a arrow.Array) (arrow.Array, error) {
		at := decimalAt(a)
		return build(a, to, func(b *array.Decimal128Builder, i int) error {
			b.Append(at(i).IncreaseScaleBy(up))
			return nil
		})
	}
}

func decimalAt(a arrow.Array) func(int) decimal128.Num {
	switch a := a.(type) {
	case *array.Decimal128:
		return a.Value
	case *array.Decimal32:
		return func(i int) decimal128.Num { return decimal128.FromI64(int64(a.Value(i))) }
	case *array.Decimal64:
		return func(i int) decimal128.Num { return decimal128.FromI64(int64(a.Value(i))) }
	case *array.Decimal256:
		return func(i int) decimal128.Num {
			w := a.Value(i).Array() // little end first; the precision fits 128 bits
			return decimal128.New(int64(w[1]), w[0])
		}
	case *array.Uint64:
		return func(i int) decimal128.Num { return decimal128.FromU64(a.Value(i)) }
	}
	at := intAt(a)
	return func(i int) decimal128.Num { return decimal128.FromI64(at(i)) }
}

func (c *converter) strings(from arrow.DataType) func(arrow.Array) (arrow.Array, error) {
	switch from.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
	default:
		return nil
	}
	return func(a arrow.Array) (arrow.Array, error) {
		s := a.(array.StringLike)
		for i := range a.Len() {
			if a.IsValid(i) && !utf8.ValidString(s.Value(i)) {
				return nil, &convertError{i, c.column, s.Value(i), "invalid UTF-8"}
			}
		}
		if from.ID() == arrow.STRING {
			return a, nil
		}
		return build(a, c.to, func(b *array.StringBuilder, i int) error { b.Append(s.Value(i)); return nil })
	}
}

func (c *converter) binaries(from arrow.DataType) func(arrow.Array) (arrow.Array, error) {
	switch from.ID() {
	case arrow.BINARY:
		return same
	case arrow.LARGE_BINARY, arrow.BINARY_VIEW, arrow.FIXED_SIZE_BINARY:
	default:
		return nil
	}
	return func(a arrow.Array) (arrow.Array, error) {
		v := a.(interface{ Value(int) []byte })
		return build(a, c.to, func(b *array.BinaryBuilder, i int) error { b.Append(v.Value(i)); return nil })
	}
}

func (c *converter) dates(from arrow.DataType) func(arrow.Array) (arrow.Array, error) {
	const day = 86_400_000
	switch from.ID() {
	case arrow.DATE32:
		return same
	case arrow.DATE64:
		return func(a arrow.Array) (arrow.Array, error) {
			d := a.(*array.Date64)
			return build(a, c.to, func(b *array.Date32Builder, i int) error {
				v := int64(d.Value(i))
				if v%day != 0 || v/day > math.MaxInt32 || v/day < math.MinInt32 {
					return &convertError{i, c.column, fmt.Sprint(v), "these milliseconds are no whole day that fits a date"}
				}
				b.Append(arrow.Date32(v / day))
				return nil
			})
		}
	}
	return nil
}

func (c *converter) timestamps(from arrow.DataType, to *arrow.TimestampType, cv *conversion) (func(arrow.Array) (arrow.Array, error), error) {
	ft, ok := from.(*arrow.TimestampType)
	if !ok {
		return nil, nil
	}
	zoned, utc := ft.TimeZone != "", to.TimeZone != ""
	switch {
	case zoned && !utc:
		return nil, errors.New("the file's timestamps are instants (with a zone), the column is timestamp_ntz")
	case utc && !zoned && cv.zone.zone == nil:
		return nil, errors.New("the file's timestamps have no zone and the column is timestamp: state the zone of such timestamps")
	}
	local := utc && !zoned
	if ft.Unit == arrow.Microsecond && !local {
		return func(a arrow.Array) (arrow.Array, error) { return retype(a, to), nil }, nil
	}
	return func(a arrow.Array) (arrow.Array, error) {
		ts := a.(*array.Timestamp)
		return build(a, to, func(b *array.TimestampBuilder, i int) error {
			us, fault := rescale(int64(ts.Value(i)), ft.Unit)
			if fault == "" && local {
				us, fault = cv.zone.localMicros(us)
			}
			if fault != "" {
				return &convertError{i, c.column, fmt.Sprintf("%d %s", ts.Value(i), ft.Unit), fault}
			}
			b.Append(arrow.Timestamp(us))
			return nil
		})
	}, nil
}

// localMicros is local for microseconds.
func (r *timeReader) localMicros(us int64) (int64, string) {
	secs, frac := us/usPerSecond, us%usPerSecond
	if frac < 0 {
		secs, frac = secs-1, frac+usPerSecond
	}
	secs, fault := r.local(secs)
	if fault != "" {
		return 0, fault
	}
	out, ok := micros(secs, frac)
	if !ok {
		return 0, "the time is out of range"
	}
	return out, ""
}

// rescale turns a timestamp into microseconds, exactly or not at all.
func rescale(v int64, unit arrow.TimeUnit) (us int64, fault string) {
	factor := int64(1)
	switch unit {
	case arrow.Second:
		factor = usPerSecond
	case arrow.Millisecond:
		factor = 1000
	case arrow.Nanosecond:
		if v%1000 != 0 {
			return 0, "it has digits below the microsecond"
		}
		return v / 1000, ""
	}
	if v > math.MaxInt64/factor || v < math.MinInt64/factor {
		return 0, "the time is out of range"
	}
	return v * factor, ""
}

// retype is a under another type with the same layout.
func retype(a arrow.Array, t arrow.DataType) arrow.Array {
	d := a.Data()
	return array.MakeFromData(array.NewData(t, d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset()))
}
