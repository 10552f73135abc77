package checkpoints

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/merge/change"
)

// bagOf reads rows like "5a 5b 5b": sequence and content.
func bagOf(text string) bag {
	b := bag{}
	for _, u := range replaceRowsOf(text) {
		b.add(u.row, u.sequence, 1)
	}
	return b
}

func replaceRowsOf(text string) (out []replaceRow) {
	for _, f := range strings.Fields(text) {
		u := replaceRow{row: f}
		if f[0] != '-' {
			u.sequence = int64(f[0] - '0')
		}
		out = append(out, u)
	}
	return out
}

func (b bag) text() string {
	var out []string
	for row, r := range b {
		for range r.n {
			out = append(out, row)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestReplaceRules is the table of merge-semantics 4, by hand.
func TestReplaceRules(t *testing.T) {
	const added, replaced, appended, stale, superseded, duplicate = change.Added, change.Replaced, change.Appended, change.Stale, change.Superseded, change.Duplicate
	for _, c := range []struct {
		before, batch string
		ignore        bool
		after         string
		outcomes      []change.Outcome
	}{
		{"", "5a", false, "5a", []change.Outcome{added}},
		{"", "5a 5a 4b", false, "5a 5a", []change.Outcome{added, added, superseded}},
		{"4a 4b", "4c 5a", false, "5a", []change.Outcome{superseded, replaced}},
		{"5a", "5a 5b", false, "5a 5a 5b", []change.Outcome{appended, appended}},
		{"5a", "5a 5b", true, "5a 5b", []change.Outcome{duplicate, appended}},
		{"5a", "5b 5b", true, "5a 5b 5b", []change.Outcome{appended, appended}},
		{"5a", "6a 6a", true, "6a 6a", []change.Outcome{replaced, replaced}},
		{"5a 5b", "3a 4a", false, "5a 5b", []change.Outcome{superseded, stale}},
		{"3a 5b", "5c", false, "3a 5b 5c", []change.Outcome{appended}}, // adopted: not of our making
		{"3a 5b", "6c", false, "6c", []change.Outcome{replaced}},
	} {
		name := fmt.Sprintf("%s + %s %v", c.before, c.batch, c.ignore)
		before, batch := bagOf(c.before), replaceRowsOf(c.batch)
		kept := maps.Clone(before)
		if got := foldReplace(before, batch, c.ignore).text(); got != c.after {
			t.Errorf("%s: %s, want %s", name, got, c.after)
		}
		if diff := cmp.Diff(c.outcomes, replaceOutcomes(before, batch, c.ignore)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !maps.Equal(kept, before) {
			t.Errorf("%s: the rows before were changed", name)
		}
		if !lawfulReplace(before, bagOf(c.after)) {
			t.Errorf("%s: %s is not taken as lawful", name, c.after)
		}
	}
}

func TestUnlawfulReplace(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{"5a 5b", "5a"},
		{"5a", "5b"},
		{"5a", "5a 4b"},
		{"5a", "5a 6b"},
		{"5a 5b", "6c 5b"},
		{"5a", "6b 7c"},
		{"", "1a 2b"},
		{"5a 5b", "5a 5c"},
		{"3a 5b", "5b"},
		{"5a 5a", "5a"},
	} {
		if lawfulReplace(bagOf(c.before), bagOf(c.after)) {
			t.Errorf("%s to %s is taken as lawful", c.before, c.after)
		}
	}
}
