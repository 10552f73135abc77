// Package schema holds Delta table schemas: their JSON form in the log, their
// SQL text form, their canonical Arrow form, and what hangs on types alone:
// the spelling of partition values and of paths.
//
// Its nouns: a [Schema] is a list of [Field]s, a field has a [Type]. The
// canonical Arrow type of each Delta type is fixed (see [Type.Arrow]), and
// every reader of deltafold yields exactly these.
//
// # Errors
//
// Text that does not parse gives an error that names the place. A type that
// exists in Delta but that deltafold does not hold (variant, interval,
// geometry and the like) parses, so that a table's other properties can be
// looked at, and is refused by [*UnsupportedTypeError] when the Arrow form is
// asked for (I8).
//
// # Concurrency
//
// All values are immutable once made and safe for concurrent use.
package schema
