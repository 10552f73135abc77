package azure_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/azure"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/internal/storeserver"
)

// TestMain gives the tests, and the processes they start, a cache folder of their
// own: what was remembered of another server at the same port must not count.
func TestMain(m *testing.M) {
	if os.Getenv("DELTAFOLD_BLOBSTORETEST_CHILD") == "" {
		dir, err := os.MkdirTemp("", "deltafold-azure-cache-")
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
	s := storeserver.Azure(t)
	s.Setenv(t)
	t.Setenv("XDG_CACHE_HOME", os.Getenv("DELTAFOLD_TEST_CACHE"))
	return s
}

func open(t *testing.T, location string, c *blobstore.Config) *blobstore.Store {
	t.Helper()
	s, err := blobstore.OpenWith(t.Context(), location, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	srv := server(t)
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			return open(t, "azblob://"+srv.NewBucket(t)+"/root %41 of", nil)
		},
		Processes: true,
		Refuses:   func(key string) bool { return strings.ContainsAny(key, "\\\x01") },
	})
}
