package datafile

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/parquet"
	pq "github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/deltafold/deltafold/internal/ordered"
)

// footerBounds fills b from the footer's statistics of a leaf at the top level.
// The thrift members are read, not the library's statistics: those fill in what
// is absent and trust the deprecated members too far.
//
// Not trusted: the deprecated min and max but for signed integers (writers
// compared other types as they liked), byte arrays of files that do not declare
// an order, INT96, the max of floating-point columns (a NaN, which is above it,
// is never in there), bounds that contradict each other.
func (f *File) footerBounds(rg int, p *plan, b *ordered.Bounds) {
	md := f.reader.MetaData()
	cm := md.RowGroups[rg].Columns[p.leaf.index].MetaData
	st := cm.Statistics
	if st == nil {
		return
	}
	if st.NullCount != nil && *st.NullCount >= 0 && *st.NullCount <= b.Rows {
		b.NullCount = *st.NullCount
	}
	lo, hi := st.MinValue, st.MaxValue
	phys := p.leaf.node.PhysicalType()
	if lo == nil && hi == nil && (phys == parquet.Types.Int32 || phys == parquet.Types.Int64) {
		lo, hi = st.Min, st.Max
	}
	if phys == parquet.Types.ByteArray || phys == parquet.Types.FixedLenByteArray {
		if md.ColumnOrders == nil || p.leaf.index >= len(md.ColumnOrders) || !md.ColumnOrders[p.leaf.index].IsSetTYPE_ORDER() {
			return
		}
	}
	minForm, okMin := boundForm(p, lo, f.julian, false)
	maxForm, okMax := boundForm(p, hi, f.julian, true)
	if okMin && okMax && string(minForm) > string(maxForm) {
		return
	}
	if b.NullCount == b.Rows {
		return // all NULL; bounds would contradict that
	}
	if okMin {
		b.Min = minForm
	}
	if okMax {
		b.Max = maxForm
	}
}

// boundForm converts one bound as the values themselves are converted.
func boundForm(p *plan, raw []byte, j julian, upper bool) ([]byte, bool) {
	if raw == nil || !ordered.Supported(p.typ) {
		return nil, false
	}
	v := vec{}
	switch p.leaf.node.PhysicalType() {
	case parquet.Types.Boolean:
		if len(raw) != 1 {
			return nil, false
		}
		v.bools = []bool{raw[0] != 0}
	case parquet.Types.Int32:
		if len(raw) != 4 {
			return nil, false
		}
		v.i32 = []int32{int32(binary.LittleEndian.Uint32(raw))}
	case parquet.Types.Int64:
		if len(raw) != 8 {
			return nil, false
		}
		v.i64 = []int64{int64(binary.LittleEndian.Uint64(raw))}
	case parquet.Types.Float:
		if len(raw) != 4 || upper {
			return nil, false
		}
		v.f32 = []float32{math.Float32frombits(binary.LittleEndian.Uint32(raw))}
		if v.f32[0] != v.f32[0] {
			return nil, false
		}
	case parquet.Types.Double:
		if len(raw) != 8 || upper {
			return nil, false
		}
		v.f64 = []float64{math.Float64frombits(binary.LittleEndian.Uint64(raw))}
		if v.f64[0] != v.f64[0] {
			return nil, false
		}
	case parquet.Types.ByteArray:
		if _, dec := p.leaf.node.LogicalType().(pq.DecimalLogicalType); dec {
			return nil, false // variable length: signed or not, writers differ
		}
		v.offs, v.data = []int32{0, int32(len(raw))}, raw
	case parquet.Types.FixedLenByteArray:
		if len(raw) != p.leaf.node.TypeLength() {
			return nil, false
		}
		v.offs, v.data = []int32{0, int32(len(raw))}, raw
	default: // INT96 has no order
		return nil, false
	}
	data, err := p.leaf.convert(&v, &validity{n: 1}, p.typ, j)
	if err != nil {
		return nil, false
	}
	return formOf(data), true
}
