package pipeline_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/pipeline"
)

// TestProcessesAtOnce has four processes apply batches with overlapping keys to
// one table at once, which the first of them makes. The final state is that of
// all changes in any order (law 1), every batch has its outcomes exactly once,
// and no version has a finding (laws 3 to 6).
func TestProcessesAtOnce(t *testing.T) { processesAtOnce(t, onFiles(t), floor(52)) }

func processesAtOnce(t *testing.T, p *place, histories int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed(t), 3))
	const processes, batches = 4, 3
	retries, e := 0, p.env
	for h := range histories {
		dir := t.TempDir()
		table, alone := p.table(), p.table()
		files := make([][]string, processes)
		for p := range processes {
			for b := range batches {
				f := filepath.Join(dir, fmt.Sprintf("batch-%d-%d.jsonl", p, b))
				randomBatch(t, rng, f, 1+rng.IntN(50))
				files[p] = append(files[p], f)
			}
		}
		if h%2 == 0 { // otherwise the processes race to make the table
			first := filepath.Join(dir, "first.jsonl")
			randomBatch(t, rng, first, 60)
			for _, to := range []string{table, alone} {
				if _, err := pipeline.Apply(t.Context(), e, applyJob(to, first)); err != nil {
					t.Fatal(err)
				}
			}
		}
		retries += race(t, table, files)
		for p := range processes {
			for _, f := range files[p] {
				if _, err := pipeline.Apply(t.Context(), e, applyJob(alone, f)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if diff := cmp.Diff(rowsOf(t, latest(t, e, alone), nil), rowsOf(t, latest(t, e, table), nil)); diff != "" {
			t.Fatalf("history %d: state (-one after the other +at once):\n%s", h, diff)
		}
		checkComplete(t, e, table)
		snap := latest(t, e, table+"-outcomes")
		if got, want := outcomeRuns(t, e, table), processes*batches; got != want+(h+1)%2 {
			t.Fatalf("history %d: outcomes of %d runs, want %d (outcomes version %d)", h, got, want+(h+1)%2, snap.Version())
		}
	}
	t.Logf("%d histories of %d processes with %d batches each, %d commits lost and tried again", histories, processes, batches, retries)
}

// race runs one process for each list of files, and counts their retries.
func race(t *testing.T, table string, files [][]string) int {
	t.Helper()
	var wg sync.WaitGroup
	outs, said, errs := make([]bytes.Buffer, len(files)), make([]bytes.Buffer, len(files)), make([]error, len(files))
	for p := range files {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envChild+"="+strings.Join(append([]string{table}, files[p]...), "\n"))
		cmd.Stdout, cmd.Stderr = &outs[p], &said[p]
		wg.Add(1)
		go func() { defer wg.Done(); errs[p] = cmd.Run() }()
	}
	wg.Wait()
	retries := 0
	for p := range files {
		if errs[p] != nil {
			t.Fatalf("process %d: %v\n%s%s", p, errs[p], outs[p].String(), said[p].String())
		}
		for line := range strings.Lines(outs[p].String()) {
			n := 0
			if _, err := fmt.Sscan(line, &n); err != nil {
				t.Fatalf("process %d: %q", p, line)
			}
			if _, warning, _ := strings.Cut(strings.TrimSpace(line), " "); warning != "" {
				t.Errorf("process %d: %s", p, warning)
			}
			retries += n
		}
	}
	return retries
}

// outcomeRuns is the number of runs in the outcomes table.
func outcomeRuns(t *testing.T, e *pipeline.Env, table string) int {
	t.Helper()
	seen := map[string]bool{}
	for _, line := range rowsOf(t, latest(t, e, table+"-outcomes"), []string{"_run_id"}) {
		seen[line] = true
	}
	return len(seen)
}
