package deltatable_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
)

// Data files named by absolute paths, in every form, are opened in their own
// folder; one below the table's own root is the table's own file, whichever
// way it is named (I3).
func TestAbsolutePaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my table %20 ~")
	elsewhere := filepath.Join(t.TempDir(), "else where%41")
	if err := os.MkdirAll(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := blobstore.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	tab := deltatable.NewTable(store, testOptions())
	create(t, tab, "id long", nil, nil)
	encoded := func(p string) string { return (&url.URL{Path: p}).EscapedPath() }
	s := snapshot(t, tab)
	var adds []*deltatable.Add
	for i, form := range []string{"plain", "file:", "file://", "own", "own file://"} {
		a := write(t, tab, s.Layout(), batch(t, s.Schema(), `[{"id":`+string(rune('0'+i))+`}]`))[0]
		from, to := filepath.Join(dir, a.Path), filepath.Join(elsewhere, a.Path)
		switch form {
		case "own":
			a.Path = encoded(from)
		case "own file://":
			a.Path = "file://" + encoded(from)
		default:
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
			a.Path = strings.TrimPrefix(form, "plain") + encoded(to)
		}
		adds = append(adds, a)
	}
	if _, err := tab.TryCommit(t.Context(), s, &deltatable.Commit{Operation: "CLONE", Adds: adds}); err != nil {
		t.Fatal(err)
	}
	s = snapshot(t, tab)
	got := scanRows(t, s, nil)
	slices.Sort(got)
	want := []string{`{"id":0}`, `{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error("-want +got\n", d)
	}
	respelled := *s.Files()[slices.IndexFunc(s.Files(), func(a *deltatable.Add) bool { return strings.HasPrefix(a.Path, "file://") })]
	respelled.Path = strings.TrimPrefix(respelled.Path, "file://")
	if _, err := tab.TryCommit(t.Context(), s, &deltatable.Commit{Operation: "DELETE", Removes: []*deltatable.Add{&respelled}}); err == nil {
		t.Error("a remove whose path is spelled otherwise was committed")
	}
	// Removed by the path as written, also where another form would do.
	if _, err := tab.TryCommit(t.Context(), s, &deltatable.Commit{Operation: "DELETE", Removes: s.Files()}); err != nil {
		t.Fatal(err)
	}
	e, err := tab.Entry(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var removed, added []string
	for r := range e.Removes() {
		removed = append(removed, r.Path)
	}
	for _, a := range adds {
		added = append(added, a.Path)
	}
	slices.Sort(removed)
	slices.Sort(added)
	if d := cmp.Diff(added, removed); d != "" {
		t.Error("paths of the removes: -want +got\n", d)
	}
	if n := len(snapshot(t, tab).Files()); n != 0 {
		t.Errorf("%d files are still live", n)
	}
}

// Paths into other buckets are opened by Options.Open, as the bucket and the key in
// it, which is decoded exactly once.
func TestPathsIntoOtherStores(t *testing.T) {
	store, err := blobstore.Open(t.Context(), "mem://paths-into-other-stores")
	if err != nil {
		t.Fatal(err)
	}
	other, err := blobstore.Open(t.Context(), "mem://other-store")
	if err != nil {
		t.Fatal(err)
	}
	var opened []string
	o := *testOptions()
	o.Open = func(_ context.Context, url string) (*blobstore.Store, error) {
		opened = append(opened, url)
		return other, nil
	}
	tab := deltatable.NewTable(store, &o)
	create(t, tab, "id long", nil, nil)
	s := snapshot(t, tab)
	var adds []*deltatable.Add
	for i, c := range []struct{ root, path, key string }{
		{"s3a://other/", "a.parquet", "a.parquet"},
		{"s3a://other/", "a%20b/p=50%2525%3F%23/c.parquet", "a b/p=50%25?#/c.parquet"},
		{"abfss://c@account.example/", "t/d%20.parquet", "t/d .parquet"},
		{"mem://m/", "x%20y/e.parquet", "e.parquet"},
	} {
		a := write(t, tab, s.Layout(), batch(t, s.Schema(), `[{"id":`+string(rune('0'+i))+`}]`))[0]
		data, err := store.Get(t.Context(), a.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Put(t.Context(), c.key, data); err != nil {
			t.Fatal(err)
		}
		a.Path = c.root + c.path
		adds = append(adds, a)
	}
	if _, err := tab.TryCommit(t.Context(), s, &deltatable.Commit{Operation: "CLONE", Adds: adds}); err != nil {
		t.Fatal(err)
	}
	got := scanRows(t, snapshot(t, tab), nil)
	slices.Sort(got)
	if d := cmp.Diff([]string{`{"id":0}`, `{"id":1}`, `{"id":2}`, `{"id":3}`}, got); d != "" {
		t.Error("-want +got\n", d)
	}
	slices.Sort(opened)
	want := []string{"abfss://c@account.example", "mem://m/x y", "s3://other"}
	if d := cmp.Diff(want, opened); d != "" {
		t.Error("-want +got\n", d)
	}
}

// A path cannot say how its bucket is reached: that would send credentials to
// whatever server the log's writer likes.
func TestPathsWithParametersAreRefused(t *testing.T) {
	store, err := blobstore.Open(t.Context(), "mem://paths-with-parameters")
	if err != nil {
		t.Fatal(err)
	}
	o := *testOptions()
	o.Open = func(_ context.Context, url string) (*blobstore.Store, error) {
		t.Errorf("%s was opened", url)
		return store, nil
	}
	tab := deltatable.NewTable(store, &o)
	create(t, tab, "id long", nil, nil)
	s := snapshot(t, tab)
	for _, path := range []string{
		"s3://b?endpoint=x/a.parquet",
		"s3://b%3Fendpoint=http:%252F%252Felsewhere.example%26region=r/a.parquet",
		"gs://b%23/a.parquet",
		"abfss://c@account.example%253Fdomain=x/a.parquet",
	} {
		f, err := s.OpenFile(t.Context(), &deltatable.Add{Path: path, PartitionValues: map[string]*string{}, Size: 5})
		if err == nil {
			_ = f.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), "names no bucket") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
