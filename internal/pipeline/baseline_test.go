package pipeline_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

func TestNewBaselineStartsAnUnknownDigestAnew(t *testing.T) {
	e, dir := &pipeline.Env{}, t.TempDir()
	table, batch := filepath.Join(dir, "t"), filepath.Join(dir, "b.jsonl")
	rng := rand.New(rand.NewPCG(1, 2))
	randomBatch(t, rng, batch, 30)
	if _, err := pipeline.Apply(t.Context(), e, applyJob(table, batch)); err != nil {
		t.Fatal(err)
	}
	if v, err := pipeline.NewBaseline(t.Context(), e, table); err != nil || v != nil {
		t.Fatalf("a known digest: version %v, %v; want no commit", v, err)
	}
	digest := latest(t, e, table).CommitInfo().Tags[change.TagTableDigest]
	entry := filepath.Join(table, "_delta_log", "00000000000000000000.json")
	data, err := os.ReadFile(entry)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(entry, []byte(strings.Replace(string(data), digest, change.DigestUnknown, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := pipeline.NewBaseline(t.Context(), e, table)
	if err != nil || v == nil || *v != 1 {
		t.Fatalf("got version %v, %v; want version 1", v, err)
	}
	if got := latest(t, e, table).CommitInfo().Tags[change.TagTableDigest]; got != digest {
		t.Errorf("the new baseline is %s, want %s", got, digest)
	}
	rep, err := pipeline.Audit(t.Context(), e, &pipeline.AuditJob{Table: table, Full: true})
	if err != nil || len(rep.Findings) > 0 {
		t.Errorf("audit: %v, %v", rep, err)
	}
}
