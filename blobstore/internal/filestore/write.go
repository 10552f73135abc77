package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// Put is [driver.Driver]'s.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	w, err := s.newWriter(ctx, key)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// Create is [driver.Driver]'s. Up to the publishing call every failure is
// NotDone. From then on it is Created, Exists, or NotDone only where the kernel
// said so, and Unknown otherwise; a context that ends no longer matters.
func (s *Store) Create(ctx context.Context, key string, data []byte) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.NotDone, err
	}
	path := s.path(key)
	if _, err := os.Lstat(path); err == nil {
		return s.exists(path)
	}
	w, err := s.newWriter(ctx, key)
	if err != nil {
		return driver.NotDone, err
	}
	if _, err := w.Write(data); err != nil {
		return driver.NotDone, errors.Join(err, w.Abort())
	}
	if err := w.settle(); err != nil {
		return driver.NotDone, err
	}
	outcome, err := s.publish(w.temp, path)
	// The temporary is a second name by now, or of no more use. That it cannot
	// be removed changes nothing of the outcome; it is never listed.
	_ = s.fs.Remove(w.temp)
	switch outcome {
	case driver.Created:
		if err := s.fs.SyncDir(w.dir); err != nil {
			return driver.Unknown, fmt.Errorf("published, but perhaps not durable: %w", err)
		}
		return driver.Created, nil
	case driver.Exists:
		return s.exists(path)
	case driver.Unknown, driver.NotDone: // an error says why
	}
	return outcome, err
}

// exists answers for a name that is taken. Who made it may not have come to its
// fsync of the folder, and may have been us, in an attempt whose answer was lost:
// the answer must be as durable as Created is.
func (s *Store) exists(path string) (driver.Outcome, error) {
	if err := s.makeDir(filepath.Dir(path)); err != nil {
		return driver.Unknown, fmt.Errorf("exists, but perhaps not durable: %w", err)
	}
	if err := s.fs.SyncDir(filepath.Dir(path)); err != nil {
		return driver.Unknown, fmt.Errorf("exists, but perhaps not durable: %w", err)
	}
	return driver.Exists, nil
}

// publish gives the temporary its name if that is free. Only Created, Exists,
// NotDone with an error, or Unknown with one come back.
func (s *Store) publish(temp, path string) (driver.Outcome, error) {
	written, err := os.Lstat(temp)
	if err != nil {
		return driver.NotDone, err
	}
	linkErr := s.fs.Link(temp, path)
	if linkErr == nil || isAt(path, written) {
		// A call that was repeated, by package os after a signal or by the client
		// of a network file system, can fail on what it had done itself.
		return driver.Created, nil
	}
	if !linkImpossible(linkErr) {
		return outcomeOf(linkErr), linkErr
	}
	err = s.fs.RenameNoReplace(temp, path)
	if err == nil || isAt(path, written) {
		return driver.Created, nil
	}
	if linkImpossible(err) {
		return driver.NotDone, fmt.Errorf("file system %s can neither link nor rename without replacing, so no commit can be made safely on it: %w",
			fileSystem(path), errors.Join(linkErr, err))
	}
	return outcomeOf(err), err
}

func isAt(path string, file fs.FileInfo) bool {
	at, err := os.Lstat(path)
	return err == nil && os.SameFile(at, file)
}

// linkImpossible tells whether a call failed because the file system, or its
// mount, does not have it. EMLINK cannot come from a file with one name, but some
// file systems say so for "no links here".
func linkImpossible(err error) bool {
	for _, errno := range []error{
		syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EXDEV,
		syscall.EMLINK, syscall.EINVAL, errors.ErrUnsupported,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// outcomeOf a publishing call that failed: the errors by which the kernel refuses
// before it does anything are certain; whatever else (EIO, ESTALE, ETIMEDOUT) may
// have come after the deed.
func outcomeOf(err error) driver.Outcome {
	if errors.Is(err, fs.ErrExist) {
		return driver.Exists
	}
	for _, errno := range []error{
		syscall.EACCES, syscall.EDQUOT, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.ENOENT,
		syscall.ENOMEM, syscall.ENOSPC, syscall.ENOTDIR, syscall.EROFS,
	} {
		if errors.Is(err, errno) {
			return driver.NotDone
		}
	}
	return driver.Unknown
}

// writer is a temporary file on its way to its name.
type writer struct {
	ctx             context.Context //nolint:containedctx // the driver's contract: it holds for the writer's life
	s               *Store
	f               File
	dir, temp, path string
}

// NewWriter is [driver.Driver]'s.
func (s *Store) NewWriter(ctx context.Context, key string) (driver.Writer, error) {
	w, err := s.newWriter(ctx, key)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (s *Store) newWriter(ctx context.Context, key string) (*writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := s.path(key)
	dir := filepath.Dir(path)
	if err := s.makeDir(dir); err != nil {
		return nil, err
	}
	temp := tempPath(dir)
	f, err := s.fs.Create(temp)
	if errors.Is(err, fs.ErrNotExist) { // somebody removed the folder since it was made
		s.forget()
		if err := s.makeDir(dir); err != nil {
			return nil, err
		}
		f, err = s.fs.Create(temp)
	}
	if err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, s: s, f: f, dir: dir, temp: temp, path: path}, nil
}

// Write appends to the temporary file.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.f.Write(p)
}

// settle makes the temporary durable and closes it, or removes it.
func (w *writer) settle() error {
	err := w.f.Sync()
	if cerr := w.f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = w.ctx.Err()
	}
	if err != nil {
		return errors.Join(err, w.s.fs.Remove(w.temp))
	}
	return nil
}

// Close publishes the file, replacing one of its name.
func (w *writer) Close() error {
	if err := w.settle(); err != nil {
		return err
	}
	if err := w.s.fs.Rename(w.temp, w.path); err != nil {
		return errors.Join(err, w.s.fs.Remove(w.temp))
	}
	return w.s.fs.SyncDir(w.dir)
}

// Abort removes the temporary file.
func (w *writer) Abort() error {
	return errors.Join(w.f.Close(), w.s.fs.Remove(w.temp))
}

func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable = map[string]bool{}
}

// makeDir sees to it that dir exists and that its entry and those of the folders
// above it, up to the root's, are durable; and above the root, of those that it
// had to make.
func (s *Store) makeDir(dir string) error {
	if s.isDurable(dir) {
		return nil
	}
	var chain []string // of folders, dir first, that are ours or have to be made
	for d := dir; d != filepath.Dir(d) && (len(d) >= len(s.root) || !isFolder(d)); d = filepath.Dir(d) {
		chain = append(chain, d)
	}
	for _, d := range slices.Backward(chain) {
		if err := s.makeOne(d); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) isDurable(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable[dir]
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (s *Store) makeOne(dir string) error {
	if s.isDurable(dir) {
		return nil
	}
	found := isFolder(dir)
	if !found {
		if err := s.fs.Mkdir(dir); err != nil && !isFolder(dir) {
			return err
		}
	}
	err := s.fs.SyncDir(filepath.Dir(dir))
	if errors.Is(err, fs.ErrPermission) && found && len(dir) <= len(s.root) {
		err = nil // a root that was there, in a folder that is not ours to open
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable[dir] = true
	return nil
}
