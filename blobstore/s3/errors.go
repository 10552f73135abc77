package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// operation is what was asked of the store: some answers mean what they mean
// only to one of them.
type operation uint8

const (
	opGet operation = iota
	opHead
	opPut    // without a condition
	opCreate // If-None-Match
	opDelete
	opList
	opUpload // anything of an upload in parts
	opBucket // HeadBucket
)

// classes are the codes whose meaning is not that of their HTTP status. The
// sources are Amazon's "Error responses", and MinIO's and Ceph's own codes.
var classes = map[string]remote.Class{
	"SlowDown":                 remote.Throttled,
	"SlowDownRead":             remote.Throttled,
	"RequestLimitExceeded":     remote.Throttled,
	"BandwidthLimitExceeded":   remote.Throttled,
	"Throttling":               remote.Throttled,
	"ThrottlingException":      remote.Throttled,
	"TooManyRequests":          remote.Throttled,
	"TooManyRequestsException": remote.Throttled,

	"ConditionalRequestConflict": remote.Conflict,
	"OperationAborted":           remote.Conflict,

	"InternalError":             remote.Unclear,
	"SlowDownWrite":             remote.Unclear, // MinIO's: too few drives wrote it, some may have
	"RequestTimeout":            remote.Unclear, // with 400
	"IncompleteBody":            remote.Unclear, // with 400: the connection cut it
	"BadDigest":                 remote.Unclear, // with 400: it was changed on its way
	"XAmzContentSHA256Mismatch": remote.Unclear,

	"ExpiredToken":          remote.Expired,
	"ExpiredTokenException": remote.Expired,
	"TokenRefreshRequired":  remote.Expired,
	// The SDK corrects its clock by the answer's time: as with credentials, the
	// next attempt is made with other ones, and there are not many.
	"RequestTimeTooSkewed": remote.Expired,
	"RequestExpired":       remote.Expired,
	"RequestInTheFuture":   remote.Expired,

	"NoSuchKey":    remote.NotFound,
	"NoSuchBucket": remote.Refused,
	"NoSuchUpload": remote.Refused,
	"AccessDenied": remote.Refused,
}

// failed makes an error of the SDK's.
func (b *bucket) failed(err error, op operation) *remote.Error {
	e := &remote.Error{Err: err}
	code, message := "", ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code, message = api.ErrorCode(), api.ErrorMessage()
	}
	answer, answered := errors.AsType[*smithyhttp.ResponseError](err)
	if !answered || answer.HTTPStatusCode() == 0 {
		return unanswered(err)
	}
	e.Status = answer.HTTPStatusCode()
	e.Code = code
	h := answer.Response.Header
	e.RequestID = requestID(h)
	e.RetryAfter = remote.RetryAfter(h)
	e.Class = classOf(op, e.Status, code)
	if e.Class == remote.Refused && (op == opHead || op == opBucket) && skewed(h) {
		e.Class = remote.Expired // 403 without a body
	}
	if code == "NoSuchKey" || code == "NoSuchUpload" {
		b.exists.Store(true)
	}
	region := regionOf(err)
	if (e.Status == http.StatusMovedPermanently || e.Status == http.StatusBadRequest) && b.moveTo(region) {
		e.Class = remote.Expired // as with credentials, the next attempt is made otherwise
	}
	if e.Class == remote.Expired {
		if c, ok := b.cfg.Credentials.(credentials); ok {
			c.renew()
		}
	}
	e.Err = &explained{b.explain(e, message, region), err}
	return e
}

// classOf says what an answer means.
func classOf(op operation, status int, code string) remote.Class {
	switch {
	case status == http.StatusPreconditionFailed && op == opCreate:
		return remote.Exists
	case (status == http.StatusPreconditionFailed || status == http.StatusNotModified) && op == opGet:
		return remote.Changed
	}
	if class, ok := classes[code]; ok && (class != remote.NotFound || op == opGet || op == opHead || op == opDelete) {
		return class
	}
	switch status {
	case http.StatusNotFound:
		// HEAD's answer has no code of the store; other codes are of other things.
		if op == opHead {
			return remote.NotFound
		}
	case http.StatusConflict:
		return remote.Conflict
	case http.StatusTooManyRequests:
		return remote.Throttled
	case http.StatusBadRequest:
		if op == opHead { // so is an expired token answered, without a body
			return remote.Expired
		}
	case http.StatusRequestTimeout:
		return remote.Unclear
	case http.StatusNotImplemented:
		return remote.Refused
	}
	if status >= 300 && status < 500 {
		return remote.Refused
	}
	// 5xx. NB: also a 503 without a code that says more: a proxy may have lost the
	// store's own answer. And a success that cannot be read.
	return remote.Unclear
}

// unanswered classifies a request without an answer of the store.
func unanswered(err error) *remote.Error {
	if e, ok := errors.AsType[*credentialsError](err); ok {
		return &remote.Error{Class: remote.Refused, Err: e}
	}
	return remote.Unanswered(err)
}

// explain is the text of an answer.
func (b *bucket) explain(e *remote.Error, message, region string) string {
	var what string
	switch {
	case e.Code == "NoSuchBucket":
		what = fmt.Sprintf("bucket %s does not exist", b.name)
	case e.Status == http.StatusNotFound && e.Class == remote.Refused && e.Code == "NotFound": // HEAD's, without a body
		what = fmt.Sprintf("bucket %s does not exist, or not for these credentials", b.name)
	case e.Code == "InvalidAccessKeyId" || e.Code == "XAdminUserNotFound": // versitygw's
		what = "the store does not know the access key id"
	case e.Code == "SignatureDoesNotMatch":
		what = "the secret key is not that of the access key id"
	case e.Status == http.StatusMovedPermanently || e.Status == http.StatusTemporaryRedirect || e.Code == "AuthorizationHeaderMalformed":
		what = "the bucket is not in the region that was asked"
		if region != "" {
			what = fmt.Sprintf("the bucket is in region %s", region)
		}
	case e.Code == "ExpiredToken":
		what = "the credentials have expired"
	case e.Status == http.StatusForbidden:
		what = "access denied"
	case e.Class == remote.Throttled:
		what = "throttled"
	case e.Status < 300:
		what = "the answer cannot be read"
	default:
		what = http.StatusText(e.Status)
	}
	text := what + " (" + strings.TrimSpace(strconv.Itoa(e.Status)+" "+e.Code) + ")"
	if message != "" && !strings.EqualFold(message, what) {
		text += ": " + message
	}
	return text
}

func requestID(h http.Header) string {
	id, host := h.Get("X-Amz-Request-Id"), h.Get("X-Amz-Id-2")
	if host == "" {
		return id
	}
	return strings.TrimSpace(id + " " + host)
}

// skewed tells whether the server's clock is another than ours, by more than S3
// lets pass.
func skewed(h http.Header) bool {
	at, err := http.ParseTime(h.Get("Date"))
	return err == nil && time.Since(at).Abs() > 5*time.Minute //nolint:forbidigo // the clock that the SDK signs with
}

// explained is an error with a text of its own.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// credentials marks errors of the credentials' provider: they come before any
// request is sent.
type credentials struct{ p aws.CredentialsProvider }

// Retrieve is [aws.CredentialsProvider]'s.
func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := c.p.Retrieve(ctx)
	if err != nil {
		return got, &credentialsError{err}
	}
	return got, nil
}

// renew has the next request ask for new ones, if they can be had.
func (c credentials) renew() {
	if cache, ok := c.p.(interface{ Invalidate() }); ok {
		cache.Invalidate()
	}
}

type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "no credentials: " + e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }
