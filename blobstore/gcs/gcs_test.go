package gcs_test

import (
	"testing"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	_ "github.com/deltafold/deltafold/blobstore/gcs"
	"github.com/deltafold/deltafold/internal/storeserver"
)

func TestMain(m *testing.M) { blobstoretest.Main(m) }

func TestSuite(t *testing.T) {
	server := storeserver.GCS(t)
	server.Setenv(t)
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			return open(t, "gs://"+server.NewBucket(t)+"/root %41 of", nil)
		},
		Processes: true,
	})
}

func open(t *testing.T, location string, c *blobstore.Config) *blobstore.Store {
	t.Helper()
	s, err := blobstore.OpenWith(t.Context(), location, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
