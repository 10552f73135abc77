package main

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/deltafold/deltafold/internal/storeserver"
)

// serverScripts runs scripts against a server, each with a bucket of its own:
// BUCKET is its URL, and FOLDER the folder of an S3 server's buckets.
func serverScripts(t *testing.T, dir string, server *storeserver.Server) {
	t.Helper()
	runScripts(t, dir, func(e *testscript.Env) error {
		for _, variable := range server.Environment() {
			name, value, _ := strings.Cut(variable, "=")
			e.Setenv(name, value)
		}
		s := *server
		s.Bucket = server.NewBucket(t)
		e.Setenv("BUCKET", s.URL())
		e.Setenv("ENDPOINT", s.Endpoint)
		e.Setenv("SECRET", s.SecretKey)
		if strings.HasPrefix(s.URL(), "s3:") {
			e.Setenv("FOLDER", s.Folder())
		}
		return nil
	})
}

func TestS3Scripts(t *testing.T) { serverScripts(t, "testdata/s3", storeserver.S3(t)) }

func TestGCSScripts(t *testing.T) { serverScripts(t, "testdata/gcs", storeserver.GCS(t)) }

func TestAzureScripts(t *testing.T) { serverScripts(t, "testdata/azure", storeserver.Azure(t)) }
