package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

// TestOutcomesAnswerIsLost loses the answer of the outcomes table's commit, in
// every way: the outcomes are there exactly once, at the latest after the next
// run.
func TestOutcomesAnswerIsLost(t *testing.T) {
	for _, kind := range []blobstoretest.FaultKind{blobstoretest.Fail, blobstoretest.LoseRequest, blobstoretest.LoseAnswer, blobstoretest.Late} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("kind %d, always %v", kind, all), func(t *testing.T) {
				f := newFaulty(t)
				f.other("a 1 upsert x")
				n := 0
				f.outcomes.Decide = func(c blobstoretest.Call) blobstoretest.Fault {
					if c.Op != blobstoretest.OpCreate {
						return blobstoretest.Fault{}
					}
					if n++; n == 1 || all {
						return blobstoretest.Fault{Kind: kind}
					}
					return blobstoretest.Fault{}
				}
				rep, err := pipeline.Apply(t.Context(), f.env, applyJob(f.url, f.file("a 2 upsert y")))
				if err != nil {
					t.Fatal(err)
				}
				f.outcomes.Decide = nil
				f.other("b 1 upsert z") // the next run completes what is missing
				if err := f.outcomes.Land(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{"1 0 accepted"}, f.outcomeLines(rep.Run)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				checkComplete(t, f.plain, f.url)
			})
		}
	}
}

// TestOutcomesAreCommittedOnce has another run complete the outcomes of a run
// that is just about to commit them itself (merge-semantics 6): of the two
// commits on condition of the run's identifier one succeeds, and the run is
// content.
func TestOutcomesAreCommittedOnce(t *testing.T) {
	f := newFaulty(t)
	f.other("a 1 upsert x")
	n := 0
	f.outcomes.Decide = func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op != blobstoretest.OpCreate {
			return blobstoretest.Fault{}
		}
		if n++; n > 1 {
			return blobstoretest.Fault{}
		}
		return before(blobstoretest.None, func() { f.other("b 1 upsert z") })
	}
	rep, err := pipeline.Apply(t.Context(), f.env, applyJob(f.url, f.file("a 2 upsert y")))
	if err != nil || len(rep.Warnings) > 0 {
		t.Fatalf("got %+v, %v", rep, err)
	}
	for run, commits := range f.outcomeCommits() {
		if commits != 1 {
			t.Errorf("the outcomes of run %s were committed %d times", run, commits)
		}
	}
	if diff := cmp.Diff([]string{"1 0 accepted"}, f.outcomeLines(rep.Run)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	checkComplete(t, f.plain, f.url)
}

// outcomeCommits counts the commits of the outcomes table by run.
func (f *faulty) outcomeCommits() map[string]int {
	f.t.Helper()
	table, err := f.plain.OpenTable(f.t.Context(), f.url+"-outcomes")
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]int{}
	for v := range latest(f.t, f.plain, f.url+"-outcomes").Version() + 1 {
		e, err := table.Entry(f.t.Context(), v)
		if err != nil {
			f.t.Fatal(err)
		}
		out[e.Info.Tags[change.TagRun]]++
	}
	return out
}
