package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// upload is a [remote.Upload].
type upload struct {
	b   *bucket
	c   *awss3.Client
	key string
	id  *string

	mu    sync.Mutex
	etags map[int]string
}

// StartUpload is [remote.Bucket]'s.
func (b *bucket) StartUpload(ctx context.Context, key string) (remote.Upload, error) {
	c, err := b.client(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{
		Bucket: &b.name, Key: &key, RequestPayer: b.p.requestPayer, ServerSideEncryption: b.p.sse, SSEKMSKeyId: b.p.kmsKey,
	})
	if err != nil {
		return nil, b.failed(err, opUpload)
	}
	if aws.ToString(out.UploadId) == "" {
		return nil, &remote.Error{Err: fmt.Errorf("the answer has no upload id")}
	}
	b.exists.Store(true)
	return &upload{b: b, c: c, key: key, id: out.UploadId, etags: map[int]string{}}, nil
}

// Part is [remote.Upload]'s.
func (u *upload) Part(ctx context.Context, number int, data []byte) error {
	out, err := u.c.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &u.b.name, Key: &u.key, UploadId: u.id, PartNumber: aws.Int32(int32(number)), //nolint:gosec // at most 10,000
		Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))), RequestPayer: u.b.p.requestPayer,
	})
	if err != nil {
		return u.b.failed(err, opUpload)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.etags[number] = aws.ToString(out.ETag)
	return nil
}

// Complete is [remote.Upload]'s.
func (u *upload) Complete(ctx context.Context, parts int) error {
	list := make([]types.CompletedPart, parts)
	u.mu.Lock()
	for i := range list {
		list[i] = types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: aws.String(u.etags[i+1])} //nolint:gosec // at most 10,000
	}
	u.mu.Unlock()
	out, err := u.c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: &u.b.name, Key: &u.key, UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: list},
		RequestPayer: u.b.p.requestPayer,
	})
	if err != nil {
		return u.b.failed(err, opUpload)
	}
	if out.ETag == nil { // the body may have been cut, and a 200 is sent before the work is done
		return &remote.Error{Err: errors.New("the answer has no result")}
	}
	return nil
}

// Abort is [remote.Upload]'s. An upload that is gone needs none. Parts that were on
// their way may stay behind, so the upload is looked for afterwards, as Amazon
// advises (AbortMultipartUpload), and is there for another attempt if it is.
func (u *upload) Abort(ctx context.Context) error {
	_, err := u.c.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{
		Bucket: &u.b.name, Key: &u.key, UploadId: u.id, RequestPayer: u.b.p.requestPayer,
	})
	if err != nil {
		e := u.b.failed(err, opUpload)
		if e.Code == "NoSuchUpload" {
			return nil
		}
		return e
	}
	u.b.stats.Count(driver.RequestPart)
	_, err = u.c.ListParts(ctx, &awss3.ListPartsInput{
		Bucket: &u.b.name, Key: &u.key, UploadId: u.id, MaxParts: aws.Int32(1), RequestPayer: u.b.p.requestPayer,
	})
	if err == nil {
		return &remote.Error{Err: errors.New("the upload is still there after it was aborted")}
	}
	if e := u.b.failed(err, opUpload); e.Class != remote.Refused { // gone, or nobody may look
		return e
	}
	return nil
}
