package rowfile

import (
	"bufio"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// The formats of NewWriter.
const (
	JSONL   = "jsonl"
	CSV     = "csv"
	Table   = "table"
	Parquet = "parquet"
	Arrow   = "arrow"
)

// Formats lists the formats in the order in which they are documented.
func Formats() []string { return []string{Table, JSONL, CSV, Parquet, Arrow} }

// Writer takes the rows of one output. It is not safe for concurrent use.
type Writer interface {
	// Write adds the rows of rec, whose columns must have the types of the
	// writer's schema in its order. It does not keep rec.
	Write(rec arrow.RecordBatch) error
	// Close completes the output; without it the output is unusable or cut. It
	// does not close the io.Writer below. An output without rows is whole, too.
	Close() error
}

// NewWriter makes a writer of one of Formats for rows of sch. The columns must
// have canonical types; others are refused here by name.
func NewWriter(w io.Writer, format string, sch *arrow.Schema) (Writer, error) {
	for _, f := range sch.Fields() {
		if err := checkType(f.Type); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	switch format {
	case JSONL:
		return newJSONLWriter(w, sch), nil
	case CSV:
		return newCSVWriter(w, sch)
	case Table:
		return newTableWriter(w, sch), nil
	case Parquet:
		return newParquetWriter(w, sch)
	case Arrow:
		// The IPC writer writes little pieces.
		buf := bufio.NewWriterSize(w, 64<<10)
		return &arrowWriter{ipc.NewWriter(buf, ipc.WithSchema(sch)), buf, sch}, nil
	default:
		return nil, fmt.Errorf("unknown output format %q; formats are table, jsonl, csv, parquet and arrow", format)
	}
}

// checkType refuses what is no canonical type.
func checkType(t arrow.DataType) error {
	switch t := t.(type) {
	case *arrow.BooleanType, *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Float32Type, *arrow.Float64Type, *arrow.Decimal128Type, *arrow.StringType, *arrow.BinaryType,
		*arrow.Date32Type, *arrow.NullType:
		return nil
	case *arrow.TimestampType:
		if t.Unit == arrow.Microsecond && (t.TimeZone == "" || t.TimeZone == "UTC") {
			return nil
		}
	case *arrow.ListType:
		return checkType(t.Elem())
	case *arrow.MapType:
		if err := checkType(t.KeyType()); err != nil {
			return err
		}
		return checkType(t.ItemType())
	case *arrow.StructType:
		for _, f := range t.Fields() {
			if err := checkType(f.Type); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
		return nil
	}
	return fmt.Errorf("%s is no canonical type", t)
}

type arrowWriter struct {
	*ipc.Writer
	buf *bufio.Writer
	sch *arrow.Schema
}

func (w *arrowWriter) Write(rec arrow.RecordBatch) error { return w.Writer.Write(relabel(rec, w.sch)) }

func (w *arrowWriter) Close() error {
	if err := w.Writer.Close(); err != nil {
		return err
	}
	return w.buf.Flush()
}
