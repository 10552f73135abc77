package deltalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// Entry is a log entry that has been read.
type Entry struct {
	Version Version
	// Actions in the order of the text.
	Actions []action.Action
	// ModTime is the store's modification time.
	ModTime time.Time
	// Size is in bytes.
	Size int64
}

// CommitInfo returns the entry's provenance, nil if it has none.
func (e *Entry) CommitInfo() *action.CommitInfo {
	for i := range e.Actions {
		if c := e.Actions[i].CommitInfo; c != nil {
			return c
		}
	}
	return nil
}

// ReadEntry reads the log entry of a version. The error has blobstore.ErrNotFound in
// its chain if there is none, and is a *[CorruptError] if it cannot be decoded.
func ReadEntry(ctx context.Context, store *blobstore.Store, v Version) (*Entry, error) {
	key := EntryKey(v)
	data, info, err := store.GetInfo(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read log entry %d: %w", v, err)
	}
	return decodeEntry(EntryInfo{Version: v, ModTime: info.ModTime, key: key}, data)
}

func readEntry(ctx context.Context, store *blobstore.Store, info EntryInfo) (*Entry, error) {
	data, err := store.Get(ctx, info.key)
	if err != nil {
		return nil, fmt.Errorf("read log entry %d: %w", info.Version, err)
	}
	return decodeEntry(info, data)
}

func decodeEntry(info EntryInfo, data []byte) (*Entry, error) {
	actions, err := action.Decode(data)
	if err != nil {
		return nil, &CorruptError{Key: info.key, Version: info.Version, Reason: "cannot decode the log entry", Err: err}
	}
	return &Entry{Version: info.Version, Actions: actions, ModTime: info.ModTime, Size: int64(len(data))}, nil
}

// ListEntries lists the log entries from a version on, ascending. Holes are not
// reported; the versions tell.
func ListEntries(ctx context.Context, store *blobstore.Store, from Version) ([]EntryInfo, error) {
	l, err := list(ctx, store, from, nil)
	if err != nil {
		return nil, err
	}
	return l.entries[l.find(from):], nil
}

// EarliestReadable returns the lowest version that can be built: 0 if its entry is
// there, else that of the oldest complete classic log checkpoint from which entries
// run on without a hole to the latest version (protocol notes 2.2). [ErrNoTable]: the
// log is empty; a *[CorruptError]: no version can be built.
func EarliestReadable(ctx context.Context, store *blobstore.Store) (Version, error) {
	_, v, err := ListReadable(ctx, store)
	return v, err
}

// ListReadable is [ListEntries] from version 0 on and [EarliestReadable] by one
// listing.
func ListReadable(ctx context.Context, store *blobstore.Store) ([]EntryInfo, Version, error) {
	l, err := list(ctx, store, 0, nil)
	if err != nil {
		return nil, 0, err
	}
	if l.empty() {
		return nil, 0, ErrNoTable
	}
	v, ok := l.earliest()
	if !ok {
		return nil, 0, &CorruptError{Version: l.latest(), Reason: "no log checkpoint from which the entries run on"}
	}
	return l.entries, v, nil
}

func (l *listing) earliest() (Version, bool) {
	if len(l.entries) > 0 && l.entries[0].Version == 0 {
		return 0, true
	}
	latest := l.latest()
	for _, c := range l.checkpoints {
		if c.v2 {
			continue
		}
		if _, _, ok := l.between(c.version+1, latest); ok {
			return c.version, true
		}
	}
	return 0, false
}

// notFound reports whether an error says that an object is not there.
func notFound(err error) bool { return errors.Is(err, blobstore.ErrNotFound) }
