package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// The secrets of these tests, in the forms in which Azure has them.
const (
	key      = "c2VjcmV0LWtleS1vZi10aGUtdGVzdA=="
	sig      = "s3cr3t%2Bsig%3D"
	sasToken = "sv=2024-11-04&ss=b&srt=sco&sp=rwdlac&se=2030-01-01T00:00:00Z&sig=" + sig

	requestID = "request-of-the-test"
)

// wire is a server that answers as the test says, for what Azurite does not do:
// throttle, lose answers, cut bodies, have a hierarchical namespace.
type wire struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	answer   func(w http.ResponseWriter, r *http.Request, n int) // request n, from 1
}

func newWire(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *wire {
	w := &wire{t: t, answer: answer}
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.t.Log(err) // the client went away
	}
	rw.Header().Set("X-Ms-Request-Id", requestID)
	w.requests = append(w.requests, r)
	w.answer(rw, r, len(w.requests))
}

func (w *wire) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

func (w *wire) bucket(a account) *bucket {
	w.t.Helper()
	a.service = w.server.URL + "/account"
	client, err := a.connect("c")
	if err != nil {
		w.t.Fatal(err)
	}
	return &bucket{client: client}
}

// driver repeats requests without waiting.
func (w *wire) driver() driver.Driver {
	return remote.New(w.bucket(account{anonymous: true}), &remote.Options{
		Conditional: true, PartSize: 1 << 20,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
}

func refuse(rw http.ResponseWriter, status int, code, message string) {
	if code != "" {
		rw.Header().Set("X-Ms-Error-Code", code)
	}
	rw.Header().Set("Content-Type", "application/xml")
	rw.WriteHeader(status)
	_, _ = fmt.Fprintf(rw, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s
RequestId:%s
Time:2026-01-02T03:04:05.6789012Z</Message></Error>`, code, message, requestID)
}

func always(status int, code string) func(http.ResponseWriter, *http.Request, int) {
	return func(rw http.ResponseWriter, _ *http.Request, _ int) { refuse(rw, status, code, "because") }
}

// everyCall makes every request that there is.
func everyCall(t *testing.T, b *bucket) map[string]error {
	ctx := t.Context()
	out := map[string]error{}
	_, _, out["get"] = b.Get(ctx, "k", driver.Range{N: -1}, "")
	_, _, out["get the end"] = b.Get(ctx, "k", driver.Range{Off: -9}, "")
	_, _, out["get nothing"] = b.Get(ctx, "k", driver.Range{}, "")
	_, out["head"] = b.Head(ctx, "k")
	out["create"] = b.Put(ctx, "k", make([]byte, 1<<20), remote.IfAbsent)
	out["put"] = b.Put(ctx, "k", nil, remote.Always)
	_, _, out["list"] = b.List(ctx, "", "", "")
	out["delete"] = b.Delete(ctx, "k")
	u, err := b.StartUpload(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	out["part"] = u.Part(ctx, 1, make([]byte, 1<<20))
	out["complete"] = u.Complete(ctx, 1)
	return out
}

func TestSingleAttempts(t *testing.T) {
	for status, want := range map[int]remote.Class{429: remote.Throttled, 500: remote.Unclear, 503: remote.Unclear, 408: remote.Unclear} {
		w := newWire(t, func(rw http.ResponseWriter, _ *http.Request, _ int) {
			rw.Header().Set("Retry-After", "7")
			refuse(rw, status, "", "because")
		})
		calls := everyCall(t, w.bucket(account{name: "account", key: key}))
		for name, err := range calls {
			e, ok := errors.AsType[*remote.Error](err)
			if !ok {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got := *e
			got.Err = nil
			want := remote.Error{Class: want, Status: status, RequestID: requestID, RetryAfter: 7 * time.Second}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
		if w.asked() != len(calls) {
			t.Errorf("%d requests for %d calls", w.asked(), len(calls))
		}
	}
}

func TestThrottledCreateIsAskedAgain(t *testing.T) {
	w := newWire(t, func(rw http.ResponseWriter, _ *http.Request, n int) {
		if n <= 2 {
			refuse(rw, 503, "ServerBusy", "Operations per second is over the account limit.")
			return
		}
		refuse(rw, 409, "BlobAlreadyExists", "The specified blob already exists.")
	})
	out, err := w.driver().Create(t.Context(), "k", []byte("ours"))
	if out != driver.Exists || err != nil || w.asked() != 3 {
		t.Errorf("%s, %v after %d requests", out, err, w.asked())
	}
	w = newWire(t, always(503, "ServerBusy"))
	out, err = w.driver().Create(t.Context(), "k", []byte("ours"))
	if e, ok := errors.AsType[*remote.Error](err); out != driver.NotDone || !ok || e.Class != remote.Throttled || !strings.Contains(err.Error(), requestID) {
		t.Errorf("for ever: %s, %v", out, err)
	}
	// What is busy without Azure's own code may be a proxy that lost the answer.
	w = newWire(t, always(503, ""))
	if out, err := w.driver().Create(t.Context(), "k", []byte("ours")); out != driver.Unknown || err == nil {
		t.Errorf("503 of nobody: %s, %v", out, err)
	}
}

// An answer that was lost after the work was done: the next attempt meets the
// object, and only who reads it back knows whose it is (R8).
func TestLostAnswerOfCreate(t *testing.T) {
	w := newWire(t, func(rw http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("If-None-Match") != "*" {
			t.Errorf("request %d without the condition", n)
		}
		if n == 1 {
			refuse(rw, 500, "OperationTimedOut", "The operation could not be completed within the permitted time.")
			return
		}
		refuse(rw, 412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")
	})
	out, err := w.driver().Create(t.Context(), "k", []byte("ours"))
	if out != driver.Exists || err != nil || w.asked() != 2 {
		t.Errorf("%s, %v after %d requests", out, err, w.asked())
	}
}

func TestReadsAreWholeOrFail(t *testing.T) {
	data := strings.Repeat("0123456789", 1000)
	for name, c := range map[string]struct {
		n, length int
		h         map[string]string
	}{
		"cut off":         {-1, 5000, map[string]string{"Content-Length": "10000"}},
		"range cut off":   {100, 50, map[string]string{"Content-Length": "100", "Content-Range": "bytes 0-99/10000"}},
		"shorter":         {100, 50, map[string]string{"Content-Length": "50", "Content-Range": "bytes 0-99/10000"}},
		"another range":   {100, 100, map[string]string{"Content-Length": "100", "Content-Range": "bytes 100-199/10000"}},
		"range ignored":   {100, 10000, map[string]string{"Content-Length": "10000"}},
		"without an etag": {-1, 10000, map[string]string{"Content-Length": "10000", "ETag": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, func(rw http.ResponseWriter, r *http.Request, n int) {
				rw.Header().Set("ETag", `"0x1"`)
				rw.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
				if n > 1 {
					r.Header.Set("Range", r.Header.Get("X-Ms-Range"))
					http.ServeContent(rw, r, "", time.Unix(1767323045, 0), strings.NewReader(data))
					return
				}
				for k, v := range c.h {
					rw.Header().Set(k, v)
				}
				if c.h["Content-Range"] != "" {
					rw.WriteHeader(206)
				}
				_, _ = io.WriteString(rw, data[:c.length])
			})
			got, err := w.driver().Read(t.Context(), "k", 0, int64(c.n))
			want := data
			if c.n >= 0 {
				want = data[:c.n]
			}
			if string(got) != want || err != nil || w.asked() != 2 {
				t.Errorf("%d bytes, %v after %d requests; want %d bytes after 2", len(got), err, w.asked(), len(want))
			}
		})
	}
}

// echo answers with all the secrets of a request, or breaks the connection.
func echo(status int) func(http.ResponseWriter, *http.Request, int) {
	return func(rw http.ResponseWriter, r *http.Request, _ int) {
		if status == 0 {
			if c, _, err := http.NewResponseController(rw).Hijack(); err == nil {
				_ = c.Close() // a broken connection is what is wanted
			}
			return
		}
		refuse(rw, status, "AuthenticationFailed", "not at http://host"+
			strings.ReplaceAll(r.URL.String(), "&", "&amp;")+" with "+r.Header.Get("Authorization"))
	}
}

// Errors hold neither the key, nor a SAS token, whatever the server says and
// however the connection breaks.
func TestErrorsHoldNoSecrets(t *testing.T) {
	for _, status := range []int{0, 400, 401, 403, 404, 412, 503} {
		for _, a := range []account{{name: "account", key: key}, {name: "account", sas: sasToken}} {
			w := newWire(t, echo(status))
			b := w.bucket(a)
			calls := everyCall(t, b)
			w.server.Close()
			_, calls["no server"] = b.Head(t.Context(), "k")
			for name, err := range calls {
				e, ok := errors.AsType[*remote.Error](err)
				if !ok {
					t.Errorf("status %d, %s: %v", status, name, err)
					continue
				}
				wantNoSecrets(t, fmt.Sprintf("status %d, %s", status, name), err)
				if (status == 0 || name == "no server") && strings.Contains(err.Error(), "://") {
					t.Errorf("%s names the request's URL: %v", name, err)
				}
				if status == 403 && name != "no server" && (e.Class != remote.Refused || e.RequestID != requestID || e.Code != "AuthenticationFailed") {
					t.Errorf("%s: %+v", name, e)
				}
			}
		}
	}
}

func wantNoSecrets(t *testing.T, what string, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, secret := range []string{key, sig, "s3cr3t"} {
			if strings.Contains(fmt.Sprintf("%v %+v", e, e), secret) {
				t.Errorf("%s: %v", what, e)
			}
		}
	}
}

func TestNoServer(t *testing.T) {
	w := newWire(t, always(500, ""))
	d := w.driver()
	w.server.Close()
	out, err := d.Create(t.Context(), "k", []byte("x"))
	if e, ok := errors.AsType[*remote.Error](err); out != driver.NotDone || !ok || e.Class != remote.Throttled {
		t.Errorf("%s, %v", out, err)
	}
}
