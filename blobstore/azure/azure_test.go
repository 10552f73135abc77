package azure_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
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

func TestStore(t *testing.T) {
	srv := storeserver.Azure(t)
	srv.Setenv(t)
	t.Setenv("XDG_CACHE_HOME", os.Getenv("DELTAFOLD_TEST_CACHE"))
	var n atomic.Int64
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			s, err := blobstore.Open(t.Context(), fmt.Sprintf("%s/root %%41 of/%d", srv.URL(), n.Add(1)))
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Processes: true,
		Refuses:   func(key string) bool { return strings.ContainsAny(key, "\\\x01") },
	})
}
