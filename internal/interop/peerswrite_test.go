package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// writers can make tables; DuckDB only inserts.
var writers = []string{"spark", "delta-rs", "sail"}

func TestReadEveryTypeOfPeers(t *testing.T) {
	eachPeer(t, writers, func(t *testing.T, p *peer) {
		d := allTypes()
		path := filepath.Join(t.TempDir(), "types")
		p.create(path, d)
		equalRows(t, "deltafold", readRows(t, path), d.rows)
		// Rows of our own beside those of the peer, in the peer's table. Two, since
		// Sail 0.7.2 takes a column whose least and greatest value are equal from
		// the statistics, by way of a float64: it then reads the decimal
		// -123456789012345.678 as .690, of Spark's files too.
		more := rows{replaced(d.rows[0], row{"id": 77}), replaced(d.rows[4], row{"id": 78, "dec18": "0.001"})}
		appendRows(t, path, d.with(more...))
		want := append(more, d.rows...)
		equalRows(t, "deltafold after an append of its own", readRows(t, path), want)
		equalRows(t, p.name+" after deltafold's append", p.rows(path), want)
	})
}

func TestReadPartitionsOfPeers(t *testing.T) {
	eachPeer(t, writers, func(t *testing.T, p *peer) {
		for name, d := range map[string]*dataset{"odd": oddPartitions(), "typed": writable(p, typedPartitions())} {
			path := filepath.Join(t.TempDir(), name)
			p.create(path, d)
			equalRows(t, "deltafold, "+name, readRows(t, path), d.rows)
		}
	})
}

// writable leaves out what a peer writes wrongly: delta-rs 1.6.6 and Sail 0.7.2
// write the partition value of the decimal -12.340 as "-12.-340", which neither
// they nor others can read.
func writable(p *peer, d *dataset) *dataset {
	if p.name == "spark" {
		return d
	}
	out := d.complete()
	for _, r := range out.rows {
		if text, ok := r["pdec"].(string); ok {
			r["pdec"] = strings.TrimPrefix(text, "-")
		}
	}
	return out
}

func TestReadLogCheckpointsOfPeers(t *testing.T) {
	eachPeer(t, []string{"spark", "delta-rs"}, func(t *testing.T, p *peer) {
		dir := t.TempDir()
		path := filepath.Join(dir, "table")
		d := writable(p, typedPartitions())
		d.properties = map[string]string{"delta.checkpointInterval": "5"}
		p.create(path, d)
		want := d.rows
		for i := range 7 {
			r := row{"id": 100 + i, "pb": nil, "pi": i, "pl": nil, "pdec": nil, "pd": nil, "pt": nil, "pn": nil, "ps": fmt.Sprint("s", i%3)}
			p.add(path, d.with(r))
			want = append(want, r)
		}
		if p.name == "delta-rs" {
			p.ask("checkpoint", map[string]any{"path": path})
		}
		short := filepath.Join(dir, "short")
		copyTable(t, path, short)
		if removed := dropCheckpointedEntries(t, short); removed < 5 {
			t.Fatalf("the log checkpoint of %s covers %d entries; want 5 or more", p.name, removed)
		}
		equalRows(t, "deltafold from a log checkpoint of "+p.name, readRows(t, short), want)
	})
}

// TestReadRowLevelChangesOfSpark: MERGE, UPDATE and DELETE rewrite files; every
// version of the table is compared.
func TestReadRowLevelChangesOfSpark(t *testing.T) {
	p := needPeer(t, "spark")
	path := filepath.Join(t.TempDir(), "table")
	d := numbered(0, 40)
	d.properties = map[string]string{"delta.enableDeletionVectors": "false"}
	p.create(path, d)
	p.run(path, "DELETE FROM {target} WHERE id % 3 = 0")
	p.run(path, "UPDATE {target} SET v = v + 0.25 WHERE id % 2 = 0")
	p.upsert(path, numbered(30, 50), "id")
	p.run(path, "MERGE INTO {target} AS t USING (SELECT 1L AS id) AS s ON t.id = s.id "+
		"WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.id > 45 THEN DELETE")
	p.run(path, "OPTIMIZE {target}")
	comparesVersions(t, p, path)
}

func TestReadRowLevelChangesOfDeltaRS(t *testing.T) {
	p := needPeer(t, "delta-rs")
	path := filepath.Join(t.TempDir(), "table")
	p.create(path, numbered(0, 40))
	p.ask("delete", map[string]any{"path": path, "where": "id % 3 = 0"})
	p.ask("update", map[string]any{"path": path, "updates": map[string]string{"v": "v + 0.25"}, "where": "id % 2 = 0"})
	p.upsert(path, numbered(30, 50), "id")
	comparesVersions(t, p, path)
}

func TestReadRowLevelChangesOfSail(t *testing.T) {
	p := needPeer(t, "sail")
	path := filepath.Join(t.TempDir(), "table")
	p.create(path, numbered(0, 40))
	p.run(path, "DELETE FROM {target} WHERE id % 3 = 0")
	p.upsert(path, numbered(30, 50), "id")
	comparesVersions(t, p, path)
}

// numbered has the rows first <= id < last.
func numbered(first, last int) *dataset {
	d := &dataset{columns: [][2]string{{"id", "long"}, {"v", "double"}, {"s", "string"}}}
	for i := first; i < last; i++ {
		d.rows = append(d.rows, row{"id": i, "v": json.Number(fmt.Sprintf("%d.5", first)), "s": fmt.Sprint("row ", i)})
	}
	return d
}

// comparesVersions holds deltafold's reading of every version against the
// writer's own, and the latest also against Spark's.
func comparesVersions(t *testing.T, writer *peer, path string) {
	t.Helper()
	for v := range countEntries(t, path) {
		equalRows(t, fmt.Sprintf("deltafold, version %d", v), readRows(t, path, "--version", fmt.Sprint(v)), writer.rowsAt(path, v))
	}
	if writer.name != "spark" {
		equalRows(t, "Spark, latest version", needPeer(t, "spark").rows(path), readRows(t, path))
	}
}

// A deletion vector that deltafold cannot read yet must be refused by name, not
// ignored: ignoring it would bring deleted rows back.
func TestDeletionVectorOfSparkIsReadOrRefused(t *testing.T) {
	p := needPeer(t, "spark")
	path := filepath.Join(t.TempDir(), "table")
	d := numbered(0, 40)
	d.properties = map[string]string{"delta.enableDeletionVectors": "true"}
	p.create(path, d)
	p.run(path, "DELETE FROM {target} WHERE id = 7")
	want := p.rows(path)
	if len(want) != 39 {
		t.Fatalf("Spark has %d rows after its DELETE; want 39", len(want))
	}
	r := attempt(t, nil, "read", path, "--format", "jsonl")
	switch {
	case r.status == 0:
		equalRows(t, "deltafold", parseRows(t, "deltafold", r.stdout), want)
	case r.status != 1 || !strings.Contains(strings.ToLower(string(r.stderr)), "deletion"):
		t.Errorf("exit status %d, want 1 and a message that names deletion vectors: %s", r.status, r.stderr)
	case len(r.stdout) != 0:
		t.Errorf("a refused read printed rows: %s", r.stdout)
	}
}

// delta-rs 1.6.6 writes the statistics of decimals by way of a float64: the
// greatest value of this file is -123456789012345.678 and its maxValues say
// -123456789012345.69, which is less. A merge that trusts them would miss the
// stored row and insert a second one.
func TestMergeOnDecimalKeysOfDeltaRS(t *testing.T) {
	p := needPeer(t, "delta-rs")
	path := filepath.Join(t.TempDir(), "table")
	d := &dataset{
		columns: [][2]string{{"k", "decimal(18,3)"}, {"source_version", "long"}, {"v", "string"}},
		rows: rows{
			{"k": "-123456789012345.678", "source_version": 1, "v": "old"},
			{"k": "-123456789012345.691", "source_version": 1, "v": "other"},
		},
	}
	p.create(path, d)
	deltafold(t, nil, "adopt", path, "--key", "k", "--status-column", "none", "--on-conflict", "reject")
	newer := row{"k": "-123456789012345.678", "source_version": 2, "v": "new"}
	apply(t, path, d.with(newer))
	equalRows(t, "deltafold", readRows(t, path), rows{newer, d.rows[1]})
}
