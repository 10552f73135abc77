// Package merge folds one batch of rows into a Delta table as one commit.
//
// [Run] is the guarded merge of versioned changes (merge-semantics 1 to 3): it
// takes a [Job] (a table, a batch in Arrow, the roles of the columns) and gives
// a [Result]: every row's outcome and the version that was made, if any.
// [Replace] is REPLACE USING (merge-semantics 4), [Into] is MERGE with clauses
// (merge-semantics 5). The three are modes of one engine (engine.go): a mode
// plans on a snapshot, the engine packs and writes (outputs.go, write.go),
// commits, and has a lost plan carried over to the winners' snapshot
// (obligations R1 to R9).
//
// In the guarded merge, in the order of ARCHITECTURE.md "The life of a batch",
// rows are checked (validity.go), reduced to one candidate per key (reduce.go),
// looked up in the files that may hold their keys (probe.go) and decided by
// [github.com/deltafold/deltafold/merge/policy].
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
// break the rules. [CardinalityError] and [ValueError]: a MERGE statement does not
// fit the rows. [ErrTableChanged]: another writer changed the table's
// schema, protocol or properties; read the batch again and start over.
// [deltatable.UndecidedError]: it is not known whether the commit landed. Any
// other error: nothing was committed.
package merge
