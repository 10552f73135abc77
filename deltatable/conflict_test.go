package deltatable_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
)

// The conflict matrix (protocol notes 3.3), a test per cell, through real log
// entries. Rows are own transactions, columns winning commits; a cell is ok
// (commits after the winner), or the conflict by its capitals: PC
// ProtocolChanged, MC MetadataChanged, CT ConcurrentTransaction, CA
// ConcurrentAppend, DR ConcurrentDeleteRead, DD ConcurrentDeleteDelete, UF
// UnsupportedFeature. The last row is what a merge that records version 7 of
// application "app" does instead.
//
// The table has files a and b in partition p=1 and c in p=2. Numbers in the
// first column are those of the notes' matrix.
const conflictMatrix = `
winner:                   | append1 | append2 | readapp1 | dml a | dml c | optimize | vector a | readd a | meta | proto+ | proto++ | proto- | unsupp | txn same | txn other | domain same | domain other | nothing
blind append (15)         | ok      | ok      | ok       | ok    | ok    | ok       | ok       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
dml a by p=1 (12,13,17)   | CA      | ok      | CA       | CA    | ok    | CA       | CA       | CA      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
dml a by p=1, WS (14)     | ok      | ok      | CA       | CA    | ok    | CA       | CA       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
dml a, files only (17)    | ok      | ok      | ok       | DR    | ok    | DR       | DR       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
delete a unread (19)      | ok      | ok      | ok       | DD    | ok    | DD       | DD       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
dml whole table (18)      | CA      | CA      | CA       | CA    | CA    | CA       | CA       | CA      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
whole table, WS (14,18)   | ok      | ok      | CA       | CA    | CA    | CA       | CA       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
append that read all      | CA      | CA      | CA       | CA    | CA    | CA       | CA       | CA      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
optimize a b (16)         | ok      | ok      | ok       | DR    | ok    | DR       | DR       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
metadata (6)              | ok      | ok      | ok       | ok    | ok    | ok       | ok       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
metadata, WS, p=1 (13)    | CA      | ok      | CA       | CA    | ok    | CA       | CA       | CA      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
protocol (2)              | ok      | ok      | ok       | ok    | ok    | ok       | ok       | ok      | MC   | PC     | PC      | PC     | UF     | ok       | ok        | ok          | ok           | ok
txn app (11)              | ok      | ok      | ok       | ok    | ok    | ok       | ok       | ok      | MC   | ok     | PC      | PC     | UF     | CT       | ok        | ok          | ok           | ok
reads txn of app (11)     | ok      | ok      | ok       | ok    | ok    | ok       | ok       | ok      | MC   | ok     | PC      | PC     | UF     | CT       | ok        | ok          | ok           | ok
domain (10)               | ok      | ok      | ok       | ok    | ok    | ok       | ok       | ok      | MC   | ok     | PC      | PC     | UF     | ok       | ok        | CT          | ok           | ok
merge:                    | probe   | probe   | probe    | probe | probe | probe    | probe    | pass    | plan | plan   | plan    | plan   | refuse | applied  | pass      | pass        | pass         | pass
`

var cellNames = map[string]string{
	"PC": "ProtocolChanged", "MC": "MetadataChanged", "CT": "ConcurrentTransaction",
	"CA": "ConcurrentAppend", "DR": "ConcurrentDeleteRead", "DD": "ConcurrentDeleteDelete",
	"UF": "unsupported", "ok": "ok",
	"pass": "pass", "probe": "probe again", "plan": "plan again", "applied": "already applied", "refuse": "refuse",
}

// matrixCells reads the matrix: own, winner, cell.
func matrixCells(t *testing.T) (cells [][3]string) {
	lines := strings.Split(strings.TrimSpace(conflictMatrix), "\n")
	split := func(line string) []string {
		fs := strings.Split(line, "|")
		for i := range fs {
			fs[i] = strings.TrimSpace(fs[i])
		}
		return fs
	}
	winners := split(lines[0])[1:]
	for _, line := range lines[1:] {
		fs := split(line)
		if len(fs) != len(winners)+1 {
			t.Fatalf("line %q has %d cells, want %d", line, len(fs)-1, len(winners))
		}
		for i, w := range winners {
			cells = append(cells, [3]string{fs[0], w, cellNames[fs[i+1]]})
		}
	}
	return cells
}

const matrixSchema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"p","type":"integer","nullable":true,"metadata":{}}]}`

func matrixAdd(path string, p string) *deltatable.Add {
	return &deltatable.Add{Path: path, PartitionValues: map[string]*string{"p": &p}, Size: 1, ModificationTime: 1, DataChange: true, Stats: `{"numRecords":1}`}
}

// matrixTable is the table of the matrix at version 1, with features that let
// domains be written and the protocol go up and down.
func matrixTable(t *testing.T) (*deltatable.Table, *deltatable.Snapshot) {
	t.Helper()
	tab := memTable(t)
	md := &deltatable.Metadata{
		ID: "f3b5c1d0-0000-4000-8000-000000000001", Provider: "parquet", SchemaString: matrixSchema,
		PartitionColumns: []string{"p"}, Configuration: map[string]string{},
	}
	p := &deltatable.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{"appendOnly", "domainMetadata"}}
	c := &deltatable.Commit{Operation: "CREATE TABLE", Protocol: p, Metadata: md}
	if _, err := tab.TryCommit(t.Context(), nil, c); err != nil {
		t.Fatal(err)
	}
	c = &deltatable.Commit{Operation: "WRITE", BlindAppend: true, Adds: []*deltatable.Add{
		matrixAdd("a.parquet", "1"), matrixAdd("b.parquet", "1"), matrixAdd("c.parquet", "2"),
	}}
	if _, err := tab.TryCommit(t.Context(), snapshot(t, tab), c); err != nil {
		t.Fatal(err)
	}
	return tab, snapshot(t, tab)
}

func live(t *testing.T, s *deltatable.Snapshot, path string) *deltatable.Add {
	t.Helper()
	a, ok := s.File(deltatable.FileKey{Path: path})
	if !ok {
		t.Fatalf("file %s is not live in version %d", path, s.Version())
	}
	return a
}

func inPartition(p string) func(*deltatable.Add) (bool, error) {
	return func(a *deltatable.Add) (bool, error) { return *a.PartitionValues["p"] == p, nil }
}

// matrixOwn fills an own transaction of the matrix.
func matrixOwn(t *testing.T, name string, tx *deltatable.Transaction) {
	t.Helper()
	s := tx.Snapshot()
	a := live(t, s, "a.parquet")
	dml := func() {
		tx.Write.Removes = []*deltatable.Add{a}
		tx.Write.Adds = []*deltatable.Add{matrixAdd("own.parquet", "1")}
	}
	tx.Write.Operation = "TEST"
	switch name[:strings.IndexAny(name+"(", "(")] {
	case "blind append ":
		tx.Write.Adds = []*deltatable.Add{matrixAdd("own.parquet", "1")}
	case "dml a by p=1 ":
		dml()
		tx.Read = deltatable.Reads{Files: []deltatable.FileKey{a.Key()}, Matches: inPartition("1")}
	case "dml a by p=1, WS ":
		dml()
		tx.Write.Isolation = deltatable.WriteSerializable
		tx.Read = deltatable.Reads{Files: []deltatable.FileKey{a.Key()}, Matches: inPartition("1")}
	case "dml a, files only ":
		dml()
		tx.Read = deltatable.Reads{Files: []deltatable.FileKey{a.Key()}}
	case "delete a unread ":
		tx.Write.Removes = []*deltatable.Add{a}
	case "dml whole table ":
		dml()
		tx.Read = deltatable.Reads{Whole: true}
	case "whole table, WS ":
		dml()
		tx.Write.Isolation = deltatable.WriteSerializable
		tx.Read = deltatable.Reads{Whole: true}
	case "append that read all":
		tx.Write.Adds = []*deltatable.Add{matrixAdd("own.parquet", "1")}
		tx.Read = deltatable.Reads{Whole: true}
	case "optimize a b ":
		b := live(t, s, "b.parquet")
		tx.Write.Rearrange = true
		tx.Write.Removes = []*deltatable.Add{a, b}
		tx.Write.Adds = []*deltatable.Add{matrixAdd("own.parquet", "1")}
		tx.Read = deltatable.Reads{Files: []deltatable.FileKey{a.Key(), b.Key()}, Matches: inPartition("1")}
	case "metadata ":
		tx.Write.Metadata = withProperty(s, "k", "own")
	case "metadata, WS, p=1 ":
		tx.Write.Metadata = withProperty(s, "k", "own")
		tx.Write.Isolation = deltatable.WriteSerializable
		tx.Read = deltatable.Reads{Matches: inPartition("1")}
	case "protocol ":
		tx.Write.Protocol = &deltatable.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: []string{"appendOnly", "domainMetadata", "invariants"}}
	case "txn app ":
		tx.Write.Adds = []*deltatable.Add{matrixAdd("own.parquet", "1")}
		tx.Write.Txns = []deltatable.Txn{{AppID: "app", Version: 9}}
	case "reads txn of app ":
		tx.Write.Adds = []*deltatable.Add{matrixAdd("own.parquet", "1")}
		tx.Read.Apps = []string{"app"}
	case "domain ":
		tx.Write.Domains = []deltatable.DomainMetadata{{Domain: "d", Configuration: "own"}}
	default:
		t.Fatalf("no own transaction %q", name)
	}
}

func withProperty(s *deltatable.Snapshot, k, v string) *deltatable.Metadata {
	md := *s.Metadata()
	md.Configuration = s.Properties()
	md.Configuration[k] = v
	return &md
}

// matrixWin commits a winner of the matrix as version 2. What our writer
// refuses to write is put as another engine would.
func matrixWin(t *testing.T, name string, tab *deltatable.Table, s *deltatable.Snapshot) {
	t.Helper()
	a := live(t, s, "a.parquet")
	c := &deltatable.Commit{Operation: "WINNER"}
	writer := func(features ...string) *deltatable.Protocol {
		return &deltatable.Protocol{MinReader: 1, MinWriter: 7, WriterFeatures: features}
	}
	raw := func(lines ...string) {
		body := `{"commitInfo":{"timestamp":1,"operation":"RAW","isBlindAppend":false}}` + "\n" + strings.Join(lines, "\n")
		out, err := tab.Store().Create(t.Context(), "_delta_log/00000000000000000002.json", []byte(body))
		if out != blobstore.Created {
			t.Fatal(out, err)
		}
	}
	switch name {
	case "nothing":
		// An empty commit: no action but commitInfo.
	case "append1", "append2":
		c.BlindAppend = true
		c.Adds = []*deltatable.Add{matrixAdd("w.parquet", strings.TrimPrefix(name, "append"))}
	case "readapp1":
		c.Adds = []*deltatable.Add{matrixAdd("w.parquet", "1")}
	case "dml a":
		c.Removes, c.Adds = []*deltatable.Add{a}, []*deltatable.Add{matrixAdd("w.parquet", "1")}
	case "dml c":
		c.Removes, c.Adds = []*deltatable.Add{live(t, s, "c.parquet")}, []*deltatable.Add{matrixAdd("w.parquet", "2")}
	case "optimize":
		c.Rearrange = true
		c.Removes = []*deltatable.Add{a, live(t, s, "b.parquet")}
		c.Adds = []*deltatable.Add{matrixAdd("w.parquet", "1")}
	case "vector a":
		raw(`{"remove":{"path":"a.parquet","dataChange":true}}`,
			`{"add":{"path":"a.parquet","partitionValues":{"p":"1"},"size":1,"modificationTime":1,"dataChange":true,"deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":1,"sizeInBytes":40,"cardinality":1}}}`)
		return
	case "readd a":
		again := *a
		again.Tags = map[string]string{"k": "v"}
		c.BlindAppend = true
		c.Adds = []*deltatable.Add{&again}
	case "meta":
		c.Metadata = withProperty(s, "k", "winner")
	case "proto+":
		c.Protocol = writer("appendOnly", "domainMetadata", "invariants")
	case "proto++":
		c.Protocol = writer("appendOnly", "domainMetadata", "inCommitTimestamp")
	case "proto-":
		raw(`{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["domainMetadata"]}}`)
		return
	case "unsupp":
		raw(`{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly","domainMetadata","rowTracking"]}}`)
		return
	case "txn same", "txn other":
		app := map[string]string{"txn same": "app", "txn other": "other"}[name]
		c.Txns = []deltatable.Txn{{AppID: app, Version: 8}}
	case "domain same", "domain other":
		d := map[string]string{"domain same": "d", "domain other": "e"}[name]
		c.Domains = []deltatable.DomainMetadata{{Domain: d, Configuration: "winner"}}
	default:
		t.Fatalf("no winner %q", name)
	}
	if _, err := tab.TryCommit(t.Context(), s, c); err != nil {
		t.Fatal(err)
	}
}

func TestConflictMatrix(t *testing.T) {
	cells := matrixCells(t)
	for _, cell := range cells {
		own, winner, want := cell[0], cell[1], cell[2]
		t.Run(fmt.Sprintf("%s x %s", own, winner), func(t *testing.T) {
			tab, s := matrixTable(t)
			matrixWin(t, winner, tab, s)
			var got string
			if own == "merge:" {
				got = mergeAnswer(t, tab, s)
			} else {
				tx := tab.Begin(s)
				matrixOwn(t, own, tx)
				landed, err := tx.Commit(t.Context(), &deltatable.Retry{Sleep: noSleep})
				got = outcome(t, landed, err)
			}
			if got != want {
				t.Errorf("%s against winner %s: %s, want %s", own, winner, got, want)
			}
		})
	}
	t.Logf("%d cells", len(cells))
}

func mergeAnswer(t *testing.T, tab *deltatable.Table, s *deltatable.Snapshot) string {
	t.Helper()
	winners, after, err := tab.Winners(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := deltatable.Classify(s, winners).Answer(after, &deltatable.Txn{AppID: "app", Version: 7})
	if (err != nil) != (got == deltatable.Refuse) {
		t.Errorf("answer %s comes with error %v", got, err)
	}
	return got.String()
}

func outcome(t *testing.T, landed *deltatable.Landed, err error) string {
	t.Helper()
	if err == nil {
		if landed.Version != 3 {
			t.Errorf("landed as version %d, want 3", landed.Version)
		}
		return "ok"
	}
	if e, ok := errors.AsType[*deltatable.TransactionConflictError](err); ok {
		if e.Version != 2 {
			t.Errorf("conflict with version %d, want 2", e.Version)
		}
		return string(e.Kind)
	}
	if _, ok := errors.AsType[*deltatable.UnsupportedFeatureError](err); ok {
		return "unsupported"
	}
	return err.Error()
}

// An identifier at or above ours means applied, one below goes on (R5).
func TestAnswerComparesVersionsOfOurApplication(t *testing.T) {
	tab, s := matrixTable(t)
	matrixWin(t, "txn same", tab, s)
	winners, after, err := tab.Winners(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for own, want := range map[int64]deltatable.Answer{7: deltatable.AlreadyApplied, 8: deltatable.AlreadyApplied, 9: deltatable.Pass} {
		got, err := deltatable.Classify(s, winners).Answer(after, &deltatable.Txn{AppID: "app", Version: own})
		if got != want || err != nil {
			t.Errorf("version %d against a recorded 8: %s, %v; want %s", own, got, err, want)
		}
	}
}

// Live sets, not actions (R2).
func TestClassifyComparesLiveSets(t *testing.T) {
	tab, s := matrixTable(t)
	at := s
	step := func(rearrange bool, adds, removes []string) {
		t.Helper()
		c := &deltatable.Commit{Operation: "STEP", Rearrange: rearrange}
		for _, p := range adds {
			c.Adds = append(c.Adds, matrixAdd(p, "1"))
		}
		for _, p := range removes {
			c.Removes = append(c.Removes, live(t, at, p))
		}
		if _, err := tab.TryCommit(t.Context(), at, c); err != nil {
			t.Fatal(err)
		}
		at = snapshot(t, tab)
	}
	step(false, []string{"gone.parquet", "new.parquet"}, []string{"a.parquet", "b.parquet"})
	step(false, []string{"a.parquet"}, []string{"gone.parquet"})   // a is restored, gone was never seen
	step(true, []string{"moved.parquet"}, []string{"new.parquet"}) // rows only move, and count all the same
	winners, after, err := tab.Winners(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if after.Version() != at.Version() {
		t.Errorf("after is version %d, want %d", after.Version(), at.Version())
	}
	c := deltatable.Classify(s, winners)
	var got [3][]string
	for _, a := range c.Added {
		got[0] = append(got[0], a.Path)
	}
	for _, k := range c.Removed {
		got[1] = append(got[1], k.Path)
	}
	for _, a := range c.Readded {
		got[2] = append(got[2], a.Path)
	}
	want := [3][]string{{"moved.parquet"}, {"b.parquet"}, {"a.parquet"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error("added, removed, readded: -want +got\n", d)
	}
}
