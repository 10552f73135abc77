package faultproxy

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Decide decides on a request. It is called by many goroutines at once.
type Decide func(*Request) Fault

// First is the first of several decisions that is a fault.
func First(all ...Decide) Decide {
	return func(r *Request) Fault {
		for _, d := range all {
			if f := d(r); !f.none() {
				return f
			}
		}
		return Fault{}
	}
}

// Once has the first request that match accepts meet a fault, and no other.
func Once(match func(*Request) bool, f Fault) Decide { return Times(1, match, f) }

// Times has the first n requests that match accepts meet a fault.
func Times(n int, match func(*Request) bool, f Fault) Decide {
	var mu sync.Mutex
	return func(r *Request) Fault {
		mu.Lock()
		defer mu.Unlock()
		if n <= 0 || !match(r) {
			return Fault{}
		}
		n--
		return f
	}
}

// Always has every request that match accepts meet a fault.
func Always(match func(*Request) bool, f Fault) Decide {
	return func(r *Request) Fault {
		if match(r) {
			return f
		}
		return Fault{}
	}
}

// Rate is how often requests meet a fault.
type Rate struct {
	// P is the probability, from 0 to 1, for each request that When accepts; a nil
	// When accepts all.
	P     float64
	When  func(*Request) bool
	Fault Fault
}

// Random decides by chance: of the rates that accept a request, the first whose
// dice fall. The dice depend on seed and on the order in which requests come.
func Random(seed uint64, rates ...Rate) Decide {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(r *Request) Fault {
		mu.Lock()
		defer mu.Unlock()
		for _, rate := range rates {
			if (rate.When == nil || rate.When(r)) && rng.Float64() < rate.P {
				return rate.Fault
			}
		}
		return Fault{}
	}
}

// IgnoreConditions is a store that does not know If-None-Match: it overwrites.
func IgnoreConditions(r *Request) Fault {
	if !r.Write() || !r.Conditional {
		return Fault{}
	}
	return Fault{Name: "condition ignored", Strip: []string{"If-None-Match", "If-Match"}}
}

// RefuseTrailers is a store beside AWS that knows no checksums behind the body:
// it answers 400.
func RefuseTrailers(r *Request) Fault {
	streamed := strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-")
	if !streamed && r.Header.Get("X-Amz-Trailer") == "" && !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return Fault{}
	}
	return Fault{
		Name: "trailer refused", Kind: Refuse, Status: http.StatusBadRequest, Code: "InvalidArgument",
		Message: "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, or a valid sha256 value.",
	}
}

// skewLimit is the difference of clocks that S3 tolerates.
const skewLimit = 15 * time.Minute

// SkewedClock is a server whose clock is off from now by skew: requests that are
// not signed near its time are refused as S3 does, with its time in the Date
// header; those that are reach the server behind with the proxy's signature.
func SkewedClock(now func() time.Time, skew time.Duration) Decide {
	return func(r *Request) Fault {
		server := now().Add(skew)
		at, err := time.Parse(amzTime, r.Header.Get("X-Amz-Date"))
		if err == nil && server.Sub(at).Abs() <= skewLimit {
			return Fault{Name: "clock corrected", SignNow: true}
		}
		return Fault{
			Kind: Refuse, Status: http.StatusForbidden, Code: "RequestTimeTooSkewed",
			Message: "The difference between the request time and the current time is too large.",
			Header:  http.Header{"Date": {server.UTC().Format(http.TimeFormat)}},
		}
	}
}
