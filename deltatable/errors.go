package deltatable

import (
	"fmt"
	"time"

	"github.com/deltafold/deltafold/deltatable/internal/datafile"
	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// ErrNoTable means that there is no Delta table at the store's root.
var ErrNoTable = deltalog.ErrNoTable

type (
	// UnsupportedFeatureError names a table feature that is refused (I8).
	UnsupportedFeatureError = feature.UnsupportedError
	// VersionRangeError says that a version is not there, and which are.
	VersionRangeError = deltalog.VersionRangeError
	// CorruptError says that the log is damaged.
	CorruptError = deltalog.CorruptError
	// DamagedFileError says that a data file's bytes are not what a Parquet writer wrote.
	DamagedFileError = datafile.DamagedError
	// MismatchError says that a data file stores a column as something that the
	// table's type cannot take.
	MismatchError = datafile.MismatchError
	// ValueError says that a value may not be written to a column.
	ValueError = datafile.ValueError
)

// TimeRangeError says that a time is outside the range that versions can be
// read at: before the first readable version, or in the future.
type TimeRangeError struct {
	Asked, Earliest, Latest, Now   time.Time
	EarliestVersion, LatestVersion Version
}

func (e *TimeRangeError) Error() string {
	const form = "2006-01-02T15:04:05.000000Z07:00"
	why := "is before the first readable version"
	if e.Asked.After(e.Now) {
		why = "is in the future"
	}
	return fmt.Sprintf("time %s %s: the table can be read from %s (version %d) to now; its last commit is of %s (version %d)",
		e.Asked.UTC().Format(form), why, e.Earliest.UTC().Format(form), e.EarliestVersion, e.Latest.UTC().Format(form), e.LatestVersion)
}

// MissingFileError says that a data file which a version names is not there.
type MissingFileError struct {
	Version Version
	Path    string // as in the log
}

func (e *MissingFileError) Error() string {
	return fmt.Sprintf("version %d needs data file %q, which is not there: removed, perhaps by vacuum", e.Version, e.Path)
}

// ColumnError names a column that the table does not have, or has more than once
// under the spelling given. Without a Column it is about all of them.
type ColumnError struct {
	Column string
	Msg    string
}

func (e *ColumnError) Error() string {
	if e.Column == "" {
		return e.Msg
	}
	return fmt.Sprintf("column %q: %s", e.Column, e.Msg)
}

// ConflictError says that another commit took the version of an attempt.
// Nothing of the attempt was or will be committed.
type ConflictError struct {
	Version Version // the version that was lost
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("version %d was committed by another writer", e.Version)
}

// UndecidedError says that it is not known whether a commit landed: the store
// never answered. Version and TxnID tell where to look for it, and by what.
type UndecidedError struct {
	Version Version
	TxnID   string
	Err     error // the last answer
}

func (e *UndecidedError) Error() string {
	return fmt.Sprintf("it is not known whether transaction %s landed as version %d: %v", e.TxnID, e.Version, e.Err)
}

func (e *UndecidedError) Unwrap() error { return e.Err }

// RetryError says that conflicts outlasted the retries. Nothing was committed.
type RetryError struct {
	Attempts int
	Took     time.Duration
	Err      error // the last conflict
}

func (e *RetryError) Error() string {
	return fmt.Sprintf("gave up after %d attempts in %s: %v", e.Attempts, e.Took.Round(time.Millisecond), e.Err)
}

func (e *RetryError) Unwrap() error { return e.Err }

// AppendOnlyError says that a commit would take rows out of a table whose
// property delta.appendOnly is true (PROTOCOL.md "Append-only Tables").
type AppendOnlyError struct {
	Path string // a file that was to be removed
}

func (e *AppendOnlyError) Error() string {
	return fmt.Sprintf("the table is append-only (delta.appendOnly), and the commit removes %q", e.Path)
}

// CommitError says that a commit's content breaks a rule of the log and was
// not attempted (PROTOCOL.md "Actions", protocol constraints of one commit).
type CommitError struct {
	Msg string
}

func (e *CommitError) Error() string { return "commit refused: " + e.Msg }
