package deltalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// LoadOptions say which state to load; nil is the latest version.
type LoadOptions struct {
	// At is the version wanted; nil: the latest.
	At *Version
	// Previous is an earlier state of the same table to start from; nil: none. It is
	// not used when At is below its version.
	Previous *State
}

// Load builds the state of a version. It makes one listing, from the version of
// the hint _last_checkpoint on, reads the newest usable log checkpoint and the entries
// after it. A log checkpoint that is empty, incomplete, damaged or V2 is passed over
// for an older one, and for the entries alone.
//
// Errors: [ErrNoTable]; *[VersionRangeError] if At is below or above what can be
// read; *[CorruptError]; *feature.UnsupportedError naming v2Checkpoint if only a V2
// log checkpoint leads there; and what the store returns.
func Load(ctx context.Context, store *blobstore.Store, o *LoadOptions) (*State, error) {
	if o == nil {
		o = &LoadOptions{}
	}
	if o.At != nil && *o.At < 0 {
		return nil, rangeError(ctx, store, *o.At)
	}
	if p := o.Previous; p != nil && (o.At == nil || *o.At >= p.Version) {
		return advance(ctx, store, p, o.At)
	}
	return load(ctx, store, o.At)
}

// Next returns the state at the latest version, prev itself if that is prev's. Only
// what is new is read. A Next whose new entries no longer follow on prev, as after a
// log cleanup, loads anew. Errors are those of [Load].
func Next(ctx context.Context, store *blobstore.Store, prev *State) (*State, error) {
	return advance(ctx, store, prev, nil)
}

func advance(ctx context.Context, store *blobstore.Store, prev *State, at *Version) (*State, error) {
	if at != nil && *at == prev.Version {
		return prev, nil
	}
	l, err := list(ctx, store, prev.Version+1, at)
	if err != nil {
		return nil, err
	}
	target := l.latest()
	if at != nil {
		target = *at
	}
	if l.empty() && at == nil {
		return prev, nil
	}
	entries, _, ok := l.between(prev.Version+1, target)
	if !ok {
		return load(ctx, store, at)
	}
	s, err := replay(ctx, store, &segment{entries: entries, target: target, prev: prev})
	if notFound(err) {
		return load(ctx, store, at)
	}
	return s, err
}

// load builds a state from nothing. A first try starts where the hint points; any
// failure is looked at again with the whole log in view, which also covers a log that
// is cleaned up meanwhile.
func load(ctx context.Context, store *blobstore.Store, at *Version) (*State, error) {
	if from, ok := readHint(ctx, store); ok && from > shortLog && (at == nil || from <= *at) {
		if l, err := list(ctx, store, from, at); err == nil && len(l.checkpoints) > 0 {
			if s, err := build(ctx, store, l, at); err == nil {
				return s, nil
			}
		}
	}
	s, err := loadWhole(ctx, store, at)
	if notFound(err) {
		s, err = loadWhole(ctx, store, at) // cleaned up between listing and reading
	}
	var corrupt *CorruptError
	var unsupported *feature.UnsupportedError
	if at != nil && (errors.As(err, &corrupt) || errors.As(err, &unsupported) || errors.Is(err, errAbove)) {
		return nil, outside(ctx, store, *at, err)
	}
	return s, err
}

func loadWhole(ctx context.Context, store *blobstore.Store, at *Version) (*State, error) {
	l, err := list(ctx, store, 0, at)
	if err != nil {
		return nil, err
	}
	return build(ctx, store, l, at)
}

// errAbove says that a version above all that are listed was asked for.
var errAbove = errors.New("version is above the latest")

// outside makes a *VersionRangeError of an error if the version is out of range.
func outside(ctx context.Context, store *blobstore.Store, at Version, cause error) error {
	l, err := list(ctx, store, 0, nil)
	if err != nil {
		return err
	}
	if l.empty() {
		return ErrNoTable
	}
	earliest, ok := l.earliest()
	if latest := l.latest(); ok && (at < earliest || at > latest) {
		return &VersionRangeError{Asked: at, Earliest: earliest, Latest: latest}
	}
	if errors.Is(cause, errAbove) {
		return &CorruptError{Version: at, Reason: "no log checkpoint from which the entries run on"}
	}
	return cause
}

func rangeError(ctx context.Context, store *blobstore.Store, at Version) error {
	return outside(ctx, store, at, &CorruptError{Version: at, Reason: "versions are not negative"})
}

// build builds the state of a version from a listing, trying log checkpoints from the
// newest down, then the entries alone.
func build(ctx context.Context, store *blobstore.Store, l *listing, at *Version) (*State, error) {
	if l.empty() {
		if at != nil {
			return nil, errAbove // or no table: the whole listing tells
		}
		return nil, ErrNoTable
	}
	target := l.latest()
	if at != nil {
		if *at > target {
			return nil, errAbove
		}
		target = *at
	}
	if s, ok, err := short(ctx, store, l, target); ok {
		return s, err
	}
	var failed error // the first reason why a newer log checkpoint could not serve
	for i := len(l.checkpoints) - 1; i >= 0; i-- {
		c := l.checkpoints[i]
		if c.version > target {
			continue
		}
		entries, missing, ok := l.between(c.version+1, target)
		if !ok {
			return nil, hole(missing, target)
		}
		s, err := replay(ctx, store, &segment{entries: entries, target: target, checkpoint: &c, own: l.entry(target)})
		if err == nil {
			return s, nil
		}
		var unsupported *feature.UnsupportedError
		var damaged *checkpointError
		if !errors.As(err, &unsupported) && !errors.As(err, &damaged) {
			return nil, err
		}
		if failed == nil {
			failed = err
		}
	}
	entries, missing, ok := l.between(0, target)
	if !ok {
		if failed != nil {
			return nil, wrapFailed(failed, target)
		}
		return nil, hole(missing, target)
	}
	return replay(ctx, store, &segment{entries: entries, target: target})
}

// shortLog is how many first versions are always listed: as many as a table has
// before its first log checkpoint by the default interval.
const shortLog = 9

// short replays a short log from its entries, even if there is a log checkpoint, when
// the entries are all there and are no larger: that is no slower, and the entries are
// the truth that a log checkpoint only repeats. false: the log is not short, or an
// entry cannot be read and a log checkpoint may serve.
func short(ctx context.Context, store *blobstore.Store, l *listing, target Version) (*State, bool, error) {
	if target >= shortLog || len(l.checkpoints) == 0 {
		return nil, false, nil
	}
	entries, _, ok := l.between(0, target)
	if !ok {
		return nil, false, nil
	}
	var size int64
	for _, e := range entries {
		size += e.Size
	}
	for _, f := range l.checkpoints[len(l.checkpoints)-1].files {
		size -= f.size
	}
	if size > 0 {
		return nil, false, nil
	}
	s, err := replay(ctx, store, &segment{entries: entries, target: target})
	var corrupt *CorruptError
	if errors.As(err, &corrupt) || notFound(err) {
		return nil, false, nil
	}
	return s, true, err
}

func hole(missing, target Version) error {
	return &CorruptError{Key: EntryKey(missing), Version: target, Reason: "the log entry is missing and no log checkpoint takes its place"}
}

// wrapFailed turns the failure of a log checkpoint that nothing replaces into the
// error for the caller.
func wrapFailed(failed error, target Version) error {
	var damaged *checkpointError
	if errors.As(failed, &damaged) {
		return &CorruptError{Key: damaged.key, Version: target, Reason: "the log checkpoint cannot be read and nothing takes its place", Err: damaged.err}
	}
	return fmt.Errorf("load version %d: %w", target, failed)
}

// segment is what a state is built from: entries, ascending and without a hole, on
// top of a log checkpoint, an earlier state, or nothing.
type segment struct {
	entries    []EntryInfo
	target     Version
	checkpoint *checkpoint
	prev       *State
	own        *EntryInfo // target's entry, where entries is empty and it is there
}

// replay builds the state of a segment.
func replay(ctx context.Context, store *blobstore.Store, seg *segment) (*State, error) {
	s := &State{Version: seg.target}
	r := newReplayer(store.URL())
	err := readEntries(ctx, store, seg.entries, func(e *Entry) {
		if e.Version == seg.target {
			s.CommitInfo, s.EntryModTime = e.CommitInfo(), e.ModTime
		}
		r.entry(e.Actions)
	})
	if err != nil {
		return nil, err
	}
	if c := seg.checkpoint; c != nil {
		if err := readCheckpoint(ctx, store, c, func(a action.Action) { r.base(a) }); err != nil {
			return nil, err
		}
		s.CheckpointVersion = &c.version
	}
	if p := seg.prev; p != nil {
		s.CheckpointVersion = p.CheckpointVersion
	}
	if seg.own != nil && len(seg.entries) == 0 {
		e, err := readEntry(ctx, store, *seg.own)
		var corrupt *CorruptError
		switch {
		case err == nil:
			s.CommitInfo, s.EntryModTime = e.CommitInfo(), e.ModTime
		case notFound(err), errors.As(err, &corrupt):
			// The log checkpoint is enough; the entry is only provenance here.
		default:
			return nil, err
		}
	}
	if err := r.finish(s, seg.prev); err != nil {
		return nil, err
	}
	return s, nil
}

// entry returns the entry of a version, nil if it is not listed.
func (l *listing) entry(v Version) *EntryInfo {
	if i := l.find(v); i < len(l.entries) && l.entries[i].Version == v {
		return &l.entries[i]
	}
	return nil
}
