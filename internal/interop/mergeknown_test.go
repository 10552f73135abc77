package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/deltafold/deltafold/internal/tabletest"
)

// mergeDifference is where a peer differs from us because a rule asks for it. A
// fault of a peer has no place here: Spark is asked instead.
type mergeDifference struct {
	peers []string
	// section and rule are where docs/merge-semantics.md asks for it, word by word.
	section, rule string
	is            func(r *mergeRun) bool
}

const (
	ruleCounts = "A target row matched by more than one source row for which an update or delete clause applies is an error"
	ruleNull   = "a NULL condition is not true"
)

var knownMergeDifferences = []mergeDifference{
	// They count every source row that matches, whether or not a clause applies to it.
	{peers: []string{"spark"}, section: "5", rule: ruleCounts, is: harmlessMatches("DELTA_MULTIPLE_SOURCE_ROW_MATCHING")},
	{peers: []string{"sail"}, section: "5", rule: ruleCounts, is: harmlessMatches("MERGE_CARDINALITY_VIOLATION")},
	// NULL alone has no type there that a condition could have.
	{peers: []string{"spark"}, section: "5", rule: ruleNull, is: func(r *mergeRun) bool {
		untyped := func(cond string) bool { return strings.Contains(cond, "NULL") }
		has := untyped(r.c.On) || slices.ContainsFunc(r.c.Clauses, func(w tabletest.MergeClause) bool { return untyped(w.Cond) })
		return has && failsWith(r, `has the type "VOID"`)
	}},
}

func knownDifference(peer string, r *mergeRun) *mergeDifference {
	for i, d := range knownMergeDifferences {
		if slices.Contains(d.peers, peer) && d.is(r) {
			return &knownMergeDifferences[i]
		}
	}
	return nil
}

// harmlessMatches says that the peer alone fails, as a target row has two source
// rows, though not two to which a clause applies.
func harmlessMatches(text string) func(r *mergeRun) bool {
	return func(r *mergeRun) bool { return r.oracle.Twice && r.oracle.Refused == "" && failsWith(r, text) }
}

// failsWith says that the peer alone fails, with that text.
func failsWith(r *mergeRun, text string) bool {
	return r.ourErr == nil && r.theirErr != nil && strings.Contains(r.theirErr.Text, text)
}

// TestKnownMergeDifferencesCiteRules: an entry without a rule that asks for it,
// in the words of merge-semantics, is none.
func TestKnownMergeDifferencesCiteRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "merge-semantics.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	heads := regexp.MustCompile(`(?m)^## (\d+)\. .*$`).FindAllStringSubmatchIndex(string(text), -1)
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		sections[string(text[h[2]:h[3]])] = string(text[h[1]:end])
	}
	for i, d := range knownMergeDifferences {
		if d.rule == "" || !strings.Contains(sections[d.section], d.rule) {
			t.Errorf("entry %d: section %q of merge-semantics does not say %q", i, d.section, d.rule)
		}
		if len(d.peers) == 0 || d.is(&mergeRun{c: &tabletest.MergeCase{}, oracle: &tabletest.MergeResult{}}) {
			t.Errorf("entry %d takes any statement, or is of no peer", i)
		}
	}
}

// TestMergePeersCountAllMatches pins the difference by ruleCounts: Spark
// and Sail refuse two source rows for a target row though no clause applies to
// either; we leave the row alone (merge-semantics 5).
func TestMergePeersCountAllMatches(t *testing.T) {
	d := &dataset{columns: [][2]string{{"id", "long"}, {"v", "string"}}, rows: rows{{"id": 1, "v": "x"}, {"id": 2, "v": "y"}}}
	source := rows{{"id": 1, "v": "q"}, {"id": 1, "v": "r"}, {"id": 2, "v": "u"}}
	const sql = "MERGE INTO {target} AS t USING {source} AS s ON t.id = s.id WHEN MATCHED AND s.v = 'u' THEN UPDATE SET v = s.v"
	for name, text := range map[string]string{"spark": "DELTA_MULTIPLE_SOURCE_ROW_MATCHING", "sail": "MERGE_CARDINALITY_VIOLATION"} {
		t.Run(name, func(t *testing.T) {
			p := needPeer(t, name)
			path := filepath.Join(t.TempDir(), "table")
			create(t, path, d)
			_, err := p.process.call("statement", map[string]any{"path": path, "columns": d.columns, "rows": source, "sql": sql})
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s no longer refuses: %v", name, err)
			}
			equalRows(t, name, readRows(t, path), d.rows)
			from := filepath.Join(t.TempDir(), "s.jsonl")
			if err := os.WriteFile(from, d.with(source...).jsonLines(t), 0o600); err != nil {
				t.Fatal(err)
			}
			deltafold(t, nil, "merge", path, "--source", "s="+from, strings.NewReplacer("{target}", "t0", "{source}", "s").Replace(sql))
			equalRows(t, "deltafold", readRows(t, path), rows{{"id": 1, "v": "x"}, {"id": 2, "v": "u"}})
		})
	}
}
