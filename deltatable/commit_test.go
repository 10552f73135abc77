package deltatable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
)

// bodies records the bytes of every conditional put, by key.
type bodies struct {
	blobstore.Driver
	mu   sync.Mutex
	puts map[string][][]byte
	// after, if set, is called after every put.
	after func()
}

func (b *bodies) Create(ctx context.Context, key string, data []byte) (blobstore.Outcome, error) {
	b.mu.Lock()
	b.puts[key] = append(b.puts[key], bytes.Clone(data))
	b.mu.Unlock()
	out, err := b.Driver.Create(ctx, key, data)
	if b.after != nil {
		b.after()
	}
	return out, err
}

// faultyTable is a table at version 0 whose store goes wrong as decide says;
// tab sees the faults, sound does not.
func faultyTable(t testing.TB, decide func(blobstoretest.Call) blobstoretest.Fault) (tab, sound *deltatable.Table, f *blobstoretest.Faults, b *bodies) {
	t.Helper()
	store := memStore(t)
	sound = deltatable.NewTable(store, testOptions())
	create(t, sound, "id long", nil, nil)
	f = &blobstoretest.Faults{Decide: decide}
	b = &bodies{puts: make(map[string][][]byte)}
	faulty := store.Wrap(f.Wrap).Wrap(func(d blobstore.Driver) blobstore.Driver {
		b.Driver = d
		return b
	})
	return deltatable.NewTable(faulty, testOptions()), sound, f, b
}

const entry1 = "_delta_log/00000000000000000001.json"

func appendCommit(txn, path string) *deltatable.Commit {
	return &deltatable.Commit{
		TxnID: txn, Operation: "WRITE", BlindAppend: true,
		Adds: []*deltatable.Add{{Path: path, PartitionValues: map[string]*string{}, Size: 1, ModificationTime: 1, DataChange: true}},
	}
}

// onCreates makes the n-th conditional put (from 1) go wrong as kinds[n-1]
// says, and after each calls then with its number.
func onCreates(kinds ...blobstoretest.FaultKind) func(blobstoretest.Call) blobstoretest.Fault {
	return func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op != blobstoretest.OpCreate || c.N > len(kinds) {
			return blobstoretest.Fault{}
		}
		return blobstoretest.Fault{Kind: kinds[c.N-1]}
	}
}

// The outcome of an attempt under every fault of its put (R8).
func TestTryCommitDecidesUnknownOutcomes(t *testing.T) {
	const (
		fail, request, answer, late = blobstoretest.Fail, blobstoretest.LoseRequest, blobstoretest.LoseAnswer, blobstoretest.Late
		none                        = blobstoretest.None
	)
	for _, c := range []struct {
		name  string
		kinds []blobstoretest.FaultKind
		want  string // landed, undecided, failed
		puts  int
	}{
		{"no fault", nil, "landed", 1},
		{"request lost once", []blobstoretest.FaultKind{request}, "landed", 2},
		{"answer lost once", []blobstoretest.FaultKind{answer}, "landed", 2},
		{"answer lost, then requests", []blobstoretest.FaultKind{answer, request, request}, "landed", 4},
		{"lands late", []blobstoretest.FaultKind{late, request}, "landed", 3},
		{"certainly not done", []blobstoretest.FaultKind{fail}, "failed", 1},
		{"not done after unknown is no answer", []blobstoretest.FaultKind{request, fail, fail, fail}, "undecided", 4},
		{"not done after unknown, then created", []blobstoretest.FaultKind{request, fail, none}, "landed", 3},
		{"never answered", []blobstoretest.FaultKind{request, request, request, request}, "undecided", 4},
		{"all answers lost, but it is there", []blobstoretest.FaultKind{answer, answer, answer, answer}, "landed", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			tab, sound, _, b := faultyTable(t, onCreates(c.kinds...))
			landed, err := tab.TryCommit(t.Context(), snapshot(t, sound), appendCommit("mine", "a.parquet"))
			if got := resultOf(landed, err); got != c.want {
				t.Errorf("result %s (%v), want %s", got, err, c.want)
			}
			puts := b.puts[entry1]
			if len(puts) != c.puts {
				t.Errorf("%d puts, want %d", len(puts), c.puts)
			}
			for _, p := range puts[1:] {
				if !bytes.Equal(p, puts[0]) {
					t.Errorf("another body was put at the same version:\n%s\n%s", puts[0], p)
				}
			}
			there, _ := sound.Store().Get(t.Context(), entry1)
			if c.want == "landed" && !bytes.Equal(there, puts[0]) {
				t.Errorf("landed, but the entry is %q", there)
			}
			if c.want == "failed" && there != nil {
				t.Errorf("failed, but the entry is %q", there)
			}
		})
	}
}

func resultOf(landed *deltatable.Landed, err error) string {
	if _, ok := errors.AsType[*deltatable.UndecidedError](err); ok {
		return "undecided"
	}
	if _, ok := errors.AsType[*deltatable.ConflictError](err); ok {
		return "conflict"
	}
	if err != nil {
		return "failed"
	}
	if landed == nil {
		return "nothing"
	}
	return "landed"
}

// A put without an answer, another writer's commit, and only then our put
// arrives: the other has the version, and ours never lands.
func TestTryCommitLatePutMeetsWinner(t *testing.T) {
	var sound *deltatable.Table
	var f *blobstoretest.Faults
	decide := func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op != blobstoretest.OpCreate {
			return blobstoretest.Fault{}
		}
		if c.N == 2 {
			if _, err := sound.TryCommit(t.Context(), snapshot(t, sound), appendCommit("other", "b.parquet")); err != nil {
				t.Error(err)
			}
		}
		return blobstoretest.Fault{Kind: []blobstoretest.FaultKind{blobstoretest.Late, blobstoretest.None}[c.N-1]}
	}
	tab, s, faults, _ := faultyTable(t, decide)
	sound, f = s, faults
	landed, err := tab.TryCommit(t.Context(), snapshot(t, sound), appendCommit("mine", "a.parquet"))
	if got := resultOf(landed, err); got != "conflict" {
		t.Errorf("result %s (%v), want conflict", got, err)
	}
	if err := f.Land(); err != nil {
		t.Error(err)
	}
	e, err := sound.Entry(t.Context(), 1)
	if err != nil || e.Info.TxnID != "other" {
		t.Errorf("version 1 is of %+v (%v), want other", e, err)
	}
}

// A read-back that fails is no answer either: it is read again, and what is
// reported is the landed entry.
func TestTryCommitFailingReadBack(t *testing.T) {
	for _, fails := range []int{1, 2, 100} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			reads := 0
			tab, sound, _, _ := faultyTable(t, func(c blobstoretest.Call) blobstoretest.Fault {
				switch {
				case c.Op == blobstoretest.OpCreate && c.N == 1:
					return blobstoretest.Fault{Kind: blobstoretest.LoseAnswer}
				case c.Key == entry1 && c.Op != blobstoretest.OpCreate:
					if reads++; reads <= fails {
						return blobstoretest.Fault{Kind: blobstoretest.Fail}
					}
				}
				return blobstoretest.Fault{}
			})
			landed, err := tab.TryCommit(t.Context(), snapshot(t, sound), appendCommit("mine", "a.parquet"))
			want := "landed"
			if fails == 100 {
				want = "undecided"
			}
			if got := resultOf(landed, err); got != want {
				t.Fatalf("result %s (%v), want %s", got, err, want)
			}
			if u, ok := errors.AsType[*deltatable.UndecidedError](err); ok && (u.Version != 1 || u.TxnID != "mine") {
				t.Errorf("undecided about version %d, transaction %s", u.Version, u.TxnID)
			}
		})
	}
}

// The first put already meets our entry (a store's client that retried by
// itself), the read-back fails, and then the store refuses: not known is not no.
func TestTryCommitRefusalAfterUnreadEntryIsNoAnswer(t *testing.T) {
	tab, sound, _, _ := faultyTable(t, func(c blobstoretest.Call) blobstoretest.Fault {
		refused := c.Op == blobstoretest.OpCreate && c.N > 1
		if refused || c.Op != blobstoretest.OpCreate && c.Key == entry1 {
			return blobstoretest.Fault{Kind: blobstoretest.Fail}
		}
		return blobstoretest.Fault{}
	})
	read := snapshot(t, sound)
	if _, err := sound.TryCommit(t.Context(), read, appendCommit("mine", "a.parquet")); err != nil {
		t.Fatal(err)
	}
	landed, err := tab.TryCommit(t.Context(), read, appendCommit("mine", "a.parquet"))
	if got := resultOf(landed, err); got != "undecided" {
		t.Errorf("result %s (%v), want undecided", got, err)
	}
}

func TestTryCommitCancelled(t *testing.T) {
	t.Run("before the put nothing happens", func(t *testing.T) {
		tab, sound, f, _ := faultyTable(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		landed, err := tab.TryCommit(ctx, snapshot(t, sound), appendCommit("mine", "a.parquet"))
		if got := resultOf(landed, err); got != "failed" || !errors.Is(err, context.Canceled) || f.Calls(blobstoretest.OpCreate) != 0 {
			t.Errorf("result %s (%v), %d puts", got, err, f.Calls(blobstoretest.OpCreate))
		}
	})
	for kind, want := range map[blobstoretest.FaultKind]string{
		blobstoretest.LoseAnswer: "landed", blobstoretest.LoseRequest: "undecided", blobstoretest.Late: "undecided",
	} {
		t.Run(fmt.Sprint("while the outcome is unknown, kind ", kind), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			tab, sound, _, b := faultyTable(t, onCreates(kind))
			b.after = cancel
			landed, err := tab.TryCommit(ctx, snapshot(t, sound), appendCommit("mine", "a.parquet"))
			if got := resultOf(landed, err); got != want {
				t.Errorf("result %s (%v), want %s", got, err, want)
			}
		})
	}
}

// Whatever the store does to the puts of four writers: an acknowledged commit
// is in the log exactly once, one that failed is not there (I1, R8).
func TestTransactionsUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		kinds := []blobstoretest.FaultKind{blobstoretest.Fail, blobstoretest.LoseRequest, blobstoretest.LoseAnswer, blobstoretest.Late}
		tab, sound, f, _ := faultyTable(t, blobstoretest.Randomly(rng, 0.3, kinds, blobstoretest.OpCreate, blobstoretest.OpRead))
		results := make([]string, 8)
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := w; i < len(results); i += 4 {
					results[i] = oneAppend(t.Context(), tab, sound, fmt.Sprint("txn-", i))
				}
			})
		}
		wg.Wait()
		if err := f.Land(); err != nil {
			rt.Fatal(err)
		}
		checkOnce(t.Context(), rt, sound, results)
	})
}

func oneAppend(ctx context.Context, tab, sound *deltatable.Table, txn string) string {
	s, err := sound.Snapshot(ctx)
	if err != nil {
		return "failed"
	}
	tx := tab.Begin(s)
	tx.Write = *appendCommit(txn, txn+".parquet")
	landed, err := tx.Commit(ctx, &deltatable.Retry{Max: 50, Sleep: noSleep})
	if err == nil {
		return fmt.Sprint("landed ", landed.Version)
	}
	return resultOf(landed, err)
}

func checkOnce(ctx context.Context, rt *rapid.T, sound *deltatable.Table, results []string) {
	s, err := sound.Snapshot(ctx)
	if err != nil {
		rt.Fatal(err)
	}
	versions := make(map[string][]string)
	for e, err := range sound.Entries(ctx, 1, s.Version()) {
		if err != nil {
			rt.Fatal(err)
		}
		versions[e.Info.TxnID] = append(versions[e.Info.TxnID], fmt.Sprint("landed ", e.Version))
	}
	if s.Version() == 0 {
		versions = nil
	}
	for i, r := range results {
		got := versions[fmt.Sprint("txn-", i)]
		ok := len(got) == 0 && (r == "failed" || r == "undecided") || len(got) == 1 && (r == "undecided" || r == got[0])
		if !ok {
			rt.Errorf("transaction %d said %s, the log says %v", i, r, got)
		}
	}
}

func TestCommitInfoAsOtherEnginesReadIt(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long", nil, map[string]string{"delta.enableInCommitTimestamps": "true"})
	s := snapshot(t, tab)
	c := appendCommit("my-txn", "a.parquet")
	c.Parameters = map[string]string{"mode": "Append", "partitionBy": "[]"}
	c.Metrics = map[string]string{"numFiles": "1"}
	c.Tags = map[string]string{"k": "v"}
	c.UserMetadata = "mine"
	if _, err := tab.TryCommit(t.Context(), s, c); err != nil {
		t.Fatal(err)
	}
	raw, err := tab.Store().Get(t.Context(), entry1)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	e, err := tab.Entry(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ts := e.Info.Timestamp
	want := fmt.Sprintf(`{"commitInfo":{"timestamp":%d,"inCommitTimestamp":%d,"operation":"WRITE",`+
		`"operationParameters":{"mode":"Append","partitionBy":"[]"},"readVersion":0,"isolationLevel":"Serializable",`+
		`"isBlindAppend":true,"operationMetrics":{"numFiles":"1"},"userMetadata":"mine","tags":{"k":"v"},`+
		`"engineInfo":"deltafold-test","txnId":"my-txn"}}`, ts, *e.Info.InCommitTimestamp)
	if d := cmp.Diff(want, first); d != "" {
		t.Error("first line: -want +got\n", d)
	}
}

// In-commit timestamps ascend even where the clock does not.
func TestInCommitTimestampsAscend(t *testing.T) {
	store := memStore(t)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	o := testOptions()
	o.Now = func() time.Time { now = now.Add(-time.Hour); return now }
	tab := deltatable.NewTable(store, o)
	create(t, tab, "id long", nil, map[string]string{"delta.enableInCommitTimestamps": "true"})
	var got []int64
	for i := range 4 {
		if _, err := tab.TryCommit(t.Context(), snapshot(t, tab), appendCommit("", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for e, err := range tab.Entries(t.Context(), 0, 4) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, *e.Info.InCommitTimestamp)
	}
	want := []int64{got[0], got[0] + 1, got[0] + 2, got[0] + 3, got[0] + 4}
	if d := cmp.Diff(want, got); d != "" {
		t.Error("-want +got\n", d)
	}
}

// What breaks a rule of the log is refused before anything is written.
func TestTryCommitRefuses(t *testing.T) {
	tab := memTable(t)
	md, p, err := deltatable.NewTableMetadata(ddl(t, "id long"), nil, map[string]string{"delta.appendOnly": "true"})
	if err != nil {
		t.Fatal(err)
	}
	first := appendCommit("", "live.parquet")
	first.Protocol, first.Metadata = p, md
	if _, err := tab.TryCommit(t.Context(), nil, first); err != nil {
		t.Fatal(err)
	}
	s := snapshot(t, tab)
	a := live(t, s, "live.parquet")
	add := func(path string) *deltatable.Add { return appendCommit("", path).Adds[0] }
	other := *md
	other.ID = "another"
	vector := add("v.parquet") // see also TestAddOfPathLiveWithVector
	vector.DeletionVector = &deltatable.DeletionVector{StorageType: "u", PathOrInlineDV: "ab^-aqEH.-t@S}K{vb[*k^", SizeInBytes: 1, Cardinality: 1}
	for name, c := range map[string]*deltatable.Commit{
		"path twice among adds":      {Operation: "X", Adds: []*deltatable.Add{add("x"), add("x")}},
		"path twice among removes":   {Operation: "X", Removes: []*deltatable.Add{a, a}},
		"add and remove of one file": {Operation: "X", Adds: []*deltatable.Add{a}, Removes: []*deltatable.Add{a}, Rearrange: true},
		"remove of what is not live": {Operation: "X", Removes: []*deltatable.Add{add("other.parquet")}, Rearrange: true},
		"remove in append-only":      {Operation: "X", Removes: []*deltatable.Add{a}},
		"two txns of one app":        {Operation: "X", Txns: []deltatable.Txn{{AppID: "a", Version: 1}, {AppID: "a", Version: 2}}},
		"domain without feature":     {Operation: "X", Domains: []deltatable.DomainMetadata{{Domain: "d"}}},
		"another metadata id":        {Operation: "X", Metadata: &other},
		"dropped feature":            {Operation: "X", Protocol: &deltatable.Protocol{MinReader: 1, MinWriter: 1}},
		"unknown feature":            {Operation: "X", Protocol: &deltatable.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{"appendOnly", "invariants", "rowTracking"}}},
		"deletion vector":            {Operation: "X", Adds: []*deltatable.Add{vector}},
		"no operation":               {},
		"blind append that removes":  {Operation: "X", BlindAppend: true, Rearrange: true, Removes: []*deltatable.Add{a}},
	} {
		landed, err := tab.TryCommit(t.Context(), s, c)
		if err == nil {
			t.Errorf("%s: committed as version %d", name, landed.Version)
			continue
		}
		t.Logf("%s: %v", name, err)
	}
	if got := snapshot(t, tab).Version(); got != 0 {
		t.Errorf("the table is at version %d, want 0", got)
	}
}

// A new table is not made over one whose first entries were cleaned up.
func TestCreateRefusesTableWithoutFirstEntries(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long", nil, map[string]string{"delta.checkpointInterval": "1"})
	for i := range 2 {
		landed, err := tab.TryCommit(t.Context(), snapshot(t, tab), appendCommit("", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := tab.PostCommit(t.Context(), landed.Version); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Store().Delete(t.Context(), "_delta_log/00000000000000000000.json"); err != nil {
		t.Fatal(err)
	}
	md, p, err := deltatable.NewTableMetadata(ddl(t, "id long"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	landed, err := tab.TryCommit(t.Context(), nil, &deltatable.Commit{Operation: "CREATE TABLE", Protocol: p, Metadata: md})
	if got := resultOf(landed, err); got != "conflict" {
		t.Errorf("result %s (%v), want conflict", got, err)
	}
}

// A path that is live with a deletion vector is not added again without one,
// unless that file is removed (protocol notes 1.2).
func TestAddOfPathLiveWithVector(t *testing.T) {
	tab, s := matrixTable(t)
	matrixWin(t, "vector a", tab, s)
	s = snapshot(t, tab)
	vectored := s.Files()[0]
	c := &deltatable.Commit{Operation: "X", Adds: []*deltatable.Add{matrixAdd("a.parquet", "1")}}
	_, err := tab.TryCommit(t.Context(), s, c)
	if _, ok := errors.AsType[*deltatable.CommitError](err); !ok {
		t.Errorf("got %v", err)
	}
	c.Removes = []*deltatable.Add{vectored}
	if _, err := tab.TryCommit(t.Context(), s, c); err != nil {
		t.Fatal(err)
	}
	e, err := tab.Entry(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	for r := range e.Removes() {
		if d := cmp.Diff(vectored.DeletionVector, r.DeletionVector); d != "" {
			t.Error("vector of the remove: -want +got\n", d)
		}
	}
}

// The commit that switches in-commit timestamps on loses once: version and time
// of enablement are those of the attempt that landed (protocol notes 1.12).
func TestEnablingInCommitTimestampsIsRestamped(t *testing.T) {
	var sound *deltatable.Table
	tab, s, _, _ := faultyTable(t, func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op == blobstoretest.OpCreate && c.N == 1 {
			if _, err := sound.TryCommit(t.Context(), snapshot(t, sound), appendCommit("", "winner")); err != nil {
				t.Error(err)
			}
		}
		return blobstoretest.Fault{}
	})
	sound = s
	tx := tab.Begin(snapshot(t, sound))
	tx.Write = deltatable.Commit{
		Operation: "SET TBLPROPERTIES", Metadata: withProperty(tx.Snapshot(), "delta.enableInCommitTimestamps", "true"),
		Protocol: &deltatable.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{"appendOnly", "inCommitTimestamp", "invariants"}},
	}
	landed, err := tx.Commit(t.Context(), &deltatable.Retry{Sleep: noSleep})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"delta.enableInCommitTimestamps":             "true",
		"delta.inCommitTimestampEnablementVersion":   "2",
		"delta.inCommitTimestampEnablementTimestamp": fmt.Sprint(*landed.Entry.Info.InCommitTimestamp),
	}
	if d := cmp.Diff(want, snapshot(t, sound).Properties()); d != "" {
		t.Error("properties: -want +got\n", d)
	}
}
