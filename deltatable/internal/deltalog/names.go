package deltalog

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is the number of a commit; the first is 0.
type Version int64

const (
	dir               = "_delta_log/"
	lastCheckpointKey = dir + "_last_checkpoint"
)

// EntryKey returns the key of a log entry (PROTOCOL.md "Delta Log Entries").
func EntryKey(v Version) string { return dir + padded(v) + ".json" }

// CheckpointKey returns the key of a classic single-part log checkpoint.
func CheckpointKey(v Version) string { return dir + padded(v) + ".checkpoint.parquet" }

func padded(v Version) string { return fmt.Sprintf("%020d", int64(v)) }

// fileKind is what a name in the log stands for.
type fileKind uint8

const (
	otherFile fileKind = iota
	entryFile
	classicFile // NNN.checkpoint.parquet
	partFile    // NNN.checkpoint.OOO.PPP.parquet
	v2File      // NNN.checkpoint.<uuid>.json or .parquet
)

// logName is a parsed name.
type logName struct {
	kind        fileKind
	version     Version
	part, parts int // of a partFile, from 1
}

// parseName reads the name of a file directly in the log folder. Numbers may have any
// count of digits, as in Spark; log compactions, checksums, temporary files and
// everything unknown are otherFile (protocol notes 1.1).
func parseName(name string) logName {
	number, rest, ok := strings.Cut(name, ".")
	if !ok {
		return logName{}
	}
	v, ok := digits(number, 63)
	if !ok {
		return logName{}
	}
	n := logName{version: Version(v)}
	if rest == "json" {
		n.kind = entryFile
		return n
	}
	rest, ok = strings.CutPrefix(rest, "checkpoint.")
	if !ok {
		return logName{}
	}
	fields := strings.Split(rest, ".")
	last := fields[len(fields)-1]
	switch {
	case rest == "parquet":
		n.kind = classicFile
	case len(fields) == 3 && last == "parquet":
		part, ok1 := digits(fields[0], 31)
		parts, ok2 := digits(fields[1], 31)
		if !ok1 || !ok2 || part < 1 || part > parts {
			return logName{}
		}
		n.kind, n.part, n.parts = partFile, int(part), int(parts)
	case len(fields) == 2 && fields[0] != "" && (last == "parquet" || last == "json"):
		n.kind = v2File
	default:
		return logName{}
	}
	return n
}

// digits parses a text of ASCII digits only, of at most bits bits.
func digits(s string, bits int) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseUint(s, 10, bits)
	return int64(v), err == nil //nolint:gosec // at most 63 bits
}
