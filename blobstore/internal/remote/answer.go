package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// RetryAfter is how long an answer asks to wait (RFC 9110 section 10.2.3), an hour
// at most; 0 if it does not. The form with a date, which no store uses, is not read.
func RetryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

// Unanswered classifies a request without an answer of the store. URLs are cut
// from the error's text, as a signature or an upload session in one lets in
// whoever reads it.
func Unanswered(err error) *Error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("no answer: %w", e.Err)
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return &Error{Err: ended}
		}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return &Error{Class: Throttled, Err: fmt.Errorf("cannot connect: %w", e)} // nothing was sent
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &Error{Class: Refused, Err: fmt.Errorf("the server's certificate: %w", e)}
	}
	if errors.Is(err, http.ErrSchemeMismatch) { // net/http makes it of TLS's own
		return &Error{Class: Refused, Err: errors.New("the server does not speak https (an http:// endpoint asks for plain http)")}
	}
	if clean := Scrub(err.Error()); clean != err.Error() {
		err = errors.New(clean)
	}
	return &Error{Err: err}
}
