package merge_test

import (
	"errors"
	"testing"

	"github.com/deltafold/deltafold/merge"
)

func TestCheckTableNamesWhatBreaksTheRules(t *testing.T) {
	for _, c := range []struct{ name, row, key string }{
		{"two rows with one key", "a 2 active y NULL", "entity_id=a"},
		{"a NULL key", "NULL 2 active y NULL", "entity_id=(null)"},
		{"a NULL version", "c NULL active y NULL", "entity_id=c"},
		{"an unknown status", "c 2 gone NULL NULL", "entity_id=c"},
		{"a tombstone with a payload", "c 2 deleted y NULL", "entity_id=c"},
		{"a conflict with a payload", "c 2 conflict NULL p", "entity_id=c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, worldSpec{})
			w.apply("a 1 upsert x", "b 1 delete")
			w.checkDigest(t)
			w.foreign(t, false, nil, c.row)
			snap, err := w.table.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = merge.CheckTable(t.Context(), snap, w.roles)
			var target *merge.TargetError
			if !errors.As(err, &target) || len(target.Keys) != 1 || target.Keys[0] != c.key {
				t.Errorf("got %v, want a finding that names %s", err, c.key)
			}
		})
	}
}
