package gcs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

func bytesOf(seed uint64, n int) []byte {
	rng := rand.NewChaCha8([32]byte{byte(seed)})
	out := make([]byte, n)
	_, _ = rng.Read(out) // never fails
	return out
}

func write(t *testing.T, d driver.Driver, key string, data []byte) error {
	t.Helper()
	w, err := d.NewWriter(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for p := range slices.Chunk(data, 100_000) {
		if _, err := w.Write(p); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Close()
}

func TestUpload(t *testing.T) {
	part := 2 * quantum
	for name, n := range map[string]int{"whole parts": 3 * part, "an odd end": 3*part + 5, "one byte more": part + 1} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			data := bytesOf(1, n)
			if err := write(t, w.driver(), "k", data); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(w.objects["k"].data, data) {
				t.Errorf("%d bytes stored, not the %d sent", len(w.objects["k"].data), n)
			}
		})
	}
}

// The requests of an upload, and those by which it goes on after trouble: the
// server is asked what it has, and gets the rest.
func TestUploadGoesOn(t *testing.T) {
	data := bytesOf(2, 4*quantum+7)
	whole := []string{"POST", "PUT bytes 0-524287/*", "PUT bytes 524288-1048575/*", "PUT bytes 1048576-1048582/1048583"}
	for _, c := range []struct {
		name string
		set  func(w *wire)
		want []string
	}{
		{"no trouble", func(*wire) {}, whole},
		{
			"answer of a part lost",
			func(w *wire) { w.lose = func(_ *http.Request, n int) bool { return n == 2 } },
			slices.Insert(slices.Clone(whole), 2, "PUT bytes */*"),
		},
		{
			"part not arrived",
			func(w *wire) { w.before = refuseNth(3) },
			slices.Insert(slices.Clone(whole), 3, "PUT bytes */*", whole[2]),
		},
		{
			"half of a part kept",
			func(w *wire) { w.most = quantum },
			[]string{
				"POST", "PUT bytes 0-524287/*", "PUT bytes 262144-524287/*",
				"PUT bytes 524288-1048575/*", "PUT bytes 786432-1048575/*", whole[3],
			},
		},
		{
			"last answer lost",
			func(w *wire) { w.lose = func(_ *http.Request, n int) bool { return n == 4 } },
			append(slices.Clone(whole), "PUT bytes */1048583"),
		},
		{
			"last request not arrived",
			func(w *wire) { w.before = refuseNth(4) },
			append(slices.Clone(whole), "PUT bytes */1048583", whole[3]),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t)
			c.set(w)
			if err := write(t, w.driver(), "k", data); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(w.objects["k"].data, data) {
				t.Errorf("%d bytes stored, not the %d sent", len(w.objects["k"].data), len(data))
			}
			if diff := cmp.Diff(c.want, w.asked()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func refuseNth(nth int) func(http.ResponseWriter, *http.Request, int) bool {
	return func(rw http.ResponseWriter, _ *http.Request, n int) bool {
		if n == nth {
			refuse(rw, 503, "backendError", "Backend Error")
		}
		return n == nth
	}
}

// A session that is gone fails the write for good: nothing is visible.
func TestUploadSessionGone(t *testing.T) {
	w := newWire(t)
	w.before = func(_ http.ResponseWriter, _ *http.Request, n int) bool {
		w.gone = n > 2
		return false
	}
	err := write(t, w.driver(), "k", bytesOf(3, 5*quantum))
	e := wantErrorOfStatus(t, err, 410)
	if e.Class != remote.Refused || strings.Contains(err.Error(), uploadID) {
		t.Errorf("class %d, %v", e.Class, err)
	}
	if len(w.objects) > 0 {
		t.Errorf("objects: %d", len(w.objects))
	}
}

func TestUploadAborted(t *testing.T) {
	w := newWire(t)
	wr, err := w.driver().NewWriter(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wr.Write(bytesOf(4, 5*quantum)); err != nil {
		t.Fatal(err)
	}
	if err := wr.Abort(); err != nil {
		t.Fatal(err)
	}
	if asked := w.asked(); !w.gone || asked[len(asked)-1] != "DELETE" || len(w.objects) > 0 {
		t.Errorf("requests %q, %d objects", asked, len(w.objects))
	}
}

// Parts that are started at once are sent in order; one whose turn does not come
// ends with its context.
func TestPartsWaitForTheirTurn(t *testing.T) {
	w := newWire(t)
	data := bytesOf(5, 4*quantum)
	u, err := w.bucket().StartUpload(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.Part(ctx, 2, data[:quantum]); !errors.Is(err, context.Canceled) {
		t.Errorf("part 2 before part 1: %v", err)
	}
	var wg sync.WaitGroup
	for i, p := range slices.Collect(slices.Chunk(data, quantum)) {
		wg.Go(func() {
			if err := u.Part(t.Context(), i+1, p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := u.Complete(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.objects["k"].data, data) {
		t.Error("the object is not the parts in their order")
	}
	if err := u.Part(t.Context(), 4, nil); err == nil {
		t.Error("part 4 was taken twice")
	}
}

// Uploads through a server that fails at random: refused, connections broken
// before and after the work, parts kept in part. Whatever is said to be written is
// there, whole.
func TestUploadsAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds, failures := 60, 0
	if os.Getenv("DELTAFOLD_SOAK") != "" {
		rounds = 600
	}
	for range rounds {
		w := newWire(t)
		w.attempts = 1000
		trouble := func(rw http.ResponseWriter, r *http.Request, _ int) bool {
			w.most = rng.IntN(4) * quantum
			switch rng.IntN(8) {
			case 0:
				if _, err := io.Copy(io.Discard, r.Body); err != nil { // or closing the connection waits
					t.Error(err)
				}
				refuse(rw, 503, "backendError", "Backend Error")
			case 1: // the work is done, the connection breaks
				w.serve(httptest.NewRecorder(), r)
				fallthrough
			case 2:
				c, _, err := http.NewResponseController(rw).Hijack()
				if err != nil {
					t.Error(err)
					return true
				}
				_ = c.Close() // a broken connection is what is wanted
			default:
				return false
			}
			failures++
			return true
		}
		w.before = trouble
		data := bytesOf(rng.Uint64(), 2*quantum+1+rng.IntN(8*quantum))
		if err := write(t, w.driver(), "k", data); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		if !bytes.Equal(w.objects["k"].data, data) {
			t.Errorf("%d bytes stored, not the %d sent", len(w.objects["k"].data), len(data))
		}
		w.mu.Unlock()
		w.server.Close()
	}
	t.Logf("%d uploads, %d failures", rounds, failures)
	if failures < rounds {
		t.Errorf("%d failures are too few to say anything", failures)
	}
}

// The address of an upload session must be one, and not lead from https to http.
func TestSessionAddress(t *testing.T) {
	for _, c := range []struct{ base, uri, want string }{
		{"https://storage.googleapis.com", "https://www.googleapis.com/upload?id=1", ""},
		{"http://localhost:1", "http://localhost:1/upload?id=1", ""},
		{"http://localhost:1", "https://localhost:1/upload?id=1", ""},
		{"https://storage.googleapis.com", "http://storage.googleapis.com/upload?id=1", "plain http"},
		{"HTTPS://storage.googleapis.com", "http://storage.googleapis.com/upload?id=1", "plain http"},
		{"https://storage.googleapis.com", "/upload?id=1", "without the address"},
		{"https://storage.googleapis.com", "", "without the address"},
	} {
		err := checkSession(c.base, c.uri)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "id=1")) {
			t.Errorf("%s from %s: %v, want %q", c.uri, c.base, err, c.want)
		}
	}
}
