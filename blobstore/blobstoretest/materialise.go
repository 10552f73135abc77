package blobstoretest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// Materialise makes, in the folder dir, which must be empty or absent, what a
// power loss after the first k changes leaves of the recorder's folder.
//
// What was fsynced is there. Of the rest rng decides: bytes of a file that were
// not fsynced are there, are missing from some point on, or are zeroes; changes
// of a folder that was not fsynced since (a name made, renamed or removed) have
// happened or not, each for itself or up to some point. A rename is one change.
// The same rng state gives the same folder. Without rng, all that was not fsynced
// is gone: the harshest case.
func (r *Recorder) Materialise(k int, rng *rand.Rand, dir string) error {
	r.mu.Lock()
	ops := r.ops[:min(k, len(r.ops))]
	r.mu.Unlock()
	m, err := replay(r.base, ops)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return m.write(rng, dir)
}

// node is a file or folder of the model: what running programs see of it, and
// what of that is on the disk for certain.
type node struct {
	folder bool

	data   []byte // of a file
	synced int    // the first synced bytes of data are durable

	entries map[string]*node // of a folder
	durable map[string]*node
	pending [][]nameChange // since the last fsync; each element is atomic
}

// nameChange sets a name, or removes it if node is nil.
type nameChange struct {
	name string
	node *node
}

func newFolder() *node {
	return &node{folder: true, entries: map[string]*node{}, durable: map[string]*node{}}
}

func (n *node) change(changes ...nameChange) {
	for _, c := range changes {
		set(n.entries, c)
	}
	n.pending = append(n.pending, changes)
}

func set(entries map[string]*node, c nameChange) {
	if c.node == nil {
		delete(entries, c.name)
	} else {
		entries[c.name] = c.node
	}
}

// settle makes a folder's own entries durable.
func (n *node) settle() {
	n.durable, n.pending = maps.Clone(n.entries), nil
}

// model finds folders by their present paths. The store never moves folders.
type model struct {
	folders map[string]*node
	files   map[int]*node
}

func replay(base []baseEntry, ops []op) (*node, error) {
	root := newFolder()
	m := model{folders: map[string]*node{"": root}, files: map[int]*node{}}
	for _, e := range base {
		n := &node{data: e.data, synced: len(e.data)}
		if e.dir {
			n = newFolder()
			m.folders[e.path] = n
		}
		parent, name, err := m.split(e.path)
		if err != nil {
			return nil, err
		}
		parent.change(nameChange{name, n})
	}
	for _, f := range m.folders {
		f.settle()
	}
	for i, o := range ops {
		if err := m.apply(o); err != nil {
			return nil, fmt.Errorf("internal error: change %d, %s: %w", i, o, err)
		}
	}
	return root, nil
}

func (m *model) split(path string) (*node, string, error) {
	dir, name := filepath.Split(path)
	parent := m.folders[filepath.Clean("/" + dir)[1:]]
	if parent == nil {
		return nil, "", fmt.Errorf("no folder for %s", path)
	}
	return parent, name, nil
}

func (m *model) apply(o op) error {
	switch o.kind {
	case opWrite:
		f := m.files[o.file]
		f.data = append(f.data[:len(f.data):len(f.data)], o.data...)
		return nil
	case opSync:
		f := m.files[o.file]
		f.synced = len(f.data)
		return nil
	case opSyncDir:
		f := m.folders[o.path]
		if f == nil {
			return fmt.Errorf("no such folder")
		}
		f.settle()
		return nil
	case opMkdir, opCreate, opLink, opRename, opRemove: // of a folder's entries
	}
	return m.rename(o)
}

// rename is the changes of a folder's entries.
func (m *model) rename(o op) error {
	parent, name, err := m.split(o.path)
	if err != nil {
		return err
	}
	switch o.kind {
	case opMkdir:
		m.folders[o.path] = newFolder()
		parent.change(nameChange{name, m.folders[o.path]})
	case opCreate:
		m.files[o.file] = &node{}
		parent.change(nameChange{name, m.files[o.file]})
	case opRemove:
		parent.change(nameChange{name, nil})
	case opLink, opRename:
		return m.move(o, parent, name)
	case opWrite, opSync, opSyncDir: // of a file, or of a folder itself
	}
	return nil
}

// move is link and rename, which the store uses within one folder only.
func (m *model) move(o op, parent *node, name string) error {
	toParent, toName, err := m.split(o.to)
	if err != nil {
		return err
	}
	n := parent.entries[name]
	if n == nil || toParent != parent {
		return fmt.Errorf("no such file, or another folder")
	}
	if o.kind == opLink {
		parent.change(nameChange{toName, n})
	} else {
		parent.change(nameChange{name, nil}, nameChange{toName, n})
	}
	return nil
}

func (n *node) write(rng *rand.Rand, path string) error {
	left := n.survivors(rng)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		child, at := left[name], filepath.Join(path, name)
		if !child.folder {
			f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
			if err != nil {
				return err
			}
			_, err = f.Write(child.remains(rng))
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := os.Mkdir(at, 0o777); err != nil {
			return err
		}
		if err := child.write(rng, at); err != nil {
			return err
		}
	}
	return nil
}

// survivors is a folder's entries after the loss.
func (n *node) survivors(rng *rand.Rand) map[string]*node {
	left := maps.Clone(n.durable)
	if rng == nil || len(n.pending) == 0 {
		return left
	}
	upTo, each := len(n.pending), false
	switch rng.IntN(4) {
	case 0:
		upTo = 0
	case 1:
		upTo = rng.IntN(len(n.pending) + 1)
	case 2:
		each = true
	}
	for _, changes := range n.pending[:upTo] {
		if each && rng.IntN(2) == 0 {
			continue
		}
		for _, c := range changes {
			set(left, c)
		}
	}
	return left
}

// remains is a file's bytes after the loss. A file with two names may come out
// differently under each, which no disk does; no test depends on it.
func (n *node) remains(rng *rand.Rand) []byte {
	if rng == nil || n.synced == len(n.data) {
		return n.data[:n.synced]
	}
	tail := len(n.data) - n.synced
	switch rng.IntN(4) {
	case 0:
		return n.data[:n.synced]
	case 1:
		return n.data[:n.synced+rng.IntN(tail+1)]
	case 2: // the size came to the disk, the bytes did not
		out := make([]byte, len(n.data))
		copy(out, n.data[:n.synced])
		return out
	default:
		return n.data
	}
}
