package checkpoints

import (
	"maps"

	"github.com/deltafold/deltafold/merge/change"
)

// The rules of REPLACE USING (merge-semantics 4) read as what single rows do, one after
// the other, as fold.go reads those of the guarded merge.

// replaceRow is one row of a batch in mode replace.
type replaceRow struct {
	dropped  change.Outcome // by an expectation: the row does not count; "" if it does
	key      string         // form of the key columns
	sequence any            // as versionValue gives it; nil for NULL
	row      string         // form of every other column, the sequence first
}

// bag is the multiset of rows of one key, by the form of the rows.
type bag map[string]rowsAlike

// rowsAlike are the equal rows of a bag, which have one sequence.
type rowsAlike struct {
	sequence any
	n        int
}

func (b bag) add(row string, sequence any, n int) {
	if now := b[row].n + n; now != 0 {
		b[row] = rowsAlike{sequence, now}
	} else {
		delete(b, row)
	}
}

// top is the highest sequence of the rows; nil where none has one.
func (b bag) top() (top any) {
	for _, r := range b {
		if r.sequence != nil && (top == nil || compareSequence(r.sequence, top) > 0) {
			top = r.sequence
		}
	}
	return top
}

// hasNull says whether a row's sequence is NULL.
func (b bag) hasNull() bool {
	for _, r := range b {
		if r.sequence == nil {
			return true
		}
	}
	return false
}

// less is b without the rows of o.
func (b bag) less(o bag) bag {
	out := bag{}
	maps.Copy(out, b)
	for row, r := range o {
		out.add(row, r.sequence, -r.n)
	}
	return out
}

func compareSequence(a, b any) int { return compareVersions([]any{a}, []any{b}) }

// foldReplace gives the rows of one key after its rows of a batch, of which none is NULL
// in the sequence or dropped. Ties that before has already are left out where ignore says
// so.
func foldReplace(before bag, batch []replaceRow, ignore bool) bag {
	after, top := maps.Clone(before), before.top()
	for _, u := range batch {
		order := 1
		if top != nil {
			order = compareSequence(u.sequence, top)
		}
		switch {
		case order > 0:
			after, top = bag{u.row: {u.sequence, 1}}, u.sequence
		case order == 0 && (!ignore || before[u.row].n == 0):
			after.add(u.row, u.sequence, 1)
		}
	}
	return after
}

// replaceOutcomes gives the outcomes of the rows that foldReplace took.
func replaceOutcomes(before bag, batch []replaceRow, ignore bool) []change.Outcome {
	was := before.top()
	var newest any
	for _, u := range batch {
		if newest == nil || compareSequence(u.sequence, newest) > 0 {
			newest = u.sequence
		}
	}
	out := make([]change.Outcome, len(batch))
	for i, u := range batch {
		switch {
		case compareSequence(u.sequence, newest) < 0:
			out[i] = change.Superseded
		case was == nil:
			out[i] = change.Added
		case compareSequence(newest, was) > 0:
			out[i] = change.Replaced
		case compareSequence(newest, was) < 0:
			out[i] = change.Stale
		case ignore && before[u.row].n > 0:
			out[i] = change.Duplicate
		default:
			out[i] = change.Appended
		}
	}
	return out
}

// lawfulReplace says whether some batch can have made after of before (merge-semantics 4):
// nothing changed, rows joined those at the key's highest sequence, or rows of one higher
// sequence took the place of all. Rows with a NULL sequence are a matter of their own.
func lawfulReplace(before, after bag) bool {
	gone, came := before.less(after), after.less(before)
	var at any
	for row, r := range came {
		switch {
		case r.n < 0: // of gone
			delete(came, row)
		case r.sequence == nil:
			return true // reported as such
		case at != nil && compareSequence(at, r.sequence) != 0:
			return false
		default:
			at = r.sequence
		}
	}
	lost := false
	for _, r := range gone {
		lost = lost || r.n > 0
	}
	was := before.top()
	switch {
	case len(came) == 0:
		return !lost
	case was == nil:
		return true
	case compareSequence(at, was) == 0:
		return !lost
	case compareSequence(at, was) < 0:
		return false
	}
	for row, r := range before { // a higher sequence: every row before it must be gone
		if after[row].n > 0 && r.n > 0 {
			return false
		}
	}
	return true
}
