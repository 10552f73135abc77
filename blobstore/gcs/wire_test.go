package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// wire is a server that does what fake-gcs-server does not: it throttles, loses
// answers, cuts bodies, and keeps upload sessions as Google documents them
// ("Perform resumable uploads").
type wire struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	requests []string                                                 // method and what is asked for
	before   func(w http.ResponseWriter, r *http.Request, n int) bool // true: it answered request n (from 1) itself
	lose     func(r *http.Request, n int) bool                        // true: the work is done and 503 answered
	objects  map[string]object
	session  []byte // what has arrived
	most     int    // bytes that a request of the session keeps, 0 for all
	gone     bool   // the session is
	attempts int    // of a request, 0 for the default
}

type object struct {
	data       []byte
	generation int64
}

const (
	uploadID  = "AbC-secret_session-id"
	requestID = "request-of-the-test"
)

func newWire(t *testing.T) *wire {
	w := &wire{t: t, objects: map[string]object{}}
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

// bucket is an anonymous one on the server.
func (w *wire) bucket() *bucket {
	w.t.Helper()
	b, err := (&place{bucket: "b", endpoint: w.server.URL, anonymous: true}).connect(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// driver repeats requests without waiting.
func (w *wire) driver() driver.Driver {
	return remote.New(w.bucket(), &remote.Options{
		Conditional: true, PartSize: 2 * quantum, Attempts: w.attempts,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
}

func (w *wire) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.requests...)
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("X-Guploader-Uploadid", requestID)
	w.requests = append(w.requests, strings.TrimSpace(r.Method+" "+r.Header.Get("Content-Range")+r.Header.Get("Range")))
	n := len(w.requests)
	if w.before != nil && w.before(rw, r, n) {
		return
	}
	if w.lose != nil && w.lose(r, n) {
		w.serve(httptest.NewRecorder(), r)
		refuse(rw, 503, "backendError", "Backend Error")
		return
	}
	w.serve(rw, r)
}

func refuse(rw http.ResponseWriter, status int, reason, message string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(map[string]any{"error": map[string]any{
		"code": status, "message": message,
		"errors": []any{map[string]any{"reason": reason, "message": message, "domain": "global"}},
	}})
}

func (w *wire) serve(rw http.ResponseWriter, r *http.Request) {
	switch q := r.URL.Query(); {
	case q.Get("uploadType") == "resumable":
		rw.Header().Set("Location", w.server.URL+"/session?upload_id="+uploadID+"&name="+url.QueryEscape(q.Get("name")))
	case r.URL.Path == "/session":
		w.serveSession(rw, r)
	case q.Get("uploadType") == "multipart":
		w.serveInsert(rw, r)
	case q.Get("alt") == "media":
		w.serveMedia(rw, r)
	default:
		w.serveObject(rw, r)
	}
}

func keyOf(r *http.Request) string {
	_, key, _ := strings.Cut(r.URL.Path, "/o/")
	return key
}

func describeAs(rw http.ResponseWriter, key string, o object) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(map[string]any{
		"name": key, "size": strconv.Itoa(len(o.data)), "generation": strconv.FormatInt(o.generation, 10),
		"updated": "2026-01-02T03:04:05.678Z", "crc32c": encode(crc32.Checksum(o.data, castagnoli)),
	})
}

func (w *wire) put(rw http.ResponseWriter, r *http.Request, key string, data []byte) {
	old, exists := w.objects[key]
	if v := r.URL.Query().Get("ifGenerationMatch"); v == "0" && exists {
		refuse(rw, 412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
		return
	}
	o := object{data, old.generation + 1000}
	w.objects[key] = o
	describeAs(rw, key, o)
}

func (w *wire) serveInsert(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Error(err)
	}
	var metadata struct{ Name, Crc32c string }
	_, rest, _ := strings.Cut(string(body), "\r\n\r\n")
	head, rest, _ := strings.Cut(rest, "\r\n--")
	if err := json.Unmarshal([]byte(head), &metadata); err != nil {
		w.t.Error(err)
	}
	_, rest, _ = strings.Cut(rest, "\r\n\r\n")
	data := []byte(rest[:strings.LastIndex(rest, "\r\n--")])
	if encode(crc32.Checksum(data, castagnoli)) != metadata.Crc32c {
		refuse(rw, 400, "invalid", "crc32c differs")
		return
	}
	w.put(rw, r, metadata.Name, data)
}

func (w *wire) serveObject(rw http.ResponseWriter, r *http.Request) {
	key := keyOf(r)
	o, ok := w.objects[key]
	if !ok {
		refuse(rw, 404, "notFound", "No such object: b/"+key)
		return
	}
	describeAs(rw, key, o)
}

func (w *wire) serveMedia(rw http.ResponseWriter, r *http.Request) {
	o, ok := w.objects[keyOf(r)]
	if !ok {
		http.Error(rw, "No such object: b/"+keyOf(r), 404)
		return
	}
	if v := r.URL.Query().Get("ifGenerationMatch"); v != "" && v != strconv.FormatInt(o.generation, 10) {
		http.Error(rw, "Precondition Failed", http.StatusPreconditionFailed)
		return
	}
	rw.Header().Set("X-Goog-Generation", strconv.FormatInt(o.generation, 10))
	rw.Header().Set("X-Goog-Hash", "md5=unused,crc32c="+encode(crc32.Checksum(o.data, castagnoli)))
	http.ServeContent(rw, r, "", time.Unix(1767323045, 0), strings.NewReader(string(o.data)))
}

// serveSession: a request that is not the last may leave a part of it behind, in
// multiples of 256 KiB; the length makes it the last; DELETE answers 499.
func (w *wire) serveSession(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete {
		w.gone = true
		rw.WriteHeader(499)
		return
	}
	if w.gone {
		refuse(rw, 410, "gone", "Upload session "+r.URL.String()+" has expired.")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	span, length, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes "), "/")
	if span != "*" {
		var first, last int
		if _, err := fmt.Sscanf(span, "%d-%d", &first, &last); err != nil || last-first+1 != len(body) {
			refuse(rw, 400, "invalid", "Content-Range "+span)
			return
		}
		if first != len(w.session) {
			refuse(rw, 503, "backendError", fmt.Sprintf("byte %d is next, not %d", len(w.session), first))
			return
		}
		if w.most > 0 {
			body = body[:min(len(body), w.most)]
		}
		if length == "*" {
			body = body[:len(body)/quantum*quantum]
		}
		w.session = append(w.session, body...)
	}
	if n, err := strconv.Atoi(length); err == nil && n == len(w.session) {
		if want := "crc32c=" + encode(crc32.Checksum(w.session, castagnoli)); r.Header.Get("X-Goog-Hash") != want {
			refuse(rw, 400, "invalid", "crc32c is not "+want)
			return
		}
		key := r.URL.Query().Get("name")
		if _, ok := w.objects[key]; ok { // asked again
			describeAs(rw, key, w.objects[key])
			return
		}
		w.put(rw, r, key, w.session)
		return
	}
	if len(w.session) > 0 {
		rw.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(w.session)-1))
	}
	if r.Header.Get("X-Guploader-No-308") != "" {
		rw.Header().Set("X-Http-Status-Code-Override", "308")
		return
	}
	rw.WriteHeader(http.StatusPermanentRedirect)
}

// wantError compares all of an error but its text.
func wantError(t *testing.T, err error, want remote.Error) {
	t.Helper()
	e, ok := errors.AsType[*remote.Error](err)
	if !ok {
		t.Fatalf("got %v, want class %d", err, want.Class)
	}
	got := *e
	got.Err = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
