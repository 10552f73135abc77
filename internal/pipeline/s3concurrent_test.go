package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
)

// envServers says that the servers of object stores must be there.
const envServers = "DELTAFOLD_REQUIRE_SERVERS"

// share is how much of a floor is run: all of it under DELTAFOLD_SOAK, a quarter
// where servers must be there, as in CI, and few otherwise.
func share(all, few int) int {
	switch {
	case os.Getenv(envSoak) != "":
		return all
	case os.Getenv(envServers) != "":
		return (all + 3) / 4
	}
	return few
}

// maxLiveFiles bounds the data files of a table that is written by small batches
// alone. All its files together are far below 64 KiB, up to which a commit with
// new rows packs any ten files into its own; a commit without new rows makes no
// file more than it takes away. A loser of a race packs anew. So each commit
// leaves at most one file more than the eleventh part of what it found.
const maxLiveFiles = 4

// TestManyProcesses has eight processes apply a hundred small batches each, with
// overlapping keys, to one table at once.
func TestManyProcesses(t *testing.T) { manyProcesses(t, onFiles(t), share(100, 4)) }

func manyProcesses(t *testing.T, p *place, batches int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed(t), 8))
	const processes = 8
	dir, table, alone := t.TempDir(), p.table(), p.table()
	files, rows := make([][]string, processes), map[string]int{}
	var all strings.Builder
	for b := range batches {
		for who := range processes {
			f := filepath.Join(dir, fmt.Sprintf("batch-%d-%d.jsonl", who, b))
			n := 1 + rng.IntN(12)
			writeBatch(t, rng, f, n, func() int { return 2*b + rng.IntN(5) })
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
			files[who], rows[filepath.Base(f)] = append(files[who], f), n
		}
	}
	began := time.Now()
	retries := race(t, table, files)
	took := time.Since(began)

	union := filepath.Join(dir, "all.jsonl")
	if err := os.WriteFile(union, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pipeline.Apply(t.Context(), p.env, applyJob(alone, union)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rowsOf(t, latest(t, p.env, alone), nil), rowsOf(t, latest(t, p.env, table), nil)); diff != "" {
		t.Fatalf("state (-all changes folded +got):\n%s", diff)
	}
	checkComplete(t, p.env, table)
	if diff := cmp.Diff(rows, outcomeRows(t, p.env, table)); diff != "" {
		t.Errorf("outcomes by batch (-want +got):\n%s", diff)
	}
	commits := int(latest(t, p.env, table).Version()) + 1
	most := p.mostLiveFiles(t, table)
	if most > maxLiveFiles {
		t.Errorf("a version has %d live files, want at most %d", most, maxLiveFiles)
	}
	t.Logf("%d processes, %d batches each: %d commits in %s, %.1f a second, %d commits lost and tried again, at most %d live files",
		processes, batches, commits, took.Round(time.Millisecond), float64(commits)/took.Seconds(), retries, most)
}

// outcomeRows counts the outcomes of each batch, which must be of one run.
func outcomeRows(t *testing.T, e *pipeline.Env, table string) map[string]int {
	t.Helper()
	rows, runs := map[string]int{}, map[string]string{}
	snap := latest(t, e, table+"-outcomes")
	for rec, err := range snap.Scan(t.Context(), &deltatable.ScanOptions{Columns: []string{"batch", "_run_id"}}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			batch, run := rec.Column(0).ValueStr(i), rec.Column(1).ValueStr(i)
			if was, ok := runs[batch]; ok && was != run {
				t.Errorf("outcomes of %s are of runs %s and %s", batch, was, run)
			}
			runs[batch] = run
			rows[batch]++
		}
	}
	return rows
}

// mostLiveFiles is the largest number of data files that a version has.
func (p *place) mostLiveFiles(t *testing.T, table string) int {
	t.Helper()
	tab, err := p.env.OpenTable(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	live, most := map[string]bool{}, 0
	for v := range latest(t, p.env, table).Version() + 1 {
		e, err := tab.Entry(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range e.Actions {
			switch {
			case a.Add != nil:
				live[a.Add.Path] = true
			case a.Remove != nil:
				delete(live, a.Remove.Path)
			}
		}
		most = max(most, len(live))
	}
	return most
}
