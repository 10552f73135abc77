package azure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// operation is what was asked of the store: some answers mean what they mean only
// to one of them.
type operation uint8

const (
	opGet operation = iota
	opHead
	opDelete
	opPut    // without a condition
	opCreate // If-None-Match: *
	opList
	opUpload // blocks
)

// classes are the codes whose meaning is not that of their HTTP status. The
// source is Azure's "Blob service error codes".
var classes = map[bloberror.Code]remote.Class{
	// 404; containers are the user's to make, and 409 while one goes away.
	bloberror.BlobNotFound:          remote.NotFound,
	bloberror.ResourceNotFound:      remote.NotFound,
	bloberror.ContainerNotFound:     remote.Refused,
	bloberror.ContainerBeingDeleted: remote.Refused,
	bloberror.ContainerDisabled:     remote.Refused,

	// 409 of an object's state: repeating does not help.
	bloberror.BlobArchived:             remote.Refused,
	bloberror.BlobBeingRehydrated:      remote.Refused,
	bloberror.BlobImmutableDueToPolicy: remote.Refused,
	bloberror.InvalidBlobType:          remote.Refused,
	bloberror.SnapshotsPresent:         remote.Refused,
	bloberror.PendingCopyOperation:     remote.Refused,

	// 412 and 409 of leases: somebody else holds the object.
	bloberror.LeaseIDMissing:                        remote.Refused,
	bloberror.LeaseIDMismatchWithBlobOperation:      remote.Refused,
	bloberror.LeaseIDMismatchWithContainerOperation: remote.Refused,
	bloberror.LeaseLost:                             remote.Refused,
	bloberror.LeaseAlreadyPresent:                   remote.Refused,
	bloberror.LeaseNotPresentWithBlobOperation:      remote.Refused,

	// 503: too much for the account, nothing was done.
	bloberror.ServerBusy: remote.Throttled,
	// 500, and 400 of what was changed on its way.
	bloberror.OperationTimedOut: remote.Unclear,
	bloberror.InternalError:     remote.Unclear,
	bloberror.MD5Mismatch:       remote.Unclear,
	bloberror.CRC64Mismatch:     remote.Unclear,

	// Azurite's own, with 500: it never will.
	"FeatureNotSupported": remote.Refused,
	"APINotImplemented":   remote.Refused,

	// 401 of a token that is no longer valid; the next attempt gets another one.
	bloberror.InvalidAuthenticationInfo: remote.Expired,
}

// classOf says what an answer means.
func classOf(op operation, status int, code bloberror.Code) remote.Class {
	if op == opCreate && (code == bloberror.BlobAlreadyExists || code == bloberror.UnauthorizedBlobOverwrite ||
		status == http.StatusPreconditionFailed && conditionNotMet(code)) {
		return remote.Exists
	}
	if op == opGet && status == http.StatusPreconditionFailed && conditionNotMet(code) {
		return remote.Changed
	}
	ofObject := op == opGet || op == opHead || op == opDelete
	if class, ok := classes[code]; ok && (class != remote.NotFound || ofObject) {
		return class
	}
	switch status {
	case http.StatusNotFound:
		if op == opHead && code == "" { // HEAD's answer has no body to tell more
			return remote.NotFound
		}
	case http.StatusConflict:
		return remote.Conflict
	case http.StatusTooManyRequests:
		return remote.Throttled
	case http.StatusRequestTimeout:
		return remote.Unclear
	}
	if status >= 300 && status < 500 || status == http.StatusNotImplemented {
		return remote.Refused
	}
	// 5xx. NB: also a 503 without a code that says more: a proxy may have lost the
	// store's own answer. And a success that cannot be read.
	return remote.Unclear
}

func conditionNotMet(code bloberror.Code) bool {
	return code == "" || code == bloberror.ConditionNotMet || code == bloberror.TargetConditionNotMet
}

// failed makes an error of the SDK's. NB: the SDK's error is not in its chain, as
// its text has the request's URL, and its answer the request.
func (op operation) failed(err error) *remote.Error {
	if e, ok := errors.AsType[*remote.Error](err); ok {
		return e
	}
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return unanswered(err)
	}
	e := &remote.Error{Status: answer.StatusCode, Code: answer.ErrorCode}
	message := ""
	if r := answer.RawResponse; r != nil {
		e.RequestID = r.Header.Get("X-Ms-Request-Id")
		e.RetryAfter = remote.RetryAfter(r.Header)
		message = messageOf(r)
	}
	e.Class = classOf(op, e.Status, bloberror.Code(e.Code))
	e.Err = errors.New(explain(e, message))
	return e
}

// explain is the text of an answer.
func explain(e *remote.Error, message string) string {
	what := http.StatusText(e.Status)
	switch e.Code {
	case string(bloberror.ContainerNotFound):
		what, message = "the container does not exist", ""
	case string(bloberror.AuthenticationFailed):
		what = "the key or SAS token is wrong or has expired, or this machine's clock is"
	case string(bloberror.LeaseIDMissing):
		what = "somebody holds a lease on the blob"
	}
	text := what + " (" + strings.TrimSpace(strconv.Itoa(e.Status)+" "+e.Code) + ")"
	if message != "" {
		text += ": " + remote.Scrub(message)
	}
	return text
}

// messageOf is the first line of the message in an answer: more lines repeat the
// request's id and the time.
func messageOf(r *http.Response) string {
	body, err := runtime.Payload(r)
	if err != nil {
		return ""
	}
	var answer struct {
		Message string `xml:"Message"`
	}
	if err := xml.Unmarshal(body, &answer); err != nil {
		return ""
	}
	line, _, _ := strings.Cut(answer.Message, "\n")
	return line
}

// unanswered classifies what failed without an answer of the store.
func unanswered(err error) *remote.Error {
	if e, ok := errors.AsType[*tokenError](err); ok {
		return noToken(e)
	}
	return remote.Unanswered(err)
}

// noToken is a failure of the credentials: the store was not asked.
func noToken(e *tokenError) *remote.Error {
	out := &remote.Error{Class: remote.Refused, Err: errors.New(remote.Scrub(e.Error()))}
	if auth, ok := errors.AsType[*azidentity.AuthenticationFailedError](e.err); ok && auth.RawResponse != nil {
		out.Status = auth.RawResponse.StatusCode
		if out.Status >= 500 || out.Status == http.StatusTooManyRequests {
			out.Class = remote.Throttled // nothing was done
		}
	}
	return out
}

// refusal is an error of this package's own making.
func refusal(format string, args ...any) *remote.Error {
	return &remote.Error{Class: remote.Refused, Err: fmt.Errorf(format, args...)}
}
