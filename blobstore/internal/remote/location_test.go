package remote

import (
	"net/url"
	"testing"
)

func TestPrefixOf(t *testing.T) {
	for in, want := range map[string]string{
		"gs://b": "", "gs://b/": "", "gs://b//": "", "gs://b/a": "a/", "gs://b/a/b//": "a/b/",
		"gs://b/a b/%41%20%2F+é": "a b/%41%20%2F+é/",
		"gs://b/a?x=/y":          "a/",
		"gs://b/a//b":            "error", "gs://b//a": "error", "gs://b/a/../b": "error", "gs://b/./a": "error", "gs://b/a#b": "error",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := PrefixOf(u)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("PrefixOf(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}
