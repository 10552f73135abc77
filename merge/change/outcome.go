package change

import "strings"

// Outcome says what became of one input row: what the input meant, not what was
// physically written (merge-semantics 2 to 3). The outcomes table stores it as text.
type Outcome string

// Outcomes of rows that are not valid (merge-semantics 2); InvalidKey gives those of key
// columns.
const (
	InvalidChangeID  Outcome = "invalid_change_id"
	InvalidVersion   Outcome = "invalid_version"
	InvalidOperation Outcome = "invalid_operation"
	InvalidPayload   Outcome = "invalid_payload"
)

// Outcomes of valid rows (merge-semantics 3.1).
const (
	// Accepted rows are what is stored now, as an active row or a tombstone.
	Accepted Outcome = "accepted"
	// Conflicted rows contradict another row, stored or in the batch, of the same key and
	// version; under policy reject it is the reason of a row that contradicts a stored one.
	Conflicted Outcome = "conflict"
	// Stale rows are older than what is stored.
	Stale Outcome = "stale"
	// Duplicate rows repeat what is stored.
	Duplicate Outcome = "duplicate"
	// Superseded rows are older than another row of their key in the batch.
	Superseded Outcome = "superseded_in_batch"
)

// Outcomes of whole batches (merge-semantics 3.2 and 6).
const (
	// Contradiction is the reason of two rows of one batch with one key and version but
	// different content, under policy reject.
	Contradiction Outcome = "contradiction"
	// BatchRefused is given to the rows of a refused batch that did not cause it.
	BatchRefused Outcome = "batch_refused"
	// AlreadyApplied is given to every row of a batch whose transaction identifier is
	// recorded already.
	AlreadyApplied Outcome = "already_applied"
)

// InvalidKey is the outcome of a row whose key column of this name is NULL or blank
// (merge-semantics 2): invalid_<column>, or invalid_key_<column> where that would read as
// another outcome.
func InvalidKey(column string) Outcome {
	switch column {
	case "change_id", "version", "operation", "payload":
		return Outcome("invalid_key_" + column)
	}
	return Outcome("invalid_" + column)
}

// Invalid reports whether o says that the row was not valid.
func (o Outcome) Invalid() bool { return strings.HasPrefix(string(o), "invalid_") }

// Culprit reports whether o names a reason for which a batch can be refused
// (merge-semantics 3.2): such rows are shown first.
func (o Outcome) Culprit() bool {
	return o.Invalid() || o == Contradiction || o == Conflicted || o == FailedExpectation
}
