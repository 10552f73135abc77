package merge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

func noSleep(context.Context, time.Duration) error { return nil }

func TestRunDecidesEachRowOfTheTable(t *testing.T) {
	w := newWorld(t, worldSpec{})
	w.apply("act 5 upsert x", "del 5 delete", "con 5 upsert x", "con 5 upsert y")
	for _, c := range []struct {
		name, row, outcome, stored string
	}{
		{"none, upsert", "new 1 upsert x", "accepted", "new 1 active x NULL"},
		{"none, delete", "nev 1 delete", "accepted", "nev 1 deleted NULL NULL"},
		{"active, lower", "act 4 upsert z", "stale", "act 5 active x NULL"},
		{"active, same", "act 5 upsert x", "duplicate", "act 5 active x NULL"},
		{"active, same version, other payload", "act 5 upsert y", "conflict", "act 5 conflict NULL NULL"},
		{"active, same version, delete", "act 5 delete", "conflict", "act 5 conflict NULL NULL"},
		{"active, higher", "act 6 upsert y", "accepted", "act 6 active y NULL"},
		{"active, higher delete", "act 6 delete", "accepted", "act 6 deleted NULL NULL"},
		{"deleted, lower", "del 4 upsert x", "stale", "del 5 deleted NULL NULL"},
		{"deleted, same", "del 5 delete", "duplicate", "del 5 deleted NULL NULL"},
		{"deleted, same version, upsert", "del 5 upsert x", "conflict", "del 5 conflict NULL NULL"},
		{"deleted, higher", "del 6 upsert x", "accepted", "del 6 active x NULL"},
		{"conflict, lower", "con 4 upsert x", "stale", "con 5 conflict NULL NULL"},
		{"conflict, same", "con 5 upsert x", "conflict", "con 5 conflict NULL NULL"},
		{"conflict, higher", "con 6 upsert x", "accepted", "con 6 active x NULL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, worldSpec{})
			w.apply("act 5 upsert x", "del 5 delete", "con 5 upsert x", "con 5 upsert y")
			res := w.apply(c.row)
			if diff := cmp.Diff([]string{c.outcome}, outcomes(res)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			key := c.row[:3]
			var got []string
			for _, s := range w.state() {
				if s[:3] == key {
					got = append(got, s)
				}
			}
			if diff := cmp.Diff([]string{c.stored}, got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunMakesNoCommitWhenNothingChanges(t *testing.T) {
	w := newWorld(t, worldSpec{})
	w.apply("a 1 upsert x")
	res := w.apply("a 1 upsert x")
	if res.Version != nil {
		t.Errorf("a replay made version %d", *res.Version)
	}
	job := w.job("a 1 upsert x")
	job.Identifier = &deltatable.Txn{AppID: "app", Version: 7}
	res, err := merge.Run(t.Context(), job)
	if err != nil || res.Version == nil {
		t.Fatalf("an identifier must be recorded: %v, %v", res, err)
	}
	for _, v := range []int64{6, 7, 8} { // in this order: 8 would be the recorded one
		want := v < 8
		job := w.job("a 9 upsert x")
		job.Identifier = &deltatable.Txn{AppID: "app", Version: v}
		res, err := merge.Run(t.Context(), job)
		if err != nil || res.AlreadyApplied != want {
			t.Errorf("identifier %d: already applied is %v, want %v (%v)", v, res.AlreadyApplied, want, err)
		}
	}
}

func TestRunMovesARowWhosePartitionChanges(t *testing.T) {
	w := newWorld(t, worldSpec{partition: []string{"p"}})
	w.apply("k 5 upsert x A", "l 5 upsert x A")
	if got := outcomes(w.apply("k 4 upsert y B")); got[0] != "stale" {
		t.Errorf("a lower version in another partition: %s", got)
	}
	w.apply("k 6 upsert y B")
	want := []string{"k 6 active y B", "l 5 active x A"}
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	w.apply("k 7 delete")
	want = []string{"k 7 deleted NULL NULL", "l 5 active x A"}
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestRunRefusesATargetThatBreaksTheRules(t *testing.T) {
	w := newWorld(t, worldSpec{})
	w.apply("a 1 upsert x", "b 1 upsert x")
	w.foreign(t, false, nil, "a 1 active other NULL", "c NULL active x NULL", "d 1 strange x NULL")
	for _, c := range []struct{ row, key string }{{"a 2 upsert y", "entity_id=a"}, {"c 2 upsert y", "entity_id=c"}, {"d 2 upsert y", "entity_id=d"}} {
		before := w.state()
		res, err := merge.Run(t.Context(), w.job(c.row, "z 1 upsert z"))
		var target *merge.TargetError
		if !errors.As(err, &target) || len(target.Keys) != 1 || target.Keys[0] != c.key {
			t.Errorf("%s: got %v, want a refusal that names %s", c.row, err, c.key)
		}
		if res == nil || res.Counts[change.BatchRefused] != 2 {
			t.Errorf("%s: outcomes %v", c.row, res)
		}
		if diff := cmp.Diff(before, w.state()); diff != "" {
			t.Errorf("%s: the table changed:\n%s", c.row, diff)
		}
	}
	if res := w.apply("b 2 upsert y"); res.Version == nil {
		t.Error("a batch that does not reach the broken keys must pass")
	}
}

func TestSmallBatchesLeaveFewFiles(t *testing.T) {
	w := newWorld(t, worldSpec{})
	const batches = 150
	var want []string
	for i := range batches {
		w.apply(fmt.Sprintf("key-%04d 1 upsert v", i))
		want = append(want, fmt.Sprintf("key-%04d 1 active v NULL", i))
	}
	snap, err := w.table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(snap.Files()); n > 12 {
		t.Errorf("%d batches of new keys left %d files", batches, n)
	}
	if diff := cmp.Diff(want, w.state()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}
