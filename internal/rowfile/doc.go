// Package rowfile writes record batches of canonical types out for people and
// programs: JSON Lines, CSV, an aligned table, Parquet and an Arrow stream.
//
// [NewWriter] makes a [Writer] of one format; [Format] and [Quote] give one
// value as text for messages.
//
// # JSON Lines
//
// One object a line, all columns in schema order, no spaces. Integers as JSON
// integers; floats as the shortest number that gives the value back in its own
// width, always with a point or an exponent, -0.0 kept, "NaN", "Infinity" and
// "-Infinity" as strings; decimals as strings with exactly their scale's digits;
// binary as lower-case hexadecimal; dates as YYYY-MM-DD; timestamps in UTC with
// six fraction digits and Z, timestamp_ntz without Z; years outside 0000 to
// 9999 with a sign; arrays and structs as such; maps as
// {"$map":[[key,value],…]} in stored order; NULL as null. Package changefile
// reads exactly this back.
//
// # CSV
//
// RFC 4180 with a header; lines end in a line feed alone, as those of most tools
// do. NULL is an empty field, the empty string is "". Values as in JSON Lines,
// without its quotes; arrays, structs and maps as JSON text.
//
// # Table
//
// For people: columns aligned, numbers to the right, NULL shown as NULL, control
// characters escaped. Widths are settled by the first rows; a longer value in a
// later row moves its own line only.
//
// # Parquet and Arrow
//
// Parquet files have format v1 pages, Snappy, row groups of at most 128k rows,
// timestamps in INT64 microseconds, three-level lists. Arrow is the IPC stream
// format.
//
// # Caveats
//
// A string that is not valid UTF-8 (other writers can make such files) fails in
// the text formats, naming its column, except in the table, which escapes it.
package rowfile
