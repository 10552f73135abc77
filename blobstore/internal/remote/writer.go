package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// writer collects bytes. What fits into one part is written by one put when it
// is closed; more is sent in parts as it comes, several at once, each kept until
// it has arrived.
type writer struct {
	ctx  context.Context    //nolint:containedctx // the driver's contract: it holds for the writer's life
	stop context.CancelFunc // ends ctx: parts on their way are given up
	s    *store
	key  string
	buf  []byte
	size int64 // of the whole object so far

	upload Upload // nil before the first part
	parts  int    // sent or being sent
	slots  chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	err    error // of the first part that failed
}

// NewWriter is [driver.Driver]'s. It makes no request.
func (s *store) NewWriter(ctx context.Context, key string) (driver.Writer, error) {
	w := &writer{s: s, key: key, slots: make(chan struct{}, uploads)}
	if inOrder(s.b) {
		w.slots = make(chan struct{}, 1)
	}
	w.ctx, w.stop = context.WithCancel(ctx)
	return w, nil
}

// Write is [driver.Writer]'s.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.failed(); err != nil {
		return 0, err
	}
	n := 0
	for len(p) > 0 {
		// A full part waits for one more byte: without it, it is the whole object.
		if int64(len(w.buf)) == w.partSize() {
			if err := w.sendPart(); err != nil {
				return n, err
			}
		}
		k := min(len(p), int(w.partSize())-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		w.size += int64(k)
		p, n = p[k:], n+k
	}
	return n, nil
}

// partSize is the size of the next part: the same for the first 5,000, which some
// stores ask for, and then twice as much for each 500, so that the 10,000 parts
// of S3 are enough for any object that S3 takes.
func (w *writer) partSize() int64 {
	return w.s.o.PartSize << max(0, (w.parts-4500)/500)
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.ctx.Err())
}

// sendPart starts to send what was collected, as soon as there is a slot.
func (w *writer) sendPart() error {
	if w.upload == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	select {
	case w.slots <- struct{}{}:
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	// After a part that failed, one more is for nothing; where parts wait for the
	// one before them it would wait in vain.
	if err := w.failed(); err != nil {
		<-w.slots
		return err
	}
	w.parts++
	number, data := w.parts, w.buf
	w.buf = nil
	w.wg.Go(func() {
		defer func() { <-w.slots }()
		err := w.s.task(driver.RequestPart, int64(len(data))).run(w.ctx, func(ctx context.Context, _ func()) error {
			ctx, cancel := lingering(ctx)
			defer cancel()
			w.s.o.Stats.Bytes(0, int64(len(data)))
			return w.upload.Part(ctx, number, data)
		})
		if err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.err == nil {
				w.err = fmt.Errorf("part %d: %w", number, err)
			}
		}
	})
	return w.failed()
}

// linger is how long a part that is on its way may go on after its context has
// ended.
const linger = 2 * time.Second

// lingering returns a context that ends a while after ctx. NB: a part whose
// connection is cut may still arrive, and at S3 even after the upload was
// aborted, which leaves it there; one that has been answered is dropped for
// certain.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(linger)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(context.Cause(ctx))
		case <-later.Done():
		}
	})
	return later, func() {
		stop()
		cancel(nil)
	}
}

func (w *writer) start() error {
	err := w.s.task(driver.RequestPart, 0).run(w.ctx, func(ctx context.Context, _ func()) error {
		var err error
		w.upload, err = w.s.b.StartUpload(ctx, w.s.o.Prefix+w.key)
		return err
	})
	if err != nil {
		w.upload = nil
		return fmt.Errorf("start an upload in parts: %w", err)
	}
	return nil
}

// Close is [driver.Writer]'s.
func (w *writer) Close() error {
	defer w.stop()
	if err := w.ctx.Err(); err != nil {
		return errors.Join(err, w.Abort())
	}
	if w.upload == nil {
		return w.putWhole()
	}
	err := w.sendPart() // never empty: Write sends a part only if more follows
	w.wg.Wait()
	if err = errors.Join(w.failed(), err); err == nil {
		err = w.complete()
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return nil
}

// putWhole writes an object of one part.
func (w *writer) putWhole() error {
	t := w.s.putting(w.buf)
	err := t.run(w.ctx, func(ctx context.Context, _ func()) error { return w.s.put(ctx, w.key, w.buf, Always) })
	return w.settled(t, err)
}

// complete publishes the parts.
func (w *writer) complete() error {
	t := w.s.task(driver.RequestPart, 0)
	err := t.run(w.ctx, func(ctx context.Context, _ func()) error { return w.upload.Complete(ctx, w.parts) })
	return w.settled(t, err)
}

// settled is err, or nil if an attempt that was not answered has published the
// object: the name is nobody else's, so the object tells. Who has no error can
// delete what was written; one that lands later still stays behind.
func (w *writer) settled(t *task, err error) error {
	if err == nil || !t.undecided {
		return err
	}
	ctx, cancel := w.s.detached(w.ctx)
	defer cancel()
	info, statErr := w.s.Stat(ctx, w.key)
	if statErr == nil && info.Size == w.size {
		return nil
	}
	return errors.Join(err, statErr)
}

// Abort is [driver.Writer]'s. It goes on when ctx has ended.
func (w *writer) Abort() error {
	ctx, cancel := w.s.detached(w.ctx)
	defer cancel()
	w.stop()
	w.wg.Wait()
	w.buf = nil
	if w.upload == nil {
		return nil
	}
	err := w.s.task(driver.RequestPart, 0).run(ctx, func(ctx context.Context, _ func()) error { return w.upload.Abort(ctx) })
	if err != nil {
		return fmt.Errorf("abort the upload in parts: %w", err)
	}
	return nil
}
