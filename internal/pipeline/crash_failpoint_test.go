//go:build failpoint

package pipeline_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deltafold/deltafold/internal/pipeline"
)

// TestEveryFailpointIsPassed has a child write down the failpoints that its runs
// pass: one that no run passes would be a moment at which nobody is killed.
func TestEveryFailpointIsPassed(t *testing.T) { passFailpoints(t, onFiles(t)) }

func passFailpoints(t *testing.T, p *place) {
	t.Helper()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(seed(t), 4))
	table, log := p.table(), filepath.Join(dir, "hits")
	var files []string
	for i := range 12 { // past a log checkpoint
		f := filepath.Join(dir, "batch-"+string(rune('a'+i))+".jsonl")
		randomBatch(t, rng, f, 80)
		files = append(files, f)
	}
	if _, err := pipeline.Apply(t.Context(), p.env, applyJob(table, files[0])); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+strings.Join(append([]string{table}, files...), "\n"), "DELTAFOLD_FAILPOINT_LOG="+log)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	hits := strings.Fields(string(data))
	for _, f := range failpoints {
		if !slices.Contains(hits, f) {
			t.Errorf("no run passed failpoint %s", f)
		}
	}
	for _, h := range hits {
		if !slices.Contains(failpoints, h) {
			t.Errorf("failpoint %s is not in the list of those that runs are killed at", h)
		}
	}
}
