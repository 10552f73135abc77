package deltalog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// writeLog writes a log of small merges straight into a folder: each version adds two
// files and removes one.
func writeLog(t testing.TB, dir string, versions int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "_delta_log"), 0o777); err != nil {
		t.Fatal(err)
	}
	add := func(v, i int) action.Action {
		return action.Action{Add: &action.Add{
			Path: fmt.Sprintf("part-%05d-%d-4c6f2d4e-9d1e-4d8c-8d8e-3b1c0a6f1234.c000.snappy.parquet", v, i), PartitionValues: map[string]*string{},
			Size: 12345, ModificationTime: 1_700_000_000_000, DataChange: true,
			Stats: fmt.Sprintf(`{"numRecords":%d,"minValues":{"id":%d,"s":"aaaa"},"maxValues":{"id":%d,"s":"zzzz"},"nullCount":{"id":0,"s":0}}`, v+1, v, v+100),
		}}
	}
	for v := range versions {
		actions := []action.Action{{CommitInfo: &action.CommitInfo{Timestamp: int64(v), Operation: "MERGE", TxnID: fmt.Sprint(v)}}, add(v, 0), add(v, 1)}
		if v == 0 {
			actions = append(actions, action.Action{Protocol: &action.Protocol{MinReader: 1, MinWriter: 2}},
				action.Action{Metadata: &action.Metadata{ID: "m", Provider: "parquet", SchemaString: allTypes}})
		} else {
			actions = append(actions, action.Action{Remove: action.RemoveOf(add(v-1, 1).Add, time.Now(), true)}, action.Action{Txn: &action.Txn{AppID: "app", Version: int64(v)}})
		}
		data, err := action.Encode(actions)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(EntryKey(Version(v)))), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func openDir(t testing.TB, dir string) *blobstore.Store {
	t.Helper()
	store, err := blobstore.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// BenchmarkLoad10000Entries opens a log of 10,000 versions: from its entries alone, from
// a log checkpoint at 9,990, and again from the state before the last version.
func BenchmarkLoad10000Entries(b *testing.B) {
	ctx := context.Background()
	dir := b.TempDir()
	const versions = 10_000
	writeLog(b, dir, versions)
	store := openDir(b, dir)
	load := func(b *testing.B, o *LoadOptions) *State {
		s, err := Load(ctx, store, o)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	b.Run("entries", func(b *testing.B) {
		for b.Loop() {
			if s := load(b, nil); len(s.Adds) != versions+1 {
				b.Fatalf("%d live files", len(s.Adds))
			}
		}
	})
	if err := WriteCheckpoint(ctx, store, load(b, &LoadOptions{At: ptr(Version(9990))}), &CheckpointOptions{Now: time.Now(), StatsAsJSON: true, StatsAsStruct: true}); err != nil {
		b.Fatal(err)
	}
	b.Run("log checkpoint", func(b *testing.B) {
		for b.Loop() {
			if s := load(b, nil); len(s.Adds) != versions+1 || s.CheckpointVersion == nil {
				b.Fatalf("%d live files", len(s.Adds))
			}
		}
	})
	prev := load(b, &LoadOptions{At: ptr(Version(versions - 2))})
	b.Run("next", func(b *testing.B) {
		for b.Loop() {
			if s, err := Next(ctx, store, prev); err != nil || s.Version != versions-1 {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCheckpoint writes and reads a log checkpoint of 200,000 live files.
func BenchmarkCheckpoint(b *testing.B) {
	ctx := context.Background()
	s := largeState(b, 200_000)
	store := newMemory(b)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := store.Delete(ctx, CheckpointKey(s.Version)); err != nil {
				b.Fatal(err)
			}
			if err := WriteCheckpoint(ctx, store, s, &CheckpointOptions{Now: time.Now(), StatsAsJSON: true, StatsAsStruct: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if got, err := Load(ctx, store, nil); err != nil || len(got.Adds) != len(s.Adds) {
				b.Fatal(err)
			}
		}
	})
}

func largeState(t testing.TB, n int) *State {
	t.Helper()
	s := &State{
		Version:  7,
		Protocol: &action.Protocol{MinReader: 1, MinWriter: 2},
		Metadata: &action.Metadata{ID: "m", Provider: "parquet", SchemaString: allTypes, PartitionColumns: []string{"p", "q r"}},
	}
	values := make([]map[string]*string, 100)
	for i := range values {
		values[i] = map[string]*string{"p": ptr(fmt.Sprintf("2024-01-%02d", i%28+1)), "q r": ptr(fmt.Sprint(i))}
	}
	for i := range n {
		s.Adds = append(s.Adds, &action.Add{
			Path: fmt.Sprintf("part-%07d-4c6f2d4e-9d1e-4d8c-8d8e-3b1c0a6f1234.c000.snappy.parquet", i), PartitionValues: values[i%100],
			Size: int64(i), ModificationTime: 1_700_000_000_000, Stats: allStats,
		})
	}
	return s
}

// TestLoadMemoryOfLiveFiles: a live file takes a few hundred bytes beside the text of
// its statistics (I9).
func TestLoadMemoryOfLiveFiles(t *testing.T) {
	ctx := context.Background()
	const n = 50_000
	s := largeState(t, n)
	for _, a := range s.Adds {
		a.Stats = `{"numRecords":1}`
	}
	store := newMemory(t)
	if err := WriteCheckpoint(ctx, store, s, &CheckpointOptions{Now: time.Now(), StatsAsJSON: true}); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := mustLoad(t, store, nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := int64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%d bytes a live file", per)
	if per > 500 {
		t.Errorf("%d bytes a live file, want at most 500", per)
	}
	runtime.KeepAlive(got)
	runtime.KeepAlive(s)
}

// TestLoadEntryOf100000Actions: the log of a big commit is no trouble.
func TestLoadEntryOf100000Actions(t *testing.T) {
	const n = 100_000
	var sb strings.Builder
	sb.WriteString(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n" + `{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":"{}","partitionColumns":[],"configuration":{}}}` + "\n")
	for i := range n {
		fmt.Fprintf(&sb, `{"add":{"path":"part-%07d.parquet","partitionValues":{},"size":%d,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":%d}"}}`+"\n", i, i, i)
	}
	store := newMemory(t)
	put(t, store, EntryKey(0), []byte(sb.String()))
	start := time.Now()
	s := mustLoad(t, store, nil)
	t.Logf("%d actions in %v", n, time.Since(start))
	if len(s.Adds) != n || s.Adds[n-1].Size != n-1 {
		t.Errorf("%d live files, want %d", len(s.Adds), n)
	}
}
