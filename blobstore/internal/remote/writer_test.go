package remote

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// slowBucket gives one byte of a body at a time.
type slowBucket struct {
	*fake
	every time.Duration
}

func (b *slowBucket) Get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error) {
	body, info, err := b.fake.Get(ctx, key, part, etag)
	return &slowBody{ctx, body, b.every}, info, err
}

type slowBody struct {
	ctx context.Context //nolint:containedctx // the request's
	io.ReadCloser
	every time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if err := sleep(b.ctx, b.every); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p[:1])
}

func TestWriter(t *testing.T) {
	const data = "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, c := range []struct {
		name   string
		n      int // bytes of data
		script map[string][]step
		always map[string]step
		want   string // requests, sorted
		err    string
		holds  bool
	}{
		{name: "empty", n: 0, want: "put", holds: true},
		{name: "one part", n: 10, want: "put", holds: true},
		{name: "one part, lost", n: 10, script: map[string][]step{"put": {lost, unclear}}, want: "put put put", holds: true},
		{
			name: "one part, lost for ever", n: 10, always: map[string]step{"put": lost}, holds: true,
			want: "head " + strings.TrimSpace(strings.Repeat("put ", 16)),
		},
		{name: "one part, lost, then refused", n: 10, script: map[string][]step{"put": {lost, refused}}, holds: true, want: "head put put"},
		{name: "one part, unclear, then refused", n: 10, script: map[string][]step{"put": {unclear, refused}}, err: "AccessDenied", want: "head put put"},
		{name: "one part, refused", n: 10, script: map[string][]step{"put": {refused}}, want: "put", err: "AccessDenied"},
		{name: "two parts", n: 11, want: "complete part part start", holds: true},
		{name: "full parts", n: 30, want: "complete part part part start", holds: true},
		{name: "four parts", n: 36, want: "complete part part part part start", holds: true},
		{
			name: "parts fail for a while", n: 36, script: map[string][]step{"start": {throttled}, "part": {unclear, throttled, lost}},
			want: "complete part part part part part part part start start", holds: true,
		},
		{name: "start refused", n: 36, script: map[string][]step{"start": {refused}}, want: "start", err: "start an upload in parts: AccessDenied"},
		{name: "complete lost", n: 30, script: map[string][]step{"complete": {lost}}, want: "complete complete head part part part start", holds: true},
		{
			name: "complete lost for ever", n: 30, always: map[string]step{"complete": lost}, holds: true,
			want: strings.Repeat("complete ", 16) + "head part part part start",
		},
		{name: "complete not done", n: 30, script: map[string][]step{"complete": {unclear}}, want: "complete complete part part part start", holds: true},
		{
			name: "complete unclear for ever", n: 30, always: map[string]step{"complete": unclear}, err: "gave up",
			want: "abort " + strings.Repeat("complete ", 16) + "head part part part start",
		},
		{name: "complete refused", n: 30, script: map[string][]step{"complete": {refused}}, err: "AccessDenied", want: "abort complete part part part start"},
		{name: "complete lost, then refused", n: 30, script: map[string][]step{"complete": {lost, refused}}, holds: true, want: "complete complete head part part part start"},
		{name: "complete unclear, then refused", n: 30, script: map[string][]step{"complete": {unclear, refused}}, err: "AccessDenied", want: "abort complete complete head part part part start"},
		{
			name: "abort fails for a while", n: 30, script: map[string][]step{"complete": {refused}, "abort": {unclear, throttled}},
			err: "AccessDenied", want: "abort abort abort complete part part part start",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.script, f.always = c.script, c.always
			if f.script == nil {
				f.script = map[string][]step{}
			}
			s, _ := testStore(t, f, nil)
			w, err := s.NewWriter(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			var errs []error
			for i := 0; i < c.n; i += 7 {
				_, err := w.Write([]byte(data[i:min(i+7, c.n)]))
				if errs = append(errs, err); err != nil {
					break
				}
			}
			if errors.Join(errs...) != nil {
				errs = append(errs, w.Abort())
			} else {
				errs = append(errs, w.Close())
			}
			err = errors.Join(errs...)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error: %v; want %q", err, c.err)
			}
			log := f.requests()
			slices.Sort(log)
			if diff := cmp.Diff(c.want, strings.Join(log, " ")); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got, there := f.objects["t/k"]; there != c.holds || there && string(got) != data[:c.n] {
				t.Errorf("holds %q, %t", got, there)
			}
			if n := f.openUploads(); n != 0 {
				t.Errorf("%d uploads left", n)
			}
		})
	}
}

// A part that fails for good ends the writer, and nothing is left.
func TestWriterPartRefused(t *testing.T) {
	f := newFake()
	f.script["part"] = []step{passes, refused}
	s, _ := testStore(t, f, nil)
	w, err := s.NewWriter(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err = w.Write([]byte("01234567")); err != nil {
			break
		}
	}
	if err := errors.Join(err, w.Close()); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("error: %v", err)
	}
	if len(f.objects) != 0 || f.openUploads() != 0 {
		t.Errorf("left: %v, %d uploads", f.objects, f.openUploads())
	}
}

func TestWriterCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		written int
		hangs   string // the kind of request in which ctx ends
	}{
		"before the first part": {written: 5},
		"between parts":         {written: 25},
		"in a part":             {written: 25, hangs: "part"},
		"in start":              {written: 25, hangs: "start"},
		"in complete":           {written: 25, hangs: "complete"},
	} {
		t.Run(name, synced(func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := newFake()
			if c.hangs != "" {
				f.always[c.hangs] = step{hang: true, call: cancel}
			}
			s, _ := testStore(t, f, nil)
			w, err := s.NewWriter(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			var errs []error
			for range c.written / 5 {
				if _, err := w.Write([]byte("01234")); err != nil {
					errs = append(errs, err)
					break
				}
			}
			if c.hangs == "" {
				cancel()
			}
			if len(errs) == 0 {
				errs = append(errs, w.Close())
			} else {
				errs = append(errs, w.Abort())
			}
			if err := errors.Join(errs...); !errors.Is(err, context.Canceled) {
				t.Errorf("error: %v", err)
			}
			if len(f.objects) != 0 || f.openUploads() != 0 {
				t.Errorf("left: %v, %d uploads", f.objects, f.openUploads())
			}
		}))
	}
}

// synced is a test on a clock of its own.
func synced(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

func TestWriterAborted(t *testing.T) {
	f := newFake()
	s, _ := testStore(t, f, nil)
	w, err := s.NewWriter(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 95)); err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if len(f.objects) != 0 || f.openUploads() != 0 {
		t.Errorf("left: %v, %d uploads", f.objects, f.openUploads())
	}
}

// 10,000 parts are enough for what S3 takes, and equal ones as far as 40 GB.
func TestPartSize(t *testing.T) {
	s, _ := testStore(t, newFake(), func(o *Options) { o.PartSize = 0 })
	w := &writer{s: s}
	var total int64
	for w.parts = range 10_000 {
		size := w.partSize()
		if w.parts < 5000 && size != DefaultPartSize {
			t.Fatalf("part %d has %d bytes", w.parts+1, size)
		}
		total += size
	}
	if total < 5<<40 {
		t.Errorf("10,000 parts hold %d bytes", total)
	}
}
