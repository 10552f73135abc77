package storeserver

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestServers: each server starts and has a bucket.
func TestS3(t *testing.T) {
	s := S3(t)
	if err := os.WriteFile(filepath.Join(s.Folder(), "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := http.Get(s.Endpoint + "/" + s.Bucket + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("a request without credentials is answered %s; want 403", r.Status)
	}
}

func TestOwn(t *testing.T) {
	s := OwnS3(t)
	before := s.Endpoint
	s.Kill(t)
	if _, err := http.Get(s.Endpoint); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	r, err := http.Get(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if s.Endpoint != before {
		t.Error("address changed")
	}
}
