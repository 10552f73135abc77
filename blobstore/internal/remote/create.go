package remote

import (
	"context"
	"errors"
	"strings"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// logFolder is where a Delta table has its log.
const logFolder = "_delta_log/"

// Create is [driver.Driver]'s: a put that the store itself decides.
//
// Exists is said of an object that is there, whoever wrote it: if an earlier
// attempt of this very call was not answered, it may have been ours, and only
// who reads it back can tell (R8). Unknown is said as soon as one attempt was
// not clearly answered, unless a later one was: a refusal, or the end of ctx,
// says nothing of the attempts before it. An error that certainly came before
// the store looked at the object, for all attempts, is NotDone.
func (s *store) Create(ctx context.Context, key string, data []byte) (driver.Outcome, error) {
	d, err := s.prepared(ctx, strings.HasPrefix(key, logFolder))
	if err != nil {
		return driver.NotDone, err
	}
	c := IfAbsent
	if d == decidedAlone {
		c = Always
		// Nothing else writes: what is looked up stays true.
		if _, err := s.Stat(ctx, key); err == nil {
			return driver.Exists, nil
		} else if !errors.Is(err, driver.ErrNotFound) {
			return driver.NotDone, err
		}
	}
	t := s.putting(data)
	err = t.run(ctx, func(ctx context.Context, _ func()) error { return s.put(ctx, key, data, c) })
	return t.outcome(err), errorOf(err)
}

// outcome is what became of the conditional put that ended in err.
func (t *task) outcome(err error) driver.Outcome {
	switch {
	case err == nil:
		return driver.Created
	case exists(err):
		return driver.Exists
	case t.undecided:
		return driver.Unknown
	}
	return driver.NotDone
}

// exists tells a put whose condition failed. NB: of the last attempt, so by the
// error's own class and not by one deeper in the chain of a context's end.
func exists(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Class == Exists
}

// errorOf is err, or nil if it says only that the object exists.
func errorOf(err error) error {
	if exists(err) {
		return nil
	}
	return err
}

// SingleWriter is [driver.SingleWriter]'s.
func (s *store) SingleWriter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision == decidedAlone
}

// Prepare is [driver.Preparer]'s.
func (s *store) Prepare(ctx context.Context) error {
	_, err := s.prepared(ctx, true)
	return err
}

// prepared is what is known of the store's conditions, after a probe if need be,
// and a look at the log folder if something is to be created there.
func (s *store) prepared(ctx context.Context, log bool) (decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if log && !s.logSeen && s.o.CheckLog != nil {
		if err := s.o.CheckLog(ctx, s); err != nil {
			return undecided, err
		}
		s.logSeen = true
	}
	if s.decision == undecided {
		d, err := s.decide(ctx)
		if err != nil {
			return undecided, err
		}
		s.decision = d
	}
	return s.decision, nil
}
