// Package deltatable reads and writes Delta tables: state at a version,
// rows by projection and predicate, new data files, and commits that either
// land once or not at all. It knows nothing of merging; package merge and any
// other writer of row-level changes is built on what is exported here.
//
// # Nouns
//
//   - [Table] is a handle: a store and options. It holds no state of the table,
//     so no commit can make it stale.
//   - [Snapshot] is the immutable state at one [Version]: protocol, metadata,
//     live files with statistics, transaction identifiers. A newer state is
//     asked for anew ([Table.Refresh]).
//   - [Layout] is the shape of rows of a table: schema, partition columns, which
//     columns have statistics; [Partition] is one combination of partition values.
//   - [FileReader] and [FileWriter] read and write single data files;
//     [Snapshot.Scan] reads all live rows.
//   - [Commit] is the content of one log entry to be. [Table.TryCommit] makes one
//     attempt and reports who won; [Transaction] retries by the conflict matrix of
//     optimistic concurrency. [Classify] says what winners changed.
//   - [Entry] is a log entry read back; [Table.History] lists them.
//
// # Errors
//
// Callers act on types: [ErrNoTable], [VersionRangeError], [TimeRangeError],
// [CorruptError], [UnsupportedFeatureError], [MissingFileError], [ColumnError],
// [ConflictError], [TransactionConflictError], [RetryError], [UndecidedError],
// [AppendOnlyError], [ValueError], [CommitError],
// [DamagedFileError], [MismatchError], [PropertyError]. Every error of TryCommit and
// of Transaction.Commit other than UndecidedError means that nothing was
// committed and nothing will be.
//
// # Caveats
//
//   - Without in-commit timestamps the time of a version is the modification time
//     of its log entry. Copying a table changes those, and with them what
//     [Table.SnapshotAtTime] finds; versions stay right.
//   - A version whose log entries are still there may name data files that a
//     vacuum removed: the snapshot loads, reading fails with MissingFileError.
//   - Row batches handed out are owned by the garbage collector: they use Go's
//     allocator, Retain and Release may be left out.
//   - In Delta's language a checkpoint is a file of the log. This package says
//     log checkpoint throughout.
package deltatable
