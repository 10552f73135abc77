package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// step is what becomes of one request.
type step struct {
	class Class
	fails bool          // with an error of that class
	works bool          // the request is carried out, although it fails
	after time.Duration // the error's RetryAfter
	code  string
	http  int
	cut   int    // bytes that the body ends early
	more  int    // bytes that the body has too many
	call  func() // before anything else
	hang  bool   // until the request's context ends
	raw   error  // an error that has no class
}

var (
	passes    = step{}
	unclear   = step{fails: true, class: Unclear}
	lost      = step{fails: true, class: Unclear, works: true}
	throttled = step{fails: true, class: Throttled, code: "SlowDown"}
	conflict  = step{fails: true, class: Conflict}
	refused   = step{fails: true, class: Refused, code: "AccessDenied", http: 403}
	expired   = step{fails: true, class: Expired, code: "ExpiredToken"}
)

// fake is a bucket in memory whose requests go as a script says; what the script
// does not say passes.
type fake struct {
	mu      sync.Mutex
	script  map[string][]step // by kind of request: get, head, put, create, list, delete, start, part, complete, abort
	always  map[string]step   // after the script
	objects map[string][]byte
	uploads map[int]map[int][]byte
	log     []string // kinds of requests as they came
	page    int      // of listings
	ignores bool     // conditions
	lies    bool     // says that a condition failed, and overwrites
	shrugs  bool     // says that a conditional put was done, and does nothing
}

func newFake() *fake {
	return &fake{
		script: map[string][]step{}, always: map[string]step{}, objects: map[string][]byte{},
		uploads: map[int]map[int][]byte{}, page: 2,
	}
}

// do makes one request; work carries it out.
func (f *fake) do(ctx context.Context, kind string, work func() error) (step, error) {
	f.mu.Lock()
	f.log = append(f.log, kind)
	s := f.always[kind]
	if script := f.script[kind]; len(script) > 0 {
		s = script[0]
		f.script[kind] = script[1:]
	}
	f.mu.Unlock()
	if s.call != nil {
		s.call()
	}
	if s.hang {
		<-ctx.Done()
		return s, &Error{Err: ctx.Err()}
	}
	if s.raw != nil {
		return s, s.raw
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if !s.fails || s.works {
		err = work()
	}
	if s.fails {
		err = &Error{Class: s.class, Code: s.code, Status: s.http, RetryAfter: s.after, RequestID: "id-7", Err: errors.New("scripted")}
	}
	return s, err
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fake) info(key string) driver.Info {
	return driver.Info{Key: key, Size: int64(len(f.objects[key])), ETag: fmt.Sprintf("%x", f.objects[key])}
}

var errNone = &Error{Class: NotFound, Status: 404, Err: errors.New("none there")}

func (f *fake) Get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error) {
	var body []byte
	var info driver.Info
	s, err := f.do(ctx, "get", func() error {
		data, ok := f.objects[key]
		if !ok {
			return errNone
		}
		info = f.info(key)
		if etag != "" && etag != info.ETag {
			return &Error{Class: Changed, Err: errors.New("another etag")}
		}
		off := part.Off
		if off < 0 {
			off = max(0, info.Size+off)
		}
		off = min(off, info.Size)
		body = data[off:][:length(part, info.Size)]
		return nil
	})
	if err != nil {
		return nil, driver.Info{}, err
	}
	body = append(slices.Clone(body), make([]byte, s.more)...)
	return io.NopCloser(bytes.NewReader(body[:max(0, len(body)-s.cut)])), info, nil
}

func (f *fake) Head(ctx context.Context, key string) (info driver.Info, err error) {
	_, err = f.do(ctx, "head", func() error {
		if _, ok := f.objects[key]; !ok {
			return errNone
		}
		info = f.info(key)
		return nil
	})
	return info, err
}

func (f *fake) Put(ctx context.Context, key string, data []byte, c Condition) error {
	kind := "put"
	if c == IfAbsent {
		kind = "create"
	}
	_, err := f.do(ctx, kind, func() error {
		_, there := f.objects[key]
		refuse := c == IfAbsent && there && !f.ignores
		if !refuse || f.lies {
			f.objects[key] = slices.Clone(data)
		}
		if refuse && !f.shrugs {
			return &Error{Class: Exists, Status: 412, Err: errors.New("there")}
		}
		return nil
	})
	return err
}

func (f *fake) List(ctx context.Context, prefix, from, token string) (page []driver.Info, next string, err error) {
	_, err = f.do(ctx, "list", func() error {
		var keys []string
		for key := range f.objects {
			if strings.HasPrefix(key, prefix) && key >= from && key >= token {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for i, key := range keys {
			if i == f.page {
				next = key
				break
			}
			page = append(page, f.info(key))
		}
		return nil
	})
	return page, next, err
}

func (f *fake) Delete(ctx context.Context, key string) error {
	_, err := f.do(ctx, "delete", func() error {
		delete(f.objects, key)
		return nil
	})
	return err
}

type fakeUpload struct {
	f   *fake
	key string
	id  int
}

func (f *fake) StartUpload(ctx context.Context, key string) (Upload, error) {
	u := &fakeUpload{f: f, key: key}
	_, err := f.do(ctx, "start", func() error {
		u.id = len(f.uploads) + 1
		f.uploads[u.id] = map[int][]byte{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

var errNoUpload = &Error{Class: Refused, Status: 404, Code: "NoSuchUpload", Err: errors.New("no upload")}

func (u *fakeUpload) Part(ctx context.Context, number int, data []byte) error {
	_, err := u.f.do(ctx, "part", func() error {
		if u.f.uploads[u.id] == nil {
			return errNoUpload
		}
		u.f.uploads[u.id][number] = slices.Clone(data)
		return nil
	})
	return err
}

func (u *fakeUpload) Complete(ctx context.Context, parts int) error {
	_, err := u.f.do(ctx, "complete", func() error {
		if u.f.uploads[u.id] == nil {
			return errNoUpload
		}
		var all []byte
		for i := range parts {
			all = append(all, u.f.uploads[u.id][i+1]...)
		}
		u.f.objects[u.key] = all
		u.f.uploads[u.id] = nil
		return nil
	})
	return err
}

func (u *fakeUpload) Abort(ctx context.Context) error {
	_, err := u.f.do(ctx, "abort", func() error {
		u.f.uploads[u.id] = nil
		return nil
	})
	return err
}

// openUploads is the number of uploads that hold parts or wait for some.
func (f *fake) openUploads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, parts := range f.uploads {
		if parts != nil {
			n++
		}
	}
	return n
}

// clock is time that passes only while someone sleeps.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	sleeps []time.Duration
	wake   func(n int) // called in the n-th sleep, from 1
}

func newClock() *clock { return &clock{now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.sleeps = append(c.sleeps, d)
	n := len(c.sleeps)
	c.mu.Unlock()
	if c.wake != nil {
		c.wake(n)
	}
	return ctx.Err()
}

// testStore is a driver on f, known to honour conditions, with a clock of its
// own and no chance.
func testStore(t *testing.T, f *fake, change func(*Options)) (*store, *clock) {
	t.Helper()
	c := newClock()
	o := &Options{
		Prefix: "t/", Endpoint: "https://fake", Bucket: "b", Conditional: true, Memory: t.TempDir(),
		Stats: &driver.Stats{}, PartSize: 10, Now: c.Now, Sleep: c.Sleep, Jitter: func() float64 { return 0 },
	}
	if change != nil {
		change(o)
	}
	return New(f, o).(*store), c
}
