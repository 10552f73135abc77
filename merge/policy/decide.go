package policy

import (
	"fmt"

	"github.com/deltafold/deltafold/merge/change"
)

// Comparison is the order of the candidate's version u against the stored version s.
type Comparison int8

// The orders of two versions. They equal the results of cmp.Compare(u, s).
const (
	Less    Comparison = -1
	Equal   Comparison = 0
	Greater Comparison = 1
)

// Candidate is the kind of what one key asks for in a batch, after Reduce. The zero value
// is no candidate.
type Candidate uint8

// The kinds of candidates (merge-semantics 3.1).
const (
	Upsert Candidate = iota + 1
	Delete
	// Conflict is a candidate whose rows contradict each other; its payload is NULL.
	Conflict
)

// CandidateOf gives the candidate of rows that all say op.
func CandidateOf(op change.Op) Candidate {
	switch op {
	case change.Upsert:
		return Upsert
	case change.Delete:
		return Delete
	}
	panic(fmt.Sprintf("bug: no candidate of %v", op))
}

// Write is the row that takes the place of the key's stored row, always at the candidate's
// version.
type Write uint8

// What is written for a key.
const (
	// WriteNone leaves what is stored, or its absence, as it is.
	WriteNone Write = iota
	// WriteActive stores the candidate's payload.
	WriteActive
	// WriteTombstone stores a deleted row, payload NULL.
	WriteTombstone
	// WriteConflict stores a conflict row, payload NULL.
	WriteConflict
)

// Verdict is what becomes of a candidate.
type Verdict struct {
	// Outcome is the outcome of all rows of the candidate. Under change.Reject, if Refuse,
	// it is the reason why the batch is refused.
	Outcome change.Outcome
	// Write is what is stored afterwards; WriteNone when Refuse.
	Write Write
	// Refuse says that the whole batch is refused (merge-semantics 3.2).
	Refuse bool
}

// NeedsPayload reports whether Decide would ask for the payload comparison: only then has
// the payload of the stored row to be read.
func NeedsPayload(stored change.Status, versions Comparison, c Candidate) bool {
	return stored == change.Active && versions == Equal && c == Upsert
}

// Decide gives the row of the table of merge-semantics 3.1 for a candidate against the
// stored row, under a policy (3.2). stored is zero for no stored row, and versions is then
// not looked at. samePayload is called only where NeedsPayload is true, at most once; it
// may be nil elsewhere. A value outside the enumerations is a bug and panics.
//
// Under change.Reject, rows of a batch that contradict each other below the key's highest
// version are not a candidate's: Reduce reports them.
func Decide(
	p change.Policy, stored change.Status, versions Comparison, c Candidate, samePayload func() bool,
) Verdict {
	v := decide(stored, versions, c, samePayload)
	switch p {
	case change.Quarantine:
		return v
	case change.Reject:
		if c == Conflict {
			// Whatever is stored, and stale or not: the batch contradicts itself.
			return Verdict{Outcome: change.Contradiction, Refuse: true}
		}
		if v.Outcome == change.Conflicted {
			return Verdict{Outcome: change.Conflicted, Refuse: true}
		}
		return v
	}
	panic(fmt.Sprintf("bug: policy %q", p))
}

func decide(stored change.Status, versions Comparison, c Candidate, samePayload func() bool) Verdict {
	if c < Upsert || c > Conflict {
		panic(fmt.Sprintf("bug: candidate %d", c))
	}
	switch stored {
	case 0:
		return newer(c)
	case change.Active, change.Deleted, change.Conflict:
	default:
		panic(fmt.Sprintf("bug: stored %v", stored))
	}
	switch {
	case versions < Equal:
		return Verdict{Outcome: change.Stale}
	case versions > Equal:
		return newer(c)
	}
	switch {
	case stored == change.Conflict:
		return Verdict{Outcome: change.Conflicted}
	case stored == change.Deleted && c == Delete:
		return Verdict{Outcome: change.Duplicate}
	case stored == change.Active && c == Upsert && samePayload():
		return Verdict{Outcome: change.Duplicate}
	}
	return Verdict{Outcome: change.Conflicted, Write: WriteConflict}
}

// newer is the verdict on a candidate that nothing stored stands against.
func newer(c Candidate) Verdict {
	switch c {
	case Upsert:
		return Verdict{Outcome: change.Accepted, Write: WriteActive}
	case Delete:
		return Verdict{Outcome: change.Accepted, Write: WriteTombstone}
	case Conflict:
	}
	return Verdict{Outcome: change.Conflicted, Write: WriteConflict}
}
