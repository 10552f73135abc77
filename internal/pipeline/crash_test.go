package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/failpoint"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

// Environment of a child process of the crash tests.
const (
	envChild = "DELTAFOLD_TEST_APPLY" // TABLE and FILEs, separated by newlines
	envSeed  = "DELTAFOLD_SEED"
	envSoak  = "DELTAFOLD_SOAK"
)

// TestMain applies one batch instead of running tests where a crash test asks
// for it, so that there is a process to kill.
func TestMain(m *testing.M) {
	spec := os.Getenv(envChild)
	if spec == "" {
		os.Exit(m.Run())
	}
	args := strings.Split(spec, "\n")
	for _, file := range args[1:] {
		rep, err := pipeline.Apply(context.Background(), &pipeline.Env{}, applyJob(args[0], file))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
		fmt.Printf("%d %s\n", rep.Retries, strings.Join(rep.Warnings, "; "))
	}
	os.Exit(0)
}

func applyJob(table, file string) *pipeline.ApplyJob {
	return &pipeline.ApplyJob{Table: table, Files: []string{file}}
}

// floor is the number of runs that a test must make: all of it under
// DELTAFOLD_SOAK, a quarter otherwise.
func floor(n int) int {
	if os.Getenv(envSoak) != "" {
		return n
	}
	return (n + 3) / 4
}

// seed is printed, so that a failing run can be made again.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv(envSeed); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d (%s=%d makes this run again)", s, envSeed, s)
	return s
}

// failpoints are the named moments of a run (design: "Outcomes and crashes").
var failpoints = []string{
	"batch-read", "data-file", "data-file-done", "outcomes-written", "commit-before", "commit-after",
	"log-checkpoint-before", "log-checkpoint-after", "outcomes-appended",
}

// randomBatch writes a change file of n changes over a small universe of keys.
func randomBatch(t *testing.T, rng *rand.Rand, path string, n int) {
	t.Helper()
	writeBatch(t, rng, path, n, func() int { return rng.IntN(12) })
}

// writeBatch is randomBatch with versions of the caller's.
func writeBatch(t *testing.T, rng *rand.Rand, path string, n int, version func() int) {
	t.Helper()
	var b strings.Builder
	for i := range n {
		op, value := "upsert", fmt.Sprintf(`"v%d"`, rng.IntN(3))
		if rng.IntN(5) == 0 {
			op, value = "delete", "null"
		}
		fmt.Fprintf(&b, `{"change_id":"c%d","entity_id":"k%03d","source_version":%d,"operation":"%s","value":%s}`+"\n",
			i, rng.IntN(120), version(), op, value)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKilledRunsLoseNothing kills apply in its own process at every failpoint
// and at random moments. Afterwards the table is at the old or at the new
// version; the same batch again completes it; each run that committed has its
// outcomes exactly once; and no version has a finding.
func TestKilledRunsLoseNothing(t *testing.T) { killRuns(t, onFiles(t), floor(200)) }

func killRuns(t *testing.T, p *place, runs int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed(t), 1))
	counts := map[string]int{}
	dir := t.TempDir()
	var table string
	for i := range runs {
		if i%12 == 0 { // a new table now and then; in between it passes log checkpoints
			table = p.table()
			first := filepath.Join(dir, fmt.Sprintf("first-%d.jsonl", i))
			randomBatch(t, rng, first, 80)
			if _, err := pipeline.Apply(t.Context(), p.env, applyJob(table, first)); err != nil {
				t.Fatal(err)
			}
		}
		batch := filepath.Join(dir, fmt.Sprintf("batch-%d.jsonl", i))
		randomBatch(t, rng, batch, 1+rng.IntN(60))
		moment := "random"
		if failpoint.Enabled && i%5 > 0 {
			moment = failpoints[i%len(failpoints)]
		}
		if killed := p.crash(t, rng, table, batch, moment); killed {
			counts[moment]++
		} else {
			counts["survived"]++
		}
	}
	t.Logf("%d runs, killed at %v", runs, counts)
	if failpoint.Enabled {
		for _, f := range failpoints {
			if counts[f] == 0 && !strings.HasPrefix(f, "log-checkpoint") {
				t.Errorf("no run was killed at %s", f)
			}
		}
	}
}

func (p *place) crash(t *testing.T, rng *rand.Rand, table, batch, moment string) (killed bool) {
	t.Helper()
	e := p.env
	before := rowsOf(t, latest(t, e, table), nil)
	clone := p.clone(t, table)
	if _, err := pipeline.Apply(t.Context(), e, applyJob(clone, batch)); err != nil {
		t.Fatal(err)
	}
	after := rowsOf(t, latest(t, e, clone), nil)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+table+"\n"+batch)
	if moment == "random" {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(p.span)))) // the moment itself is what is tested
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	} else {
		cmd.Env = append(cmd.Env, "DELTAFOLD_FAILPOINT="+moment)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("%s: the child failed: %v", moment, err)
		}
		killed = true
	} else if err != nil {
		t.Fatal(err)
	}
	got := rowsOf(t, latest(t, e, table), nil)
	if !slices.Equal(got, before) && !slices.Equal(got, after) {
		t.Fatalf("%s: the table is neither as before nor as after (-after +got):\n%s", moment, cmp.Diff(after, got))
	}
	if !killed && !slices.Equal(got, after) {
		t.Fatalf("%s: the run ended well and the table is not as after (-after +got):\n%s", moment, cmp.Diff(after, got))
	}
	if _, err := pipeline.Apply(t.Context(), e, applyJob(table, batch)); err != nil {
		t.Fatalf("%s: the batch again: %v", moment, err)
	}
	if diff := cmp.Diff(after, rowsOf(t, latest(t, e, table), nil)); diff != "" {
		t.Fatalf("%s: after the batch again (-want +got):\n%s", moment, diff)
	}
	checkComplete(t, e, table)
	return killed
}

// checkComplete says whether every commit of ours has its outcomes exactly
// once, and whether the audit finds nothing.
func checkComplete(t *testing.T, e *pipeline.Env, table string) {
	t.Helper()
	if _, err := pipeline.RepairOutcomes(t.Context(), e, table); err != nil {
		t.Fatal(err)
	}
	rows := map[string]int64{} // by run and version
	snap := latest(t, e, table+"-outcomes")
	for rec, err := range snap.Scan(t.Context(), &deltatable.ScanOptions{Columns: []string{"_run_id", "_version"}}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			rows[rec.Column(0).ValueStr(i)+"@"+rec.Column(1).ValueStr(i)]++
		}
	}
	state, err := e.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	history, err := state.History(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range history {
		if entry.Info.Operation == "CREATE TABLE" {
			continue // create has no outcomes (merge-semantics 6)
		}
		counts, err := change.ParseCounts(entry.Info.Tags[change.TagCounts])
		if err != nil {
			t.Fatal(err)
		}
		var want int64
		for _, n := range counts {
			want += n
		}
		id := fmt.Sprintf("%s@%d", entry.Info.Tags[change.TagRun], entry.Version)
		if rows[id] != want {
			t.Fatalf("version %d: %d outcomes of its run, want %d", entry.Version, rows[id], want)
		}
	}
	rep, err := pipeline.Audit(t.Context(), e, &pipeline.AuditJob{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Findings) > 0 {
		t.Fatalf("audit: %v", rep.Findings)
	}
}
