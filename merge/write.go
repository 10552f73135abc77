package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/internal/rows"
)

// writeRows is the number of rows handed to a file writer at once.
const writeRows = 32 << 10

// write carries out the outputs that are not written yet, several at once. On
// an error nothing of them stays behind; outputs that were complete keep their
// files.
func (r *run) write(ctx context.Context, p *plan) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.job.workers())
	for _, o := range p.outputs {
		if !o.written {
			g.Go(func() error { return r.writeOutput(ctx, p, o) })
		}
	}
	return g.Wait()
}

// outputWriter writes one output.
type outputWriter struct {
	r      *run
	p      *plan
	o      *output
	file   *deltatable.FileWriter
	stored int64 // rows of the sources, by their footers
	gone   int64 // rows that were dropped
	edited int   // edits that were carried out
}

func (r *run) writeOutput(ctx context.Context, p *plan, o *output) (err error) {
	file, err := r.job.Table.NewFileWriter(ctx, r.target.layout, o.part)
	if err != nil {
		return err
	}
	w := &outputWriter{r: r, p: p, o: o, file: file}
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
	// Law 5: what the footers say must add up before anything is committed.
	want := w.stored - w.gone + int64(len(o.inserts))
	if got := file.Rows(); got != want {
		return errors.Join(fmt.Errorf("internal error: %d rows were written where %d stored, less %d, and %d new ones make %d",
			got, w.stored, w.gone, len(o.inserts), want), r.job.Table.Discard(ctx, adds))
	}
	edits := 0
	for i := range o.sources {
		edits += len(o.sources[i].edits)
	}
	if w.edited != edits {
		return errors.Join(fmt.Errorf("internal error: %d of %d stored rows were found again", w.edited, edits),
			r.job.Table.Discard(ctx, adds))
	}
	o.adds, o.written, o.copied = adds, true, w.stored-int64(edits)
	return nil
}

// sortable says whether the output is small enough to be sorted by key as a
// whole, and better for it: a single file that stays in its order needs no sort.
func (w *outputWriter) sortable() bool {
	if len(w.o.sources) == 1 && len(w.o.inserts) == 0 {
		return false
	}
	count, size := int64(len(w.o.inserts)), int64(0)
	for i := range w.o.sources {
		add := w.o.sources[i].add
		n, ok := w.p.snap.NumRecords(add)
		if !ok {
			return false
		}
		count, size = count+n, size+add.Size
	}
	return count <= sortRows && size <= sortBytes
}

// each reads a source and calls f with every batch and the edits in it.
func (w *outputWriter) each(ctx context.Context, s *source, f func(b deltatable.FileBatch, edits []edit) error) (err error) {
	reader, err := w.p.snap.OpenFile(ctx, s.add)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := reader.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	w.stored += reader.NumRows()
	edits := s.edits
	for b, err := range reader.Read(ctx, &deltatable.ReadOptions{BatchRows: writeRows}) {
		if err != nil {
			return err
		}
		n := 0
		for n < len(edits) && edits[n].pos < b.First+b.Rec.NumRows() {
			n++
		}
		if err := f(b, edits[:n]); err != nil {
			return err
		}
		w.edited += n
		edits = edits[n:]
	}
	return nil
}

// picks says which rows of a batch, source number of in the gather, stay, and
// which rows of the new ones, source number 0 from row next on, take a place.
func (w *outputWriter) picks(dst []rows.Pick, b deltatable.FileBatch, edits []edit, of, next int32) []rows.Pick {
	for i := range b.Rec.NumRows() {
		if len(edits) == 0 || edits[0].pos != b.First+i {
			dst = append(dst, rows.Pick{Source: of, Row: int32(i)})
			continue
		}
		if edits[0].drop {
			w.gone++
		} else {
			dst = append(dst, rows.Pick{Source: 0, Row: next})
			next++
		}
		edits = edits[1:]
	}
	return dst
}

func replacing(dst []int32, edits []edit) []int32 {
	for _, e := range edits {
		if !e.drop {
			dst = append(dst, e.id)
		}
	}
	return dst
}

// streamed copies the sources batch by batch, with the new rows in the places
// of those that they replace, and then the other new rows: memory does not
// depend on the size of the files (I9).
func (w *outputWriter) streamed(ctx context.Context) error {
	for i := range w.o.sources {
		err := w.each(ctx, &w.o.sources[i], func(b deltatable.FileBatch, edits []edit) error {
			if len(edits) == 0 {
				return w.file.Write(b.Rec)
			}
			fresh, err := w.r.target.assemble(w.r, w.p, replacing(nil, edits), nil)
			if err != nil {
				return err
			}
			return w.gather([]arrow.RecordBatch{fresh, b.Rec}, w.picks(nil, b, edits, 1, 0))
		})
		if err != nil {
			return err
		}
	}
	for ids := range slices.Chunk(w.o.inserts, writeRows) {
		fresh, err := w.r.target.assemble(w.r, w.p, ids, nil)
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
	recs := []arrow.RecordBatch{nil} // the new rows come first
	var picks []rows.Pick
	var fresh []int32
	for i := range w.o.sources {
		err := w.each(ctx, &w.o.sources[i], func(b deltatable.FileBatch, edits []edit) error {
			picks = w.picks(picks, b, edits, int32(len(recs)), int32(len(fresh)))
			fresh = replacing(fresh, edits)
			b.Rec.Retain()
			recs = append(recs, b.Rec)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, id := range w.o.inserts {
		picks = append(picks, rows.Pick{Source: 0, Row: int32(len(fresh))})
		fresh = append(fresh, id)
	}
	var err error
	if recs[0], err = w.r.target.assemble(w.r, w.p, fresh, nil); err != nil {
		return err
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
		for _, k := range w.r.target.keys {
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
	schema := w.r.target.schema
	cols := make([]arrow.Array, schema.NumFields())
	sources := make([]arrow.Array, len(recs))
	for c, f := range schema.Fields() {
		for i, rec := range recs {
			sources[i] = rec.Column(c)
		}
		var err error
		if cols[c], err = rows.Gather(f.Type, sources, picks); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return w.file.Write(array.NewRecordBatch(schema, cols, int64(len(picks))))
}
