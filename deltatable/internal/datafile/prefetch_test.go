package datafile

import (
	"bytes"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is a file in memory that keeps what it is told beforehand and what is read.
type told struct {
	*bytes.Reader
	mu    sync.Mutex
	calls [][]Range
	reads []Range
}

func (r *told) Prefetch(ranges []Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, ranges)
}

func (r *told) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	r.reads = append(r.reads, Range{off, int64(len(p))})
	r.mu.Unlock()
	return r.Reader.ReadAt(p, off)
}

// Every byte of a chunk that is read was told before and is read once, and no
// chunk of another column is told or read.
func TestPrefetchTellsWhatIsRead(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, WriteOptions{Schema: benchSchema, RowGroupRows: 1 << 14})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range stateRows(2 << 16) {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		columns []string
		groups  []int
	}{{nil, nil}, {[]string{"source_version", "key"}, nil}, {[]string{"id"}, []int{1, 4, 5}}, {[]string{"status", "status"}, []int{7}}} {
		in := &told{Reader: bytes.NewReader(file.Bytes())}
		f, err := Open(t.Context(), in, int64(file.Len()), benchSchema)
		if err != nil {
			t.Fatal(err)
		}
		in.reads = nil
		read := 0
		for b, err := range f.Read(t.Context(), ReadOptions{Columns: c.columns, RowGroups: c.groups}) {
			if err != nil {
				t.Fatal(err)
			}
			read += int(b.Rec.NumRows())
			// The next row group is told while this one is decoded.
			have := 0
			for _, call := range in.calls {
				have += len(call)
			}
			if have == 0 {
				t.Fatal("rows come before anything was told")
			}
		}
		want := map[Range]bool{}
		groups := c.groups
		if groups == nil {
			groups = []int{0, 1, 2, 3, 4, 5, 6, 7}
		}
		columns := c.columns
		if columns == nil {
			columns = []string{"key", "id", "source_version", "status", "value"}
		}
		for _, g := range groups {
			for _, name := range columns {
				want[ChunkRange(f.reader, g, benchSchema.FieldIndices(name)[0])] = true
			}
		}
		got := map[Range]bool{}
		for _, call := range in.calls {
			for _, r := range call {
				if got[r] {
					t.Errorf("%v is told twice", r)
				}
				got[r] = true
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("columns %v of row groups %v: told (-want +got):\n%s", c.columns, c.groups, d)
		}
		if read != len(groups)<<14 {
			t.Errorf("%d rows, want %d", read, len(groups)<<14)
		}
		inside(t, in.reads, want)
	}
}

// inside checks that reads lie in chunks and cover them once.
func inside(t *testing.T, reads []Range, chunks map[Range]bool) {
	t.Helper()
	var sum, all int64
	for c := range chunks {
		all += c.N
	}
	for _, r := range reads {
		ok := false
		for c := range chunks {
			if at := r.Off - c.Off; at >= 0 && at < c.N {
				ok = true
				sum += min(r.N, c.N-at)
			}
		}
		if !ok {
			t.Errorf("a read of %d bytes at %d is in no chunk that was told", r.N, r.Off)
		}
	}
	if sum != all {
		t.Errorf("%d bytes are read of chunks of %d", sum, all)
	}
}
