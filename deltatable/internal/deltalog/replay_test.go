package deltalog

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
)

var memories atomic.Int64

// newMemory returns an empty store in memory.
func newMemory(t interface{ Fatal(args ...any) }) *blobstore.Store {
	store, err := blobstore.Open(context.Background(), fmt.Sprintf("mem://deltalog-test-%d", memories.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// model is the table as a plain map says it, one action after the other.
type model struct {
	live     map[action.FileKey]*action.Add
	dead     map[action.FileKey]*action.Remove
	txns     map[string]*action.Txn
	domains  map[string]*action.DomainMetadata
	metadata *action.Metadata
	protocol *action.Protocol
}

func (m *model) clone() *model {
	return &model{maps.Clone(m.live), maps.Clone(m.dead), maps.Clone(m.txns), maps.Clone(m.domains), m.metadata, m.protocol}
}

// state is what Load must give.
func (m *model) state(v Version) *State {
	s := &State{Version: v, Protocol: m.protocol, Metadata: m.metadata, Txns: m.txns, Domains: m.domains}
	byKey := action.FileKey.Compare
	for _, k := range slices.SortedFunc(maps.Keys(m.live), byKey) {
		s.Adds = append(s.Adds, m.live[k])
	}
	for _, k := range slices.SortedFunc(maps.Keys(m.dead), byKey) {
		s.Removes = append(s.Removes, m.dead[k])
	}
	return s
}

// history draws random commits and tells what each leaves.
type history struct {
	t      *rapid.T
	root   string
	at     int64 // time of deletions, all unexpired
	files  int
	models []*model
}

// absolute sometimes spells a path below the root absolutely: the same file (I3).
func (h *history) absolute(path string) string {
	if rapid.IntRange(0, 9).Draw(h.t, "absolute") == 0 {
		return h.root + "/" + path
	}
	return path
}

func (h *history) vector(n int) *action.DeletionVector {
	d := &action.DeletionVector{StorageType: "u", PathOrInlineDV: fmt.Sprintf("dv%d", n), SizeInBytes: 10, Cardinality: int64(n)}
	if n%3 > 0 {
		d.Offset = ptr(int32(n % 3))
	}
	return d
}

// file draws a new add.
func (h *history) file(path string) *action.Add {
	a := &action.Add{Path: h.absolute(path), PartitionValues: map[string]*string{}, Size: int64(rapid.IntRange(0, 100).Draw(h.t, "size")), DataChange: rapid.Bool().Draw(h.t, "change")}
	if rapid.Bool().Draw(h.t, "stats") {
		a.Stats = fmt.Sprintf(`{"numRecords":%d}`, a.Size)
	}
	return a
}

func (m *model) add(k action.FileKey, a *action.Add) action.Action {
	m.live[k] = a
	delete(m.dead, k)
	return action.Action{Add: a}
}

func (h *history) remove(m *model, k action.FileKey) action.Action {
	h.at++
	r := action.RemoveOf(m.live[k], time.UnixMilli(h.at), true)
	delete(m.live, k)
	m.dead[k] = r
	return action.Action{Remove: r}
}

// step draws one change, as one or two actions of a commit. Each logical file is
// touched once a commit, as the protocol wants.
func (h *history) step(m *model, touched map[string]bool) []action.Action {
	var known []action.FileKey
	for _, k := range slices.SortedFunc(maps.Keys(m.live), action.FileKey.Compare) {
		if !touched[k.Path] {
			known = append(known, k)
		}
	}
	kind := rapid.IntRange(0, 9).Draw(h.t, "step")
	if len(known) == 0 && kind >= 2 && kind <= 6 {
		kind = 0
	}
	var k action.FileKey
	if len(known) > 0 {
		k = rapid.SampledFrom(known).Draw(h.t, "file")
	}
	switch kind {
	case 0, 1: // a new file, or one that was removed comes back
		path := fmt.Sprintf("f%03d%%20.parquet", h.files)
		if back := slices.SortedFunc(maps.Keys(m.dead), action.FileKey.Compare); len(back) > 0 && kind == 1 {
			if b := back[0]; b.DV == "" && !touched[b.Path] && !m.pathLive(b.Path) {
				path = b.Path
			}
		}
		h.files++
		touched[path] = true
		return []action.Action{m.add(action.FileKey{Path: path}, h.file(path))}
	case 2, 3:
		touched[k.Path] = true
		return []action.Action{h.remove(m, k)}
	case 4, 5: // another vector, or none: the path lives on as another logical file
		touched[k.Path] = true
		a := h.file(k.Path)
		a.DeletionVector = h.vector(rapid.IntRange(1, 5).Draw(h.t, "vector"))
		if rapid.IntRange(0, 3).Draw(h.t, "restore") == 0 {
			a.DeletionVector = nil
		}
		if a.DeletionVector.UniqueID() == k.DV {
			return []action.Action{m.add(k, a)}
		}
		out := []action.Action{h.remove(m, k), m.add(action.FileKey{Path: k.Path, DV: a.DeletionVector.UniqueID()}, a)}
		if rapid.Bool().Draw(h.t, "add first") {
			slices.Reverse(out)
		}
		return out
	case 6: // new statistics of the same logical file
		touched[k.Path] = true
		a := h.file(k.Path)
		a.DeletionVector = m.live[k].DeletionVector
		return []action.Action{m.add(k, a)}
	case 7:
		x := &action.Txn{AppID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(h.t, "app"), Version: int64(rapid.IntRange(-5, 5).Draw(h.t, "txn"))}
		if touched["txn "+x.AppID] {
			return nil
		}
		touched["txn "+x.AppID] = true
		m.txns[x.AppID] = x
		return []action.Action{{Txn: x}}
	case 8:
		d := &action.DomainMetadata{Domain: rapid.SampledFrom([]string{"x", "y"}).Draw(h.t, "domain"), Configuration: fmt.Sprint(h.files), Removed: rapid.Bool().Draw(h.t, "removed")}
		if touched["domain "+d.Domain] {
			return nil
		}
		touched["domain "+d.Domain] = true
		delete(m.domains, d.Domain)
		if !d.Removed {
			m.domains[d.Domain] = d
		}
		return []action.Action{{DomainMetadata: d}}
	}
	if touched["metadata"] {
		return nil
	}
	touched["metadata"] = true
	c := m.metadata.Clone()
	c.Configuration = map[string]string{"n": fmt.Sprint(h.files)}
	m.metadata = c
	return []action.Action{{Metadata: c}}
}

func (m *model) pathLive(path string) bool {
	for k := range m.live {
		if k.Path == path {
			return true
		}
	}
	return false
}

// write draws a history of commits into a store.
func (h *history) write(store *blobstore.Store) {
	m := &model{
		live: map[action.FileKey]*action.Add{}, dead: map[action.FileKey]*action.Remove{}, txns: map[string]*action.Txn{}, domains: map[string]*action.DomainMetadata{},
		protocol: &action.Protocol{MinReader: 3, MinWriter: 7, ReaderFeatures: []string{"deletionVectors"}, WriterFeatures: []string{"deletionVectors", "domainMetadata"}},
		metadata: &action.Metadata{ID: "m", Provider: "parquet", FormatOptions: map[string]string{}, SchemaString: allTypes, PartitionColumns: []string{}, Configuration: map[string]string{}},
	}
	versions := rapid.IntRange(1, 14).Draw(h.t, "versions")
	for v := range versions {
		var actions []action.Action
		if v == 0 {
			actions = append(actions, action.Action{Protocol: m.protocol}, action.Action{Metadata: m.metadata})
		}
		touched := map[string]bool{}
		for range rapid.IntRange(0, 6).Draw(h.t, "steps") {
			actions = append(actions, h.step(m, touched)...)
		}
		data, err := action.Encode(actions)
		if err != nil {
			h.t.Fatal(err)
		}
		if err := store.Put(context.Background(), EntryKey(Version(v)), data); err != nil {
			h.t.Fatal(err)
		}
		h.models = append(h.models, m.clone())
	}
}

// wantState compares a state with the model of its version.
func (h *history) wantState(what string, got *State, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	want := normalState(h.models[got.Version].state(got.Version))
	if d := cmp.Diff(want, normalState(got)); d != "" {
		h.t.Fatalf("%s: version %d differs (-model +state):\n%s", what, got.Version, d)
	}
	for _, a := range got.Adds {
		if f, ok := got.File(a.Key()); !ok || f != a {
			h.t.Fatalf("%s: file %v is not found", what, a.Key())
		}
	}
	if _, ok := got.File(action.FileKey{Path: "absent"}); ok {
		h.t.Fatalf("%s: an absent file is found", what)
	}
}

// plainState has the exported parts of a state that do not depend on its origin.
type plainState struct {
	Version  Version
	Protocol *action.Protocol
	Metadata *action.Metadata
	Adds     []action.Add
	Removes  []action.Remove
	Txns     map[string]*action.Txn
	Domains  map[string]*action.DomainMetadata
}

func normalState(s *State) plainState {
	p := plainState{Version: s.Version, Protocol: s.Protocol, Metadata: s.Metadata, Txns: s.Txns, Domains: s.Domains}
	for _, a := range s.Adds {
		c := *a
		c.DataChange = false
		p.Adds = append(p.Adds, c)
	}
	for _, r := range s.Removes {
		c := *r
		c.Tags, c.Stats, c.DataChange = nil, "", false
		p.Removes = append(p.Removes, c)
	}
	return p
}

// TestReplayOfRandomHistories: entries alone, log checkpoints of one and of two parts
// with the entries after them, and incremental loading all give what a plain map gives.
func TestReplayOfRandomHistories(t *testing.T) {
	ctx := context.Background()
	vectors := 0
	rapid.Check(t, func(rt *rapid.T) {
		store := newMemory(rt)
		h := &history{t: rt, root: store.URL(), at: time.Now().UnixMilli()}
		h.write(store)
		last := Version(len(h.models) - 1)

		s, err := Load(ctx, store, nil)
		h.wantState("entries", s, err)
		if s.DeletionVectors() {
			vectors++
		}
		mid := Version(rapid.IntRange(0, int(last)).Draw(rt, "mid"))
		early, err := Load(ctx, store, &LoadOptions{At: &mid})
		h.wantState("entries up to mid", early, err)
		next, err := Next(ctx, store, early)
		h.wantState("next", next, err)
		if mid == last && next != early {
			rt.Fatal("Next with nothing new is another state")
		}
		again, err := Load(ctx, store, &LoadOptions{At: &last, Previous: early})
		h.wantState("load with previous", again, err)

		if rapid.Bool().Draw(rt, "parts") {
			writeParts(rt, store, early)
		} else if err := WriteCheckpoint(ctx, store, early, &CheckpointOptions{Now: time.Now(), StatsAsJSON: rapid.Bool().Draw(rt, "json"), StatsAsStruct: true}); err != nil {
			rt.Fatal(err)
		}
		for v := Version(0); v <= mid; v++ {
			if err := store.Delete(ctx, EntryKey(v)); err != nil {
				rt.Fatal(err)
			}
		}
		s, err = Load(ctx, store, nil)
		h.wantState("log checkpoint and entries", s, err)
		if s.CheckpointVersion == nil || *s.CheckpointVersion != mid {
			rt.Fatalf("log checkpoint %v was read, want %d", s.CheckpointVersion, mid)
		}
		s, err = Load(ctx, store, &LoadOptions{At: &mid})
		h.wantState("log checkpoint alone", s, err)
		s, err = Next(ctx, store, s)
		h.wantState("next after log checkpoint", s, err)
	})
	t.Logf("%d histories ended with a deletion vector", vectors)
	if vectors == 0 {
		t.Error("no history ended with a deletion vector")
	}
}

// writeParts writes a log checkpoint of two parts, which this project never does itself.
func writeParts(t interface{ Fatal(args ...any) }, store *blobstore.Store, s *State) {
	half, other := *s, *s
	half.Adds, other.Adds = s.Adds[:len(s.Adds)/2], s.Adds[len(s.Adds)/2:]
	half.Removes, other.Txns, other.Domains = nil, nil, nil
	for i, part := range []*State{&half, &other} {
		var buf bytes.Buffer
		c := &content{state: part, removes: part.Removes, json: true}
		for _, app := range sortedKeys(part.Txns) {
			c.txns = append(c.txns, part.Txns[app])
		}
		if _, err := c.encode(&buf); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("_delta_log/%020d.checkpoint.%010d.%010d.parquet", s.Version, i+1, 2)
		if err := store.Put(context.Background(), key, buf.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReplayKeepsBothLogicalFilesApart: a commit gives a file a new vector, by a
// remove and an add of one path, in either order. Keyed by the path alone, one order
// loses the file.
func TestReplayKeepsBothLogicalFilesApart(t *testing.T) {
	ctx := context.Background()
	v1 := &action.DeletionVector{StorageType: "u", PathOrInlineDV: "one", Offset: ptr(int32(1)), SizeInBytes: 4, Cardinality: 1}
	v2 := &action.DeletionVector{StorageType: "u", PathOrInlineDV: "one", Offset: ptr(int32(9)), SizeInBytes: 4, Cardinality: 2}
	file := func(d *action.DeletionVector) action.Action {
		return action.Action{Add: &action.Add{Path: "f", PartitionValues: map[string]*string{}, Size: 1, DeletionVector: d}}
	}
	gone := func(d *action.DeletionVector) action.Action {
		return action.Action{Remove: action.RemoveOf(file(d).Add, time.Now(), true)}
	}
	for name, commits := range map[string][][]action.Action{
		"remove first": {{file(nil)}, {gone(nil), file(v1)}, {gone(v1), file(v2)}},
		"add first":    {{file(nil)}, {file(v1), gone(nil)}, {file(v2), gone(v1)}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, checkpointAt := range []Version{-1, 0, 1, 2} {
				store := newMemory(t)
				for v, actions := range commits {
					if v == 0 {
						actions = append(actions, action.Action{Protocol: &action.Protocol{MinReader: 1, MinWriter: 2}},
							action.Action{Metadata: &action.Metadata{ID: "m", Provider: "parquet", SchemaString: allTypes}})
					}
					commit(t, store, Version(v), actions...)
					if Version(v) == checkpointAt {
						if err := WriteCheckpoint(ctx, store, mustLoad(t, store, nil), &CheckpointOptions{Now: time.Now(), StatsAsJSON: true}); err != nil {
							t.Fatal(err)
						}
						for old := range v + 1 {
							only(t, store, Version(old))
						}
					}
				}
				s := mustLoad(t, store, nil)
				if len(s.Adds) != 1 || s.Adds[0].DeletionVector.UniqueID() != "uone@9" {
					t.Errorf("log checkpoint at %d: live files %v, want the one with vector uone@9", checkpointAt, s.Adds)
				}
				if len(s.Removes) != 2 {
					t.Errorf("log checkpoint at %d: %d log tombstones, want 2", checkpointAt, len(s.Removes))
				}
			}
		})
	}
}

func TestReplayNormalisesAbsolutePaths(t *testing.T) {
	store := newStore(t)
	root := store.URL()
	add := func(path string) action.Action {
		return action.Action{Add: &action.Add{Path: path, PartitionValues: map[string]*string{}, Size: 1}}
	}
	remove := func(path string) action.Action { return action.Action{Remove: &action.Remove{Path: path}} }
	commit(t, store, 0, action.Action{Protocol: &action.Protocol{MinReader: 1, MinWriter: 2}},
		action.Action{Metadata: &action.Metadata{ID: "m", Provider: "parquet", SchemaString: allTypes}},
		add("/else/where"), add("own.parquet"), add("a%20b.parquet"), add(root+"/stays.parquet"), add("stays%2Frelative"))
	commit(t, store, 1, remove("file:/else/where"), remove(root+"/own.parquet"), remove("a b.parquet"), remove("stays/relative"))
	s := mustLoad(t, store, nil)
	var live []string
	for _, a := range s.Adds {
		live = append(live, a.Path)
	}
	// A relative path is its own identity as written, so that "a b" is not "a%20b".
	want := []string{"a%20b.parquet", "stays%2Frelative", root + "/stays.parquet"}
	if d := cmp.Diff(want, live); d != "" {
		t.Errorf("live files differ (-want +got):\n%s", d)
	}
	for _, path := range []string{"stays.parquet", root + "/stays.parquet"} {
		if _, ok := s.File(action.FileKey{Path: path}); !ok {
			t.Errorf("file %s is not found", path)
		}
	}
}
