// Package policy decides what a guarded merge does with a change, as pure functions of
// small values: no storage, no Arrow, no time. Reduce picks the candidate of one key among
// its rows in a batch (merge-semantics 3.1); Decide puts the candidate against the stored
// row (merge-semantics 3.1 and 3.2). The cases are listed in testdata as text.
//
// The audit never uses this package: it implements the rules a second time (I6).
package policy
