package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// answer is what a scripted server says to one request.
type answer struct {
	status  int
	code    string
	message string
	header  map[string]string
	body    string // in place of an error's XML
}

func (a answer) write(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Amz-Request-Id", "req-1")
	w.Header().Set("X-Amz-Id-2", "host-2")
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return
	}
	body := a.body
	if body == "" && a.code != "" {
		body = fmt.Sprintf("<Error><Code>%s</Code><Message>%s</Message></Error>", a.code, a.message)
	}
	_, _ = io.WriteString(w, body)
}

// settings are an environment without anything of the user's.
func settings(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN",
		"AWS_SKIP_SIGNATURE", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_REQUEST_PAYER", "AWS_SERVER_SIDE_ENCRYPTION", "AWS_SSE_KMS_KEY_ID",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the-secret-key")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// serve starts a server and makes a bucket on it.
func serve(t *testing.T, h http.HandlerFunc) *bucket {
	t.Helper()
	settings(t)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	p, err := parse(nil, &blobstore.Config{Endpoint: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBucket(t.Context(), "bkt", p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requests are one of each kind, by names.
var requests = map[string]func(context.Context, *bucket) error{
	"get": func(ctx context.Context, b *bucket) error {
		_, _, err := b.Get(ctx, "k", driver.Range{Off: 0, N: -1}, "")
		return err
	},
	"get if": func(ctx context.Context, b *bucket) error {
		_, _, err := b.Get(ctx, "k", driver.Range{Off: 0, N: 3}, "e")
		return err
	},
	"head":   func(ctx context.Context, b *bucket) error { _, err := b.Head(ctx, "k"); return err },
	"put":    func(ctx context.Context, b *bucket) error { return b.Put(ctx, "k", []byte("x"), remote.Always) },
	"create": func(ctx context.Context, b *bucket) error { return b.Put(ctx, "k", []byte("x"), remote.IfAbsent) },
	"list":   func(ctx context.Context, b *bucket) error { _, _, err := b.List(ctx, "p", "", ""); return err },
	"delete": func(ctx context.Context, b *bucket) error { return b.Delete(ctx, "k") },
	"start":  func(ctx context.Context, b *bucket) error { _, err := b.StartUpload(ctx, "k"); return err },
}

func TestErrorClasses(t *testing.T) {
	for _, c := range []struct {
		kinds string // of requests, comma between them
		a     answer
		want  remote.Class
		text  string // in the error
	}{
		{"create", answer{status: 412, code: "PreconditionFailed"}, remote.Exists, "412 PreconditionFailed"},
		{"put,list,start", answer{status: 412, code: "PreconditionFailed"}, remote.Refused, "412"},
		{"get if", answer{status: 412, code: "PreconditionFailed"}, remote.Changed, "412"},
		{"create,put,start", answer{status: 409, code: "ConditionalRequestConflict", message: "conflicting operation"}, remote.Conflict, "conflicting operation"},
		{"create,delete", answer{status: 409, code: "OperationAborted"}, remote.Conflict, "409"},
		{"create", answer{status: 409}, remote.Conflict, "409"},
		{"get,put,create,list,delete,start", answer{status: 503, code: "SlowDown", message: "Please reduce your request rate."}, remote.Throttled, "reduce"},
		{"get,put,create,list,delete,start", answer{status: 503, code: "SlowDownWrite", message: "Resource requested is unwritable"}, remote.Unclear, "unwritable"},
		{"get,create", answer{status: 503, code: "RequestLimitExceeded"}, remote.Throttled, "RequestLimitExceeded"},
		{"get,head,create,list", answer{status: 429}, remote.Throttled, "throttled (429"},
		{"get,head,put,create,list,delete,start", answer{status: 500, code: "InternalError"}, remote.Unclear, "500"},
		{"create,head", answer{status: 502, body: "<html>bad gateway</html>"}, remote.Unclear, "502"},
		{"create,head", answer{status: 503}, remote.Unclear, "503"}, // a proxy's: the store may have done it
		{"create,head", answer{status: 504}, remote.Unclear, "504"},
		{"create,put", answer{status: 400, code: "RequestTimeout"}, remote.Unclear, "RequestTimeout"},
		{"get", answer{status: 404, code: "NoSuchKey"}, remote.NotFound, "NoSuchKey"},
		{"create,put,list,start", answer{status: 404, code: "NoSuchKey"}, remote.Refused, "404"},
		{"get,put,create,list,delete,start", answer{status: 404, code: "NoSuchBucket"}, remote.Refused, "bucket bkt does not exist"},
		{"head", answer{status: 404}, remote.Refused, "bucket bkt does not exist"}, // HeadBucket says so too
		{"get", answer{status: 404, body: "<html>not here</html>"}, remote.Refused, "404"},
		{"get,put,create,list,delete,start", answer{status: 403, code: "AccessDenied", message: "Access Denied"}, remote.Refused, "access denied (403 AccessDenied)"},
		{"head", answer{status: 403}, remote.Refused, "access denied (403"},
		{"get,create", answer{status: 403, code: "InvalidAccessKeyId"}, remote.Refused, "does not know the access key id"},
		{"get,create", answer{status: 403, code: "SignatureDoesNotMatch"}, remote.Refused, "secret key is not that"},
		{"get,put,create,list,delete,start", answer{status: 400, code: "ExpiredToken"}, remote.Expired, "credentials have expired"},
		{"head", answer{status: 400}, remote.Expired, "400"},
		{"get,create,list", answer{status: 403, code: "RequestTimeTooSkewed"}, remote.Expired, "RequestTimeTooSkewed"},
		{"get,create", answer{status: 301, code: "PermanentRedirect", header: map[string]string{regionHeader: "eu-south-2"}}, remote.Refused, "in region eu-south-2"},
		{"create,put", answer{status: 501, code: "NotImplemented"}, remote.Refused, "NotImplemented"},
		{"create", answer{status: 400, code: "InvalidArgument"}, remote.Refused, "InvalidArgument"},
		{"list,start", answer{status: 200, body: "<ListBucketResult><Name>b"}, remote.Unclear, "200"},
	} {
		for kind := range strings.SplitSeq(c.kinds, ",") {
			t.Run(fmt.Sprintf("%s %d %s", kind, c.a.status, c.a.code), func(t *testing.T) {
				n := 0
				b := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/bkt" || kind == "list" { // not HeadBucket
						n++
					}
					c.a.write(w, r)
				})
				err := requests[kind](t.Context(), b)
				if n != 1 {
					t.Errorf("%d requests: the SDK repeats them", n)
				}
				e, ok := errors.AsType[*remote.Error](err)
				if !ok || e.Class != c.want || !strings.Contains(e.Error(), c.text) || e.Status != c.a.status {
					t.Fatalf("got %+v, %v; want class %d, %q", e, err, c.want, c.text)
				}
				if e.RequestID != "req-1 host-2" || !strings.Contains(e.Error(), "req-1 host-2") {
					t.Errorf("request id %q in %v", e.RequestID, e)
				}
				if errors.Is(err, blobstore.ErrNotFound) != (c.want == remote.NotFound) {
					t.Errorf("ErrNotFound: %v", err)
				}
				if strings.Contains(err.Error(), "secret-key") || strings.Contains(err.Error(), "AKIDTEST") {
					t.Errorf("the error tells credentials: %v", err)
				}
			})
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "-1": 0, "soon": 0, "100000": time.Hour} {
		b := serve(t, answer{status: 503, code: "SlowDown", header: map[string]string{"Retry-After": value}}.write)
		e, ok := errors.AsType[*remote.Error](requests["put"](t.Context(), b))
		if !ok || e.RetryAfter != want {
			t.Errorf("%q: %+v", value, e)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	b := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for kind, request := range requests {
		if e, ok := errors.AsType[*remote.Error](request(t.Context(), b)); !ok || e.Class != remote.Unclear || e.Status != 0 {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	settings(t)
	for endpoint, want := range map[string]struct {
		class remote.Class
		text  string
	}{
		"http://127.0.0.1:1": {remote.Throttled, "cannot connect"}, // nothing was sent
		strings.Replace(httptestURL(t), "http:", "https:", 1): {remote.Refused, "does not speak https"},
		httptestTLS(t): {remote.Refused, "certificate"},
	} {
		p, err := parse(nil, &blobstore.Config{Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		b, err := newBucket(t.Context(), "bkt", p)
		if err != nil {
			t.Fatal(err)
		}
		for kind, request := range requests {
			e, ok := errors.AsType[*remote.Error](request(t.Context(), b))
			if !ok || e.Class != want.class || !strings.Contains(e.Error(), want.text) {
				t.Errorf("%s at %s: %+v", kind, endpoint, e)
			}
		}
	}
}

func httptestURL(t *testing.T) string {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	return srv.URL
}

func httptestTLS(t *testing.T) string {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // bad certificate, by design
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestNoCredentials(t *testing.T) {
	b := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request without credentials") })
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	b, err := newBucket(t.Context(), "bkt", b.p)
	if err != nil {
		t.Fatal(err)
	}
	for kind, request := range requests {
		e, ok := errors.AsType[*remote.Error](request(t.Context(), b))
		if !ok || e.Class != remote.Refused || !strings.Contains(e.Error(), "no credentials") {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

// issuer issues credentials, and counts how often it is asked to.
type issuer int

func (i *issuer) Retrieve(context.Context) (aws.Credentials, error) {
	*i++
	return aws.Credentials{AccessKeyID: fmt.Sprint("AKID", *i), SecretAccessKey: "x"}, nil
}

// Credentials that the store calls expired are asked for anew, once for each such
// answer, and not in between.
func TestExpiredCredentialsAreRenewed(t *testing.T) {
	var keys []string
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ = strings.Cut(key, "/")
		if keys = append(keys, key); len(keys) == 2 {
			answer{status: 400, code: "ExpiredToken"}.write(w, r)
		}
	})
	var i issuer
	b.cfg.Credentials = credentials{aws.NewCredentialsCache(&i)}
	b.known = b.p.client(b.cfg, defaultRegion)
	d := remote.New(b, &remote.Options{Conditional: true, Sleep: func(context.Context, time.Duration) error { return nil }})
	for range 3 {
		if out, err := d.Create(t.Context(), "k", nil); out != driver.Created {
			t.Errorf("%s, %v", out, err)
		}
	}
	if diff := cmp.Diff([]string{"AKID1", "AKID1", "AKID2", "AKID2"}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// A redirect is an error: it is not followed with credentials, and not to http.
func TestRedirectIsNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was followed", r.Method) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		b := serve(t, answer{status: status, header: map[string]string{"Location": other.URL + "/bkt/k"}}.write)
		for kind, request := range requests {
			if e, ok := errors.AsType[*remote.Error](request(t.Context(), b)); !ok || e.Class != remote.Refused || e.Status != status {
				t.Errorf("%s, %d: %+v", kind, status, e)
			}
		}
	}
}

// The clock of this machine may be wrong: the next attempt is signed with the
// server's.
func TestSkewedClock(t *testing.T) {
	for _, kind := range []string{"create", "head"} {
		t.Run(kind, func(t *testing.T) {
			at := time.Now().Add(3 * time.Hour)
			n := 0
			b := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n++
				w.Header().Set("Date", at.UTC().Format(http.TimeFormat))
				signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
				if err != nil {
					t.Error(err)
				}
				if at.Sub(signed).Abs() > 15*time.Minute {
					answer{status: 403, code: "RequestTimeTooSkewed"}.write(w, r)
				}
			})
			d := remote.New(b, &remote.Options{Conditional: true, Sleep: func(context.Context, time.Duration) error { return nil }})
			var err error
			if kind == "create" {
				_, err = d.Create(t.Context(), "k", nil)
			} else {
				_, err = d.Stat(t.Context(), "k")
			}
			if err != nil || n != 2 {
				t.Errorf("%d requests, %v", n, err)
			}
		})
	}
}

// An endpoint that refuses checksums in trailers, and chunked bodies, is served:
// small and large objects.
func TestStrictEndpoint(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Method]++
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Amz-Checksum") || strings.HasPrefix(name, "X-Amz-Sdk-Checksum") || name == "X-Amz-Trailer" {
				t.Errorf("%s has the header %s", r.Method, name)
			}
		}
		if sum := r.Header.Get("X-Amz-Content-Sha256"); strings.HasPrefix(sum, "STREAMING") || r.ContentLength < 0 {
			t.Errorf("%s: %q, length %d", r.Method, sum, r.ContentLength)
		}
		if enc := r.Header.Get("Content-Encoding"); enc != "" {
			t.Errorf("%s: %s", r.Method, enc)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case r.URL.Query().Has("uploads"):
			answer{status: 200, body: "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"}.write(w, r)
		case r.URL.Query().Has("uploadId") && r.Method == http.MethodPost:
			answer{status: 200, body: "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"}.write(w, r)
		default:
			answer{status: 200, header: map[string]string{"ETag": `"e"`}}.write(w, r)
		}
	})
	d := remote.New(b, &remote.Options{Conditional: true, PartSize: 5 << 20})
	if out, err := d.Create(t.Context(), "k", []byte("small")); out != driver.Created {
		t.Error(out, err)
	}
	w, err := d.NewWriter(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 12<<20)); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]int{"PUT": 4, "POST": 2}, seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// The answer to a Complete may be an error in a success.
func TestCompleteErrorInSuccess(t *testing.T) {
	b := serve(t, answer{status: 200, code: "InternalError", message: "try again"}.write)
	u := &upload{b: b, c: b.known, key: "k", id: &b.name, etags: map[int]string{1: "e"}}
	e, ok := errors.AsType[*remote.Error](u.Complete(t.Context(), 1))
	if !ok || e.Class != remote.Unclear || e.Code != "InternalError" {
		t.Errorf("%+v", e)
	}
	b = serve(t, answer{status: 404, code: "NoSuchUpload"}.write)
	u = &upload{b: b, c: b.known, key: "k", id: &b.name, etags: map[int]string{1: "e"}}
	if e, ok := errors.AsType[*remote.Error](u.Complete(t.Context(), 1)); !ok || e.Class != remote.Refused {
		t.Errorf("%+v", e)
	}
	if err := u.Abort(t.Context()); err != nil {
		t.Errorf("Abort of what is gone: %v", err)
	}
}

// Bodies of ranges are held to what was asked for: also one that HTTP says is
// whole.
func TestGetRanges(t *testing.T) {
	whole := driver.Range{Off: 0, N: -1}
	for _, c := range []struct {
		name   string
		part   driver.Range
		status int
		header map[string]string
		body   string
		want   string
		class  remote.Class // of the error, if want is ""
		size   int64
	}{
		{"whole", whole, 206, map[string]string{"Content-Range": "bytes 0-4/5"}, "01234", "01234", 0, 5},
		{"whole, without a range", whole, 200, nil, "01234", "01234", 0, 5},
		{"whole, shorter", whole, 206, map[string]string{"Content-Range": "bytes 0-4/5"}, "012", "", remote.Unclear, 0},
		{"a part", driver.Range{Off: 1, N: 2}, 206, map[string]string{"Content-Range": "bytes 1-2/5"}, "12", "12", 0, 5},
		{"the end", driver.Range{Off: -2, N: -1}, 206, map[string]string{"Content-Range": "bytes 3-4/5"}, "34", "34", 0, 5},
		{"another part", driver.Range{Off: 1, N: 2}, 206, map[string]string{"Content-Range": "bytes 2-3/5"}, "23", "", remote.Unclear, 0},
		{"ranges ignored", driver.Range{Off: 1, N: 2}, 200, nil, "01234", "", remote.Refused, 0},
		{"nonsense", whole, 206, map[string]string{"Content-Range": "lines 1"}, "01234", "", remote.Unclear, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked string
			b := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r.Header.Get("Range")
				answer{status: c.status, header: c.header, body: c.body}.write(w, r)
			})
			body, info, err := b.Get(t.Context(), "k", c.part, "")
			if err == nil {
				defer body.Close()
				var data []byte
				data, err = io.ReadAll(body)
				if int64(len(data)) != min(info.Size, max(c.part.N, -c.part.Off, 0)) && c.part != whole || c.part == whole && int64(len(data)) != info.Size {
					err = errors.Join(err, &remote.Error{Err: errors.New("short")}) // as package remote has it
				} else if !bytes.Equal(data, []byte(c.want)) || info.Size != c.size {
					t.Errorf("%q, %+v", data, info)
				}
			}
			if e, ok := errors.AsType[*remote.Error](err); ok != (c.want == "") || ok && e.Class != c.class {
				t.Errorf("error: %v", err)
			}
			if !strings.HasPrefix(asked, "bytes=") {
				t.Errorf("asked for %q", asked)
			}
		})
	}
}

// An upload that is still there after it was aborted, as a part came late, is
// aborted again.
func TestAbortUntilGone(t *testing.T) {
	for name, c := range map[string]struct {
		looks []answer // at the parts after each abort
		want  string   // requests
	}{
		"gone":           {looks: []answer{{status: 404, code: "NoSuchUpload"}}, want: "DELETE GET"},
		"there once":     {looks: []answer{{status: 200, body: "<ListPartsResult/>"}, {status: 404, code: "NoSuchUpload"}}, want: "DELETE GET DELETE GET"},
		"nobody may see": {looks: []answer{{status: 403, code: "AccessDenied"}}, want: "DELETE GET"},
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			looks := c.looks
			b := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case http.MethodPost:
					answer{status: 200, body: "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"}.write(w, r)
					return
				case http.MethodPut:
					answer{status: 200, header: map[string]string{"ETag": `"e"`}}.write(w, r)
					return
				case http.MethodGet:
					looks[0].write(w, r)
					looks = looks[1:]
				default:
					answer{status: 204}.write(w, r)
				}
				log = append(log, r.Method)
			})
			d := remote.New(b, &remote.Options{Conditional: true, PartSize: 10, Sleep: func(context.Context, time.Duration) error { return nil }})
			w, err := d.NewWriter(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, 25)); err != nil {
				t.Fatal(err)
			}
			if err := w.Abort(); err != nil {
				t.Error(err)
			}
			if got := strings.Join(log, " "); got != c.want {
				t.Errorf("requests %s, want %s", got, c.want)
			}
		})
	}
}
