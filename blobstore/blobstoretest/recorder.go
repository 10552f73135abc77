package blobstoretest

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/filestore"
)

// NewPowerLoss returns a store in the folder dir, which must exist, and the
// recorder of all changes that it makes there from now on. What is in dir already
// counts as durable. Only changes through stores of the recorder are known to it.
//
// The store is the real file store, and its calls are the operating system's,
// but for fsync: that is recorded and not carried out, as nothing is lost here but
// in the model, and tests are much faster for it.
func NewPowerLoss(dir string) (*blobstore.Store, *Recorder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	base, err := readTree(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", dir, err)
	}
	r := &Recorder{root: dir, base: base}
	return r.Store(""), r, nil
}

// Recorder records the changes of the stores in one folder. It is safe for
// concurrent use: changes are made one at a time, in the order recorded.
type Recorder struct {
	root string
	base []baseEntry

	mu    sync.Mutex
	ops   []op
	files int // number of files created so far; names them in ops
}

// baseEntry is a file or folder that was there at first; path is relative.
type baseEntry struct {
	path string
	dir  bool
	data []byte
}

type opKind uint8

const (
	opMkdir opKind = iota
	opCreate
	opWrite
	opSync
	opLink
	opRename
	opRemove
	opSyncDir
)

var opNames = [...]string{"mkdir", "create", "write", "fsync", "link", "rename", "remove", "fsync-dir"}

// op is one change that the operating system has carried out. Paths are relative
// to the root, "" for the root itself.
type op struct {
	kind     opKind
	path, to string
	file     int    // of opCreate, opWrite, opSync
	data     []byte // of opWrite
}

func (o op) String() string {
	switch o.kind {
	case opWrite:
		return fmt.Sprintf("write %s (%d bytes)", o.path, len(o.data))
	case opLink, opRename:
		return fmt.Sprintf("%s %s %s", opNames[o.kind], o.path, o.to)
	case opMkdir, opCreate, opSync, opRemove, opSyncDir: // of one path
	}
	return opNames[o.kind] + " " + o.path
}

// Store returns another store whose changes are recorded: that of a folder below
// the recorder's own, "" for this itself. The folder need not exist.
func (r *Recorder) Store(folder string) *blobstore.Store {
	root := filepath.Join(r.root, folder)
	u := url.URL{Scheme: "file", Path: root}
	return blobstore.New(filestore.New(root, recordingFS{r, filestore.OS()}), u.String())
}

// Cuts returns the number of changes recorded so far. A cut k between 0 and
// Cuts(), both included, is the moment after the first k changes; what had been
// acknowledged when Cuts returned k must be there after a power loss at k or later.
func (r *Recorder) Cuts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// Ops describes changes i to j-1, one line each, for messages. The names of
// temporary files are shortened.
func (r *Recorder) Ops(i, j int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, o := range r.ops[max(i, 0):min(j, len(r.ops))] {
		o.path, o.to = shorten(o.path), shorten(o.to)
		out = append(out, o.String())
	}
	return out
}

func shorten(path string) string {
	dir, name := filepath.Split(path)
	if strings.HasPrefix(name, filestore.TempPrefix) {
		return dir + "TEMP"
	}
	return path
}

// do carries out one change and, if it succeeded, records it.
func (r *Recorder) do(o op, change func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := change(); err != nil {
		return err
	}
	var inside bool
	if o.path, inside = r.relative(o.path); !inside {
		return nil
	}
	if o.to != "" {
		o.to, _ = r.relative(o.to)
	}
	r.ops = append(r.ops, o)
	return nil
}

func (r *Recorder) relative(path string) (string, bool) {
	if path == r.root {
		return "", true
	}
	return strings.CutPrefix(path, r.root+"/")
}

type recordingFS struct {
	r  *Recorder
	fs filestore.FS
}

func (f recordingFS) Mkdir(path string) error {
	return f.r.do(op{kind: opMkdir, path: path}, func() error { return f.fs.Mkdir(path) })
}

func (f recordingFS) Create(path string) (filestore.File, error) {
	f.r.mu.Lock()
	f.r.files++
	id := f.r.files
	f.r.mu.Unlock()
	var file filestore.File
	err := f.r.do(op{kind: opCreate, path: path, file: id}, func() (err error) {
		file, err = f.fs.Create(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return recordingFile{f.r, file, op{path: path, file: id}}, nil
}

func (f recordingFS) Link(from, to string) error {
	return f.r.do(op{kind: opLink, path: from, to: to}, func() error { return f.fs.Link(from, to) })
}

func (f recordingFS) RenameNoReplace(from, to string) error {
	return f.r.do(op{kind: opRename, path: from, to: to}, func() error { return f.fs.RenameNoReplace(from, to) })
}

func (f recordingFS) Rename(from, to string) error {
	return f.r.do(op{kind: opRename, path: from, to: to}, func() error { return f.fs.Rename(from, to) })
}

func (f recordingFS) Remove(path string) error {
	return f.r.do(op{kind: opRemove, path: path}, func() error { return f.fs.Remove(path) })
}

func (f recordingFS) SyncDir(path string) error {
	return f.r.do(op{kind: opSyncDir, path: path}, func() error {
		_, err := os.Stat(path)
		return err
	})
}

type recordingFile struct {
	r  *Recorder
	f  filestore.File
	op op // path and file
}

func (f recordingFile) Write(p []byte) (int, error) {
	o := f.op
	o.kind, o.data = opWrite, append([]byte(nil), p...)
	err := f.r.do(o, func() error {
		n, err := f.f.Write(p)
		if err == nil && n < len(p) {
			err = fmt.Errorf("%d of %d bytes written", n, len(p))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f recordingFile) Sync() error {
	o := f.op
	o.kind = opSync
	return f.r.do(o, func() error { return nil })
}

func (f recordingFile) Close() error { return f.f.Close() }

func readTree(root string) ([]baseEntry, error) {
	var out []baseEntry
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		e := baseEntry{path: strings.TrimPrefix(path, root+"/"), dir: d.IsDir()}
		if !e.dir {
			if e.data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		out = append(out, e)
		return nil
	})
	return out, err
}
