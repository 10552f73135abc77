package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sparkTables were written by Spark, years and versions apart. Each is copied,
// adopted with a key and a version column that its rows allow, and merged into.
var sparkTables = []struct {
	name, key, version string
	newer              row // replaces members of the first row: accepted
	stale              row // replaces members of the last row: nothing is written
	added              row // replaces members of the first row: a new key
}{
	{
		name: "dat-all_primitive_types", key: "utf8", version: "int64",
		newer: row{"int64": 10, "decimal": "99.125", "timestamp": "2024-02-29T12:00:00.000001Z", "binary": "ff"},
		stale: row{"int64": 3, "float64": json.Number("0.5")},
		added: row{"utf8": "new", "float32": "NaN", "bool": nil},
	},
	{
		name: "dat-basic_append", key: "letter", version: "number",
		newer: row{"number": 9, "a_float": json.Number("-0.5")},
		stale: row{"number": 1},
		added: row{"letter": "new"},
	},
	{
		// The version is the partition column: a newer one moves the row.
		name: "dat-basic_partitioned", key: "number", version: "letter",
		newer: row{"letter": "b/2"},
		stale: row{"letter": "A"},
		added: row{"number": 77, "letter": "new one"},
	},
	{
		name: "dat-timestamp_ntz", key: "int", version: "date",
		newer: row{"date": "2030-01-01", "timestampNTZ": "2030-01-01T00:00:00.000001"},
		stale: row{"date": "1900-01-01"},
		added: row{"int": -1},
	},
	{
		name: "dat-with_schema_change", key: "num1", version: "num2",
		newer: row{"num2": 34},
		stale: row{"num2": 1},
		added: row{"num1": 1},
	},
	{
		name: "basic-with-inserts-merge", key: "id", version: "str",
		newer: row{"str": "w"},
		stale: row{"str": "A"},
		added: row{"id": -5},
	},
	{
		// The key is the partition column.
		name: "basic-decimal-table", key: "part", version: "col1",
		newer: row{"col1": "0.00", "col3": "1.0000000001"},
		stale: row{"col1": "-5.00"},
		added: row{"part": "1.50000"},
	},
}

func replaced(r, members row) row {
	out := row{}
	for k, v := range r {
		out[k] = v
	}
	for k, v := range members {
		out[k] = v
	}
	return out
}

func TestMergeIntoTablesOfSpark(t *testing.T) {
	needPeer(t, "spark") // skips once, not for each table
	for _, c := range sparkTables {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "table")
			copyTable(t, shared(t, "tables/"+c.name), path)
			before := readFile(t, filepath.Join(shared(t, "tables/expected"), c.name+".jsonl"))
			equalRows(t, "deltafold before", readRows(t, path), before)
			first, last := before[0], before[len(before)-1]

			deltafold(t, nil, "adopt", path, "--key", c.key, "--version-column", c.version,
				"--status-column", "none", "--on-conflict", "reject")
			batch := &dataset{rows: rows{replaced(first, c.newer), replaced(last, c.stale), replaced(first, c.added)}}
			done := apply(t, path, batch)
			if diff := cmp.Diff(map[string]int64{"accepted": 2, "stale": 1}, nonZero(done.Counts)); diff != "" {
				t.Errorf("outcomes differ (-want +got):\n%s", diff)
			}

			want := append(rows{batch.rows[0], batch.rows[2]}, before[1:]...)
			equalRows(t, "deltafold after", readRows(t, path), want)
			p := needPeer(t, "spark")
			equalRows(t, "Spark after", p.rows(path), want)
			equalRows(t, "Spark, the version before", p.rowsAt(path, latestVersion(t, path)-2), before)
			deltafold(t, nil, "audit", path)
		})
	}
}

func nonZero(counts map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for k, n := range counts {
		if n != 0 {
			out[k] = n
		}
	}
	return out
}

// latestVersion is the latest version, by the names of the log entries.
func latestVersion(t *testing.T, table string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(table, "_delta_log"))
	if err != nil {
		t.Fatal(err)
	}
	latest := int64(-1)
	for _, e := range entries {
		latest = max(latest, versionIn(t, entryName, e.Name()))
	}
	return int(latest)
}
