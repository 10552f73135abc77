package datafile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
	"github.com/deltafold/deltafold/internal/ordered"
)

// readBuffer is how much of a column chunk is fetched at a time: chunks of our
// own row groups come whole, and of two columns asked for no other is read.
const readBuffer = 1 << 20

// File is a data file opened for reading under a table's schema.
type File struct {
	name   string
	reader *file.Reader
	want   *arrow.Schema
	firsts []int64 // position of each row group's first row, and the row count last
	julian julian
	roots  []*plan // of each column of want; mismatch in plan.err
	source *ioErrors
}

// named is what an io.ReaderAt may have, as os.File does.
type named interface{ Name() string }

// Open reads the footer of the file of the given size behind r, which must stay
// open while the File is used; there is nothing to close. want holds the table's
// data columns. Columns that the file lacks read as NULL, those that the table
// lacks are ignored; a column whose stored type does not fit is an error only
// when it is read.
func Open(ctx context.Context, r io.ReaderAt, size int64, want *arrow.Schema) (f *File, err error) {
	f = &File{want: want}
	if n, ok := r.(named); ok {
		f.name = n.Name()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f = nil
		}
	}()
	defer recovered(f.name, &err)
	if size < 12 {
		return nil, f.damaged(fmt.Sprintf("%d bytes are too few for a Parquet file", size), nil)
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	props.BufferSize = readBuffer
	f.source = &ioErrors{r: r}
	f.reader, err = file.NewParquetReader(io.NewSectionReader(f.source, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, f.damaged("the footer cannot be read", err)
	}
	if err := f.readFooter(size); err != nil {
		return nil, err
	}
	f.roots = resolve(f.reader.MetaData().Schema.Root(), f.reader.MetaData().Schema, want)
	return f, nil
}

// readFooter checks what the rest relies on.
func (f *File) readFooter(size int64) error {
	md := f.reader.MetaData()
	var rows int64
	for i, rg := range md.RowGroups {
		if rg == nil || rg.NumRows < 0 || len(rg.Columns) != md.Schema.NumColumns() {
			return f.damaged(fmt.Sprintf("row group %d is malformed", i), nil)
		}
		for c, cc := range rg.Columns {
			if cc == nil || cc.MetaData == nil {
				return f.damaged(fmt.Sprintf("row group %d: column %d has no metadata", i, c), nil)
			}
			m := cc.MetaData
			if m.TotalCompressedSize < 0 || m.DataPageOffset < 0 || m.DataPageOffset > size || m.TotalCompressedSize > size {
				return f.damaged(fmt.Sprintf("row group %d: column %d lies outside the file", i, c), nil)
			}
		}
		f.firsts = append(f.firsts, rows)
		if rows += rg.NumRows; rows < 0 {
			return f.damaged("the row count overflows", nil)
		}
	}
	f.firsts = append(f.firsts, rows)
	if kv := md.KeyValueMetadata(); kv != nil {
		for _, k := range kv.Keys() {
			switch k {
			case "org.apache.spark.legacyDateTime":
				f.julian.dates = true
			case "org.apache.spark.legacyINT96":
				f.julian.int96 = true
			}
		}
	}
	return nil
}

// damaged makes the error for bytes that cannot be; but if reading failed, what
// is stored may be well and that failure is the error.
func (f *File) damaged(msg string, err error) error {
	if f.source != nil {
		if failed := f.source.failed.Load(); failed != nil {
			return f.inFile(*failed)
		}
	}
	return &DamagedError{File: f.name, Msg: msg, Err: err}
}

// NumRows is the number of rows, the sum over the row groups.
func (f *File) NumRows() int64 { return f.firsts[len(f.firsts)-1] }

// RowGroups is the number of row groups; it may be 0.
func (f *File) RowGroups() int { return len(f.firsts) - 1 }

// RowGroup gives the position in the file of row group i's first row and the
// number of its rows.
func (f *File) RowGroup(i int) (first, rows int64) { return f.firsts[i], f.firsts[i+1] - f.firsts[i] }

// CreatedBy is what the footer says about its writer.
func (f *File) CreatedBy() string { return f.reader.MetaData().GetCreatedBy() }

// column finds a column of the table, an exact name before one that differs in
// case only; -1 if there is none.
func (f *File) column(name string) int {
	if ix := f.want.FieldIndices(name); len(ix) > 0 {
		return ix[0]
	}
	for i, w := range f.want.Fields() {
		if strings.EqualFold(w.Name, name) || schema.Fold(w.Name) == schema.Fold(name) {
			return i
		}
	}
	return -1
}

// Bounds is what the footer knows of a column in row group rg. A column that the
// file lacks is all NULL there. Everything in doubt is unknown (I4); it never fails.
func (f *File) Bounds(rg int, column string) (b ordered.Bounds) {
	b = ordered.Unknown()
	if rg < 0 || rg >= f.RowGroups() {
		return b
	}
	c := f.column(column)
	if c < 0 {
		return b
	}
	defer func() {
		if r := recover(); r != nil { // hostile statistics: they say nothing
			b = ordered.Unknown()
		}
	}()
	_, b.Rows = f.RowGroup(rg)
	p := f.roots[c]
	if p.err != nil {
		return b
	}
	if p.kind == planMissing {
		b.NullCount = b.Rows
		return b
	}
	if p.kind == planLeaf && p.leaf.maxRep == 0 {
		f.footerBounds(rg, p, &b)
	}
	return b
}

// ioErrors remembers that reading failed, as the Parquet library's errors do not
// tell this from damage.
type ioErrors struct {
	r      io.ReaderAt
	failed atomic.Pointer[error]
}

func (e *ioErrors) ReadAt(p []byte, off int64) (int, error) {
	n, err := e.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		e.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}
