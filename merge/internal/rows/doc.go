// Package rows puts Arrow rows together and compares them: the two things
// that a merge does to values.
//
// [Gather] builds one array out of chosen rows of several; [Equal] is payload
// equality of merge-semantics 1. Both know every type of a Delta table.
package rows
