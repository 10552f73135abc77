package rowfile

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

type parquetWriter struct {
	w   *pqarrow.FileWriter
	sch *arrow.Schema
}

func newParquetWriter(w io.Writer, sch *arrow.Schema) (*parquetWriter, error) {
	props := parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithMaxRowGroupLength(128<<10),
		parquet.WithCreatedBy("deltafold"),
		parquet.WithStoreDecimalAsInteger(true),
	)
	arrowProps := pqarrow.NewArrowWriterProperties(pqarrow.WithCoerceTimestamps(arrow.Microsecond))
	// io.NopCloser of sorts: the caller keeps the io.Writer.
	fw, err := pqarrow.NewFileWriter(sch, struct{ io.Writer }{w}, props, arrowProps)
	if err != nil {
		return nil, fmt.Errorf("write Parquet: %w", err)
	}
	return &parquetWriter{fw, sch}, nil
}

func (p *parquetWriter) Write(rec arrow.RecordBatch) error {
	if err := p.w.WriteBuffered(relabel(rec, p.sch)); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

func (p *parquetWriter) Close() error {
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// relabel is rec under the writer's schema, which may differ in names and
// nullability.
func relabel(rec arrow.RecordBatch, sch *arrow.Schema) arrow.RecordBatch {
	if rec.Schema().Equal(sch) {
		return rec
	}
	return array.NewRecordBatch(sch, rec.Columns(), rec.NumRows())
}
