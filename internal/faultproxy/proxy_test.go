package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// upstream is a server that keeps bodies by path, and remembers its requests.
type upstream struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]string
	seen    []string // method and URI, in order
	last    http.Header
	host    string
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{objects: map[string]string{}}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, r.Method+" "+r.RequestURI)
	u.last, u.host = r.Header.Clone(), r.Host
	object, there := u.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPut && there && r.Header.Get("If-None-Match") == "*":
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		u.objects[r.URL.Path] = string(body)
		w.Header().Set("Etag", `"put"`)
	case !there:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Etag", `"right"`)
		io.WriteString(w, object) //nolint:errcheck // the client may hang up
	}
}

func (u *upstream) object(path string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.objects[path]
}

func (u *upstream) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string{}, u.seen...)
}

// answer is what a client saw.
type answer struct {
	Status int
	Body   string
	ETag   string
	Length int64
}

func do(t *testing.T, method, url, body string, header ...string) (answer, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(data), resp.Header.Get("Etag"), resp.ContentLength}, err
}

func TestPassesRequestsUnchanged(t *testing.T) {
	u := newUpstream(t)
	p := New(t, u.URL, nil)
	const path = "/b/a%20b/%2F%25/x+y=%C3%A4"
	if _, err := do(t, "PUT", p.URL()+path+"?partNumber=1&uploadId=a%2Fb", "body", "X-Odd", "1", "User-Agent", "me"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PUT " + path + "?partNumber=1&uploadId=a%2Fb"}, u.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if want := strings.TrimPrefix(p.URL(), "http://"); u.host != want {
		t.Errorf("the server was told host %s, the client said %s", u.host, want)
	}
	want := http.Header{"X-Odd": {"1"}, "User-Agent": {"me"}, "Content-Length": {"4"}, "Accept-Encoding": {"gzip"}}
	if diff := cmp.Diff(want, u.last); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	got, err := do(t, "GET", p.URL()+path, "")
	if diff := cmp.Diff(answer{200, "body", `"right"`, 4}, got); diff != "" || err != nil {
		t.Errorf("answer (-want +got):\n%s\n%v", diff, err)
	}
	wantCounts := map[string]Count{"UploadPart": {1, 4, 0}, "GetObject": {1, 0, 4}}
	if diff := cmp.Diff(wantCounts, p.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got := p.Total(); got != (Count{2, 4, 4}) {
		t.Errorf("total %+v", got)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault  Fault
		method string
		want   answer
		failed bool // the client has no whole answer
		reset  bool
		landed bool // the server has the new body, or had the question
	}{
		{fault: SlowDown(), method: "PUT", want: answer{Status: 503, Body: "SlowDown"}},
		{fault: TooManyRequests(), method: "PUT", want: answer{Status: 429, Body: "TooManyRequests"}},
		{fault: InternalError(), method: "PUT", want: answer{Status: 500, Body: "InternalError"}},
		{fault: InternalErrorAfter(), method: "PUT", want: answer{Status: 500, Body: "InternalError"}, landed: true},
		{fault: ErrorInSuccess(), method: "PUT", want: answer{Status: 200, Body: "InternalError"}},
		{fault: AccessDenied(), method: "GET", want: answer{Status: 403, Body: "AccessDenied"}},
		{fault: ExpiredToken(), method: "GET", want: answer{Status: 400, Body: "ExpiredToken"}},
		{fault: Conflict(), method: "PUT", want: answer{Status: 409, Body: "ConditionalRequestConflict"}},
		{fault: Fault{Kind: Reset}, method: "PUT", failed: true, reset: true},
		{fault: Fault{Kind: LoseAnswer}, method: "PUT", failed: true, landed: true},
		{fault: Fault{Kind: ResetBody}, method: "GET", want: answer{200, "01234", `"right"`, 10}, failed: true, reset: true, landed: true},
		{fault: Fault{Kind: ResetBody}, method: "PUT", failed: true, reset: true, landed: true},
		{fault: Fault{Kind: ShortBody}, method: "GET", want: answer{200, "01234", `"right"`, 10}, failed: true, landed: true},
		{fault: Fault{Kind: ShorterBody}, method: "GET", want: answer{200, "01234", `"right"`, 5}, landed: true},
		{
			fault: Fault{Kind: ShorterBody, Cut: func([]byte) int { return 3 }}, method: "GET",
			want: answer{200, "012", `"right"`, 3}, landed: true,
		},
		{fault: Fault{Kind: WrongETag}, method: "GET", want: answer{200, "0123456789", `"00000000000000000000000000000000"`, 10}, landed: true},
		{fault: Slow(time.Millisecond), method: "PUT", want: answer{200, "", `"put"`, 0}, landed: true},
	} {
		t.Run(c.fault.name()+" "+c.method, func(t *testing.T) {
			u := newUpstream(t)
			u.objects["/b/k"] = "0123456789"
			p := New(t, u.URL, &Options{Decide: Once(func(r *Request) bool { return r.Key == "k" }, c.fault)})
			got, err := do(t, c.method, p.URL()+"/b/k", "new")
			if (err != nil) != c.failed || c.reset && c.want.Status == 0 && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("got %+v, %v", got, err)
			}
			if c.fault.Kind == Refuse || c.fault.Kind == RefuseAfter {
				if !strings.Contains(got.Body, "<Code>"+c.want.Body+"</Code>") || !strings.Contains(got.Body, "<RequestId>faultproxy-1</RequestId>") {
					t.Errorf("body %s", got.Body)
				}
				got = answer{Status: got.Status, Body: c.want.Body}
			}
			if c.reset { // how much of the body comes before a reset is the kernel's choice
				c.want, got = answer{}, answer{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if seen := len(u.requests()) == 1; seen != c.landed {
				t.Errorf("the server saw %q", u.requests())
			}
			if landed := u.object("/b/k") == "new"; landed != (c.landed && c.method == "PUT") {
				t.Errorf("the object is %q", u.object("/b/k"))
			}
			if diff := cmp.Diff(map[string]int{c.fault.name(): 1}, p.Faults()); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if got, err := do(t, "GET", p.URL()+"/b/k", ""); err != nil || got.Status != 200 || got.Length != int64(len(u.object("/b/k"))) {
				t.Errorf("the next request: %+v, %v", got, err)
			}
		})
	}
}

func TestLateRequests(t *testing.T) {
	put := func(r *Request) bool { return r.Kind == "PutObject" }
	t.Run("by hand", func(t *testing.T) {
		u := newUpstream(t)
		p := New(t, u.URL, &Options{Decide: Once(put, Fault{Kind: Late})})
		if got, err := do(t, "PUT", p.URL()+"/b/k", "late"); err == nil {
			t.Fatalf("got %+v", got)
		}
		if got, err := do(t, "GET", p.URL()+"/b/k", ""); err != nil || got.Status != 404 || p.Waiting() != 1 {
			t.Fatalf("before it lands: %+v, %v", got, err)
		}
		p.Land()
		if u.object("/b/k") != "late" || p.Waiting() != 0 {
			t.Errorf("after it landed: %q", u.object("/b/k"))
		}
	})
	t.Run("after the next", func(t *testing.T) {
		u := newUpstream(t)
		p := New(t, u.URL, &Options{Decide: Once(put, Fault{Kind: Late, Next: true})})
		if got, err := do(t, "PUT", p.URL()+"/b/k", "late", "If-None-Match", "*"); err == nil {
			t.Fatalf("got %+v", got)
		}
		if _, err := do(t, "PUT", p.URL()+"/b/other", "x"); err != nil || p.Waiting() != 1 {
			t.Fatalf("another key: %v", err)
		}
		if got, err := do(t, "PUT", p.URL()+"/b/k", "next", "If-None-Match", "*"); err != nil || got.Status != 200 {
			t.Fatalf("the next one: %+v, %v", got, err)
		}
		p.Land() // waits for what is on its way
		want := []string{"PUT /b/other", "PUT /b/k", "PUT /b/k"}
		if diff := cmp.Diff(want, u.requests()); diff != "" || u.object("/b/k") != "next" {
			t.Errorf("requests (-want +got):\n%s\nobject %q", diff, u.object("/b/k"))
		}
	})
	t.Run("after a time", func(t *testing.T) {
		u := newUpstream(t)
		p := New(t, u.URL, &Options{Decide: Once(put, Fault{Kind: Late, After: time.Millisecond})})
		if got, err := do(t, "PUT", p.URL()+"/b/k", "late"); err == nil {
			t.Fatalf("got %+v", got)
		}
		for u.object("/b/k") != "late" && t.Context().Err() == nil {
			if _, err := do(t, "GET", p.URL()+"/b/k", ""); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("never after the end", func(t *testing.T) {
		u := newUpstream(t)
		p, err := Start(u.URL, &Options{Decide: Once(put, Fault{Kind: Late, After: time.Hour})})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := do(t, "PUT", p.URL()+"/b/k", "late"); err == nil {
			t.Fatalf("got %+v", got)
		}
		p.Close()
		if len(u.requests()) != 0 {
			t.Errorf("the server saw %q", u.requests())
		}
	})
}

func TestIgnoredConditions(t *testing.T) {
	u := newUpstream(t)
	u.objects["/b/k"] = "theirs"
	p := New(t, u.URL, nil)
	if got, err := do(t, "PUT", p.URL()+"/b/k", "ours", "If-None-Match", "*"); err != nil || got.Status != 412 {
		t.Errorf("got %+v, %v", got, err)
	}
	p.SetDecide(IgnoreConditions)
	if got, err := do(t, "PUT", p.URL()+"/b/k", "ours", "If-None-Match", "*"); err != nil || got.Status != 200 || u.object("/b/k") != "ours" {
		t.Errorf("got %+v, %v, %q", got, err, u.object("/b/k"))
	}
	if got, err := do(t, "PUT", p.URL()+"/b/k", "again"); err != nil || got.Status != 200 {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff(map[string]int{"condition ignored": 1}, p.Faults()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestRefusedTrailers(t *testing.T) {
	u := newUpstream(t)
	p := New(t, u.URL, &Options{Decide: RefuseTrailers})
	for _, h := range [][]string{
		{"X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, {"X-Amz-Trailer", "x-amz-checksum-crc32"}, {"Content-Encoding", "aws-chunked"},
	} {
		if got, err := do(t, "PUT", p.URL()+"/b/k", "x", h...); err != nil || got.Status != 400 {
			t.Errorf("%q: got %+v, %v", h, got, err)
		}
	}
	if got, err := do(t, "PUT", p.URL()+"/b/k", "x", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"); err != nil || got.Status != 200 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSkewedClock(t *testing.T) {
	u := newUpstream(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := New(t, u.URL, &Options{Decide: SkewedClock(func() time.Time { return now }, time.Hour)})
	for _, c := range []struct {
		at     time.Duration
		status int
	}{{0, 403}, {46 * time.Minute, 200}, {time.Hour, 200}, {74 * time.Minute, 200}, {76 * time.Minute, 403}} {
		if got, err := do(t, "PUT", p.URL()+"/b/k", "x", "X-Amz-Date", now.Add(c.at).Format(amzTime)); err != nil || got.Status != c.status {
			t.Errorf("%s: got %+v, %v", c.at, got, err)
		}
	}
	resp, err := http.Get(p.URL() + "/b/k")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got, want := resp.Header.Get("Date"), "Fri, 02 Jan 2026 04:04:05 GMT"; got != want {
		t.Errorf("Date is %q, want %q", got, want)
	}
}

// TestSignature signs an example of AWS's documents ("Signature Calculations for
// the Authorization Header", GET Object), whose signature is known.
func TestSignature(t *testing.T) {
	r, err := http.NewRequest(http.MethodGet, "http://examplebucket.s3.amazonaws.com/test.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	r.Header = http.Header{
		"Range": {"bytes=0-9"}, "X-Amz-Content-Sha256": {empty}, "X-Amz-Date": {"old"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=X/20000101/us-east-1/s3/aws4_request,SignedHeaders=host;if-none-match;range;x-amz-content-sha256;x-amz-date,Signature=0"},
	}
	c := &Credentials{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	c.sign(r, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	want := "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, " +
		"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
	if diff := cmp.Diff(want, r.Header.Get("Authorization")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plain := http.Header{"X-Amz-Date": {"old"}}
	r.Header = plain.Clone()
	c.sign(r, time.Now())
	if diff := cmp.Diff(plain, r.Header); diff != "" {
		t.Errorf("without a signature (-want +got):\n%s", diff)
	}
}

func TestLatencyAndBandwidth(t *testing.T) {
	u := newUpstream(t)
	u.objects["/b/k"] = strings.Repeat("x", 20_000)
	p := New(t, u.URL, &Options{Latency: 30 * time.Millisecond, Bandwidth: 200_000})
	began := time.Now()
	got, err := do(t, "GET", p.URL()+"/b/k", "")
	if err != nil || len(got.Body) != 20_000 {
		t.Fatalf("%d bytes, %v", len(got.Body), err)
	}
	if took := time.Since(began); took < 130*time.Millisecond {
		t.Errorf("took %s: 20,000 bytes at 200,000 a second after 30 ms", took)
	}
	began = time.Now()
	if _, err := do(t, "PUT", p.URL()+"/b/k", strings.Repeat("y", 20_000)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 130*time.Millisecond {
		t.Errorf("sending took %s", took)
	}
	// A reader that gives up does not reach the server, a writer does.
	p.SetLatency(10 * time.Minute)
	before := len(u.requests())
	ctx, cancel := context.WithCancel(t.Context())
	p.SetDecide(func(*Request) Fault { cancel(); return Fault{} })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/b/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", resp, err)
	}
	if got := len(u.requests()); got != before {
		t.Errorf("%d requests reached the server, want %d", got, before)
	}
}

func TestRandomFollowsItsRates(t *testing.T) {
	write := func(r *Request) bool { return r.Write() }
	decide := Random(7,
		Rate{P: 0.3, When: write, Fault: InternalErrorAfter()}, Rate{P: 0.3, Fault: SlowDown()}, Rate{P: 0, Fault: Fault{Kind: Reset}})
	got := map[string]int{}
	for i := range 2000 {
		f := decide(&Request{Method: []string{"GET", "PUT"}[i%2]})
		got[f.name()+[]string{" GET", " PUT"}[i%2]]++
	}
	for name, want := range map[string]int{
		"InternalError after the work PUT": 300, "SlowDown PUT": 210, "SlowDown GET": 300, "changed request GET": 700, "changed request PUT": 490,
	} {
		if n := got[name]; n < want*8/10 || n > want*12/10 {
			t.Errorf("%s: %d times, want about %d", name, n, want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("also %v", got)
	}
}

func TestStartRefusesOtherUpstreams(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:80", "https://127.0.0.1", "http://", ":"} {
		if p, err := Start(url, nil); err == nil {
			p.Close()
			t.Errorf("%q: no error", url)
		}
	}
}

func TestKindsOfRequests(t *testing.T) {
	related := "--x\r\nContent-Type: application/json\r\n\r\n{\"name\":\"p/k\"}\r\n--x\r\n\r\ndata\r\n--x--\r\n"
	for _, c := range []struct {
		dialect      Dialect
		line, header string
		body         string
		want         string // kind, bucket, key, conditional
	}{
		{S3, "GET /b/p/k", "", "", "GetObject b p/k false"},
		{S3, "GET /b/p/k?uploadId=1", "", "", "ListParts b p/k false"},
		{S3, "HEAD /b/p/k", "", "", "HeadObject b p/k false"},
		{S3, "PUT /b/p%2520k", "If-None-Match: *", "", "PutObject b p%20k true"},
		{S3, "PUT /b/k?partNumber=1&uploadId=1", "", "", "UploadPart b k false"},
		{S3, "POST /b/k?uploads", "", "", "CreateMultipartUpload b k false"},
		{S3, "POST /b/k?uploadId=1", "If-None-Match: *", "", "CompleteMultipartUpload b k true"},
		{S3, "DELETE /b/k?uploadId=1", "", "", "AbortMultipartUpload b k false"},
		{S3, "DELETE /b/k", "", "", "DeleteObject b k false"},
		{S3, "GET /b?list-type=2&prefix=p%2F", "", "", "ListObjects b p/ false"},
		{S3, "GET /b/?list-type=2", "", "", "ListObjects b  false"},
		{S3, "GET /b?uploads", "", "", "ListMultipartUploads b  false"},
		{S3, "GET /b?location", "", "", "GetBucketLocation b  false"},
		{S3, "HEAD /b", "", "", "HeadBucket b  false"},
		{S3, "POST /b?delete", "", "", "DeleteObjects b  false"},
		{S3, "PUT /b", "", "", "PUT bucket b  false"},
		{GCS, "GET /storage/v1/b/b/o?prefix=p/", "", "", "objects.list b p/ false"},
		{GCS, "GET /storage/v1/b/b/o/p%2Fk?alt=media", "", "", "objects.get media b p/k false"},
		{GCS, "GET /storage/v1/b/b/o/p%2Fk?alt=json", "", "", "objects.get b p/k false"},
		{GCS, "DELETE /storage/v1/b/b/o/p%2Fk", "", "", "objects.delete b p/k false"},
		{GCS, "POST /upload/storage/v1/b/b/o?uploadType=multipart&ifGenerationMatch=0", "Content-Type: multipart/related; boundary=x", related, "objects.insert b p/k true"},
		{GCS, "POST /upload/storage/v1/b/b/o?uploadType=resumable&name=n", "", "", "objects.insert b n false"},
		{GCS, "GET /b/p/k", "", "", "GET object b p/k false"},
		{Azure, "GET /a/c?restype=container&comp=list&prefix=p", "", "", "ListBlobs c p false"},
		{Azure, "PUT /a/c?restype=container", "", "", "PUT container c  false"},
		{Azure, "PUT /a/c/p/k", "If-None-Match: *", "", "PutBlob c p/k true"},
		{Azure, "PUT /a/c/p/k?comp=block&blockid=x", "", "", "PutBlock c p/k false"},
		{Azure, "PUT /a/c/p/k?comp=blocklist", "If-None-Match: *", "", "PutBlockList c p/k true"},
		{Azure, "GET /a/c/p/k", "", "", "GetBlob c p/k false"},
		{Azure, "HEAD /a/c/p/k", "", "", "GetBlobProperties c p/k false"},
		{Azure, "DELETE /a/c/p/k", "", "", "DeleteBlob c p/k false"},
	} {
		method, uri, _ := strings.Cut(c.line, " ")
		r := httptest.NewRequest(method, uri, bytes.NewReader([]byte(c.body)))
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, value)
		}
		q := parse(c.dialect, r, []byte(c.body))
		if got := fmt.Sprintf("%s %s %s %v", q.Kind, q.Bucket, q.Key, q.Conditional); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

func TestAnswersOfDialects(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		want    string
	}{
		{S3, "<Code>SlowDown</Code>"}, {Azure, "<Code>SlowDown</Code>"}, {GCS, `"reason":"SlowDown"`},
	} {
		u := newUpstream(t)
		p := New(t, u.URL, &Options{Dialect: c.dialect, Decide: func(*Request) Fault { return SlowDown() }})
		got, err := do(t, "GET", p.URL()+"/a/c/k", "")
		if err != nil || got.Status != 503 || !strings.Contains(got.Body, c.want) {
			t.Errorf("%d: %+v, %v", c.dialect, got, err)
		}
		if got, err := do(t, "HEAD", p.URL()+"/a/c/k", ""); err != nil || got.Status != 503 || got.Body != "" {
			t.Errorf("%d: HEAD: %+v, %v", c.dialect, got, err)
		}
	}
}
