package driver

import (
	"context"
	"sync/atomic"
	"time"
)

// Config is what opening a store takes beside its URL. nil means the zero value.
type Config struct {
	// Endpoint is the URL of the object store's server; "" is what the environment
	// or the SDK says.
	Endpoint string
	// UnsafeSingleWriter allows stores that ignore the condition of a conditional
	// put: the user vouches that nobody else writes. It is recorded in each commit.
	UnsafeSingleWriter bool
	// Stats counts requests; nil counts nothing.
	Stats *Stats
	// Sleep waits for d, or until ctx is done, before a request is repeated; nil is
	// a timer. Tests wait less.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Request is a kind of request to an object store.
type Request uint8

// The kinds of requests, as they are counted: a retry counts again.
const (
	RequestGet    Request = iota // read an object or a range of it
	RequestHead                  // describe an object
	RequestPut                   // write an object whole, conditionally or not
	RequestPart                  // start, fill, complete or abort a write in parts
	RequestList                  // list one page
	RequestDelete                // delete an object
	Requests                     // the number of kinds
)

// String returns get, head, put, part, list or delete.
func (r Request) String() string {
	switch r {
	case RequestGet:
		return "get"
	case RequestHead:
		return "head"
	case RequestPut:
		return "put"
	case RequestPart:
		return "part"
	case RequestList:
		return "list"
	case RequestDelete:
		return "delete"
	case Requests:
	}
	return "unknown"
}

// Stats counts the requests that stores make, retries included. The zero value
// is ready; safe for concurrent use. One Stats may serve several stores.
type Stats struct {
	requests          [Requests]atomic.Int64
	retries, in, sent atomic.Int64
}

// Counts are the figures of a [Stats] at a moment. Bytes are those of objects:
// headers and listings are not counted.
type Counts struct {
	Requests [Requests]int64 // by kind
	Retries  int64           // those among them that repeat a failed one
	Received int64           // bytes of objects
	Sent     int64           // bytes of objects
}

// Counts returns the figures so far; nil gives zeros.
func (s *Stats) Counts() Counts {
	var c Counts
	if s == nil {
		return c
	}
	for i := range s.requests {
		c.Requests[i] = s.requests[i].Load()
	}
	c.Retries, c.Received, c.Sent = s.retries.Load(), s.in.Load(), s.sent.Load()
	return c
}

// Total is the number of requests of all kinds.
func (c Counts) Total() int64 {
	var n int64
	for _, k := range c.Requests {
		n += k
	}
	return n
}

// Minus returns what was counted since o.
func (c Counts) Minus(o Counts) Counts {
	for i := range c.Requests {
		c.Requests[i] -= o.Requests[i]
	}
	c.Retries -= o.Retries
	c.Received -= o.Received
	c.Sent -= o.Sent
	return c
}

// Count adds one request; nil does nothing.
func (s *Stats) Count(r Request) {
	if s != nil {
		s.requests[r].Add(1)
	}
}

// Retried says that a request is about to be repeated.
func (s *Stats) Retried() {
	if s != nil {
		s.retries.Add(1)
	}
}

// Bytes adds bytes of objects received and sent.
func (s *Stats) Bytes(received, sent int64) {
	if s != nil {
		s.in.Add(received)
		s.sent.Add(sent)
	}
}
