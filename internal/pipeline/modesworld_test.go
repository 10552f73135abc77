package pipeline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

// modeUnderFaults is MERGE or REPLACE USING on a table with the columns id, v and
// seq that has version 0, empty, and version 1, with the rows a and b. Versions
// have in-commit timestamps.
type modeUnderFaults struct {
	name string
	run  func(m *modesFaulty, e *pipeline.Env, file, resume string) (*pipeline.ApplyReport, error)
	// winner is what another writer commits as version 2, so that the first
	// attempt's decisions are wrong: rows and outcomes are those after it.
	winner   []string
	rows     []string
	outcomes []string
	// second is committed as version 3 where the winner is to win twice; n is in it.
	second         []string
	secondRows     []string
	secondOutcomes []string
	// alone are rows and outcomes without another writer; again are the outcomes of
	// the same batch once more.
	alone         []string
	aloneOutcomes []string
	again         []string
}

// modesFaulty is faulty with a table of the mode.
type modesFaulty struct {
	*faulty
	mode *modeUnderFaults
}

var modesUnderFaults = []*modeUnderFaults{
	{
		// The winner inserts n, which turns our insert into an update, and w, which the
		// clause BY SOURCE must reach.
		name: "MERGE", run: runMergeStatement,
		winner: []string{"n theirs 2", "w old 2"},
		rows:   []string{"a mine 5", "b x 1", "n mine 5"}, outcomes: []string{"updated", "updated"},
		second: []string{"n second 9", "y old 9"}, secondRows: []string{"a mine 5", "b x 1", "n mine 5"}, secondOutcomes: []string{"updated", "updated"},
		alone: []string{"a mine 5", "b x 1", "n mine 5"}, aloneOutcomes: []string{"updated", "inserted"}, again: []string{"updated", "updated"},
	},
	{
		// The winner has a newer row of a, and a row of n that ours ties with.
		name: "REPLACE", run: runReplaceUsing,
		winner: []string{"a theirs 7", "n theirs 5"},
		rows:   []string{"a theirs 7", "b x 1", "n mine 5", "n theirs 5"}, outcomes: []string{"stale", "appended"},
		second: []string{"n second 5"}, secondRows: []string{"a theirs 7", "b x 1", "n mine 5", "n second 5", "n theirs 5"}, secondOutcomes: []string{"stale", "appended"},
		alone: []string{"a mine 5", "b x 1", "n mine 5"}, aloneOutcomes: []string{"replaced", "added"}, again: []string{"already_applied", "already_applied"},
	},
}

const (
	faultyUpsert = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
	faultySync   = faultyUpsert + " WHEN NOT MATCHED BY SOURCE AND t.v = 'old' THEN DELETE"
	faultySchema = "id string, v string, seq long"
)

var inCommitTimestamps = map[string]string{"delta.enableInCommitTimestamps": "true"}

func mergeUnderFaults(m *modesFaulty, e *pipeline.Env, sql, file, resume string) (*pipeline.ApplyReport, error) {
	return pipeline.Merge(m.t.Context(), e, &pipeline.MergeJob{
		Fold: pipeline.ApplyJob{Table: m.url, Resume: resume}, SQL: sql, Sources: []pipeline.MergeSource{{Name: "s", Files: []string{file}}},
	})
}

func runMergeStatement(m *modesFaulty, e *pipeline.Env, file, resume string) (*pipeline.ApplyReport, error) {
	sql := faultySync
	if e == m.plain && resume == "" && !m.last(file) {
		sql = faultyUpsert // of another writer
	}
	return mergeUnderFaults(m, e, sql, file, resume)
}

// last says whether the file is the batch of the writer under test.
func (m *modesFaulty) last(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	return bytes.Contains(text, []byte(`"mine"`))
}

func runReplaceUsing(m *modesFaulty, e *pipeline.Env, file, resume string) (*pipeline.ApplyReport, error) {
	return pipeline.ReplaceUsing(m.t.Context(), e, &pipeline.ReplaceJob{
		Fold:  pipeline.ApplyJob{Table: m.url, Files: []string{file}, Schema: faultySchema, Resume: resume, Properties: inCommitTimestamps},
		Using: []string{"id"}, Sequence: "seq",
	})
}

func newModesFaulty(t *testing.T, mode *modeUnderFaults) *modesFaulty {
	t.Helper()
	m := &modesFaulty{newFaulty(t), mode}
	if mode.name == "MERGE" {
		if _, err := pipeline.Create(t.Context(), m.plain, &pipeline.CreateJob{Table: m.url, Schema: faultySchema, Properties: inCommitTimestamps}); err != nil {
			t.Fatal(err)
		}
	} else {
		m.other() // an empty batch makes the table
	}
	m.other("a x 1", "b x 1")
	return m
}

// batch writes rows "id v seq" as a change file of its own.
func (m *modesFaulty) batch(rows ...string) string {
	m.t.Helper()
	m.batchCount++
	var b strings.Builder
	for _, r := range rows {
		c := strings.Fields(r)
		fmt.Fprintf(&b, `{"id":%q,"v":%q,"seq":%s}`+"\n", c[0], c[1], c[2])
	}
	path := filepath.Join(m.dir, fmt.Sprintf("batch-%d.jsonl", m.batchCount))
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// other folds rows without faults.
func (m *modesFaulty) other(rows ...string) {
	m.t.Helper()
	if _, err := m.mode.run(m, m.plain, m.batch(rows...), ""); err != nil {
		m.t.Fatal(err)
	}
}

func (m *modesFaulty) mine() string { return m.batch("a mine 5", "n mine 5") }

// at are outcomes as outcomeLines has them for a version; nil where there was no
// commit.
func at(v *deltatable.Version, outcomes []string) []string {
	var out []string
	for _, o := range outcomes {
		out = append(out, fmt.Sprintf("%d %d %s", *v, *v-1, o))
	}
	return out
}

func (m *modesFaulty) holds(rows []string) {
	m.t.Helper()
	if diff := cmp.Diff(rows, m.rows()); diff != "" {
		m.t.Errorf("rows (-want +got):\n%s", diff)
	}
	m.noOrphans(m.url)
	m.noOrphans(m.url + "-outcomes")
	checkComplete(m.t, m.plain, m.url)
	for run, commits := range m.outcomeCommits() {
		if commits != 1 {
			m.t.Errorf("the outcomes of run %s were committed %d times", run, commits)
		}
	}
}

// putInfo is the commitInfo of a log entry that was put.
func putInfo(t *testing.T, entry []byte) *deltatable.CommitInfo {
	t.Helper()
	line, _, _ := bytes.Cut(entry, []byte("\n"))
	var first struct {
		CommitInfo struct {
			TxnID             string            `json:"txnId"`
			ReadVersion       *int64            `json:"readVersion"`
			InCommitTimestamp *int64            `json:"inCommitTimestamp"`
			Tags              map[string]string `json:"tags"`
		} `json:"commitInfo"`
	}
	if err := json.Unmarshal(line, &first); err != nil {
		t.Fatal(err)
	}
	c := first.CommitInfo
	return &deltatable.CommitInfo{TxnID: c.TxnID, ReadVersion: c.ReadVersion, InCommitTimestamp: c.InCommitTimestamp, Tags: c.Tags}
}

// attemptsAreAnew checks R7 on the puts of two attempts: one txnId and one digest
// of the batch; timestamps, counts and outcomes of each attempt's own.
func (m *modesFaulty) attemptsAreAnew(first, second int, want []string) {
	m.t.Helper()
	a, b := putInfo(m.t, m.puts.bytes[logKey(first)][0]), putInfo(m.t, m.puts.bytes[logKey(second)][0])
	if a.TxnID == "" || a.TxnID != b.TxnID {
		m.t.Errorf("the attempts have the txnIds %q and %q", a.TxnID, b.TxnID)
	}
	if *a.ReadVersion != int64(first-1) || *b.ReadVersion != int64(second-1) {
		m.t.Errorf("the attempts read versions %d and %d", *a.ReadVersion, *b.ReadVersion)
	}
	table, err := m.plain.OpenTable(m.t.Context(), m.url)
	if err != nil {
		m.t.Fatal(err)
	}
	won, err := table.Entry(m.t.Context(), deltatable.Version(second-1))
	if err != nil {
		m.t.Fatal(err)
	}
	if won.Info.InCommitTimestamp == nil || b.InCommitTimestamp == nil || *b.InCommitTimestamp <= *won.Info.InCommitTimestamp {
		m.t.Errorf("in-commit timestamps: %v after the winner's %v", b.InCommitTimestamp, won.Info.InCommitTimestamp)
	}
	counts := change.Counts{}
	for _, o := range want {
		counts[change.Outcome(o)]++
	}
	got, err := change.ParseCounts(b.Tags[change.TagCounts])
	if err != nil {
		m.t.Fatal(err)
	}
	if diff := cmp.Diff(counts, got); diff != "" {
		m.t.Errorf("counts of the second attempt (-want +got):\n%s", diff)
	}
	if a.Tags[change.TagCounts] == b.Tags[change.TagCounts] {
		m.t.Errorf("both attempts count %s: the winner does not matter", a.Tags[change.TagCounts])
	}
	if a.Tags[change.TagOutcomesFile] == "" || a.Tags[change.TagOutcomesFile] == b.Tags[change.TagOutcomesFile] {
		m.t.Errorf("both attempts name the outcomes file %q", a.Tags[change.TagOutcomesFile])
	}
	if d := a.Tags[change.TagBatchDigest]; d == "" || d != b.Tags[change.TagBatchDigest] {
		m.t.Errorf("the batch has the digests %q and %q", d, b.Tags[change.TagBatchDigest])
	}
}

// removeStray deletes the one data file that no version names.
func (m *modesFaulty) removeStray() {
	m.t.Helper()
	named := map[string]bool{}
	for _, a := range latest(m.t, m.plain, m.url).Files() {
		named[a.Path] = true
	}
	store, err := blobstore.Open(m.t.Context(), m.url)
	if err != nil {
		m.t.Fatal(err)
	}
	stray := 0
	for _, file := range m.dataFiles(m.url) {
		if !named[file] {
			stray++
			must(m.t, store.Delete(m.t.Context(), file))
		}
	}
	if stray != 1 {
		m.t.Errorf("%d files are named by no version, want the one whose answer was lost", stray)
	}
}
