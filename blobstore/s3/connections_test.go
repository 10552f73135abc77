package s3_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltafold/deltafold/blobstore"
)

// TestConnectionsEndWithTheirStore opens many stores, as a long process does that
// works on many tables: those that nothing refers to any more hold no connection.
func TestConnectionsEndWithTheirStore(t *testing.T) {
	var open atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`<Error><Code>NoSuchKey</Code></Error>`))
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	srv.Start()
	defer srv.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "r",
	} {
		t.Setenv(name, value)
	}
	const stores = 50
	for range stores {
		s, err := blobstore.OpenWith(t.Context(), "s3://bucket/p", &blobstore.Config{Endpoint: srv.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "k"); !errors.Is(err, blobstore.ErrNotFound) {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(20 * time.Second)
	for open.Load() > 5 && time.Now().Before(end) {
		runtime.GC()
		runtime.Gosched()
	}
	if n := open.Load(); n > 5 {
		t.Errorf("%d of %d stores hold a connection that nothing refers to", n, stores)
	}
}
