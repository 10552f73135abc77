package datafile

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// vec holds the non-null values of a column in its physical type; one member is
// in use.
type vec struct {
	bools []bool
	i32   []int32
	i64   []int64
	i96   []parquet.Int96
	f32   []float32
	f64   []float64
	offs  []int32 // byte arrays: value i is data[offs[i]:offs[i+1]]
	data  []byte
}

// leafReader decodes one column chunk, batch by batch. A batch's levels and
// values are freshly allocated: Arrow arrays take them over.
type leafReader struct {
	leaf  *leaf
	chunk file.ColumnChunkReader
	total int64 // levels in the chunk, by its metadata
	seen  int64 // levels read so far

	// The batch read last.
	def, rep []int16 // nil if the maximum is 0
	entries  int     // levels
	vals     vec

	// Levels and values beyond the batch, of columns within lists only.
	restDef, restRep []int16
	rest             vec

	arrays []parquet.ByteArray // scratch
	fixed  []parquet.FixedLenByteArray
	guess  int // bytes of the last batch's byte arrays
}

func newLeafReader(l *leaf, chunk file.ColumnChunkReader, total int64) *leafReader {
	return &leafReader{leaf: l, chunk: chunk, total: total}
}

// read decodes the next n rows into def, rep and vals.
func (l *leafReader) read(n int) error {
	if l.leaf.maxRep > 0 {
		return l.readLists(n)
	}
	l.vals, l.entries = l.fresh(n), n
	l.def = nil
	if l.leaf.maxDef > 0 {
		l.def = make([]int16, n)
	}
	for got := 0; got < n; {
		var def []int16
		if l.def != nil {
			def = l.def[got:]
		}
		lv, err := l.page(&l.vals, n-got, def, nil)
		if err != nil {
			return err
		}
		got += lv
	}
	l.guess = max(l.guess, len(l.vals.data))
	return nil
}

// fresh allocates room for n values.
func (l *leafReader) fresh(n int) vec {
	switch l.leaf.node.PhysicalType() {
	case parquet.Types.Boolean:
		return vec{bools: make([]bool, 0, n)}
	case parquet.Types.Int32:
		return vec{i32: make([]int32, 0, n)}
	case parquet.Types.Int64:
		return vec{i64: make([]int64, 0, n)}
	case parquet.Types.Int96:
		return vec{i96: make([]parquet.Int96, 0, n)}
	case parquet.Types.Float:
		return vec{f32: make([]float32, 0, n)}
	case parquet.Types.Double:
		return vec{f64: make([]float64, 0, n)}
	default:
		return vec{offs: append(make([]int32, 0, n+1), 0), data: make([]byte, 0, l.guess+l.guess/16)}
	}
}

var errEnds = errors.New("the column ends before the row group does")

// page reads up to n levels, all of one page, and appends their values to v.
func (l *leafReader) page(v *vec, n int, def, rep []int16) (int, error) {
	// An empty page reads as nothing; only so many of them are believed.
	for range 100 {
		lv, err := l.decode(v, n, def, rep)
		if err != nil {
			return 0, err
		}
		if lv > 0 {
			l.seen += int64(lv)
			return lv, nil
		}
		if l.seen >= l.total {
			break
		}
	}
	return 0, errEnds
}

func (l *leafReader) decode(v *vec, n int, def, rep []int16) (lv int, err error) {
	switch c := l.chunk.(type) {
	case *file.BooleanColumnChunkReader:
		v.bools, lv, err = decodeFixed(c, v.bools, n, def, rep)
	case *file.Int32ColumnChunkReader:
		v.i32, lv, err = decodeFixed(c, v.i32, n, def, rep)
	case *file.Int64ColumnChunkReader:
		v.i64, lv, err = decodeFixed(c, v.i64, n, def, rep)
	case *file.Int96ColumnChunkReader:
		v.i96, lv, err = decodeFixed(c, v.i96, n, def, rep)
	case *file.Float32ColumnChunkReader:
		v.f32, lv, err = decodeFixed(c, v.f32, n, def, rep)
	case *file.Float64ColumnChunkReader:
		v.f64, lv, err = decodeFixed(c, v.f64, n, def, rep)
	case *file.ByteArrayColumnChunkReader:
		l.arrays, lv, err = decodeFixed(c, l.arrays[:0], n, def, rep)
		if err == nil {
			err = appendBytes(v, l.arrays)
		}
	case *file.FixedLenByteArrayColumnChunkReader:
		l.fixed, lv, err = decodeFixed(c, l.fixed[:0], n, def, rep)
		if err == nil {
			err = appendBytes(v, l.fixed)
		}
	default:
		err = fmt.Errorf("internal error: no reader for %T", c)
	}
	if err != nil {
		return 0, err
	}
	if lv > n {
		return 0, errors.New("more levels than asked for")
	}
	return lv, nil
}

type batchReader[T any] interface {
	ReadBatchInPage(n int64, values []T, def, rep []int16) (int64, int, error)
}

// decodeFixed appends one read to dst. Values must be as many as the levels say.
func decodeFixed[T any](r batchReader[T], dst []T, n int, def, rep []int16) ([]T, int, error) {
	at := len(dst)
	if cap(dst)-at < n {
		grown := make([]T, at, max(2*at, at+n))
		copy(grown, dst)
		dst = grown
	}
	lv, nv, err := r.ReadBatchInPage(int64(n), dst[at:at+n], def, rep)
	if err != nil {
		return dst, 0, err
	}
	if nv < 0 || nv > n || int64(nv) > lv {
		return dst, 0, errors.New("more values than levels")
	}
	return dst[:at+nv], int(lv), nil
}

// appendBytes copies values out of the page, whose memory the next read may reuse.
func appendBytes[T ~[]byte](v *vec, vals []T) error {
	size := 0
	for _, b := range vals {
		size += len(b)
	}
	if len(v.data)+size > math.MaxInt32 {
		return fmt.Errorf("more than 2 GB of values in one batch")
	}
	if cap(v.data)-len(v.data) < size {
		grown := make([]byte, len(v.data), max(2*cap(v.data), len(v.data)+size))
		copy(grown, v.data)
		v.data = grown
	}
	for _, b := range vals {
		v.data = append(v.data, b...)
		v.offs = append(v.offs, int32(len(v.data)))
	}
	return nil
}

// readLists reads until n rows are complete and keeps the rest for the next call.
func (l *leafReader) readLists(n int) error {
	def, rep, vals := l.restDef, l.restRep, l.rest
	if def == nil {
		vals = l.fresh(n)
	}
	starts, cut := 0, -1 // cut: where row n+1 begins
	for scanned := 0; ; {
		for ; scanned < len(rep) && cut < 0; scanned++ {
			if rep[scanned] == 0 {
				if starts == n {
					cut = scanned
				}
				starts++
			} else if starts == 0 {
				return errors.New("a list continues before it begins")
			}
		}
		if cut >= 0 {
			break
		}
		if l.seen >= l.total {
			if starts < n {
				return errEnds
			}
			cut = len(rep)
			break
		}
		chunk := max(n, 1024)
		at := len(def)
		def, rep = grow(def, chunk), grow(rep, chunk)
		lv, err := l.page(&vals, chunk, def[at:], rep[at:])
		if err != nil {
			return err
		}
		def, rep = def[:at+lv], rep[:at+lv]
	}
	l.take(def, rep, vals, cut)
	return nil
}

func grow(s []int16, n int) []int16 {
	if cap(s)-len(s) < n {
		g := make([]int16, len(s), max(2*cap(s), len(s)+n))
		copy(g, s)
		s = g
	}
	return s[:len(s)+n]
}

// take splits levels and values at level cut into the batch and the rest.
func (l *leafReader) take(def, rep []int16, vals vec, cut int) {
	nv := 0
	for _, d := range def[:cut] {
		if d == l.leaf.maxDef {
			nv++
		}
	}
	l.def, l.rep, l.entries = def[:cut:cut], rep[:cut:cut], cut
	l.restDef, l.restRep = append([]int16{}, def[cut:]...), append([]int16{}, rep[cut:]...)
	l.vals, l.rest = vals.split(nv)
}

// split cuts a vector after n values; the second part is a copy.
func (v vec) split(n int) (head, tail vec) {
	head.bools, tail.bools = splitSlice(v.bools, n)
	head.i32, tail.i32 = splitSlice(v.i32, n)
	head.i64, tail.i64 = splitSlice(v.i64, n)
	head.i96, tail.i96 = splitSlice(v.i96, n)
	head.f32, tail.f32 = splitSlice(v.f32, n)
	head.f64, tail.f64 = splitSlice(v.f64, n)
	if v.offs != nil {
		at := v.offs[n]
		head.offs, head.data = v.offs[:n+1:n+1], v.data[:at:at]
		tail.offs = make([]int32, 0, len(v.offs)-n)
		for _, o := range v.offs[n:] {
			tail.offs = append(tail.offs, o-at)
		}
		tail.data = append([]byte{}, v.data[at:]...)
	}
	return head, tail
}

func splitSlice[T any](s []T, n int) (head, tail []T) {
	if s == nil {
		return nil, nil
	}
	return s[:n:n], append([]T{}, s[n:]...)
}

// len is the number of values.
func (v *vec) len() int {
	if v.offs != nil {
		return len(v.offs) - 1
	}
	return len(v.bools) + len(v.i32) + len(v.i64) + len(v.i96) + len(v.f32) + len(v.f64)
}
