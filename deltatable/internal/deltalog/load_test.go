package deltalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// filesUpTo returns the names that numbered has at a version.
func filesUpTo(v Version) []string {
	var names []string
	for i := range v + 1 {
		names = append(names, fmt.Sprintf("f%03d", i))
	}
	return names
}

// numbered writes a table whose version N has files f000 to fN.
func numbered(t testing.TB, store *blobstore.Store, versions Version) {
	t.Helper()
	for v := range versions {
		actions := []action.Action{{Add: &action.Add{Path: fmt.Sprintf("f%03d", v), PartitionValues: map[string]*string{}, Size: 1}}}
		if v == 0 {
			actions = append(actions, action.Action{Protocol: &action.Protocol{MinReader: 1, MinWriter: 2}},
				action.Action{Metadata: &action.Metadata{ID: "m", Provider: "parquet", SchemaString: allTypes}})
		}
		commit(t, store, v, actions...)
	}
}

// checkpointed writes log checkpoints of a numbered table.
func checkpointed(t testing.TB, store *blobstore.Store, versions ...Version) {
	t.Helper()
	for _, v := range versions {
		if err := WriteCheckpoint(context.Background(), store, mustLoad(t, store, &v), &CheckpointOptions{Now: time.Now(), StatsAsJSON: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func put(t testing.TB, store *blobstore.Store, key string, data []byte) {
	t.Helper()
	if err := store.Put(context.Background(), key, data); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, store *blobstore.Store, key string) []byte {
	t.Helper()
	data, err := store.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wantFiles(t *testing.T, s *State, v Version) {
	t.Helper()
	var got []string
	for _, a := range s.Adds {
		got = append(got, a.Path)
	}
	if d := cmp.Diff(filesUpTo(v), got); s.Version != v || d != "" {
		t.Errorf("version %d, want %d; files (-want +got):\n%s", s.Version, v, d)
	}
}

// TestLoadPassesOverBadCheckpoints: each damage is done to a table of versions 0 to
// 24 with log checkpoints at 10 and 20.
func TestLoadPassesOverBadCheckpoints(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, store *blobstore.Store)
		want   *Version // the log checkpoint read; nil: the entries alone
	}{
		"none":       {func(*testing.T, *blobstore.Store) {}, ptr(Version(20))},
		"no hint":    {func(t *testing.T, s *blobstore.Store) { _ = s.Delete(context.Background(), lastCheckpointKey) }, ptr(Version(20))},
		"empty hint": {func(t *testing.T, s *blobstore.Store) { put(t, s, lastCheckpointKey, nil) }, ptr(Version(20))},
		"hint {}":    {func(t *testing.T, s *blobstore.Store) { put(t, s, lastCheckpointKey, []byte("{}")) }, ptr(Version(20))},
		"hint cut":   {func(t *testing.T, s *blobstore.Store) { put(t, s, lastCheckpointKey, []byte(`{"version":2`)) }, ptr(Version(20))},
		"hint to an older one": {func(t *testing.T, s *blobstore.Store) {
			put(t, s, lastCheckpointKey, []byte(`{"version":10,"size":1}`))
		}, ptr(Version(20))},
		"hint to no checkpoint": {func(t *testing.T, s *blobstore.Store) {
			put(t, s, lastCheckpointKey, []byte(`{"version":22,"size":1}`))
		}, ptr(Version(20))},
		"hint to no version": {func(t *testing.T, s *blobstore.Store) {
			put(t, s, lastCheckpointKey, []byte(`{"version":99,"size":1}`))
		}, ptr(Version(20))},
		"hint with parts: null": {func(t *testing.T, s *blobstore.Store) {
			put(t, s, lastCheckpointKey, []byte(`{"version":20,"size":1,"parts":null}`))
		}, ptr(Version(20))},
		"newest is empty": {func(t *testing.T, s *blobstore.Store) { put(t, s, CheckpointKey(20), nil) }, ptr(Version(10))},
		"newest is cut": {func(t *testing.T, s *blobstore.Store) {
			d := get(t, s, CheckpointKey(20))
			put(t, s, CheckpointKey(20), d[:len(d)-100])
		}, ptr(Version(10))},
		"newest is damaged":    {func(t *testing.T, s *blobstore.Store) { zero(t, s, CheckpointKey(20)) }, ptr(Version(10))},
		"newest is no Parquet": {func(t *testing.T, s *blobstore.Store) { put(t, s, CheckpointKey(20), []byte("hello")) }, ptr(Version(10))},
		"both are damaged":     {func(t *testing.T, s *blobstore.Store) { zero(t, s, CheckpointKey(20)); zero(t, s, CheckpointKey(10)) }, nil},
		"newest is gone":       {func(t *testing.T, s *blobstore.Store) { _ = s.Delete(context.Background(), CheckpointKey(20)) }, ptr(Version(10))},
		"a part is missing": {func(t *testing.T, s *blobstore.Store) {
			put(t, s, "_delta_log/00000000000000000022.checkpoint.0000000001.0000000002.parquet", get(t, s, CheckpointKey(20)))
		}, ptr(Version(20))},
		"single and parts": {func(t *testing.T, s *blobstore.Store) { writeParts(t, s, mustLoad(t, s, ptr(Version(20)))) }, ptr(Version(20))},
		"V2 is newest": {func(t *testing.T, s *blobstore.Store) {
			put(t, s, "_delta_log/00000000000000000024.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", []byte("{}"))
		}, ptr(Version(20))},
		"junk": {func(t *testing.T, s *blobstore.Store) {
			for _, name := range []string{
				"_commit_80a083e8.json.tmp", ".tmp/x", ".00000000000000000030.json.crc", "00000000000000000030.crc", "00000000000000000010.00000000000000000040.compacted.json",
				"_sidecars/00000000000000000030.checkpoint.0000000001.0000000001.x.parquet", "_staged_commits/00000000000000000030.x.json", "info.txt", "00000000000000000030.json.tmp",
				"00000000000000000030.checkpoint", "00000000000000000030.checkpoint.parquet.tmp", "0000000000000000003x.json", "99999999999999999999.json", "00000000000000000030.checkpoint.0000000003.0000000002.parquet",
			} {
				put(t, s, dir+name, []byte("x"))
			}
		}, ptr(Version(20))},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(t)
			numbered(t, store, 25)
			checkpointed(t, store, 10, 20)
			c.damage(t, store)
			s := mustLoad(t, store, nil)
			wantFiles(t, s, 24)
			if d := cmp.Diff(c.want, s.CheckpointVersion); d != "" {
				t.Errorf("log checkpoint (-want +got):\n%s", d)
			}
			wantFiles(t, mustLoad(t, store, ptr(Version(20))), 20)
			wantFiles(t, mustLoad(t, store, ptr(Version(3))), 3)
		})
	}
}

// zero overwrites the pages of a Parquet file.
func zero(t *testing.T, store *blobstore.Store, key string) {
	data := slices.Clone(get(t, store, key))
	clear(data[4 : len(data)/2])
	put(t, store, key, data)
}

func TestLoadErrorsNameWhatIsWrong(t *testing.T) {
	ctx := context.Background()
	drop := func(store *blobstore.Store, versions ...Version) {
		for _, v := range versions {
			_ = store.Delete(ctx, EntryKey(v))
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, store *blobstore.Store)
		at     *Version
		want   string
	}{
		"hole":                          {func(_ *testing.T, s *blobstore.Store) { drop(s, 12) }, nil, "*deltalog.CorruptError: damaged log at version 14: _delta_log/00000000000000000012.json: the log entry is missing"},
		"hole below the log checkpoint": {func(_ *testing.T, s *blobstore.Store) { drop(s, 7) }, ptr(Version(8)), "*deltalog.CorruptError: damaged log at version 8: _delta_log/00000000000000000007.json: the log entry is missing"},
		"nothing replaces a damaged log checkpoint": {func(t *testing.T, s *blobstore.Store) { drop(s, 0); zero(t, s, CheckpointKey(10)) }, nil, "*deltalog.CorruptError: damaged log at version 14: _delta_log/00000000000000000010.checkpoint.parquet: the log checkpoint cannot be read"},
		"only a V2 log checkpoint": {func(t *testing.T, s *blobstore.Store) {
			drop(s, 0)
			_ = s.Delete(ctx, CheckpointKey(10))
			put(t, s, "_delta_log/00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet", []byte("x"))
		}, nil, "*feature.UnsupportedError: load version 14: cannot read the table: unsupported feature v2Checkpoint"},
		"entry is damaged":   {func(t *testing.T, s *blobstore.Store) { put(t, s, EntryKey(13), []byte("{}\n{\"add\":{}}")) }, nil, "*deltalog.CorruptError: damaged log at version 13: _delta_log/00000000000000000013.json: cannot decode the log entry: line 2: add: member path is missing"},
		"above the latest":   {func(*testing.T, *blobstore.Store) {}, ptr(Version(15)), "*deltalog.VersionRangeError: version 15 does not exist: the versions that can be read are 0 to 14"},
		"below 0":            {func(*testing.T, *blobstore.Store) {}, ptr(Version(-1)), "*deltalog.VersionRangeError: version -1 does not exist: the versions that can be read are 0 to 14"},
		"below the earliest": {func(_ *testing.T, s *blobstore.Store) { drop(s, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9) }, ptr(Version(9)), "*deltalog.VersionRangeError: version 9 does not exist: the versions that can be read are 10 to 14"},
		"no table": {func(t *testing.T, s *blobstore.Store) {
			drop(s, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
			_ = s.Delete(ctx, CheckpointKey(10))
			put(t, s, dir+"_commit_x.json.tmp", []byte("x"))
		}, nil, "*errors.errorString: no Delta table: the log is empty or absent"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(t)
			numbered(t, store, 15)
			checkpointed(t, store, 10)
			c.change(t, store)
			_, err := Load(ctx, store, &LoadOptions{At: c.at})
			if err == nil {
				t.Fatal("no error")
			}
			inner := err
			var corrupt *CorruptError
			var outside *VersionRangeError
			var unsupported *feature.UnsupportedError
			switch {
			case errors.As(err, &corrupt):
				inner = corrupt
			case errors.As(err, &outside):
				inner = outside
			case errors.As(err, &unsupported):
				inner = unsupported
			}
			if got := fmt.Sprintf("%T: %v", inner, err); !strings.HasPrefix(got, c.want) {
				t.Errorf("error is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestLoadLogThatStartsLate(t *testing.T) {
	ctx := context.Background()
	store := newMemory(t)
	numbered(t, store, 13)
	checkpointed(t, store, 10)
	for v := range Version(11) {
		only(t, store, v)
	}
	for v := Version(10); v <= 12; v++ {
		s := mustLoad(t, store, &v)
		wantFiles(t, s, v)
		if (v == 10) != s.EntryModTime.IsZero() {
			t.Errorf("version %d: entry time %v", v, s.EntryModTime)
		}
	}
	if v, err := EarliestReadable(ctx, store); v != 10 || err != nil {
		t.Errorf("earliest readable %d, %v, want 10", v, err)
	}
	entries, err := ListEntries(ctx, store, 12)
	if err != nil || len(entries) != 1 || entries[0].Version != 12 || entries[0].ModTime.IsZero() {
		t.Errorf("entries %v, %v", entries, err)
	}
}

func TestLoadShortLogPrefersEntries(t *testing.T) {
	store := newMemory(t)
	numbered(t, store, 5)
	checkpointed(t, store, 3)
	if s := mustLoad(t, store, nil); s.CheckpointVersion != nil {
		t.Error("the log checkpoint was read")
	}
	put(t, store, EntryKey(1), []byte("damaged"))
	s := mustLoad(t, store, nil)
	wantFiles(t, s, 4)
	if s.CheckpointVersion == nil {
		t.Error("the log checkpoint was not read")
	}
}

func TestNextAfterCleanupLoadsAnew(t *testing.T) {
	store := newMemory(t)
	numbered(t, store, 12)
	early := mustLoad(t, store, ptr(Version(5)))
	checkpointed(t, store, 10)
	for v := range Version(10) {
		only(t, store, v)
	}
	s, err := Next(context.Background(), store, early)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, s, 11)
	if _, err := Load(context.Background(), store, &LoadOptions{At: ptr(Version(4)), Previous: early}); err == nil {
		t.Error("a version that is gone was loaded")
	}
}

// replacing is a store in which the first log checkpoint that is opened is
// replaced before it is read.
type replacing struct {
	blobstore.Driver
	opened *int
}

func (d replacing) OpenReader(ctx context.Context, key string, size int64) (blobstore.DriverReader, error) {
	r, err := d.Driver.OpenReader(ctx, key, size)
	if *d.opened++; *d.opened > 1 || err != nil {
		return r, err
	}
	return replaced{r}, nil
}

type replaced struct{ blobstore.DriverReader }

func (replaced) ReadAt([]byte, int64) (int, error) { return 0, blobstore.ErrChanged }

// A log checkpoint that two writers make at once is read, whichever comes last.
func TestLoadWhileACheckpointIsReplaced(t *testing.T) {
	store := newMemory(t)
	numbered(t, store, 12)
	checkpointed(t, store, 10)
	for v := range Version(10) {
		if err := store.Delete(t.Context(), EntryKey(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(t.Context(), "_delta_log/_last_checkpoint"); err != nil {
		t.Fatal(err)
	}
	opened := 0
	s, err := Load(t.Context(), store.Wrap(func(d blobstore.Driver) blobstore.Driver { return replacing{d, &opened} }), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, s, 11)
	if opened != 2 {
		t.Errorf("log checkpoints were opened %d times, want 2", opened)
	}
}

// vanishing lists an entry that is gone when it is asked for.
type vanishing struct {
	blobstore.Driver
	from Version
}

func (d vanishing) List(ctx context.Context, prefix, from string) iter.Seq2[blobstore.Info, error] {
	if strings.Contains(from, fmt.Sprintf("%020d", d.from)) {
		return func(yield func(blobstore.Info, error) bool) {
			yield(blobstore.Info{Key: EntryKey(d.from + 1), Size: 1, ModTime: time.Unix(0, 0)}, nil)
		}
	}
	return d.Driver.List(ctx, prefix, from)
}

// A table that is made anew while its log is listed must not panic whoever goes
// on from an earlier version.
func TestNextEntriesOfATableMadeAnew(t *testing.T) {
	before, now := newMemory(t), newMemory(t)
	numbered(t, before, 6)
	numbered(t, now, 3)
	prev := mustLoad(t, before, nil)
	store := now.Wrap(func(d blobstore.Driver) blobstore.Driver { return vanishing{d, prev.Version + 1} })
	_, _, err := NextEntries(t.Context(), store, prev)
	var damaged *CorruptError
	if !errors.As(err, &damaged) || !strings.Contains(err.Error(), "made anew") {
		t.Errorf("got %v", err)
	}
}

func TestLoadDigitsOtherThanTwenty(t *testing.T) {
	store := newMemory(t)
	numbered(t, store, 2)
	put(t, store, dir+"2.json", []byte(`{"add":{"path":"f002","size":1}}`))
	wantFiles(t, mustLoad(t, store, nil), 2)
}

// TestLoadRefusesV2ContentUnderClassicName: only then, as the entries serve where they
// are there.
func TestLoadRefusesV2ContentUnderClassicName(t *testing.T) {
	dir := filepath.Join(tablesDir(t), "v2-classic-checkpoint-parquet", "_delta_log")
	store := newMemory(t)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() || strings.HasSuffix(f.Name(), "00.json") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		put(t, store, "_delta_log/"+f.Name(), data)
	}
	_, err = Load(context.Background(), store, nil)
	var unsupported *feature.UnsupportedError
	if !errors.As(err, &unsupported) || unsupported.Feature != feature.V2Checkpoint {
		t.Errorf("error is %v, want a refusal of v2Checkpoint", err)
	}
}

// TestForeignCheckpointsEqualEntries reads each classic log checkpoint of the foreign
// tables beside the entries up to its version.
func TestForeignCheckpointsEqualEntries(t *testing.T) {
	ctx := context.Background()
	root := tablesDir(t)
	tables, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, table := range tables {
		if table.Name() == "parquet_row_group_skipping" {
			continue // its log checkpoint and its entries are of different tables
		}
		store, err := blobstore.Open(ctx, filepath.Join(root, table.Name()))
		if err != nil {
			continue
		}
		l, err := list(ctx, store, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range l.checkpoints {
			entries, _, ok := l.between(0, c.version)
			if c.v2 || !ok {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", table.Name(), c.version), func(t *testing.T) {
				byEntries, err := replay(ctx, store, &segment{entries: entries, target: c.version})
				if err != nil {
					t.Fatal(err)
				}
				byCheckpoint, err := replay(ctx, store, &segment{target: c.version, checkpoint: &c, own: l.entry(c.version)})
				var unsupported *feature.UnsupportedError
				if errors.As(err, &unsupported) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				compared++
				want, got := snapshotOf(t, byEntries), snapshotOf(t, byCheckpoint)
				want.normal()
				got.normal()
				for i := range got.Files { // compared below; a log checkpoint may have none
					want.Files[i].NumRecords, got.Files[i].NumRecords = nil, nil
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("state differs (-entries +checkpoint):\n%s", d)
				}
				compareStats(t, byEntries, byCheckpoint)
			})
		}
	}
	t.Logf("%d log checkpoints equal the entries", compared)
	if compared < 20 {
		t.Errorf("only %d log checkpoints were compared, want at least 20", compared)
	}
}

// compareStats compares the statistics as JSON. Those rebuilt from the struct form may
// lack what it does not have, but say nothing else.
func compareStats(t *testing.T, byEntries, byCheckpoint *State) {
	t.Helper()
	for i, a := range byCheckpoint.Adds {
		want := byEntries.Adds[i].Stats
		if a.Stats == want || a.Stats == "" {
			continue
		}
		var got, all any
		decodeJSON(t, []byte(a.Stats), &got)
		decodeJSON(t, []byte(want), &all)
		if !within(got, all) {
			t.Errorf("file %s: statistics\n%s\nwant\n%s", a.Path, a.Stats, want)
		}
	}
}

// within reports whether each member of a JSON value is in another.
func within(got, all any) bool {
	g, ok := got.(map[string]any)
	if !ok {
		return cmp.Equal(got, all)
	}
	a, ok := all.(map[string]any)
	for k, v := range g {
		if !ok || !within(v, a[k]) {
			return false
		}
	}
	return true
}
