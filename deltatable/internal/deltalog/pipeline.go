package deltalog

import (
	"context"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/deltafold/deltafold/blobstore"
)

const (
	// readers is how many entries are read at once.
	readers = 16
	// inFlight bounds the text of the entries that are read ahead, in bytes; an entry
	// larger than this is read alone.
	inFlight = 64 << 20
	// entryOverhead counts for an entry beside its text.
	entryOverhead = 4 << 10
)

// result is an entry that is being read.
type result struct {
	entry *Entry
	err   error
}

// readEntries reads entries in parallel and hands them to take from the last to the
// first. It returns the first error and leaves no goroutine behind.
func readEntries(ctx context.Context, store *blobstore.Store, entries []EntryInfo, take func(*Entry)) error {
	if len(entries) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	queue := make(chan chan result, readers)
	budget := semaphore.NewWeighted(inFlight)
	go func() {
		defer close(queue)
		for _, info := range slices.Backward(entries) {
			if budget.Acquire(ctx, weight(info)) != nil {
				return // cancelled: an error was found, or the caller gave up
			}
			done := make(chan result, 1)
			queue <- done
			go func() {
				e, err := readEntry(ctx, store, info)
				done <- result{e, err}
			}()
		}
	}()
	var first error
	at := len(entries)
	for done := range queue {
		r := <-done
		at--
		budget.Release(weight(entries[at]))
		if first != nil {
			continue
		}
		if r.err != nil {
			first = r.err
			cancel()
			continue
		}
		take(r.entry)
	}
	if first == nil && at > 0 {
		first = context.Cause(ctx)
	}
	cancel()
	return first
}

func weight(info EntryInfo) int64 { return min(inFlight, max(0, info.Size)+entryOverhead) }
