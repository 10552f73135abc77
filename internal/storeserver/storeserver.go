// Package storeserver runs real object stores for tests: versitygw for S3,
// fake-gcs-server for GCS, Azurite for Azure, each as a subprocess on a free port
// of this machine.
//
//	func TestCommit(t *testing.T) {
//		server := storeserver.S3(t) // a fresh bucket
//		server.Setenv(t)            // AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, …
//		bucket, err := blobstore.Open(t.Context(), server.URL())
//		…
//	}
//
// S3, GCS and Azure share one server among the tests of a test binary; it starts
// at first use and ends with the binary, however that ends. OwnS3, OwnGCS and
// OwnAzure start one for the test alone, which Kill and Restart need.
//
// The servers of S3 and GCS are built at first use from the modules tools/s3gw
// and tools/gcsgw, with the Go toolchain and its module proxy alone, into
// $DELTAFOLD_SERVERS, by default deltafold-servers in the user's cache folder.
// Azurite needs node; .ci/servers installs it there, and builds the others.
//
// A test whose server cannot be had skips and says why; with
// DELTAFOLD_REQUIRE_SERVERS=1 it fails.
//
// # Caveats
//
// These are not the real services: fake-gcs-server takes any credentials, and none
// of them throttles. Azurite keeps objects in their files at once but writes its
// list of them every few seconds: what it said just before Kill may be forgotten.
// A GCS server of a test's own is over a folder and cleans names of objects as
// paths (a//b is a/b); the shared one keeps them. Faults come from a proxy in
// front: copy the Server, set the copy's Endpoint.
package storeserver

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// Server is a bucket on a running server. Its fields may be changed in a copy,
// for wrong credentials or a proxy in front. Safe for concurrent use.
type Server struct {
	// Endpoint is the URL of the server, without a slash at its end; for Azure it
	// has the account's name at its end.
	Endpoint string
	// Bucket is the name of a bucket (Azure: container) that no other test uses.
	Bucket string
	// AccessKey is the key's id; for Azure the name of the account; "" for GCS.
	AccessKey string
	// SecretKey belongs to AccessKey; made for the test, or published by Azurite.
	SecretKey string
	// Region is that of S3, else "".
	Region string

	process *process
}

// S3 makes a bucket on the S3 server of this test binary.
func S3(t testing.TB) *Server { return shared(t, s3) }

// GCS makes a bucket on the GCS server of this test binary.
func GCS(t testing.TB) *Server { return shared(t, gcs) }

// Azure makes a container on the Azure server of this test binary.
func Azure(t testing.TB) *Server { return shared(t, azure) }

// OwnS3 starts an S3 server for this test alone, with a bucket. It ends with t.
func OwnS3(t testing.TB) *Server { return own(t, s3) }

// OwnGCS starts a GCS server for this test alone, with a bucket. It ends with t.
func OwnGCS(t testing.TB) *Server { return own(t, gcs) }

// OwnAzure starts an Azure server for this test alone, with a container. It ends
// with t.
func OwnAzure(t testing.TB) *Server { return own(t, azure) }

// URL names the bucket as deltafold's commands take it: s3://, gs:// or azblob://.
func (s *Server) URL() string { return s.process.kind.scheme + "://" + s.Bucket }

// Environment is what a child process needs to reach the server, in the form
// NAME=value, to be added to os.Environ(). It also hides the user's own settings
// of that cloud. The values are those of deltafold, the clouds' own SDKs,
// delta-rs and gocloud.dev.
func (s *Server) Environment() []string { return s.process.kind.environment(s) }

// Setenv sets Environment for this process until t ends, and gives t a cache folder
// of its own: what was remembered of another server at the same address must not
// count. NB: the cache of a go command that t runs moves too. Not for parallel tests.
func (s *Server) Setenv(t *testing.T) {
	t.Helper()
	for _, e := range s.Environment() {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// NewBucket makes one more bucket and returns its name.
func (s *Server) NewBucket(t testing.TB) string {
	t.Helper()
	name := bucketName(t.Name())
	if err := s.process.kind.makeBucket(s.process, name); err != nil {
		t.Fatalf("make bucket %s: %v", name, err)
	}
	return name
}

// Folder is where an S3 server keeps the bucket: an object is a file of that
// name below it, and what is not yet an object stands below .sgwtmp. It panics
// for other servers.
func (s *Server) Folder() string {
	if s.process.kind != s3 {
		panic("storeserver: Folder is for S3 alone")
	}
	return s.process.root + string(os.PathSeparator) + s.Bucket
}

// Kill ends the server at once, as a crash does (SIGKILL); requests fail until
// Restart. The server must be the test's own.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.process.mustBeOwn(t)
	s.process.kill()
}

// Restart starts the server again at the same address with what it had stored,
// killing it first if it runs. The server must be the test's own.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.process.mustBeOwn(t)
	s.process.kill()
	if err := s.process.start(); err != nil {
		t.Fatalf("restart the %s server: %v", s.process.kind.name, err)
	}
}

// Address is the server's host and port.
func (s *Server) Address() string { return s.process.address }

var buckets atomic.Int64

// bucketName is a name that every store takes: at most 63 of a-z, 0-9 and single
// hyphens. It is unique to this process, as is the server.
func bucketName(test string) string {
	words := strings.FieldsFunc(strings.ToLower(test), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	name := strings.Join(words, "-")
	if len(name) > 40 {
		name = strings.TrimRight(name[:40], "-")
	}
	return fmt.Sprintf("b%d-%s", buckets.Add(1), name)
}
