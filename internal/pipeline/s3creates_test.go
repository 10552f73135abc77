package pipeline_test

import (
	"strings"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/internal/faultproxy"
)

// TestCreatesOnS3 has the conditional put of an object meet faults: what Create
// says became of it is never more than what is certain.
func TestCreatesOnS3(t *testing.T) {
	w := newWire(t, s3Server(t))
	plain, err := w.plain.Open(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	store, err := w.env.Open(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	first := func(f faultproxy.Fault) faultproxy.Decide {
		return faultproxy.Once(func(r *faultproxy.Request) bool { return r.Conditional }, f)
	}
	all := func(f faultproxy.Fault) faultproxy.Decide {
		return faultproxy.Always(func(r *faultproxy.Request) bool { return r.Conditional }, f)
	}
	lost, reset := faultproxy.Fault{Kind: faultproxy.LoseAnswer}, faultproxy.Fault{Kind: faultproxy.Reset}
	for i, c := range []struct {
		name   string
		decide faultproxy.Decide
		theirs bool // the object is there
		want   blobstore.Outcome
		there  string
	}{
		{"nothing", nil, false, blobstore.Created, "ours"},
		{"an object is there", nil, true, blobstore.Exists, "theirs"},
		{"a conflict once", first(faultproxy.Conflict()), false, blobstore.Created, "ours"},
		{"a conflict, and an object is there", first(faultproxy.Conflict()), true, blobstore.Exists, "theirs"},
		{"conflicts alone", all(faultproxy.Conflict()), false, blobstore.Unknown, ""},
		{"throttled once", first(faultproxy.SlowDown()), false, blobstore.Created, "ours"},
		{"throttled always", all(faultproxy.SlowDown()), false, blobstore.NotDone, ""},
		{"denied", all(faultproxy.AccessDenied()), false, blobstore.NotDone, ""},
		{"reset once", first(reset), false, blobstore.Created, "ours"},
		{"reset always", all(reset), false, blobstore.Unknown, ""},
		{"reset, then denied", faultproxy.First(first(reset), all(faultproxy.AccessDenied())), false, blobstore.Unknown, ""},
		{"the answer lost once", first(lost), false, blobstore.Exists, "ours"},
		{"all answers lost", all(lost), false, blobstore.Unknown, "ours"},
		{"all answers lost, and an object is there", all(lost), true, blobstore.Unknown, "theirs"},
		{"500 after the work", first(faultproxy.InternalErrorAfter()), false, blobstore.Exists, "ours"},
		{"late, then denied", faultproxy.First(first(faultproxy.Fault{Kind: faultproxy.Late}), all(faultproxy.AccessDenied())), false, blobstore.Unknown, "ours"},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := strings.Repeat("k", i+1)
			if c.theirs {
				if err := plain.Put(t.Context(), key, []byte("theirs")); err != nil {
					t.Fatal(err)
				}
			}
			if i == 0 { // finds out whether the store honours conditions
				if err := store.Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.proxy.SetDecide(c.decide)
			out, err := store.Create(t.Context(), key, []byte("ours"))
			w.proxy.SetDecide(nil)
			w.proxy.Land()
			if said := out == blobstore.Created || out == blobstore.Exists; out != c.want || (err == nil) != said {
				t.Errorf("got %s, %v; want %s", out, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), w.url+"/"+key+": ") {
				t.Errorf("the error does not name the object: %v", err)
			}
			got, err := plain.Get(t.Context(), key)
			if string(got) != c.there || (err == nil) != (c.there != "") {
				t.Errorf("the object is %q, %v; want %q", got, err, c.there)
			}
		})
	}
}
