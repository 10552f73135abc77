package deltalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

func ptr[T any](v T) *T { return &v }

// newStore returns an empty store of this test.
func newStore(t testing.TB) *blobstore.Store {
	t.Helper()
	store, err := blobstore.Open(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// commit writes a log entry.
func commit(t testing.TB, store *blobstore.Store, v Version, actions ...action.Action) {
	t.Helper()
	data, err := action.Encode(actions)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := store.Create(context.Background(), EntryKey(v), data); err != nil || out != blobstore.Created {
		t.Fatalf("create entry %d: %v, %v", v, out, err)
	}
}

func mustLoad(t testing.TB, store *blobstore.Store, at *Version) *State {
	t.Helper()
	s, err := Load(context.Background(), store, &LoadOptions{At: at})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const allTypes = `{"type":"struct","fields":[` +
	`{"name":"id","type":"long","nullable":false,"metadata":{}},` +
	`{"name":"s","type":"string","nullable":true,"metadata":{}},` +
	`{"name":"d","type":"decimal(38,10)","nullable":true,"metadata":{}},` +
	`{"name":"f","type":"float","nullable":true,"metadata":{}},` +
	`{"name":"x","type":"double","nullable":true,"metadata":{}},` +
	`{"name":"day","type":"date","nullable":true,"metadata":{}},` +
	`{"name":"ts","type":"timestamp","nullable":true,"metadata":{}},` +
	`{"name":"nt","type":"timestamp_ntz","nullable":true,"metadata":{}},` +
	`{"name":"b","type":"boolean","nullable":true,"metadata":{}},` +
	`{"name":"bin","type":"binary","nullable":true,"metadata":{}},` +
	`{"name":"st","type":{"type":"struct","fields":[{"name":"a","type":"integer","nullable":true,"metadata":{}},{"name":"arr","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},` +
	`{"name":"p","type":"date","nullable":true,"metadata":{}},` +
	`{"name":"q r","type":"string","nullable":true,"metadata":{}}]}`

const allStats = `{"numRecords":3,"tightBounds":true,` +
	`"minValues":{"id":-9007199254740993,"s":"a\"b","d":-1234567890123456789012345678.0123456789,"f":-0.0,"x":1e-300,"day":"1969-12-31","ts":"1969-12-31T23:59:59.999Z","nt":"2024-01-02T03:04:05.678","st":{"a":1}},` +
	`"maxValues":{"id":9223372036854775807,"s":"zé😀","d":0.5,"f":"NaN","x":"Infinity","day":"9999-12-31","ts":"2024-01-02T03:04:05.678Z","nt":"2024-01-02T03:04:05.679","st":{"a":2}},` +
	`"nullCount":{"id":0,"s":1,"d":0,"f":0,"x":0,"day":0,"ts":0,"nt":0,"b":2,"bin":3,"st":{"a":0,"arr":1}}}`

// sampleState fills every member of every action.
func sampleState(t testing.TB, store *blobstore.Store) *State {
	t.Helper()
	now := time.Now().UnixMilli()
	commit(t, store, 0,
		action.Action{CommitInfo: &action.CommitInfo{Timestamp: now, Operation: "CREATE TABLE"}},
		action.Action{Protocol: &action.Protocol{MinReader: 3, MinWriter: 7, ReaderFeatures: []string{"deletionVectors", "timestampNtz"}, WriterFeatures: []string{"deletionVectors", "domainMetadata", "timestampNtz"}}},
		action.Action{Metadata: &action.Metadata{
			ID: "m", Name: "n", Description: "d", Provider: "parquet", FormatOptions: map[string]string{}, SchemaString: allTypes,
			PartitionColumns: []string{"p", "q r"}, Configuration: map[string]string{"a": "1", "b": ""}, CreatedTime: ptr(now),
		}},
		action.Action{Txn: &action.Txn{AppID: "app", Version: 7, LastUpdated: ptr(now)}},
		action.Action{Txn: &action.Txn{AppID: "app2", Version: -1}},
		action.Action{DomainMetadata: &action.DomainMetadata{Domain: "x.y", Configuration: `{"k":1}`}},
		action.Action{DomainMetadata: &action.DomainMetadata{Domain: "gone", Configuration: "", Removed: true}},
		action.Action{Add: &action.Add{
			Path: "p=2024-01-02/a%20b.parquet", PartitionValues: map[string]*string{"p": ptr("2024-01-02"), "q r": nil},
			Size: 1 << 60, ModificationTime: now, Stats: allStats, Tags: map[string]string{"t": "1"},
			DeletionVector: &action.DeletionVector{StorageType: "u", PathOrInlineDV: "ab^-aqEH.-t@S}K{vb[*k^", Offset: ptr(int32(1)), SizeInBytes: 36, Cardinality: 2},
			BaseRowID:      ptr(int64(5)), DefaultRowCommitVersion: ptr(int64(0)), ClusteringProvider: ptr("liquid"),
		}},
		action.Action{Add: &action.Add{Path: "bare.parquet", PartitionValues: map[string]*string{"p": nil, "q r": ptr("")}}},
		action.Action{Remove: &action.Remove{
			Path: "old.parquet", DeletionTimestamp: ptr(now), DataChange: true, ExtendedFileMetadata: true,
			PartitionValues: map[string]*string{"p": nil, "q r": ptr("x")}, Size: ptr(int64(9)),
			DeletionVector: &action.DeletionVector{StorageType: "i", PathOrInlineDV: "wi5b=", SizeInBytes: 4, Cardinality: 1},
		}},
		action.Action{Remove: &action.Remove{Path: "bare-old.parquet", DeletionTimestamp: ptr(now)}},
	)
	return mustLoad(t, store, nil)
}

// only removes the entries, so that the log checkpoint must be read.
func only(t testing.TB, store *blobstore.Store, versions ...Version) {
	t.Helper()
	for _, v := range versions {
		if err := store.Delete(context.Background(), EntryKey(v)); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutOrigin leaves out what depends on how a state was built.
func withoutOrigin(s *State) State {
	c := *s
	c.CheckpointVersion, c.CommitInfo, c.EntryModTime, c.root = nil, nil, time.Time{}, ""
	c.Adds = nil
	for _, a := range s.Adds {
		b := *a
		b.DataChange = false
		c.Adds = append(c.Adds, &b)
	}
	c.Removes = nil
	for _, r := range s.Removes {
		b := *r
		b.DataChange = false
		c.Removes = append(c.Removes, &b)
	}
	return c
}

func diffStates(a, b *State) string {
	x, y := withoutOrigin(a), withoutOrigin(b)
	return cmp.Diff(x, y, cmp.AllowUnexported(State{}))
}

func TestWriteCheckpointReadsBackEqual(t *testing.T) {
	ctx := context.Background()
	for _, o := range []CheckpointOptions{
		{StatsAsJSON: true, StatsAsStruct: true},
		{StatsAsJSON: true},
		{StatsAsStruct: true},
		{},
	} {
		t.Run(fmt.Sprintf("json=%t,struct=%t", o.StatsAsJSON, o.StatsAsStruct), func(t *testing.T) {
			store := newStore(t)
			want := sampleState(t, store)
			o.Now = time.Now()
			if err := WriteCheckpoint(ctx, store, want, &o); err != nil {
				t.Fatal(err)
			}
			only(t, store, 0)
			got := mustLoad(t, store, nil)
			if got.CheckpointVersion == nil {
				t.Fatal("the log checkpoint was not read")
			}
			w := withoutOrigin(want)
			if !o.StatsAsJSON {
				if o.StatsAsStruct {
					wantJSON(t, got.Adds[1].Stats, allStats)
				} else if got.Adds[1].Stats != "" {
					t.Errorf("statistics %s, want none", got.Adds[1].Stats)
				}
				w.Adds[1].Stats = got.Adds[1].Stats
			}
			if d := diffStates(&w, got); d != "" {
				t.Errorf("state differs (-written +read):\n%s", d)
			}
			data, err := store.Get(ctx, lastCheckpointKey)
			if err != nil || !strings.HasPrefix(string(data), `{"version":0,"size":9,"sizeInBytes":`) {
				t.Errorf("hint is %s, %v", data, err)
			}
		})
	}
}

// wantJSON compares JSON texts; numbers by their text, -0.0 being 0.
func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	decodeJSON(t, []byte(got), &g)
	decodeJSON(t, []byte(want), &w)
	number := cmp.Transformer("number", func(n json.Number) string {
		if n == "-0.0" || n == "-0" {
			return "0"
		}
		if f, ok := strings.CutSuffix(n.String(), "000000000"); ok && strings.Contains(f, ".") {
			return f
		}
		return n.String()
	})
	if d := cmp.Diff(w, g, number); d != "" {
		t.Errorf("JSON differs (-want +got):\n%s", d)
	}
}

func TestWriteCheckpointDropsWhatExpired(t *testing.T) {
	ctx := context.Background()
	store := newStore(t)
	day := int64(24 * 3600 * 1000)
	now := time.UnixMilli(100 * day)
	commit(t, store, 0,
		action.Action{Protocol: &action.Protocol{MinReader: 1, MinWriter: 2}},
		action.Action{Metadata: &action.Metadata{ID: "m", Provider: "parquet", SchemaString: allTypes, Configuration: map[string]string{
			"delta.deletedFileRetentionDuration": "interval 2 days", "delta.setTransactionRetentionDuration": "3 days",
		}}},
		action.Action{Remove: &action.Remove{Path: "old", DeletionTimestamp: ptr(98 * day)}},
		action.Action{Remove: &action.Remove{Path: "young", DeletionTimestamp: ptr(98*day + 1)}},
		action.Action{Remove: &action.Remove{Path: "undated"}},
		action.Action{Txn: &action.Txn{AppID: "old", Version: 1, LastUpdated: ptr(97 * day)}},
		action.Action{Txn: &action.Txn{AppID: "young", Version: 1, LastUpdated: ptr(97*day + 1)}},
		action.Action{Txn: &action.Txn{AppID: "undated", Version: 1}},
	)
	if err := WriteCheckpoint(ctx, store, mustLoad(t, store, nil), &CheckpointOptions{Now: now, StatsAsJSON: true, StatsAsStruct: true}); err != nil {
		t.Fatal(err)
	}
	only(t, store, 0)
	got := mustLoad(t, store, nil)
	var kept []string
	for _, r := range got.Removes {
		kept = append(kept, r.Path)
	}
	kept = append(kept, sortedKeys(got.Txns)...)
	if d := cmp.Diff([]string{"young", "young"}, kept); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	if got.Protocol.ReaderFeatures != nil || got.Protocol.WriterFeatures != nil {
		t.Errorf("protocol %+v, want no feature lists", got.Protocol)
	}
}

func TestWriteCheckpointHintNeverMovesBack(t *testing.T) {
	ctx := context.Background()
	store := newStore(t)
	s := sampleState(t, store)
	commit(t, store, 1, action.Action{Txn: &action.Txn{AppID: "app", Version: 8}})
	s1, err := Next(ctx, store, s)
	if err != nil {
		t.Fatal(err)
	}
	o := &CheckpointOptions{Now: time.Now(), StatsAsJSON: true}
	for _, s := range []*State{s1, s, s} { // the last meets its own file
		if err := WriteCheckpoint(ctx, store, s, o); err != nil {
			t.Fatal(err)
		}
	}
	if v, ok, err := readHint(ctx, store); !ok || v != 1 || err != nil {
		t.Errorf("hint is %d, %t, %v, want 1", v, ok, err)
	}
}

func TestWriteCheckpointRefusesUnknownWriterFeature(t *testing.T) {
	store := newStore(t)
	s := *sampleState(t, store)
	p := *s.Protocol
	p.WriterFeatures = append([]string{"rowTracking", "fancy"}, p.WriterFeatures...)
	s.Protocol = &p
	err := WriteCheckpoint(context.Background(), store, &s, &CheckpointOptions{Now: time.Now()})
	var unsupported *feature.UnsupportedError
	if !errors.As(err, &unsupported) || unsupported.Feature != "rowTracking, fancy" {
		t.Errorf("error is %v, want a refusal of rowTracking, fancy", err)
	}
}
