package gcs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

func TestParse(t *testing.T) {
	type in struct{ location, endpoint, emulator string }
	for _, c := range []struct {
		in
		want place
	}{
		{in{location: "gs://b"}, place{bucket: "b"}},
		{in{location: "gcs://b/a%20b/c//"}, place{bucket: "b", prefix: "a%20b/c/"}},
		{in{location: "gs://b?anonymous=true"}, place{bucket: "b", anonymous: true}},
		{in{location: "gs://b?anonymous=false&access_id=-&grpc=false"}, place{bucket: "b", anonymous: true}},
		{in{location: "gs://b?universe_domain=u.example"}, place{bucket: "b", universe: "u.example"}},
		{in{"gs://b", "https://s.example/", ""}, place{bucket: "b", endpoint: "https://s.example"}},
		{in{"gs://b", "", "localhost:4443"}, place{bucket: "b", endpoint: "http://localhost:4443", emulator: true}},
		{in{"gs://b", "http://127.0.0.1:1", "http://127.0.0.1:2/"}, place{bucket: "b", endpoint: "http://127.0.0.1:1", emulator: true}},
	} {
		u, err := url.Parse(c.location)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(u, c.endpoint, c.emulator)
		if err != nil {
			t.Errorf("%+v: %v", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, *got, cmp.AllowUnexported(place{})); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.in, diff)
		}
	}
}

// What is not taken is refused by name, and values are not repeated: they may be
// secrets.
func TestParseRefuses(t *testing.T) {
	const secret = "s3cr3t"
	for location, want := range map[string]string{
		"gs://":                          "names no bucket",
		"gs://b:1":                       "names no bucket",
		"gs://user:s3cr3t@b":             "credentials in the URL",
		"gs://b/a//b":                    "part",
		"gs://b/a#b":                     "'#'",
		"gs://b?token=s3cr3t":            "token",
		"gs://b?X-Goog-Signature=s3cr3t": "X-Goog-Signature",
		"gs://b?access_id=s3cr3t":        "access_id",
		"gs://b?private_key_path=s3cr3t": "private_key_path",
		"gs://b?grpc=true":               "grpc",
		"gs://b?zonal=1":                 "zonal",
		"gs://b?anonymous=s3cr3t":        "anonymous",
		"gs://b?anonymous=1&anonymous=1": "anonymous",
		"gs://b?a=%zz":                   "parameters",
	} {
		u, err := url.Parse(location)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(u, "", ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", location, err, want)
		}
	}
	u := &url.URL{Scheme: "gs", Host: "b"}
	for _, endpoint := range []string{"s.example", "ftp://s.example", "https://user:s3cr3t@s.example", "https://s.example?sig=s3cr3t", "http://"} {
		if _, err := parse(u, endpoint, ""); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("endpoint %s: %v", endpoint, err)
		}
	}
}

// credentials writes the key of a service account whose tokens come from tokenURL,
// and returns what of it must never be shown.
func credentials(t *testing.T, tokenURL string) (secret string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "test@example.com", "private_key": private,
		"private_key_id": "1", "token_uri": tokenURL,
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	return strings.Split(private, "\n")[1]
}

const token = "ya29.s3cr3t-token"

// tokens is a server that gives the token, or refuses with a status.
func tokens(t *testing.T, status int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"access_token":"` + token + `","token_type":"Bearer","expires_in":3600,"error":"invalid_grant","error_description":"no ` + token + `"}`))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A server that repeats the request's secrets in its answers, and a connection
// that breaks: errors hold neither a token, nor a key, nor an upload session.
// (fake-gcs-server takes any credentials, so this server stands in.)
func TestErrorsHoldNoSecrets(t *testing.T) {
	key := credentials(t, tokens(t, 200))
	w := newWire(t)
	var answer atomic.Int64
	w.before = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s without the token", r.Method)
		}
		status := int(answer.Load())
		switch status {
		case 0:
			return false
		case 1:
			if c, _, err := http.NewResponseController(rw).Hijack(); err == nil {
				_ = c.Close() // a broken connection is what is wanted
			}
			return true
		}
		refuse(rw, status, "authError", "not with "+r.Header.Get("Authorization")+" at "+r.URL.String())
		return true
	}
	p := &place{bucket: "b", endpoint: w.server.URL}
	b, err := p.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, err := b.StartUpload(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{1, 401, 403, 404, 410, 503} {
		answer.Store(int64(status))
		for i, err := range everyCall(t, b, u) {
			e, ok := errors.AsType[*remote.Error](err)
			if !ok {
				t.Errorf("status %d, call %d: %v", status, i, err)
				continue
			}
			for _, secret := range []string{token, key, uploadID} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("status %d, call %d: %v", status, i, err)
				}
			}
			if status == 1 && strings.Contains(err.Error(), "://") {
				t.Errorf("call %d names the request's URL: %v", i, err)
			}
			if refused := status == 401 || status == 403; refused && (e.Class != remote.Refused || e.RequestID != requestID) {
				t.Errorf("status %d, call %d: %+v", status, i, e)
			}
		}
	}
}

// everyCall makes every request that there is, but one that succeeds anyway.
func everyCall(t *testing.T, b *bucket, u remote.Upload) []error {
	ctx := t.Context()
	_, _, get := b.Get(ctx, "k", driver.Range{N: -1}, "")
	_, head := b.Head(ctx, "k")
	_, _, list := b.List(ctx, "", "", "")
	_, upload := b.StartUpload(ctx, "k")
	return []error{
		get, head, list, upload, b.Put(ctx, "k", nil, remote.IfAbsent), b.Put(ctx, "k", nil, remote.Always),
		u.Part(ctx, 1, make([]byte, quantum)),
	}
}

// A refused token is the user's to mend, one that cannot be had now is not; in
// both cases nothing was asked of the store.
func TestTokenRefused(t *testing.T) {
	for status, want := range map[int]remote.Class{400: remote.Refused, 401: remote.Refused, 503: remote.Throttled, 429: remote.Throttled} {
		key := credentials(t, tokens(t, status))
		w := newWire(t)
		b, err := (&place{bucket: "b", endpoint: w.server.URL}).connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Head(t.Context(), "k")
		e := wantErrorOfStatus(t, err, status)
		if e.Class != want || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), key) {
			t.Errorf("status %d: class %d, %v", status, e.Class, err)
		}
		if n := len(w.asked()); n != 0 {
			t.Errorf("%d requests to the store", n)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	key := credentials(t, "http://127.0.0.1:1")
	_, err := blobstore.OpenWith(t.Context(), "gs://b", &blobstore.Config{Endpoint: "http://s.example"})
	if err == nil || !strings.Contains(err.Error(), "plain http") {
		t.Errorf("credentials over plain http: %v", err)
	}
	if err := os.WriteFile(os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"), []byte(key+`{"type": "nothing", "private_key": "`+key), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = blobstore.Open(t.Context(), "gs://b")
	if err == nil || !strings.Contains(err.Error(), "credentials") || strings.Contains(err.Error(), key) {
		t.Errorf("broken credentials: %v", err)
	}
}

// A server that is not there: nothing was sent, and a create says so.
func TestNoServer(t *testing.T) {
	w := newWire(t)
	d := w.driver()
	w.server.Close()
	out, err := d.Create(t.Context(), "k", []byte("x"))
	if e, ok := errors.AsType[*remote.Error](err); out != driver.NotDone || !ok || e.Class != remote.Throttled {
		t.Errorf("%s, %v", out, err)
	}
}
