package deltatable_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
)

// latency of a request on the fake clock; time divided by it is a number of round
// trips that followed on each other.
const latency = 20 * time.Millisecond

// cost is what a step cost an object store.
type cost struct {
	Get, Head, Put, Part, List, Delete int64
	Trips                              int64 // one after the other
}

// remoteTable is a table on an object store in memory, in a bubble of synctest.
type remoteTable struct {
	t      *testing.T
	bucket *blobstoretest.Bucket
}

// open opens the table as a process does that has just started.
func (r *remoteTable) open() *deltatable.Table {
	r.t.Helper()
	s, err := r.bucket.Open(r.t.Context(), "bucket://t")
	if err != nil {
		r.t.Fatal(err)
	}
	return deltatable.NewTable(s, nil)
}

// cost measures f.
func (r *remoteTable) cost(f func() error) cost {
	r.t.Helper()
	before, began := r.bucket.Counts(), time.Now()
	r.bucket.Trace()
	if err := f(); err != nil {
		r.t.Fatal(err)
	}
	n := r.bucket.Counts().Minus(before).Requests
	return cost{
		Get: n[blobstore.RequestGet], Head: n[blobstore.RequestHead], Put: n[blobstore.RequestPut], Part: n[blobstore.RequestPart],
		List: n[blobstore.RequestList], Delete: n[blobstore.RequestDelete], Trips: int64(time.Since(began) / latency),
	}
}

// is checks a budget of docs/requests.md.
func (r *remoteTable) is(what string, got, want cost) {
	r.t.Helper()
	r.t.Logf("%s: %+v", what, got)
	if d := cmp.Diff(want, got); d != "" {
		r.t.Errorf("%s (-budget +requests):\n%s%s", what, d, strings.Join(r.bucket.Trace(), "\n"))
	}
}

// onRemote runs a test in a bubble, on a table that was just made.
func onRemote(t *testing.T, test func(t *testing.T, r *remoteTable, tab *deltatable.Table)) {
	synctest.Test(t, func(t *testing.T) {
		r := &remoteTable{t: t, bucket: blobstoretest.NewBucket()}
		r.bucket.Latency = latency
		tab := r.open()
		create(t, tab, "id long, a string, b string, c string", nil, nil)
		test(t, r, tab)
	})
}

// commits makes n commits that each add a file which is not there.
func (r *remoteTable) commits(tab *deltatable.Table, n int) *deltatable.Snapshot {
	r.t.Helper()
	s := snapshot(r.t, tab)
	for range n {
		landed, err := tab.TryCommit(r.t.Context(), s, appendCommit("", fmt.Sprintf("f-%d.parquet", s.Version())))
		if err != nil {
			r.t.Fatal(err)
		}
		if err := tab.AfterCommit(r.t.Context(), landed); err != nil {
			r.t.Fatal(err)
		}
		if s, err = tab.Refresh(r.t.Context(), s); err != nil {
			r.t.Fatal(err)
		}
	}
	return s
}

// docs/requests.md "Opening a snapshot".
func TestRequestsOfOpening(t *testing.T) {
	onRemote(t, func(t *testing.T, r *remoteTable, tab *deltatable.Table) {
		opened := func(f func(tab *deltatable.Table) error) cost {
			fresh := r.open()
			return r.cost(func() error { return f(fresh) })
		}
		latest := func(tab *deltatable.Table) error { _, err := tab.Snapshot(t.Context()); return err }
		at := func(v deltatable.Version) func(tab *deltatable.Table) error {
			return func(tab *deltatable.Table) error { _, err := tab.SnapshotAt(t.Context(), v); return err }
		}
		r.commits(tab, 7)
		// Without a log checkpoint: hint, listing, all entries at once.
		r.is("8 entries", opened(latest), cost{Get: 1 + 8, List: 1, Trips: 3})
		r.commits(tab, 7)
		// Log checkpoint 10, entries 11 to 14.
		r.is("log checkpoint and 4 entries", opened(latest), cost{Get: 1 + 1 + 4, List: 1, Trips: 3})
		r.is("version 13", opened(at(13)), cost{Get: 1 + 3, List: 1, Trips: 2})
		r.is("version 10", opened(at(10)), cost{Get: 1 + 1, List: 1, Trips: 2})
		r.commits(tab, 140)
		// Log checkpoint 150, entries 151 to 154; far below it too, at no more.
		r.is("a long log", opened(latest), cost{Get: 1 + 1 + 4, List: 1, Trips: 3})
		r.is("version 33 of a long log", opened(at(33)), cost{Get: 1 + 3, List: 1, Trips: 2})
		r.commits(tab, 6) // 160 has a log checkpoint; its entry is read for its provenance
		r.is("at a log checkpoint", opened(latest), cost{Get: 1 + 1 + 1, List: 1, Trips: 3})
	})
}

// docs/requests.md "Opening a snapshot": a log checkpoint larger than 1 MiB.
func TestRequestsOfLargeCheckpoint(t *testing.T) {
	onRemote(t, func(t *testing.T, r *remoteTable, tab *deltatable.Table) {
		s := snapshot(t, tab)
		c := appendCommit("", "x.parquet")
		rng := rand.New(rand.NewPCG(1, 1))
		for range 40_000 {
			c.Adds = append(c.Adds, &deltatable.Add{Path: fmt.Sprintf("part-%016x%016x.parquet", rng.Uint64(), rng.Uint64()), PartitionValues: map[string]*string{}, Size: 5, ModificationTime: 7})
		}
		if _, err := tab.TryCommit(t.Context(), s, c); err != nil {
			t.Fatal(err)
		}
		r.commits(tab, 12)
		fresh := r.open()
		before := r.bucket.Counts()
		got := r.cost(func() error { _, err := fresh.Snapshot(t.Context()); return err })
		read := r.bucket.Counts().Minus(before).Received
		if read < 1<<20 || read > 8<<20 {
			t.Fatalf("the log checkpoint has %d bytes: not what this test is for", read)
		}
		// Hint; listing; the checkpoint's end and 3 entries; its columns in one request.
		r.is("a log checkpoint of some MB", got, cost{Get: 1 + 3 + 1 + 1, List: 1, Trips: 4})
	})
}

// docs/requests.md "Refreshing a snapshot".
func TestRequestsOfRefresh(t *testing.T) {
	onRemote(t, func(t *testing.T, r *remoteTable, tab *deltatable.Table) {
		old := r.commits(tab, 3)
		refresh := func() error { _, err := tab.Refresh(t.Context(), old); return err }
		r.is("nothing new", r.cost(refresh), cost{List: 1, Trips: 1})
		r.commits(r.open(), 9)
		r.is("9 new entries", r.cost(refresh), cost{List: 1, Get: 9, Trips: 2})
		winners := func() error { _, _, err := tab.Winners(t.Context(), old); return err }
		r.is("9 winners", r.cost(winners), cost{List: 1, Get: 9, Trips: 2})
	})
}

// docs/requests.md "Committing".
func TestRequestsOfCommit(t *testing.T) {
	onRemote(t, func(t *testing.T, r *remoteTable, tab *deltatable.Table) {
		s := r.commits(tab, 3)
		var landed *deltatable.Landed
		commit := func(name string) func() error {
			return func() (err error) {
				landed, err = tab.TryCommit(t.Context(), s, appendCommit("", name))
				return err
			}
		}
		r.is("uncontended", r.cost(commit("mine")), cost{Put: 1, Trips: 1})
		r.is("after it", r.cost(func() error { return tab.AfterCommit(t.Context(), landed) }), cost{})

		// Lost to one winner: the put, the winner's entry; then its place in the log is
		// found, and the commit follows it.
		lost := func() error {
			tx := tab.Begin(s)
			tx.Write = *appendCommit("", "lost")
			_, err := tx.Commit(t.Context(), &deltatable.Retry{Sleep: noSleep})
			return err
		}
		r.is("lost to one winner", r.cost(lost), cost{Put: 2, Get: 2, List: 1, Trips: 5})

		s = r.commits(tab, 4) // version 9
		if err := commit("ten")(); err != nil || !landed.CheckpointDue {
			t.Fatal(err, landed)
		}
		// A log checkpoint: what follows on the snapshot, whether it is there, the
		// checkpoint, the hint.
		r.is("log checkpoint", r.cost(func() error { return tab.AfterCommit(t.Context(), landed) }), cost{List: 1, Get: 2, Head: 1, Put: 2, Trips: 6})
	})
}

// wide writes a file of rows whose columns a, b and c are about 1.6 MB each, not to
// be compressed, and commits it.
func (r *remoteTable) wide(tab *deltatable.Table, rows int) *deltatable.Snapshot {
	r.t.Helper()
	s := snapshot(r.t, tab)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s.Schema())
	rng := rand.New(rand.NewPCG(3, uint64(s.Version())))
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		for c := 1; c < 4; c++ {
			b.Field(c).(*array.StringBuilder).Append(fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()))
		}
	}
	c := appendCommit("", "")
	w, err := tab.NewFileWriter(r.t.Context(), s.Layout(), deltatable.Partition{})
	if err == nil {
		err = w.Write(b.NewRecordBatch())
	}
	if err == nil {
		c.Adds, err = w.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := tab.TryCommit(r.t.Context(), s, c); err != nil {
		r.t.Fatal(err)
	}
	return snapshot(r.t, tab)
}

// docs/requests.md "Reading": two columns of a file do not download the others.
func TestRequestsOfTwoColumns(t *testing.T) {
	onRemote(t, func(t *testing.T, r *remoteTable, tab *deltatable.Table) {
		const rows = 100_000
		r.wide(tab, rows)
		tab = r.open()
		s := snapshot(t, tab)
		size := s.Files()[0].Size
		for _, c := range []struct {
			columns []string
			most    int64 // bytes
			want    cost
		}{
			// The end; one request for each of two columns that lie apart.
			{[]string{"id", "c"}, size/2 + 1<<20, cost{Get: 1 + 2, Trips: 2}},
			{[]string{"id"}, 2 << 20, cost{Get: 1 + 1, Trips: 2}},
			{nil, size + 64<<10, cost{Get: 1 + (size+8<<20-1)/(8<<20), Trips: 2}},
		} {
			before := r.bucket.Counts()
			f := func() error {
				n := int64(0)
				for rec, err := range snapshot(t, r.open()).Scan(t.Context(), &deltatable.ScanOptions{Columns: c.columns}) {
					if err != nil {
						return err
					}
					n += rec.NumRows()
				}
				if n != rows {
					return fmt.Errorf("%d rows", n)
				}
				return nil
			}
			got := r.cost(f)
			got.Get, got.List, got.Trips = got.Get-1-int64(s.Version())-1, got.List-1, got.Trips-3 // the opening
			r.is(fmt.Sprint("columns ", c.columns), got, c.want)
			if read := r.bucket.Counts().Minus(before).Received; read > c.most {
				t.Errorf("columns %v: %d bytes of a file of %d", c.columns, read, size)
			}
		}
	})
}

// docs/requests.md "Reading": the footers of a scan are fetched once, files are read
// several at once.
func TestRequestsOfScan(t *testing.T) {
	onRemote(t, func(t *testing.T, r *remoteTable, tab *deltatable.Table) {
		const files = 16
		for range files {
			r.wide(tab, 15_000) // above 1 MiB
		}
		fresh := r.open()
		s := snapshot(t, fresh)
		if small := slices.ContainsFunc(s.Files(), func(a *deltatable.Add) bool { return a.Size <= 1<<20 }); small {
			t.Fatal("a file is fetched whole when it is opened: not what this test is for")
		}
		got := r.cost(func() error {
			for _, err := range s.Scan(t.Context(), nil) {
				if err != nil {
					return err
				}
			}
			return nil
		})
		// All ends, 16 at once; then 8 files at once.
		t.Logf("a scan of %d files: %+v", files, got)
		if want := (cost{Get: 2 * files, Trips: files/16 + files/8}); got.Trips > want.Trips || got.Get != want.Get || got.Head > 0 {
			t.Errorf("%+v, budget %+v", got, want)
		}
		// A file that is gone is found before any row comes out.
		gone := s.Files()[files-1].Path
		if err := fresh.Store().Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		for _, err := range snapshot(t, r.open()).Scan(t.Context(), nil) {
			var missing *deltatable.MissingFileError
			if !errors.As(err, &missing) || missing.Path != gone {
				t.Fatalf("%v, want that %s is missing", err, gone)
			}
		}
	})
}
