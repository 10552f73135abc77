package datafile

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/internal/ordered"
)

func TestRandomBatchesComeBackAndStatisticsAreSound(t *testing.T) {
	floor := scale(1500)
	seed := rand.Uint64()
	t.Logf("%d files, seed %d", floor, seed)
	for i := range floor {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		if !roundTrip(t, r) {
			t.Fatalf("file %d of seed %d", i, seed)
		}
	}
}

func roundTrip(t *testing.T, r *rand.Rand) bool {
	s := randomSchema(r)
	var recs []arrow.RecordBatch
	rows := int64(0)
	for range r.IntN(4) {
		n := pick(r, 0, 1, 7, 60, 300)
		if r.IntN(40) == 0 {
			n = sampleRows + 100
		}
		recs = append(recs, randomBatch(r, s, n))
		rows += int64(n)
	}
	o := WriteOptions{
		Schema: s, Stats: StatsSpec{NumIndexedCols: -1}, RowGroupRows: pick(r, 0, 1, 10, 100, 1000),
		Codec: pick(r, "", "", "zstd", "uncompressed", "lz4_raw"),
	}
	if rows < 20 { // these take long for each page
		o.Codec = pick(r, "gzip", "brotli")
	}
	if o.RowGroupRows == 1 && rows > 200 {
		o.RowGroupRows = 100
	}
	data, sum := writeFile(t, o, recs...)
	hash := integrity.NewFileHash()
	if _, err := hash.Write(data); err != nil {
		t.Fatal(err)
	}
	ok := true
	if d := cmp.Diff(Summary{NumRecords: rows, Size: int64(len(data)), Stats: sum.Stats, Hash: hash.Sum()}, sum); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
		ok = false
	}
	f := openFile(t, data, s)
	got := readAll(t, f, ReadOptions{BatchRows: pick(r, 0, 1, 3, 64, 1000)})
	for _, fd := range s.Fields() {
		if d := cmp.Diff(column(recs, fd.Name), column(got, fd.Name)); d != "" {
			t.Errorf("column %s of type %s (-written +read):\n%s", fd.Name, fd.Type, d)
			ok = false
		}
	}
	return checkProjection(t, r, f, s, recs) && checkBounds(t, f, s, recs, sum.Stats) && ok
}

// checkProjection reads some columns of some row groups, in some order.
func checkProjection(t *testing.T, r *rand.Rand, f *File, s *arrow.Schema, recs []arrow.RecordBatch) bool {
	var columns []string
	for _, c := range r.Perm(s.NumFields())[:1+r.IntN(s.NumFields())] {
		columns = append(columns, s.Field(c).Name)
	}
	groups := []int{}
	for g := range f.RowGroups() {
		if r.IntN(2) == 0 {
			groups = append(groups, g)
		}
	}
	got := readAll(t, f, ReadOptions{Columns: columns, RowGroups: groups, BatchRows: pick(r, 0, 5)})
	for i, c := range columns {
		all := column(recs, c)
		want := []any{}
		for _, g := range groups {
			first, rows := f.RowGroup(g)
			want = append(want, all[first:first+rows]...)
		}
		if d := cmp.Diff(want, column(got, c)); d != "" {
			t.Errorf("projected column %s (-want +got):\n%s", c, d)
			return false
		}
		for _, rec := range got {
			if rec.ColumnName(i) != c || !arrow.TypeEqual(rec.Column(i).DataType(), s.Field(s.FieldIndices(c)[0]).Type) {
				t.Errorf("column %d is %s of type %s", i, rec.ColumnName(i), rec.Column(i).DataType())
				return false
			}
		}
	}
	return true
}

// leafValues gives the ordered forms of a leaf's values and its nulls.
func leafValues(recs []arrow.RecordBatch, path []int) (forms [][]byte, nulls int64) {
	for _, rec := range recs {
		arr := rec.Column(path[0])
		visible := func(i int) bool { return arr.IsValid(i) }
		for _, p := range path[1:] {
			outer := visible
			st := arr.(*array.Struct)
			arr = st.Field(p)
			inner := arr
			visible = func(i int) bool { return outer(i) && inner.IsValid(i) }
		}
		for i := range arr.Len() {
			if arr.DataType().ID() == arrow.NULL || !visible(i) {
				nulls++
			} else if ordered.Supported(arr.DataType()) {
				forms = append(forms, ordered.Append(nil, arr, i))
			}
		}
	}
	return forms, nulls
}

func checkBounds(t *testing.T, f *File, s *arrow.Schema, recs []arrow.RecordBatch, stats string) bool {
	ok := true
	var visit func(path []int, name string, typ arrow.DataType)
	visit = func(path []int, name string, typ arrow.DataType) {
		if st, isStruct := typ.(*arrow.StructType); isStruct {
			for i, fd := range st.Fields() {
				visit(append(path[:len(path):len(path)], i), name+"."+fd.Name, fd.Type)
			}
			return
		}
		forms, nulls := leafValues(recs, path)
		for kind, b := range map[string]ordered.Bounds{
			"unknown writer": StatsBounds(stats, s)(name), "own": OwnStatsBounds(stats, s)(name),
		} {
			ok = sound(t, kind+" "+name+" "+typ.String(), b, facts{forms, nulls, f.NumRows()}) && ok
		}
		if len(path) > 1 {
			return
		}
		at := int64(0)
		for g := range f.RowGroups() {
			_, rows := f.RowGroup(g)
			part := cut(recs, at, rows)
			at += rows
			forms, nulls := leafValues(part, path)
			ok = sound(t, "row group "+name+" "+typ.String(), f.Bounds(g, name), facts{forms, nulls, rows}) && ok
		}
	}
	for i, fd := range s.Fields() {
		visit([]int{i}, fd.Name, fd.Type)
	}
	return ok
}

func cut(recs []arrow.RecordBatch, first, rows int64) (out []arrow.RecordBatch) {
	for _, rec := range recs {
		n := rec.NumRows()
		if from, to := max(first, 0), min(first+rows, n); from < to {
			out = append(out, rec.NewSlice(from, to))
		}
		first -= n
	}
	return out
}

type facts struct {
	forms       [][]byte // of the non-null values
	nulls, rows int64
}

// sound checks bounds against what is there.
func sound(t *testing.T, what string, b ordered.Bounds, is facts) bool {
	ok := true
	fail := func(format string, args ...any) {
		t.Errorf(what+": "+format, args...)
		ok = false
	}
	if b.NullCount != -1 && b.NullCount != is.nulls {
		fail("null count %d, want %d", b.NullCount, is.nulls)
	}
	if b.Rows != -1 && b.Rows != is.rows {
		fail("rows %d, want %d", b.Rows, is.rows)
	}
	for _, v := range is.forms {
		if b.Min != nil && string(v) < string(b.Min) || b.Max != nil && string(v) > string(b.Max) {
			fail("value %x outside %x to %x", v, b.Min, b.Max)
			return false
		}
		if b.Excludes([][]byte{v}) {
			fail("value %x excluded", v)
			return false
		}
	}
	return ok
}
