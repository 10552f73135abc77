package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Options are the settings of a Proxy. The nil *Options and every zero field mean
// the defaults.
type Options struct {
	// Decide decides on each request; nil lets all pass.
	Decide Decide
	// Dialect is whose requests they are. Default S3.
	Dialect Dialect
	// Credentials sign requests anew where a fault changes what is signed.
	Credentials *Credentials
	// Latency is added to every request. Default none.
	Latency time.Duration
	// Bandwidth bounds the bytes of bodies a second, in each direction, of all
	// connections together. Default 0: no bound.
	Bandwidth int64
	// Now is the proxy's clock. Default time.Now.
	Now func() time.Time
}

// Proxy stands in front of one server. It is safe for concurrent use.
type Proxy struct {
	o         Options
	upstream  *url.URL
	transport *http.Transport
	server    *http.Server
	url       string
	decide    atomic.Pointer[Decide]
	latency   atomic.Int64
	up, down  link
	counts    counts
	closed    chan struct{}

	mu     sync.Mutex
	landed sync.Cond // flying is 0
	late   []*lateRequest
	flying int // late requests on their way
	ended  bool
	wait   sync.WaitGroup
}

// lateRequest is a request that the client was told nothing of.
type lateRequest struct {
	key  string
	next bool
	send func()
}

// New starts a proxy in front of the server at upstreamURL, http://host:port,
// and ends it with the test.
func New(t testing.TB, upstreamURL string, o *Options) *Proxy {
	t.Helper()
	p, err := Start(upstreamURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Start is New for programs; the caller closes the proxy.
func Start(upstreamURL string, o *Options) (*Proxy, error) {
	u, err := url.Parse(upstreamURL)
	if err != nil {
		return nil, fmt.Errorf("start proxy: upstream: %w", err)
	}
	if u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("start proxy: upstream %q is not http://host:port", upstreamURL)
	}
	p := &Proxy{upstream: u, closed: make(chan struct{})}
	p.landed.L = &p.mu
	if o != nil {
		p.o = *o
	}
	if p.o.Now == nil {
		p.o.Now = time.Now //nolint:forbidigo // the default of the clock option
	}
	p.up.perSecond, p.down.perSecond = p.o.Bandwidth, p.o.Bandwidth
	p.SetDecide(p.o.Decide)
	p.SetLatency(p.o.Latency)
	p.transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p.url = "http://" + l.Addr().String()
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	p.wait.Go(func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("faultproxy: internal error: serve: %v", err))
		}
	})
	return p, nil
}

// URL is the proxy's, http://127.0.0.1:port, for the client.
func (p *Proxy) URL() string { return p.url }

// SetDecide replaces the decision for the requests that come from now on; nil
// lets all pass.
func (p *Proxy) SetDecide(d Decide) { p.decide.Store(&d) }

// SetLatency replaces Options.Latency for the requests that come from now on.
func (p *Proxy) SetLatency(d time.Duration) { p.latency.Store(int64(d)) }

// Close ends the proxy and its connections. Late requests that have not gone to
// the server never do. Closing again does nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended = true
	p.mu.Unlock()
	close(p.closed)
	p.server.Close() // the listener's error says nothing to a test that is over
	p.wait.Wait()
	p.transport.CloseIdleConnections()
}

// Land sends all late requests that are not on their way yet, in the order they
// came, and returns when the server has answered all, also those on their way.
func (p *Proxy) Land() {
	for _, l := range p.takeLate(func(*lateRequest) bool { return true }) {
		p.send(l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.flying > 0 {
		p.landed.Wait()
	}
}

// send carries out a late request that was taken.
func (p *Proxy) send(l *lateRequest) {
	l.send()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flying--; p.flying == 0 {
		p.landed.Broadcast()
	}
}

// start has a goroutine do something, unless the proxy has ended.
func (p *Proxy) start(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.wait.Go(do)
	}
}

// Waiting is the number of late requests that are not on their way yet.
func (p *Proxy) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.late)
}

func (p *Proxy) takeLate(which func(*lateRequest) bool) []*lateRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []*lateRequest
	if p.ended {
		return nil
	}
	p.late = slices.DeleteFunc(p.late, func(l *lateRequest) bool {
		if which(l) {
			taken = append(taken, l)
			return true
		}
		return false
	})
	p.flying += len(taken)
	return taken
}

// ServeHTTP is the handler of the proxy's own server.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(&linked{r: r.Body, l: &p.up, ctx: r.Context()})
	if err != nil {
		return // the client hung up: the server sees nothing of it
	}
	q := parse(p.o.Dialect, r, body)
	p.counts.request(q)
	var f Fault
	if decide := *p.decide.Load(); decide != nil {
		f = decide(q)
	}
	if !f.none() {
		p.counts.fault(&f)
	}
	e := &exchange{p: p, w: w, r: r, q: q, f: &f, body: body}
	if f.Kind == Late {
		e.postpone()
		hangUp(w, false)
	} else if e.delay() {
		e.serve()
	}
	if f.Kind == Late {
		return
	}
	for _, l := range p.takeLate(func(l *lateRequest) bool { return l.next && l.key == q.Key }) {
		p.start(func() { p.send(l) })
	}
}

// exchange is one request and its answer.
type exchange struct {
	p    *Proxy
	w    http.ResponseWriter
	r    *http.Request
	q    *Request
	f    *Fault
	body []byte
}

// delay waits as the fault and the latency have it. A request that only reads
// ends with its client; a write would have reached the server.
func (e *exchange) delay() bool {
	d := time.Duration(e.p.latency.Load()) + e.f.Delay
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	gone := e.r.Context().Done()
	if e.q.Write() {
		gone = nil
	}
	select {
	case <-t.C:
		return true
	case <-gone:
	case <-e.p.closed:
	}
	return false
}

// postpone keeps the request for later.
func (e *exchange) postpone() {
	r := e.r.Clone(context.WithoutCancel(e.r.Context()))
	e.r = r
	l := &lateRequest{key: e.q.Key, next: e.f.Next, send: func() {
		if resp, err := e.forward(); err == nil {
			io.Copy(io.Discard, resp.Body) //nolint:errcheck // nobody is told
			resp.Body.Close()
		}
	}}
	p := e.p
	p.mu.Lock()
	p.late = append(p.late, l)
	p.mu.Unlock()
	if e.f.After <= 0 {
		return
	}
	p.start(func() {
		t := time.NewTimer(e.f.After)
		defer t.Stop()
		select {
		case <-p.closed:
		case <-t.C:
			for _, l := range p.takeLate(func(o *lateRequest) bool { return o == l }) {
				p.send(l)
			}
		}
	})
}

// forward sends the request to the server.
func (e *exchange) forward() (*http.Response, error) {
	ctx := e.r.Context()
	if e.q.Write() {
		ctx = context.WithoutCancel(ctx) // the whole request has come; the server would carry it out
	}
	out := e.r.Clone(ctx)
	out.URL.Scheme, out.URL.Host = e.p.upstream.Scheme, e.p.upstream.Host
	out.Host, out.RequestURI = e.r.Host, ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(e.body)), int64(len(e.body))
	if len(e.body) == 0 {
		out.Body = http.NoBody
	}
	out.TransferEncoding, out.Close = nil, false
	for _, name := range []string{"Connection", "Keep-Alive", "Expect", "Proxy-Connection", "Te", "Upgrade"} {
		out.Header.Del(name)
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // or the transport names itself
	}
	if len(e.f.Strip) > 0 || e.f.SignNow {
		for _, name := range e.f.Strip {
			out.Header.Del(name)
		}
		if e.p.o.Credentials != nil {
			e.p.o.Credentials.sign(out, e.p.o.Now())
		}
	}
	return e.p.transport.RoundTrip(out)
}
