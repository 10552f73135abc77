package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// task is one request with its repeats. It is for one goroutine.
type task struct {
	s    *store
	kind driver.Request
	size int64 // bytes that an attempt sends: it gets the time for them

	began     time.Time
	attempts  int
	renewals  int  // attempts that met credentials which had expired
	undecided bool // an attempt may have been carried out, now or later
	last      *Error
}

// attempt is one request. alive tells that the server is there, and may be
// called any number of times: the attempt gets new time with each.
type attempt func(ctx context.Context, alive func()) error

func (s *store) task(kind driver.Request, size int64) *task {
	return &task{s: s, kind: kind, size: size}
}

// run makes the request until it succeeds, is decided against or there is no
// point in going on: an [*Error] is in the chain then, and ctx's error if ctx
// ended.
func (t *task) run(ctx context.Context, try attempt) error {
	t.began = t.s.o.Now()
	for {
		if err := ctx.Err(); err != nil {
			return t.ended(err)
		}
		err := t.once(ctx, try)
		if err == nil {
			return nil
		}
		t.last = asError(err)
		switch t.last.Class {
		case NotFound, Exists, Changed, Refused:
			return t.refused()
		case Expired:
			if t.renewals++; t.renewals > 2 {
				return t.refused()
			}
		case Unclear, Conflict:
			t.undecided = true
		case Throttled:
		}
		if err := ctx.Err(); err != nil {
			return t.ended(err)
		}
		if t.spent() {
			return fmt.Errorf("gave up after %d attempts in %s: %w",
				t.attempts, t.s.o.Now().Sub(t.began).Round(time.Millisecond), t.last)
		}
		if err := t.s.o.Sleep(ctx, t.wait()); err != nil {
			return t.ended(err)
		}
	}
}

// once makes one attempt and gives it up when nothing is heard for too long.
func (t *task) once(ctx context.Context, try attempt) error {
	if t.attempts++; t.attempts > 1 {
		t.s.o.Stats.Retried()
	}
	t.s.o.Stats.Count(t.kind)
	limit := t.s.o.Silence + time.Duration(t.size/leastRate)*time.Second
	silent := fmt.Errorf("no answer for %s", limit)
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(silent) })
	defer cancel(nil)
	defer timer.Stop()
	err := try(ctx, func() { timer.Reset(limit) })
	// NB: the deadline is the attempt's own. As context.DeadlineExceeded it would
	// be taken for the caller's.
	if err != nil && errors.Is(context.Cause(ctx), silent) {
		if class := asError(err).Class; class == Unclear {
			return &Error{Class: Unclear, Err: silent}
		}
	}
	return err
}

// asError returns the bucket's error; one that has no class is unclear (I4).
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Err: err}
}

func (t *task) spent() bool {
	if t.attempts >= t.s.o.Attempts {
		return true
	}
	return t.attempts >= leastAttempts && t.s.o.Now().Sub(t.began) >= t.s.o.RetryFor
}

// wait doubles from attempt to attempt, with the upper half of it random, and is
// at least what the store asked for; but it does not go past the end.
func (t *task) wait() time.Duration {
	d := longestWait
	if n := t.attempts - 1; n < 16 {
		d = min(d, firstWait<<n)
	}
	d = d/2 + time.Duration(t.s.o.Jitter()*float64(d/2))
	d = max(d, t.last.RetryAfter)
	left := t.s.o.RetryFor - t.s.o.Now().Sub(t.began)
	return min(d, max(left, firstWait))
}

// refused is the error of a request that was decided against.
func (t *task) refused() error {
	if t.attempts == 1 {
		return t.last
	}
	return fmt.Errorf("attempt %d: %w", t.attempts, t.last)
}

// ended is the error of a request whose caller went away.
func (t *task) ended(err error) error {
	if t.last == nil {
		return err
	}
	return fmt.Errorf("%w after %d attempts, the last of which failed: %w", err, t.attempts, t.last)
}
