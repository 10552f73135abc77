package deltatable

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
)

// Entry is a log entry as committed. Shared; do not modify.
type Entry struct {
	Version Version
	// Timestamp is the in-commit timestamp if the entry has one, else the
	// modification time of its file in milliseconds. Where History and Entries
	// made the Entry, modification times are adjusted so that they ascend
	// (protocol notes 2.1).
	Timestamp time.Time
	// Info is the entry's commitInfo, nil if it has none.
	Info *CommitInfo
	// Actions are all actions in file order; History leaves file actions out.
	Actions []Action
}

func newEntry(e *deltalog.Entry) *Entry {
	out := &Entry{Version: e.Version, Timestamp: e.ModTime.UTC().Truncate(time.Millisecond), Actions: e.Actions}
	for _, a := range e.Actions {
		if a.CommitInfo != nil {
			out.Info = a.CommitInfo
			break
		}
	}
	if ict := out.inCommit(); ict != nil {
		out.Timestamp = time.UnixMilli(*ict).UTC()
	}
	return out
}

func (e *Entry) inCommit() *int64 {
	if e.Info == nil {
		return nil
	}
	return e.Info.InCommitTimestamp
}

// Adds are the add actions of the entry.
func (e *Entry) Adds() iter.Seq[*Add] {
	return func(yield func(*Add) bool) {
		for _, a := range e.Actions {
			if a.Add != nil && !yield(a.Add) {
				return
			}
		}
	}
}

// Removes are the remove actions of the entry.
func (e *Entry) Removes() iter.Seq[*Remove] {
	return func(yield func(*Remove) bool) {
		for _, a := range e.Actions {
			if a.Remove != nil && !yield(a.Remove) {
				return
			}
		}
	}
}

// Entry reads the log entry of version v: one object. *VersionRangeError where
// it is not there.
func (t *Table) Entry(ctx context.Context, v Version) (*Entry, error) {
	e, err := deltalog.ReadEntry(ctx, t.store, v)
	if errors.Is(err, blobstore.ErrNotFound) {
		return nil, t.noEntry(ctx, v)
	}
	if err != nil {
		return nil, t.opening(err)
	}
	return newEntry(e), nil
}

// noEntry says which log entries there are, since that of v is not.
func (t *Table) noEntry(ctx context.Context, v Version) error {
	infos, err := t.listEntries(ctx)
	if err != nil {
		return err
	}
	if len(infos) > 0 {
		first, last := infos[0].Version, infos[len(infos)-1].Version
		return t.opening(&VersionRangeError{Asked: v, Earliest: first, Latest: last})
	}
	if _, err := deltalog.Load(ctx, t.store, nil); err != nil {
		return t.opening(err)
	}
	return t.opening(&CorruptError{Version: v, Reason: "no log entry is left"})
}

// History lists the newest limit entries (0: all that the log still has),
// newest first, without file actions. It lists the log once and reads the
// entries it returns, several at a time.
func (t *Table) History(ctx context.Context, limit int) ([]*Entry, error) {
	infos, err := t.listEntries(ctx)
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 { // no table, or one of which only a log checkpoint is left
		if _, err := deltalog.Load(ctx, t.store, nil); err != nil {
			return nil, t.opening(err)
		}
	}
	if limit > 0 && len(infos) > limit {
		infos = infos[len(infos)-limit:]
	}
	out := make([]*Entry, len(infos))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * t.workers)
	for i, info := range infos {
		g.Go(func() error {
			e, err := t.entryOf(ctx, info)
			if err != nil {
				return err
			}
			// A copy, so that the file actions can be collected.
			kept := []Action{}
			for _, a := range e.Actions {
				if a.Add == nil && a.Remove == nil && a.CDC == nil {
					kept = append(kept, a)
				}
			}
			e.Actions = kept
			out[len(infos)-1-i] = e
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// Entries yields the log entries of versions from to to, both included, in
// version order with all their actions, reading ahead a few. The sequence ends
// at the first error, such as a *VersionRangeError for a version not there.
func (t *Table) Entries(ctx context.Context, from, to Version) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		infos, err := t.listEntries(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		byVersion := make(map[Version]deltalog.EntryInfo, len(infos))
		for _, i := range infos {
			byVersion[i.Version] = i
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		type result struct {
			e   *Entry
			err error
		}
		queue := make(chan chan result, t.workers)
		go func() {
			defer close(queue)
			for v := from; v <= to; v++ {
				out := make(chan result, 1)
				select {
				case queue <- out:
				case <-ctx.Done():
					return
				}
				info, ok := byVersion[v]
				if !ok {
					out <- result{err: t.noEntry(ctx, v)}
					return
				}
				go func() {
					e, err := t.entryOf(ctx, info)
					out <- result{e, err}
				}()
			}
		}()
		for out := range queue {
			r := <-out
			if !yield(r.e, r.err) || r.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// entryOf reads an entry that was listed; info.ModTime is adjusted.
func (t *Table) entryOf(ctx context.Context, info deltalog.EntryInfo) (*Entry, error) {
	raw, err := deltalog.ReadEntry(ctx, t.store, info.Version)
	if err != nil {
		return nil, t.opening(err)
	}
	e := newEntry(raw)
	if e.inCommit() == nil {
		e.Timestamp = info.ModTime
	}
	return e, nil
}

// listEntries lists the log with adjusted modification times.
func (t *Table) listEntries(ctx context.Context) ([]deltalog.EntryInfo, error) {
	infos, err := deltalog.ListEntries(ctx, t.store, 0)
	if err != nil {
		return nil, t.opening(err)
	}
	return adjust(slices.Clone(infos)), nil
}

// adjust makes modification times ascend in version order (protocol notes
// 2.1): a time not after the one before becomes that plus 1 ms. In place.
func adjust(infos []deltalog.EntryInfo) []deltalog.EntryInfo {
	for i := range infos {
		infos[i].ModTime = infos[i].ModTime.UTC().Truncate(time.Millisecond)
		if i > 0 && !infos[i].ModTime.After(infos[i-1].ModTime) {
			infos[i].ModTime = infos[i-1].ModTime.Add(time.Millisecond)
		}
	}
	return infos
}
