// Package change holds the words of the guarded merge as types: an operation, a
// status, an outcome, the roles of a table's columns, and the records that a commit
// carries about the batch behind it. It holds no rules of reduction or decision: merge
// and the audit each implement those on their own and share only these names
// (docs/merge-semantics.md, "the two share only types").
//
// The nouns: a change is one input row; a batch is the input of one run; an Outcome says
// what became of a change; Roles say which columns of a state table are key, version,
// status and payload, and live in the table's configuration under deltafold.*; Flags and
// Counts live in the tags of a commitInfo.
//
// # Errors
//
// A table property that is damaged or contradicts another is a *PropertyError that names
// it.
package change
