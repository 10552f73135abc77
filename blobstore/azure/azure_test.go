package azure_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/azure"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/internal/storeserver"
)

func TestMain(m *testing.M) { blobstoretest.Main(m) }

func TestStore(t *testing.T) {
	srv := storeserver.Azure(t)
	srv.Setenv(t)
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
