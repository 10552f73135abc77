package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
)

func allocator() memory.Allocator { return memory.DefaultAllocator }

// fileError is a data file that cannot be read: damage or absence, which is for the report
// and not the end of the audit.
type fileError struct {
	path string
	key  deltatable.FileKey
	err  error
}

func (e *fileError) Error() string {
	var missing *deltatable.MissingFileError
	if errors.As(e.err, &missing) {
		return missing.Error()
	}
	return fmt.Sprintf("data file %q cannot be read: %v", e.path, e.err)
}

func (e *fileError) Unwrap() error { return e.err }

// change of live files between two versions, by identity (I3), never by actions.
type liveSets struct {
	removed, added, kept []*deltatable.Add
}

// compareFiles gives the live sets of two neighbours; prev nil is the empty table.
func compareFiles(prev, cur *deltatable.Snapshot) liveSets {
	var l liveSets
	if prev == nil {
		l.added = cur.Files()
		return l
	}
	for _, a := range prev.Files() {
		if _, ok := cur.File(cur.KeyOf(a)); !ok {
			l.removed = append(l.removed, a)
		}
	}
	for _, a := range cur.Files() {
		if _, ok := prev.File(prev.KeyOf(a)); ok {
			l.kept = append(l.kept, a)
		} else {
			l.added = append(l.added, a)
		}
	}
	return l
}

// reading is one pass over a file.
type reading struct {
	snapshot *deltatable.Snapshot
	file     *deltatable.Add
	columns  []string                                         // those that the table lacks are all NULL
	skip     func(column func(string) deltatable.Bounds) bool // of a row group; nil: none
}

// rows calls fn for each batch of rows with its columns in the order asked for.
// Errors of the file are *fileError; ctx's and fn's own are returned as they are.
func (r reading) rows(ctx context.Context, fn func(cols []arrow.Array, n int) error) (err error) {
	f, err := r.snapshot.OpenFile(ctx, r.file)
	if err != nil {
		return r.fail(ctx, err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = r.fail(ctx, cerr)
		}
	}()
	have, place := r.project()
	for b, err := range f.Read(ctx, &deltatable.ReadOptions{Columns: have, RowGroups: r.groups(f)}) {
		if err != nil {
			return r.fail(ctx, err)
		}
		n := int(b.Rec.NumRows())
		cols := make([]arrow.Array, len(r.columns))
		for i, p := range place {
			if p < 0 {
				cols[i] = array.NewNull(n)
			} else {
				cols[i] = b.Rec.Column(p)
			}
		}
		if err := fn(cols, n); err != nil {
			return err
		}
	}
	return nil
}

func (r reading) fail(ctx context.Context, err error) error {
	var unsupported *deltatable.UnsupportedFeatureError
	if ctx.Err() != nil || errors.As(err, &unsupported) {
		return err
	}
	return &fileError{r.file.Path, r.file.Key(), err}
}

func (r reading) project() (have []string, place []int) {
	have = []string{}
	for _, c := range r.columns {
		if !r.snapshot.Schema().HasField(c) {
			place = append(place, -1)
			continue
		}
		if i := slices.Index(have, c); i >= 0 {
			place = append(place, i)
			continue
		}
		place = append(place, len(have))
		have = append(have, c)
	}
	return have, place
}

// groups are the row groups that skip does not rule out; nil: all.
func (r reading) groups(f *deltatable.FileReader) []int {
	if r.skip == nil {
		return nil
	}
	out := []int{}
	for g := range f.RowGroups() {
		if !r.skip(func(c string) deltatable.Bounds { return f.Bounds(g, c) }) {
			out = append(out, g)
		}
	}
	return out
}

// footerRows is the number of rows of a file by its footer.
func footerRows(ctx context.Context, s *deltatable.Snapshot, a *deltatable.Add) (int64, error) {
	r := reading{snapshot: s, file: a}
	f, err := s.OpenFile(ctx, a)
	if err != nil {
		return 0, r.fail(ctx, err)
	}
	n := f.NumRows()
	if err := f.Close(); err != nil {
		return 0, r.fail(ctx, err)
	}
	return n, nil
}

// errElsewhere says that a file's bytes are not in the table's own store.
var errElsewhere = errors.New("the path is absolute")

// hashFile hashes the bytes of a file of the table (and gives its size).
func hashFile(ctx context.Context, t *deltatable.Table, a *deltatable.Add) (integrity.Sum, int64, error) {
	if strings.HasPrefix(a.Path, "/") || strings.Contains(a.Path, "://") || strings.HasPrefix(a.Path, "file:") {
		return integrity.Sum{}, 0, errElsewhere
	}
	key, err := url.PathUnescape(a.Path) // PROTOCOL.md "Add File and Remove File": decoded once
	if err != nil {
		return integrity.Sum{}, 0, fmt.Errorf("decode path %q: %w", a.Path, err)
	}
	r, err := t.Store().OpenReader(ctx, key, -1)
	if err != nil {
		return integrity.Sum{}, 0, err
	}
	h := integrity.NewFileHash()
	buffer := make([]byte, max(1, min(r.Size(), 8<<20))) // every piece may be a request
	n, err := io.CopyBuffer(h, io.NewSectionReader(r, 0, r.Size()), buffer)
	return h.Sum(), n, errors.Join(err, r.Close())
}
