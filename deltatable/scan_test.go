package deltatable_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
)

// scanRows scans in order; each row as the row encoding.
func scanRows(t testing.TB, s *deltatable.Snapshot, o *deltatable.ScanOptions) []string {
	t.Helper()
	rows := []string{}
	for rec, err := range s.Scan(t.Context(), o) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, encodeRows(rec)...)
	}
	return rows
}

func bind(t testing.TB, s *deltatable.Snapshot, text string) *expr.Bound {
	t.Helper()
	e, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	b, err := expr.Bind(e, s.Schema())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestScanProjectsAndFilters(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long, P string, v double", []string{"p"}, nil)
	s := appendRows(t, tab, `[{"id":1,"P":"x","v":1.5},{"id":2,"P":"","v":null},{"id":3,"P":null,"v":2.5},{"id":4,"P":"x y/%","v":0}]`)
	if n := len(s.Files()); n != 3 {
		t.Errorf("%d files, want 3: the empty string and NULL are one partition", n)
	}
	for _, c := range []struct {
		columns []string
		where   string
		want    []string
	}{
		{nil, "id = 2", []string{`{"id":2,"P":null,"v":null}`}},
		{[]string{"V", "p"}, "id >= 3 AND p IS NOT NULL", []string{`{"v":0.0,"P":"x y/%"}`}},
		{[]string{"id"}, "p = 'x'", []string{`{"id":1}`}},
		{[]string{}, "v > 1", []string{`{}`, `{}`}},
		{[]string{"p"}, "p IS NULL", []string{`{"P":null}`, `{"P":null}`}},
		{[]string{"id"}, "id > 100", []string{}},
	} {
		got := scanRows(t, s, &deltatable.ScanOptions{Columns: c.columns, Filter: bind(t, s, c.where)})
		slices.Sort(got)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("columns %q where %s: -want +got\n%s", c.columns, c.where, d)
		}
	}
	var colErr *deltatable.ColumnError
	for _, err := range s.Scan(t.Context(), &deltatable.ScanOptions{Columns: []string{"nope"}}) {
		if !errors.As(err, &colErr) || colErr.Column != "nope" {
			t.Errorf("unknown column gives %v", err)
		}
	}
}

// Files that statistics or partition values rule out are not opened.
func TestScanSkipsFiles(t *testing.T) {
	store := memStore(t)
	sound := deltatable.NewTable(store, testOptions())
	create(t, sound, "id long, p long", []string{"p"}, nil)
	for i := range 4 {
		appendRows(t, sound, fmt.Sprintf(`[{"id":%d,"p":%d}]`, i, i%2))
	}
	for where, opened := range map[string]int{"id = 2": 1, "p = 1": 2, "p = 1 AND id < 2": 1, "id IS NULL": 0, "id > 0 OR p = 0": 4} {
		var f blobstoretest.Faults
		tab := deltatable.NewTable(store.Wrap(f.Wrap), testOptions())
		s := snapshot(t, tab)
		scanRows(t, s, &deltatable.ScanOptions{Filter: bind(t, s, where)})
		if got := f.Calls(blobstoretest.OpOpen); got != opened {
			t.Errorf("%s opens %d files, want %d", where, got, opened)
		}
	}
}

// The order of rows does not depend on the workers (I10), and leaving a scan
// early leaves no worker behind.
func TestScanOrderIsThatOfFiles(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long", nil, nil)
	var s *deltatable.Snapshot
	for i := range 9 {
		s = appendRows(t, tab, fmt.Sprintf(`[{"id":%d},{"id":%d}]`, 2*i, 2*i+1))
	}
	var want []string
	for _, a := range s.Files() {
		f, err := s.OpenFile(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		for b, err := range f.Read(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, encodeRows(b.Rec)...)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, workers := range []int{1, 2, 5, 30} {
		got := scanRows(t, s, &deltatable.ScanOptions{Workers: workers})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d workers: -want +got\n%s", workers, d)
		}
		for _, err := range s.Scan(t.Context(), &deltatable.ScanOptions{Workers: workers}) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
}

// Positions count through the whole file, whatever is read of it.
func TestReadTellsPositions(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long, p string", []string{"p"}, nil)
	var rows []string
	for i := range 25 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"p":"x"}`, i))
	}
	s := appendRows(t, tab, "["+strings.Join(rows, ",")+"]")
	f, err := s.OpenFile(t.Context(), s.Files()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, columns := range [][]string{nil, {"id"}, {"p"}, {}} {
		next := int64(0)
		for b, err := range f.Read(t.Context(), &deltatable.ReadOptions{Columns: columns, BatchRows: 10}) {
			if err != nil {
				t.Fatal(err)
			}
			if b.First != next {
				t.Errorf("columns %q: a batch begins at row %d, want %d", columns, b.First, next)
			}
			next += b.Rec.NumRows()
		}
		if next != 25 {
			t.Errorf("columns %q: %d rows, want 25", columns, next)
		}
	}
}

// A file that a vacuum removed fails the scan before any row, whichever it is,
// and the error says which version needs it.
func TestScanMissingFile(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long", nil, nil)
	for i := range 5 {
		appendRows(t, tab, fmt.Sprintf(`[{"id":%d}]`, i))
	}
	s := snapshot(t, tab)
	gone := s.Files()[4].Path
	if err := tab.Store().Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	rows := 0
	var missing *deltatable.MissingFileError
	for rec, err := range s.Scan(t.Context(), nil) {
		if err == nil {
			rows += int(rec.NumRows())
			continue
		}
		if !errors.As(err, &missing) {
			t.Fatal(err)
		}
	}
	want := &deltatable.MissingFileError{Version: 5, Path: gone}
	if d := cmp.Diff(want, missing); d != "" || rows != 0 {
		t.Errorf("%d rows came out; error: -want +got\n%s", rows, d)
	}
}

func TestScanStopsWithItsContext(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long", nil, nil)
	s := appendRows(t, tab, `[{"id":1}]`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Scan(ctx, nil) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

// A file with a deletion vector is refused by name, at Scan and at OpenFile.
func TestDeletionVectorIsRefused(t *testing.T) {
	tab, s := matrixTable(t)
	matrixWin(t, "vector a", tab, s)
	s = snapshot(t, tab)
	err := drainErr(t, s)
	u, ok := errors.AsType[*deltatable.UnsupportedFeatureError](err)
	if !ok || u.Feature != "deletionVectors" || u.Operation != "read" {
		t.Errorf("scan gives %v", err)
	}
	for _, a := range s.Files() {
		_, err := s.OpenFile(t.Context(), a)
		if _, refused := errors.AsType[*deltatable.UnsupportedFeatureError](err); refused != (a.DeletionVector != nil) {
			t.Errorf("open %s gives %v", a.Path, err)
		}
	}
	if err := s.CheckWritable(); err == nil {
		t.Error("a table with a live deletion vector is called writable")
	}
}

func drainErr(t *testing.T, s *deltatable.Snapshot) error {
	t.Helper()
	for _, err := range s.Scan(t.Context(), nil) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Skipping never changes an answer: a scan with a filter equals the filtered
// rows of a scan without (I4).
func TestScanFilterEqualsFilteredScan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 2))
		tab := memTable(t)
		create(t, tab, "id long, p string, v double", []string{"p"}, nil)
		var s *deltatable.Snapshot
		var all []string
		for range 3 {
			var rows []string
			for range 1 + rng.IntN(4) {
				rows = append(rows, fmt.Sprintf(`{"id":%s,"p":%s,"v":%s}`,
					pick(rng, "null", "0", "1", "2", "3"), pick(rng, "null", `"a"`, `"b"`), pick(rng, "null", "-1.5", "0", "2.5")))
			}
			s = appendRows(t, tab, "["+strings.Join(rows, ",")+"]")
		}
		all = scanRows(t, s, nil)
		term := func() string {
			return pick(rng, "id = 1", "id > 1", "NOT (id <= 2)", "id IS NULL", "p = 'a'", "p IS NULL", "NOT (p = 'b')", "v < 0", "v IS NOT NULL", "id IN (0, 3)")
		}
		where := term() + pick(rng, " AND ", " OR ") + term()
		got := scanRows(t, s, &deltatable.ScanOptions{Filter: bind(t, s, where)})
		var want []string
		for _, a := range s.Files() {
			f, err := s.OpenFile(t.Context(), a)
			if err != nil {
				rt.Fatal(err)
			}
			for b, err := range f.Read(t.Context(), nil) {
				if err != nil {
					rt.Fatal(err)
				}
				keep, err := bind(t, s, where).Filter(b.Rec)
				if err != nil {
					rt.Fatal(err)
				}
				for i, row := range encodeRows(b.Rec) {
					if keep.IsValid(i) && keep.Value(i) {
						want = append(want, row)
					}
				}
			}
			if err := f.Close(); err != nil {
				rt.Fatal(err)
			}
		}
		if !slices.Equal(want, got) {
			rt.Errorf("where %s of %v:\n got %v\nwant %v", where, all, got, want)
		}
	})
}

func pick(rng *rand.Rand, from ...string) string { return from[rng.IntN(len(from))] }
