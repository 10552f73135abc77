package change

import "fmt"

// Op is what a change asks for (merge-semantics 1). The zero value is no operation.
type Op uint8

// The operations of a change.
const (
	// Upsert stores the change's payload as the active row of its key.
	Upsert Op = iota + 1
	// Delete stores a tombstone for the key.
	Delete
)

// String gives the operation's default word, "upsert" or "delete".
func (o Op) String() string {
	switch o {
	case Upsert:
		return "upsert"
	case Delete:
		return "delete"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Status is what a state row says of its key (merge-semantics 1). The zero value is no
// status: there is no stored row.
type Status uint8

// The statuses of a state row.
const (
	// Active rows carry a payload; only they are in the active view.
	Active Status = iota + 1
	// Deleted rows are tombstones: their payload is NULL, they refuse older changes.
	Deleted
	// Conflict rows stand for a key and version delivered with two contents.
	Conflict
)

// String gives the word that a string status column stores.
func (s Status) String() string {
	switch s {
	case Active:
		return "active"
	case Deleted:
		return "deleted"
	case Conflict:
		return "conflict"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// ParseStatus reads the word of a string status column, compared byte for byte. Anything
// else is not a status: the table breaks the rules (merge-semantics 1).
func ParseStatus(word string) (Status, bool) {
	switch word {
	case "active":
		return Active, true
	case "deleted":
		return Deleted, true
	case "conflict":
		return Conflict, true
	}
	return 0, false
}

// Mode is the guard that a table says it is under (merge-semantics 8).
type Mode string

// The modes of a table.
const (
	// Plain tables have no guard; a table without deltafold.mode is plain.
	Plain Mode = "plain"
	// Guarded tables hold one row per key and take guarded merges.
	Guarded Mode = "guarded"
	// Replace tables hold any number of rows per key and take REPLACE USING.
	Replace Mode = "replace"
)

// Policy says what a contradiction does to its batch (merge-semantics 3.2).
type Policy string

// The conflict policies.
const (
	// Quarantine stores a conflict row and goes on; it is the default.
	Quarantine Policy = "quarantine"
	// Reject refuses the whole batch.
	Reject Policy = "reject"
)

// StatusForm says how a state table stores the status of a row (merge-semantics 1).
type StatusForm string

// The forms of a status.
const (
	// StatusWord is a string column of the words active, deleted and conflict.
	StatusWord StatusForm = "word"
	// StatusBoolean is a boolean column, true for a tombstone; it cannot store a conflict.
	StatusBoolean StatusForm = "boolean"
	// StatusNone is no column at all; it can store neither conflict nor deletion.
	StatusNone StatusForm = "none"
)

// CanStore reports whether a table of this form can hold a row of status s.
func (f StatusForm) CanStore(s Status) bool {
	switch f {
	case StatusWord:
		return s == Active || s == Deleted || s == Conflict
	case StatusBoolean:
		return s == Active || s == Deleted
	case StatusNone:
		return s == Active
	}
	return false
}

// Check is one of the validity checks that --no-check can switch off (merge-semantics 2).
type Check string

// The checks that can be switched off.
const (
	// CheckChangeID refuses a NULL, empty or blank change id.
	CheckChangeID Check = "change_id"
	// CheckMinVersion refuses versions below the minimum.
	CheckMinVersion Check = "min_version"
	// CheckEmptyUpsert refuses an upsert whose payload columns are all NULL.
	CheckEmptyUpsert Check = "empty_upsert"
	// CheckDeletePayload refuses a payload beside a delete word.
	CheckDeletePayload Check = "delete_payload"
)

// Checks lists every check that can be switched off, in the order of merge-semantics 2.
func Checks() []Check {
	return []Check{CheckChangeID, CheckMinVersion, CheckEmptyUpsert, CheckDeletePayload}
}
