package storeserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stores are the servers by name; .ci/servers runs TestServersStart to build them.
var stores = []struct {
	name        string
	shared, own func(testing.TB) *Server
	// anonymous is the status of a request for a missing object without credentials.
	anonymous int
	object    string // its path
}{
	{"S3", S3, OwnS3, http.StatusForbidden, "/%/missing"},
	{"GCS", GCS, OwnGCS, http.StatusNotFound, "/storage/v1/b/%/o/missing"},
	{"Azure", Azure, OwnAzure, http.StatusForbidden, "/%/missing"},
}

func TestServersStart(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			start := time.Now()
			first, second := st.shared(t), st.shared(t)
			t.Logf("%s at %s, %v with its building", first.URL(), first.Endpoint, time.Since(start).Round(time.Millisecond))
			if first.Endpoint != second.Endpoint {
				t.Errorf("two servers in one test binary: %s, %s", first.Endpoint, second.Endpoint)
			}
			if first.Bucket == second.Bucket || first.NewBucket(t) == second.Bucket {
				t.Errorf("two tests share the bucket %s", first.Bucket)
			}
			path := strings.ReplaceAll(st.object, "%", first.Bucket)
			if got := status(t, first.Endpoint+path); got != st.anonymous {
				t.Errorf("GET %s without credentials: status %d; want %d", path, got, st.anonymous)
			}
		})
	}
}

// TestSetenv: the environment is that of the copy, where a test changed one.
func TestSetenv(t *testing.T) {
	s := S3(t)
	proxy := *s
	proxy.Endpoint, proxy.SecretKey = "http://127.0.0.1:1", "wrong"
	proxy.Setenv(t)
	for name, want := range map[string]string{
		"AWS_ENDPOINT_URL_S3":   "http://127.0.0.1:1",
		"AWS_ACCESS_KEY_ID":     s.AccessKey,
		"AWS_SECRET_ACCESS_KEY": "wrong",
		"AWS_REGION":            s.Region,
	} {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
}

// TestRestart: a killed server answers nobody, and comes back at its address with
// its buckets.
func TestRestart(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			s := st.own(t)
			path := strings.ReplaceAll(st.object, "%", s.Bucket)
			s.Kill(t)
			if r, err := http.Get(s.Endpoint + path); err == nil {
				r.Body.Close()
				t.Fatalf("a killed server answers %s", r.Status)
			}
			start := time.Now()
			s.Restart(t)
			t.Logf("started again in %v", time.Since(start).Round(time.Millisecond))
			if got := status(t, s.Endpoint+path); got != st.anonymous {
				t.Errorf("after the restart: status %d; want %d", got, st.anonymous)
			}
		})
	}
}

// TestS3KeepsObjects: what is in the folder is there after a crash. Objects are
// put by requests in the tests of those who sign them.
func TestS3KeepsObjects(t *testing.T) {
	s := OwnS3(t)
	if err := os.WriteFile(filepath.Join(s.Folder(), "object"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	text, err := os.ReadFile(filepath.Join(s.Folder(), "object"))
	if err != nil || string(text) != "text" {
		t.Errorf("the object is %q, %v", text, err)
	}
}

// TestServersEndWithTheirTest: a server whose test binary is killed ends too.
func TestServersEndWithTheirTest(t *testing.T) {
	if name := os.Getenv("STORESERVER_CHILD"); name != "" {
		for _, st := range stores {
			if st.name == name {
				os.Stdout.WriteString("address " + st.shared(t).Address() + "\n")
				select {} // until killed
			}
		}
	}
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			st.shared(t) // skips here, not there
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			child := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+"TestServersEndWithTheirTest"+"$")
			child.Env = append(os.Environ(), "STORESERVER_CHILD="+st.name)
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			address := addressIn(t, out)
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = child.Wait() // killed
			untilRefused(t, address)
		})
	}
}

// TestBucketName: what all three stores take.
func TestBucketName(t *testing.T) {
	for test, want := range map[string]string{
		"TestA":                                  "-testa",
		"TestA/ü b__c":                           "-testa-b-c",
		strings.Repeat("x", 39) + "/y":           "-" + strings.Repeat("x", 39),
		strings.Repeat("0123456789/", 10):        "-0123456789-0123456789-0123456789-0123456",
		"TestA/" + strings.Repeat("/", 60) + "/": "-testa",
	} {
		got := bucketName(test)
		if _, rest, _ := strings.Cut(got, "-"); "-"+rest != want || len(got) > 63 {
			t.Errorf("bucketName(%q) = %q; want it to end in %q", test, got, want)
		}
	}
}

// untilRefused waits until nobody listens at address: until then a connection,
// on which nothing is asked, stays open.
func untilRefused(t *testing.T, address string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		c, err := net.DialTimeout("tcp", address, time.Until(deadline))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil {
			t.Fatalf("30 s after its test was killed the server is there: %v", err)
		}
		_ = c.SetReadDeadline(deadline)  // fails on a closed connection, as Read then does
		_, err = c.Read(make([]byte, 1)) // until it breaks
		c.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("30 s after its test was killed the server is there")
		}
	}
}

func status(t *testing.T, url string) int {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	return r.StatusCode
}

// addressIn reads the line "address …" among what a test binary prints.
func addressIn(t *testing.T, out io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "address "); ok {
			return address
		}
	}
	t.Fatalf("the child printed no address: %v", lines.Err())
	return ""
}
