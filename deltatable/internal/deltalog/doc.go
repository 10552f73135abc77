// Package deltalog reads and writes the Delta log of a table: names, listing, log
// entries, replay to a [State], and log checkpoints (PROTOCOL.md "Delta Table
// Specification", "Checkpoints").
//
// [Load] lists the log from the newest usable log checkpoint on, reads that
// checkpoint and the entries after it, and replays them newest first: the first
// action seen of each logical file (path and deletion vector), of the protocol, the
// metadata, each application and each domain wins. [Next] does the same on top of an
// earlier state and reads only what is new. [WriteCheckpoint] writes a state down.
//
// # Caveats
//
// A state holds every live file in memory, with its statistics. The hint
// _last_checkpoint, log compactions and version checksums are never trusted: the
// first only says where to list from, the others are not read. Classic log
// checkpoints of one or several parts are read; V2 ones are refused by name, and
// only when no other way leads to the version asked for.
//
// # Errors
//
// [ErrNoTable], [VersionRangeError] for versions that are not there, [CorruptError]
// for a damaged log, feature.UnsupportedError for V2 log checkpoints. Everything else
// comes from the store and says nothing of the table (I4).
package deltalog
