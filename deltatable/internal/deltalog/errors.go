package deltalog

import (
	"errors"
	"fmt"
)

// ErrNoTable says that there is no log entry and no log checkpoint: no table.
var ErrNoTable = errors.New("no Delta table: the log is empty or absent")

// VersionRangeError says that a version is not one of those that can be read.
type VersionRangeError struct {
	// Asked lies outside of Earliest to Latest.
	Asked, Earliest, Latest Version
}

// Error names the three versions.
func (e *VersionRangeError) Error() string {
	return fmt.Sprintf("version %d does not exist: the versions that can be read are %d to %d", e.Asked, e.Earliest, e.Latest)
}

// CorruptError says that the stored log is damaged, or misses what the version needs:
// a hole in the versions, no protocol or metadata, an unreadable entry, or a log
// checkpoint that cannot be read where nothing else can take its place.
type CorruptError struct {
	// Key is the file of the log that is damaged or missing; "" if it is none in particular.
	Key string
	// Version is the version that cannot be built because of it.
	Version Version
	// Reason says what is wrong.
	Reason string
	// Err is the cause; may be nil.
	Err error
}

// Error names the file, the version and the cause.
func (e *CorruptError) Error() string {
	s := fmt.Sprintf("damaged log at version %d: ", e.Version)
	if e.Key != "" {
		s += e.Key + ": "
	}
	s += e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }
