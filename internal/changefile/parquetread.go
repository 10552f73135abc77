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
	damaged := func(err error) error { return p.damaged("Parquet", err) }
	pf := pr.ParquetReader()
	var leaves []int
	at := map[int]int{} // field of the file -> column of the reader's batches
	old := map[int]*int96Column{}
	for i, f := range pr.Manifest.Fields {
		if !p.uses(i) {
			continue
		}
		if f.IsLeaf() && pf.MetaData().Schema.Column(f.ColIndex).PhysicalType() == parquet.Types.Int96 {
			old[i] = &int96Column{pf: pf, column: f.ColIndex, maxDef: pf.MetaData().Schema.Column(f.ColIndex).MaxDefinitionLevel()}
			continue
		}
		at[i] = len(at)
		leaves = appendLeaves(leaves, &f)
	}
	var rr pqarrow.RecordReader
	if len(leaves) > 0 {
		var err error
		if rr, err = pr.GetRecordReader(ctx, leaves, nil); err != nil {
			return damaged(err)
		}
		defer rr.Release()
	}
	for left := pf.NumRows(); left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(left, BatchRows)
		var rec arrow.RecordBatch
		if rr != nil {
			if !rr.Next() {
				if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
					return damaged(err)
				}
				return nil // the caller counts the rows
			}
			rec = rr.RecordBatch()
			n = rec.NumRows()
		}
		cols := map[int]arrow.Array{}
		for i, k := range at {
			cols[i] = rec.Column(k)
		}
		for i := range pr.Manifest.Fields {
			c := old[i]
			if c == nil {
				continue
			}
			arr, err := c.read(int(n))
			var ce *convertError
			if errors.As(err, &ce) {
				return p.located(p.schemaName(i), err)
			} else if err != nil {
				return damaged(err)
			}
			cols[i] = arr
		}
		if err := p.add(cols, int(n)); err != nil {
			return err
		}
		left -= n
	}
	return nil
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
			if c.chunk != nil && c.chunk.Err() != nil {
				return nil, c.chunk.Err()
			}
			if c.group == c.pf.NumRowGroups() {
				return nil, fmt.Errorf("INT96 column %d ends %d rows early", c.column, n-b.Len())
			}
			chunk, err := c.pf.RowGroup(c.group).Column(c.column)
			if err != nil {
				return nil, err
			}
			typed, ok := chunk.(*file.Int96ColumnChunkReader)
			if !ok {
				return nil, fmt.Errorf("column %d is not INT96 in row group %d", c.column, c.group)
			}
			c.chunk, c.group = typed, c.group+1
			continue
		}
		want := n - b.Len()
		if len(c.values) < want {
			c.values, c.levels = make([]parquet.Int96, want), make([]int16, want)
		}
		total, _, err := c.chunk.ReadBatch(int64(want), c.values[:want], c.levels[:want], nil)
		if err != nil {
			return nil, err
		}
		if total == 0 {
			return nil, fmt.Errorf("INT96 column %d has a page without values", c.column)
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
				return nil, &convertError{row: b.Len(), value: fmt.Sprintf("day %d, nanosecond %d", day, nanos), msg: fault}
			}
			b.Append(arrow.Timestamp(us))
		}
	}
	return b.NewArray(), nil
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
