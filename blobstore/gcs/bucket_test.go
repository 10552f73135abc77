package gcs

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// A log entry's name is contended: GCS answers 429 to more than about one write a
// second of an object, also to those whose condition would fail. It is no failure
// of the commit: the next attempt tells who won. (fake-gcs-server never throttles.)
func TestThrottledCreateIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		there bool
		want  driver.Outcome
	}{{"another won", true, driver.Exists}, {"nobody did", false, driver.Created}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t)
			if c.there {
				w.objects["l/0"] = object{[]byte("theirs"), 1}
			}
			w.before = func(rw http.ResponseWriter, _ *http.Request, n int) bool {
				if n <= 2 {
					refuse(rw, 429, "rateLimitExceeded", "The object b/l/0 exceeded the rate limit for object mutation operations")
				}
				return n <= 2
			}
			got, err := w.driver().Create(t.Context(), "l/0", []byte("ours"))
			if got != c.want || err != nil {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if n := len(w.asked()); n != 3 {
				t.Errorf("%d requests, want 3", n)
			}
		})
	}
}

// Throttled without end: nothing was done, and the error says by whom and why.
func TestThrottledForEver(t *testing.T) {
	w := newWire(t)
	w.before = func(rw http.ResponseWriter, _ *http.Request, _ int) bool {
		rw.Header().Set("Retry-After", "7")
		refuse(rw, 429, "rateLimitExceeded", "slow down")
		return true
	}
	out, err := w.driver().Create(t.Context(), "l/0", []byte("ours"))
	if out != driver.NotDone {
		t.Errorf("outcome %s", out)
	}
	wantError(t, err, remote.Error{
		Class: remote.Throttled, Status: 429, Code: "rateLimitExceeded", RequestID: requestID, RetryAfter: 7 * time.Second,
	})
	if !strings.Contains(err.Error(), requestID) {
		t.Errorf("%v names no request", err)
	}
}

// An answer that was lost after the work was done: the same put again meets its
// own bytes, which only who reads them back can tell (R8).
func TestLostAnswerOfCreate(t *testing.T) {
	w := newWire(t)
	w.lose = func(_ *http.Request, n int) bool { return n == 1 }
	out, err := w.driver().Create(t.Context(), "l/0", []byte("ours"))
	if out != driver.Exists || err != nil {
		t.Errorf("%s, %v", out, err)
	}
	if got := string(w.objects["l/0"].data); got != "ours" {
		t.Errorf("stored %q", got)
	}
}

func TestSingleAttempts(t *testing.T) {
	w := newWire(t)
	w.before = func(rw http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(rw, 503, "backendError", "Backend Error")
		return true
	}
	b := w.bucket()
	ctx := t.Context()
	for _, call := range []func() error{
		func() error { _, _, err := b.Get(ctx, "k", driver.Range{N: -1}, ""); return err },
		func() error { _, _, err := b.Get(ctx, "k", driver.Range{Off: -9}, ""); return err },
		func() error { _, err := b.Head(ctx, "k"); return err },
		func() error { return b.Put(ctx, "k", make([]byte, 1<<20), remote.IfAbsent) },
		func() error { return b.Put(ctx, "k", nil, remote.Always) },
		func() error { _, _, err := b.List(ctx, "", "", ""); return err },
		func() error { return b.Delete(ctx, "k") },
		func() error { _, err := b.StartUpload(ctx, "k"); return err },
	} {
		before := len(w.asked())
		e := wantErrorOfStatus(t, call(), 503)
		if e.Class != remote.Unclear || e.RequestID != requestID {
			t.Errorf("%+v", e)
		}
		if n := len(w.asked()) - before; n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	}
}

func wantErrorOfStatus(t *testing.T, err error, status int) *remote.Error {
	t.Helper()
	e, ok := errors.AsType[*remote.Error](err)
	if !ok || e.Status != status {
		t.Fatalf("got %v, want status %d", err, status)
	}
	return e
}

func TestReadsAreWholeOrFail(t *testing.T) {
	w := newWire(t)
	data := strings.Repeat("0123456789", 1000)
	w.objects["k"] = object{[]byte(data), 17}
	cut := func(status, length int, h map[string]string) func(http.ResponseWriter, *http.Request, int) bool {
		return func(rw http.ResponseWriter, _ *http.Request, n int) bool {
			if n > 1 {
				return false
			}
			rw.Header().Set("X-Goog-Generation", "17")
			for k, v := range h {
				rw.Header().Set(k, v)
			}
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, data[:length])
			return true
		}
	}
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request, int) bool
		n      int64
	}{
		"cut off":           {cut(200, 5000, map[string]string{"Content-Length": "10000"}), -1},
		"range cut off":     {cut(206, 50, map[string]string{"Content-Length": "100", "Content-Range": "bytes 0-99/10000"}), 100},
		"wrong checksum":    {cut(200, 10000, map[string]string{"X-Goog-Hash": "crc32c=AAAAAA==", "Content-Length": "10000"}), -1},
		"range ignored":     {cut(200, 10000, map[string]string{"Content-Length": "10000"}), 100},
		"another range":     {cut(206, 100, map[string]string{"Content-Length": "100", "Content-Range": "bytes 100-199/10000"}), 100},
		"without a length":  {cut(200, 10000, nil), -1},
		"shorter than told": {cut(206, 50, map[string]string{"Content-Length": "50", "Content-Range": "bytes 0-99/10000"}), 100},
	} {
		t.Run(name, func(t *testing.T) {
			w.mu.Lock()
			w.requests, w.before = nil, c.before
			w.mu.Unlock()
			got, err := w.driver().Read(t.Context(), "k", 0, c.n)
			want := data
			if c.n >= 0 {
				want = data[:c.n]
			}
			if string(got) != want || err != nil {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
			}
			if n := len(w.asked()); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

func TestRangesAndGenerations(t *testing.T) {
	w := newWire(t)
	w.objects["k"] = object{[]byte("0123456789"), 17}
	w.objects["empty"] = object{nil, 5}
	b := w.bucket()
	at := time.Unix(1767323045, 0).UTC()
	for _, c := range []struct {
		key        string
		part       driver.Range
		etag, want string
		size       int64
	}{
		{"k", driver.Range{N: -1}, "", "0123456789", 10},
		{"k", driver.Range{Off: -3}, "17", "789", 10},
		{"k", driver.Range{Off: -30}, "", "0123456789", 10},
		{"k", driver.Range{Off: 8, N: 5}, "17", "89", 10},
		{"k", driver.Range{Off: 4, N: -1}, "", "456789", 10},
		{"k", driver.Range{Off: 10, N: 5}, "17", "", 10},
		{"k", driver.Range{Off: 99, N: -1}, "", "", 10},
		{"k", driver.Range{Off: 3, N: 0}, "", "", 10},
		{"empty", driver.Range{N: -1}, "", "", 0},
		{"empty", driver.Range{N: 5}, "", "", 0},
	} {
		body, info, err := b.Get(t.Context(), c.key, c.part, c.etag)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		got, err := io.ReadAll(body)
		if string(got) != c.want || err != nil || info.Size != c.size || info.Key != c.key || !info.ModTime.Equal(at) {
			t.Errorf("%+v: %q, %v, %+v", c, got, err, info)
		}
	}
	for _, part := range []driver.Range{{N: -1}, {Off: 2, N: 2}, {Off: -2}, {Off: 20, N: 2}, {}} {
		_, _, err := b.Get(t.Context(), "k", part, "16")
		if e, ok := errors.AsType[*remote.Error](err); !ok || e.Class != remote.Changed {
			t.Errorf("%+v of another generation: %v", part, err)
		}
	}
	// A server that ignores the condition, as fake-gcs-server does.
	w.before = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "ifGenerationMatch", "ignored", 1)
		return false
	}
	_, _, err := b.Get(t.Context(), "k", driver.Range{N: -1}, "16")
	if e, ok := errors.AsType[*remote.Error](err); !ok || e.Class != remote.Changed {
		t.Errorf("condition ignored: %v", err)
	}
}

// What is missing decides what a caller may conclude: no table here, or a wrong
// bucket. (fake-gcs-server says nothing that tells them apart.)
func TestMissingObjectAndBucket(t *testing.T) {
	w := newWire(t)
	b := w.bucket()
	ctx := t.Context()
	reads := []func() error{
		func() error { _, _, err := b.Get(ctx, "k", driver.Range{N: -1}, ""); return err },
		func() error { _, _, err := b.Get(ctx, "k", driver.Range{}, ""); return err },
		func() error { _, err := b.Head(ctx, "k"); return err },
	}
	for i, call := range reads {
		if err := call(); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("read %d: %v, want ErrNotFound", i, err)
		}
	}
	if err := b.Delete(ctx, "k"); err != nil {
		t.Errorf("delete: %v", err)
	}
	w.before = func(rw http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(rw, 404, "notFound", "The specified bucket does not exist.")
		return true
	}
	for i, call := range append(reads,
		func() error { return b.Delete(ctx, "k") },
		func() error { return b.Put(ctx, "k", nil, remote.IfAbsent) },
		func() error { _, _, err := b.List(ctx, "", "", ""); return err },
		func() error { _, err := b.StartUpload(ctx, "k"); return err },
	) {
		e := wantErrorOfStatus(t, call(), 404)
		if e.Class != remote.Refused || errors.Is(e, driver.ErrNotFound) || !strings.Contains(e.Error(), "bucket does not exist") {
			t.Errorf("call %d without a bucket: class %d, %v", i, e.Class, e)
		}
	}
}

func TestClasses(t *testing.T) {
	got := map[string]remote.Class{}
	want := map[string]remote.Class{}
	for _, c := range []struct {
		m      meaning
		status int
		reason string
		want   remote.Class
	}{
		{creating, 412, "conditionNotMet", remote.Exists},
		{reading, 412, "conditionNotMet", remote.Changed},
		{plain, 412, "conditionNotMet", remote.Refused},
		{creating, 429, "rateLimitExceeded", remote.Throttled},
		{creating, 403, "userRateLimitExceeded", remote.Throttled},
		{creating, 403, "forbidden", remote.Refused},
		{creating, 401, "authError", remote.Refused},
		{creating, 400, "invalid", remote.Refused},
		{creating, 404, "notFound", remote.Refused},
		{reading, 404, "notFound", remote.NotFound},
		{creating, 409, "conflict", remote.Conflict},
		{creating, 408, "", remote.Unclear},
		{creating, 500, "backendError", remote.Unclear},
		{creating, 502, "", remote.Unclear},
		{creating, 503, "backendError", remote.Unclear},
		{creating, 504, "", remote.Unclear},
		{session, 410, "", remote.Refused},
		{session, 404, "", remote.Refused},
		{creating, 301, "", remote.Refused},
	} {
		name := strings.Join([]string{c.m.absent, http.StatusText(c.status), c.reason, string(rune('0' + c.m.precondition))}, " ")
		got[name], want[name] = c.m.class(c.status, c.reason, ""), c.want
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Listing: a start that is no UTF-8 begins before it, and what lies below is left
// out here; times are those that reads tell.
func TestList(t *testing.T) {
	w := newWire(t)
	var query string
	w.before = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		query = r.URL.Query().Get("startOffset")
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"nextPageToken":"t","items":[`+
			`{"name":"a/b","size":"1","generation":"5","updated":"2026-01-02T03:04:05.678Z"},`+
			`{"name":"a/c","size":"2","generation":"6","updated":"2026-01-02T03:04:05Z"}]}`)
		return true
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b, c := driver.Info{Key: "a/b", Size: 1, ModTime: at, ETag: "5"}, driver.Info{Key: "a/c", Size: 2, ModTime: at, ETag: "6"}
	for _, x := range []struct {
		from, query string
		want        []driver.Info
	}{
		{"", "", []driver.Info{b, c}},
		{"a", "", []driver.Info{b, c}},
		{"a/b\xff", "a/b", []driver.Info{c}},
		{"a/c", "a/c", []driver.Info{c}},
		{"\xff", "", []driver.Info{}},
	} {
		got, next, err := w.bucket().List(t.Context(), "a/", x.from, "")
		if diff := cmp.Diff(x.want, got); diff != "" || err != nil || next != "t" || query != x.query {
			t.Errorf("from %q: %v, next %q, startOffset %q (-want +got):\n%s", x.from, err, next, query, diff)
		}
	}
}

// Bytes that are not those of the object are refused, whatever the status says.
func TestDownloadsRefused(t *testing.T) {
	for what, c := range map[string]struct{ name, value, want string }{
		"compressed":    {"X-Goog-Stored-Content-Encoding", "gzip", "Content-Encoding"},
		"no generation": {"X-Goog-Generation", "", "no generation"},
	} {
		w := newWire(t)
		w.before = func(rw http.ResponseWriter, _ *http.Request, _ int) bool {
			rw.Header().Set("X-Goog-Generation", "17")
			rw.Header().Set(c.name, c.value)
			_, _ = io.WriteString(rw, "not these")
			return true
		}
		_, err := w.driver().Read(t.Context(), "k", 0, -1)
		if e, ok := errors.AsType[*remote.Error](err); !ok || e.Class != remote.Refused || !strings.Contains(err.Error(), c.want) || len(w.asked()) != 1 {
			t.Errorf("%s: %v after %d requests", what, err, len(w.asked()))
		}
	}
}
