package deltalog

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// checkpointError says that a log checkpoint cannot be used; an older one may serve.
type checkpointError struct {
	key string
	err error
}

func (e *checkpointError) Error() string { return e.key + ": " + e.err.Error() }
func (e *checkpointError) Unwrap() error { return e.err }

// readCheckpoint yields the actions of a complete log checkpoint. Its errors are a
// *checkpointError for damage, a *feature.UnsupportedError for V2 (by its name or by
// its content, as V2 may sit under a classic name), and what the store returns.
func readCheckpoint(ctx context.Context, store *blobstore.Store, c *checkpoint, yield func(action.Action)) error {
	parts := openParts(ctx, store, c)
	defer parts.close()
	return parts.read(ctx, yield)
}

func v2Error(key string) error {
	return &feature.UnsupportedError{
		Feature:   feature.V2Checkpoint,
		Operation: "read",
		Reason:    "only the V2 log checkpoint " + key + " leads to this version",
	}
}

// checkChunks refuses a footer whose column chunks are not inside the file. NB: the
// Parquet library takes them as they are and panics in goroutines of its own, where
// nothing can catch it.
func checkChunks(pf *file.Reader, size int64) error {
	md := pf.MetaData()
	for i := range pf.NumRowGroups() {
		rg := md.RowGroup(i)
		if n := rg.NumColumns(); n != md.Schema.NumColumns() {
			return fmt.Errorf("row group %d has %d columns, want %d", i, n, md.Schema.NumColumns())
		}
		for j := range rg.NumColumns() {
			c, err := rg.ColumnChunk(j)
			if err != nil {
				return err
			}
			at, n := c.DataPageOffset(), c.TotalCompressedSize()
			if d := c.DictionaryPageOffset(); c.HasDictionaryPage() && d > 0 {
				at = min(at, d)
			}
			if at < 0 || n < 0 || at > size || n > size-at {
				return fmt.Errorf("row group %d, column %d: bytes %d to %d of a file of %d", i, j, at, at+n, size)
			}
		}
	}
	return nil
}

// watchedReader remembers a failure of the store, which says nothing of the file (I4).
type watchedReader struct {
	r   *io.SectionReader
	err error
}

func (w *watchedReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := w.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

func (w *watchedReader) Seek(off int64, whence int) (int64, error) { return w.r.Seek(off, whence) }

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// checkpointBatch is how many rows of a log checkpoint are decoded at once.
const checkpointBatch = 16 << 10

// checkpointReader reads one file of a classic log checkpoint, a row group at a time
// and only the columns that are used.
type checkpointReader struct {
	file  *file.Reader
	key   string
	maps  *mapCache
	yield func(action.Action)
	tell  func(leaves, groups []int) // of chunks that will be read
}

// baseColumn says whether a leaf column is among those always read. Statistics in
// struct form are read only where the text form is missing.
func baseColumn(path parquet.ColumnPath) bool {
	if len(path) < 2 {
		return false
	}
	switch path[0] {
	case "add":
		switch path[1] {
		case "path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags",
			"deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider":
			return true
		}
	case "remove":
		switch path[1] {
		case "path", "deletionTimestamp", "dataChange", "extendedFileMetadata", "partitionValues", "size",
			"deletionVector", "baseRowId", "defaultRowCommitVersion":
			return true
		}
	case "metaData", "protocol", "txn", "domainMetadata":
		return true
	case "checkpointMetadata":
		return path[1] == "version"
	case "sidecar":
		return path[1] == "path"
	}
	return false
}

func parsedStatsColumn(path parquet.ColumnPath) bool {
	return len(path) > 2 && path[0] == "add" && path[1] == "stats_parsed"
}

func leavesOf(f *file.Reader, want func(parquet.ColumnPath) bool) []int {
	sc := f.MetaData().Schema
	var leaves []int
	for i := range sc.NumColumns() {
		if want(sc.Column(i).ColumnPath()) {
			leaves = append(leaves, i)
		}
	}
	return leaves
}

func (c *checkpointReader) read(ctx context.Context) error {
	props := pqarrow.ArrowReadProperties{BatchSize: checkpointBatch}
	fr, err := pqarrow.NewFileReader(c.file, props, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	base := leavesOf(c.file, baseColumn)
	parsed := leavesOf(c.file, parsedStatsColumn)
	if len(base) == 0 {
		return errors.New("not a log checkpoint: no column of an action")
	}
	for rg := range c.file.NumRowGroups() {
		bare, err := c.rowGroup(ctx, fr, base, rg)
		if err != nil {
			return err
		}
		if len(bare) > 0 && len(parsed) > 0 {
			c.tell(parsed, []int{rg})
			if err := c.rebuildStats(ctx, fr, parsed, rg, bare); err != nil {
				return err
			}
		}
	}
	return nil
}

// bareAdd is an add without statistics in text form, and its row in the row group.
type bareAdd struct {
	row int64
	add *action.Add
}

// eachBatch reads columns of a row group batch by batch.
func eachBatch(ctx context.Context, fr *pqarrow.FileReader, leaves []int, rg int, take func(first int64, rec arrow.RecordBatch) error) error {
	rr, err := fr.GetRecordReader(ctx, leaves, []int{rg})
	if err != nil {
		return err
	}
	defer rr.Release()
	var first int64
	for rr.Next() {
		rec := rr.RecordBatch()
		if err := take(first, rec); err != nil {
			return err
		}
		first += rec.NumRows()
	}
	if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if want := fr.ParquetReader().MetaData().RowGroup(rg).NumRows(); first != want {
		return fmt.Errorf("row group %d has %d of %d rows", rg, first, want)
	}
	return nil
}

// rowGroup yields the actions of a row group and returns the adds without statistics.
func (c *checkpointReader) rowGroup(ctx context.Context, fr *pqarrow.FileReader, leaves []int, rg int) ([]bareAdd, error) {
	var bare []bareAdd
	err := eachBatch(ctx, fr, leaves, rg, func(first int64, rec arrow.RecordBatch) error {
		for at, f := range rec.Schema().Fields() {
			s, ok := rec.Column(at).(*array.Struct)
			if !ok {
				return fmt.Errorf("column %s is not a struct", f.Name)
			}
			if s.NullN() == s.Len() {
				continue
			}
			adds, err := c.column(f.Name, s, first)
			if err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
			bare = append(bare, adds...)
		}
		return nil
	})
	return bare, err
}

// column yields the actions of one kind in a batch.
func (c *checkpointReader) column(name string, s *array.Struct, first int64) (bare []bareAdd, err error) {
	row, err := c.decoder(name, s)
	if err != nil {
		return nil, err
	}
	for i := range s.Len() {
		if s.IsNull(i) || allNull(s, i) { // some writers fill absent actions with nulls
			continue
		}
		a, err := row(i)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", first+int64(i), err)
		}
		if a.Add != nil && a.Add.Stats == "" {
			bare = append(bare, bareAdd{first + int64(i), a.Add})
		}
		c.yield(a)
	}
	return bare, nil
}

// decoder returns what decodes a row of a column.
func (c *checkpointReader) decoder(name string, s *array.Struct) (func(i int) (action.Action, error), error) {
	switch name {
	case "add":
		return c.addRows(s), nil
	case "remove":
		return c.removeRows(s), nil
	case "metaData":
		return c.metadataRows(s), nil
	case "protocol":
		return protocolRows(s), nil
	case "txn":
		return txnRows(s), nil
	case "domainMetadata":
		return domainRows(s), nil
	case "checkpointMetadata", "sidecar":
		return func(int) (action.Action, error) {
			return action.Action{}, v2Error(c.key)
		}, nil
	}
	return nil, errors.New("not a column of an action")
}
