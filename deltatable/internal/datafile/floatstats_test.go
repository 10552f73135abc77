package datafile

import (
	"bytes"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/google/go-cmp/cmp"
)

// Footers leave NaN out of min and max, so readers that order it above every
// number would skip row groups that hold one: floating-point columns have no
// statistics there, at any depth, and other columns have them.
func TestFootersHaveNoStatisticsOfFloats(t *testing.T) {
	rec := oneColumn(arrow.PrimitiveTypes.Float64, 0.1, math.NaN())
	data, _ := writeFile(t, WriteOptions{Schema: rec.Schema()}, rec)
	if got := columnsWithStatistics(t, data); len(got) != 0 {
		t.Errorf("statistics of %v", got)
	}

	nested := arrow.NewSchema([]arrow.Field{
		{Name: "st", Nullable: true, Type: arrow.StructOf(
			arrow.Field{Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
			arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		)},
		{Name: "d", Nullable: true, Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Float64, Nullable: true})},
	}, nil)
	floats, err := floatLeaves(nested)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"st.f", "d.list.element"}, floats); d != "" {
		t.Errorf("paths (-want +got):\n%s", d)
	}

	other := longs("c", 0, 10)
	data, _ = writeFile(t, WriteOptions{Schema: other.Schema()}, other)
	if d := cmp.Diff([]string{"c"}, columnsWithStatistics(t, data)); d != "" {
		t.Errorf("columns with statistics (-want +got):\n%s", d)
	}
}

func columnsWithStatistics(t *testing.T, data []byte) []string {
	t.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []string
	for c := range r.MetaData().Schema.NumColumns() {
		chunk, err := r.MetaData().RowGroup(0).ColumnChunk(c)
		if err != nil {
			t.Fatal(err)
		}
		if set, err := chunk.StatsSet(); err != nil {
			t.Fatal(err)
		} else if set {
			out = append(out, r.MetaData().Schema.Column(c).Path())
		}
	}
	return out
}
