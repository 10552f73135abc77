package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/internal/rows"
)

// writeRows is the number of rows handed to a file writer at once.
const writeRows = 32 << 10

// write carries out the outputs that are not written yet, several at once. On
// an error nothing of those that failed stays behind.
func (e *engine) write(ctx context.Context, st *state) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(e.workers)
	for _, o := range st.outputs {
		if !o.written {
			g.Go(func() error { return e.writeOutput(ctx, st.snap, o) })
		}
	}
	return g.Wait()
}

// outputWriter writes one output.
type outputWriter struct {
	e       *engine
	snap    *deltatable.Snapshot
	o       *output
	file    *deltatable.FileWriter
	stored  int64 // rows of the sources, by their footers
	gone    int64 // stored rows that are not written again
	changed int64 // stored rows that are replaced or gone
}

func (e *engine) writeOutput(ctx context.Context, snap *deltatable.Snapshot, o *output) (err error) {
	file, err := e.table.NewFileWriter(ctx, e.layout, o.part)
	if err != nil {
		return err
	}
	w := &outputWriter{e: e, snap: snap, o: o, file: file}
	if w.sortable() {
		err = w.sorted(ctx)
	} else {
		err = w.streamed(ctx)
	}
	if err != nil {
		return errors.Join(err, file.Abort())
	}
	adds, err := file.Close()
	if err != nil {
		return errors.Join(err, file.Abort())
	}
	if err := w.addsUp(); err != nil {
		return errors.Join(err, e.table.Discard(ctx, adds))
	}
	o.adds, o.written, o.copied = adds, true, w.stored-w.changed
	return nil
}

// addsUp is law 5: what the footers say must add up before anything is committed.
func (w *outputWriter) addsUp() error {
	want := w.stored - w.gone + int64(len(w.o.inserts))
	if got := w.file.Rows(); got != want {
		return fmt.Errorf("internal error: %d rows were written where %d stored, less %d, and %d new ones make %d",
			got, w.stored, w.gone, len(w.o.inserts), want)
	}
	var planned int64
	for i := range w.o.sources {
		planned += w.o.sources[i].changes
	}
	if w.changed != planned {
		return fmt.Errorf("internal error: %d stored rows were changed, %d were to be", w.changed, planned)
	}
	return nil
}

// sortable says whether the output is small enough to be sorted by key as a
// whole, and better for it: a single file that stays in its order needs no sort.
func (w *outputWriter) sortable() bool {
	if len(w.e.keys) == 0 || len(w.o.sources) == 0 || len(w.o.sources) == 1 && len(w.o.inserts) == 0 {
		return false // new rows alone come sorted
	}
	count, size := int64(len(w.o.inserts)), int64(0)
	for i := range w.o.sources {
		add := w.o.sources[i].add
		n, ok := w.snap.NumRecords(add)
		if !ok {
			return false
		}
		count, size = count+n, size+add.Size
	}
	return count <= sortRows && size <= sortBytes
}

// each reads a source and calls f with every batch as it is and as it is to be
// written.
func (w *outputWriter) each(ctx context.Context, s *source, f func(b deltatable.FileBatch, r *rewritten) error) (err error) {
	reader, err := w.snap.OpenFile(ctx, s.add)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := reader.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	w.stored += reader.NumRows()
	for b, err := range reader.Read(ctx, &deltatable.ReadOptions{BatchRows: writeRows}) {
		if err != nil {
			return err
		}
		r := &rewritten{}
		if s.changes > 0 {
			if r, err = w.e.mode.rewrite(s, b); err != nil {
				return err
			}
			w.changed, w.gone = w.changed+r.changed, w.gone+r.gone
		}
		b.Rec = w.e.widen(b.Rec)
		if err := f(b, r); err != nil {
			return err
		}
	}
	return nil
}

// widen gives stored rows the columns that the commit adds to the table, NULL.
func (e *engine) widen(rec arrow.RecordBatch) arrow.RecordBatch {
	if int(rec.NumCols()) == e.schema.NumFields() {
		return rec
	}
	cols := slices.Clone(rec.Columns())
	for _, f := range e.schema.Fields()[len(cols):] {
		cols = append(cols, array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(rec.NumRows())))
	}
	return array.NewRecordBatch(e.schema, cols, rec.NumRows())
}

// streamed copies the sources batch by batch, with the new rows in the places
// of those that they replace, and then the other new rows: memory does not
// depend on the size of the files (I9).
func (w *outputWriter) streamed(ctx context.Context) error {
	for i := range w.o.sources {
		err := w.each(ctx, &w.o.sources[i], func(b deltatable.FileBatch, r *rewritten) error {
			if r.changed == 0 {
				return w.file.Write(b.Rec)
			}
			if r.fresh == nil {
				return w.gather([]arrow.RecordBatch{b.Rec, b.Rec}, r.picks)
			}
			return w.gather([]arrow.RecordBatch{r.fresh, b.Rec}, r.picks)
		})
		if err != nil {
			return err
		}
	}
	for ids := range slices.Chunk(w.o.inserts, writeRows) {
		fresh, err := w.e.mode.fresh(ids)
		if err != nil {
			return err
		}
		if err := w.file.Write(fresh); err != nil {
			return err
		}
	}
	return nil
}

// sorted reads the whole output into memory and writes it in the order of keys.
func (w *outputWriter) sorted(ctx context.Context) error {
	var recs []arrow.RecordBatch
	var picks []rows.Pick
	for i := range w.o.sources {
		err := w.each(ctx, &w.o.sources[i], func(b deltatable.FileBatch, r *rewritten) error {
			at := int32(len(recs))
			b.Rec.Retain()
			recs = append(recs, b.Rec)
			if r.changed == 0 {
				for row := range int32(b.Rec.NumRows()) {
					picks = append(picks, rows.Pick{Source: at, Row: row})
				}
				return nil
			}
			if r.fresh != nil {
				recs = append(recs, r.fresh)
			}
			for _, p := range r.picks {
				picks = append(picks, rows.Pick{Source: at + 1 - p.Source, Row: p.Row})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(w.o.inserts) > 0 {
		fresh, err := w.e.mode.fresh(w.o.inserts)
		if err != nil {
			return err
		}
		for row := range w.o.inserts {
			picks = append(picks, rows.Pick{Source: int32(len(recs)), Row: int32(row)})
		}
		recs = append(recs, fresh)
	}
	w.sortByKey(recs, picks)
	for part := range slices.Chunk(picks, writeRows) {
		if err := w.gather(recs, part); err != nil {
			return err
		}
	}
	return nil
}

func (w *outputWriter) sortByKey(recs []arrow.RecordBatch, picks []rows.Pick) {
	forms := make([]ordered.Row, len(recs))
	for i, rec := range recs {
		var cols []arrow.Array
		for _, k := range w.e.keys {
			cols = append(cols, rec.Column(k))
		}
		forms[i] = ordered.NewRow(cols...)
	}
	type keyed struct {
		key  []byte
		pick rows.Pick
	}
	all := make([]keyed, len(picks))
	var arena []byte
	ends := make([]int, len(picks))
	for i, p := range picks {
		arena = forms[p.Source].Append(arena, int(p.Row))
		ends[i] = len(arena)
	}
	start := 0
	for i, p := range picks {
		all[i] = keyed{arena[start:ends[i]], p}
		start = ends[i]
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return bytes.Compare(a.key, b.key) })
	for i := range all {
		picks[i] = all[i].pick
	}
}

// gather writes the picked rows of records in table order.
func (w *outputWriter) gather(recs []arrow.RecordBatch, picks []rows.Pick) error {
	if len(picks) == 0 {
		return nil
	}
	cols := make([]arrow.Array, w.e.schema.NumFields())
	sources := make([]arrow.Array, len(recs))
	for c, f := range w.e.schema.Fields() {
		for i, rec := range recs {
			sources[i] = rec.Column(c)
		}
		var err error
		if cols[c], err = rows.Gather(f.Type, sources, picks); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return w.file.Write(array.NewRecordBatch(w.e.schema, cols, int64(len(picks))))
}
