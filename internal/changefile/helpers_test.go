package changefile_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
)

// write gives the records in a format of rowfile.
func write(t testing.TB, format string, sch *arrow.Schema, recs ...arrow.RecordBatch) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := rowfile.NewWriter(&buf, format, sch)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func read(t testing.TB, name string, data []byte, o *changefile.Options) *changefile.File {
	t.Helper()
	f, err := changefile.Read(context.Background(), changefile.FromBytes(name, data), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// everyType has one column of each kind, named as its type.
func everyType() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "bool", Type: arrow.FixedWidthTypes.Boolean},
		{Name: "byte", Type: arrow.PrimitiveTypes.Int8},
		{Name: "short", Type: arrow.PrimitiveTypes.Int16},
		{Name: "int", Type: arrow.PrimitiveTypes.Int32},
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "float", Type: arrow.PrimitiveTypes.Float32},
		{Name: "double", Type: arrow.PrimitiveTypes.Float64},
		{Name: "dec", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}},
		{Name: "big", Type: &arrow.Decimal128Type{Precision: 38, Scale: 0}},
		{Name: "str", Type: arrow.BinaryTypes.String},
		{Name: "bin", Type: arrow.BinaryTypes.Binary},
		{Name: "date", Type: arrow.FixedWidthTypes.Date32},
		{Name: "ts", Type: arrow.FixedWidthTypes.Timestamp_us},
		{Name: "ntz", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
		{Name: "void", Type: arrow.Null},
		{Name: "list", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64, Nullable: true})},
		{Name: "full", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64})},
		{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)},
		{Name: "st", Type: arrow.StructOf(
			arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64},
			arrow.Field{Name: "y", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true})},
	}, nil)
}
