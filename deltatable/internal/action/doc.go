// Package action holds the actions of the Delta log and their JSON form.
//
// A log entry (commit file) is newline-delimited JSON; each line is an object whose
// one member names the action: add, remove, metaData, protocol, txn, domainMetadata,
// commitInfo, cdc, and in log checkpoints checkpointMetadata and sidecar
// (PROTOCOL.md "Actions"). [Decode] reads an entry tolerantly, [Encode] writes one
// strictly and deterministically.
//
// A data file's identity is a [FileKey]: the path as written, with only absolute
// forms normalised, together with its deletion vector (I3).
//
// # Caveats
//
// Integers are exact; no number passes through float64 (I7). Actions are values to
// read: maps may be shared between actions that came from one entry, so a caller
// that wants to change a map makes a new one.
//
// # Errors
//
// [DecodeError] is damage in stored data and names the line. [Encode] fails on an
// action that must not be written; nothing else returns errors.
package action
