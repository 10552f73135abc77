package filestore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// List is [driver.Driver]'s. It starts in the deepest folder that prefix names,
// opens only folders that can hold a key from `from` on, and asks for the size
// and time of a file only when it is its turn.
//
// A symbolic link to a file is listed as that file; one to a folder is not
// followed: it may lead anywhere.
func (s *Store) List(ctx context.Context, prefix, from string) iter.Seq2[driver.Info, error] {
	return func(yield func(driver.Info, error) bool) {
		folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
		if strings.HasPrefix(folder, "/") || strings.Contains(folder, "//") || hasDots(folder) {
			return // no key begins so
		}
		l := lister{s: s, prefix: prefix, from: from, yield: yield}
		l.walk(ctx, folder)
	}
}

// hasDots tells of a part "." or "..", which would lead out of the store.
func hasDots(folder string) bool {
	for part := range strings.SplitSeq(folder, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

type lister struct {
	s            *Store
	prefix, from string
	yield        func(driver.Info, error) bool
}

// walk lists folder, "" or a key that ends at its '/', and returns false to end.
func (l *lister) walk(ctx context.Context, folder string) bool {
	if err := ctx.Err(); err != nil {
		l.yield(driver.Info{}, err)
		return false
	}
	entries, err := l.s.readDir(l.s.path(folder))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	if err != nil {
		l.yield(driver.Info{}, err)
		return false
	}
	for _, e := range inKeyOrder(entries) {
		key := folder + e.name
		switch {
		case e.dir && !l.mayHold(key):
			continue
		case e.dir:
			if !l.walk(ctx, key) {
				return false
			}
			continue
		case key < l.from, !strings.HasPrefix(key, l.prefix), strings.HasPrefix(e.name, TempPrefix):
			continue
		}
		info, err := l.s.Stat(ctx, key)
		if errors.Is(err, driver.ErrNotFound) {
			continue // removed meanwhile, or a link to nothing or to a folder
		}
		if !l.yield(info, err) || err != nil {
			return false
		}
	}
	return true
}

// mayHold tells whether a key that begins with folder can be asked for.
func (l *lister) mayHold(folder string) bool {
	if folder < l.from && !strings.HasPrefix(l.from, folder) {
		return false
	}
	return strings.HasPrefix(folder, l.prefix) || strings.HasPrefix(l.prefix, folder)
}

type entry struct {
	name string // with its '/' at the end if it is a folder
	dir  bool
}

// inKeyOrder sorts entries as the keys under them sort: "a.b" comes before the
// folder "a", whose keys begin with "a/".
func inKeyOrder(entries []os.DirEntry) []entry {
	out := make([]entry, len(entries))
	for i, e := range entries {
		out[i] = entry{name: e.Name(), dir: e.IsDir()}
		if e.IsDir() {
			out[i].name += "/"
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out
}
