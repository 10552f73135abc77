package interop

import (
	"fmt"
	"path/filepath"
	"testing"
)

// everywhere holds what deltafold and every peer read against the model.
func everywhere(t *testing.T, step, path string, want rows) {
	t.Helper()
	equalRows(t, step+": deltafold", readRows(t, path), want)
	for _, name := range allPeers {
		p := needPeer(t, name)
		equalRows(t, step+": "+name, p.rows(path), want)
	}
	if t.Failed() {
		t.FailNow() // what follows would only repeat it
	}
}

// TestTakingTurnsOnPlainTable: every writer appends to a table that deltafold
// made, in turn, often enough that each of them writes log checkpoints.
func TestTakingTurnsOnPlainTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "turns")
	d := numbered(0, 3)
	d.properties = map[string]string{"delta.checkpointInterval": "3"}
	create(t, path, d)
	model := d.rows
	everywhere(t, "created", path, model)
	for round := range 3 {
		for i, name := range append([]string{"deltafold"}, allPeers...) {
			id := 100 + round*10 + i
			more := numbered(id, id+1)
			if name == "deltafold" {
				appendRows(t, path, more)
			} else {
				needPeer(t, name).add(path, more)
			}
			model = append(model, more.rows...)
			everywhere(t, fmt.Sprintf("round %d, append by %s", round, name), path, model)
		}
	}
}

// TestTakingTurnsOnStateTable: deltafold merges batches into its state table;
// between them each writer, lawfully, appends a new key and upserts a newer
// version of a key by its own MERGE.
func TestTakingTurnsOnStateTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	model := map[string]row{}
	put := func(key string, version int, status string, value any) row {
		r := row{"entity_id": key, "source_version": version, "status": status, "value": value}
		model[key] = r
		return r
	}
	state := func() rows {
		var rs rows
		for _, r := range model {
			rs = append(rs, r)
		}
		return rs
	}
	version := 0
	for round := range 2 {
		for _, name := range allPeers {
			p := needPeer(t, name)
			version++
			// deltafold: a new key, a newer version of a shared key, and a stale row.
			mine := fmt.Sprintf("deltafold %d", version)
			batch := changes(
				row{"change_id": "n", "entity_id": mine, "source_version": 1, "operation": "upsert", "value": "new"},
				row{"change_id": "s", "entity_id": "shared", "source_version": version, "operation": "upsert", "value": mine},
				row{"change_id": "d", "entity_id": "gone", "source_version": version, "operation": "delete", "value": nil},
				row{"change_id": "old", "entity_id": "old", "source_version": 1, "operation": "upsert", "value": "older"},
			)
			if version == 1 {
				batch.rows[3]["source_version"] = 5
				put("old", 5, "active", "older")
			}
			done := apply(t, path, batch)
			if got := done.Counts["stale"]; version > 1 && got != 1 {
				t.Errorf("batch %d has %d stale rows; want 1: %v", version, got, done.Counts)
			}
			put(mine, 1, "active", "new")
			put("shared", version, "active", mine)
			put("gone", version, "deleted", nil)
			everywhere(t, fmt.Sprintf("round %d, batch before %s", round, name), path, state())

			theirs := fmt.Sprintf("%s %d", name, round)
			p.add(path, stateTable().with(put(theirs, 1, "active", "appended")))
			everywhere(t, fmt.Sprintf("round %d, append by %s", round, name), path, state())
			if p.merge == "" {
				continue
			}
			version++
			p.upsert(path, stateTable().with(
				put("shared", version, "active", theirs),
				put(theirs+" merged", 1, "active", "merged"),
			), "entity_id")
			everywhere(t, fmt.Sprintf("round %d, merge by %s", round, name), path, state())
		}
	}
	audit := attempt(t, nil, "audit", path)
	if audit.status != 0 {
		t.Errorf("audit of a table that all took turns on, lawfully: exit status %d\n%s%s", audit.status, audit.stdout, audit.stderr)
	}
}
