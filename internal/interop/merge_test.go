package interop

import (
	"errors"
	"fmt"
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

// arbiter judges where another peer differs from us.
const arbiter = "spark"

// A peer's faults are bounded: one in so many statements, of few statements three.
const (
	faultShare = 20
	fewFaults  = 3
)

// mergePeer is an engine that generated MERGE statements run on beside ours.
type mergePeer struct {
	name  string
	floor int // statements under DELTAFOLD_SOAK; a quarter otherwise
	// profile is what the engine cannot say, and what it is known to do wrong in
	// almost every statement that says it.
	profile tabletest.MergeProfile
	// avoids are statements that it is not asked, for the same reason; the arbiter
	// cannot judge them. nil: none.
	avoids func(r *mergeRun) bool
	// seeds run first, whatever the floor: they differed once.
	seeds []uint64
}

var mergePeers = []mergePeer{
	{
		// 1.6.6 takes literals for bigint, has no TRY_CAST and LENGTH in its log, and
		// writes the partition value of -0.50 as 0.-50.
		name: "delta-rs", floor: 1000, seeds: []uint64{950940, 951084},
		profile: tabletest.MergeProfile{
			PlainNames: true, SameCase: true, NoErrors: true, NoTimestamps: true, NoBare: true, NoIf: true, NoDecimalParts: true,
			BareConditions: true, TypedLiterals: true, NoRlike: true, NoNestedCalls: true,
		},
		// It copies a target row once for each source row that matches it.
		avoids: func(r *mergeRun) bool { return r.oracle.Twice && r.ourErr == nil },
	},
	{
		// 0.7.2 wraps around where a number overflows, writes -0.50 as delta-rs does, loses
		// keys of ON that compute, and knows no column by a name in another case beyond
		// ASCII.
		name: "sail", floor: 150,
		profile: tabletest.MergeProfile{ASCIICase: true, NoBare: true, PlainKeys: true, NoExtremes: true, NoDecimalParts: true, TypedLiterals: true},
	},
	{
		// Delta 4.4 on Spark 4.2 repartitions by a column whose name has a dot as by a field.
		name: arbiter, floor: 150, seeds: []uint64{61},
		profile: tabletest.MergeProfile{NoDots: true},
	},
}

// TestMergeStatementsBesidePeers runs each statement on our table and on a
// peer's copy of it: rows and refusals must be equal. Where Spark differs, a rule
// of merge-semantics must ask for it (knownMergeDifferences). Where another peer
// differs, Spark is asked the same statement: if it agrees with us, the peer has a
// fault, and the statement does not count; if it does not, we have one.
//
// The seeds from 1 on are kept; one in four is new in each run.
// DELTAFOLD_MERGE_SEED runs one alone.
func TestMergeStatementsBesidePeers(t *testing.T) {
	for _, m := range mergePeers {
		t.Run(m.name, func(t *testing.T) {
			tally := &mergeTally{m: m, p: needPeer(t, m.name), known: map[string]int{}}
			floor, fresh := (m.floor+3)/4, seed(t)
			if soak() {
				floor = m.floor
			}
			t.Logf("seed %d (DELTAFOLD_SEED=%d makes this run again)", fresh, fresh)
			if text := os.Getenv("DELTAFOLD_MERGE_SEED"); text != "" {
				one, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					t.Fatalf("DELTAFOLD_MERGE_SEED: %v", err)
				}
				tally.run(t, one)
				t.Log(tally)
				return
			}
			for _, s := range m.seeds {
				tally.run(t, s)
			}
			for i := uint64(1); tally.equal < floor && i < uint64(3*floor) && tally.failures < 10; i++ {
				s := i
				if i%4 == 0 {
					s = fresh + i
				}
				tally.run(t, s)
			}
			t.Log(tally)
			if tally.equal < floor {
				t.Errorf("%d statements alike, want %d", tally.equal, floor)
			}
			if asked := tally.equal + tally.faults; tally.faults > max(fewFaults, asked/faultShare) {
				t.Errorf("%s is at fault in %d of %d statements, more than one in %d: its profile must avoid what it cannot do", m.name, tally.faults, asked, faultShare)
			}
		})
	}
}

// mergeTally counts what became of the statements of a peer.
type mergeTally struct {
	m                                              mergePeer
	p                                              *peer
	equal, refused, failures, unsupported, avoided int
	faults                                         int // of the peer, by Spark's word
	known                                          map[string]int
}

func (m *mergeTally) String() string {
	out := fmt.Sprintf("%s: %d statements alike, %d of them refused, %d not supported here, %d not asked", m.m.name, m.equal, m.refused, m.unsupported, m.avoided)
	if m.m.name != arbiter {
		out += fmt.Sprintf("; %d faults of the peer, where Spark agrees with us", m.faults)
	}
	for _, rule := range slices.Sorted(maps.Keys(m.known)) {
		out += fmt.Sprintf("; %d by the rule: %s", m.known[rule], rule)
	}
	return out
}

// mergeRun is one statement on both engines.
type mergeRun struct {
	c            *tabletest.MergeCase
	sql          string // as the peer is told
	dir          string
	oracle       *tabletest.MergeResult
	ours, theirs []string // rows; nil where the statement was refused
	ourErr       error
	theirErr     *peerError
}

// alike says whether both refused the statement, or have equal rows.
func (r *mergeRun) alike() bool {
	return (r.ourErr != nil) == (r.theirErr != nil) && slices.Equal(r.ours, r.theirs)
}

func (r *mergeRun) String() string {
	said := ""
	if r.theirErr != nil {
		said = r.theirErr.Type + ": " + r.theirErr.Text
	}
	return fmt.Sprintf("%s\npartitioned by %q, source %v\nours: %v; theirs: %.600s; the oracle: %q\nrows (-ours +theirs):\n%s",
		r.sql, r.c.Partition, r.c.Source.Fields(), r.ourErr, said, r.oracle.Refused, cmp.Diff(r.ours, r.theirs))
}

func (m *mergeTally) run(t *testing.T, seed uint64) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "case")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r, err := runOurs(t, dir, tabletest.NewMergeCase(seed, m.m.profile))
	var no *expr.UnsupportedError
	switch {
	case errors.As(err, &no):
		m.unsupported++
		return
	case err != nil:
		t.Fatalf("DELTAFOLD_MERGE_SEED=%d: %v\n%s", seed, err, r.sql)
	case m.m.avoids != nil && m.m.avoids(r):
		m.avoided++
		return
	}
	if err := r.ask(t, m.p); err != nil {
		t.Fatalf("DELTAFOLD_MERGE_SEED=%d: %v\n%s", seed, err, r.sql)
	}
	switch d := knownDifference(m.p.name, r); {
	case r.alike():
		m.equal++
		if r.ourErr != nil {
			m.refused++
		}
	case d != nil:
		m.known["merge-semantics "+d.section+": "+d.rule]++
	case m.p.name == arbiter:
		m.failures++
		t.Errorf("DELTAFOLD_MERGE_SEED=%d: %s differs\n%s", seed, m.p.name, r)
	default:
		m.judge(t, seed, r)
	}
}

// judge asks the arbiter where a peer differs from us.
func (m *mergeTally) judge(t *testing.T, seed uint64, r *mergeRun) {
	t.Helper()
	j := *r
	j.theirs, j.theirErr = nil, nil
	if err := j.ask(t, needPeer(t, arbiter)); err != nil {
		t.Fatalf("DELTAFOLD_MERGE_SEED=%d: %v\n%s", seed, err, r.sql)
	}
	if !j.alike() {
		m.failures++
		t.Errorf("DELTAFOLD_MERGE_SEED=%d: %s differs, and so does %s\n%s\n%s:\n%s", seed, m.p.name, arbiter, r, arbiter, &j)
		return
	}
	m.faults++
	said := "other rows"
	switch {
	case r.theirErr != nil:
		said, _, _ = strings.Cut(r.theirErr.Text, "\n")
	case r.ourErr != nil:
		said = fmt.Sprintf("no refusal: %v", r.ourErr)
	}
	t.Logf("seed %d: a fault of %s: %.200s", seed, m.p.name, said)
}

// runOurs makes the table of a case and runs its statement here, and by the
// oracle, which must agree.
func runOurs(t *testing.T, dir string, c *tabletest.MergeCase) (*mergeRun, error) {
	t.Helper()
	told := c.Plain()
	r := &mergeRun{c: told, sql: told.SQL("{target}", "{source}"), dir: dir}
	st, err := statement.Parse(c.SQL("target", "source"))
	if err != nil {
		return r, err
	}
	table, err := writeMergeTable(t, filepath.Join(dir, "ours"), c)
	if err != nil {
		return r, err
	}
	copyTable(t, filepath.Join(dir, "ours"), filepath.Join(dir, "start"))
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
	if (r.ourErr != nil) != (r.oracle.Refused != "") {
		return r, fmt.Errorf("got the error %w, the oracle says %q", r.ourErr, r.oracle.Refused)
	}
	if r.ourErr == nil {
		if r.ours, err = mergeRows(t, filepath.Join(dir, "ours"), c); err != nil {
			return r, err
		}
		if diff := cmp.Diff(tabletest.RowTexts(c.Target, r.oracle.Rows), r.ours); diff != "" {
			return r, fmt.Errorf("rows (-oracle +ours):\n%s", diff)
		}
	}
	return r, nil
}

// ask runs the statement on a peer, on a copy of the table.
func (r *mergeRun) ask(t *testing.T, p *peer) error {
	t.Helper()
	path := filepath.Join(r.dir, p.name)
	copyTable(t, filepath.Join(r.dir, "start"), path)
	arguments := map[string]any{"path": path, "columns": mergeColumns(r.c), "rows": mergeJSON(r.c)}
	if p.name == "delta-rs" {
		arguments["on"], arguments["clauses"] = r.c.On, mergeClauses(r.c)
	} else {
		arguments["sql"] = r.sql
	}
	_, err := p.process.call("statement", arguments)
	switch {
	case errors.As(err, &r.theirErr):
		return nil
	case err != nil:
		return err
	}
	if r.theirs, err = mergeRows(t, path, r.c); err != nil {
		r.theirErr = &peerError{Peer: p.name, Request: "statement", Type: "unreadable result", Text: err.Error()}
	}
	return nil
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
