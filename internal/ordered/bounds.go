package ordered

import (
	"bytes"
	"sort"
)

// Bounds is what statistics know of one column in one file or row group. Values
// are forms as [Append] gives them, of the column's own type. [Unknown] says
// nothing, and neither does the zero Bounds: a forgotten one must skip no file.
type Bounds struct {
	// Min and Max, where not nil, hold for every non-null value v, NaN
	// included: Min <= v <= Max. Makers widen what was truncated or floored
	// (strings, timestamps in milliseconds) before they set them. nil is
	// unknown (I4).
	Min, Max []byte
	// NullCount is the number of NULLs, -1 if unknown.
	NullCount int64
	// Rows is the number of rows, -1 if unknown. A file of 0 rows is not worth a
	// rule: it excludes nothing.
	Rows int64
	// Exact says that all rows have one and the same value, Min == Max, or that
	// all are NULL (NullCount == Rows): a partition column.
	Exact bool
}

// Unknown returns the Bounds that exclude nothing.
func Unknown() Bounds { return Bounds{NullCount: -1, Rows: -1} }

// AllNull tells whether it is certain that no row has a non-null value. Bounds
// that contradict themselves are certain of nothing.
func (b Bounds) AllNull() bool {
	return b.Rows > 0 && b.NullCount == b.Rows && b.Min == nil && b.Max == nil
}

// Excludes tells whether it is certain that no row holds any of the values in
// sorted, which are forms of non-null values, ascending and distinct. Unknown or
// contradictory statistics (Min above Max) exclude nothing (I4). Without values
// it is true.
func (b Bounds) Excludes(sorted [][]byte) bool {
	if len(sorted) == 0 {
		return true
	}
	if IsNull(sorted[0]) { // not lawful input, but never a reason to lose a row
		return false
	}
	if b.AllNull() {
		return true
	}
	if b.Min != nil && b.Max != nil && bytes.Compare(b.Min, b.Max) > 0 {
		return false
	}
	first := 0 // the first value that is not below Min
	if b.Min != nil {
		first = sort.Search(len(sorted), func(i int) bool { return bytes.Compare(sorted[i], b.Min) >= 0 })
	}
	if first == len(sorted) {
		return true
	}
	return b.Max != nil && bytes.Compare(sorted[first], b.Max) > 0
}
