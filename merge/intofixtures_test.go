package merge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is the lines of a fixture as JSON objects.
func fixture(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "internal", "pipeline", "testdata", filepath.FromSlash(name)+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// TestIntoPumpTombstones says the guarded merge of a table with a boolean status
// as clauses. A batch is one statement where it has one row a key; MERGE cannot
// say the reduction, so that other batches are one statement a row. Law 1 of
// merge-semantics 3.3 makes that the same.
func TestIntoPumpTombstones(t *testing.T) {
	const ddl = "pump string, seq long, deleted boolean, value double"
	const sql = "MERGE INTO t USING s ON t.pump = s.pump " +
		"WHEN MATCHED AND s.seq > t.seq AND s.deleted THEN UPDATE SET seq = s.seq, deleted = TRUE, value = NULL " +
		"WHEN MATCHED AND s.seq > t.seq THEN UPDATE SET * " +
		"WHEN NOT MATCHED AND s.deleted THEN INSERT (pump, seq, deleted) VALUES (s.pump, s.seq, s.deleted) " +
		"WHEN NOT MATCHED THEN INSERT *"
	w := intoSpec{ddl: ddl}.table(t)
	for i, batch := range []string{"batch-1", "batch-2", "batch-3-stale", "batch-4-newer"} {
		for _, row := range fixture(t, "pump-tombstones/"+batch) {
			w.must(t, w.prepare(t, sql, ddl, row))
		}
		w.is(t, strings.Join(fixture(t, "pump-tombstones/state-after-"+string(rune('1'+i))), ","))
	}
}

// TestIntoVersionedChanges says the guarded merge with conflicts as clauses, one
// statement a change.
func TestIntoVersionedChanges(t *testing.T) {
	const valid = "s.entity_id IS NOT NULL AND s.entity_id <> '' AND s.source_version >= 1 AND s.operation IN ('upsert', 'delete') " +
		"AND s.change_id IS NOT NULL AND s.change_id <> '' AND ((s.operation = 'upsert') = (s.value IS NOT NULL))"
	const sql = "MERGE INTO t USING s ON t.entity_id = s.entity_id " +
		"WHEN MATCHED AND " + valid + " AND s.source_version > t.source_version AND s.operation = 'delete' " +
		"THEN UPDATE SET source_version = s.source_version, status = 'deleted', value = NULL " +
		"WHEN MATCHED AND " + valid + " AND s.source_version > t.source_version " +
		"THEN UPDATE SET source_version = s.source_version, status = 'active', value = s.value " +
		"WHEN MATCHED AND " + valid + " AND s.source_version = t.source_version AND t.status <> 'conflict' " +
		"AND NOT ((s.operation = 'delete') = (t.status = 'deleted') AND s.value <=> t.value) " +
		"THEN UPDATE SET status = 'conflict', value = NULL " +
		"WHEN NOT MATCHED AND " + valid + " AND s.operation = 'delete' " +
		"THEN INSERT (entity_id, source_version, status) VALUES (s.entity_id, s.source_version, 'deleted') " +
		"WHEN NOT MATCHED AND " + valid + " THEN INSERT (entity_id, source_version, status, value) VALUES (s.entity_id, s.source_version, 'active', s.value)"
	w := intoSpec{ddl: "entity_id string, source_version long, status string, value string"}.table(t)
	for _, n := range []string{"1", "2", "3", "4", "5", "6"} {
		for _, row := range fixture(t, "versioned-changes/batch-"+n) {
			w.must(t, w.prepare(t, sql, "change_id string, entity_id string, source_version long, operation string, value string", row))
		}
		w.is(t, strings.Join(fixture(t, "versioned-changes/state-after-"+n), ","))
	}
}
