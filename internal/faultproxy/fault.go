package faultproxy

import (
	"net/http"
	"time"
)

// Kind is what becomes of a request.
type Kind uint8

const (
	// Pass is that it reaches the server and its answer the client.
	Pass Kind = iota
	// Refuse is that the proxy answers with Status and Code; the server does not
	// see the request.
	Refuse
	// RefuseAfter is that the server carries the request out, and its answer is
	// replaced by Status and Code.
	RefuseAfter
	// Reset is that the connection is reset; the server does not see the request.
	Reset
	// LoseAnswer is that the server carries the request out, and the connection is
	// closed without an answer.
	LoseAnswer
	// ResetBody is that a part of the answer's body arrives, and then the
	// connection is reset.
	ResetBody
	// ShortBody is that fewer bytes arrive than Content-Length says, and then the
	// connection is closed in good order.
	ShortBody
	// ShorterBody is that a part of the body arrives with a Content-Length that
	// fits it: nothing of HTTP tells.
	ShorterBody
	// WrongETag is that the answer's ETag is another object's.
	WrongETag
	// Late is that the connection is closed without an answer, and that the server
	// gets the request later: see Fault.After.
	Late
)

// Fault is what becomes of a request. The zero Fault is none.
type Fault struct {
	// Name is what the fault is counted under; "" counts it under its Kind's name.
	Name string
	Kind Kind
	// Status, Code and Message are the answer of Refuse and RefuseAfter.
	Status        int
	Code, Message string
	// Header is set in the answer of Refuse and RefuseAfter.
	Header http.Header
	// Delay is waited before anything else is done.
	Delay time.Duration
	// After is when a Late request goes to the server: that long after it came, or
	// with 0 as Next says.
	After time.Duration
	// Next has a Late request without After go to the server once the next request
	// for the same key has been answered; otherwise it goes with [Proxy.Land].
	Next bool
	// Cut gives how many bytes of an answer's body arrive with ResetBody, ShortBody
	// and ShorterBody; nil is half of them.
	Cut func(body []byte) int
	// Strip are headers that are taken out of the request before the server gets
	// it. Such a request is signed anew.
	Strip []string
	// SignNow has the request signed anew with the proxy's own time.
	SignNow bool
}

// none tells whether nothing is wrong with a request.
func (f *Fault) none() bool {
	return f.Name == "" && f.Kind == Pass && f.Delay == 0 && len(f.Strip) == 0 && !f.SignNow
}

// name is what the fault is counted under.
func (f *Fault) name() string {
	if f.Name != "" {
		return f.Name
	}
	switch f.Kind {
	case Pass:
		if f.Delay > 0 {
			return "delay"
		}
		return "changed request"
	case Refuse:
		return f.Code
	case RefuseAfter:
		return f.Code + " after the work"
	case Reset:
		return "reset"
	case LoseAnswer:
		return "answer lost"
	case ResetBody:
		return "reset in the body"
	case ShortBody:
		return "short body"
	case ShorterBody:
		return "shorter body"
	case WrongETag:
		return "wrong ETag"
	case Late:
		return "late"
	}
	return "unknown"
}

// SlowDown is S3's throttling: 503, not carried out.
func SlowDown() Fault {
	return Fault{Kind: Refuse, Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate."}
}

// TooManyRequests is throttling as GCS and stores beside AWS have it: 429, not
// carried out.
func TooManyRequests() Fault {
	return Fault{Kind: Refuse, Status: http.StatusTooManyRequests, Code: "TooManyRequests", Message: "Too many requests."}
}

// InternalError is a 500 of a server that did nothing.
func InternalError() Fault {
	return Fault{Kind: Refuse, Status: http.StatusInternalServerError, Code: "InternalError", Message: "We encountered an internal error. Please try again."}
}

// InternalErrorAfter is a 500 of a server that did what it was asked.
func InternalErrorAfter() Fault {
	f := InternalError()
	f.Kind = RefuseAfter
	return f
}

// ErrorInSuccess is S3's 200 with an error in its body, as
// CompleteMultipartUpload may answer; nothing was done.
func ErrorInSuccess() Fault {
	return Fault{Name: "error in a 200", Kind: Refuse, Status: http.StatusOK, Code: "InternalError", Message: "We encountered an internal error. Please try again."}
}

// AccessDenied is S3's 403 for an object.
func AccessDenied() Fault {
	return Fault{Kind: Refuse, Status: http.StatusForbidden, Code: "AccessDenied", Message: "Access Denied"}
}

// ExpiredToken is S3's 400 for a session token whose time is over.
func ExpiredToken() Fault {
	return Fault{Kind: Refuse, Status: http.StatusBadRequest, Code: "ExpiredToken", Message: "The provided token has expired."}
}

// Conflict is S3's 409 for a conditional put that met another one under way; the
// client is to send it again.
func Conflict() Fault {
	return Fault{
		Kind: Refuse, Status: http.StatusConflict, Code: "ConditionalRequestConflict",
		Message: "The conditional request cannot succeed due to a conflicting operation against this resource.",
	}
}

// Slow delays a request.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }
