package datafile

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// DefaultBatchRows is the most rows of a batch unless said otherwise.
const DefaultBatchRows = 1 << 15

// ReadOptions choose what [File.Read] yields.
type ReadOptions struct {
	Columns   []string // names of the table's columns, in this order; nil: all
	RowGroups []int    // in this order; nil: all
	BatchRows int      // most rows of a batch; 0: DefaultBatchRows
}

// Batch is a run of consecutive rows of a file, never from two row groups.
type Batch struct {
	First int64 // position in the file of the batch's first row
	Rec   arrow.RecordBatch
}

// Read yields the rows asked for, in file order within each row group. Columns
// have the table's canonical types; those that the file lacks are NULL. The
// first error ends it. Batches are the receiver's: they share no memory with
// the reader.
func (f *File) Read(ctx context.Context, o ReadOptions) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		plans, out, err := f.project(o.Columns)
		if err != nil {
			yield(Batch{}, err)
			return
		}
		size := o.BatchRows
		if size <= 0 {
			size = DefaultBatchRows
		}
		groups := o.RowGroups
		if groups == nil {
			groups = make([]int, f.RowGroups())
			for i := range groups {
				groups[i] = i
			}
		}
		ahead := f.newAhead(plans, groups)
		for i, g := range groups {
			ahead.at(i)
			if g < 0 || g >= f.RowGroups() {
				yield(Batch{}, fmt.Errorf("read a data file: internal error: no row group %d of %d", g, f.RowGroups()))
				return
			}
			gr := &groupReader{file: f, group: g, plans: plans, out: out, size: size}
			if !gr.batches(ctx, yield) {
				return
			}
		}
	}
}

func (f *File) project(columns []string) ([]*plan, *arrow.Schema, error) {
	if columns == nil {
		for _, w := range f.want.Fields() {
			columns = append(columns, w.Name)
		}
	}
	plans := make([]*plan, len(columns))
	fields := make([]arrow.Field, len(columns))
	for i, name := range columns {
		c := f.column(name)
		if c < 0 {
			return nil, nil, fmt.Errorf("read a data file: the table has no column %q", name)
		}
		if f.roots[c].err != nil {
			return nil, nil, f.inFile(f.roots[c].err)
		}
		plans[i], fields[i] = f.roots[c], f.want.Field(c)
	}
	return plans, arrow.NewSchema(fields, nil), nil
}

func (f *File) inFile(err error) error {
	if f.name == "" {
		return err
	}
	return fmt.Errorf("data file %q: %w", f.name, err)
}

// groupReader reads some columns of one row group in step.
type groupReader struct {
	file   *File
	group  int
	size   int // most rows of a batch
	rows   int64
	plans  []*plan
	out    *arrow.Schema
	leaves map[int]*leafReader // by column index
}

// batches yields the batches of the row group; false ends the reading.
func (g *groupReader) batches(ctx context.Context, yield func(Batch, error) bool) bool {
	var first int64
	first, g.rows = g.file.RowGroup(g.group)
	if g.rows == 0 {
		return true
	}
	defer g.close()
	if err := g.open(); err != nil {
		yield(Batch{}, err)
		return false
	}
	for done := int64(0); done < g.rows; {
		if err := ctx.Err(); err != nil {
			yield(Batch{}, err)
			return false
		}
		n := int(min(int64(g.size), g.rows-done))
		cols, err := g.next(n)
		if err != nil {
			yield(Batch{}, err)
			return false
		}
		if !yield(Batch{First: first + done, Rec: array.NewRecordBatch(g.out, cols, int64(n))}, nil) {
			return false
		}
		done += int64(n)
	}
	return true
}

func (g *groupReader) open() (err error) {
	defer recovered(g.file.name, &err)
	g.leaves = map[int]*leafReader{}
	rg := g.file.reader.RowGroup(g.group)
	meta := g.file.reader.MetaData().RowGroups[g.group]
	for _, p := range g.plans {
		p.leaves(func(l *leaf) {
			if err != nil || g.leaves[l.index] != nil {
				return
			}
			chunk, cerr := rg.Column(l.index)
			if cerr != nil {
				err = g.damaged(l, "its pages cannot be opened", cerr)
				return
			}
			total := meta.Columns[l.index].MetaData.NumValues
			if l.maxRep == 0 && total != g.rows {
				err = g.damaged(l, fmt.Sprintf("it has %d values in a row group of %d rows", total, g.rows), nil)
				return
			}
			g.leaves[l.index] = newLeafReader(l, chunk, total)
		})
	}
	return err
}

func (g *groupReader) damaged(l *leaf, msg string, err error) error {
	return g.file.damaged(fmt.Sprintf("row group %d, column %s: %s", g.group, l.node.Path(), msg), err)
}

func (g *groupReader) close() {
	for _, l := range g.leaves {
		func() {
			defer func() { _ = recover() }() // closing after a failure must not add one
			_ = l.chunk.Close()              // nothing was written; what was read has been checked
		}()
	}
}

// next reads the next n rows of all columns.
func (g *groupReader) next(n int) (cols []arrow.Array, err error) {
	defer recovered(g.file.name, &err)
	for _, l := range g.leaves {
		if err := l.read(n); err != nil {
			return nil, g.damaged(l.leaf, "its values cannot be read", err)
		}
	}
	cols = make([]arrow.Array, len(g.plans))
	for i, p := range g.plans {
		if at := slices.Index(g.plans[:i], p); at >= 0 { // asked for twice: values are used up
			cols[i] = cols[at]
			continue
		}
		a := &assembler{leaves: g.leaves, julian: g.file.julian}
		data, err := a.build(p, 0, 0, n)
		if err != nil {
			return nil, g.file.inFile(fmt.Errorf("row group %d, column %s: %w", g.group, p.name, err))
		}
		cols[i] = array.MakeFromData(data)
	}
	return cols, nil
}
