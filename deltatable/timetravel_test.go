package deltatable_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
)

// dated gives objects the modification times that a test wants.
type dated struct {
	blobstore.Driver
	times map[string]time.Time
}

func (d *dated) Stat(ctx context.Context, key string) (blobstore.Info, error) {
	i, err := d.Driver.Stat(ctx, key)
	return d.date(i), err
}

func (d *dated) List(ctx context.Context, prefix, from string) iter.Seq2[blobstore.Info, error] {
	return func(yield func(blobstore.Info, error) bool) {
		for i, err := range d.Driver.List(ctx, prefix, from) {
			if !yield(d.date(i), err) {
				return
			}
		}
	}
}

func (d *dated) date(i blobstore.Info) blobstore.Info {
	if at, ok := d.times[i.Key]; ok {
		i.ModTime = at
	}
	return i
}

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// datedTable is a table whose entry of version i has the modification time
// t0+offsets[i] ms, and a clock that stands at t0+now ms.
func datedTable(t *testing.T, now int, offsets ...int) *deltatable.Table {
	t.Helper()
	d := &dated{times: make(map[string]time.Time)}
	store := memStore(t).Wrap(func(inner blobstore.Driver) blobstore.Driver {
		d.Driver = inner
		return d
	})
	o := testOptions()
	o.Now = func() time.Time { return ms(now) }
	tab := deltatable.NewTable(store, o)
	for i, off := range offsets {
		d.times[fmt.Sprintf("_delta_log/%020d.json", i)] = ms(off)
		if i == 0 {
			create(t, tab, "id long", nil, nil)
			continue
		}
		if _, err := tab.TryCommit(t.Context(), snapshot(t, tab), appendCommit("", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	return tab
}

func ms(n int) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }

// versionAt is the version at t0+n ms and its time, or the error.
func versionAt(t *testing.T, tab *deltatable.Table, at time.Time) string {
	t.Helper()
	s, err := tab.SnapshotAtTime(t.Context(), at)
	if e, ok := errors.AsType[*deltatable.TimeRangeError](err); ok {
		return fmt.Sprintf("range v%d t0+%d to v%d t0+%d", e.EarliestVersion, e.Earliest.Sub(t0).Milliseconds(), e.LatestVersion, e.Latest.Sub(t0).Milliseconds())
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("v%d t0+%d", s.Version(), s.Timestamp().Sub(t0).Milliseconds())
}

func TestSnapshotAtTime(t *testing.T) {
	tab := datedTable(t, 1000, 0, 100, 200)
	for at, want := range map[int]string{
		-1: "range v0 t0+0 to v2 t0+200", 0: "v0 t0+0", 1: "v0 t0+0", 99: "v0 t0+0", 100: "v1 t0+100",
		199: "v1 t0+100", 200: "v2 t0+200", 999: "v2 t0+200", 1000: "v2 t0+200", 1001: "range v0 t0+0 to v2 t0+200",
	} {
		if got := versionAt(t, tab, ms(at)); got != want {
			t.Errorf("at t0+%d: %s, want %s", at, got, want)
		}
	}
	if got := versionAt(t, tab, ms(99).Add(999*time.Microsecond)); got != "v0 t0+0" {
		t.Errorf("999 µs after t0+99 ms: %s", got)
	}
}

// Modification times that do not ascend are adjusted, in History as well.
func TestSnapshotAtTimeAdjustsModificationTimes(t *testing.T) {
	tab := datedTable(t, 1000, 100, 100, 50, 300)
	for at, want := range map[int]string{100: "v0 t0+100", 101: "v1 t0+101", 102: "v2 t0+102", 299: "v2 t0+102", 300: "v3 t0+300"} {
		if got := versionAt(t, tab, ms(at)); got != want {
			t.Errorf("at t0+%d: %s, want %s", at, got, want)
		}
	}
	h, err := tab.History(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range h {
		got = append(got, fmt.Sprintf("v%d t0+%d %s, %d actions", e.Version, e.Timestamp.Sub(t0).Milliseconds(), e.Info.Operation, len(e.Actions)))
	}
	want := []string{"v3 t0+300 WRITE, 1 actions", "v2 t0+102 WRITE, 1 actions", "v1 t0+101 WRITE, 1 actions"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error("history: -want +got\n", d)
	}
}

// After a log cleanup the range begins at the oldest log checkpoint.
func TestTimeTravelAfterLogCleanup(t *testing.T) {
	tab := datedTable(t, 1000, 0, 100, 200, 300)
	s, err := tab.SnapshotAt(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.WriteLogCheckpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := tab.Store().Delete(t.Context(), "_delta_log/00000000000000000000.json"); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]string{150: "range v2 t0+200 to v3 t0+300", 200: "v2 t0+200", 300: "v3 t0+300"} {
		if got := versionAt(t, tab, ms(at)); got != want {
			t.Errorf("at t0+%d: %s, want %s", at, got, want)
		}
	}
	for _, v := range []deltatable.Version{0, 1, 4} {
		_, err := tab.SnapshotAt(t.Context(), v)
		want := &deltatable.VersionRangeError{Asked: v, Earliest: 2, Latest: 3}
		got, _ := errors.AsType[*deltatable.VersionRangeError](err)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("version %d: -want +got\n%s", v, d)
		}
	}
}

// In-commit timestamps count from the version that switched them on; before
// it, modification times do (protocol notes 2.1).
func TestSnapshotAtTimeWithInCommitTimestamps(t *testing.T) {
	d := &dated{times: make(map[string]time.Time)}
	store := memStore(t).Wrap(func(inner blobstore.Driver) blobstore.Driver {
		d.Driver = inner
		return d
	})
	now := 0
	o := testOptions()
	o.Now = func() time.Time { return ms(now) }
	tab := deltatable.NewTable(store, o)
	create(t, tab, "id long", nil, nil)
	commit := func(at int, c *deltatable.Commit) {
		t.Helper()
		now = at
		if _, err := tab.TryCommit(t.Context(), snapshot(t, tab), c); err != nil {
			t.Fatal(err)
		}
	}
	commit(100, appendCommit("", "1"))
	// Versions 0 and 1 have modification times; every later entry was copied at
	// t0+5, which must not matter.
	for i, off := range []int{1, 2, 5, 5, 5} {
		d.times[fmt.Sprintf("_delta_log/%020d.json", i)] = ms(off)
	}
	s := snapshot(t, tab)
	commit(200, &deltatable.Commit{
		Operation: "SET TBLPROPERTIES", Metadata: withProperty(s, "delta.enableInCommitTimestamps", "true"),
		Protocol: &deltatable.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{"appendOnly", "inCommitTimestamp", "invariants"}},
	})
	commit(300, appendCommit("", "3"))
	commit(250, appendCommit("", "4")) // the clock went back: 301
	now = 1000
	s = snapshot(t, tab)
	want := map[string]string{
		"delta.enableInCommitTimestamps":             "true",
		"delta.inCommitTimestampEnablementVersion":   "2",
		"delta.inCommitTimestampEnablementTimestamp": fmt.Sprint(ms(200).UnixMilli()),
	}
	if diff := cmp.Diff(want, s.Properties()); diff != "" {
		t.Error("properties: -want +got\n", diff)
	}
	h, err := tab.History(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var times []int64
	for _, e := range h {
		times = append(times, e.Timestamp.Sub(t0).Milliseconds())
	}
	if diff := cmp.Diff([]int64{301, 300, 200, 2, 1}, times); diff != "" {
		t.Error("times of the history: -want +got\n", diff)
	}
	for at, want := range map[int]string{
		0: "range v0 t0+1 to v4 t0+301", 1: "v0 t0+1", 2: "v1 t0+2", 199: "v1 t0+2", 200: "v2 t0+200", 299: "v2 t0+200", 300: "v3 t0+300", 301: "v4 t0+301", 1000: "v4 t0+301",
	} {
		if got := versionAt(t, tab, ms(at)); got != want {
			t.Errorf("at t0+%d: %s, want %s", at, got, want)
		}
	}
}

// A last commit that another machine dated ahead of our clock can be read at
// its own time.
func TestSnapshotAtTimeOfCommitAheadOfClock(t *testing.T) {
	tab := datedTable(t, 50, 0, 100)
	for at, want := range map[int]string{60: "v0 t0+0", 100: "v1 t0+100", 101: "range v0 t0+0 to v1 t0+100"} {
		if got := versionAt(t, tab, ms(at)); got != want {
			t.Errorf("at t0+%d: %s, want %s", at, got, want)
		}
	}
}

// Only a log checkpoint is left: the latest version reads, there is no history,
// and no time to travel to.
func TestTableOfLogCheckpointAlone(t *testing.T) {
	tab := datedTable(t, 1000, 0)
	s := snapshot(t, tab)
	if err := tab.WriteLogCheckpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := tab.Store().Delete(t.Context(), "_delta_log/00000000000000000000.json"); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, tab); s.Version() != 0 || !s.Timestamp().IsZero() {
		t.Errorf("version %d at %s", s.Version(), s.Timestamp())
	}
	if h, err := tab.History(t.Context(), 0); err != nil || len(h) != 0 {
		t.Errorf("history %v, %v", h, err)
	}
	_, atErr := tab.SnapshotAtTime(t.Context(), ms(10))
	_, entryErr := tab.Entry(t.Context(), 0)
	for _, err := range []error{atErr, entryErr} {
		if _, ok := errors.AsType[*deltatable.CorruptError](err); !ok {
			t.Errorf("got %v", err)
		}
	}
}

func TestNoTable(t *testing.T) {
	tab := memTable(t)
	_, err0 := tab.Snapshot(t.Context())
	_, err1 := tab.SnapshotAt(t.Context(), 0)
	_, err2 := tab.SnapshotAtTime(t.Context(), t0)
	_, err3 := tab.History(t.Context(), 0)
	_, err4 := tab.Entry(t.Context(), 0)
	for i, err := range []error{err0, err1, err2, err3, err4, tab.PostCommit(t.Context(), 0)} {
		if !errors.Is(err, deltatable.ErrNoTable) {
			t.Errorf("call %d gives %v", i, err)
		}
	}
}
