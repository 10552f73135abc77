package checkpoints

import (
	"github.com/deltafold/deltafold/merge/change"
)

// The fold: merge-semantics 3.1 read as what single changes do, one after the other. There
// is no reduction here. That a batch reduced and decided as a whole comes to the same is
// law 1, and the audit's point.

// stored is the state of one key.
type stored struct {
	version []any
	status  change.Status
	payload string // form of the payload columns
}

// input is one row of a batch: invalid says why it does not count, "" if it does. A row that
// an expectation dropped has no key.
type input struct {
	invalid change.Outcome // also where an expectation dropped it
	key     string         // form of the key columns
	version []any
	op      change.Op
	payload string
}

// fold holds the rows of some keys. noPayload is the form of an all-NULL payload.
type fold struct {
	rows      map[string]stored
	noPayload string
}

// apply takes one valid change.
func (f *fold) apply(u input) {
	s, found := f.rows[u.key]
	order := 1
	if found {
		order = compareVersions(u.version, s.version)
	}
	switch {
	case order < 0: // an older change: what is stored stays
	case order > 0 && u.op == change.Delete:
		f.rows[u.key] = stored{u.version, change.Deleted, f.noPayload}
	case order > 0:
		f.rows[u.key] = stored{u.version, change.Active, u.payload}
	case f.repeats(u, s): // the same change again
	default: // the same version says two things, or did before
		f.rows[u.key] = stored{s.version, change.Conflict, f.noPayload}
	}
}

// repeats says whether s is what u, of the same version, asks for.
func (f *fold) repeats(u input, s stored) bool {
	if u.op == change.Delete {
		return s.status == change.Deleted
	}
	return s.status == change.Active && s.payload == u.payload
}

// folded is what a batch does to the keys it has.
type folded struct {
	after    map[string]stored
	outcomes []change.Outcome // of each input
}

// foldBatch applies the batch to before, the rows stored for its keys. before is not
// changed.
func foldBatch(before map[string]stored, batch []input, noPayload string) folded {
	f := fold{rows: make(map[string]stored, len(before)), noPayload: noPayload}
	for k, s := range before {
		f.rows[k] = s
	}
	newest := map[string][]any{}
	for _, u := range batch {
		if u.invalid != "" {
			continue
		}
		f.apply(u)
		if v, ok := newest[u.key]; !ok || compareVersions(u.version, v) > 0 {
			newest[u.key] = u.version
		}
	}
	out := folded{after: f.rows, outcomes: make([]change.Outcome, len(batch))}
	for i, u := range batch {
		if u.invalid != "" {
			out.outcomes[i] = u.invalid
			continue
		}
		s, had := before[u.key]
		out.outcomes[i] = outcomeOf(u, newest[u.key], f.rows[u.key], s, had)
	}
	return out
}

// outcomeOf reads the outcome of a valid row from what its key was and became
// (merge-semantics 3.1, the table's fourth column).
func outcomeOf(u input, newest []any, after, before stored, had bool) change.Outcome {
	switch {
	case compareVersions(u.version, newest) < 0:
		return change.Superseded
	case had && compareVersions(u.version, before.version) < 0:
		return change.Stale
	case after.status == change.Conflict:
		return change.Conflicted
	case had && compareVersions(u.version, before.version) == 0:
		return change.Duplicate
	}
	return change.Accepted
}

// contradictions lists the inputs whose key and version another input has with other
// content, at any version: policy reject refuses their batch (merge-semantics 3.2).
func contradictions(batch []input) []int {
	type content struct {
		op      change.Op
		payload string
	}
	contentOf := func(u input) content {
		if u.op == change.Delete {
			return content{op: u.op}
		}
		return content{u.op, u.payload}
	}
	first, split := map[string]content{}, map[string]bool{}
	for _, u := range batch {
		if u.invalid != "" {
			continue
		}
		at := u.key + versionForm(u.version)
		if c, ok := first[at]; !ok {
			first[at] = contentOf(u)
		} else if c != contentOf(u) {
			split[at] = true
		}
	}
	var out []int
	for i, u := range batch {
		if u.invalid == "" && split[u.key+versionForm(u.version)] {
			out = append(out, i)
		}
	}
	return out
}
