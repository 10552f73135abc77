package deltatable

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// SnapshotAtTime is the state at the last version committed at or before at;
// the latest one if at is later than the last commit but not in the future.
// *TimeRangeError names the range otherwise. Times are in-commit timestamps
// from the version on that switched them on, adjusted modification times
// before (protocol notes 2.1, 2.2).
func (t *Table) SnapshotAtTime(ctx context.Context, at time.Time) (*Snapshot, error) {
	latest, err := t.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	listed, earliest, err := deltalog.ListReadable(ctx, t.store)
	if err != nil {
		return nil, t.opening(err)
	}
	infos := adjust(listed)
	for len(infos) > 0 && infos[len(infos)-1].Version > latest.Version() {
		infos = infos[:len(infos)-1] // committed since
	}
	if len(infos) == 0 {
		return nil, t.opening(&CorruptError{Version: latest.Version(), Reason: "no log entry is left to tell the time of a version"})
	}
	line := &timeline{table: t, infos: infos, known: make(map[Version]time.Time)}
	if err := line.split(latest); err != nil {
		return nil, err
	}
	v, ok, err := line.find(ctx, at)
	if err != nil {
		return nil, err
	}
	ts, err := line.time(ctx, v)
	if err != nil {
		return nil, err
	}
	now := t.now()
	// A last commit dated later than now (another machine's clock) counts as now.
	future := at.After(now) && at.After(ts) && v == latest.Version()
	if !ok || v < earliest || future {
		return nil, line.outOfRange(ctx, at, now, earliest)
	}
	s := latest
	if v != latest.Version() {
		if s, err = t.SnapshotAt(ctx, v); err != nil {
			return nil, err
		}
	}
	dated := *s
	dated.at = ts
	return &dated, nil
}

// timeline gives the time of every listed version.
type timeline struct {
	table  *Table
	infos  []deltalog.EntryInfo // ascending, adjusted
	inside int                  // infos from here on have in-commit timestamps
	since  time.Time            // the time from which only those count; zero: no such
	known  map[Version]time.Time
}

// split finds from where on in-commit timestamps count, by the properties of
// the latest snapshot (protocol notes 2.1).
func (l *timeline) split(s *Snapshot) error {
	l.inside = len(l.infos)
	if !feature.InCommitTimestampsEnabled(s.Protocol(), s.Metadata()) {
		return nil
	}
	ver, hasVer := s.Property(propICTVersion)
	ts, hasTS := s.Property(propICTTime)
	if !hasVer && !hasTS {
		l.inside = 0
		return nil
	}
	v, errV := strconv.ParseInt(ver, 10, 64)
	ms, errT := strconv.ParseInt(ts, 10, 64)
	if errV != nil || errT != nil {
		return fmt.Errorf("table %s: properties %s=%q and %s=%q must both be numbers, or both be absent",
			l.table.store.URL(), propICTVersion, ver, propICTTime, ts)
	}
	l.since = time.UnixMilli(ms).UTC()
	l.inside = sort.Search(len(l.infos), func(i int) bool { return l.infos[i].Version >= Version(v) })
	return nil
}

// find is the greatest version with a time at or before at.
func (l *timeline) find(ctx context.Context, at time.Time) (Version, bool, error) {
	lo, hi := 0, l.inside // by modification time
	if l.inside < len(l.infos) && !at.Before(l.since) {
		lo, hi = l.inside, len(l.infos)
	}
	var failed error
	n := sort.Search(hi-lo, func(i int) bool {
		if failed != nil {
			return true
		}
		ts, err := l.time(ctx, l.infos[lo+i].Version)
		if err != nil {
			failed = err
		}
		return ts.After(at)
	})
	if failed != nil {
		return 0, false, failed
	}
	if lo+n == 0 || (n == 0 && lo == l.inside) {
		return 0, false, nil
	}
	return l.infos[lo+n-1].Version, true, nil
}

// time is the time of version v, which is listed.
func (l *timeline) time(ctx context.Context, v Version) (time.Time, error) {
	i := sort.Search(len(l.infos), func(i int) bool { return l.infos[i].Version >= v })
	if i == len(l.infos) || l.infos[i].Version != v {
		return time.Time{}, nil
	}
	if i < l.inside {
		return l.infos[i].ModTime, nil
	}
	if ts, ok := l.known[v]; ok {
		return ts, nil
	}
	e, err := l.table.Entry(ctx, v)
	if err != nil {
		return time.Time{}, err
	}
	if e.inCommit() == nil {
		return time.Time{}, fmt.Errorf("log entry %d of table %s has no in-commit timestamp, which the table's properties promise", v, l.table.store.URL())
	}
	l.known[v] = e.Timestamp
	return e.Timestamp, nil
}

func (l *timeline) outOfRange(ctx context.Context, at, now time.Time, earliest Version) error {
	first := l.infos[0].Version
	if earliest > first {
		first = earliest
	}
	last := l.infos[len(l.infos)-1].Version
	from, err := l.time(ctx, first)
	if err != nil {
		return err
	}
	to, err := l.time(ctx, last)
	if err != nil {
		return err
	}
	return &TimeRangeError{Asked: at, Now: now, Earliest: from, EarliestVersion: first, Latest: to, LatestVersion: last}
}
