// Package filestore keeps objects as files in a folder, durably, and creates a
// file only if it is absent, atomically among processes.
//
// # How a file comes to be
//
// Every object is written to a temporary file in its own folder and fsynced.
// Then it is published: by link(2) for Create, which the kernel refuses if the
// name is taken; by rename(2) for Put and writers, which replaces. Then the
// temporary name goes and the folder is fsynced. So a name either is not there
// or is there with all its bytes, and what was acknowledged outlives a power
// loss. The entries of the folders on the way are fsynced in their parents too,
// once for each folder in the life of a [Store], whoever made them: another
// process may have made one and not have come to its fsync yet.
//
// Where link is not possible, renameat2(RENAME_NOREPLACE) takes its place: just
// as atomic. Where neither is, Create refuses and names the file system. An
// exclusive open(2) of the name itself is no alternative: readers would see a
// half-written commit, and a crash would leave one for ever.
//
// # Caveats
//
// A killed process leaves its temporary files behind. They begin with
// [TempPrefix] and are never listed.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// TempPrefix begins the name of every temporary file.
const TempPrefix = ".deltafold-tmp-"

// Store is a [driver.Driver] on one folder.
type Store struct {
	root    string
	fs      FS
	readDir func(path string) ([]os.DirEntry, error) // os.ReadDir; tests count its calls

	mu      sync.Mutex
	durable map[string]bool // folders whose entries up to the root's are known to be fsynced
}

// New returns the store of the folder root, an absolute and clean path, which
// need not exist yet. Changes go through fsys; reading goes to the operating
// system.
func New(root string, fsys FS) *Store {
	return &Store{root: root, fs: fsys, readDir: os.ReadDir, durable: map[string]bool{}}
}

func (s *Store) path(key string) string {
	if s.root == "/" {
		return "/" + key
	}
	return s.root + "/" + key
}

// absent turns the two ways of a file not to be there into ErrNotFound: no such
// name, or a file where the key has a folder.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %w", driver.ErrNotFound, err)
	}
	return err
}

// Read is [driver.Driver]'s.
func (s *Store) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	r, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close() // only read from
	if off >= r.size {
		return []byte{}, nil
	}
	if n < 0 || n > r.size-off {
		n = r.size - off
	}
	data := make([]byte, n)
	got, err := r.ReadAt(data, off)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("file shrank while it was read: %d of %d bytes: %w", got, n, io.ErrUnexpectedEOF)
	}
	return data, err
}

type reader struct {
	*os.File
	size int64
}

func (r *reader) Size() int64 { return r.size }

// OpenReader is [driver.Driver]'s. The size is the file's own.
func (s *Store) OpenReader(ctx context.Context, key string, _ int64) (driver.Reader, error) {
	r, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *Store) open(ctx context.Context, key string) (*reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(s.path(key))
	if err != nil {
		return nil, absent(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.Name())
		if info.IsDir() {
			err = fmt.Errorf("%w: %s is a folder", driver.ErrNotFound, f.Name())
		}
	}
	if err != nil {
		_ = f.Close() // the first error tells
		return nil, err
	}
	return &reader{f, info.Size()}, nil
}

// Stat is [driver.Driver]'s.
func (s *Store) Stat(ctx context.Context, key string) (driver.Info, error) {
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	info, err := os.Stat(s.path(key))
	if err != nil {
		return driver.Info{}, absent(err)
	}
	if info.IsDir() {
		return driver.Info{}, fmt.Errorf("%w: %s is a folder", driver.ErrNotFound, s.path(key))
	}
	return infoOf(key, info), nil
}

func infoOf(key string, info fs.FileInfo) driver.Info {
	return driver.Info{
		Key: key, Size: info.Size(), ModTime: info.ModTime(),
		ETag: strconv.FormatInt(info.Size(), 16) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 16),
	}
}

// Delete is [driver.Driver]'s. The folder is not fsynced: a file that a power
// loss brings back is one that nothing names.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := s.path(key)
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	}
	if err == nil {
		err = s.fs.Remove(path)
	}
	if err != nil && !errors.Is(absent(err), driver.ErrNotFound) {
		return err
	}
	return nil
}

func tempPath(dir string) string {
	return filepath.Join(dir, TempPrefix+uuid.NewString())
}
