package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// recent is how many runs of reads a reader follows at once: as many columns as
// a file commonly has.
const recent = 16

// reader is a [driver.Reader] and a [driver.Prefetcher]. It stays with the
// object that it opened: once that is replaced, reads fail.
type reader struct {
	s      *readers
	end    *held
	ctx    context.Context //nolint:containedctx // the driver's contract: it holds for the reader's life
	cancel context.CancelFunc

	mu      sync.Mutex
	blocks  []*block // ascending, disjoint, below end.off
	queue   []*block // not begun yet, in the order wished for
	ahead   int64    // bytes of hinted blocks that are begun
	asked   []*block // those that a read asked for, the oldest first
	hinted  []*block // those of hints that are begun, the oldest first
	runs    []runEnd // ends of the latest such reads
	running sync.WaitGroup
}

// runEnd is where a read ended and how much was fetched for it.
type runEnd struct{ off, n int64 }

// Size is [driver.Reader]'s.
func (r *reader) Size() int64 { return r.end.size }

// Close ends requests in flight.
func (r *reader) Close() error {
	r.cancel()
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.s.ahead.Add(-r.ahead)
	r.blocks, r.queue, r.asked, r.hinted, r.ahead = nil, nil, nil, nil, 0
	return nil
}

// ReadAt is [io.ReaderAt]'s.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read from byte %d", off)
	}
	n := 0
	for n < len(p) && off < r.end.size {
		if off >= r.end.off {
			got := copy(p[n:], r.end.data[off-r.end.off:])
			n, off = n+got, off+int64(got)
			continue
		}
		got, err := r.some(p[n:min(int64(len(p)), int64(n)+r.end.off-off)], off)
		n, off = n+got, off+int64(got)
		if err != nil {
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// some reads at least a byte out of one block.
func (r *reader) some(p []byte, off int64) (int, error) {
	for {
		b := r.find(int64(len(p)), off)
		select {
		case <-b.done:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
		if b.err == nil {
			n := copy(p, b.data[off-b.off:])
			r.taken(b, int64(n))
			return n, nil
		}
		r.forget(b)
		if !b.ahead || final(b.err) {
			return 0, b.err
		}
		// A hint's failure: the read asks for itself.
	}
}

// final says whether asking again is of no use.
func final(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Class == NotFound || e.Class == Changed || e.Class == Refused)
}

// find returns the block that holds off, begun; it makes one where there is none.
func (r *reader) find(n, off int64) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.at(off)
	if i < len(r.blocks) && r.blocks[i].off <= off {
		b := r.blocks[i]
		if !b.begun { // it is needed now, whatever the window says
			r.queue = slices.DeleteFunc(r.queue, func(q *block) bool { return q == b })
			r.begin(b)
			r.drop(func(*block) bool { return r.ahead > r.s.o.Window })
		}
		return b
	}
	limit := r.end.off
	if i < len(r.blocks) {
		limit = r.blocks[i].off
	}
	return r.ask(n, off, limit)
}

// at is the index of the first block that ends after off.
func (r *reader) at(off int64) int {
	i, _ := slices.BinarySearchFunc(r.blocks, off, func(b *block, off int64) int {
		if b.end() > off {
			return 1
		}
		return -1
	})
	return i
}

// ask begins to fetch n bytes from off on, no further than limit, that nobody
// foresaw. Where reads go on from earlier ones more is fetched, and what follows
// that too.
func (r *reader) ask(n, off, limit int64) *block {
	size, more := max(n, near), int64(0)
	run := slices.IndexFunc(r.runs, func(e runEnd) bool { return e.off == off })
	if run >= 0 {
		size = max(size, min(2*r.runs[run].n, r.s.o.Block/2))
		more = size
		r.runs = slices.Delete(r.runs, run, run+1)
	}
	var first *block
	stop := min(limit, off+size+more)
	for at := off; at < stop; {
		b := newBlock(at, min(min(size, r.s.o.Block), stop-at))
		b.ahead = first != nil && at >= off+n
		r.insert(b)
		r.asked = append(r.asked, b)
		r.begin(b)
		if first == nil {
			first = b
		}
		at = b.end()
	}
	if len(r.runs) == recent {
		r.runs = r.runs[1:]
	}
	r.runs = append(r.runs, runEnd{stop, size})
	r.bound()
	return first
}

// bound drops the oldest blocks of unforeseen reads beyond the window.
func (r *reader) bound() {
	var sum int64
	for _, b := range r.asked {
		sum += b.n
	}
	for i := 0; i < len(r.asked) && sum > r.s.o.Window; {
		b := r.asked[i]
		if !b.finished() {
			i++
			continue
		}
		sum -= b.n
		r.remove(b) // of asked too
	}
}

func (r *reader) insert(b *block) {
	r.blocks = slices.Insert(r.blocks, r.at(b.off), b)
}

// begin makes a block's request; the lock is held.
func (r *reader) begin(b *block) {
	b.begun = true
	if b.hinted {
		r.ahead += b.n
		r.hinted = append(r.hinted, b)
		r.s.ahead.Add(b.n)
	}
	r.running.Go(func() {
		defer close(b.done)
		is := driver.Info{Size: r.end.size, ETag: r.end.etag}
		b.data, b.err = r.s.exactly(r.ctx, r.end.key, driver.Range{Off: b.off, N: b.n}, is)
	})
}

// advance begins what is queued as far as the window allows; the lock is held.
func (r *reader) advance() {
	for len(r.queue) > 0 {
		b := r.queue[0]
		if r.ahead > 0 && (r.ahead+b.n > r.s.o.Window || r.s.ahead.Load()+b.n > r.s.o.Windows) {
			return
		}
		r.queue = r.queue[1:]
		r.begin(b)
	}
}

// remove drops a block; the lock is held.
func (r *reader) remove(b *block) {
	i := r.at(b.off)
	if i == len(r.blocks) || r.blocks[i] != b {
		return // another read dropped it
	}
	r.blocks = slices.Delete(r.blocks, i, i+1)
	r.asked = slices.DeleteFunc(r.asked, func(a *block) bool { return a == b })
	if b.hinted && b.begun {
		r.ahead -= b.n
		r.hinted = slices.DeleteFunc(r.hinted, func(h *block) bool { return h == b })
		r.s.ahead.Add(-b.n)
	}
}

// drop drops blocks of hints that were fetched, the oldest first, but the newest
// stays: what of them is still read is fetched again. The lock is held.
func (r *reader) drop(which func(*block) bool) {
	for _, b := range slices.Clone(r.hinted[:max(0, len(r.hinted)-1)]) {
		if b.finished() && which(b) {
			r.remove(b)
		}
	}
}

// taken counts what was read of a block and drops it once that is all.
func (r *reader) taken(b *block, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.left -= n; b.left <= 0 {
		r.remove(b)
		r.advance()
	}
}

// forget drops a block that failed.
func (r *reader) forget(b *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(b)
	if e, ok := errors.AsType[*Error](b.err); ok && e.Class == Changed {
		r.s.kept.drop(r.end.key)
	}
	r.advance()
}

// Prefetch is [driver.Prefetcher]'s.
func (r *reader) Prefetch(ranges []driver.Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	// Not all that was wished for is read: files have bytes between their pages.
	r.drop(func(b *block) bool { return b.left <= leftover })
	l := limits{near: near, gap: r.s.o.Gap, block: r.s.o.Block}
	for _, b := range coalesce(ranges, r.blocks, r.end.off, l) {
		b.hinted = true
		r.insert(b)
		r.queue = append(r.queue, b)
	}
	r.advance()
}

var _ driver.Prefetcher = (*reader)(nil)
