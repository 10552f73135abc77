// Package feature is the registry of table features: what deltafold reads, what it
// writes, and what it refuses by name before anything happens (I8).
//
// A feature is supported by a table when its protocol lists it, or implies it by a
// legacy version (PROTOCOL.md "Table Features"); it is active when a table property
// or the schema uses it. [CheckRead] and [CheckWrite] refuse what is supported and
// not handled, and what is active and not handled. [ForNewTable] gives the smallest
// protocol for a new table. The properties that several rooms need are parsed here too.
//
// # Errors
//
// [UnsupportedError] names all the features that stand in the way, in one error.
package feature
