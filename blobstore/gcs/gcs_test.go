package gcs_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	_ "github.com/deltafold/deltafold/blobstore/gcs"
	"github.com/deltafold/deltafold/internal/storeserver"
)

func TestMain(m *testing.M) { blobstoretest.Main(m) }

// server starts a server and has this process and its children use it. It is
// fake-gcs-server, which is not GCS: it takes any credentials, ignores the
// generation that a download asks for, does not check where a part of an upload
// begins, takes the question how far an upload got for its end, and never
// throttles. wire_test.go has a server for these.
func server(t *testing.T) *storeserver.Server {
	t.Helper()
	s := storeserver.GCS(t)
	s.Setenv(t)
	return s
}

func open(t *testing.T, location string) *blobstore.Store {
	t.Helper()
	s, err := blobstore.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	srv := server(t)
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			return open(t, "gcs://"+srv.NewBucket(t)+"/root %41 of?anonymous=true")
		},
		Processes: true,
	})
}

func TestCanonicalURL(t *testing.T) {
	srv := server(t)
	s := open(t, "gcs://"+srv.Bucket+"/a b/%41//?anonymous=true")
	if want := "gs://" + srv.Bucket + "/a b/%41"; s.URL() != want {
		t.Fatalf("URL %q, want %q", s.URL(), want)
	}
	if err := s.Put(t.Context(), "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, s.URL()).Get(t.Context(), "k"); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := open(t, srv.URL()).Get(t.Context(), "a b/%41/k"); string(got) != "x" || err != nil {
		t.Errorf("from the whole bucket: %q, %v", got, err)
	}
}

// A bucket that does not exist is no empty store.
func TestNoBucket(t *testing.T) {
	server(t)
	s := open(t, "gs://no-such-bucket")
	for _, err := range s.List(t.Context(), "", "") {
		if err == nil || errors.Is(err, blobstore.ErrNotFound) {
			t.Errorf("List: %v", err)
		}
	}
	if out, err := s.Create(t.Context(), "k", nil); out != blobstore.NotDone || err == nil {
		t.Errorf("Create: %s, %v", out, err)
	}
}

func TestLargeObjects(t *testing.T) {
	srv := server(t)
	s := open(t, srv.URL())
	for _, n := range []int{8 << 20, 8<<20 + 1, 24<<20 + 12345} {
		data := bytes.Repeat([]byte("0123456789abcdef!"), n/17+1)[:n]
		w, err := s.NewWriter(t.Context(), "big")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), "big")
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d of %d bytes, %v", len(got), n, err)
		}
	}
}

// A write that is cancelled on its way leaves nothing to be seen.
func TestCancelledUpload(t *testing.T) {
	srv := server(t)
	s := open(t, srv.URL())
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.NewWriter(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 20<<20)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	for info, err := range s.List(t.Context(), "", "") {
		t.Errorf("left: %+v, %v", info, err)
	}
}
