package main

import (
	"bytes"
	"crypto/md5"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// fakeS3 is as much of S3 as small tables need, in memory, with any credentials.
type fakeS3 struct {
	ignores bool // the conditions of puts

	mu      sync.Mutex
	objects map[string][]byte
	// after is told of each request that was carried out, before it is answered.
	after func(r *http.Request)
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil || bucket == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	answer := f.answer(r, bucket+"/", key, body)
	after := f.after
	f.mu.Unlock()
	if after != nil {
		after(r)
	}
	answer(w)
}

// answer carries a request out and gives what answers it.
func (f *fakeS3) answer(r *http.Request, bucket, key string, body []byte) func(w http.ResponseWriter) {
	refuse := func(status int, code string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			if r.Method != http.MethodHead {
				fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
			}
		}
	}
	data, there := f.objects[bucket+key]
	tag := fmt.Sprintf(`"%x"`, md5.Sum(data))
	switch {
	case key == "" && r.Method == http.MethodGet:
		return f.list(r, bucket)
	case key == "":
		return func(http.ResponseWriter) {}
	case r.Method == http.MethodDelete:
		delete(f.objects, bucket+key)
		return func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
	case r.Method == http.MethodPut && there && r.Header.Get("If-None-Match") == "*" && !f.ignores:
		return refuse(http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		f.objects[bucket+key] = body
		return func(w http.ResponseWriter) { w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(body))) }
	case !there:
		return refuse(http.StatusNotFound, "NoSuchKey")
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Unix(1700000000, 0), bytes.NewReader(data))
	}
}

func (f *fakeS3) list(r *http.Request, bucket string) func(w http.ResponseWriter) {
	type object struct {
		Key, LastModified, ETag string
		Size                    int
	}
	out := struct {
		XMLName      xml.Name `xml:"ListBucketResult"`
		EncodingType string
		KeyCount     int
		IsTruncated  bool
		Contents     []object
	}{EncodingType: "url"}
	q := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		key, in := strings.CutPrefix(name, bucket)
		if !in || !strings.HasPrefix(key, q.Get("prefix")) || key <= q.Get("start-after") {
			continue
		}
		out.Contents = append(out.Contents, object{
			url.QueryEscape(key), "2023-11-14T22:13:20.000Z", fmt.Sprintf(`"%x"`, md5.Sum(f.objects[name])), len(f.objects[name]),
		})
	}
	out.KeyCount = len(out.Contents)
	text, err := xml.Marshal(out)
	return func(w http.ResponseWriter) {
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text) // a client that went away is none of the server's trouble
	}
}

// environment leads to the server at endpoint, and hides the user's own settings.
func (f *fakeS3) environment(endpoint string) map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ENDPOINT_URL": "", "AWS_REGION": "us-east-1", "AWS_PROFILE": "",
		"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// TestFakeS3Scripts runs scripts each on a store that ignores conditions.
func TestFakeS3Scripts(t *testing.T) {
	runScripts(t, "testdata/fakes3", func(e *testscript.Env) error {
		f := &fakeS3{ignores: true, objects: map[string][]byte{}}
		server := httptest.NewServer(f)
		e.Defer(server.Close)
		for name, value := range f.environment(server.URL) {
			e.Setenv(name, value)
		}
		return nil
	})
}

// TestUndecidedCommitIsResumed interrupts a run whose log entry was put, and never
// answered nor read back. The same command with --resume finds it.
func TestUndecidedCommitIsResumed(t *testing.T) {
	f := &fakeS3{objects: map[string][]byte{}}
	put, heal := make(chan struct{}, 16), make(chan struct{})
	const entry = "/b/t/_delta_log/00000000000000000000.json"
	f.after = func(r *http.Request) {
		if r.URL.Path != entry || r.Method == http.MethodHead {
			return
		}
		f.mu.Lock()
		_, there := f.objects[strings.TrimPrefix(entry, "/")]
		f.mu.Unlock()
		if !there {
			return // looked for before it was put
		}
		if r.Method == http.MethodPut {
			put <- struct{}{}
		}
		select {
		case <-heal:
		case <-r.Context().Done():
		}
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	for name, value := range f.environment(server.URL) {
		t.Setenv(name, value)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	row := `{"change_id":"1","entity_id":"a","source_version":1,"operation":"upsert","value":"x"}` + "\n"
	if err := os.WriteFile(dir+"/day.jsonl", []byte(row), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, _, stderr := startCommand(t, dir, "apply", "s3://b/t", "day.jsonl")
	<-put
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != statusInterrupted {
		t.Fatalf("got %v, want exit status %d (%s)", err, statusInterrupted, stderr)
	}
	close(heal)
	resume := regexp.MustCompile(`--resume ([0-9a-f-]{36}@0): it looks for that commit first`).FindStringSubmatch(stderr.String())
	if resume == nil || !strings.Contains(stderr.String(), "it is not known whether transaction") {
		t.Fatalf("the message does not say how to resume: %s", stderr)
	}
	cmd, _, stderr = startCommand(t, dir, "apply", "s3://b/t", "day.jsonl", "--resume", resume[1])
	if err := cmd.Wait(); err != nil {
		t.Fatalf("resume: %v (%s)", err, stderr)
	}
	var entries []string
	for name := range f.objects {
		if strings.HasPrefix(name, "b/t/_delta_log/") {
			entries = append(entries, name)
		}
	}
	if d := cmp.Diff([]string{strings.TrimPrefix(entry, "/")}, entries); d != "" {
		t.Errorf("log of the table: -want +got\n%s", d)
	}
}
