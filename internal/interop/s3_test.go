package interop

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/storeserver"
)

// s3Table is a table on an S3 server, beside what its rows and its history must
// be. Writers take turns: Spark's log store for S3 puts log entries without a
// condition, so that nobody may write while it does.
type s3Table struct {
	t      *testing.T
	server *storeserver.Server
	// name is the key below the bucket. It is plain: delta-rs and DuckDB take "a%20b" in
	// a URL for the key "a b", Spark and deltafold for itself, Sail 0.7.2 takes no space.
	name    string
	columns *dataset // columns alone
	model   map[int]row
	ops     []string // operation of each version
}

// newS3Table names a table in a bucket of its own and tells deltafold and all
// peers where that is.
func newS3Table(t *testing.T, name string, columns *dataset) *s3Table {
	t.Helper()
	server := storeserver.S3(t)
	if _, err := binary(); err != nil { // before the cache folder moves, which is the compiler's too
		t.Fatal(err)
	}
	server.Setenv(t)
	for _, name := range allPeers {
		needPeer(t, name).ask("s3", map[string]any{
			"bucket": server.Bucket, "endpoint": server.Endpoint, "region": server.Region,
			"access_key": server.AccessKey, "secret_key": server.SecretKey,
		})
	}
	return &s3Table{t: t, server: server, name: name, columns: columns, model: map[int]row{}}
}

// url of the table as a peer spells it; "" is deltafold.
func (s *s3Table) url(peer string) string {
	u := s.server.URL() + "/" + s.name
	if peer == "spark" {
		u = "s3a" + strings.TrimPrefix(u, "s3")
	}
	return u
}

// rows of these ids, as the model has them from now on.
func (s *s3Table) put(who string, ids ...int) *dataset {
	var rs rows
	for _, id := range ids {
		r := s.columns.rows[id%len(s.columns.rows)]
		r = replaced(r, row{"id": id, "v": fmt.Sprintf("%s %d", who, id)})
		s.model[id] = r
		rs = append(rs, r)
	}
	return s.columns.with(rs...)
}

// remove takes ids from the model and returns the condition that they fulfil.
func (s *s3Table) remove(ids ...int) string {
	var texts []string
	for _, id := range ids {
		delete(s.model, id)
		texts = append(texts, fmt.Sprint(id))
	}
	return "id IN (" + strings.Join(texts, ", ") + ")"
}

// turn is one commit of who; afterwards everybody sees the same rows, and the log
// has one entry more.
func (s *s3Table) turn(who, operation string, do func()) {
	s.t.Helper()
	do()
	s.ops = append(s.ops, operation)
	step := fmt.Sprintf("version %d, %s by %s", len(s.ops)-1, operation, who)
	want := slices.Collect(maps.Values(s.model))
	equalRows(s.t, step+": deltafold", readRows(s.t, s.url("")), want)
	for _, name := range allPeers {
		equalRows(s.t, step+": "+name, needPeer(s.t, name).rows(s.url(name)), want)
	}
	if diff := cmp.Diff(s.wantEntries(), s.entries()); diff != "" {
		s.t.Errorf("%s: log entries differ (-want +got):\n%s", step, diff)
	}
	if s.t.Failed() {
		s.t.FailNow() // what follows would only repeat it
	}
}

func (s *s3Table) wantEntries() []string {
	var out []string
	for v := range s.ops {
		out = append(out, fmt.Sprintf("%020d.json", v))
	}
	return out
}

// entries are the names of the log's entries, as the server keeps them.
func (s *s3Table) entries() []string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.server.Folder(), filepath.FromSlash(s.name), "_delta_log", "*.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	for i, f := range found {
		found[i] = filepath.Base(f)
	}
	return found
}

// history holds what deltafold, delta-rs and Spark say of the versions against
// the turns that were taken.
func (s *s3Table) history() {
	s.t.Helper()
	type version struct {
		Version   int
		Operation string
	}
	var ours struct{ Versions []version }
	unmarshal(s.t, deltafold(s.t, nil, "history", s.url(""), "--json"), &ours)
	var want [][2]any
	for v, op := range s.ops {
		want = append(want, [2]any{v, op})
	}
	slices.Reverse(want)
	var got [][2]any
	for _, v := range ours.Versions {
		got = append(got, [2]any{v.Version, v.Operation})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("history of deltafold (-want +got):\n%s", diff)
	}
	for _, name := range []string{"delta-rs", "spark"} {
		var pairs [][2]any
		unmarshal(s.t, needPeer(s.t, name).ask("history", map[string]any{"path": s.url(name)}), &pairs)
		for i := range pairs {
			pairs[i][0] = int(pairs[i][0].(float64))
		}
		if diff := cmp.Diff(want, pairs); diff != "" {
			s.t.Errorf("history of %s (-want +got):\n%s", name, diff)
		}
	}
}

// oddTimes has partitions whose folders hold spaces, '%', ':' and letters beyond
// ASCII, in the names that each writer gives them.
func oddTimes() *dataset {
	values := []any{"a b", "50%", "x:y", "é日本", "a%20b", "x/y", nil}
	times := []any{"2024-01-01T00:00:00.000000Z", "2024-06-30T12:30:00.500000Z", nil}
	d := &dataset{
		columns:     [][2]string{{"id", "long"}, {"p", "string"}, {"ts", "timestamp"}, {"v", "string"}},
		partitionBy: []string{"p", "ts"},
	}
	for i, p := range values {
		d.rows = append(d.rows, row{"p": p, "ts": times[i%len(times)]})
	}
	return d
}

// TestS3TakingTurns: every verb that a writer has, on one partitioned table.
// DuckDB only reads here: 1.5.5 writes partition values of timestamps as
// "2024-01-01 00:00:00+00", which it cannot read itself. delta-rs removes nothing
// from Spark's folders with letters beyond ASCII: 1.6.6 escapes them in the remove
// where Spark's add has them plain, so that its DELETE and MERGE leave the old rows
// for all but Sail.
func TestS3TakingTurns(t *testing.T) {
	s := newS3Table(t, "turns/odd", oddTimes())
	rs, spark, sail := needPeer(t, "delta-rs"), needPeer(t, "spark"), needPeer(t, "sail")
	s.turn("deltafold", "CREATE TABLE", func() {
		d := s.columns
		deltafold(t, nil, "create", s.url(""), "--schema", d.ddl(), "--partition-by", "p", "--partition-by", "ts", "--property", "delta.checkpointInterval=5")
	})
	s.turn("deltafold", "WRITE", func() { appendRows(t, s.url(""), s.put("deltafold", 0, 1, 2, 3, 4, 5, 6)) })
	s.turn("delta-rs", "WRITE", func() { rs.add(s.url("delta-rs"), s.put("delta-rs", 10, 11, 12, 13, 14)) })
	s.turn("spark", "WRITE", func() { spark.add(s.url("spark"), s.put("spark", 20, 21, 22, 23, 24)) })
	s.turn("sail", "WRITE", func() { sail.add(s.url("sail"), s.put("sail", 30, 31, 32, 33, 34)) })
	s.turn("delta-rs", "MERGE", func() { rs.upsert(s.url("delta-rs"), s.put("delta-rs merge", 1, 21, 41), "id") })
	s.turn("spark", "DELETE", func() { spark.run(s.url("spark"), "DELETE FROM {target} WHERE "+s.remove(2, 12, 22)) })
	s.turn("deltafold", "MERGE", func() { s.mergeByDeltafold(3, 13, 23, 33, 43) })
	s.turn("delta-rs", "DELETE", func() {
		rs.ask("delete", map[string]any{"path": s.url("delta-rs"), "where": s.remove(4, 14, 20)})
	})
	s.turn("deltafold", "DELETE", func() { deltafold(t, nil, "delete", s.url(""), "--where", s.remove(5, 34)) })
	s.turn("spark", "MERGE", func() { spark.upsert(s.url("spark"), s.put("spark merge", 0, 10, 41, 51), "id") })
	s.turn("deltafold", "UPDATE", func() {
		s.put("updated", 51)
		deltafold(t, nil, "update", s.url(""), "--set", "v = 'updated 51'", "--where", "id = 51")
	})
	s.turn("spark", "UPDATE", func() {
		s.put("updated", 41)
		spark.run(s.url("spark"), "UPDATE {target} SET v = 'updated 41' WHERE id = 41")
	})
	s.history()
	// Earlier versions, every third of them unless all are asked for. Sail 0.7.2 finds
	// no commit file for the version before a log checkpoint, on local files too.
	step := 3
	if soak() {
		step = 1
	}
	for v := 1; v < len(s.ops); v += step {
		want := readRows(t, s.url(""), "--version", fmt.Sprint(v))
		for _, p := range []*peer{rs, spark} {
			equalRows(t, fmt.Sprintf("%s, version %d", p.name, v), p.rowsAt(s.url(p.name), v), want)
		}
	}
}

// mergeByDeltafold upserts these ids by a MERGE statement.
func (s *s3Table) mergeByDeltafold(ids ...int) {
	s.t.Helper()
	d := s.put("deltafold merge", ids...)
	source := filepath.Join(s.t.TempDir(), "source.jsonl")
	if err := os.WriteFile(source, d.jsonLines(s.t), 0o600); err != nil {
		s.t.Fatal(err)
	}
	deltafold(s.t, nil, "merge", s.url(""), "--source", "u="+source,
		"MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
}

// TestS3TakingTurnsWithDuckDB: DuckDB appends too, to a table without partitions.
func TestS3TakingTurnsWithDuckDB(t *testing.T) {
	s := newS3Table(t, "plain", &dataset{
		columns: [][2]string{{"id", "long"}, {"v", "string"}},
		rows:    rows{{}},
	})
	s.turn("deltafold", "CREATE TABLE", func() { deltafold(t, nil, "create", s.url(""), "--schema", s.columns.ddl()) })
	id := 0
	for range 2 {
		for _, name := range append([]string{"deltafold"}, allPeers...) {
			id += 2
			operation := "WRITE"
			if name == "duckdb" {
				operation = "UNKNOWN" // it commits without a commitInfo
			}
			s.turn(name, operation, func() {
				d := s.put(name, id, id+1)
				if name == "deltafold" {
					appendRows(t, s.url(""), d)
				} else {
					needPeer(t, name).add(s.url(name), d)
				}
			})
		}
	}
	s.turn("deltafold", "MERGE", func() { s.mergeByDeltafold(1, 5, 9, 99) })
	s.turn("delta-rs", "WRITE", func() {
		clear(s.model)
		d := s.put("all", 1, 2, 3)
		needPeer(t, "delta-rs").ask("write", map[string]any{"path": s.url("delta-rs"), "columns": d.columns, "rows": d.rows, "mode": "overwrite"})
	})
	s.turn("deltafold", "WRITE", func() {
		clear(s.model)
		source := filepath.Join(t.TempDir(), "all.jsonl")
		if err := os.WriteFile(source, s.put("again", 4, 5).jsonLines(t), 0o600); err != nil {
			t.Fatal(err)
		}
		deltafold(t, nil, "overwrite", s.url(""), source, "--all")
	})
	s.history()
}

// TestS3GuardedTable: the fixture's batches on S3; all peers read each version,
// and the audit agrees. What is stored of a run goes through the same bucket.
func TestS3GuardedTable(t *testing.T) {
	s := newS3Table(t, "guarded/state", stateTable())
	versions := applyFixture(t, s.url(""))
	eachPeer(t, allPeers, func(t *testing.T, p *peer) {
		for version, want := range versions {
			equalRows(t, fmt.Sprintf("%s, version %d", p.name, version), p.rowsAt(s.url(p.name), version), want)
		}
	})
	audit := attempt(t, nil, "audit", s.url(""), "--json")
	if audit.status != 0 {
		t.Errorf("audit: exit status %d\n%s%s", audit.status, audit.stdout, audit.stderr)
	}
	var said json.RawMessage
	unmarshal(t, audit.stdout, &said)
}
