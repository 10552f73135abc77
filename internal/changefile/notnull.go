package changefile

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// nestedNull finds a NULL in a nested field of rec that is declared not null;
// row is -1 if there is none. A field whose parent is NULL, or the parent of its
// parent, is not looked at: pqarrow leaves a required struct below a NULL one
// valid with NULL leaves.
func nestedNull(rec arrow.RecordBatch) (row int, column string) {
	for c, f := range rec.Schema().Fields() {
		if !hasNotNull(f.Type) {
			continue
		}
		rows := make([]int, rec.NumRows())
		for i := range rows {
			rows[i] = i
		}
		if row, column = nullBelow(rec.Column(c), f.Name, rows); row >= 0 {
			return row, column
		}
	}
	return -1, ""
}

func hasNotNull(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.MapType:
		return true // its keys
	case *arrow.ListType:
		return !t.ElemField().Nullable || hasNotNull(t.Elem())
	case *arrow.StructType:
		return slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return !f.Nullable || hasNotNull(f.Type) })
	}
	return false
}

// nullBelow looks at the fields of arr; rows[i] is the row to which value i
// belongs, -1 if something above it is NULL.
func nullBelow(arr arrow.Array, column string, rows []int) (int, string) {
	if !hasNotNull(arr.DataType()) {
		return -1, ""
	}
	switch a := arr.(type) {
	case *array.Struct:
		live := make([]int, len(rows))
		for i, row := range rows {
			live[i] = row
			if a.IsNull(i) {
				live[i] = -1
			}
		}
		for k, f := range a.DataType().(*arrow.StructType).Fields() {
			if row, c := nullField(a.Field(k), f.Nullable, column+"."+f.Name, live); row >= 0 {
				return row, c
			}
		}
	case *array.Map:
		live := elementRows(a, a.Keys().Len(), rows)
		if row, c := nullField(a.Keys(), false, column+".key", live); row >= 0 {
			return row, c
		}
		return nullField(a.Items(), a.DataType().(*arrow.MapType).ItemField().Nullable, column+".value", live)
	case *array.List:
		live := elementRows(a, a.ListValues().Len(), rows)
		return nullField(a.ListValues(), a.DataType().(*arrow.ListType).ElemField().Nullable, column+".element", live)
	}
	return -1, ""
}

func nullField(arr arrow.Array, nullable bool, column string, rows []int) (int, string) {
	if !nullable && arr.NullN() > 0 {
		for i, row := range rows {
			if row >= 0 && arr.IsNull(i) {
				return row, column
			}
		}
	}
	return nullBelow(arr, column, rows)
}

// elementRows are the rows of the n elements of a's lists.
func elementRows(a array.ListLike, n int, rows []int) []int {
	live := make([]int, n)
	for j := range live {
		live[j] = -1
	}
	for i, row := range rows {
		if row < 0 || a.IsNull(i) {
			continue
		}
		from, to := a.ValueOffsets(i)
		for j := from; j < to; j++ {
			live[j] = row
		}
	}
	return live
}
