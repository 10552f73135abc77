package blobstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// Bucket is an object store in memory behind the same driver as the clouds are: it
// counts requests, keeps their sequence and answers after a latency. Safe for
// concurrent use.
//
// Within a bubble of testing/synctest the latency is that of a fake clock, so that
// the time which passes, divided by it, is the number of round trips that had to
// follow on each other.
type Bucket struct {
	// Latency is the time from a request to its answer. Set it before use.
	Latency time.Duration
	// Pieces, if positive, has objects read in pieces of at most so many bytes and
	// none whole, so that small ones meet what large ones do. Set it before use.
	Pieces int64

	mu      sync.Mutex
	objects map[string]bucketObject
	writes  int
	trace   []string
	stats   blobstore.Stats
}

type bucketObject struct {
	data []byte
	info driver.Info
}

// bucketPage is the number of keys of one page of a listing, as of S3.
const bucketPage = 1000

// NewBucket returns an empty bucket.
func NewBucket() *Bucket { return &Bucket{objects: map[string]bucketObject{}} }

// Open opens the folder at a URL bucket://NAME as a process does that has just
// started: what earlier stores of the bucket keep is not known to it. Folders of
// one bucket are told apart by their names.
func (b *Bucket) Open(_ context.Context, url string) (*blobstore.Store, error) {
	name, ok := strings.CutPrefix(strings.TrimRight(url, "/"), "bucket://")
	if !ok || name == "" {
		return nil, fmt.Errorf("open %q: not bucket://NAME", url)
	}
	o := &remote.Options{Prefix: name + "/", Endpoint: "memory", Bucket: "test", Conditional: true, Stats: &b.stats}
	if n := b.Pieces; n > 0 {
		o.Reading = remote.Reading{Small: 1, Tail: n, Unsized: n, Gap: n, Block: n, Window: 3 * n}
	}
	d := remote.New((*memoryBucket)(b), o)
	return blobstore.New(d, "bucket://"+name), nil
}

// Counts are the requests so far.
func (b *Bucket) Counts() blobstore.Counts { return b.stats.Counts() }

// Trace returns the requests since it was called last, in the order in which they
// came: the kind, the key, and the range or "if absent" where there is one.
func (b *Bucket) Trace() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.trace
	b.trace = nil
	return out
}

// memoryBucket is the Bucket as a driver's bucket.
type memoryBucket Bucket

// answer notes a request and waits until it is answered.
func (b *memoryBucket) answer(ctx context.Context, format string, args ...any) error {
	b.mu.Lock()
	b.trace = append(b.trace, fmt.Sprintf(format, args...))
	b.mu.Unlock()
	if b.Latency == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(b.Latency)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *memoryBucket) find(key string) (bucketObject, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.objects[key]
	if !ok {
		return o, &remote.Error{Class: remote.NotFound, Status: 404, Err: errors.New("no such key")}
	}
	return o, nil
}

// Get is remote.Bucket's.
func (b *memoryBucket) Get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error) {
	what := ""
	switch {
	case part.Off < 0:
		what = fmt.Sprintf(" last %d", -part.Off)
	case part.N >= 0:
		what = fmt.Sprintf(" %d+%d", part.Off, part.N)
	}
	if err := b.answer(ctx, "get %s%s", key, what); err != nil {
		return nil, driver.Info{}, err
	}
	o, err := b.find(key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if etag != "" && etag != o.info.ETag {
		return nil, driver.Info{}, &remote.Error{Class: remote.Changed, Status: 412, Err: errors.New("another etag")}
	}
	off, stop := part.Off, o.info.Size
	if off < 0 {
		off = max(0, o.info.Size+off)
	}
	off = min(off, o.info.Size)
	if part.N >= 0 {
		stop = min(stop, off+part.N)
	}
	return io.NopCloser(bytes.NewReader(o.data[off:stop])), o.info, nil
}

// Head is remote.Bucket's.
func (b *memoryBucket) Head(ctx context.Context, key string) (driver.Info, error) {
	if err := b.answer(ctx, "head %s", key); err != nil {
		return driver.Info{}, err
	}
	o, err := b.find(key)
	return o.info, err
}

// Put is remote.Bucket's.
func (b *memoryBucket) Put(ctx context.Context, key string, data []byte, c remote.Condition) error {
	what := ""
	if c == remote.IfAbsent {
		what = " if absent"
	}
	data = bytes.Clone(data)
	if err := b.answer(ctx, "put %s%s", key, what); err != nil {
		return err
	}
	return b.set(key, data, c)
}

func (b *memoryBucket) set(key string, data []byte, c remote.Condition) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.objects[key]; there && c == remote.IfAbsent {
		return &remote.Error{Class: remote.Exists, Status: 412, Err: errors.New("it is there")}
	}
	b.writes++
	b.objects[key] = bucketObject{data, driver.Info{
		Key: key, Size: int64(len(data)), ETag: fmt.Sprint(b.writes), ModTime: time.Now(), //nolint:forbidigo // the clock of the store itself
	}}
	return nil
}

// List is remote.Bucket's.
func (b *memoryBucket) List(ctx context.Context, prefix, from, token string) ([]driver.Info, string, error) {
	if err := b.answer(ctx, "list %s from %s", prefix, max(from, token)); err != nil {
		return nil, "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var page []driver.Info
	for key, o := range b.objects {
		if strings.HasPrefix(key, prefix) && key >= max(from, token) {
			page = append(page, o.info)
		}
	}
	slices.SortFunc(page, func(x, y driver.Info) int { return strings.Compare(x.Key, y.Key) })
	if len(page) <= bucketPage {
		return page, "", nil
	}
	return page[:bucketPage], page[bucketPage].Key, nil
}

// Delete is remote.Bucket's.
func (b *memoryBucket) Delete(ctx context.Context, key string) error {
	if err := b.answer(ctx, "delete %s", key); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, key)
	return nil
}

// StartUpload is remote.Bucket's.
func (b *memoryBucket) StartUpload(ctx context.Context, key string) (remote.Upload, error) {
	if err := b.answer(ctx, "upload %s", key); err != nil {
		return nil, err
	}
	return &memoryUpload{b: b, key: key, parts: map[int][]byte{}}, nil
}

type memoryUpload struct {
	b     *memoryBucket
	key   string
	mu    sync.Mutex
	parts map[int][]byte
}

// Part is remote.Upload's.
func (u *memoryUpload) Part(ctx context.Context, number int, data []byte) error {
	data = bytes.Clone(data)
	if err := u.b.answer(ctx, "part %d of %s", number, u.key); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts[number] = data
	return nil
}

// Complete is remote.Upload's.
func (u *memoryUpload) Complete(ctx context.Context, parts int) error {
	if err := u.b.answer(ctx, "complete %s", u.key); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []byte
	for i := range parts {
		data, ok := u.parts[i+1]
		if !ok {
			return &remote.Error{Class: remote.Refused, Status: 400, Err: fmt.Errorf("part %d is not there", i+1)}
		}
		all = append(all, data...)
	}
	return u.b.set(u.key, all, remote.Always)
}

// Abort is remote.Upload's.
func (u *memoryUpload) Abort(ctx context.Context) error {
	return u.b.answer(ctx, "abort %s", u.key)
}
