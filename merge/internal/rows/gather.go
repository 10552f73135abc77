package rows

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Pick names one row of one source array. A negative Row stands for NULL.
type Pick struct {
	Source int32
	Row    int32
}

// Null is the pick of a NULL.
var null = Pick{Source: 0, Row: -1}

// Null returns the pick that stands for a NULL.
func Null() Pick { return null }

// Gather returns one array that holds the picked rows in their order. All
// sources have the type dt; with no source every pick must be NULL. The
// sources are not changed and may be shared; the result shares no buffer with
// them unless it is one whole run of a single source.
func Gather(dt arrow.DataType, sources []arrow.Array, picks []Pick) (arrow.Array, error) {
	switch t := dt.(type) {
	case *arrow.NullType:
		return array.NewNull(len(picks)), nil
	case *arrow.BooleanType:
		return gatherBooleans(sources, picks), nil
	case *arrow.StringType:
		return gatherStrings(sources, picks)
	case *arrow.BinaryType:
		return gatherBinary(sources, picks)
	case arrow.FixedWidthDataType:
		return gatherFixed(t, sources, picks)
	default:
		return gatherRuns(dt, sources, picks)
	}
}

func gatherBooleans(sources []arrow.Array, picks []Pick) arrow.Array {
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(len(picks))
	for _, p := range picks {
		if p.Row < 0 || sources[p.Source].IsNull(int(p.Row)) {
			b.UnsafeAppendBoolToBitmap(false)
			continue
		}
		b.UnsafeAppend(sources[p.Source].(*array.Boolean).Value(int(p.Row)))
	}
	return b.NewArray()
}

func gatherStrings(sources []arrow.Array, picks []Pick) (arrow.Array, error) {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	size := 0
	for _, p := range picks {
		if p.Row >= 0 {
			size += sources[p.Source].(*array.String).ValueLen(int(p.Row))
		}
	}
	if err := fits(size); err != nil {
		return nil, err
	}
	b.Reserve(len(picks))
	b.ReserveData(size)
	for _, p := range picks {
		if p.Row < 0 || sources[p.Source].IsNull(int(p.Row)) {
			b.AppendNull()
			continue
		}
		b.Append(sources[p.Source].(*array.String).Value(int(p.Row)))
	}
	return b.NewArray(), nil
}

func gatherBinary(sources []arrow.Array, picks []Pick) (arrow.Array, error) {
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	defer b.Release()
	size := 0
	for _, p := range picks {
		if p.Row >= 0 {
			size += sources[p.Source].(*array.Binary).ValueLen(int(p.Row))
		}
	}
	if err := fits(size); err != nil {
		return nil, err
	}
	b.Reserve(len(picks))
	b.ReserveData(size)
	for _, p := range picks {
		if p.Row < 0 || sources[p.Source].IsNull(int(p.Row)) {
			b.AppendNull()
			continue
		}
		b.Append(sources[p.Source].(*array.Binary).Value(int(p.Row)))
	}
	return b.NewArray(), nil
}

// fits refuses more bytes than one Arrow array with 32-bit offsets can hold.
func fits(size int) error {
	if size > 1<<31-1 {
		return fmt.Errorf("gather %d bytes of one column: more than one array can hold (2 GiB)", size)
	}
	return nil
}

// gatherFixed copies values of one byte width as bytes: what they mean does
// not matter here.
func gatherFixed(dt arrow.FixedWidthDataType, sources []arrow.Array, picks []Pick) (arrow.Array, error) {
	width := dt.BitWidth() / 8
	if width == 0 || dt.BitWidth()%8 != 0 {
		return gatherRuns(dt, sources, picks)
	}
	values := make([][]byte, len(sources))
	for i, s := range sources {
		d := s.Data()
		if len(d.Buffers()) < 2 || d.Buffers()[1] == nil {
			values[i] = nil
			continue
		}
		values[i] = d.Buffers()[1].Bytes()[d.Offset()*width:]
	}
	out := make([]byte, width*len(picks))
	valid := make([]byte, bitutil.BytesForBits(int64(len(picks))))
	nulls := 0
	for i, p := range picks {
		if p.Row < 0 || sources[p.Source].IsNull(int(p.Row)) {
			nulls++
			continue
		}
		bitutil.SetBit(valid, i)
		at := int(p.Row) * width
		copy(out[i*width:(i+1)*width], values[p.Source][at:at+width])
	}
	var validity *memory.Buffer
	if nulls > 0 {
		validity = memory.NewBufferBytes(valid)
	}
	data := array.NewData(dt, len(picks), []*memory.Buffer{validity, memory.NewBufferBytes(out)}, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// gatherRuns serves every other type: neighbouring rows of one source become
// one slice, and the slices are concatenated.
func gatherRuns(dt arrow.DataType, sources []arrow.Array, picks []Pick) (arrow.Array, error) {
	if len(picks) == 0 {
		b := array.NewBuilder(memory.DefaultAllocator, dt)
		defer b.Release()
		return b.NewArray(), nil
	}
	var parts []arrow.Array
	for i := 0; i < len(picks); {
		p, n := picks[i], 1
		for i+n < len(picks) {
			next := picks[i+n]
			if p.Row < 0 {
				if next.Row >= 0 {
					break
				}
			} else if next.Source != p.Source || next.Row != p.Row+int32(n) {
				break
			}
			n++
		}
		if p.Row < 0 {
			parts = append(parts, array.MakeArrayOfNull(memory.DefaultAllocator, dt, n))
		} else {
			parts = append(parts, array.NewSlice(sources[p.Source], int64(p.Row), int64(p.Row)+int64(n)))
		}
		i += n
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	out, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		return nil, fmt.Errorf("gather rows of type %s: %w", dt, err)
	}
	return out, nil
}
