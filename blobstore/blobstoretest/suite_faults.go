package blobstoretest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deltafold/deltafold/blobstore"
)

func testCancelled(t *testing.T, s *blobstore.Store) {
	mustPut(t, s, "old", "old")
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.NewWriter(ctx, "new")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	if out, err := s.Create(ctx, "c", nil); out != blobstore.NotDone || !errors.Is(err, context.Canceled) {
		t.Errorf("Create: %s, %v", out, err)
	}
	_, getErr := s.Get(ctx, "old")
	_, statErr := s.Stat(ctx, "old")
	_, openErr := s.OpenReader(ctx, "old", -1)
	_, writerErr := s.NewWriter(ctx, "new")
	var listErr error
	for _, err := range s.List(ctx, "", "") {
		listErr = err
	}
	for i, err := range []error{
		s.Put(ctx, "old", nil), s.Delete(ctx, "old"), getErr, statErr, openErr, writerErr, listErr,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d under a cancelled context: %v", i, err)
		}
	}
	wantKeys(t, s, "old")
	wantObject(t, s, "old", "old")
}

// testCancelledAtRandom cancels writes somewhere on their way and holds the store
// to what it answered.
func testCancelledAtRandom(t *testing.T, s *blobstore.Store) {
	counts := map[blobstore.Outcome]int{}
	data := strings.Repeat("x", 1<<18)
	usual := time.Microsecond // what a write takes here
	for i := range soak(200) {
		key := fmt.Sprintf("c/%d", i)
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*usual))
		began := time.Now() //nolint:forbidigo // cancelled writes meet the real clock
		out, err := s.Create(ctx, key, []byte(data))
		if out == blobstore.Created {
			usual = (usual + time.Since(began)) / 2 //nolint:forbidigo // as above
		} else {
			usual += usual / 4
		}
		cancel()
		counts[out]++
		if (err == nil) != (out == blobstore.Created || out == blobstore.Exists) || out == blobstore.Exists {
			t.Errorf("%s, %v", out, err)
		}
		got, err := s.Get(t.Context(), key)
		switch {
		case err == nil && string(got) != data:
			t.Errorf("after %s: %d of %d bytes", out, len(got), len(data))
		case err == nil && out == blobstore.NotDone, err != nil && out == blobstore.Created:
			t.Errorf("after %s: Get says %v", out, err)
		case err != nil && !errors.Is(err, blobstore.ErrNotFound):
			t.Error(err)
		}
	}
	t.Logf("outcomes: %v", counts)
}

// testReplaceIsWhole reads an object while it is replaced again and again: every
// read sees one whole version, and versions never go back.
func testReplaceIsWhole(t *testing.T, s *blobstore.Store) {
	version := func(i int) []byte { return []byte(strings.Repeat(fmt.Sprintf("%08d", i), 1+i%2000)) }
	if err := s.Put(t.Context(), "k", version(0)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := 0
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := s.Get(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				var i int
				if _, err := fmt.Sscanf(string(got[:8]), "%d", &i); err != nil || string(got) != string(version(i)) || i < last {
					t.Errorf("%d bytes of version %d after version %d: %v", len(got), i, last, err)
					return
				}
				last = i
			}
		})
	}
	for i := range soak(400) {
		if err := s.Put(t.Context(), "k", version(i)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}

// testFaults puts faults between the caller and the store: what they leave must
// be what the answers allow.
func testFaults(t *testing.T, h Harness) {
	create := func(s *blobstore.Store) (blobstore.Outcome, error) {
		return s.Create(t.Context(), "k", []byte("ours"))
	}
	for _, c := range []struct {
		name   string
		kind   FaultKind
		want   blobstore.Outcome
		landed bool              // the object is there after the fault
		again  blobstore.Outcome // of the same bytes put again
	}{
		{"Fail", Fail, blobstore.NotDone, false, blobstore.Created},
		{"LoseRequest", LoseRequest, blobstore.Unknown, false, blobstore.Created},
		{"LoseAnswer", LoseAnswer, blobstore.Unknown, true, blobstore.Exists},
		{"Late", Late, blobstore.Unknown, false, blobstore.Created},
		{"Half", Half, blobstore.Unknown, false, blobstore.Created},
	} {
		t.Run("Create"+c.name, func(t *testing.T) {
			plain := h.Open(t)
			f := &Faults{Decide: On(OpCreate, 1, Fault{Kind: c.kind})}
			s := plain.Wrap(f.Wrap)
			if out, err := create(s); out != c.want || !errors.Is(err, ErrInjected) {
				t.Errorf("got %s, %v; want %s", out, err, c.want)
			}
			if c.landed {
				wantObject(t, plain, "k", "ours")
			} else {
				wantAbsent(t, plain, "k")
			}
			if out, err := create(s); out != c.again || err != nil {
				t.Errorf("again: %s, %v; want %s", out, err, c.again)
			}
			if err := f.Land(); err != nil {
				t.Error(err)
			}
			wantObject(t, plain, "k", "ours")
		})
	}
	t.Run("LateCreateMeetsAnother", func(t *testing.T) {
		plain := h.Open(t)
		f := &Faults{Decide: On(OpCreate, 1, Fault{Kind: Late})}
		if out, err := create(plain.Wrap(f.Wrap)); out != blobstore.Unknown || err == nil {
			t.Errorf("%s, %v", out, err)
		}
		mustPut(t, plain, "k", "theirs")
		if err := f.Land(); err != nil {
			t.Error(err)
		}
		wantObject(t, plain, "k", "theirs")
	})
	t.Run("DelayIsCancelled", func(t *testing.T) {
		plain := h.Open(t)
		ctx, cancel := context.WithCancel(t.Context())
		wait := func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		f := &Faults{Decide: On(OpCreate, 1, Fault{Wait: wait})}
		out, err := plain.Wrap(f.Wrap).Create(ctx, "k", nil)
		if out != blobstore.NotDone || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, %v", out, err)
		}
		wantKeys(t, plain)
	})
	t.Run("HalfWrites", func(t *testing.T) { testHalfWrites(t, h.Open(t)) })
	t.Run("AtRandom", func(t *testing.T) { testFaultsAtRandom(t, h.Open(t)) })
}

func testHalfWrites(t *testing.T, plain *blobstore.Store) {
	for i, decide := range []func(Call) Fault{
		On(OpWrite, 2, Fault{Kind: Half}), On(OpWrite, 1, Fault{Kind: Fail}), On(OpClose, 1, Fault{Kind: Fail}),
	} {
		f := &Faults{Decide: decide}
		w, err := plain.Wrap(f.Wrap).NewWriter(t.Context(), fmt.Sprint("w", i))
		if err != nil {
			t.Fatal(err)
		}
		// A caller that overlooks the errors of Write still cannot publish half.
		_, first := w.Write([]byte("first"))
		_, second := w.Write([]byte("second"))
		_, third := w.Write([]byte("third"))
		if err := errors.Join(first, second, third); i < 2 != errors.Is(err, ErrInjected) {
			t.Errorf("writer %d: writes: %v", i, err)
		}
		if err := w.Close(); !errors.Is(err, ErrInjected) {
			t.Errorf("writer %d: close: %v", i, err)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
	wantKeys(t, plain)
}

// testFaultsAtRandom runs writers that put again what was not decided, as R8 has
// it, and checks that each version was won once, by who believes so.
func testFaultsAtRandom(t *testing.T, plain *blobstore.Store) {
	rng := seeded(t)
	f := &Faults{Decide: Randomly(rng, 0.4, []FaultKind{Fail, LoseRequest, LoseAnswer, Late, Half}, OpCreate, OpRead)}
	s := plain.Wrap(f.Wrap)
	const versions = 30
	winners := make([][]string, versions)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for v := range versions {
				key, ours := fmt.Sprintf("l/%04d", v), fmt.Sprintf("writer %d", g)
				if insist(t, s, key, ours) {
					mu.Lock()
					winners[v] = append(winners[v], ours)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if err := f.Land(); err != nil {
		t.Error(err)
	}
	for v, who := range winners {
		got, err := plain.Get(t.Context(), fmt.Sprintf("l/%04d", v))
		if err != nil || !slices.Equal(who, []string{string(got)}) {
			t.Errorf("version %d: won by %q, holds %q, %v", v, who, got, err)
		}
	}
}

// insist puts until it is known whose the object is.
func insist(t *testing.T, s *blobstore.Store, key, ours string) bool {
	for {
		out, _ := s.Create(t.Context(), key, []byte(ours))
		if out == blobstore.Created {
			return true
		}
		if out != blobstore.Exists {
			continue
		}
		if got, err := s.Get(t.Context(), key); err == nil {
			return string(got) == ours
		}
	}
}
