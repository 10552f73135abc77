package interop

import (
	"encoding/json"
	"maps"
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
	ruleFirst  = "First clause whose condition is true wins"
)

var knownMergeDifferences = []mergeDifference{
	// They count every source row that matches, whether or not a clause applies to it.
	{peers: []string{"spark"}, section: "5", rule: ruleCounts, is: harmlessMatches("DELTA_MULTIPLE_SOURCE_ROW_MATCHING")},
	{peers: []string{"sail"}, section: "5", rule: ruleCounts, is: harmlessMatches("MERGE_CARDINALITY_VIOLATION")},
	// NULL alone has no type there that a condition could have.
	{peers: []string{"spark"}, section: "5", rule: ruleNull, is: func(r *mergeRun) bool {
		untyped := func(cond string) bool { return strings.Contains(cond, "NULL") }
		has := untyped(r.c.On) || slices.ContainsFunc(r.c.Clauses, func(w tabletest.MergeClause) bool { return untyped(w.Cond) })
		return has && failsWith(r, `"VOID"`)
	}},
	// They compute the conditions of all clauses for all rows, also for those that a
	// clause is not about or that an earlier one took, and fail where one cannot be.
	{peers: []string{"spark", "sail"}, section: "5", rule: ruleFirst, is: func(r *mergeRun) bool {
		return r.oracle.Eager != "" && failsWith(r, "")
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

// mergePin is a statement on the rows 1, x and 2, y, which a peer refuses by a
// known difference and we carry out.
type mergePin struct {
	clauses string
	source  rows
	says    map[string]string // a part of each peer's error
	want    rows
}

// TestMergePeersDifferByRules pins the known differences: where one is gone, its
// entry must go too.
func TestMergePeersDifferByRules(t *testing.T) {
	for rule, pin := range map[string]mergePin{
		ruleCounts: {
			clauses: "WHEN MATCHED AND s.v = 'u' THEN UPDATE SET v = s.v",
			source:  rows{{"id": 1, "v": "q"}, {"id": 1, "v": "r"}, {"id": 2, "v": "u"}},
			says:    map[string]string{"spark": "DELTA_MULTIPLE_SOURCE_ROW_MATCHING", "sail": "MERGE_CARDINALITY_VIOLATION"},
			want:    rows{{"id": 1, "v": "x"}, {"id": 2, "v": "u"}},
		},
		ruleNull: {
			clauses: "WHEN MATCHED AND NULL THEN DELETE",
			source:  rows{{"id": 1, "v": "q"}}, says: map[string]string{"spark": `"VOID"`}, want: rows{{"id": 1, "v": "x"}, {"id": 2, "v": "y"}},
		},
		ruleFirst: {
			clauses: "WHEN MATCHED AND t.v = 'x' THEN UPDATE SET v = 'first' WHEN MATCHED AND 1 / (t.id - 1) > 0 THEN DELETE",
			source:  rows{{"id": 1, "v": "q"}, {"id": 2, "v": "r"}}, says: map[string]string{"spark": ""}, want: rows{{"id": 1, "v": "first"}},
		},
	} {
		for name, says := range pin.says {
			t.Run(name+": "+rule, func(t *testing.T) {
				d := &dataset{columns: [][2]string{{"id", "long"}, {"v", "string"}}, rows: rows{{"id": 1, "v": "x"}, {"id": 2, "v": "y"}}}
				p, sql := needPeer(t, name), "MERGE INTO {target} AS t USING {source} AS s ON t.id = s.id "+pin.clauses
				path := filepath.Join(t.TempDir(), "table")
				create(t, path, d)
				_, err := p.process.call("statement", map[string]any{"path": path, "columns": d.columns, "rows": pin.source, "sql": sql})
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%s no longer refuses: %v", name, err)
				}
				equalRows(t, name, readRows(t, path), d.rows)
				from := filepath.Join(t.TempDir(), "s.jsonl")
				if err := os.WriteFile(from, d.with(pin.source...).jsonLines(t), 0o600); err != nil {
					t.Fatal(err)
				}
				deltafold(t, nil, "merge", path, "--source", "s="+from, strings.NewReplacer("{target}", "t0", "{source}", "s").Replace(sql))
				equalRows(t, "deltafold", readRows(t, path), pin.want)
			})
		}
	}
}

// TestMergeFloatKeysBesideSpark: in ON, NaN equals NaN and -0.0 equals 0.0
// (merge-semantics 5; field problem B13), whichever way the condition is put.
func TestMergeFloatKeysBesideSpark(t *testing.T) {
	for _, typ := range []string{"double", "float"} {
		d := &dataset{columns: [][2]string{{"k", typ}, {"v", "string"}}, rows: rows{
			{"k": "NaN", "v": "nan"}, {"k": json.RawMessage("-0.0"), "v": "zero"}, {"k": "Infinity", "v": "inf"}, {"k": 1.5, "v": "one"}, {"k": nil, "v": "null"},
		}}
		source := rows{{"k": "NaN", "v": "N"}, {"k": json.RawMessage("0.0"), "v": "Z"}, {"k": "Infinity", "v": "I"}, {"k": 2.5, "v": "O"}, {"k": nil, "v": "L"}}
		for on, null := range map[string]string{"t.k = s.k": "null", "t.k <=> s.k": "L", "t.k BETWEEN s.k AND s.k": "null", "NOT t.k <> s.k": "null"} {
			t.Run(typ+": "+on, func(t *testing.T) {
				p, sql := needPeer(t, arbiter), "MERGE INTO {target} AS t USING {source} AS s ON "+on+" WHEN MATCHED THEN UPDATE SET v = s.v"
				ours, theirs := filepath.Join(t.TempDir(), "ours"), filepath.Join(t.TempDir(), "theirs")
				create(t, ours, d)
				copyTable(t, ours, theirs)
				p.ask("statement", map[string]any{"path": theirs, "columns": d.columns, "rows": source, "sql": sql})
				from := filepath.Join(t.TempDir(), "s.jsonl")
				if err := os.WriteFile(from, d.with(source...).jsonLines(t), 0o600); err != nil {
					t.Fatal(err)
				}
				deltafold(t, nil, "merge", ours, "--source", "s="+from, strings.NewReplacer("{target}", "t0", "{source}", "s").Replace(sql))
				got := map[string]bool{}
				for _, row := range readRows(t, ours) {
					got[row["v"].(string)] = true
				}
				want := map[string]bool{"N": true, "Z": true, "I": true, "one": true, null: true}
				if !maps.Equal(want, got) {
					t.Errorf("values are %v, want %v", got, want)
				}
				equalRows(t, arbiter, readRows(t, theirs), readRows(t, ours))
			})
		}
	}
}
