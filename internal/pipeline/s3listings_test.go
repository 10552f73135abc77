package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/azure" // all clouds list
	_ "github.com/deltafold/deltafold/blobstore/gcs"
	"github.com/deltafold/deltafold/internal/faultproxy"
	"github.com/deltafold/deltafold/internal/storeserver"
)

// TestCutListings has the answers to listings be cut at every place, with a
// Content-Length that fits: a listing that came in part is none (I4).
func TestCutListings(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  func(testing.TB) *storeserver.Server
		dialect faultproxy.Dialect
		kind    string
	}{
		{"S3", storeserver.S3, faultproxy.S3, "ListObjects"},
		{"GCS", storeserver.GCS, faultproxy.GCS, "objects.list"},
		{"Azure", storeserver.Azure, faultproxy.Azure, "ListBlobs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.server(t)
			p := faultproxy.New(t, "http://"+s.Address(), &faultproxy.Options{Dialect: c.dialect})
			through := *s
			through.Endpoint = strings.Replace(s.Endpoint, "http://"+s.Address(), p.URL(), 1)
			through.Setenv(t)
			store, err := blobstore.OpenWith(t.Context(), s.URL()+"/t", &blobstore.Config{Sleep: noWait})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for i := range 3 {
				want = append(want, fmt.Sprintf("_delta_log/%020d.json", i))
				if err := store.Put(t.Context(), want[i], []byte("{}\n")); err != nil {
					t.Fatal(err)
				}
			}
			list := func() ([]string, error) {
				var keys []string
				for info, err := range store.List(t.Context(), "_delta_log/", "") {
					if err != nil {
						return nil, err
					}
					keys = append(keys, info.Key)
				}
				return keys, nil
			}
			length := 1
			for cut := 0; cut < length; cut += 1 + cut/5 { // most often near the beginning
				p.SetDecide(faultproxy.Always(func(r *faultproxy.Request) bool { return r.Kind == c.kind }, faultproxy.Fault{
					Kind: faultproxy.ShorterBody,
					Cut:  func(body []byte) int { length = len(strings.TrimSpace(string(body))); return cut },
				}))
				if keys, err := list(); err == nil && !cmp.Equal(want, keys) {
					t.Errorf("cut after %d of %d bytes: %q", cut, length, keys)
				}
			}
			if length < 200 {
				t.Errorf("listings have %d bytes: they did not go through the proxy", length)
			}
			p.SetDecide(nil)
			if keys, err := list(); err != nil || !cmp.Equal(want, keys) {
				t.Errorf("uncut: %q, %v", keys, err)
			}
		})
	}
}
