package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	awssdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/internal/faultproxy"
	"github.com/deltafold/deltafold/internal/storeserver"
)

func openWith(t *testing.T, location string, c *blobstore.Config) *blobstore.Store {
	t.Helper()
	s, err := blobstore.OpenWith(t.Context(), location, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// calls makes one call of each kind and returns their errors.
func calls(ctx context.Context, s *blobstore.Store) map[string]error {
	errs := map[string]error{"put": s.Put(ctx, "p", nil), "delete": s.Delete(ctx, "p")}
	_, errs["get"] = s.Get(ctx, "k")
	_, errs["stat"] = s.Stat(ctx, "k")
	_, errs["open"] = s.OpenReader(ctx, "k", 3)
	_, errs["create"] = s.Create(ctx, "c", nil)
	for _, err := range s.List(ctx, "", "") {
		errs["list"] = err
	}
	return errs
}

// The server refuses, and the user reads why. Nothing of it is "not found", and
// what was not created is known not to be.
func TestRefusals(t *testing.T) {
	srv := server(t)
	good := open(t, srv.URL()+"/t")
	if err := good.Put(t.Context(), "k", []byte("abc")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env      map[string]string
		location string
		want     string
	}{
		"wrong secret": {env: map[string]string{"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, want: "403"},
		"unknown key":  {env: map[string]string{"AWS_ACCESS_KEY_ID": "nobody"}, want: "does not"}, // know it; HEAD says: exist,
		"anonymous":    {location: srv.URL() + "/t?anonymous=true", want: "403"},
		"no bucket":    {location: "s3://no-such-bucket/t", want: "bucket no-such-bucket does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			location := c.location
			if location == "" {
				location = srv.URL() + "/t"
			}
			s := open(t, location)
			for call, err := range calls(t.Context(), s) {
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, blobstore.ErrNotFound) {
					t.Errorf("%s: %v", call, err)
				} else if strings.Contains(err.Error(), srv.SecretKey) || strings.Contains(err.Error(), "wrong-secret") {
					t.Errorf("%s tells a secret: %v", call, err)
				}
			}
			if out, err := s.Create(t.Context(), "c", nil); out != blobstore.NotDone {
				t.Errorf("Create: %s, %v", out, err)
			}
		})
	}
	for call, err := range calls(t.Context(), good) {
		if err != nil {
			t.Errorf("%s with good credentials: %v", call, err)
		}
	}
}

// uploadsOf counts the uploads in parts that the server still has.
func uploadsOf(t *testing.T, srv *storeserver.Server) int {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := awssdk.NewFromConfig(cfg, func(o *awssdk.Options) { o.UsePathStyle = true })
	out, err := c.ListMultipartUploads(context.WithoutCancel(t.Context()), &awssdk.ListMultipartUploadsInput{Bucket: &srv.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Uploads)
}

func TestLargeObjects(t *testing.T) {
	srv := server(t)
	stats := &blobstore.Stats{}
	s := openWith(t, srv.URL()+"/t", &blobstore.Config{Stats: stats})
	data := bytes.Repeat([]byte("0123456789abcdef"), 1300<<10) // 20.3 MiB: three parts
	w, err := s.NewWriter(t.Context(), "big file.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 1 << 20 {
		if _, err := w.Write(data[i:min(i+1<<20, len(data))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := stats.Counts(); got.Total() != 5 || got.Sent != int64(len(data)) || got.Retries != 0 { // start, three parts, complete
		t.Errorf("counted: %+v", got)
	}
	read, err := s.Get(t.Context(), "big file.parquet")
	if err != nil || !bytes.Equal(read, data) {
		t.Errorf("%d bytes back, %v", len(read), err)
	}
	if n := uploadsOf(t, srv); n != 0 {
		t.Errorf("%d uploads left", n)
	}
}

// A write that is dropped, or whose caller goes away, leaves no parts and no
// object.
func TestDroppedUploads(t *testing.T) {
	srv := server(t)
	s := open(t, srv.URL()+"/t")
	chunk := make([]byte, 9<<20)
	for name, end := range map[string]func(w *blobstore.Writer, cancel func()) error{
		"aborted":   func(w *blobstore.Writer, _ func()) error { return w.Abort() },
		"cancelled": func(w *blobstore.Writer, cancel func()) error { cancel(); return wantError(w.Close()) },
		"cancelled part": func(w *blobstore.Writer, cancel func()) error {
			_, _ = w.Write(chunk)
			cancel()
			return wantError(w.Close())
		},
		"both": func(w *blobstore.Writer, cancel func()) error { cancel(); return w.Abort() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := s.NewWriter(ctx, "big")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := w.Write(chunk); err != nil {
					t.Fatal(err)
				}
			}
			if err := end(w, cancel); err != nil {
				t.Error(err)
			}
			if n := uploadsOf(t, srv); n != 0 {
				t.Errorf("%d uploads left", n)
			}
			if _, err := s.Stat(t.Context(), "big"); !errors.Is(err, blobstore.ErrNotFound) {
				t.Errorf("Stat: %v", err)
			}
		})
	}
}

func wantError(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("want a cancelled context, got %w", err)
}

// A server that ignores If-None-Match is found out before anything is created,
// and only who vouches for being alone goes on.
func TestConditionIgnored(t *testing.T) {
	srv := server(t)
	proxy := faultproxy.New(t, srv.Endpoint, &faultproxy.Options{
		Decide:      faultproxy.IgnoreConditions,
		Credentials: &faultproxy.Credentials{AccessKey: srv.AccessKey, SecretKey: srv.SecretKey},
	})
	plain := open(t, srv.URL()+"/t")
	s := openWith(t, srv.URL()+"/t", &blobstore.Config{Endpoint: proxy.URL()})
	for range 2 {
		out, err := s.Create(t.Context(), "_delta_log/00000000000000000000.json", []byte("x"))
		refusal, ok := errors.AsType[*blobstore.NoConditionError](err)
		if out != blobstore.NotDone || !ok || refusal.Endpoint != proxy.URL() || refusal.Bucket != srv.Bucket {
			t.Fatalf("%s, %v", out, err)
		}
	}
	if err := s.Prepare(t.Context()); err == nil || s.SingleWriter() {
		t.Errorf("Prepare: %v", err)
	}
	alone := openWith(t, srv.URL()+"/t", &blobstore.Config{Endpoint: proxy.URL(), UnsafeSingleWriter: true})
	if err := alone.Prepare(t.Context()); err != nil || !alone.SingleWriter() {
		t.Errorf("Prepare: %v", err)
	}
	for i, want := range []blobstore.Outcome{blobstore.Created, blobstore.Exists} {
		if out, err := alone.Create(t.Context(), "_delta_log/00000000000000000000.json", []byte{byte(i)}); out != want || err != nil {
			t.Errorf("%s, %v; want %s", out, err, want)
		}
	}
	var left []string
	for info, err := range plain.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, info.Key)
	}
	if diff := cmp.Diff([]string{"_delta_log/00000000000000000000.json"}, left); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	// With the server itself, the same configuration is safe.
	safe := openWith(t, srv.URL()+"/t", &blobstore.Config{UnsafeSingleWriter: true})
	if err := safe.Prepare(t.Context()); err != nil || safe.SingleWriter() {
		t.Errorf("Prepare: %v", err)
	}
}

func TestDynamoDBLogStoreIsRefused(t *testing.T) {
	srv := server(t)
	s := openWith(t, srv.URL()+"/t", &blobstore.Config{UnsafeSingleWriter: true})
	const mark = "_delta_log/.tmp/00000000000000000003.json.2f6cbe3e-6f63-4b32-8c58-0e5b4f6d6d9a"
	if err := s.Put(t.Context(), mark, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := s.Create(t.Context(), "_delta_log/00000000000000000004.json", nil)
		refusal, ok := errors.AsType[*blobstore.LogStoreError](err)
		if out != blobstore.NotDone || !ok || refusal.Key != mark || refusal.LogStore != "S3DynamoDBLogStore" {
			t.Errorf("%s, %v", out, err)
		}
	}
	// Reading is no matter, nor is what is not the log.
	if _, err := s.Get(t.Context(), mark); err != nil {
		t.Error(err)
	}
	if out, err := s.Create(t.Context(), "data", nil); out != blobstore.Created {
		t.Error(out, err)
	}
}

// Requests of the first commit through a store, and of the next ones.
func TestRequestsOfCreate(t *testing.T) {
	srv := server(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	stats := &blobstore.Stats{}
	create := func(s *blobstore.Store, key string) map[string]int64 {
		t.Helper()
		before := stats.Counts()
		if out, err := s.Create(t.Context(), "_delta_log/"+key, []byte("{}")); out != blobstore.Created {
			t.Fatal(out, err)
		}
		diff := stats.Counts().Minus(before)
		got := map[string]int64{}
		for kind, n := range diff.Requests {
			if n > 0 {
				got[blobstore.Request(kind).String()] = n
			}
		}
		return got
	}
	first := openWith(t, srv.URL(), &blobstore.Config{Stats: stats})
	second := openWith(t, srv.URL(), &blobstore.Config{Stats: stats})
	for i, c := range []struct {
		s    *blobstore.Store
		want map[string]int64
	}{
		{first, map[string]int64{"list": 1, "put": 3, "get": 1, "delete": 1}}, // marks, probe, entry
		{first, map[string]int64{"put": 1}},
		{second, map[string]int64{"list": 1, "put": 1}}, // the probe is remembered
		{second, map[string]int64{"put": 1}},
	} {
		if diff := cmp.Diff(c.want, create(c.s, fmt.Sprint(i))); diff != "" {
			t.Errorf("create %d (-want +got):\n%s", i, diff)
		}
	}
}

// Listings of more than a page, from a key on: from the key itself, and only the
// pages that are needed.
func TestListPages(t *testing.T) {
	srv := server(t)
	const n = 1500
	folder := filepath.Join(srv.Folder(), "t")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range n { // an object of the server is a file
		name := fmt.Sprintf("%020d.json", i)
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	stats := &blobstore.Stats{}
	s := openWith(t, srv.URL()+"/t", &blobstore.Config{Stats: stats})
	for from, pages := range map[int]int64{0: 2, 600: 1, n - 1: 1} {
		before := stats.Counts()
		var got []string
		for info, err := range s.List(t.Context(), "", want[from]) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Key)
		}
		if diff := cmp.Diff(want[from:], got); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", from, diff)
		}
		if d := stats.Counts().Minus(before); d.Total() != pages {
			t.Errorf("from %d: %d pages, want %d", from, d.Total(), pages)
		}
	}
}

// Faults on the wire, through the SDK: what the answer was is what counts.
func TestFaultsOnTheWire(t *testing.T) {
	srv := server(t)
	proxy := faultproxy.New(t, srv.Endpoint, nil)
	s := openWith(t, srv.URL()+"/t", &blobstore.Config{Endpoint: proxy.URL()})
	plain := open(t, srv.URL()+"/t")
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		fault faultproxy.Fault
		want  blobstore.Outcome
		puts  int
	}{
		{faultproxy.SlowDown(), blobstore.Created, 2},
		{faultproxy.InternalError(), blobstore.Created, 2},
		{faultproxy.InternalErrorAfter(), blobstore.Exists, 2}, // our own: who reads it back knows
		{faultproxy.Fault{Kind: faultproxy.LoseAnswer}, blobstore.Exists, 2},
		{faultproxy.Fault{Kind: faultproxy.Reset}, blobstore.Created, 2},
		{faultproxy.Conflict(), blobstore.Created, 2},
		{faultproxy.ExpiredToken(), blobstore.Created, 2},
		{faultproxy.AccessDenied(), blobstore.NotDone, 1},
	} {
		key := fmt.Sprintf("c/%d", i)
		puts := 0
		isOurs := func(r *faultproxy.Request) bool { return r.Kind == "PutObject" && strings.HasSuffix(r.Key, key) }
		once := faultproxy.Once(isOurs, c.fault)
		proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
			if isOurs(r) {
				puts++
			}
			return once(r)
		})
		out, err := s.Create(t.Context(), key, []byte("ours"))
		if out != c.want || puts != c.puts || (err == nil) != (out != blobstore.NotDone) {
			t.Errorf("fault %d, %s %s: %s, %v, %d puts; want %s, %d", i, c.fault.Name, c.fault.Code, out, err, puts, c.want, c.puts)
		}
		if got, err := plain.Get(t.Context(), key); (err == nil) != (out != blobstore.NotDone) || err == nil && string(got) != "ours" {
			t.Errorf("fault %d: holds %q, %v", i, got, err)
		}
	}
	data := strings.Repeat("0123456789", 1000)
	if err := plain.Put(t.Context(), "k", []byte(data)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []faultproxy.Kind{faultproxy.ResetBody, faultproxy.ShortBody, faultproxy.ShorterBody, faultproxy.LoseAnswer} {
		for name, read := range map[string]func() ([]byte, error){
			"whole": func() ([]byte, error) { return s.Get(t.Context(), "k") },
			"range": func() ([]byte, error) { return s.GetRange(t.Context(), "k", 0, 10000) },
		} {
			gets := 0
			isGet := func(r *faultproxy.Request) bool { return r.Kind == "GetObject" }
			once := faultproxy.Once(isGet, faultproxy.Fault{Kind: kind})
			proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
				if isGet(r) {
					gets++
				}
				return once(r)
			})
			if got, err := read(); err != nil || string(got) != data || gets != 2 {
				t.Errorf("kind %d, %s: %d bytes, %v, %d gets", kind, name, len(got), err, gets)
			}
		}
	}
}

// Nothing of the SDK reaches the terminal: a child process makes requests of all
// kinds, fine and failing, and prints nothing.
func TestSilentSDK(t *testing.T) {
	if os.Getenv("DELTAFOLD_TEST_SILENT") != "" {
		for _, location := range []string{os.Getenv("DELTAFOLD_TEST_SILENT"), "s3://no-such-bucket"} {
			s := open(t, location)
			_ = s.Put(t.Context(), "k", []byte("abc"))
			_ = calls(t.Context(), s)
			_, _ = s.GetRange(t.Context(), "k", 1, 1)
		}
		return
	}
	srv := server(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSilentSDK$")
	cmd.Env = append(os.Environ(), "DELTAFOLD_TEST_SILENT="+srv.URL()+"/t")
	var stderr, stdout bytes.Buffer
	cmd.Stderr, cmd.Stdout = &stderr, &stdout
	if err := cmd.Run(); err != nil || stderr.Len() > 0 || strings.TrimSpace(stdout.String()) != "PASS" {
		t.Errorf("%v; stdout %q, stderr %q", err, &stdout, &stderr)
	}
}

// Writers race for keys under random faults, each reading back what it did not
// certainly win (R8): one wins each, and the object is its.
func TestRacesUnderFaults(t *testing.T) {
	srv := server(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rates := []faultproxy.Rate{}
	for _, f := range []faultproxy.Fault{
		faultproxy.SlowDown(), faultproxy.InternalError(), faultproxy.InternalErrorAfter(), faultproxy.Conflict(),
		{Kind: faultproxy.LoseAnswer},
		{Kind: faultproxy.Reset},
		{Kind: faultproxy.Late, Next: true},
	} {
		rates = append(rates, faultproxy.Rate{P: 0.05, Fault: f})
	}
	proxy := faultproxy.New(t, srv.Endpoint, &faultproxy.Options{Decide: faultproxy.Random(seed, rates...)})
	const writers, keys = 6, 15
	won := make([][]string, keys)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range writers {
		s := openWith(t, srv.URL()+"/t", &blobstore.Config{Endpoint: proxy.URL()})
		ours := fmt.Sprintf("writer %d", g)
		wg.Go(func() {
			for i := range keys {
				if insist(t, s, fmt.Sprintf("k/%03d", i), ours) {
					mu.Lock()
					won[i] = append(won[i], ours)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	proxy.Land()
	s := open(t, srv.URL()+"/t")
	for i, who := range won {
		got, err := s.Get(t.Context(), fmt.Sprintf("k/%03d", i))
		if err != nil || !slices.Equal(who, []string{string(got)}) {
			t.Errorf("key %d: won by %q, holds %q, %v", i, who, got, err)
		}
	}
	t.Logf("%d keys, %d writers; requests %d; faults %v", keys, writers, proxy.Total().Requests, proxy.Faults())
}

// insist puts the same bytes until it is known whose the object is.
func insist(t *testing.T, s *blobstore.Store, key, ours string) bool {
	for t.Context().Err() == nil {
		out, _ := s.Create(t.Context(), key, []byte(ours))
		switch out {
		case blobstore.Created:
			return true
		case blobstore.Exists:
			if got, err := s.Get(t.Context(), key); err == nil {
				return string(got) == ours
			}
		case blobstore.Unknown, blobstore.NotDone: // again
		}
	}
	return false
}
