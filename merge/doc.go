// Package merge folds one batch of versioned changes into a Delta table as one
// commit: the guarded merge of merge-semantics 1 to 3.
//
// [Run] takes a [Job] (a table, a batch in Arrow, the roles of the columns) and
// gives a [Result]: every row's outcome and the version that was made, if any.
// Inside, in the order of ARCHITECTURE.md "The life of a batch": rows are
// checked (validity.go), reduced to one candidate per key (reduce.go), looked
// up in the files that may hold their keys (probe.go), decided by
// [github.com/deltafold/deltafold/merge/policy], written (outputs.go, write.go)
// and committed; a lost commit is planned again as far as the winners touched
// it (rebase.go, obligations R1 to R9).
//
// # Caveats
//
// A batch is held in memory, a table is not (I9). A batch is limited to 2^31-1
// rows, and one column of the rows that one output file takes to 2 GiB.
//
// # Errors
//
// [RefusedError]: the rules refuse the batch; nothing was committed and the
// result holds the outcomes. [TargetError]: the stored rows of the batch's keys
// break the rules. [ErrTableChanged]: another writer changed the table's
// schema, protocol or properties; read the batch again and start over.
// [deltatable.UndecidedError]: it is not known whether the commit landed. Any
// other error: nothing was committed.
package merge
