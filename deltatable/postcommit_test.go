package deltatable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
)

// logCheckpoints are the log checkpoints in the log, and the hint.
func logCheckpoints(t *testing.T, tab *deltatable.Table) []string {
	t.Helper()
	var keys []string
	for i, err := range tab.Store().List(t.Context(), "_delta_log/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(i.Key, ".json") {
			keys = append(keys, strings.TrimPrefix(i.Key, "_delta_log/"))
		}
	}
	return keys
}

func TestPostCommitWritesLogCheckpointsWhenDue(t *testing.T) {
	for interval, want := range map[string][]string{
		"":  {"00000000000000000010.checkpoint.parquet", "_last_checkpoint"},
		"4": {"00000000000000000004.checkpoint.parquet", "00000000000000000008.checkpoint.parquet", "_last_checkpoint"},
	} {
		tab := memTable(t)
		props := map[string]string{}
		if interval != "" {
			props["delta.checkpointInterval"] = interval
		}
		s := create(t, tab, "id long, p string", []string{"p"}, props)
		var due []deltatable.Version
		for i := range 11 {
			c := appendCommit("", fmt.Sprint(i))
			c.Adds[0].PartitionValues = map[string]*string{"p": nil}
			c.Adds[0].Stats = fmt.Sprintf(`{"numRecords":1,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}`, i, i)
			landed, err := tab.TryCommit(t.Context(), s, c)
			if err != nil {
				t.Fatal(err)
			}
			if landed.CheckpointDue {
				due = append(due, landed.Version)
			}
			if err := tab.PostCommit(t.Context(), landed.Version); err != nil {
				t.Fatal(err)
			}
			if s, err = tab.Refresh(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, logCheckpoints(t, tab)); d != "" {
			t.Errorf("interval %q: -want +got\n%s", interval, d)
		}
		if len(due) != len(want)-1 {
			t.Errorf("interval %q: due at %v", interval, due)
		}
		if d := cmp.Diff(s.Files(), snapshot(t, tab).Files(), cmpopts.IgnoreFields(deltatable.Add{}, "DataChange")); d != "" {
			t.Errorf("interval %q: files refreshed and files loaded: -refreshed +loaded\n%s", interval, d)
		}
	}
}

// A log checkpoint that cannot be written leaves the commit as it is.
func TestPostCommitFailureIsHarmless(t *testing.T) {
	store := memStore(t)
	sound := deltatable.NewTable(store, testOptions())
	create(t, sound, "id long", nil, map[string]string{"delta.checkpointInterval": "1"})
	f := &blobstoretest.Faults{Decide: func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op == blobstoretest.OpPut || c.Op == blobstoretest.OpClose || c.Op == blobstoretest.OpWriter {
			return blobstoretest.Fault{Kind: blobstoretest.Fail}
		}
		return blobstoretest.Fault{}
	}}
	tab := deltatable.NewTable(store.Wrap(f.Wrap), testOptions())
	landed, err := tab.TryCommit(t.Context(), snapshot(t, tab), appendCommit("", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.PostCommit(t.Context(), landed.Version); err == nil {
		t.Error("no error although the store refused")
	}
	if got := snapshot(t, sound).Version(); got != 1 || logCheckpoints(t, sound) != nil {
		t.Errorf("version %d, log checkpoints %v", got, logCheckpoints(t, sound))
	}
}

// longLog is a log of n commits, each adding and removing one file.
func longLog(t testing.TB, n int) *deltatable.Table {
	t.Helper()
	tab := memTable(t)
	create(t, tab, "id long", nil, nil)
	for v := 1; v < n; v++ {
		body := fmt.Sprintf(`{"commitInfo":{"timestamp":%d,"operation":"WRITE","isBlindAppend":false,"txnId":"%d"}}
{"add":{"path":"f%d.parquet","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":1}"}}
`, v, v, v)
		if v > 1 {
			body += fmt.Sprintf(`{"remove":{"path":"f%d.parquet","deletionTimestamp":1,"dataChange":true}}`, v-1)
		}
		if err := tab.Store().Put(t.Context(), fmt.Sprintf("_delta_log/%020d.json", v), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	return tab
}

// A log of 10,000 commits without any log checkpoint: opening it, a page of
// history, all of it, single entries.
func TestLongLogStaysCheap(t *testing.T) {
	const n = 10_000
	tab := longLog(t, n)
	began := time.Now()
	lap := func(what string) {
		t.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond))
		began = time.Now()
	}
	if got := snapshot(t, tab).Version(); got != n-1 {
		t.Errorf("version %d", got)
	}
	lap("open")
	var f blobstoretest.Faults
	counted := deltatable.NewTable(tab.Store().Wrap(f.Wrap), nil)
	h, err := counted.History(t.Context(), 20)
	if err != nil || len(h) != 20 || h[0].Version != n-1 {
		t.Fatal(len(h), err)
	}
	lap("history of 20")
	if _, err := counted.Entry(t.Context(), 5000); err != nil {
		t.Fatal(err)
	}
	if reads, lists := f.Calls(blobstoretest.OpRead), f.Calls(blobstoretest.OpList); reads > 22 || lists != 1 {
		t.Errorf("%d reads and %d listings for 21 entries", reads, lists)
	}
	if h, err = tab.History(t.Context(), 0); err != nil || len(h) != n {
		t.Fatal(len(h), err)
	}
	lap("whole history")
	seen := 0
	for _, err := range tab.Entries(t.Context(), 0, n-1) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
	}
	if seen != n {
		t.Errorf("%d entries", seen)
	}
	lap("all entries")
}
