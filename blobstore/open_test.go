package blobstore_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
)

func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for location, want := range map[string]string{
		"t":                                   "t",
		"./t":                                 "t",
		"t/":                                  "t",
		"x/../t":                              "t",
		dir + "/t":                            "t",
		"file://" + dir + "/t":                "t",
		"file://" + dir + "/t/":               "t",
		"file://localhost" + dir + "/t":       "t",
		"file:" + dir + "/t":                  "t",
		"FILE://" + dir + "/t":                "t",
		"a b%41?#":                            "a b%41?#",
		"a:b":                                 "a:b",
		"2024-01-01 10:/x":                    "2024-01-01 10:/x",
		"file://" + dir + "/a%20b%2541%3F%23": "a b%41?#",
		"file://" + dir + "/ä":                "ä",
	} {
		s, err := blobstore.Open(t.Context(), location)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := s.Put(t.Context(), "k", []byte(location)); err != nil {
			t.Error(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, want, "k"))
		if string(got) != location {
			t.Errorf("%s: %q, %v", location, got, err)
		}
		again, err := blobstore.Open(t.Context(), s.URL())
		if err != nil || again.URL() != s.URL() {
			t.Errorf("%s: URL %s does not open itself: %v", location, s.URL(), err)
			continue
		}
		if got, err := again.Get(t.Context(), "k"); string(got) != location {
			t.Errorf("%s: by its URL %s: %q, %v", location, s.URL(), got, err)
		}
	}
	if s, err := blobstore.Open(t.Context(), "new/deep/er"); err != nil {
		t.Error(err)
	} else if _, err := os.Stat(dir + "/new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opening %s made a folder: %v", s.URL(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for location, want := range map[string]string{
		"":                  "empty",
		"s3://bucket/t":     `"s3"`,
		"abfss://c@a.dfs/t": `"abfss"`,
		"file://host/t":     `"host"`,
		"file:///t?x=1":     "%3F",
		"file:///t#x":       "%23",
		"file:///t%zz":      "%zz",
		"file:///t%00":      "NUL",
		"mem://":            "mem://name",
	} {
		s, err := blobstore.Open(t.Context(), location)
		if err == nil {
			t.Errorf("%q opened as %s", location, s.URL())
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error without %s: %v", location, want, err)
		}
	}
}

func TestOpenMemory(t *testing.T) {
	a, err := blobstore.Open(t.Context(), "mem://a/b/")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Put(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	same, err := blobstore.Open(t.Context(), "mem://a/b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := same.Get(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	other, err := blobstore.Open(t.Context(), "mem://a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(t.Context(), "k"); !errors.Is(err, blobstore.ErrNotFound) {
		t.Error(err)
	}
}

// badDriver answers what a driver must not.
type badDriver struct {
	blobstore.Driver
	outcome blobstore.Outcome
	err     error
}

func (d badDriver) Create(context.Context, string, []byte) (blobstore.Outcome, error) {
	return d.outcome, d.err
}

func TestRegister(t *testing.T) {
	var opened []string
	blobstore.Register("test-register", func(_ context.Context, u *url.URL, c *blobstore.Config) (blobstore.Driver, string, error) {
		opened = append(opened, u.String()+" at "+c.Endpoint)
		return badDriver{}, "test-register://" + u.Host + strings.TrimRight(u.Path, "/"), nil
	})
	s, err := blobstore.OpenWith(t.Context(), "test-register://b/t/", &blobstore.Config{Endpoint: "here"})
	if err != nil {
		t.Fatal(err)
	}
	if s.URL() != "test-register://b/t" || len(opened) != 1 || opened[0] != "test-register://b/t/ at here" {
		t.Errorf("URL %s, opened %q", s.URL(), opened)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second Register of a scheme did not panic")
		}
	}()
	blobstore.Register("file", nil)
}

// Success is recognised positively: an answer that contradicts itself is Unknown.
func TestCreateDistrustsDrivers(t *testing.T) {
	fault := errors.New("fault")
	for _, c := range []struct {
		d    badDriver
		want blobstore.Outcome
	}{
		{badDriver{outcome: blobstore.Created, err: fault}, blobstore.Unknown},
		{badDriver{outcome: blobstore.Exists, err: fault}, blobstore.Unknown},
		{badDriver{outcome: blobstore.Unknown}, blobstore.Unknown},
		{badDriver{outcome: blobstore.NotDone}, blobstore.Unknown},
		{badDriver{outcome: blobstore.NotDone, err: fault}, blobstore.NotDone},
		{badDriver{outcome: 77}, blobstore.Unknown},
	} {
		got, err := blobstore.New(c.d, "bad:").Create(t.Context(), "k", nil)
		if got != c.want || err == nil {
			t.Errorf("%s, %v: got %s, %v; want %s", c.d.outcome, c.d.err, got, err, c.want)
		}
	}
}
