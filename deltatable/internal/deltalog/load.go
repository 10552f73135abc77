package deltalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

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
// the hint _last_checkpoint on or from a little below the version asked for, reads the newest usable log checkpoint and the entries
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
		return advance(ctx, store, p, o.At, nil)
	}
	return load(ctx, store, o.At)
}

// Next returns the state at the latest version, prev itself if that is prev's. Only
// what is new is read. A Next whose new entries no longer follow on prev, as after a
// log cleanup, loads anew. Errors are those of [Load].
func Next(ctx context.Context, store *blobstore.Store, prev *State) (*State, error) {
	return advance(ctx, store, prev, nil, nil)
}

// NextEntries is [Next] and returns the entries after prev too, ascending.
func NextEntries(ctx context.Context, store *blobstore.Store, prev *State) (*State, []*Entry, error) {
	var entries []*Entry
	s, err := advance(ctx, store, prev, nil, func(e *Entry) { entries = append(entries, e) })
	if err != nil {
		return nil, nil, err
	}
	slices.Reverse(entries) // they came from the newest down
	n := int(s.Version - prev.Version)
	if n < 0 {
		return nil, nil, &CorruptError{Version: s.Version, Reason: fmt.Sprintf("the log ends below version %d, which was read before: the table was made anew", prev.Version)}
	}
	if len(entries) == n && (n == 0 || entries[0].Version == prev.Version+1) {
		return s, entries, nil
	}
	// The state was loaded anew.
	entries = make([]*Entry, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i := range entries {
		g.Go(func() (err error) {
			entries[i], err = ReadEntry(ctx, store, prev.Version+1+Version(i))
			return err
		})
	}
	return s, entries, g.Wait()
}

// advance builds a state on top of an earlier one; keep, if not nil, is given the
// entries read, the newest first.
func advance(ctx context.Context, store *blobstore.Store, prev *State, at *Version, keep func(*Entry)) (*State, error) {
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
	s, err := replay(ctx, store, &segment{entries: entries, target: target, prev: prev, keep: keep})
	if notFound(err) {
		return load(ctx, store, at)
	}
	return s, err
}

// load builds a state from nothing. A first try starts where the hint points; any
// failure is looked at again with the whole log in view, which also covers a log that
// is cleaned up meanwhile.
func load(ctx context.Context, store *blobstore.Store, at *Version) (*State, error) {
	if at != nil && *at > shortLog {
		if s, err := loadNear(ctx, store, *at); err == nil && s != nil || unreachable(err) {
			return s, err
		}
	}
	from, ok, err := readHint(ctx, store)
	if err != nil {
		return nil, err
	}
	if ok && from > shortLog && (at == nil || from <= *at) {
		if l, err := list(ctx, store, from, at); err == nil && len(l.checkpoints) > 0 {
			if s, err := build(ctx, store, l, at); err == nil {
				return s, nil
			}
		}
	}
	s, err := loadWhole(ctx, store, at)
	if notFound(err) || errors.Is(err, blobstore.ErrChanged) {
		// Cleaned up between listing and reading, or a log checkpoint that another
		// writer wrote too.
		s, err = loadWhole(ctx, store, at)
	}
	var corrupt *CorruptError
	var unsupported *feature.UnsupportedError
	if at != nil && (errors.As(err, &corrupt) || errors.As(err, &unsupported) || errors.Is(err, errAbove)) {
		return nil, outside(ctx, store, *at, err)
	}
	return s, err
}

// nearVersions is how far below a version its log checkpoint is looked for first:
// ten times the default interval, and well within one page of a listing.
const nearVersions = 100

// loadNear builds the state of a version from a listing of the versions just below
// it, without the hint. nil: that does not suffice, or it failed.
func loadNear(ctx context.Context, store *blobstore.Store, at Version) (*State, error) {
	l, err := list(ctx, store, max(0, at-nearVersions), &at)
	if err != nil || len(l.checkpoints) == 0 && at > nearVersions {
		return nil, err
	}
	return build(ctx, store, l, &at)
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
	keep       func(*Entry)
}

// ownEntry is the entry of a segment's version while it is read: where no entry
// has to be replayed, for its provenance alone.
type ownEntry struct {
	done chan struct{} // nil: there is none to read
	r    result
}

func startOwn(ctx context.Context, store *blobstore.Store, seg *segment) *ownEntry {
	o := &ownEntry{}
	if seg.own == nil || len(seg.entries) > 0 {
		return o
	}
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		o.r.entry, o.r.err = readEntry(ctx, store, *seg.own)
	}()
	return o
}

// end waits until nothing goes on.
func (o *ownEntry) end() {
	if o.done != nil {
		<-o.done
	}
}

// wait returns the entry; nil where it is gone or damaged, as the log checkpoint is
// enough.
func (o *ownEntry) wait() (*Entry, error) {
	if o.done == nil {
		return nil, nil
	}
	<-o.done
	var corrupt *CorruptError
	if notFound(o.r.err) || errors.As(o.r.err, &corrupt) {
		return nil, nil
	}
	return o.r.entry, o.r.err
}

// replay builds the state of a segment. The entries and the log checkpoint are
// fetched at the same time.
func replay(ctx context.Context, store *blobstore.Store, seg *segment) (*State, error) {
	s := &State{Version: seg.target}
	r := newReplayer(store.URL())
	var base *parts
	if seg.checkpoint != nil {
		base = openParts(ctx, store, seg.checkpoint)
		defer base.close()
	}
	own := startOwn(ctx, store, seg)
	defer own.end()
	err := readEntries(ctx, store, seg.entries, func(e *Entry) {
		if e.Version == seg.target {
			s.CommitInfo, s.EntryModTime = e.CommitInfo(), e.ModTime
		}
		r.entry(e.Actions)
		if seg.keep != nil {
			seg.keep(e)
		}
	})
	if err != nil {
		return nil, err
	}
	if base != nil {
		if err := base.read(ctx, func(a action.Action) { r.base(a) }); err != nil {
			return nil, err
		}
		s.CheckpointVersion = &seg.checkpoint.version
	}
	if p := seg.prev; p != nil {
		s.CheckpointVersion = p.CheckpointVersion
	}
	if e, err := own.wait(); err != nil {
		return nil, err
	} else if e != nil {
		s.CommitInfo, s.EntryModTime = e.CommitInfo(), e.ModTime
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
