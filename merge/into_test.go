package merge_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/statement"
)

// intoFloor is the number of statements of TestIntoAgainstOracle under
// DELTAFOLD_SOAK; a quarter otherwise. The seeds from 1 on are kept; one in four
// is new in each run.
const intoFloor = 2000

// intoTally counts what the statements of a run did.
type intoTally struct {
	ran, refused, noCommit, retried int
	what                            map[string]int
}

// TestIntoAgainstOracle runs generated statements, a third of them against other
// writers, and compares rows, outcomes and refusals with an oracle that looks at
// one pair of rows at a time.
func TestIntoAgainstOracle(t *testing.T) {
	if text := os.Getenv("DELTAFOLD_MERGE_SEED"); text != "" {
		s, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("DELTAFOLD_MERGE_SEED: %v", err)
		}
		if err := intoCase(t, s, &intoTally{what: map[string]int{}}); err != nil {
			t.Error(err)
		}
		return
	}
	floor, fresh := soak(intoFloor), testSeed(t)
	seen := &intoTally{what: map[string]int{}}
	failures := 0
	// short are the floors that are not reached. Chance decides who is retried, so
	// that the last few may take more statements than the floor of those.
	short := func() map[string]int {
		missing := map[string]int{"statements": floor - seen.ran, "refusals": floor/20 - seen.refused, "retries": floor/3 - seen.retried}
		maps.DeleteFunc(missing, func(_ string, n int) bool { return n <= 0 })
		return missing
	}
	for i := uint64(1); len(short()) > 0 && seen.ran < floor+floor/4; i++ {
		s := i
		if i%4 == 0 {
			s = fresh + i
		}
		if err := intoCase(t, s, seen); err != nil {
			t.Errorf("DELTAFOLD_MERGE_SEED=%d: %v", s, err)
			if failures++; failures == 10 {
				t.Fatal("no more are looked at")
			}
		}
	}
	t.Logf("%d statements: %d refused, %d without a commit, %d retried: %v",
		seen.ran, seen.refused, seen.noCommit, seen.retried, seen.what)
	for what, n := range short() {
		t.Errorf("too few %s, by %d", what, n)
	}
}

// intoCase runs the statement of a seed.
func intoCase(t *testing.T, seed uint64, seen *intoTally) (err error) {
	r := rand.New(rand.NewPCG(seed, 77))
	c := tabletest.NewMergeCase(seed, tabletest.MergeProfile{})
	sql := c.SQL("target", "source")
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			err = fmt.Errorf("%w\n%s\ntarget %v partitioned by %q\nsource %v", err, sql, c.Target.Fields(), c.Partition, c.Source.Fields())
		}
	}()
	var props map[string]string
	if c.Small {
		props = map[string]string{"delta.targetFileSize": "8"}
	}
	w, err := newIntoTable(t.Context(), c.Target, c.Partition, props, c.Files...)
	if err != nil {
		return err
	}
	job, err := w.job(sql, sourceBatch(r, c.Source, c.Rows))
	if err != nil {
		return err
	}
	if r.IntN(10) < 7 { // so that a third is retried: many are refused or idle first
		losses := 1 + r.IntN(2)
		hook(job, func(attempt int) error {
			if attempt > losses {
				return nil
			}
			return w.winner(r, c, seen)
		})
	}
	res, err := merge.Into(t.Context(), job)
	seen.ran++
	if res != nil && res.Retries > 0 {
		seen.retried++
	}
	return w.check(c, job.Statement, res, err, seen)
}

// check compares a run with the oracle on the version that its commit follows.
func (w *intoTable) check(c *tabletest.MergeCase, st *statement.Statement, res *merge.Result, ran error, seen *intoTally) error {
	if ran != nil && !isRefusal(ran) {
		return ran
	}
	var before *deltatable.Version
	if ran == nil && res.Version != nil {
		v := *res.Version - 1
		before = &v
	}
	base, err := w.rowsAt(before)
	if err != nil {
		return err
	}
	want := tabletest.ApplyMerge(st, &tabletest.MergeTable{Schema: c.Target, Partition: c.Partition, Rows: base},
		&tabletest.MergeTable{Schema: c.Source, Rows: c.Rows})
	if (ran != nil) != (want.Refused != "") {
		return fmt.Errorf("got the error %w, the oracle says %q", ran, want.Refused)
	}
	if ran != nil {
		seen.refused++
		seen.what[fmt.Sprintf("refused: %T", unwrapped(ran))]++
		if res != nil && slices.ContainsFunc(flat(res), func(o string) bool { return o != "batch_refused" }) {
			return fmt.Errorf("refused with the outcomes %v", flat(res))
		}
		return w.noLitter()
	}
	if res.Version == nil {
		seen.noCommit++
	}
	got, err := w.rowsAt(nil)
	if err != nil {
		return err
	}
	if diff := gocmp.Diff(tabletest.RowTexts(c.Target, want.Rows), tabletest.RowTexts(c.Target, got)); diff != "" {
		return fmt.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(append([]string{}, want.Outcomes...), flat(res)); diff != "" {
		return fmt.Errorf("outcomes (-want +got):\n%s", diff)
	}
	for _, o := range want.Outcomes {
		seen.what[o]++
	}
	return w.noLitter()
}

// unwrapped is the error that decides about a refusal.
func unwrapped(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		if _, is := err.(*merge.ValueError); is { //nolint:errorlint // one step at a time
			return err
		}
		err = inner
	}
}

// noLitter checks that every data file of the store is in some version.
func (w *intoTable) noLitter() error {
	known := map[string]bool{}
	snap, err := w.snapshot()
	if err != nil {
		return err
	}
	for v := range snap.Version() + 1 {
		e, err := w.table.Entry(w.ctx, v)
		if err != nil {
			return err
		}
		for _, a := range e.Actions {
			if a.Add != nil {
				name, err := url.PathUnescape(a.Add.Path)
				if err != nil {
					return err
				}
				known[name] = true
			}
		}
	}
	keys, err := w.keys()
	if err != nil {
		return err
	}
	for _, k := range keys {
		if !strings.HasPrefix(k, "_delta_log/") && !known[k] {
			return fmt.Errorf("the file %s is in no version", k)
		}
	}
	return nil
}

// winner commits something of another writer.
func (w *intoTable) winner(r *rand.Rand, c *tabletest.MergeCase, seen *intoTally) error {
	other := c.Next(r.Uint64(), tabletest.MergeProfile{})
	snap, err := w.snapshot()
	if err != nil {
		return err
	}
	files := snap.Files()
	rows := other.TargetRows()
	kind := []string{"append", "rewrite", "merge", "compaction"}[r.IntN(4)]
	if len(files) == 0 && kind != "merge" || len(rows) == 0 && kind == "append" {
		kind = "merge"
	}
	seen.what["winner: "+kind]++
	switch kind {
	case "append":
		return w.foreign(rows, nil, false)
	case "rewrite":
		a := files[r.IntN(len(files))]
		old, err := w.rowsOf(snap, a)
		if err != nil {
			return err
		}
		if r.IntN(2) == 0 {
			old = old[:len(old)-1]
		}
		return w.foreign(append(old, rows[:min(len(rows), 2)]...), []*deltatable.Add{a}, false)
	case "compaction":
		all, err := readRows(w.ctx, snap)
		if err != nil {
			return err
		}
		return w.foreign(all, slices.Clone(files), true)
	}
	job, err := w.job(other.SQL("target", "source"), sourceBatch(r, other.Source, other.Rows))
	if err != nil {
		return err
	}
	if _, err = merge.Into(w.ctx, job); isRefusal(err) {
		return nil
	}
	return err
}

func (w *intoTable) rowsOf(snap *deltatable.Snapshot, a *deltatable.Add) ([]tabletest.Row, error) {
	f, err := snap.OpenFile(w.ctx, a)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []tabletest.Row
	for b, err := range f.Read(w.ctx, &deltatable.ReadOptions{}) {
		if err != nil {
			return nil, err
		}
		out = append(out, tabletest.Rows(b.Rec)...)
	}
	return out, nil
}
