package interop

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/statement"
)

// mergePeers are the engines that generated MERGE statements run on beside ours,
// with the number of statements under DELTAFOLD_SOAK; a quarter otherwise.
var mergePeers = []struct {
	name    string
	floor   int
	profile tabletest.MergeProfile
}{
	{"delta-rs", 1000, tabletest.MergeProfile{PlainNames: true, SameCase: true, NoErrors: true, NoTimestamps: true, NoBare: true, NoIf: true}},
	{"sail", 150, tabletest.MergeProfile{ASCIICase: true, NoBare: true}},
	// Delta 4.4 on Spark 4.2 repartitions by a column whose name has a dot as by a field.
	{"spark", 150, tabletest.MergeProfile{NoDots: true}},
}

// TestMergeStatementsBesidePeers runs each statement on our table and on a
// peer's copy of it: rows and refusals must be equal but for known differences.
// The seeds from 1 on are kept; one in four is new in each run.
// DELTAFOLD_MERGE_SEED runs one alone.
func TestMergeStatementsBesidePeers(t *testing.T) {
	for _, m := range mergePeers {
		t.Run(m.name, func(t *testing.T) {
			p := needPeer(t, m.name)
			floor, fresh := (m.floor+3)/4, seed(t)
			if soak() {
				floor = m.floor
			}
			t.Logf("seed %d (DELTAFOLD_SEED=%d makes this run again)", fresh, fresh)
			tally := &mergeTally{known: map[string]int{}, judged: map[string]bool{}}
			if text := os.Getenv("DELTAFOLD_MERGE_SEED"); text != "" {
				one, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					t.Fatalf("DELTAFOLD_MERGE_SEED: %v", err)
				}
				tally.run(t, p, one, m.profile)
				return
			}
			for i := uint64(1); tally.equal < floor && i < uint64(3*floor) && tally.failures < 10; i++ {
				s := i
				if i%4 == 0 {
					s = fresh + i
				}
				tally.run(t, p, s, m.profile)
			}
			t.Logf("%s: %d statements alike, %d of them refused, %d not supported here; known differences: %v; judged by Spark: %v",
				m.name, tally.equal, tally.refused, tally.unsupported, tally.known, slices.Sorted(maps.Keys(tally.judged)))
			if tally.equal < floor {
				t.Errorf("%d statements alike, want %d", tally.equal, floor)
			}
		})
	}
}

type mergeTally struct {
	equal, refused, failures, unsupported int
	known                                 map[string]int
	judged                                map[string]bool // faults of the peer that Spark does not share
}

// mergeRun is one statement on both engines.
type mergeRun struct {
	c            *tabletest.MergeCase
	sql          string
	oracle       *tabletest.MergeResult
	ours, theirs []string // rows; nil where the statement was refused
	ourErr       error
	theirErr     *peerError
}

func (m *mergeTally) run(t *testing.T, p *peer, seed uint64, profile tabletest.MergeProfile) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "case")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r, err := mergeBoth(t, p, dir, tabletest.NewMergeCase(seed, profile))
	var no *expr.UnsupportedError
	switch {
	case errors.As(err, &no):
		m.unsupported++
		return
	case err != nil:
		t.Fatalf("DELTAFOLD_MERGE_SEED=%d: %v\n%s", seed, err, r.sql)
	}
	if (r.ourErr != nil) == (r.theirErr != nil) && slices.Equal(r.ours, r.theirs) {
		m.equal++
		if r.ourErr != nil {
			m.refused++
		}
		return
	}
	for _, k := range knownMergeDifferences {
		if k.peer == p.name && k.is(r) {
			if m.known[k.what]++; k.fault && !m.judged[k.what] {
				m.judged[k.what] = arbitrate(t, r.c)
			}
			return
		}
	}
	m.failures++
	said := ""
	if r.theirErr != nil {
		said = r.theirErr.Type + ": " + r.theirErr.Text
	}
	t.Errorf("DELTAFOLD_MERGE_SEED=%d: %s differs\n%s\npartitioned by %q, source %v\nours: %v; theirs: %.600s; the oracle: %q\nrows (-ours +theirs):\n%s",
		seed, p.name, r.sql, r.c.Partition, r.c.Source.Fields(), r.ourErr, said, r.oracle.Refused, cmp.Diff(r.ours, r.theirs))
}

// arbitrate runs a statement on Spark, which must agree with us. It is no judge
// of statements that it refuses by a known difference of its own.
func arbitrate(t *testing.T, c *tabletest.MergeCase) bool {
	t.Helper()
	r, err := mergeBoth(t, needPeer(t, "spark"), t.TempDir(), c)
	if err != nil {
		t.Errorf("seed %d on Spark: %v", c.Seed, err)
		return false
	}
	for _, k := range knownMergeDifferences {
		if k.peer == "spark" && k.is(r) {
			return false
		}
	}
	if (r.ourErr != nil) != (r.theirErr != nil) || !slices.Equal(r.ours, r.theirs) {
		t.Errorf("seed %d: Spark agrees with the peer, not with us\n%s\nours: %v; theirs: %v\nrows (-ours +theirs):\n%s", c.Seed, r.sql, r.ourErr, r.theirErr, cmp.Diff(r.ours, r.theirs))
	}
	return true
}

// mergeBoth makes the table of a case twice and runs its statement on both.
func mergeBoth(t *testing.T, p *peer, dir string, c *tabletest.MergeCase) (*mergeRun, error) {
	r := &mergeRun{c: c, sql: c.SQL("{target}", "{source}")}
	st, err := statement.Parse(c.SQL("target", "source"))
	if err != nil {
		return r, err
	}
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	table, err := writeMergeTable(t, ours, c)
	if err != nil {
		return r, err
	}
	copyTable(t, ours, theirs)
	r.oracle = tabletest.ApplyMerge(st, &tabletest.MergeTable{Schema: c.Target, Partition: c.Partition, Rows: c.TargetRows()},
		&tabletest.MergeTable{Schema: c.Source, Rows: c.Rows})
	snap, err := table.Snapshot(t.Context())
	if err != nil {
		return r, err
	}
	_, r.ourErr = merge.Into(t.Context(), &merge.IntoJob{
		Table: table, Read: snap, Statement: st, Source: mergeSource(c), Zone: time.UTC, RunID: strconv.FormatUint(rand.Uint64(), 16),
		Now: func() time.Time { return time.Unix(1715000000, 0) },
	})
	var no *expr.UnsupportedError
	if errors.As(r.ourErr, &no) {
		return r, no
	}
	arguments := map[string]any{"path": theirs, "columns": mergeColumns(c), "rows": mergeJSON(c)}
	if p.name == "delta-rs" {
		arguments["on"], arguments["clauses"] = c.On, mergeClauses(c)
	} else {
		arguments["sql"] = r.sql
	}
	if _, err := p.process.call("statement", arguments); err != nil && !errors.As(err, &r.theirErr) {
		return r, err
	}
	if r.ourErr == nil {
		if r.ours, err = mergeRows(t, ours, c); err != nil {
			return r, err
		}
	}
	if r.theirErr == nil {
		if r.theirs, err = mergeRows(t, theirs, c); err != nil {
			r.theirErr = &peerError{Peer: p.name, Request: "statement", Type: "unreadable result", Text: err.Error()}
		}
	}
	return r, nil
}

// mergeClauses are a case's clauses as the driver of delta-rs takes them.
func mergeClauses(c *tabletest.MergeCase) []map[string]any {
	var out []map[string]any
	for _, w := range c.Clauses {
		set := w.Set
		if set == nil {
			set = [][2]string{}
		}
		out = append(out, map[string]any{"when": w.When, "cond": w.Cond, "action": w.Action, "all": w.All, "set": set})
	}
	return out
}

// mergeColumns are the source's columns as the drivers take them.
func mergeColumns(c *tabletest.MergeCase) [][2]string {
	var out [][2]string
	for _, f := range c.Source.Fields() {
		word := strings.ToLower(tabletest.SQLType(f.Type))
		for sql, delta := range map[string]string{"tinyint": "byte", "smallint": "short", "bigint": "long"} {
			if word == sql {
				word = delta
			}
		}
		out = append(out, [2]string{f.Name, word})
	}
	return out
}

// mergeJSON are the source's rows in the encoding of the drivers.
func mergeJSON(c *tabletest.MergeCase) []map[string]any {
	out := []map[string]any{}
	for _, r := range c.Rows {
		row := map[string]any{}
		for _, f := range c.Source.Fields() {
			row[f.Name] = mergeValue(r[f.Name], f.Type)
		}
		out = append(out, row)
	}
	return out
}

// mergeDifference is where a peer may differ from us: because a rule of
// merge-semantics asks for it, or by a fault of the peer, which Spark must not
// share: the first statement of a run that shows it, and that Spark can judge, is
// run on Spark too.
type mergeDifference struct {
	peer, what string
	fault      bool
	is         func(r *mergeRun) bool
}

const countsAll = "merge-semantics 5: of several source rows for a target row only those count for which a clause applies"

var knownMergeDifferences = []mergeDifference{
	{peer: "spark", what: countsAll, is: refusesSecondMatch("DELTA_MULTIPLE_SOURCE_ROW_MATCHING")},
	{peer: "spark", what: "merge-semantics 5: a condition that is NULL itself is not true", is: failsWith(`has the type "VOID"`)},
	{peer: "sail", what: countsAll, is: refusesSecondMatch("MERGE_CARDINALITY_VIOLATION")},
	{
		peer: "delta-rs", what: "merge-semantics 5: SET * and INSERT * need every target column in the source",
		fault: true, is: func(r *mergeRun) bool {
			return r.theirErr == nil && strings.Contains(r.oracle.Refused, "the source has no column") && r.ourErr != nil
		},
	},
	{
		peer: "delta-rs", what: "1.6.6 writes the partition value of the decimal -0.50 as 0.-50, which neither it nor others can read",
		fault: true, is: failsWith(".-"),
	},
	{
		peer: "sail", what: "0.7.2 writes the partition value of the decimal -0.50 as 0.-50, which neither it nor others can read",
		fault: true, is: failsWith(".-"),
	},
	{
		peer: "sail", what: "0.7.2 loses keys of ON that compute with a column of a name beyond ASCII",
		fault: true, is: failsWith("No field named \"__sail_src_"),
	},
	{
		peer: "sail", what: "0.7.2 wraps around where a number overflows",
		fault: true, is: func(r *mergeRun) bool {
			return r.ourErr != nil && r.theirErr == nil && strings.Contains(r.oracle.Refused, "does not fit")
		},
	},
	{
		peer: "delta-rs", what: "1.6.6 cannot put conditions with TRY_CAST, LENGTH and some others into its log",
		fault: true, is: failsWith("Unable to convert expression to string"),
	},
	{
		peer: "delta-rs", what: "1.6.6 does not mix literals, which are long, with int in CASE values and in conditions on files",
		fault: true, is: func(r *mergeRun) bool {
			return failsWith("had multiple data types: Int")(r) || failsWith("Invalid comparison operation: Int")(r)
		},
	},
	{
		peer: "delta-rs", what: "1.6.6 lets several source rows delete one target row, whatever the clauses",
		fault: true, is: func(r *mergeRun) bool {
			var twice *merge.CardinalityError
			return errors.As(r.ourErr, &twice) && r.theirErr == nil && slices.ContainsFunc(r.c.Clauses, func(w tabletest.MergeClause) bool {
				return w.When == "MATCHED" && w.Action == "DELETE"
			})
		},
	},
	{
		peer: "delta-rs", what: "1.6.6 copies a target row once for each source row that matches it, where no clause applies",
		fault: true, is: func(r *mergeRun) bool {
			return r.ourErr == nil && r.theirErr == nil && r.oracle.Twice && len(r.theirs) > len(r.ours) &&
				slices.Equal(slices.Compact(slices.Clone(r.theirs)), slices.Compact(slices.Clone(r.ours)))
		},
	},
}

func refusesSecondMatch(text string) func(r *mergeRun) bool {
	fails := failsWith(text)
	return func(r *mergeRun) bool { return r.oracle.Twice && fails(r) }
}

// failsWith says that the peer alone fails, with that text.
func failsWith(text string) func(r *mergeRun) bool {
	return func(r *mergeRun) bool {
		return r.ourErr == nil && r.theirErr != nil && strings.Contains(r.theirErr.Text, text)
	}
}

// TestMergePeersCountAllMatches pins the difference that countsAll names: Spark
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
