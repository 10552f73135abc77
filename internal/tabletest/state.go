package tabletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deltafold/deltafold/merge/change"
)

// State is what the state table must hold, by key (see KeyOf): key, version,
// status and payload columns under their names, NULLs left out.
func (o *Oracle) State() map[string]Row {
	out := make(map[string]Row, len(o.state))
	for key, s := range o.state {
		out[key] = o.row(s)
	}
	return out
}

// Rows are the rows of State, sorted by key text.
func (o *Oracle) Rows() []Row {
	var out []Row
	for _, key := range slices.Sorted(maps.Keys(o.state)) {
		out = append(out, o.row(o.state[key]))
	}
	return out
}

func (o *Oracle) row(s *stored) Row {
	row := Row{}
	put := func(columns []string, values []Value) {
		for i, c := range columns {
			if values[i] != nil {
				row[c] = values[i]
			}
		}
	}
	put(o.Roles.Keys, s.keys)
	put(o.Roles.Versions, s.versions)
	put(o.Roles.Payload, s.payload)
	switch o.Roles.StatusForm {
	case change.StatusWord:
		row[o.Roles.Status] = s.status.String()
	case change.StatusBoolean:
		row[o.Roles.Status] = s.status == change.Deleted
	case change.StatusNone:
	}
	return row
}

// KeyOf is the key of a row of the state or of an input as State names it.
func (o *Oracle) KeyOf(row Row) string {
	var keys []Value
	for _, c := range o.Roles.Keys {
		keys = append(keys, o.storedForm(c, row))
	}
	return texts(keys)
}

// Clone is an oracle with the same rules and a state of its own.
func (o *Oracle) Clone() *Oracle {
	c := *o
	c.state = maps.Clone(o.state) // stored rows are never changed
	return &c
}

// Diff compares the rows of a state table with what the oracle holds: "" if
// they are equal, else up to ten lines that name keys and what is wrong.
func (o *Oracle) Diff(got []Row) string {
	var lines []string
	found := map[string]int{}
	for _, row := range got {
		key := o.KeyOf(row)
		found[key]++
		s := o.state[key]
		switch {
		case found[key] == 2:
			lines = append(lines, fmt.Sprintf("key %s has several rows", key))
		case s == nil:
			lines = append(lines, fmt.Sprintf("key %s should not be there: %s", key, describe(row)))
		case found[key] == 1:
			if want := o.row(s); !SameRow(row, want) {
				lines = append(lines, fmt.Sprintf("key %s\n   is %s\n  not %s", key, describe(row), describe(want)))
			}
		}
	}
	for key, s := range o.state {
		if found[key] == 0 {
			lines = append(lines, fmt.Sprintf("key %s is missing: %s", key, describe(o.row(s))))
		}
	}
	slices.Sort(lines)
	if len(lines) > 10 {
		lines = append(lines[:10], fmt.Sprintf("and %d more", len(lines)-10))
	}
	return strings.Join(lines, "\n")
}

// SameRow reports whether two rows are equal as payloads are; a column that is
// nil equals one that is not there.
func SameRow(a, b Row) bool {
	for c, v := range a {
		if !Equal(v, b[c]) {
			return false
		}
	}
	for c, v := range b {
		if !Equal(v, a[c]) {
			return false
		}
	}
	return true
}

func describe(row Row) string {
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(row)) {
		parts = append(parts, c+": "+text(row[c]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
