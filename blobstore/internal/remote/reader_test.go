package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// source is one object behind a fetchFunc. It keeps the parts asked for, in the
// order of their coming, and answers after latency on a fake clock.
type source struct {
	mu      sync.Mutex
	data    []byte
	etag    string
	latency time.Duration
	asked   []driver.Range
	now     int // in flight
	most    int
	fail    func(n int, part driver.Range) error // n counts requests from 1
}

func (s *source) fetch(ctx context.Context, _ string, part driver.Range, etag string) ([]byte, driver.Info, error) {
	s.mu.Lock()
	s.asked = append(s.asked, part)
	n := len(s.asked)
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	var err error
	if s.latency > 0 {
		select {
		case <-time.After(s.latency):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if err != nil {
		return nil, driver.Info{}, err
	}
	if s.fail != nil {
		if err := s.fail(n, part); err != nil {
			return nil, driver.Info{}, err
		}
	}
	if etag != "" && etag != s.etag {
		return nil, driver.Info{}, &Error{Class: Changed, Status: 412, Err: errors.New("precondition failed")}
	}
	size := int64(len(s.data))
	off := part.Off
	if off < 0 {
		off = max(0, size+off)
	}
	off = min(off, size)
	stop := size
	if part.N >= 0 {
		stop = min(stop, off+part.N)
	}
	return bytes.Clone(s.data[off:stop]), driver.Info{Size: size, ETag: s.etag}, nil
}

func (s *source) requests() []driver.Range {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = nil
	return out
}

func newSource(size int) *source {
	s := &source{data: make([]byte, size), etag: "e1"}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(s.data) // it never fails
	return s
}

func (s *source) readAt(t *testing.T, r *reader, off, n int64) {
	t.Helper()
	p := make([]byte, n)
	got, err := r.ReadAt(p, off)
	if err != nil || int64(got) != n || !bytes.Equal(p, s.data[off:off+n]) {
		t.Fatalf("read of %d bytes from %d: %d bytes, %v", n, off, got, err)
	}
}

const kib, mib = int64(1 << 10), int64(1 << 20)

func TestOpenIsOneRequest(t *testing.T) {
	for _, c := range []struct {
		size, hint int64
		want       []driver.Range
	}{
		{0, 0, []driver.Range{{Off: 0, N: mib}}},
		{0, -1, []driver.Range{{Off: -256 * kib, N: -1}}},
		{100 * kib, 100 * kib, []driver.Range{{Off: 0, N: mib}}},
		{100 * kib, -1, []driver.Range{{Off: -256 * kib, N: -1}}},
		{5 * mib, 5 * mib, []driver.Range{{Off: 5*mib - 64*kib, N: 64 * kib}}},
		{5 * mib, -1, []driver.Range{{Off: -256 * kib, N: -1}}},
		// Wrong sizes cost a request and nothing else.
		{100 * kib, 7, []driver.Range{{Off: 0, N: mib}}},
		{100 * kib, 9 * mib, []driver.Range{{Off: 9*mib - 64*kib, N: 64 * kib}, {Off: 36 * kib, N: 64 * kib}}},
		{5 * mib, 7, []driver.Range{{Off: 0, N: mib}, {Off: 5*mib - 64*kib, N: 64 * kib}}},
		{5 * mib, 4 * mib, []driver.Range{{Off: 4*mib - 64*kib, N: 64 * kib}, {Off: 5*mib - 64*kib, N: 64 * kib}}},
		{5 * mib, 5*mib + 10, []driver.Range{{Off: 5*mib + 10 - 64*kib, N: 64 * kib}}},
	} {
		s := newSource(int(c.size))
		r, err := newReaders(s.fetch, Reading{}).open(t.Context(), "k", c.hint)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, s.requests()); d != "" || r.Size() != c.size {
			t.Errorf("size %d, believed to be %d: size %d, requests (-want +got):\n%s", c.size, c.hint, r.Size(), d)
		}
		tail := min(c.size, 10*kib)
		s.readAt(t, r, c.size-tail, tail)
		if more := s.requests(); len(more) > 0 {
			t.Errorf("size %d: the end is read by %v", c.size, more)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEndIsKept(t *testing.T) {
	s := newSource(int(5 * mib))
	rs := newReaders(s.fetch, Reading{})
	for i := range 3 {
		r, err := rs.open(t.Context(), "k", 5*mib)
		if err != nil {
			t.Fatal(err)
		}
		s.readAt(t, r, 5*mib-8, 8)
		if got := len(s.requests()); (i == 0) != (got == 1) {
			t.Fatalf("opened %d times before: %d requests", i, got)
		}
		r.Close()
	}
	// Who does not say the size gets what is there now.
	s.data, s.etag = s.data[:mib], "e2"
	r, err := rs.open(t.Context(), "k", -1)
	if err != nil || r.Size() != mib {
		t.Fatal(r.Size(), err)
	}
	r.Close()
}

// Names in the log are written more than once: log checkpoints by several writers,
// all of them by a table that is made anew. A size that is the same says nothing.
func TestNothingOfTheLogIsKept(t *testing.T) {
	for _, size := range []int64{100 * kib, 5 * mib} {
		s := newSource(int(size))
		rs := newReaders(s.fetch, Reading{})
		for i := range 3 {
			s.etag = fmt.Sprint("e", i)
			s.data[size-1] = byte(i)
			r, err := rs.open(t.Context(), "_delta_log/00000000000000000010.checkpoint.parquet", size)
			if err != nil {
				t.Fatal(err)
			}
			var last [1]byte
			if _, err := r.ReadAt(last[:], size-1); err != nil || last[0] != byte(i) {
				t.Errorf("%d bytes, written %d times: the last byte is %d (%v)", size, i+1, last[0], err)
			}
			if got := len(s.requests()); got != 1 {
				t.Errorf("%d bytes, written %d times: %d requests, want 1", size, i+1, got)
			}
			r.Close()
		}
	}
}

func TestKeptIsBounded(t *testing.T) {
	h := newHolder(10 * kib)
	for i := range 100 {
		h.put(&held{key: fmt.Sprint("k", i), size: kib, data: make([]byte, kib)})
	}
	h.put(&held{key: "large", size: mib, data: make([]byte, mib)})
	var have []int
	for i := range 100 {
		if h.get(fmt.Sprint("k", i), kib) != nil {
			have = append(have, i)
		}
	}
	if d := cmp.Diff([]int{93, 94, 95, 96, 97, 98, 99}, have); d != "" || h.used > h.limit || len(h.byKey) != h.order.Len() {
		t.Error(d, h.used, len(h.byKey), h.order.Len())
	}
	if h.get("large", mib) != nil {
		t.Error("what is larger than the bound is kept")
	}
}

func TestReplacedObject(t *testing.T) {
	s := newSource(int(5 * mib))
	rs := newReaders(s.fetch, Reading{})
	r, err := rs.open(t.Context(), "k", 5*mib)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.etag = "e2"
	r.Prefetch([]driver.Range{{Off: 0, N: mib}})
	for range 2 {
		_, err = r.ReadAt(make([]byte, 10), 0)
		if e, ok := errors.AsType[*Error](err); !ok || e.Class != Changed {
			t.Fatalf("error %v, want one of class Changed", err)
		}
	}
	// What was kept of it is gone.
	s.requests()
	again, err := rs.open(t.Context(), "k", 5*mib)
	if err != nil || len(s.requests()) != 1 {
		t.Fatal("the old end was kept", err)
	}
	s.readAt(t, again, 0, mib)
	again.Close()
	// A store that gives no heed to If-Match.
	ignorant := func(ctx context.Context, key string, part driver.Range, _ string) ([]byte, driver.Info, error) {
		return s.fetch(ctx, key, part, "")
	}
	r, err = newReaders(ignorant, Reading{}).open(t.Context(), "k", 5*mib)
	if err != nil {
		t.Fatal(err)
	}
	s.etag = "e3"
	_, err = r.ReadAt(make([]byte, 10), 0)
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != Changed || !errors.Is(err, driver.ErrChanged) {
		t.Fatalf("error %v, want one of class Changed", err)
	}
	r.Close()
}

func TestPrefetchIsCoalesced(t *testing.T) {
	s := newSource(int(64 * mib))
	r, err := newReaders(s.fetch, Reading{Window: 100 * mib, Parallel: 1}).open(t.Context(), "k", 64*mib)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.requests()
	ranges := []driver.Range{
		{Off: 40 * mib, N: 20 * mib},              // first: it is wanted first; cut
		{Off: 0, N: 100}, {Off: 50 * kib, N: 100}, // near
		{Off: 5 * mib, N: mib}, {Off: 7 * mib, N: mib}, // a gap no larger than what is around
		{Off: 10 * mib, N: 10 * kib}, {Off: 10*mib + 900*kib, N: 10 * kib}, // a gap larger than that
		{Off: 63 * mib, N: 2 * mib}, // beyond the end, which is there
	}
	r.Prefetch(ranges)
	r.Prefetch(ranges) // planned already
	r.running.Wait()
	want := []driver.Range{
		{Off: 40 * mib, N: (20*mib + 2) / 3},
		{Off: 40*mib + (20*mib+2)/3, N: (20*mib + 2) / 3},
		{Off: 40*mib + 2*((20*mib+2)/3), N: 20*mib - 2*((20*mib+2)/3)},
		{Off: 0, N: 50*kib + 100},
		{Off: 5 * mib, N: 3 * mib},
		{Off: 10 * mib, N: 10 * kib},
		{Off: 10*mib + 900*kib, N: 10 * kib},
		{Off: 63 * mib, N: mib - 64*kib},
	}
	byOffset := func(a, b driver.Range) bool { return a.Off < b.Off }
	if d := cmp.Diff(want, s.requests(), sortRanges(byOffset)); d != "" {
		t.Fatalf("requests (-want +got):\n%s", d)
	}
	for _, w := range ranges {
		s.readAt(t, r, w.Off, min(w.N, 64*mib-w.Off))
	}
	if more := s.requests(); len(more) > 0 {
		t.Errorf("what was prefetched is read by %v", more)
	}
	if r.ahead != 0 || r.s.ahead.Load() != 0 || len(r.blocks) != 0 {
		t.Errorf("%d bytes in %d blocks are left of what was read once", r.ahead, len(r.blocks))
	}
}

func TestPrefetchDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(int(64 * mib))
		s.latency = 20 * time.Millisecond
		began := time.Now()
		r, err := newReaders(s.fetch, Reading{Window: 40 * mib}).open(t.Context(), "k", 64*mib)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.Prefetch([]driver.Range{{Off: 0, N: 32 * mib}})
		s.readAt(t, r, 0, 32*mib)
		// One round trip to open, one for four blocks at once.
		if took := time.Since(began); took != 2*s.latency || s.most != 4 {
			t.Errorf("%v with at most %d requests at once; want %v and 4", took, s.most, 2*s.latency)
		}
	})
}

func TestParallelBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(int(64 * mib))
		s.latency = 20 * time.Millisecond
		rs := newReaders(s.fetch, Reading{Window: 100 * mib, Block: mib, Parallel: 5})
		var g sync.WaitGroup
		for i := range 4 {
			r, err := rs.open(t.Context(), fmt.Sprint(i), 64*mib)
			if err != nil {
				t.Fatal(err)
			}
			r.Prefetch([]driver.Range{{Off: 0, N: 64 * mib}})
			g.Go(func() {
				s.readAt(t, r, 0, 63*mib)
				r.Close()
			})
		}
		g.Wait()
		if s.most != 5 {
			t.Errorf("%d requests in flight at once, want 5", s.most)
		}
	})
}

// Memory is bounded by the window, however much is wished for (I9).
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(int(64 * mib))
		s.latency = time.Millisecond
		r, err := newReaders(s.fetch, Reading{Window: 16 * mib, Block: 4 * mib}).open(t.Context(), "k", 64*mib)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.Prefetch([]driver.Range{{Off: 0, N: 64 * mib}})
		var most int64
		for off := int64(0); off < 60*mib; off += mib {
			synctest.Wait()
			r.mu.Lock()
			var sum int64
			for _, b := range r.blocks {
				if b.begun {
					sum += b.n
				}
			}
			most = max(most, sum)
			r.mu.Unlock()
			s.readAt(t, r, off, mib)
		}
		if most > 16*mib || most < 12*mib {
			t.Errorf("up to %d bytes are held, want nearly %d", most, 16*mib)
		}
		// Out of order: what is needed comes before what was wished for.
		began := time.Now()
		s.readAt(t, r, 63*mib, 512*kib)
		if took := time.Since(began); took > 2*s.latency {
			t.Errorf("a read out of order waits for %v", took)
		}
	})
}

// What was wished for and is never read does not pile up.
func TestUnreadBlocks(t *testing.T) {
	s := newSource(int(64 * mib))
	r, err := newReaders(s.fetch, Reading{Window: 16 * mib, Block: 4 * mib}).open(t.Context(), "k", 64*mib)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.requests()
	// As of row groups: 100 bytes of each are not read, and the next one is told.
	var most int64
	for off := int64(0); off < 60*mib; off += 4 * mib {
		r.Prefetch([]driver.Range{{Off: off, N: 4 * mib}, {Off: off + 4*mib, N: 4 * mib}})
		s.readAt(t, r, off, 4*mib-100)
		most = max(most, r.ahead)
	}
	r.running.Wait() // the last wish may not have been asked for yet
	if n := len(s.requests()); n != 16 || most > 16*mib {
		t.Errorf("%d requests with up to %d bytes ahead; want 16 and at most %d", n, most, 16*mib)
	}
	// Wishes of which little is read.
	r.Prefetch([]driver.Range{{Off: 0, N: 60 * mib}})
	for off := int64(0); off < 60*mib; off += 4 * mib {
		s.readAt(t, r, off, mib)
		if r.ahead > 16*mib+4*mib {
			t.Fatalf("%d bytes are held", r.ahead)
		}
	}
}

// All readers of a driver together are bounded too, but none is left without a block.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(int(64 * mib))
		s.latency = time.Millisecond
		rs := newReaders(s.fetch, Reading{Window: 16 * mib, Windows: 24 * mib, Block: 4 * mib, Parallel: 100})
		var all []*reader
		for i := range 4 {
			r, err := rs.open(t.Context(), fmt.Sprint(i), 64*mib)
			if err != nil {
				t.Fatal(err)
			}
			r.Prefetch([]driver.Range{{Off: 0, N: 64 * mib}})
			all = append(all, r)
		}
		if got := rs.ahead.Load(); got > (16+8+4+4)*mib || got < 31*mib {
			t.Errorf("%d bytes are fetched ahead", got)
		}
		for _, r := range all {
			s.readAt(t, r, 0, 40*mib)
			r.Close()
		}
		if got := rs.ahead.Load(); got != 0 {
			t.Errorf("%d bytes are counted that nobody holds", got)
		}
	})
}

func TestFailedPrefetchIsReadAgain(t *testing.T) {
	for _, class := range []Class{Unclear, Throttled, Expired} {
		s := newSource(int(8 * mib))
		r, err := newReaders(s.fetch, Reading{}).open(t.Context(), "k", 8*mib)
		if err != nil {
			t.Fatal(err)
		}
		s.requests()
		s.fail = func(n int, _ driver.Range) error {
			if n == 1 {
				return &Error{Class: class, Err: errors.New("given")}
			}
			return nil
		}
		r.Prefetch([]driver.Range{{Off: 0, N: mib}})
		s.readAt(t, r, 0, mib)
		if got := s.requests(); len(got) != 2 {
			t.Errorf("requests %v, want the failed one and another", got)
		}
		// A failure of the read's own is its error.
		s.fail = func(int, driver.Range) error { return &Error{Class: class, Err: errors.New("given")} }
		_, err = r.ReadAt(make([]byte, 10), 4*mib)
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("error %v, want that of the store", err)
		}
		s.fail = nil
		s.readAt(t, r, 4*mib, 10)
		r.Close()
	}
}

func TestReadAhead(t *testing.T) {
	s := newSource(int(32 * mib))
	r, err := newReaders(s.fetch, Reading{}).open(t.Context(), "k", 32*mib)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.requests()
	for off := int64(0); off < 32*mib; off += 32 * kib {
		s.readAt(t, r, off, 32*kib)
	}
	if n := len(s.requests()); n > 20 {
		t.Errorf("%d requests for 32 MiB read in order", n)
	}
	// Reads here and there fetch little.
	for i := range int64(10) {
		s.readAt(t, r, (i*3%10)*3*mib, 100)
	}
	var sum int64
	for _, p := range s.requests() {
		sum += p.N
	}
	if sum > 10*near {
		t.Errorf("%d bytes were fetched for 10 reads of 100", sum)
	}
}

// TestReadersAgainstBytes compares any sequence of reads and hints with the bytes
// themselves, several goroutines at once, with failures.
func TestReadersAgainstBytes(t *testing.T) {
	const rounds = 40
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a seed that is told
		size := r.Int64N(3 * mib)
		s := newSource(int(size))
		o := Reading{Small: 1 + r.Int64N(mib), Tail: 1 + r.Int64N(64*kib), Gap: r.Int64N(300 * kib), Block: 1 + 10*kib + r.Int64N(mib), Window: 1 + r.Int64N(mib), Parallel: 1 + r.IntN(6)}
		hint := []int64{-1, size, r.Int64N(4 * mib)}[r.IntN(3)]
		rd, err := newReaders(s.fetch, o).open(t.Context(), "k", hint)
		if err != nil || rd.Size() != size {
			t.Fatalf("seed %d: size %d, want %d; %v", seed, rd.Size(), size, err)
		}
		s.fail = func(n int, _ driver.Range) error {
			if n%5 == 0 {
				return &Error{Err: errors.New("given")}
			}
			return nil
		}
		var g sync.WaitGroup
		for k := range uint64(4) {
			g.Go(func() { anyReads(t, rd, s.data, rand.New(rand.NewPCG(seed, k))) }) //nolint:gosec // the same
		}
		g.Wait()
		if err := rd.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds from seed 0 on", rounds)
}

func anyReads(t *testing.T, rd *reader, data []byte, r *rand.Rand) {
	size := int64(len(data))
	for range 60 {
		if r.IntN(4) == 0 {
			var ranges []driver.Range
			for range r.IntN(6) {
				ranges = append(ranges, driver.Range{Off: r.Int64N(size + 10), N: r.Int64N(200 * kib)})
			}
			rd.Prefetch(ranges)
			continue
		}
		off, p := r.Int64N(size+10), make([]byte, r.Int64N(100*kib))
		n, err := rd.ReadAt(p, off)
		if e, ok := errors.AsType[*Error](err); ok && e.Class == Unclear {
			continue // given
		}
		want := data[min(off, size):min(size, off+int64(len(p)))]
		short := len(want) < len(p)
		if !bytes.Equal(p[:n], want) || short != (err == io.EOF) || !short && err != nil { //nolint:errorlint // io.ReaderAt promises io.EOF itself
			t.Errorf("read of %d from %d of %d: %d bytes, %v", len(p), off, size, n, err)
			return
		}
	}
}

func TestCloseEndsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(int(64 * mib))
		rs := newReaders(s.fetch, Reading{})
		r, err := rs.open(t.Context(), "k", 64*mib)
		if err != nil {
			t.Fatal(err)
		}
		s.latency = time.Hour
		r.Prefetch([]driver.Range{{Off: 0, N: 64 * mib}})
		synctest.Wait()
		began := time.Now()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if s.now != 0 || time.Since(began) != 0 || len(rs.slots) != 0 {
			t.Errorf("%d requests go on after Close, which took %v", s.now, time.Since(began))
		}
	})
}

func sortRanges(less func(a, b driver.Range) bool) cmp.Option { return cmpopts.SortSlices(less) }
