// Package changefile reads the inputs of a run, JSON Lines, CSV, Parquet and
// Arrow files, into Arrow batches of canonical types, strictly: a row that cannot be stored
// exactly as it was meant fails the read, with file, line, column and value.
//
// Its nouns: a [Source] is a named stream of bytes; [Read] turns one Source
// into a [File], which holds the parsed rows and says which columns the input
// had; [Digest] names a batch of files by its rows alone.
//
// # JSON Lines
//
// One object a line. Lines of nothing but spaces are skipped, a byte order
// mark at the very start of the file is skipped, everything else must be JSON
// by RFC 8259 with the strictness of RFC 7493: no invalid UTF-8, no lone
// surrogate, no name twice in one object. An object that continues on the next
// line is refused, as is anything behind it on its own line. Names match the
// columns case-insensitively (lower-case forms are compared, as for struct
// fields); two names of one object that match the same column are refused. A
// column that a row does not name is NULL in it.
//
//	boolean                     true, false
//	byte, short, integer, long  a JSON integer that fits; never 1.0, 1e3 or "1"
//	float, double               a JSON number, rounded to the nearest value but
//	                            never to an infinity; "NaN", "Infinity", "-Infinity"
//	decimal(p,s)                a JSON number, or a string that holds one, whose
//	                            exact value fits; digits beyond the scale must be zeros
//	string                      a JSON string
//	binary                      a string of lower-case hexadecimal digits
//	date                        "YYYY-MM-DD"
//	timestamp                   "YYYY-MM-DDTHH:MM:SS[.ffffff]Z", or an offset
//	                            ±HH:MM in place of Z; a space in place of T; no zone
//	                            only where [Options.Zone] is given
//	timestamp_ntz               the same without a zone
//	void                        null
//	array                       a JSON array
//	struct                      a JSON object, under the rules of the row
//	map                         {"$map":[[key,value],…]}; no key twice
//
// Fractions of a second may have any number of digits; those below the
// microsecond must be zeros. Years outside 0000 to 9999 carry a sign and at
// least four digits ("+10000-01-01", "-0044-03-15"). null is NULL for every
// type; where a nested field, element or map value is declared not null, null
// is refused. At the top level it is not: whether a NULL key or payload is
// lawful is decided by merge-semantics 2, row by row.
//
// # CSV
//
// RFC 4180, with LF as a line end beside CRLF: a header that names the columns,
// matched as in JSON Lines, then one record a row with as many fields as the
// header. An empty field is NULL, "" is the empty string (or binary). A byte order
// mark at the start is skipped, and so is a line with nothing on it, except in a
// file of one column, where it is NULL. Spaces belong to their field. A quote
// inside a field that is not quoted, text behind a closing quote and a carriage
// return outside quotes that does not end a line are refused.
//
// The values are those of JSON Lines without the quotes: true and false, the
// number, NaN, Infinity, -Infinity, the string itself, the date, the timestamp,
// the hexadecimal digits; arrays, structs and maps as their JSON text on one line.
//
// # Parquet and Arrow
//
// Arrow files may be IPC files or streams, with or without compression; a stream
// must have its end marker, since it could have been cut otherwise. The columns are matched by name, case-insensitively. Types are converted only
// where no value can be lost by the type (integers, floats and decimals to wider
// ones, large, view and dictionary forms to plain ones, seconds and milliseconds
// to microseconds) or where each value is checked (nanoseconds whose digits
// below the microsecond are zeros, date64); anything else is refused by the
// names of column and types. The rules about zones, UTF-8, nested nulls and map
// keys are those of JSON Lines.
//
// # Errors
//
// Whatever is wrong with the content of an input is an [*InputError]; it names
// the first offending place and nothing is returned beside it. Errors of the
// store and of the context are returned as they are, with the file's name added.
package changefile
