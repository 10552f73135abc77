package s3_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	_ "github.com/deltafold/deltafold/blobstore/s3"
	"github.com/deltafold/deltafold/internal/storeserver"
)

func TestMain(m *testing.M) { blobstoretest.Main(m) }

// server starts a server and has this process and its children use it.
func server(t *testing.T) *storeserver.Server {
	t.Helper()
	s := storeserver.S3(t)
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
	var n atomic.Int64
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			return open(t, fmt.Sprintf("%s/root %%41 of/%d", srv.URL(), n.Add(1)))
		},
		Processes: true,
		XMLKeys:   true, // versitygw does not know encoding-type
	})
}
