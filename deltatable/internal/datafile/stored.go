package datafile

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
	"github.com/deltafold/deltafold/internal/ordered"
)

// storedField gives a field as files hold it: optional at all levels, lists and
// maps with the names of three-level layouts, without void members. ok is false
// if nothing is left (protocol notes 1.2: void is never in data files).
func storedField(f arrow.Field) (out arrow.Field, ok bool, err error) {
	t, ok, err := storedType(f.Type, f.Name)
	return arrow.Field{Name: f.Name, Type: t, Nullable: true}, ok, err
}

func storedType(t arrow.DataType, at string) (arrow.DataType, bool, error) {
	switch t := t.(type) {
	case *arrow.NullType:
		return nil, false, nil
	case *arrow.StructType:
		var fields []arrow.Field
		for _, f := range t.Fields() {
			s, ok, err := storedField(f)
			if err != nil {
				return nil, false, err
			}
			if ok {
				fields = append(fields, s)
			}
		}
		if len(fields) == 0 {
			return nil, false, fmt.Errorf("write a data file: column %s: a struct without members cannot be stored", at)
		}
		return arrow.StructOf(fields...), true, nil
	case *arrow.MapType:
		key, ok1, err := storedType(t.KeyType(), at+".key")
		if err != nil {
			return nil, false, err
		}
		item, ok2, err := storedType(t.ItemType(), at+".value")
		if err != nil {
			return nil, false, err
		}
		if !ok1 || !ok2 {
			return nil, false, fmt.Errorf("write a data file: column %s: void within a map cannot be stored", at)
		}
		return arrow.MapOf(key, item), true, nil
	case *arrow.ListType:
		elem, ok, err := storedType(t.Elem(), at+".element")
		if err == nil && !ok {
			err = fmt.Errorf("write a data file: column %s: void within an array cannot be stored", at)
		}
		if err != nil {
			return nil, false, err
		}
		return arrow.ListOfField(arrow.Field{Name: "element", Type: elem, Nullable: true}), true, nil
	}
	if !canonicalAtom(t) {
		return nil, false, fmt.Errorf("write a data file: column %s: type %s is not one that tables hold", at, t)
	}
	return t, true, nil
}

func canonicalAtom(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.TimestampType:
		return t.Unit == arrow.Microsecond && (t.TimeZone == "" || t.TimeZone == "UTC")
	case *arrow.Decimal128Type:
		return t.Precision >= 1 && t.Precision <= 38 && t.Scale >= 0 && t.Scale <= t.Precision
	case *arrow.BooleanType, *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Float32Type, *arrow.Float64Type, *arrow.StringType, *arrow.BinaryType, *arrow.Date32Type:
		return true
	}
	return false
}

// sameType compares types but for nullability and the names within lists and maps.
func sameType(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	switch a := a.(type) {
	case *arrow.StructType:
		b := b.(*arrow.StructType)
		if a.NumFields() != b.NumFields() {
			return false
		}
		for i := range a.NumFields() {
			if a.Field(i).Name != b.Field(i).Name || !sameType(a.Field(i).Type, b.Field(i).Type) {
				return false
			}
		}
		return true
	case *arrow.MapType:
		b := b.(*arrow.MapType)
		return sameType(a.KeyType(), b.KeyType()) && sameType(a.ItemType(), b.ItemType())
	case *arrow.ListType:
		return sameType(a.Elem(), b.(*arrow.ListType).Elem())
	}
	return arrow.TypeEqual(a, b)
}

// retype gives data the type to, which differs in nullability, names and void
// members only. Values are shared.
func retype(d arrow.ArrayData, to arrow.DataType) *array.Data {
	children := d.Children()
	kids := make([]arrow.ArrayData, 0, len(children))
	switch t := to.(type) {
	case *arrow.StructType:
		from := d.DataType().(*arrow.StructType)
		for i, next := 0, 0; i < from.NumFields(); i++ {
			if next < t.NumFields() && t.Field(next).Name == from.Field(i).Name {
				kids = append(kids, retype(children[i], t.Field(next).Type))
				next++
			}
		}
	case *arrow.MapType:
		entries := children[0]
		kv := []arrow.ArrayData{retype(entries.Children()[0], t.KeyType()), retype(entries.Children()[1], t.ItemType())}
		kids = append(kids, array.NewData(t.Elem(), entries.Len(), entries.Buffers(), kv, entries.NullN(), entries.Offset()))
	case *arrow.ListType:
		kids = append(kids, retype(children[0], t.Elem()))
	}
	return array.NewData(to, d.Len(), d.Buffers(), kids, d.NullN(), d.Offset())
}

// uniqueLooking gives the leaf columns of which a sample is mostly distinct: a
// dictionary would only cost there, and a column that falls back from one is
// larger and slower to read.
func uniqueLooking(stored *arrow.Schema, sample []arrow.RecordBatch) []parquet.ColumnPath {
	var out []parquet.ColumnPath
	for i, f := range stored.Fields() {
		arrs := make([]arrow.Array, len(sample))
		for r, rec := range sample {
			arrs[r] = rec.Column(i)
		}
		out = uniqueLeaves(out, parquet.ColumnPath{f.Name}, arrs)
	}
	return out
}

func uniqueLeaves(out []parquet.ColumnPath, path parquet.ColumnPath, arrs []arrow.Array) []parquet.ColumnPath {
	if len(arrs) == 0 {
		return out
	}
	sub := func(names ...string) parquet.ColumnPath { return append(path[:len(path):len(path)], names...) }
	each := func(f func(arrow.Array) arrow.Array) []arrow.Array {
		in := make([]arrow.Array, len(arrs))
		for i, a := range arrs {
			in[i] = f(a)
		}
		return in
	}
	switch t := arrs[0].DataType().(type) {
	case *arrow.StructType:
		for i := range t.NumFields() {
			out = uniqueLeaves(out, sub(t.Field(i).Name), each(func(a arrow.Array) arrow.Array { return a.(*array.Struct).Field(i) }))
		}
		return out
	case *arrow.MapType:
		out = uniqueLeaves(out, sub("key_value", "key"), each(func(a arrow.Array) arrow.Array { return a.(*array.Map).Keys() }))
		return uniqueLeaves(out, sub("key_value", "value"), each(func(a arrow.Array) arrow.Array { return a.(*array.Map).Items() }))
	case *arrow.ListType:
		return uniqueLeaves(out, sub("list", "element"), each(func(a arrow.Array) arrow.Array { return a.(*array.List).ListValues() }))
	}
	seen, n := map[string]struct{}{}, 0
	var key []byte
	for _, a := range arrs {
		for i := 0; i < a.Len() && n < sampleRows; i++ {
			if a.IsNull(i) {
				continue
			}
			n++
			key = ordered.Append(key[:0], a, i)
			seen[string(key)] = struct{}{}
		}
	}
	if n > 0 && len(seen)*10 > n*8 {
		out = append(out, path)
	}
	return out
}

// check enforces what the schema says and Parquet does not: NOT NULL at every
// level, and the lengths of CHAR and VARCHAR.
type check struct {
	column int
	field  arrow.Field
}

func checksOf(s *arrow.Schema) []check {
	var out []check
	for i, f := range s.Fields() {
		if needsCheck(f) {
			out = append(out, check{column: i, field: f})
		}
	}
	return out
}

func needsCheck(f arrow.Field) bool {
	if _, ok := schema.ArrowCharVarchar(f); ok || !f.Nullable {
		return true
	}
	if n, ok := f.Type.(arrow.NestedType); ok {
		for _, c := range n.Fields() {
			if needsCheck(c) {
				return true
			}
		}
	}
	return false
}

func (c check) run(arr arrow.Array, first int64) error {
	row, msg := badRow(arr, c.field, func(int) bool { return true })
	if msg == "" {
		return nil
	}
	return &ValueError{Column: c.field.Name, Row: first + int64(row), Msg: msg}
}

// badRow finds the first slot that breaks the field's rules among those that
// visible says are not within a NULL. The row is exact outside lists and maps.
func badRow(arr arrow.Array, f arrow.Field, visible func(int) bool) (int, string) {
	if !f.Nullable && arr.NullN() > 0 {
		for i := range arr.Len() {
			if visible(i) && arr.IsNull(i) {
				return i, fmt.Sprintf("NULL in %s, which is NOT NULL", f.Name)
			}
		}
	}
	if limit, ok := schema.ArrowCharVarchar(f); ok {
		if row, msg := badLength(arr, limit, visible); msg != "" {
			return row, msg
		}
	}
	if !needsChildCheck(f) {
		return 0, ""
	}
	return badNested(arr, f, func(i int) bool { return visible(i) && arr.IsValid(i) })
}

func badLength(arr arrow.Array, limit schema.CharVarchar, visible func(int) bool) (int, string) {
	s, ok := arr.(*array.String)
	if !ok {
		return 0, ""
	}
	for i := range s.Len() {
		if s.IsNull(i) || !visible(i) {
			continue
		}
		if err := limit.Check(s.Value(i)); err != nil {
			return i, err.Error()
		}
	}
	return 0, ""
}

func badNested(arr arrow.Array, f arrow.Field, visible func(int) bool) (int, string) {
	switch a := arr.(type) {
	case *array.Struct:
		for i, c := range f.Type.(*arrow.StructType).Fields() {
			if row, msg := badRow(a.Field(i), c, visible); msg != "" {
				return row, msg
			}
		}
	case *array.Map:
		t := f.Type.(*arrow.MapType)
		if row, msg := badElement(a, a.Keys(), t.KeyField(), visible); msg != "" {
			return row, msg
		}
		return badElement(a, a.Items(), t.ItemField(), visible)
	case *array.List:
		return badElement(a, a.ListValues(), f.Type.(*arrow.ListType).ElemField(), visible)
	}
	return 0, ""
}

// badElement is badRow for the elements of lists; the row is that of the list.
func badElement(list array.ListLike, elems arrow.Array, f arrow.Field, visible func(int) bool) (int, string) {
	if !suspect(elems, f) {
		return 0, ""
	}
	inside, row := ranges(list, visible)
	at, msg := badRow(elems, f, inside)
	if msg == "" {
		return 0, ""
	}
	return row(at), msg
}

func needsChildCheck(f arrow.Field) bool {
	n, ok := f.Type.(arrow.NestedType)
	if !ok {
		return false
	}
	for _, c := range n.Fields() {
		if needsCheck(c) {
			return true
		}
	}
	return false
}

// suspect is false if a glance at arr shows that nothing in it breaks the rules.
func suspect(arr arrow.Array, f arrow.Field) bool {
	if _, ok := schema.ArrowCharVarchar(f); ok || !f.Nullable && arr.NullN() > 0 {
		return true
	}
	return needsChildCheck(f)
}

// ranges tells which slots of a list's values belong to a visible list, and to
// which row a slot belongs.
func ranges(a array.ListLike, visible func(int) bool) (inside func(int) bool, row func(int) int) {
	owner := make([]int, a.ListValues().Len())
	for i := range owner {
		owner[i] = -1
	}
	for i := range a.Len() {
		if visible(i) {
			from, to := a.ValueOffsets(i)
			for j := from; j < to; j++ {
				owner[j] = i
			}
		}
	}
	return func(j int) bool { return owner[j] >= 0 }, func(j int) int { return owner[j] }
}

// nullColumn makes n NULLs.
func nullColumn(t arrow.DataType, n int) arrow.Array {
	return array.MakeArrayOfNull(memory.DefaultAllocator, t, n)
}
