package faultproxy

import (
	"context"
	"io"
	"sync"
	"time"
)

// link bounds the bytes a second of all that goes through it. The zero link has
// no bound.
type link struct {
	perSecond int64
	mu        sync.Mutex
	free      time.Time // when what was let through so far has passed
}

// pass waits until n bytes more have passed, or ctx is done.
func (l *link) pass(ctx context.Context, n int) error {
	if l.perSecond <= 0 || n <= 0 {
		return nil
	}
	now := time.Now() //nolint:forbidigo // what is measured is the real time of a connection
	l.mu.Lock()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(int64(n) * int64(time.Second) / l.perSecond))
	wait := l.free.Sub(now)
	l.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// linked reads through a link.
type linked struct {
	r   io.Reader
	l   *link
	ctx context.Context //nolint:containedctx // of the one request whose body it is
}

func (b *linked) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if waited := b.l.pass(b.ctx, n); waited != nil {
		return 0, waited
	}
	return n, err
}
