package expr

import (
	"bytes"
	"math"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/deltafold/deltafold/internal/ordered"
)

// A threshold is a constant in the type of the column that is compared with
// it, so that the column's values are compared as they lie: x < 1.5 of an
// integer becomes x <= 1. Where the constant is no value of the type, the
// threshold is the greatest value below it (between is true: no value equals
// it), or the constant lies outside of all values (outside).
type threshold struct {
	outside int  // -1: below every value; 1: above every value
	between bool // the constant lies between value and the next

	i    int64          // integers, booleans, dates, timestamps
	dec  decimal128.Num // decimals, at the column's scale
	f    float64        // double, and float widened
	s    string         // string, binary
	form []byte         // ordered form of the value, in the column's type
}

// newThreshold returns nil where the comparison needs the slow way.
func newThreshold(t arrow.DataType, c *constant) *threshold {
	th := &threshold{}
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		num := c.num
		switch {
		case num == nil && (math.IsNaN(c.f) || c.f > 1<<63):
			th.outside = 1
		case num == nil && c.f < -1<<63:
			th.outside = -1
		case num == nil && math.Abs(c.f) > 1<<53-1:
			return nil // bigints are rounded on their way to double
		case num == nil:
			fl := math.Floor(c.f)
			num, th.between = big.NewInt(int64(fl)), fl != c.f
		case c.scale > 0:
			num, th.between = floorDiv(num, pow10(int(c.scale)))
		}
		if th.outside == 0 && !fits(num, t.(arrow.FixedWidthDataType).BitWidth()) {
			th.outside = num.Sign()
		}
		if th.outside == 0 {
			th.i = num.Int64()
		}
	case arrow.DECIMAL128:
		if c.num == nil {
			return nil
		}
		th.setDecimal(t.(*arrow.Decimal128Type), c)
	case arrow.FLOAT64:
		th.f = c.float()
	case arrow.FLOAT32:
		th.f, th.between = floor32(c.float())
	case arrow.STRING, arrow.BINARY:
		th.s = c.s
	case arrow.BOOL, arrow.DATE32, arrow.TIMESTAMP:
		th.i = c.i
	default:
		return nil
	}
	if th.outside == 0 {
		v := constant{dt: t, i: th.i, num: big.NewInt(th.i), f: th.f, s: th.s}
		if t.ID() == arrow.DECIMAL128 {
			v.num = th.dec.BigInt()
		}
		arr := v.array(1)
		th.form = ordered.Append(nil, arr, 0)
		arr.Release()
	}
	return th
}

func (th *threshold) setDecimal(t *arrow.Decimal128Type, c *constant) {
	num := c.num
	if d := t.Scale - c.scale; d >= 0 {
		num = new(big.Int).Mul(num, pow10(int(d)))
	} else {
		num, th.between = floorDiv(num, pow10(int(-d)))
	}
	if len(new(big.Int).Abs(num).String()) > maxPrecision {
		th.outside = num.Sign()
		return
	}
	th.dec = decimal128.FromBigInt(num)
}

// floor32 is the greatest float that is not above f.
func floor32(f float64) (float64, bool) {
	v := float32(f)
	if float64(v) > f {
		v = math.Nextafter32(v, float32(math.Inf(-1)))
	}
	return float64(v), float64(v) != f && f == f
}

// possible tells which orders of a column's values to the constant its bounds
// leave.
func (th *threshold) possible(b ordered.Bounds) (less, equal, greater bool) {
	if th.outside != 0 {
		return th.outside > 0, false, th.outside < 0
	}
	lo, hi := -1, 1 // where Min and Max lie against the value
	known := b.Min == nil || b.Max == nil || bytes.Compare(b.Min, b.Max) <= 0
	if b.Min != nil && known {
		lo = bytes.Compare(b.Min, th.form)
	}
	if b.Max != nil && known {
		hi = bytes.Compare(b.Max, th.form)
	}
	less = lo < 0 || lo == 0 && th.between
	equal = lo <= 0 && hi >= 0 && !th.between
	return less, equal, hi > 0
}

// compare fills out with the outcome of each value against the constant, be it
// NULL or not.
func (th *threshold) compare(arr arrow.Array, outcomes [3]uint8, out []uint8) {
	if th.outside != 0 {
		v := outcomes[1-th.outside]
		for i := range out {
			out[i] = v
		}
		return
	}
	if th.between {
		outcomes[1] = outcomes[0] // equal to the value below the constant
	}
	switch a := arr.(type) {
	case *array.Boolean:
		at := int64At(a)
		for i := range out {
			out[i] = outcomes[sign(at(i), th.i)]
		}
	case *array.Int8:
		compareInts(a.Int8Values(), th.i, outcomes, out)
	case *array.Int16:
		compareInts(a.Int16Values(), th.i, outcomes, out)
	case *array.Int32:
		compareInts(a.Int32Values(), th.i, outcomes, out)
	case *array.Int64:
		compareInts(a.Int64Values(), th.i, outcomes, out)
	case *array.Date32:
		compareInts(a.Date32Values(), th.i, outcomes, out)
	case *array.Timestamp:
		compareInts(a.TimestampValues(), th.i, outcomes, out)
	case *array.Float32:
		for i, v := range a.Float32Values() {
			out[i] = outcomes[1+compareFloat(float64(v), th.f)]
		}
	case *array.Float64:
		for i, v := range a.Float64Values() {
			out[i] = outcomes[1+compareFloat(v, th.f)]
		}
	case *array.Decimal128:
		for i, v := range a.Values() {
			out[i] = outcomes[1+v.Cmp(th.dec)]
		}
	case *array.String:
		for i := range out {
			out[i] = outcomes[1+strings.Compare(a.Value(i), th.s)]
		}
	case *array.Binary:
		for i := range out {
			out[i] = outcomes[1+bytes.Compare(a.Value(i), []byte(th.s))]
		}
	}
}

func sign(a, b int64) int {
	switch {
	case a < b:
		return 0
	case a > b:
		return 2
	}
	return 1
}

func compareInts[T ~int8 | ~int16 | ~int32 | ~int64](vs []T, limit int64, outcomes [3]uint8, out []uint8) {
	for i, v := range vs {
		out[i] = outcomes[sign(int64(v), limit)]
	}
}
