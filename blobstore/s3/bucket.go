package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// bucket is a [remote.Bucket].
type bucket struct {
	name   string
	p      *parameters
	cfg    aws.Config
	amazon bool
	stats  *driver.Stats // counts requests beside those that were asked for; may be nil

	mu     sync.Mutex
	known  *awss3.Client // nil until the region is known
	exists atomic.Bool   // the bucket was seen: a 404 is the object's
}

func newBucket(ctx context.Context, name string, p *parameters) (*bucket, error) {
	cfg, err := p.load(ctx)
	if err != nil {
		return nil, err
	}
	b := &bucket{name: name, p: p, cfg: cfg}
	if c, ok := cfg.HTTPClient.(*http.Client); ok {
		// A store is not closed: the connections that it keeps open end with it.
		runtime.AddCleanup(b, func(c *http.Client) { c.CloseIdleConnections() }, c)
	}
	if cfg.Credentials != nil && !p.anonymous {
		b.cfg.Credentials = credentials{cfg.Credentials}
	}
	c := p.client(b.cfg, cfg.Region)
	endpoint := c.Options().BaseEndpoint
	b.amazon = isAmazon(endpoint)
	if endpoint != nil {
		// The environment's is checked as the URL's is.
		if err := (&parameters{endpoint: *endpoint}).checkEndpoint(); err != nil {
			return nil, err
		}
	}
	switch {
	case cfg.Region != "":
		b.known = c
	case endpoint != nil:
		b.known = p.client(b.cfg, defaultRegion)
	}
	return b, nil
}

// endpointName names the server in errors.
func (b *bucket) endpointName() string {
	if endpoint := b.p.client(b.cfg, defaultRegion).Options().BaseEndpoint; endpoint != nil {
		return *endpoint
	}
	return "Amazon S3"
}

// Get is [remote.Bucket]'s. A range is asked for even of the whole: the answer
// tells the object's size then, and a body that was cut shows.
func (b *bucket) Get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error) {
	if part.N == 0 && part.Off >= 0 {
		info, err := b.Head(ctx, key)
		return io.NopCloser(bytes.NewReader(nil)), info, err
	}
	c, err := b.client(ctx)
	if err != nil {
		return nil, driver.Info{}, err
	}
	in := &awss3.GetObjectInput{
		Bucket: &b.name, Key: &key, Range: aws.String(rangeHeader(part)), RequestPayer: b.p.requestPayer,
	}
	if etag != "" {
		in.IfMatch = aws.String(quoted(etag))
	}
	out, err := c.GetObject(ctx, in)
	if err != nil {
		e := b.failed(err, opGet)
		if e.Status == 416 { // at or past the end, or the object is empty
			b.stats.Count(driver.RequestHead)
			info, err := b.Head(ctx, key)
			return io.NopCloser(bytes.NewReader(nil)), info, err
		}
		return nil, driver.Info{}, e
	}
	b.exists.Store(true)
	info := describe(key, out.ContentLength, out.LastModified, out.ETag)
	if err := checkRange(out.ContentRange, part, &info); err != nil {
		_ = out.Body.Close() // what it holds is not what was asked for
		return nil, driver.Info{}, err
	}
	return out.Body, info, nil
}

// rangeHeader is RFC 9110 section 14.2's.
func rangeHeader(part driver.Range) string {
	switch {
	case part.Off < 0:
		return fmt.Sprintf("bytes=%d", part.Off)
	case part.N < 0:
		return fmt.Sprintf("bytes=%d-", part.Off)
	}
	return fmt.Sprintf("bytes=%d-%d", part.Off, part.Off+part.N-1)
}

// checkRange takes the object's size from Content-Range and holds the answer to
// what was asked for. A store may answer with the whole object to a request for
// the whole.
func checkRange(header *string, part driver.Range, info *driver.Info) error {
	if header == nil {
		if part.Off == 0 && part.N < 0 {
			return nil
		}
		return &remote.Error{Class: remote.Refused, Status: 200, Err: fmt.Errorf("the store does not read ranges of objects")}
	}
	var first, last, size int64
	if _, err := fmt.Sscanf(*header, "bytes %d-%d/%d", &first, &last, &size); err != nil {
		return &remote.Error{Err: fmt.Errorf("the answer's range is %q: %w", *header, err)}
	}
	info.Size = size
	off := part.Off
	if off < 0 {
		off = max(size+off, 0)
	}
	if first != off {
		return &remote.Error{Err: fmt.Errorf("the answer's range is %q, asked was for %s", *header, rangeHeader(part))}
	}
	return nil
}

// Head is [remote.Bucket]'s.
func (b *bucket) Head(ctx context.Context, key string) (driver.Info, error) {
	c, err := b.client(ctx)
	if err != nil {
		return driver.Info{}, err
	}
	out, err := c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &b.name, Key: &key, RequestPayer: b.p.requestPayer})
	if err != nil {
		e := b.failed(err, opHead)
		if e.Class == remote.NotFound && !b.exists.Load() {
			// The answer has no body that would tell what is not there.
			if err := b.headBucket(ctx, c); err != nil {
				return driver.Info{}, err
			}
		}
		return driver.Info{}, e
	}
	b.exists.Store(true)
	return describe(key, out.ContentLength, out.LastModified, out.ETag), nil
}

func (b *bucket) headBucket(ctx context.Context, c *awss3.Client) error {
	b.stats.Count(driver.RequestHead)
	_, err := c.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &b.name})
	if err == nil {
		b.exists.Store(true)
		return nil
	}
	e := b.failed(err, opBucket)
	if e.Status == 403 {
		return nil // it is there
	}
	return e
}

// describe makes an Info of an answer's headers. Times are whole seconds, as in
// HTTP's headers, although listings are finer.
func describe(key string, size *int64, modified *time.Time, etag *string) driver.Info {
	return driver.Info{
		Key: key, Size: aws.ToInt64(size), ModTime: aws.ToTime(modified).UTC().Truncate(time.Second),
		ETag: strings.Trim(aws.ToString(etag), `"`),
	}
}

// quoted is an ETag as headers have it.
func quoted(etag string) string { return `"` + etag + `"` }

// Put is [remote.Bucket]'s.
func (b *bucket) Put(ctx context.Context, key string, data []byte, cond remote.Condition) error {
	c, err := b.client(ctx)
	if err != nil {
		return err
	}
	in := &awss3.PutObjectInput{
		Bucket: &b.name, Key: &key, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		RequestPayer: b.p.requestPayer, ServerSideEncryption: b.p.sse, SSEKMSKeyId: b.p.kmsKey,
	}
	op := opPut
	if cond == remote.IfAbsent {
		in.IfNoneMatch = aws.String("*")
		op = opCreate
	}
	if _, err := c.PutObject(ctx, in); err != nil {
		return b.failed(err, op)
	}
	b.exists.Store(true)
	return nil
}

// Delete is [remote.Bucket]'s.
func (b *bucket) Delete(ctx context.Context, key string) error {
	c, err := b.client(ctx)
	if err != nil {
		return err
	}
	_, err = c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &b.name, Key: &key, RequestPayer: b.p.requestPayer})
	if err != nil {
		if e := b.failed(err, opDelete); e.Class != remote.NotFound {
			return e
		}
	}
	return nil
}

// List is [remote.Bucket]'s. S3 lists by the bytes of UTF-8.
func (b *bucket) List(ctx context.Context, prefix, from, token string) ([]driver.Info, string, error) {
	c, err := b.client(ctx)
	if err != nil {
		return nil, "", err
	}
	in := &awss3.ListObjectsV2Input{
		Bucket: &b.name, EncodingType: types.EncodingTypeUrl, RequestPayer: b.p.requestPayer,
	}
	if prefix != "" {
		in.Prefix = &prefix
	}
	if token != "" {
		in.ContinuationToken = &token
	} else if after := startAfter(from); after > prefix {
		in.StartAfter = &after
	}
	out, err := c.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", b.failed(err, opList)
	}
	b.exists.Store(true)
	// NB: the SDK takes a body that was cut before its first element for an empty
	// answer, and a log that lists nothing is no table (I4).
	if out.Name == nil && out.KeyCount == nil && out.IsTruncated == nil {
		return nil, "", &remote.Error{Err: errors.New("the answer has no listing")}
	}
	if n := aws.ToInt32(out.KeyCount); int(n) > len(out.Contents) {
		return nil, "", &remote.Error{Err: fmt.Errorf("the answer says %d keys and has %d", n, len(out.Contents))}
	}
	page := make([]driver.Info, 0, len(out.Contents))
	for _, o := range out.Contents {
		key := aws.ToString(o.Key)
		if out.EncodingType == types.EncodingTypeUrl {
			if key, err = url.QueryUnescape(key); err != nil {
				return nil, "", &remote.Error{Err: fmt.Errorf("a key of the listing: %w", err)}
			}
		}
		if key < from {
			continue
		}
		page = append(page, describe(key, o.Size, o.LastModified, o.ETag))
	}
	next := aws.ToString(out.NextContinuationToken)
	if aws.ToBool(out.IsTruncated) != (next != "") {
		return nil, "", &remote.Error{Err: fmt.Errorf("the listing goes on: %t, from the token %s", aws.ToBool(out.IsTruncated), strconv.Quote(next))}
	}
	return page, next, nil
}

// startAfter is a key below from with few keys, or none, between them: S3 begins
// after a key, and the one at from is wanted.
func startAfter(from string) string {
	for i, r := range from {
		if r == utf8.RuneError && !strings.HasPrefix(from[i:], "\uFFFD") {
			return from[:i] // not UTF-8 from here on, so no key begins with it
		}
	}
	last, n := utf8.DecodeLastRuneInString(from)
	if from == "" || last == 0 {
		return from[:len(from)-n]
	}
	last--
	if last == 0xDFFF { // below lie the surrogates, which are no characters
		last = 0xD7FF
	}
	return from[:len(from)-n] + string(last) + string(utf8.MaxRune)
}
