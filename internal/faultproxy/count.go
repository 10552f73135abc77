package faultproxy

import (
	"maps"
	"sync"
)

// Count is what went through for one kind of request.
type Count struct {
	Requests int
	// Sent and Received are the bytes of bodies, from the client and to it.
	Sent, Received int64
}

// counts is safe for concurrent use.
type counts struct {
	mu     sync.Mutex
	n      int
	nth    map[[2]string]int
	kinds  map[string]Count
	faults map[string]int
}

// request counts a request and numbers it.
func (c *counts) request(r *Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nth == nil {
		c.nth, c.kinds, c.faults = map[[2]string]int{}, map[string]Count{}, map[string]int{}
	}
	c.n++
	c.nth[[2]string{r.Kind, r.Key}]++
	r.N, r.Nth = c.n, c.nth[[2]string{r.Kind, r.Key}]
	k := c.kinds[r.Kind]
	k.Requests++
	k.Sent += r.Bytes
	c.kinds[r.Kind] = k
}

func (c *counts) received(kind string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kinds[kind]
	k.Received += n
	c.kinds[kind] = k
}

func (c *counts) fault(f *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[f.name()]++
}

// Counts are the requests so far and their bytes, by [Request.Kind]. A request
// counts when its body has come; what its answer brought, as it is written.
func (p *Proxy) Counts() map[string]Count {
	p.counts.mu.Lock()
	defer p.counts.mu.Unlock()
	return maps.Clone(p.counts.kinds)
}

// Total is the sum of [Proxy.Counts].
func (p *Proxy) Total() Count {
	var t Count
	for _, c := range p.Counts() {
		t.Requests += c.Requests
		t.Sent += c.Sent
		t.Received += c.Received
	}
	return t
}

// Faults are the faults so far, by [Fault.Name].
func (p *Proxy) Faults() map[string]int {
	p.counts.mu.Lock()
	defer p.counts.mu.Unlock()
	return maps.Clone(p.counts.faults)
}

// ResetCounts starts counting anew. [Request.N] and [Request.Nth] start anew too.
func (p *Proxy) ResetCounts() {
	p.counts.mu.Lock()
	defer p.counts.mu.Unlock()
	p.counts.n = 0
	clear(p.counts.nth)
	clear(p.counts.kinds)
	clear(p.counts.faults)
}
