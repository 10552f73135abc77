package s3

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// defaultRegion is that of endpoints which are not Amazon's, and where Amazon is
// asked for a bucket's region.
const defaultRegion = "us-east-1"

// regionHeader tells a bucket's region, also in answers that are errors.
const regionHeader = "X-Amz-Bucket-Region"

// client returns the client, after the bucket's region was asked for if nothing
// else tells it.
func (b *bucket) client(ctx context.Context) (*awss3.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known != nil {
		return b.known, nil
	}
	b.stats.Count(driver.RequestHead)
	out, err := b.p.client(b.cfg, defaultRegion).HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &b.name})
	var region string
	if err == nil {
		region = aws.ToString(out.BucketRegion)
		if region == "" {
			region = defaultRegion
		}
	} else if region = regionOf(err); region == "" {
		return nil, b.failed(err, opBucket)
	}
	b.known = b.p.client(b.cfg, region)
	return b.known, nil
}

// regionOf is the bucket's region as the answer behind err tells it, or "".
func regionOf(err error) string {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.Response != nil {
		return r.Response.Header.Get(regionHeader)
	}
	return ""
}

// moveTo has the next requests go to another region, if Amazon says that the
// bucket is there. It is false where that would change nothing.
func (b *bucket) moveTo(region string) bool {
	if region == "" || !b.amazon {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || b.known.Options().Region == region {
		return false
	}
	b.known = b.p.client(b.cfg, region)
	return true
}
