package filestore

import (
	"errors"
	"os"
	"syscall"
)

// FS is the calls by which a [Store] changes the file system, one method each,
// with absolute paths. There are two: the operating system's, and the recording
// one of blobstoretest, which can tell what a power loss would leave. Errors are
// those of package os: they hold the errno.
type FS interface {
	// Mkdir makes one folder.
	Mkdir(path string) error
	// Create makes a file that must not exist, for writing.
	Create(path string) (File, error)
	// Link gives the file at from a second name, which must not exist.
	Link(from, to string) error
	// RenameNoReplace renames from to a name that must not exist.
	RenameNoReplace(from, to string) error
	// Rename renames from, replacing a file at to.
	Rename(from, to string) error
	// Remove removes a file.
	Remove(path string) error
	// SyncDir makes the entries of a folder durable.
	SyncDir(path string) error
}

// File is a file open for writing.
type File interface {
	Write(p []byte) (int, error)
	// Sync makes the file's bytes durable, not its name.
	Sync() error
	Close() error
}

// OS returns the operating system's file system.
func OS() FS { return osFS{} }

// osFS relies on package os to repeat calls that a signal interrupted (EINTR).
type osFS struct{}

func (osFS) Mkdir(path string) error { return os.Mkdir(path, 0o777) }

func (osFS) Create(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err // not f: a nil *os.File is not a nil File
	}
	return f, nil
}

func (osFS) Link(from, to string) error            { return os.Link(from, to) }
func (osFS) RenameNoReplace(from, to string) error { return renameNoReplace(from, to) }
func (osFS) Rename(from, to string) error          { return os.Rename(from, to) }
func (osFS) Remove(path string) error              { return os.Remove(path) }

func (osFS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		// Some file systems have no fsync of folders (fuse, smb and 9p servers):
		// there is nothing more to ask of them.
		err = nil
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
