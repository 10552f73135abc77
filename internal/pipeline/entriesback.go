package pipeline

import (
	"context"
	"errors"
	"iter"

	"github.com/deltafold/deltafold/deltatable"
)

// entriesAhead is how many log entries are read before they are looked at.
const entriesAhead = 16

// committed is what a version's entry says of its commit; info may be nil.
type committed struct {
	version deltatable.Version
	info    *deltatable.CommitInfo
}

// commitsBack yields what the entries of snap's version down to from say, the
// newest first, reading ahead. It ends where the log was cleaned up, and at the
// first error.
func commitsBack(ctx context.Context, t *deltatable.Table, snap *deltatable.Snapshot, from deltatable.Version) iter.Seq2[committed, error] {
	return func(yield func(committed, error) bool) {
		top := snap.Version()
		if info := snap.CommitInfo(); info != nil && top >= from {
			if !yield(committed{top, info}, nil) {
				return
			}
			top--
		}
		ctx, cancel := context.WithCancel(ctx)
		queue := readBack(ctx, t, top, from)
		defer func() {
			cancel()
			for done := range queue {
				<-done // nothing goes on afterwards
			}
		}()
		for done := range queue {
			r := <-done
			var none *deltatable.VersionRangeError
			if errors.As(r.err, &none) || !yield(r.committed, r.err) || r.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(committed{}, err)
		}
	}
}

// readCommit is one of commitsBack, or why it cannot be read.
type readCommit struct {
	committed
	err error
}

// readBack reads entries from top down to from, in this order, until ctx ends.
func readBack(ctx context.Context, t *deltatable.Table, top, from deltatable.Version) <-chan chan readCommit {
	queue := make(chan chan readCommit, entriesAhead-1)
	go func() {
		defer close(queue)
		for v := top; v >= from && ctx.Err() == nil; v-- {
			done := make(chan readCommit, 1)
			queue <- done
			go func() {
				e, err := t.Entry(ctx, v)
				r := readCommit{committed{version: v}, err}
				if err == nil {
					r.info = e.Info
				}
				done <- r
			}()
		}
	}()
	return queue
}
