package azure

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// bucket is a [remote.Bucket].
type bucket struct {
	client *container.Client
	stats  *driver.Stats
	held   held
}

// checkKey refuses the keys that Azure would keep under another name ('\\' becomes
// '/'), and those that its listings, which are XML, cannot hold: one of them
// spoils every listing that comes across it.
func checkKey(key string) error {
	for _, r := range key {
		switch {
		case r == '\\':
			return refusal("the key has a '\\', of which Azure makes a '/'")
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == '\uFFFE', r == '\uFFFF':
			return refusal("the key has the character %U, which Azure cannot list", r)
		}
	}
	return nil
}

// Get is [remote.Bucket]'s. Azure has no range from the end: the size is asked for
// first, which is one more request, counted here.
func (b *bucket) Get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error) {
	if err := checkKey(key); err != nil {
		return nil, driver.Info{}, err
	}
	if part.Off < 0 {
		b.stats.Count(driver.RequestHead)
		info, err := b.Head(ctx, key)
		if err != nil {
			return nil, driver.Info{}, err
		}
		if etag != "" && etag != info.ETag {
			return nil, driver.Info{}, changed()
		}
		if info.Size == 0 {
			return http.NoBody, info, nil
		}
		off := max(0, info.Size+part.Off)
		body, info, err := b.get(ctx, key, driver.Range{Off: off, N: info.Size - off}, info.ETag)
		if e, ok := errors.AsType[*remote.Error](err); ok && e.Class == remote.Changed && etag == "" {
			e.Class = remote.Unclear // between the two requests, which the caller did not ask about
		}
		return body, info, err
	}
	if part.N == 0 {
		return b.nothing(ctx, key, etag)
	}
	return b.get(ctx, key, part, etag)
}

// get reads what does not lie relative to the end.
func (b *bucket) get(ctx context.Context, key string, part driver.Range, etag string) (io.ReadCloser, driver.Info, error) {
	o := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: part.Off, Count: max(0, part.N)}}
	if etag != "" {
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(quoted(etag))}}
	}
	res, err := b.client.NewBlobClient(key).DownloadStream(ctx, o)
	if err != nil {
		e := opGet.failed(err)
		if e.Status == http.StatusRequestedRangeNotSatisfiable {
			return b.nothing(ctx, key, etag) // at or past the end
		}
		return nil, driver.Info{}, e
	}
	info, err := opened(&res, part)
	if err == nil && etag != "" && info.ETag != etag {
		err = changed() // a server that ignores the condition
	}
	if err != nil {
		_ = res.Body.Close() // nothing of it is used
		return nil, driver.Info{}, err
	}
	info.Key = key
	return &download{res.Body}, info, nil
}

// opened reads the headers of a download.
func opened(res *blob.DownloadStreamResponse, part driver.Range) (driver.Info, error) {
	if isFolder(res.Metadata) {
		return driver.Info{}, folder()
	}
	if res.ETag == nil || res.LastModified == nil || res.ContentLength == nil {
		return driver.Info{}, &remote.Error{Err: errors.New("the answer lacks the etag, the time or the length")}
	}
	info := driver.Info{Size: *res.ContentLength, ModTime: res.LastModified.UTC(), ETag: bare(res.ETag)}
	if part.Off == 0 && part.N < 0 {
		return info, nil
	}
	var first, last int64
	if res.ContentRange == nil {
		return info, &remote.Error{Err: errors.New("the whole object was sent, not the range asked for")}
	}
	if _, err := fmt.Sscanf(*res.ContentRange, "bytes %d-%d/%d", &first, &last, &info.Size); err != nil || first != part.Off {
		return info, &remote.Error{Err: errors.New("another range was sent than was asked for")}
	}
	return info, nil
}

// nothing is no byte of an object, which must be there.
func (b *bucket) nothing(ctx context.Context, key, etag string) (io.ReadCloser, driver.Info, error) {
	b.stats.Count(driver.RequestHead)
	info, err := b.Head(ctx, key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if etag != "" && info.ETag != etag {
		return nil, driver.Info{}, changed()
	}
	return http.NoBody, info, nil
}

func changed() *remote.Error {
	return &remote.Error{Class: remote.Changed, Err: errors.New("the object has another etag")}
}

func folder() *remote.Error {
	return &remote.Error{Class: remote.NotFound, Err: errors.New("the blob stands for a folder")}
}

// download is a body whose errors have a class.
type download struct{ io.ReadCloser }

// Read is [io.Reader]'s.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader promises io.EOF itself
		err = unanswered(err)
	}
	return n, err
}

// Head is [remote.Bucket]'s.
func (b *bucket) Head(ctx context.Context, key string) (driver.Info, error) {
	if err := checkKey(key); err != nil {
		return driver.Info{}, err
	}
	res, err := b.client.NewBlobClient(key).GetProperties(ctx, nil)
	if err != nil {
		return driver.Info{}, opHead.failed(err)
	}
	if isFolder(res.Metadata) {
		return driver.Info{}, folder()
	}
	return describe(key, res.ETag, res.LastModified, res.ContentLength)
}

func describe(key string, etag *azcore.ETag, modified *time.Time, size *int64) (driver.Info, error) {
	if etag == nil || modified == nil || size == nil {
		return driver.Info{}, &remote.Error{Err: errors.New("the object's description lacks its etag, time or size")}
	}
	return driver.Info{Key: key, Size: *size, ModTime: modified.UTC(), ETag: bare(etag)}, nil
}

// bare is an ETag as listings have it: without the quotes of headers.
func bare(e *azcore.ETag) string { return strings.Trim(string(*e), `"`) }

func quoted(etag string) azcore.ETag { return azcore.ETag(`"` + etag + `"`) }

// isFolder tells the blobs that Data Lake Storage, and Hadoop without it, keep for
// folders. The names of metadata come in any case.
func isFolder(metadata map[string]*string) bool {
	for name, value := range metadata {
		if strings.EqualFold(name, "hdi_isfolder") && value != nil && strings.EqualFold(*value, "true") {
			return true
		}
	}
	return false
}

// Put is [remote.Bucket]'s.
func (b *bucket) Put(ctx context.Context, key string, data []byte, c remote.Condition) error {
	if err := checkKey(key); err != nil {
		return err
	}
	o := &blockblob.UploadOptions{TransactionalValidation: checksum(data)}
	op := opPut
	if c == remote.IfAbsent {
		o.AccessConditions = &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)},
		}
		op = opCreate
	}
	if _, err := b.client.NewBlockBlobClient(key).Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), o); err != nil {
		return op.failed(err)
	}
	return nil
}

// checksum has the store compare what arrives. It is the MD5, because Azurite
// refuses a CRC64.
func checksum(data []byte) blob.TransferValidationType {
	sum := md5.Sum(data)
	return blob.TransferValidationTypeMD5(sum[:])
}

// Delete is [remote.Bucket]'s.
func (b *bucket) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	_, err := b.client.NewBlobClient(key).Delete(ctx, nil)
	if err == nil {
		return nil
	}
	if e := opDelete.failed(err); e.Class != remote.NotFound {
		return e
	}
	return nil
}
