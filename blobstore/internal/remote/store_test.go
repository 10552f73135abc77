package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A body with too few or too many bytes is never a success.
func TestReadCutBodies(t *testing.T) {
	const data = "0123456789"
	for _, c := range []struct {
		name   string
		off, n int64
		steps  []step
		always step
		want   string
		err    string
		gets   int
	}{
		{name: "whole", n: -1, want: data, gets: 1},
		{name: "whole, cut twice", n: -1, steps: []step{{cut: 1}, {cut: 10}}, want: data, gets: 3},
		{name: "whole, one too many", n: -1, steps: []step{{more: 1}}, want: data, gets: 2},
		{name: "whole, cut for ever", n: -1, always: step{cut: 3}, err: "7 of 10 bytes arrived", gets: 16},
		{name: "range, cut", off: 2, n: 3, steps: []step{{cut: 1}}, want: "234", gets: 2},
		{name: "range, too many", off: 2, n: 3, steps: []step{{more: 4}}, want: "234", gets: 2},
		{name: "range past the end", off: 8, n: 10, want: "89", gets: 1},
		{name: "range past the end, cut", off: 8, n: 10, steps: []step{{cut: 1}}, want: "89", gets: 2},
		{name: "at the end", off: 10, n: 1, want: "", gets: 1},
		{name: "refused", n: -1, steps: []step{refused}, err: "AccessDenied", gets: 1},
		{name: "throttled, then cut, then refused", n: -1, steps: []step{throttled, {cut: 1}, refused}, err: "attempt 3: AccessDenied", gets: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.objects["t/k"] = []byte(data)
			f.script["get"], f.always["get"] = c.steps, c.always
			s, _ := testStore(t, f, nil)
			got, err := s.Read(t.Context(), "k", c.off, c.n)
			if string(got) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v", got, err)
			}
			if n := s.o.Stats.Counts(); n.Requests[driver.RequestGet] != int64(c.gets) {
				t.Errorf("counted: %+v", n)
			}
		})
	}
}

func TestAbsentIsCertain(t *testing.T) {
	for kind, call := range map[string]func(*store) error{
		"get":  func(s *store) error { _, err := s.Read(t.Context(), "k", 0, -1); return err },
		"head": func(s *store) error { _, err := s.Stat(t.Context(), "k"); return err },
	} {
		for class, want := range map[Class]bool{NotFound: true, Refused: false, Unclear: false, Throttled: false, Conflict: false, Exists: false, Changed: false, Expired: false} {
			f := newFake()
			f.always[kind] = step{fails: true, class: class}
			s, _ := testStore(t, f, nil)
			if err := call(s); err == nil || errors.Is(err, driver.ErrNotFound) != want {
				t.Errorf("%s, class %d: %v", kind, class, err)
			}
		}
	}
}

// A server that says nothing is given up after a while, and a transfer that goes
// on is not, however long it takes.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.script["put"] = []step{{hang: true}}
		f.script["head"] = []step{{hang: true}, {hang: true}, {hang: true}, {hang: true}}
		s := New(f, &Options{Conditional: true, PartSize: 10}).(*store)
		began := time.Now()
		if err := s.Put(t.Context(), "k", make([]byte, 640<<10)); err != nil {
			t.Error(err)
		}
		// 30 s, and 10 s for the bytes.
		if d := time.Since(began); d < 40*time.Second || d > 41*time.Second {
			t.Errorf("the second attempt began after %s", d)
		}
		_, err := s.Stat(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), "gave up after 3 attempts") || !strings.Contains(err.Error(), "no answer for 30s") ||
			errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("Stat: %v", err)
		}
		slow := &slowBucket{fake: f, every: 20 * time.Second}
		f.objects["slow"] = []byte(strings.Repeat("x", 30))
		s = New(slow, &Options{Conditional: true}).(*store)
		began = time.Now()
		if got, err := s.Read(t.Context(), "slow", 0, -1); err != nil || len(got) != 30 || time.Since(began) < 10*time.Minute {
			t.Errorf("%d bytes in %s, %v", len(got), time.Since(began), err)
		}
	})
}

func TestList(t *testing.T) {
	f := newFake()
	for _, key := range []string{"s/x", "t/", "t/a", "t/b/", "t/b//c", "t/b/c", "t/c", "t/d", "u"} {
		f.objects[key] = []byte(key)
	}
	f.script["list"] = []step{unclear, passes, throttled}
	s, _ := testStore(t, f, nil)
	var got []string
	for info, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Key)
	}
	if diff := cmp.Diff([]string{"a", "b/c", "c", "d"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	f.script["list"] = []step{passes, refused}
	n := 0
	var last error
	for _, err := range s.List(t.Context(), "", "c") {
		n++
		last = err
	}
	if n != 2 || last != nil { // c and d are one page
		t.Errorf("%d keys, %v", n, last)
	}
	for info, err := range s.List(t.Context(), "", "") {
		if last = err; err == nil && info.Key > "b" {
			t.Errorf("a key of the page that was refused: %s", info.Key)
		}
	}
	if asError(last).Class != Refused {
		t.Errorf("the second page: %v", last)
	}
	for name, pages := range map[string][][]string{
		"not ascending":       {{"t/b", "t/a"}},
		"across pages":        {{"t/b"}, {"t/a"}},
		"twice across pages":  {{"t/a", "t/b"}, {"t/b", "t/c"}},
		"the same page again": {{"t/a"}, {}, {}},
	} {
		s, _ := testStore(t, f, nil)
		s.b = &pagesBucket{fake: f, pages: pages, stuck: name == "the same page again"}
		var last error
		for _, err := range s.List(t.Context(), "", "") {
			last = err
		}
		if last == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// pagesBucket lists what it is told.
type pagesBucket struct {
	*fake
	pages [][]string
	n     int
	stuck bool
}

func (b *pagesBucket) List(context.Context, string, string, string) (page []driver.Info, next string, err error) {
	for _, key := range b.pages[b.n] {
		page = append(page, driver.Info{Key: key})
	}
	if b.n++; b.n < len(b.pages) {
		next = fmt.Sprint(b.n)
		if b.stuck {
			next = "same"
		}
	}
	return page, next, nil
}

func TestDeleteAndStat(t *testing.T) {
	f := newFake()
	f.objects["t/k"] = []byte("x")
	f.script["head"], f.script["delete"] = []step{throttled}, []step{lost}
	s, _ := testStore(t, f, nil)
	info, err := s.Stat(t.Context(), "k")
	if diff := cmp.Diff(driver.Info{Key: "k", Size: 1, ETag: "78"}, info); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := s.Delete(t.Context(), "k"); err != nil || len(f.objects) != 0 {
		t.Errorf("%v, %v", err, f.objects)
	}
	want := driver.Counts{Retries: 2}
	want.Requests[driver.RequestHead], want.Requests[driver.RequestDelete] = 2, 2
	if diff := cmp.Diff(want, s.o.Stats.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestRetriesAreCounted(t *testing.T) {
	f := newFake()
	f.script["create"] = []step{unclear, throttled, conflict}
	s, _ := testStore(t, f, nil)
	if out, err := s.Create(t.Context(), "k", []byte("12345")); out != driver.Created {
		t.Fatal(out, err)
	}
	if got, err := s.Read(t.Context(), "k", 0, -1); string(got) != "12345" {
		t.Fatal(got, err)
	}
	want := driver.Counts{Retries: 3, Sent: 20, Received: 5}
	want.Requests[driver.RequestPut], want.Requests[driver.RequestGet] = 4, 1
	if diff := cmp.Diff(want, s.o.Stats.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if !slices.Equal(f.requests(), []string{"create", "create", "create", "create", "get"}) {
		t.Errorf("requests: %v", f.requests())
	}
}
