//go:build !linux

package filestore

import (
	"errors"
	"os"
	"runtime"
)

func renameNoReplace(from, to string) error {
	return &os.LinkError{Op: "rename without replacing", Old: from, New: to, Err: errors.ErrUnsupported}
}

// fileSystem names the file system that holds path, for messages.
func fileSystem(string) string { return "of " + runtime.GOOS }
