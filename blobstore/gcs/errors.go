package gcs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// meaning is what two answers mean to a request.
type meaning struct {
	missing      remote.Class // 404 that does not speak of the bucket
	precondition remote.Class // 412
	absent       string       // what a 404 of class Refused says is not there
}

const noBucket = "the bucket does not exist"

var (
	reading  = meaning{missing: remote.NotFound, precondition: remote.Changed, absent: noBucket}
	creating = meaning{missing: remote.Refused, precondition: remote.Exists, absent: noBucket}
	plain    = meaning{missing: remote.Refused, precondition: remote.Refused, absent: noBucket}
	// session is a request of an upload session.
	session = meaning{missing: remote.Refused, precondition: remote.Refused, absent: "the upload session is gone"}
)

// failed makes a [remote.Error] of what the SDK or the HTTP client returned.
func (m meaning) failed(err error) *remote.Error {
	if e, ok := errors.AsType[*remote.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return m.answered(e)
	}
	return unanswered(err)
}

// answered classifies an answer of the store.
func (m meaning) answered(e *googleapi.Error) *remote.Error {
	text := e.Message
	if text == "" {
		text = e.Body
	}
	out := &remote.Error{
		Status:     e.Code,
		RequestID:  e.Header.Get("X-Guploader-Uploadid"),
		RetryAfter: remote.RetryAfter(e.Header),
		Err:        fmt.Errorf("%d %s: %s", e.Code, http.StatusText(e.Code), remote.Scrub(text)),
	}
	if len(e.Errors) > 0 {
		out.Code = e.Errors[0].Reason
	}
	out.Class = m.class(e.Code, out.Code, text)
	if e.Code == http.StatusNotFound && out.Class == remote.Refused {
		out.Err = fmt.Errorf("%s: %w", m.absent, out.Err)
	}
	return out
}

func (m meaning) class(status int, reason, text string) remote.Class {
	switch {
	case status == http.StatusTooManyRequests:
		// Also of one object: about one write a second is taken. Another writer
		// may have won meanwhile, which the next attempt finds out.
		return remote.Throttled
	case status == http.StatusForbidden && strings.HasSuffix(strings.ToLower(reason), "ratelimitexceeded"):
		return remote.Throttled
	case status == http.StatusNotFound && bucketMissing(text):
		return remote.Refused
	case status == http.StatusNotFound:
		return m.missing
	case status == http.StatusPreconditionFailed:
		return m.precondition
	case status == http.StatusConflict:
		return remote.Conflict
	case status == http.StatusRequestTimeout, status >= 500:
		return remote.Unclear
	}
	return remote.Refused
}

// bucketMissing tells the two kinds of 404 apart, by the only thing that differs.
// Google says "The specified bucket does not exist." and "No such object: …".
func bucketMissing(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "bucket does not exist") || strings.Contains(text, "nosuchbucket")
}

// unanswered classifies what failed without an answer of the store.
func unanswered(err error) *remote.Error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return tokenRefused(e)
	}
	return remote.Unanswered(err)
}

// tokenRefused is a failure of who gives out tokens: the store was not asked. Its
// body is not repeated.
func tokenRefused(e *oauth2.RetrieveError) *remote.Error {
	out := &remote.Error{Class: remote.Throttled, Code: e.ErrorCode}
	status := "no answer"
	if e.Response != nil {
		out.Status, status = e.Response.StatusCode, e.Response.Status
		if code := e.Response.StatusCode; code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout {
			out.Class = remote.Refused
		}
	}
	out.Err = fmt.Errorf("get a token for the credentials: %s", status)
	return out
}

// refusal is an error of this package's own making.
func refusal(format string, args ...any) *remote.Error {
	return &remote.Error{Class: remote.Refused, Err: fmt.Errorf(format, args...)}
}
