package gcs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

const (
	contentType = "application/octet-stream"
	pageSize    = 1000 // objects of one listing; the most that GCS gives
)

// bucket is a [remote.Bucket]. An object's ETag is its generation.
type bucket struct {
	raw    *storage.Service
	client *http.Client
	base   string // the server's URL
	name   string
}

var _ remote.InOrder = (*bucket)(nil)

// PartsInOrder is [remote.InOrder]'s: a resumable upload grows at its end.
func (b *bucket) PartsInOrder() bool { return true }

// Get is [remote.Bucket]'s.
func (b *bucket) Get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error) {
	call := b.raw.Objects.Get(b.name, key).Context(ctx)
	if etag != "" {
		generation, err := strconv.ParseInt(etag, 10, 64)
		if err != nil {
			return nil, driver.Info{}, refusal("etag %q is no generation", etag)
		}
		call.IfGenerationMatch(generation)
	}
	ranged := part.Off != 0 || part.N >= 0
	switch {
	case part.Off < 0:
		call.Header().Set("Range", fmt.Sprintf("bytes=%d", part.Off))
	case part.N == 0:
		return b.nothing(ctx, key, etag)
	case part.N > 0:
		call.Header().Set("Range", fmt.Sprintf("bytes=%d-%d", part.Off, part.Off+part.N-1))
	case part.Off > 0:
		call.Header().Set("Range", fmt.Sprintf("bytes=%d-", part.Off))
	}
	res, err := call.Download()
	if err != nil {
		e := reading.failed(err)
		if e.Status == http.StatusRequestedRangeNotSatisfiable {
			return b.nothing(ctx, key, etag) // at or past the end
		}
		return nil, driver.Info{}, e
	}
	body, info, err := opened(res, ranged, part.Off)
	if err == nil && etag != "" && info.ETag != etag {
		// A server that ignores the condition, as emulators do.
		err = &remote.Error{Class: remote.Changed, Err: errors.New("another generation was sent than was asked for")}
	}
	if err != nil {
		_ = res.Body.Close() // nothing of it is used
		return nil, driver.Info{}, err
	}
	info.Key = key
	return body, info, nil
}

// nothing is no byte of an object, which must be there.
func (b *bucket) nothing(ctx context.Context, key, etag string) (io.ReadCloser, driver.Info, error) {
	info, err := b.Head(ctx, key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if etag != "" && info.ETag != etag {
		return nil, driver.Info{}, &remote.Error{Class: remote.Changed, Err: errors.New("the object has another generation")}
	}
	return http.NoBody, info, nil
}

// opened reads the headers of a download.
func opened(res *http.Response, ranged bool, off int64) (io.ReadCloser, driver.Info, error) {
	h := res.Header
	info := driver.Info{ETag: h.Get("X-Goog-Generation"), Size: -1}
	if t, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		info.ModTime = t
	}
	if stored := h.Get("X-Goog-Stored-Content-Encoding"); res.Uncompressed || stored != "" && stored != "identity" {
		return nil, info, refusal("the object is stored with a Content-Encoding, which is not supported")
	}
	if info.ETag == "" {
		return nil, info, refusal("the answer names no generation: the server is not GCS")
	}
	body := &download{ReadCloser: res.Body}
	if res.StatusCode == http.StatusPartialContent {
		start, size, err := contentRange(h.Get("Content-Range"))
		if err != nil || off >= 0 && start != off || off < 0 && start != max(0, size+off) {
			return nil, info, &remote.Error{Err: errors.New("another range was sent than was asked for")}
		}
		info.Size = size
		return body, info, nil
	}
	info.Size = res.ContentLength
	if ranged && info.Size != 0 || info.Size < 0 { // no byte may be sent so
		return nil, info, &remote.Error{Err: fmt.Errorf("status %d without the range or the length", res.StatusCode)}
	}
	body.want, body.check = checksum(h)
	return body, info, nil
}

// contentRange parses "bytes first-last/size".
func contentRange(v string) (first, size int64, err error) {
	var last int64
	_, err = fmt.Sscanf(v, "bytes %d-%d/%d", &first, &last, &size)
	return first, size, err
}

// checksum finds the CRC32C among the hashes of a download.
func checksum(h http.Header) (uint32, bool) {
	for _, values := range h.Values("X-Goog-Hash") {
		for v := range strings.SplitSeq(values, ",") {
			text, ok := strings.CutPrefix(strings.TrimSpace(v), "crc32c=")
			if !ok {
				continue
			}
			if sum, err := base64.StdEncoding.DecodeString(text); err == nil && len(sum) == 4 {
				return binary.BigEndian.Uint32(sum), true
			}
		}
	}
	return 0, false
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes a CRC32C as the JSON API does: base64 of its four bytes, the
// highest first.
func encode(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// download is a body whose checksum is compared at its end, if it is known.
type download struct {
	io.ReadCloser
	sum, want uint32
	check     bool
}

// Read is [io.Reader]'s.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.check {
		d.sum = crc32.Update(d.sum, castagnoli, p[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return n, unanswered(err)
	case d.check && d.sum != d.want:
		return n, &remote.Error{Err: errors.New("the bytes have not the object's CRC32C")}
	}
	return n, io.EOF
}

// Head is [remote.Bucket]'s.
func (b *bucket) Head(ctx context.Context, key string) (driver.Info, error) {
	o, err := b.raw.Objects.Get(b.name, key).Context(ctx).Fields("name", "size", "updated", "generation").Do()
	if err != nil {
		return driver.Info{}, reading.failed(err)
	}
	return describe(o)
}

func describe(o *storage.Object) (driver.Info, error) {
	updated, err := time.Parse(time.RFC3339, o.Updated)
	if err != nil || o.Generation == 0 {
		return driver.Info{}, &remote.Error{Err: errors.New("the object's description lacks its time or generation")}
	}
	// In seconds, as reads tell it: a log entry's time must not depend on how it
	// was asked for.
	return driver.Info{
		Key:     o.Name,
		Size:    int64(o.Size),
		ModTime: updated.UTC().Truncate(time.Second),
		ETag:    strconv.FormatInt(o.Generation, 10),
	}, nil
}

// Put is [remote.Bucket]'s. The store refuses bytes that have not the checksum.
func (b *bucket) Put(ctx context.Context, key string, data []byte, c remote.Condition) error {
	sum := encode(crc32.Checksum(data, castagnoli))
	// One chunk: one request, whatever the size.
	call := b.raw.Objects.Insert(b.name, &storage.Object{Name: key, Crc32c: sum}).
		Media(bytes.NewReader(data), googleapi.ChunkSize(0), googleapi.ContentType(contentType)).
		Context(ctx)
	means := plain
	if c == remote.IfAbsent {
		call.IfGenerationMatch(0)
		means = creating
	}
	o, err := call.Do()
	if err != nil {
		return means.failed(err)
	}
	return stored(o, sum)
}

// stored checks what a write says that it wrote.
func stored(o *storage.Object, sum string) error {
	if o.Crc32c != sum {
		return &remote.Error{Err: fmt.Errorf("the store has an object of CRC32C %q, sent was %q", o.Crc32c, sum)}
	}
	return nil
}

// List is [remote.Bucket]'s. GCS lists in the order of UTF-8 bytes, from
// startOffset on.
func (b *bucket) List(ctx context.Context, prefix, from, token string) ([]driver.Info, string, error) {
	if !utf8.ValidString(prefix) {
		return nil, "", nil // no object has such a name
	}
	call := b.raw.Objects.List(b.name).Context(ctx).MaxResults(pageSize).
		Fields("items(name,size,updated,generation)", "nextPageToken")
	if prefix != "" {
		call.Prefix(prefix)
	}
	if from > prefix {
		call.StartOffset(validUTF8(from))
	}
	if token != "" {
		call.PageToken(token)
	}
	res, err := call.Do()
	if err != nil {
		return nil, "", plain.failed(err)
	}
	page := make([]driver.Info, 0, len(res.Items))
	for _, o := range res.Items {
		info, err := describe(o)
		if err != nil {
			return nil, "", err
		}
		if info.Key >= from {
			page = append(page, info)
		}
	}
	return page, res.NextPageToken, nil
}

// validUTF8 is the longest valid beginning of s: never above s.
func validUTF8(s string) string {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return s[:i]
			}
		}
	}
	return s
}

// Delete is [remote.Bucket]'s.
func (b *bucket) Delete(ctx context.Context, key string) error {
	err := b.raw.Objects.Delete(b.name, key).Context(ctx).Do()
	if err == nil {
		return nil
	}
	if e := reading.failed(err); e.Class != remote.NotFound {
		return e
	}
	return nil
}
