package deltatable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/datafile"
	"github.com/deltafold/deltafold/deltatable/internal/schema"
	"github.com/deltafold/deltafold/internal/failpoint"
)

// TagFileHash is the tag of an add action that holds the 128-bit hash of the
// file's bytes as 32 lower-case hex digits.
const TagFileHash = "deltafold.xxh128"

// chunkRows is the number of rows after which the target size is looked at.
const chunkRows = 16 << 10

// FileWriter writes rows of one partition into new data files: one at a time,
// a new one whenever the target size (property delta.targetFileSize, bytes,
// default 128 MiB) is reached. Not safe for concurrent use; several may write
// into one table at once. Exactly one of Close and Abort ends it.
type FileWriter struct {
	ctx       context.Context // of NewFileWriter: writing to a store takes one
	table     *Table
	layout    *Layout
	partition Partition
	data      []int // columns of the logical schema that files hold
	cur       *openFile
	adds      []*Add
	rows      int64
}

type openFile struct {
	key  string
	blob *blobstore.Writer
	file *datafile.Writer
}

// NewFileWriter makes a writer for partition p of layout l. It refuses a NULL
// in a partition column that is NOT NULL, and a table property that it would
// have to guess at. ctx holds for the writer's whole life.
func (t *Table) NewFileWriter(ctx context.Context, l *Layout, p Partition) (*FileWriter, error) {
	if l.writeErr != nil {
		return nil, l.writeErr
	}
	w := &FileWriter{ctx: ctx, table: t, layout: l, partition: p}
	for i, f := range l.logical.Fields() {
		if !slices.Contains(l.partition, f.Name) {
			w.data = append(w.data, i)
			continue
		}
		v, ok := p.Values[f.Name]
		if !ok {
			return nil, &ColumnError{Column: f.Name, Msg: "the partition has no value for it"}
		}
		if v == nil && !f.Nullable {
			return nil, &ValueError{Column: f.Name, Msg: "NULL in a column that is NOT NULL"}
		}
	}
	if len(w.data) == 0 {
		return nil, &CommitError{Msg: "the table has no column besides partition columns"}
	}
	// A store that commits cannot be made in refuses now, before data is written.
	if err := t.store.Prepare(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// Write appends the rows of rec: all logical columns in table order; partition
// columns are ignored. *ValueError names a value that a column forbids, a NULL
// in a NOT NULL column among them; after an error only Abort is of use.
func (w *FileWriter) Write(rec arrow.RecordBatch) error {
	if int(rec.NumCols()) != w.layout.logical.NumFields() {
		return &ColumnError{Msg: fmt.Sprintf("a batch has %d columns, the table %d", rec.NumCols(), w.layout.logical.NumFields())}
	}
	cols := make([]arrow.Array, len(w.data))
	for i, c := range w.data {
		cols[i] = rec.Column(c)
	}
	data := array.NewRecordBatch(w.layout.data, cols, rec.NumRows())
	for at := int64(0); at < data.NumRows(); at += chunkRows {
		if err := w.writeChunk(data.NewSlice(at, min(at+chunkRows, data.NumRows()))); err != nil {
			return err
		}
	}
	return nil
}

func (w *FileWriter) writeChunk(data arrow.RecordBatch) error {
	if w.cur == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if err := w.cur.file.Write(data); err != nil {
		return fmt.Errorf("write data file %q: %w", w.cur.key, err)
	}
	if w.cur.file.Written() >= w.layout.targetSize {
		return w.finish()
	}
	return nil
}

func (w *FileWriter) begin() error {
	o := datafile.WriteOptions{
		Schema: w.layout.data, Stats: w.layout.stats, Codec: w.layout.codec, StringPrefix: w.layout.prefix,
	}
	key := fmt.Sprintf("part-00000-%s.c000%s.parquet", uuid.NewString(), codecSuffix(o.Codec))
	for i := len(w.layout.partition) - 1; i >= 0; i-- {
		c := w.layout.partition[i]
		key = schema.PartitionDir(c, w.partition.Values[c]) + "/" + key
	}
	blob, err := w.table.store.NewWriter(w.ctx, key)
	if err != nil {
		return fmt.Errorf("create data file %q: %w", key, err)
	}
	f, err := datafile.NewWriter(blob, o)
	if err != nil {
		return errors.Join(fmt.Errorf("create data file %q: %w", key, err), blob.Abort())
	}
	w.cur = &openFile{key: key, blob: blob, file: f}
	return nil
}

// codecSuffix is what Spark puts into file names for a codec.
func codecSuffix(codec string) string {
	switch codec {
	case "":
		return ".snappy"
	case "none", "uncompressed":
		return ""
	}
	return "." + codec
}

// finish makes the current file durable and keeps its add action (I2).
func (w *FileWriter) finish() error {
	cur := w.cur
	w.cur = nil
	sum, err := cur.file.Close()
	if err != nil {
		return errors.Join(fmt.Errorf("write data file %q: %w", cur.key, err), cur.blob.Abort())
	}
	failpoint.Hit("data-file")
	if err := cur.blob.Close(); err != nil {
		return fmt.Errorf("write data file %q: %w", cur.key, err)
	}
	failpoint.Hit("data-file-done")
	w.rows += sum.NumRecords
	w.adds = append(w.adds, &Add{
		Path: schema.EncodePath(cur.key), PartitionValues: w.partition.Values, Size: sum.Size,
		ModificationTime: w.table.now().UnixMilli(), DataChange: true, Stats: sum.Stats,
		Tags: map[string]string{TagFileHash: sum.Hash.String()},
	})
	return nil
}

// Close finishes the last file and returns the add actions of all files, in
// the order they were written; none if no row was. The files are durable.
func (w *FileWriter) Close() ([]*Add, error) {
	if w.cur != nil {
		if err := w.finish(); err != nil {
			return nil, err
		}
	}
	return w.adds, nil
}

// Abort gives up the file being written and deletes those already finished.
// Only for files that no commit was attempted with. It also works after the
// writer's context ended, for up to half a minute.
func (w *FileWriter) Abort() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), discardFor)
	defer cancel()
	var errs []error
	if w.cur != nil {
		errs = append(errs, w.cur.blob.Abort())
		w.cur = nil
	}
	errs = append(errs, w.table.Discard(ctx, w.adds))
	w.adds = nil
	return errors.Join(errs...)
}

// Rows is the number of rows in the finished files, as their footers say;
// after Close, of all.
func (w *FileWriter) Rows() int64 { return w.rows }

// discardFor bounds the deletion of files that nobody waits for: a store that
// does not answer is not asked for each of them.
const discardFor = 30 * time.Second

// Discard deletes data files that no log entry names. The caller has made sure
// of that: after an undecided commit it is not sure (R8, I2). It gives up after
// half a minute; files that are left then are for vacuum.
func (t *Table) Discard(ctx context.Context, adds []*Add) error {
	ctx, cancel := context.WithTimeout(ctx, discardFor)
	defer cancel()
	var errs []error
	for i, a := range adds {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("discard %d data files: %w", len(adds)-i, ctx.Err()))
			break
		}
		key, absolute, err := schema.DecodePath(a.Path)
		if err == nil && !absolute {
			err = t.store.Delete(ctx, key)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("discard data file %q: %w", a.Path, err))
		}
	}
	return errors.Join(errs...)
}
