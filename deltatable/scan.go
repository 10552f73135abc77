package deltatable

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/expr"
)

// mostChecked is the number of files up to which a scan makes sure, before any
// row comes out, that all of its files are there.
const mostChecked = 4096

// ScanOptions choose what Snapshot.Scan yields. Nil means every row and column.
type ScanOptions struct {
	// Columns in this order; nil: all in table order. Names are matched exactly,
	// or else case-insensitively.
	Columns []string
	// Filter keeps the rows for which it is true, and skips files and row groups
	// that cannot hold any. Bound to the snapshot's schema.
	Filter *expr.Bound
	// Workers is the number of files read at once. Default: the table's.
	Workers int
}

// Scan yields the live rows: files in the order of Files, rows in file order,
// whatever the number of workers (I10). Memory is bounded by two batches a
// worker (I9). The sequence ends at the first error; leaving it early stops
// the workers. A live file with a deletion vector refuses the scan by name,
// whether or not the filter would skip it.
func (s *Snapshot) Scan(ctx context.Context, o *ScanOptions) iter.Seq2[arrow.RecordBatch, error] {
	if o == nil {
		o = &ScanOptions{}
	}
	return func(yield func(arrow.RecordBatch, error) bool) {
		sc, err := s.plan(o)
		if err == nil {
			err = sc.checkFiles(ctx)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		sc.run(ctx, yield)
	}
}

// scan is a planned scan.
type scan struct {
	snapshot *Snapshot
	files    []*Add
	want     *arrow.Schema // what comes out
	read     []string      // what is read: want, then columns of the filter alone
	filter   *expr.Bound
	workers  int
}

func (s *Snapshot) plan(o *ScanOptions) (*scan, error) {
	if err := s.checkVectors(s.Files()); err != nil {
		return nil, err
	}
	want, err := s.layout.project(o.Columns)
	if err != nil {
		return nil, err
	}
	sc := &scan{snapshot: s, want: want, filter: o.Filter, workers: o.Workers, read: []string{}}
	if sc.workers <= 0 {
		sc.workers = s.table.workers
	}
	seen := make(map[string]bool)
	for _, f := range want.Fields() {
		seen[f.Name] = true
		sc.read = append(sc.read, f.Name)
	}
	if o.Filter == nil {
		sc.files = s.Files()
		return sc, nil
	}
	for _, c := range o.Filter.Columns() {
		i, err := findColumn(s.layout.logical, c)
		if err != nil {
			return nil, err
		}
		if name := s.layout.logical.Field(i).Name; !seen[name] {
			seen[name] = true
			sc.read = append(sc.read, name)
		}
	}
	for _, a := range s.Files() {
		if o.Filter.MayMatch(s.FileBounds(a)) {
			sc.files = append(sc.files, a)
		}
	}
	return sc, nil
}

// checkFiles finds a missing file before any row comes out, where that is cheap.
func (sc *scan) checkFiles(ctx context.Context) error {
	if len(sc.files) > mostChecked {
		return nil
	}
	files, there := sc.files, stat
	if sc.snapshot.table.store.Distant() {
		files, there = sc.footersKept(), open
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4 * sc.workers)
	missing := make([]error, len(files))
	for i, a := range files {
		g.Go(func() error {
			store, key, err := sc.snapshot.table.locate(ctx, a.Path)
			if err == nil {
				err = there(ctx, store, key, a.Size)
			}
			if err == nil {
				return nil
			}
			missing[i] = sc.snapshot.missing(a, err)
			if errors.Is(err, blobstore.ErrNotFound) {
				return nil // go on: the first in order is named
			}
			return missing[i]
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, err := range missing {
		if err != nil {
			return err
		}
	}
	return nil
}

// Of a distant store the ends of files are fetched instead of asking whether they are
// there: they are needed later anyway, and the store keeps them, up to 64 MiB in all.
// footerBytes is the most that is relied on; an object of up to wholeSize is fetched
// whole and larger ones by their last tailSize bytes.
const (
	footerBytes = 48 << 20
	wholeSize   = 1 << 20
	tailSize    = 64 << 10
)

// footersKept are the first files whose ends a store keeps until they are read.
func (sc *scan) footersKept() []*Add {
	left := int64(footerBytes)
	for i, a := range sc.files {
		size := max(a.Size, 0)
		if size > wholeSize {
			size = tailSize
		}
		if left -= size; left < 0 {
			return sc.files[:i]
		}
	}
	return sc.files
}

func stat(ctx context.Context, store *blobstore.Store, key string, _ int64) error {
	_, err := store.Stat(ctx, key)
	return err
}

func open(ctx context.Context, store *blobstore.Store, key string, size int64) error {
	r, err := store.OpenReader(ctx, key, size)
	if err != nil {
		return err
	}
	return r.Close()
}

type scanned struct {
	rec arrow.RecordBatch
	err error
}

// run reads up to workers files at once, each into a channel of its own, and
// drains the channels in file order.
func (sc *scan) run(ctx context.Context, yield func(arrow.RecordBatch, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	queue := make(chan chan scanned, sc.workers-1) // with the one being drained: workers
	var g errgroup.Group
	defer func() {
		cancel()
		_ = g.Wait() // errors went through the channels
	}()
	g.Go(func() error {
		defer close(queue)
		for _, a := range sc.files {
			out := make(chan scanned, 1)
			select {
			case queue <- out:
			case <-ctx.Done():
				return nil
			}
			g.Go(func() error {
				defer close(out)
				sc.readFile(ctx, a, out)
				return nil
			})
		}
		return nil
	})
	for out := range queue {
		for b := range out {
			if !yield(b.rec, b.err) || b.err != nil {
				return
			}
		}
		if ctx.Err() != nil {
			break // out may have ended early: no row after a gap
		}
	}
	if err := ctx.Err(); err != nil {
		yield(nil, fmt.Errorf("scan table %s: %w", sc.snapshot.table.store.URL(), err))
	}
}

func (sc *scan) readFile(ctx context.Context, a *Add, out chan<- scanned) {
	send := func(b scanned) bool {
		select {
		case out <- b:
			return true
		case <-ctx.Done():
			return false
		}
	}
	f, err := sc.snapshot.OpenFile(ctx, a)
	if err != nil {
		send(scanned{err: err})
		return
	}
	defer f.Close() // read only: nothing is lost
	for b, err := range f.Read(ctx, &ReadOptions{Columns: sc.read, RowGroups: sc.groups(f)}) {
		rec := b.Rec
		if err == nil {
			rec, err = sc.apply(ctx, rec)
		}
		if err != nil {
			send(scanned{err: err})
			return
		}
		if rec.NumRows() > 0 && !send(scanned{rec: rec}) {
			return
		}
	}
}

// groups are the row groups that may hold a match; nil: all.
func (sc *scan) groups(f *FileReader) []int {
	if sc.filter == nil {
		return nil
	}
	groups := []int{}
	for i := range f.RowGroups() {
		if sc.filter.MayMatch(func(c string) Bounds { return f.Bounds(i, c) }) {
			groups = append(groups, i)
		}
	}
	return groups
}

// apply keeps the rows that the filter holds true of, and the wanted columns.
func (sc *scan) apply(ctx context.Context, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	if sc.filter == nil {
		return rec, nil
	}
	keep, err := sc.filter.Filter(rec)
	if err != nil {
		return nil, fmt.Errorf("evaluate filter: %w", err)
	}
	n := sc.want.NumFields()
	wanted := array.NewRecordBatch(sc.want, rec.Columns()[:n], rec.NumRows())
	var kept int64
	for i := range keep.Len() {
		if keep.IsValid(i) && keep.Value(i) {
			kept++
		}
	}
	switch {
	case kept == rec.NumRows():
		return wanted, nil
	case kept == 0 || n == 0:
		return array.NewRecordBatch(sc.want, wanted.NewSlice(0, 0).Columns(), kept), nil
	}
	out, err := compute.FilterRecordBatch(ctx, wanted, keep, compute.DefaultFilterOptions())
	if err != nil {
		return nil, fmt.Errorf("apply filter: %w", err)
	}
	return out, nil
}
