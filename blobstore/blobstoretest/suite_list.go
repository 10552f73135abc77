package blobstoretest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
)

// oddParts are parts of keys that stores and their clients have been seen to
// escape, decode, trim, hide or sort wrongly.
var oddParts = []string{
	"%", "%20", "%2F", "%252F", "a b", " lead", "trail ", "a+b", "a&b=c", "a?b", "a#b", "a:b", "a;b", "a\\b", "a|b",
	"a*b", "a\"b", "a'b", "a<b>", "[a]", "{a}", "$a", "~a", "`a", "a\tb", "a\nb", "a\x01b", "a\x7fb", "ä", "a\u0308", "日本語", "😀",
	".hidden", "..a", "a..", "a.", "-a", "_a", "ts=2024-01-01 00%3A00%3A00", "__HIVE_DEFAULT_PARTITION__", "A", "a", "CON", "a.json#1",
}

func testOddKeys(t *testing.T, h Harness) {
	s := h.Open(t)
	parts := oddParts
	if h.XMLKeys {
		parts = slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return strings.Contains(p, "\x01") })
	}
	var want []string
	for i, part := range parts {
		for _, key := range []string{"f/" + part, part + "/f", "c/" + part, "w/" + part} {
			err := writeOdd(t.Context(), s, key, fmt.Sprint(i, key))
			if h.Refuses != nil && h.Refuses(key) {
				wantRefused(t, s, key, err)
				continue
			}
			want = append(want, key)
			if err != nil {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
	wantKeys(t, s, want...)
	for i, part := range parts {
		for _, key := range []string{"f/" + part, part + "/f", "c/" + part, "w/" + part} {
			if h.Refuses != nil && h.Refuses(key) {
				continue
			}
			wantObject(t, s, key, fmt.Sprint(i, key))
			if info, err := s.Stat(t.Context(), key); err != nil || info.Key != key {
				t.Errorf("Stat %q: %+v, %v", key, info, err)
			}
		}
	}
	for _, key := range want {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	wantKeys(t, s)
}

// wantRefused: a key that cannot be kept is an error and nothing else, whatever is
// asked of it; err is that of writing.
func wantRefused(t *testing.T, s *blobstore.Store, key string, err error) {
	t.Helper()
	_, getErr := s.Get(t.Context(), key)
	_, statErr := s.Stat(t.Context(), key)
	for i, err := range []error{err, getErr, statErr, s.Delete(t.Context(), key)} {
		if err == nil || errors.Is(err, blobstore.ErrNotFound) {
			t.Errorf("%q, call %d: %v", key, i, err)
		}
	}
}

// writeOdd writes an object in the way that the first part of its key says.
func writeOdd(ctx context.Context, s *blobstore.Store, key, data string) error {
	switch {
	case strings.HasPrefix(key, "c/"):
		_, err := s.Create(ctx, key, []byte(data))
		return err
	case strings.HasPrefix(key, "w/"):
		w, err := s.NewWriter(ctx, key)
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(data)); err != nil {
			return err
		}
		return w.Close()
	default:
		return s.Put(ctx, key, []byte(data))
	}
}

func testList(t *testing.T, s *blobstore.Store) {
	all := []string{
		"_delta_log/00000000000000000000.json", "_delta_log/00000000000000000001.json",
		"_delta_log/00000000000000000001.checkpoint.parquet", "_delta_log/_last_checkpoint",
		"_delta_log/_sidecars/x.parquet", "_delta_log2/y", "a", "a b/c", "a-b", "a.b", "a/b/c", "a0", "z",
	}
	all = slices.DeleteFunc(all, func(k string) bool { return k == "a" }) // a folder, for stores of files
	for _, key := range all {
		mustPut(t, s, key, key)
	}
	slices.Sort(all)
	for _, prefix := range append([]string{"", "_delta_log/", "_delta_log", "a", "a/", "a/b", "_delta_log/000", "b"}, all...) {
		for _, from := range append([]string{"", "_", "_delta_log/00000000000000000001", "a/", "a/a", "a/b/", "zz", "\xff"}, all...) {
			checkList(t, s, all, prefix, from)
		}
	}
	// The sequence can be left early, and used again.
	seq := s.List(t.Context(), "a", "")
	for range 2 {
		for info, err := range seq {
			if err != nil || info.Key != "a b/c" || info.Size != 5 {
				t.Errorf("first of the listing: %+v, %v", info, err)
			}
			break
		}
	}
}

func checkList(t *testing.T, s *blobstore.Store, all []string, prefix, from string) {
	t.Helper()
	want := []string{}
	for _, key := range all {
		if strings.HasPrefix(key, prefix) && key >= from {
			want = append(want, key)
		}
	}
	if diff := cmp.Diff(want, keys(t, s, prefix, from)); diff != "" {
		t.Errorf("List(%q, %q) (-want +got):\n%s", prefix, from, diff)
	}
}

// testListRandom compares listings of random stores with the plain model: all
// keys, sorted, filtered.
func testListRandom(t *testing.T, h Harness) {
	rng := seeded(t)
	for range soak(40) {
		s := h.Open(t)
		var all []string
		taken := map[string]bool{} // 'f' for an object, folders of objects too
		for range 1 + rng.IntN(30) {
			key := randomKey(rng)
			if conflicts(taken, all, key) {
				continue
			}
			mustPut(t, s, key, key)
			all = append(all, key)
			for i := range key {
				if key[i] == '/' {
					taken[key[:i]] = true
				}
			}
		}
		slices.Sort(all)
		for range 30 {
			prefix, from := cut(rng, all), cut(rng, all)
			checkList(t, s, all, prefix, from)
		}
		checkList(t, s, all, "", "")
		if t.Failed() {
			t.Fatalf("store: %q", all)
		}
	}
}

// conflicts tells whether key is taken, or is a folder, or has an object as a
// folder: not all at once in a store of files.
func conflicts(folders map[string]bool, all []string, key string) bool {
	return folders[key] || slices.ContainsFunc(all, func(k string) bool {
		return k == key || strings.HasPrefix(key, k+"/")
	})
}

func randomKey(rng *rand.Rand) string {
	parts := make([]string, 1+rng.IntN(3))
	for i := range parts {
		b := make([]byte, 1+rng.IntN(3))
		for j := range b {
			b[j] = "ab-+0_~"[rng.IntN(7)]
		}
		parts[i] = string(b)
		if rng.IntN(3) == 0 {
			parts[i] += "."
		}
	}
	return strings.Join(parts, "/")
}

// cut returns a key or the beginning of one, sometimes altered.
func cut(rng *rand.Rand, all []string) string {
	if len(all) == 0 || rng.IntN(5) == 0 {
		return ""
	}
	key := all[rng.IntN(len(all))]
	key = key[:rng.IntN(len(key)+1)]
	if rng.IntN(4) == 0 {
		key += string("ab-+0_~/"[rng.IntN(8)])
	}
	return key
}
