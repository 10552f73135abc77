// Package rows puts Arrow rows together and compares them: the two things
// that a merge does to values.
//
// [Gather] builds one array out of chosen rows of several; [Equal] is payload
// equality of merge-semantics 1, [AppendForm] the same as bytes, for hash tables.
// All know every type of a Delta table.
package rows
