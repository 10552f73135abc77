// Package datafile writes and reads the Parquet files of a table's data.
//
// A [Writer] makes one file and, while it does, the statistics for its add
// action, from the data itself and never from the footer. A [File] is a file
// opened for reading under the table's schema: whatever layout its writer chose
// (INT96 or INT64 timestamps, decimals in four forms, lists of two and three
// levels, other column order and case, missing columns), it yields the canonical
// Arrow types of package schema, with exact row positions. [StatsBounds] reads the
// statistics of an add action, whoever wrote them.
//
// Reading does not go through pqarrow: that fails on INT96 outside 1677 to 2262,
// decides types from the file rather than from the table, and is slower. Columns
// are decoded by the low-level column readers and put together here.
//
// # Errors
//
// [*DamagedError] says that stored bytes are not a Parquet file that can be read
// (a panic of the Parquet library on such bytes becomes one), [*MismatchError]
// that a column's stored type is not the table's, [*ValueError] that a value may
// not be written.
//
// # Concurrency
//
// A Writer belongs to one goroutine. A File is safe for concurrent use, as are
// several reads of it, if its io.ReaderAt is.
package datafile
