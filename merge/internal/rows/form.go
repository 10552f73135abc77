package rows

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/internal/ordered"
)

// AppendForm appends a form of row i of a to dst. Forms of rows of one type are
// equal exactly where [Equal] says that the rows are (package ordered has those of
// atomic values); they delimit themselves, so
// those of several columns can be put one after the other. They are not kept: a
// later version may have others.
func AppendForm(dst []byte, a arrow.Array, i int) []byte {
	if ordered.Supported(a.DataType()) {
		return ordered.Append(dst, a, i)
	}
	if a.IsNull(i) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch x := a.(type) {
	case *array.Struct:
		for f := range x.NumField() {
			dst = AppendForm(dst, x.Field(f), i)
		}
		return dst
	case *array.Map:
		return appendEntries(dst, x, i)
	case *array.List:
		start, end := x.ValueOffsets(i)
		dst = binary.AppendUvarint(dst, uint64(end-start))
		for k := start; k < end; k++ {
			dst = AppendForm(dst, x.ListValues(), int(k))
		}
		return dst
	default:
		panic(fmt.Sprintf("rows: internal error: no form of %s", a.DataType()))
	}
}

// appendEntries has the entries of a map sorted, as their order does not count.
func appendEntries(dst []byte, m *array.Map, i int) []byte {
	start, end := m.ValueOffsets(i)
	entries := make([][]byte, 0, end-start)
	for k := start; k < end; k++ {
		entries = append(entries, AppendForm(AppendForm(nil, m.Keys(), int(k)), m.Items(), int(k)))
	}
	slices.SortFunc(entries, bytes.Compare)
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for _, e := range entries {
		dst = append(dst, e...)
	}
	return dst
}
