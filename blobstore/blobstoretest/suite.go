package blobstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/deltafold/deltafold/blobstore"
)

// Harness is a kind of store to be proved.
type Harness struct {
	// Open returns a new, empty store.
	Open func(t *testing.T) *blobstore.Store
	// Processes says that other processes reach the store by its URL with
	// [blobstore.Open].
	Processes bool
	// XMLKeys says that the store's listings are XML 1.0 as it is, so that keys with
	// control characters other than tab and line ends cannot be listed.
	XMLKeys bool
	// Refuses tells the keys that the store refuses, nil for none: its service keeps
	// them under other names, or cannot list them.
	Refuses func(key string) bool
}

// Run runs the suite on stores of h. With DELTAFOLD_SOAK=1 the random parts run
// at their full floors.
func Run(t *testing.T, h Harness) {
	t.Run("Contents", func(t *testing.T) { testContents(t, h.Open(t)) })
	t.Run("Absent", func(t *testing.T) { testAbsent(t, h.Open(t)) })
	t.Run("Ranges", func(t *testing.T) { testRanges(t, h.Open(t)) })
	t.Run("Create", func(t *testing.T) { testCreate(t, h.Open(t)) })
	t.Run("Writer", func(t *testing.T) { testWriter(t, h.Open(t)) })
	t.Run("OddKeys", func(t *testing.T) { testOddKeys(t, h) })
	t.Run("BadKeys", func(t *testing.T) { testBadKeys(t, h.Open(t)) })
	t.Run("ListOrder", func(t *testing.T) { testList(t, h.Open(t)) })
	t.Run("ListRandom", func(t *testing.T) { testListRandom(t, h) })
	t.Run("Cancelled", func(t *testing.T) { testCancelled(t, h.Open(t)) })
	t.Run("CancelledAtRandom", func(t *testing.T) { testCancelledAtRandom(t, h.Open(t)) })
	t.Run("ReplaceIsWhole", func(t *testing.T) { testReplaceIsWhole(t, h.Open(t)) })
	t.Run("Faults", func(t *testing.T) { testFaults(t, h) })
	t.Run("RaceGoroutines", func(t *testing.T) { testRaceGoroutines(t, h.Open(t)) })
	if h.Processes {
		t.Run("RaceProcesses", func(t *testing.T) { testRaceProcesses(t, h.Open(t)) })
		t.Run("KilledProcesses", func(t *testing.T) { testKilledProcesses(t, h) })
	}
}

// soak scales the rounds of a random test: all of them, or a quarter by default.
func soak(rounds int) int {
	if os.Getenv("DELTAFOLD_SOAK") != "" {
		return rounds
	}
	return (rounds + 3) / 4
}

// seeded returns a source of random numbers and prints its seed.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("DELTAFOLD_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatalf("DELTAFOLD_SEED=%q: %v", s, err)
		}
	}
	t.Logf("DELTAFOLD_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func mustPut(t *testing.T, s *blobstore.Store, key, data string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func wantObject(t *testing.T, s *blobstore.Store, key, want string) {
	t.Helper()
	got, err := s.Get(context.WithoutCancel(t.Context()), key)
	if err != nil {
		t.Error(err)
		return
	}
	if string(got) != want {
		t.Errorf("%s: got %d bytes %.60q, want %d bytes %.60q", key, len(got), got, len(want), want)
	}
}

func wantAbsent(t *testing.T, s *blobstore.Store, key string) {
	t.Helper()
	if got, err := s.Get(context.WithoutCancel(t.Context()), key); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("%s: got %d bytes, %v; want ErrNotFound", key, len(got), err)
	}
}

// keys lists; an error fails the test.
func keys(t *testing.T, s *blobstore.Store, prefix, from string) []string {
	t.Helper()
	out := []string{}
	for info, err := range s.List(context.WithoutCancel(t.Context()), prefix, from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key)
	}
	return out
}

func wantKeys(t *testing.T, s *blobstore.Store, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, keys(t, s, "", ""), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func testContents(t *testing.T, s *blobstore.Store) {
	ctx := t.Context()
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for _, data := range []string{"", "x", big, "shorter again", ""} {
		mustPut(t, s, "a/b", data)
		wantObject(t, s, "a/b", data)
		info, err := s.Stat(ctx, "a/b")
		if err != nil {
			t.Fatal(err)
		}
		if info.Key != "a/b" || info.Size != int64(len(data)) || info.ModTime.IsZero() {
			t.Errorf("Stat: got %+v for %d bytes", info, len(data))
		}
		for listed, err := range s.List(ctx, "", "") {
			if diff := cmp.Diff(info, listed); diff != "" || err != nil {
				t.Errorf("List and Stat differ (-stat +list): %v\n%s", err, diff)
			}
		}
	}
	mustPut(t, s, "a/c", "c")
	if err := s.Delete(ctx, "a/b"); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, s, "a/b")
	wantKeys(t, s, "a/c")

	data := []byte("mine")
	if err := s.Put(ctx, "a/d", data); err != nil {
		t.Fatal(err)
	}
	copy(data, "your")
	wantObject(t, s, "a/d", "mine")
}

func testAbsent(t *testing.T, s *blobstore.Store) {
	mustPut(t, s, "d/f", "f")
	for _, key := range []string{"none", "none/none", "d", "d/none", "d/f/none"} {
		_, getErr := s.Get(t.Context(), key)
		_, rangeErr := s.GetRange(t.Context(), key, 0, 1)
		_, statErr := s.Stat(t.Context(), key)
		_, openErr := s.OpenReader(t.Context(), key, 3)
		for i, err := range []error{getErr, rangeErr, statErr, openErr} {
			if !errors.Is(err, blobstore.ErrNotFound) {
				t.Errorf("%s, call %d: got %v, want ErrNotFound", key, i, err)
			} else if !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), s.URL()) {
				t.Errorf("%s, call %d: error names not the object: %v", key, i, err)
			}
		}
		if key == "d" {
			continue // a store of files may refuse to delete a folder
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	wantKeys(t, s, "d/f")
	for _, prefix := range []string{"none", "none/", "d/f/", "d/g", "/", "//", "../", "d/../d/"} {
		if got := keys(t, s, prefix, ""); len(got) > 0 {
			t.Errorf("List(%q): %q", prefix, got)
		}
	}
}

func testRanges(t *testing.T, s *blobstore.Store) {
	const data = "0123456789"
	mustPut(t, s, "k", data)
	r, err := s.OpenReader(t.Context(), "k", int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Size() != 10 {
		t.Errorf("Size: %d", r.Size())
	}
	for off := range int64(13) {
		for n := range int64(13) {
			wantRange(t, s, r, data, [2]int64{off, n})
		}
	}
	for _, bad := range [][2]int64{{-1, 1}, {0, -1}} {
		if _, err := s.GetRange(t.Context(), "k", bad[0], bad[1]); err == nil {
			t.Errorf("GetRange(%d, %d) gave no error", bad[0], bad[1])
		}
	}
	// An open reader stays with its object or fails; it never mixes.
	mustPut(t, s, "k", "abcdefghij")
	p := make([]byte, 10)
	if _, err := r.ReadAt(p, 0); err == nil && string(p) != data {
		t.Errorf("reader sees %q after the object was replaced", p)
	}
	var wg sync.WaitGroup
	for off := range int64(8) {
		wg.Go(func() {
			p := make([]byte, 2)
			if _, err := r.ReadAt(p, off); err == nil && string(p) != data[off:off+2] {
				t.Errorf("ReadAt(%d) = %q", off, p)
			}
		})
	}
	wg.Wait()
}

// wantRange reads a part of the object k, an offset and a length, in both ways
// that there are.
func wantRange(t *testing.T, s *blobstore.Store, r *blobstore.Reader, data string, part [2]int64) {
	t.Helper()
	off, n := part[0], part[1]
	size := int64(len(data))
	want := data[min(off, size):min(off+n, size)]
	got, err := s.GetRange(t.Context(), "k", off, n)
	if string(got) != want || err != nil {
		t.Errorf("GetRange(%d, %d) = %q, %v; want %q", off, n, got, err, want)
	}
	p := make([]byte, n)
	m, err := r.ReadAt(p, off)
	if string(p[:m]) != want || m < len(p) && err == nil || err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("ReadAt(%d, %d) = %q, %v; want %q", off, n, p[:m], err, want)
	}
}

func testCreate(t *testing.T, s *blobstore.Store) {
	wantOutcome := func(key, data string, want blobstore.Outcome) {
		t.Helper()
		got, err := s.Create(t.Context(), key, []byte(data))
		if got != want || err != nil {
			t.Errorf("Create %s: got %s, %v; want %s", key, got, err, want)
		}
	}
	wantOutcome("l/0", "zero", blobstore.Created)
	wantOutcome("l/0", "other", blobstore.Exists)
	wantOutcome("l/0", "zero", blobstore.Exists)
	wantOutcome("empty", "", blobstore.Created)
	wantOutcome("empty", "x", blobstore.Exists)
	mustPut(t, s, "put", "p")
	wantOutcome("put", "x", blobstore.Exists)
	wantObject(t, s, "l/0", "zero")
	wantObject(t, s, "empty", "")
	wantObject(t, s, "put", "p")
	if err := s.Delete(t.Context(), "l/0"); err != nil {
		t.Fatal(err)
	}
	wantOutcome("l/0", "again", blobstore.Created)
	wantObject(t, s, "l/0", "again")
	wantKeys(t, s, "l/0", "empty", "put")
}

func testWriter(t *testing.T, s *blobstore.Store) {
	w, err := s.NewWriter(t.Context(), "d/new")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for i := range 100 {
		part := bytes.Repeat([]byte{byte(i)}, i*37)
		want.Write(part)
		if n, err := w.Write(part); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	wantAbsent(t, s, "d/new")
	wantKeys(t, s)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantObject(t, s, "d/new", want.String())
	if err := w.Abort(); err != nil {
		t.Errorf("Abort after Close: %v", err)
	}
	if err := w.Close(); err == nil {
		t.Error("a second Close gave no error")
	}
	wantObject(t, s, "d/new", want.String())

	w, err = s.NewWriter(t.Context(), "d/dropped")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Abort(), w.Abort()); err != nil {
		t.Error(err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("Write after Abort gave no error")
	}
	wantKeys(t, s, "d/new")
}

func testBadKeys(t *testing.T, s *blobstore.Store) {
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "a/..", "../a", "a\x00b", "a\xff", ".deltafold-tmp-x", "a/.deltafold-tmp-x/b",
	} {
		if err := s.Put(t.Context(), key, nil); err == nil {
			t.Errorf("Put %q gave no error", key)
		}
		if got, err := s.Create(t.Context(), key, nil); got != blobstore.NotDone || err == nil {
			t.Errorf("Create %q: %s, %v", key, got, err)
		}
		if _, err := s.NewWriter(t.Context(), key); err == nil {
			t.Errorf("NewWriter %q gave no error", key)
		}
		if _, err := s.Get(t.Context(), key); err == nil || errors.Is(err, blobstore.ErrNotFound) {
			t.Errorf("Get %q: %v", key, err)
		}
	}
	wantKeys(t, s)
}
