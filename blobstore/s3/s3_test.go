package s3_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	_ "github.com/deltafold/deltafold/blobstore/s3"
	"github.com/deltafold/deltafold/internal/storeserver"
)

// TestMain gives the tests, and the processes they start, a cache folder of their
// own: what was remembered of another server at the same port must not count.
func TestMain(m *testing.M) {
	if os.Getenv("DELTAFOLD_BLOBSTORETEST_CHILD") == "" {
		dir, err := os.MkdirTemp("", "deltafold-s3-cache-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = os.Setenv("DELTAFOLD_TEST_CACHE", dir)
	}
	blobstoretest.Main(m)
}

// server starts a server and has this process and its children use it.
func server(t *testing.T) *storeserver.Server {
	t.Helper()
	s := storeserver.S3(t)
	s.Setenv(t)
	t.Setenv("XDG_CACHE_HOME", os.Getenv("DELTAFOLD_TEST_CACHE"))
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
	var n atomic.Int64
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			return open(t, fmt.Sprintf("%s/root %%41 of/%d", srv.URL(), n.Add(1)))
		},
		Processes: true,
		XMLKeys:   true, // versitygw does not know encoding-type
	})
}
