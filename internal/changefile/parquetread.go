package changefile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// read reads the columns of the plan, one batch after the other. INT96
// timestamps at the top level, as Spark writes them by default, do not go
// through pqarrow, which knows them as nanoseconds and so ends in the year 2262.
func (p *columnPlan) read(ctx context.Context, pr *pqarrow.FileReader) error {
	c := p.columns(pr)
	if len(c.leaves) > 0 {
		var err error
		if c.rr, err = pr.GetRecordReader(ctx, c.leaves, nil); err != nil {
			return p.damaged("Parquet", err)
		}
		defer c.rr.Release()
	}
	for left := pr.ParquetReader().NumRows(); left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		cols, n, err := p.next(c, min(left, BatchRows))
		if err != nil {
			return err
		}
		if cols == nil {
			return nil // the caller counts the rows
		}
		if err := p.add(cols, int(n)); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// parquetColumns are the readers of a file's columns.
type parquetColumns struct {
	rr     pqarrow.RecordReader // of the leaves; nil if there are none
	leaves []int
	at     map[int]int // field of the file -> column of rr's batches
	old    []oldField  // in the order of the file
}

// oldField is a field of the file that has INT96 timestamps.
type oldField struct {
	field int
	read  *int96Column
}

func (p *columnPlan) columns(pr *pqarrow.FileReader) *parquetColumns {
	c := &parquetColumns{at: map[int]int{}}
	pf := pr.ParquetReader()
	for i, f := range pr.Manifest.Fields {
		if !p.uses(i) {
			continue
		}
		if f.IsLeaf() && pf.MetaData().Schema.Column(f.ColIndex).PhysicalType() == parquet.Types.Int96 {
			maxDef := pf.MetaData().Schema.Column(f.ColIndex).MaxDefinitionLevel()
			c.old = append(c.old, oldField{i, &int96Column{pf: pf, column: f.ColIndex, maxDef: maxDef}})
			continue
		}
		c.at[i] = len(c.at)
		c.leaves = appendLeaves(c.leaves, &f)
	}
	return c
}

// next reads up to n rows, by field of the file; nil if the file ends early.
func (p *columnPlan) next(c *parquetColumns, n int64) (map[int]arrow.Array, int64, error) {
	cols := map[int]arrow.Array{}
	if c.rr != nil {
		if !c.rr.Next() {
			if err := c.rr.Err(); err != nil && !errors.Is(err, io.EOF) {
				return nil, 0, p.damaged("Parquet", err)
			}
			return nil, 0, nil
		}
		rec := c.rr.RecordBatch()
		n = rec.NumRows()
		for i, k := range c.at {
			cols[i] = rec.Column(k)
		}
	}
	for _, f := range c.old {
		arr, err := f.read.read(int(n))
		var ce *convertError
		if errors.As(err, &ce) {
			return nil, 0, p.located(p.schemaName(f.field), err)
		} else if err != nil {
			return nil, 0, p.damaged("Parquet", err)
		}
		cols[f.field] = arr
	}
	return cols, n, nil
}

func appendLeaves(leaves []int, f *pqarrow.SchemaField) []int {
	if f.IsLeaf() {
		return append(leaves, f.ColIndex)
	}
	for k := range f.Children {
		leaves = appendLeaves(leaves, &f.Children[k])
	}
	return leaves
}

// uses reports whether field i of the file fills a column.
func (p *columnPlan) uses(i int) bool { return p.schemaName(i) != "" }

// int96Column reads a column of INT96 timestamps over all row groups.
type int96Column struct {
	pf     *file.Reader
	column int
	maxDef int16
	group  int // the next to open
	chunk  *file.Int96ColumnChunkReader
	values []parquet.Int96
	levels []int16
}

// read gives the next n values as canonical timestamps.
func (c *int96Column) read(n int) (arrow.Array, error) {
	b := array.NewTimestampBuilder(memory.DefaultAllocator, arrow.FixedWidthTypes.Timestamp_us.(*arrow.TimestampType))
	defer b.Release()
	b.Reserve(n)
	for b.Len() < n {
		if c.chunk == nil || !c.chunk.HasNext() {
			if err := c.open(n - b.Len()); err != nil {
				return nil, err
			}
			continue
		}
		if err := c.page(b, n-b.Len()); err != nil {
			return nil, err
		}
	}
	return b.NewArray(), nil
}

// open goes on to the next row group; want rows are still to come.
func (c *int96Column) open(want int) error {
	if c.chunk != nil && c.chunk.Err() != nil {
		return c.chunk.Err()
	}
	if c.group == c.pf.NumRowGroups() {
		return fmt.Errorf("INT96 column %d ends %d rows early", c.column, want)
	}
	chunk, err := c.pf.RowGroup(c.group).Column(c.column)
	if err != nil {
		return err
	}
	typed, ok := chunk.(*file.Int96ColumnChunkReader)
	if !ok {
		return fmt.Errorf("column %d is not INT96 in row group %d", c.column, c.group)
	}
	c.chunk, c.group = typed, c.group+1
	return nil
}

// page appends up to want values of the open row group.
func (c *int96Column) page(b *array.TimestampBuilder, want int) error {
	if len(c.values) < want {
		c.values, c.levels = make([]parquet.Int96, want), make([]int16, want)
	}
	total, _, err := c.chunk.ReadBatch(int64(want), c.values[:want], c.levels[:want], nil)
	if err != nil {
		return err
	}
	if total == 0 {
		return fmt.Errorf("INT96 column %d has a page without values", c.column)
	}
	next := 0
	for i := range int(total) {
		if c.maxDef > 0 && c.levels[i] < c.maxDef {
			b.AppendNull()
			continue
		}
		v := c.values[next]
		next++
		us, fault := int96Micros(v)
		if fault != "" {
			nanos, day := int96Parts(v)
			return &convertError{row: b.Len(), value: fmt.Sprintf("day %d, nanosecond %d", day, nanos), msg: fault}
		}
		b.Append(arrow.Timestamp(us))
	}
	return nil
}

// int96Parts takes an INT96 timestamp apart: nanoseconds of the day and days
// since 1970-01-01.
func int96Parts(v parquet.Int96) (nanos, day int64) {
	const epoch = 2440588 // Julian day number of 1970-01-01
	return int64(binary.LittleEndian.Uint64(v[:8])), int64(int32(binary.LittleEndian.Uint32(v[8:]))) - epoch
}

// int96Micros is v in microseconds, exactly or not at all.
func int96Micros(v parquet.Int96) (us int64, fault string) {
	nanos, day := int96Parts(v)
	switch {
	case nanos < 0 || nanos >= 86400_000_000_000:
		return 0, "there is no such time of day"
	case nanos%1000 != 0:
		return 0, "it has digits below the microsecond"
	}
	us, ok := micros(day*86400+nanos/1_000_000_000, nanos/1000%usPerSecond)
	if !ok {
		return 0, "the time is out of range"
	}
	return us, ""
}
