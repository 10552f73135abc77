package pipeline_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/s3" // tests, and the processes they start, open its URLs
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/storeserver"
)

// place is where the tables of a test are, so that one test runs on folders and
// on object stores.
type place struct {
	root string // path or URL
	env  *pipeline.Env
	// span is about how long a run in a process of its own takes there.
	span time.Duration
}

var tables atomic.Int64

// onFiles is a folder of the test.
func onFiles(t *testing.T) *place {
	t.Helper()
	return &place{root: t.TempDir(), env: &pipeline.Env{}, span: 60 * time.Millisecond}
}

// onS3 is a bucket on the S3 server; processes of the test reach it too.
func onS3(t *testing.T) *place {
	t.Helper()
	s := s3Server(t)
	return &place{root: s.URL(), env: &pipeline.Env{}, span: 90 * time.Millisecond}
}

// s3Server has this process and its children use a bucket of the S3 server.
func s3Server(t *testing.T) *storeserver.Server {
	t.Helper()
	s := storeserver.S3(t)
	s.Setenv(t)
	return s
}

// table is the location of a table that is not there yet.
func (p *place) table() string { return fmt.Sprintf("%s/t%d", p.root, tables.Add(1)) }

// clone copies a table, and its outcomes, to a new location.
func (p *place) clone(t *testing.T, table string) string {
	t.Helper()
	to := p.table()
	for _, suffix := range []string{"", "-outcomes"} {
		copyStore(t, p.open(t, table+suffix), p.open(t, to+suffix))
	}
	return to
}

func (p *place) open(t *testing.T, location string) *blobstore.Store {
	t.Helper()
	s, err := blobstore.OpenWith(t.Context(), location, p.env.Store)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func copyStore(t *testing.T, from, to *blobstore.Store) {
	t.Helper()
	for info, err := range from.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := from.Get(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Put(t.Context(), info.Key, data); err != nil {
			t.Fatal(err)
		}
	}
}
