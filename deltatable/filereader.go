package deltatable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/datafile"
	"github.com/deltafold/deltafold/internal/ordered"
)

const defaultBatchRows = 8192

// FileReader reads one live data file: its columns in the table's types, and
// the partition columns as constants. Reads may run concurrently; Close ends
// them all.
type FileReader struct {
	snapshot *Snapshot
	add      *Add
	blob     *blobstore.Reader
	file     *datafile.File
}

// ReadOptions choose what FileReader.Read yields. Nil means everything.
type ReadOptions struct {
	Columns   []string // in this order; nil: all in table order; empty: rows without columns
	RowGroups []int    // ascending; nil: all
	BatchRows int      // most rows of one batch; default 8192
}

// FileBatch is a run of consecutive rows of a file.
type FileBatch struct {
	First int64 // position in the file of the first row
	Rec   arrow.RecordBatch
}

// OpenFile opens live file a for reading; the caller closes it. A file with a
// deletion vector is refused by name; a file that is not there gives a
// *MissingFileError.
func (s *Snapshot) OpenFile(ctx context.Context, a *Add) (*FileReader, error) {
	if err := s.checkVectors([]*Add{a}); err != nil {
		return nil, err
	}
	store, key, err := s.table.locate(ctx, a.Path)
	if err != nil {
		return nil, fmt.Errorf("open data file %q: %w", a.Path, err)
	}
	// NB: a.Size is a hint. Logs with wrong sizes exist; the store knows the size.
	blob, err := store.OpenReader(ctx, key, a.Size)
	if err != nil {
		return nil, s.missing(a, err)
	}
	var in io.ReaderAt = blob
	if store.Distant() {
		in = distant{blob}
	}
	f, err := datafile.Open(ctx, in, blob.Size(), s.layout.data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open data file %q: %w", a.Path, err), blob.Close())
	}
	return &FileReader{snapshot: s, add: a, blob: blob, file: f}, nil
}

// distant is a file for which the chunks to be read are fetched beforehand.
type distant struct{ *blobstore.Reader }

// Prefetch is datafile.Prefetcher's.
func (d distant) Prefetch(ranges []datafile.Range) {
	out := make([]blobstore.Range, len(ranges))
	for i, r := range ranges {
		out[i] = blobstore.Range(r)
	}
	d.Reader.Prefetch(out)
}

func (s *Snapshot) missing(a *Add, err error) error {
	if errors.Is(err, blobstore.ErrNotFound) {
		return &MissingFileError{Version: s.Version(), Path: a.Path}
	}
	return fmt.Errorf("open data file %q: %w", a.Path, err)
}

// NumRows is the number of rows, from the footer.
func (r *FileReader) NumRows() int64 { return r.file.NumRows() }

// RowGroups is the number of row groups.
func (r *FileReader) RowGroups() int { return r.file.RowGroups() }

// RowGroup is the position of row group i's first row, and its number of rows.
func (r *FileReader) RowGroup(i int) (first, rows int64) { return r.file.RowGroup(i) }

// Bounds is what the footer knows of a column in row group rg; partition
// columns are exact. Unknown for columns that the table does not have (I4).
func (r *FileReader) Bounds(rg int, column string) Bounds {
	l := r.snapshot.layout
	i, err := findColumn(l.logical, column)
	if err != nil {
		return ordered.Unknown()
	}
	name := l.logical.Field(i).Name
	if !slices.Contains(l.partition, name) {
		return r.file.Bounds(rg, name)
	}
	b := l.partitionBounds(r.add, name)
	_, b.Rows = r.file.RowGroup(rg)
	if b.Min == nil && b.Exact {
		b.NullCount = b.Rows
	}
	return b
}

// Close releases the file.
func (r *FileReader) Close() error {
	if err := r.blob.Close(); err != nil {
		return fmt.Errorf("close data file %q: %w", r.add.Path, err)
	}
	return nil
}

// Read yields rows in file order. It stops at the first error.
func (r *FileReader) Read(ctx context.Context, o *ReadOptions) iter.Seq2[FileBatch, error] {
	if o == nil {
		o = &ReadOptions{}
	}
	return func(yield func(FileBatch, error) bool) {
		want, err := r.snapshot.layout.project(o.Columns)
		if err != nil {
			yield(FileBatch{}, err)
			return
		}
		inner := datafile.ReadOptions{RowGroups: o.RowGroups, BatchRows: o.BatchRows, Columns: []string{}}
		if inner.BatchRows <= 0 {
			inner.BatchRows = defaultBatchRows
		}
		for _, f := range want.Fields() {
			if !slices.Contains(r.snapshot.layout.partition, f.Name) {
				inner.Columns = append(inner.Columns, f.Name)
			}
		}
		for b, err := range r.batches(ctx, inner) {
			if err != nil {
				yield(FileBatch{}, fmt.Errorf("read data file %q: %w", r.add.Path, err))
				return
			}
			rec, err := r.complete(want, b.Rec)
			if err != nil {
				yield(FileBatch{}, fmt.Errorf("read data file %q: %w", r.add.Path, err))
				return
			}
			if !yield(FileBatch{First: b.First, Rec: rec}, nil) {
				return
			}
		}
	}
}

// batches reads the data columns. Without any there is nothing to decode: the
// row groups' counts say how many rows to make.
func (r *FileReader) batches(ctx context.Context, o datafile.ReadOptions) iter.Seq2[datafile.Batch, error] {
	if len(o.Columns) > 0 {
		return r.file.Read(ctx, o)
	}
	groups := o.RowGroups
	if groups == nil {
		for i := range r.file.RowGroups() {
			groups = append(groups, i)
		}
	}
	none := arrow.NewSchema(nil, nil)
	return func(yield func(datafile.Batch, error) bool) {
		for _, g := range groups {
			first, rows := r.file.RowGroup(g)
			for rows > 0 {
				n := min(rows, int64(o.BatchRows))
				if !yield(datafile.Batch{First: first, Rec: array.NewRecordBatch(none, nil, n)}, ctx.Err()) {
					return
				}
				first, rows = first+n, rows-n
			}
		}
	}
}

// complete puts the partition constants between the data columns.
func (r *FileReader) complete(want *arrow.Schema, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, 0, want.NumFields())
	next := 0
	for _, f := range want.Fields() {
		if !slices.Contains(r.snapshot.layout.partition, f.Name) {
			cols = append(cols, rec.Column(next))
			next++
			continue
		}
		arr, err := r.snapshot.layout.partitionArray(f.Name, partitionValue(r.add, f.Name), int(rec.NumRows()))
		if err != nil {
			return nil, err
		}
		cols = append(cols, arr)
	}
	return array.NewRecordBatch(want, cols, rec.NumRows()), nil
}
