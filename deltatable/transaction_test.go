package deltatable_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
)

// A transaction that loses gets a new body for the next version: read version
// and timestamps are of that attempt (R7).
func TestTransactionStampsEachAttempt(t *testing.T) {
	var sound *deltatable.Table
	decide := func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op == blobstoretest.OpCreate && c.N <= 2 {
			if _, err := sound.TryCommit(t.Context(), snapshot(t, sound), appendCommit("", fmt.Sprint("winner", c.N))); err != nil {
				t.Error(err)
			}
		}
		return blobstoretest.Fault{}
	}
	tab, s, _, b := faultyTable(t, decide)
	sound = s
	tx := tab.Begin(snapshot(t, sound))
	tx.Write = *appendCommit("mine", "mine.parquet")
	landed, err := tx.Commit(t.Context(), &deltatable.Retry{Sleep: noSleep})
	if err != nil {
		t.Fatal(err)
	}
	if landed.Version != 3 || *landed.Entry.Info.ReadVersion != 2 {
		t.Errorf("landed as version %d, read version %d", landed.Version, *landed.Entry.Info.ReadVersion)
	}
	var puts [][]byte
	for v := range 3 {
		puts = append(puts, b.puts[fmt.Sprintf("_delta_log/%020d.json", v+1)]...)
	}
	if len(puts) != 3 || bytes.Equal(puts[0], puts[1]) || bytes.Equal(puts[1], puts[2]) {
		t.Errorf("%d puts, which must differ: %q", len(puts), puts)
	}
}

// Conflicts outlast the retries: nothing is committed, and the error says how
// often it was tried.
func TestTransactionGivesUp(t *testing.T) {
	var sound *deltatable.Table
	decide := func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op == blobstoretest.OpCreate {
			if _, err := sound.TryCommit(t.Context(), snapshot(t, sound), appendCommit("", fmt.Sprint("winner", c.N))); err != nil {
				t.Error(err)
			}
		}
		return blobstoretest.Fault{}
	}
	tab, s, _, _ := faultyTable(t, decide)
	sound = s
	tx := tab.Begin(snapshot(t, sound))
	tx.Write = *appendCommit("mine", "mine.parquet")
	_, err := tx.Commit(t.Context(), &deltatable.Retry{Max: 3, Sleep: noSleep})
	e, ok := errors.AsType[*deltatable.RetryError](err)
	if !ok || e.Attempts != 3 {
		t.Errorf("got %v", err)
	}
	after := snapshot(t, sound)
	if _, there := after.File(deltatable.FileKey{Path: "mine.parquet"}); there || after.Version() != 3 {
		t.Errorf("version %d, committed: %t", after.Version(), there)
	}
}

// A commit of ours that landed unnoticed is found among the winners.
func TestTransactionFindsItselfAmongWinners(t *testing.T) {
	tab := memTable(t)
	read := create(t, tab, "id long", nil, nil)
	for _, txn := range []string{"other", "mine", "third"} {
		if _, err := tab.TryCommit(t.Context(), snapshot(t, tab), appendCommit(txn, txn)); err != nil {
			t.Fatal(err)
		}
	}
	tx := tab.Begin(read)
	tx.Write = *appendCommit("mine", "mine")
	landed, err := tx.Commit(t.Context(), &deltatable.Retry{Sleep: noSleep})
	if err != nil || landed.Version != 2 {
		t.Errorf("landed %+v, %v; want version 2", landed, err)
	}
	if v := snapshot(t, tab).Version(); v != 3 {
		t.Errorf("the table is at version %d, want 3", v)
	}
}

// Two writers that create one table: the second learns that it is there.
func TestTransactionCreateMeetsTable(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long", nil, nil)
	md, p, err := deltatable.NewTableMetadata(ddl(t, "id long"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	tx := tab.Begin(nil)
	tx.Write = deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: p}
	landed, err := tx.Commit(t.Context(), nil)
	if got := resultOf(landed, err); got != "conflict" {
		t.Errorf("result %s (%v)", got, err)
	}
	winners, after, err := tab.Winners(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := deltatable.Classify(nil, winners)
	answer, err := c.Answer(after, nil)
	if err != nil || answer != deltatable.PlanAgain || !c.Created {
		t.Errorf("answer %s (%v), created %t", answer, err, c.Created)
	}
}

// isBlindAppend is true exactly where no file is removed and nothing was read.
func TestBlindAppendIsTruthful(t *testing.T) {
	for name, c := range map[string]struct {
		fill func(tx *deltatable.Transaction, a *deltatable.Add)
		want bool
	}{
		"adds alone": {func(*deltatable.Transaction, *deltatable.Add) {}, true},
		"read a file": {func(tx *deltatable.Transaction, a *deltatable.Add) {
			tx.Read.Files = []deltatable.FileKey{a.Key()}
		}, false},
		"read the table": {func(tx *deltatable.Transaction, _ *deltatable.Add) { tx.Read.Whole = true }, false},
		"read by a condition": {func(tx *deltatable.Transaction, _ *deltatable.Add) {
			tx.Read.Matches = inPartition("1")
		}, false},
		"removes": {func(tx *deltatable.Transaction, a *deltatable.Add) { tx.Write.Removes = []*deltatable.Add{a} }, false},
		"claims it wrongly": {func(tx *deltatable.Transaction, _ *deltatable.Add) {
			tx.Write.BlindAppend, tx.Read.Whole = true, true
		}, false},
	} {
		tab, s := matrixTable(t)
		tx := tab.Begin(s)
		tx.Write = deltatable.Commit{Operation: "WRITE", Adds: []*deltatable.Add{matrixAdd("own.parquet", "1")}}
		c.fill(tx, live(t, s, "a.parquet"))
		landed, err := tx.Commit(t.Context(), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := *landed.Entry.Info.IsBlindAppend; got != c.want {
			t.Errorf("%s: isBlindAppend %t", name, got)
		}
	}
}

// The isolation level is the table's, and what only moves rows is checked and
// recorded as snapshot isolation.
func TestIsolationIsRecorded(t *testing.T) {
	for level, want := range map[string][2]string{
		"":                  {"Serializable", "SnapshotIsolation"},
		"WriteSerializable": {"WriteSerializable", "SnapshotIsolation"},
	} {
		tab := memTable(t)
		props := map[string]string{}
		if level != "" {
			props["delta.isolationLevel"] = level
		}
		create(t, tab, "id long", nil, props)
		var got [2]string
		for i, rearrange := range []bool{false, true} {
			tx := tab.Begin(snapshot(t, tab))
			tx.Write = *appendCommit("", fmt.Sprint(i))
			tx.Write.Rearrange = rearrange
			landed, err := tx.Commit(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = landed.Entry.Info.IsolationLevel
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("level %q: -want +got\n%s", level, d)
		}
	}
}
