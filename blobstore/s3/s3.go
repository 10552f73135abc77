// Package s3 keeps a store in a bucket of Amazon S3 or of a store that speaks its
// protocol. Importing it makes [blobstore.Open] take its URLs:
//
//	s3://bucket                 the whole bucket
//	s3://bucket/some/prefix     the objects whose keys begin with some/prefix/
//
// s3a:// and s3n:// are the same. The prefix is taken as it is written: nothing
// is decoded, as Hadoop and delta-rs have it, so that "%20" is three characters.
// A '?' begins parameters, and '#' cannot be written. Empty parts ("a//b"), "."
// and ".." are refused.
//
// # Parameters
//
// As gocloud.dev spells them, after a '?': region, profile, endpoint,
// use_path_style (or s3ForcePathStyle), anonymous, ssetype, kmskeyid, accelerate,
// dualstack, fips, role, role_session_name, role_external_id, role_duration,
// web_identity_token_file, request_checksum_calculation and
// response_checksum_validation (when_required, the default here, or
// when_supported); and requester_pays. Others are refused. They are not part of
// the store's canonical URL.
//
// # Credentials
//
// Those of the AWS SDK's own chain: environment, shared files and profiles (SSO
// and processes included), web identity, container and instance roles. No
// requests are signed with anonymous=true or AWS_SKIP_SIGNATURE=true. Secrets in
// a URL are refused.
//
// # Endpoint and region
//
// The endpoint is that of the URL, of [blobstore.Config], of AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL or the profile, in this order, with or without a slash at its
// end; otherwise Amazon's. Buckets of an endpoint that is not Amazon's are
// addressed by path; use_path_style=false or AWS_VIRTUAL_HOSTED_STYLE_REQUEST=true
// puts them into the host's name. Plain http is spoken only to an endpoint that is
// written with http://. Redirects are not followed, so that none leads from https
// to http, nor credentials elsewhere. The region is that of the URL, the environment
// or the profile; otherwise Amazon is asked for the bucket's, and us-east-1
// stands for other endpoints. Where Amazon says that the bucket is in another
// region, requests go there.
//
// # Conditional puts
//
// Objects are created by PutObject with If-None-Match. Amazon S3 honours it; any
// other endpoint is probed once, see package blobstore/internal/remote, and
// refused with [blobstore.NoConditionError] if it does not. A table whose log
// shows temporary entries of Delta's S3DynamoDBLogStore is refused with
// [blobstore.LogStoreError]: that store's writers exclude each other through
// DynamoDB and would overwrite ours.
//
// # Which library does what
//
// Requests are aws-sdk-go-v2's, each a single attempt: retries, outcomes and
// bounds are package remote's, and a second mechanism below it would hide which
// attempt met what. gocloud.dev's blob for S3 is not used, as it hides ETags and
// the errors' codes, lists without a start and retries; its package aws, which
// reads URL parameters, makes the configuration where a role is to be assumed.
// Checksum trailers, which other stores refuse, are off unless asked for: the
// signature covers a SHA-256 of each body.
package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

func init() {
	for _, scheme := range []string{"s3", "s3a", "s3n"} {
		blobstore.Register(scheme, open)
	}
}

// open is a [blobstore.Opener]. It makes no request.
func open(ctx context.Context, u *url.URL, c *blobstore.Config) (blobstore.Driver, string, error) {
	if u.User != nil {
		return nil, "", errors.New("credentials in the URL are not taken: use the environment or a profile")
	}
	switch {
	case u.Host == "":
		return nil, "", errors.New("the URL names no bucket: write s3://bucket/prefix")
	case strings.HasSuffix(u.Host, "--x-s3"):
		return nil, "", fmt.Errorf("bucket %s is a directory bucket, which does not list keys in order", u.Host)
	}
	prefix, err := remote.PrefixOf(u)
	if err != nil {
		return nil, "", err
	}
	p, err := parse(u.Query(), c)
	if err != nil {
		return nil, "", err
	}
	b, err := newBucket(ctx, u.Host, p)
	if err != nil {
		return nil, "", err
	}
	b.stats = c.Stats
	canonical := strings.TrimSuffix("s3://"+u.Host+"/"+prefix, "/")
	return remote.New(b, &remote.Options{
		Prefix: prefix, Endpoint: b.endpointName(), Bucket: b.name, Conditional: b.amazon,
		UnsafeSingleWriter: c.UnsafeSingleWriter, CheckLog: checkLog, Stats: c.Stats, Sleep: c.Sleep,
	}), canonical, nil
}
