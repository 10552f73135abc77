package datafile

import (
	"fmt"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"
)

// DamagedError is the class of errors for data files whose bytes cannot be what
// a Parquet writer wrote.
type DamagedError struct {
	File string // the name, where the io.ReaderAt has one; else empty
	Msg  string
	Err  error // may be nil
}

func (e *DamagedError) Error() string {
	msg := "the data file is damaged"
	if e.File != "" {
		msg = fmt.Sprintf("the data file %q is damaged", e.File)
	}
	msg += ": " + e.Msg
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

func (e *DamagedError) Unwrap() error { return e.Err }

// MismatchError says that a column is stored as something that cannot be read
// as the table's type without loss or guesswork.
type MismatchError struct {
	Column string
	Want   arrow.DataType
	Found  string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("column %s: the table's type is %s and the file holds %s", e.Column, e.Want, e.Found)
}

// ValueError says that a value may not be written to the column.
type ValueError struct {
	Column string
	Row    int64 // position in the file that was being written
	Msg    string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("column %s, row %d: %s", e.Column, e.Row, e.Msg)
}

// recovered turns a panic of the Parquet library into a DamagedError: hostile
// bytes make it panic in places (slices out of range, nil metadata), and input
// must never end the process. Run-time errors that say the process itself is
// unwell are not caught by recover anyway.
func recovered(file string, err *error) {
	if r := recover(); r != nil {
		*err = &DamagedError{File: file, Msg: fmt.Sprintf("the Parquet library panicked: %v", r), Err: &panicError{stack: string(debug.Stack())}}
	}
}

// panicError keeps the stack for those who debug; its text stays short.
type panicError struct{ stack string }

func (*panicError) Error() string { return "this is malformed input or a bug of the library" }
