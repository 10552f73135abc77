package deltalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deltafold/deltafold/blobstore"
)

// EntryInfo is a log entry as the listing shows it.
type EntryInfo struct {
	Version Version
	// ModTime is the store's modification time of the entry; what it means for time
	// travel is told by protocol notes 2.1.
	ModTime time.Time
	// Size is in bytes.
	Size int64

	key string
}

// checkpointFile is a file of a log checkpoint.
type checkpointFile struct {
	key  string
	size int64
}

// checkpoint is a complete log checkpoint.
type checkpoint struct {
	version Version
	v2      bool // by its name
	files   []checkpointFile
}

// listing is what the log folder holds, from some version on.
type listing struct {
	entries     []EntryInfo  // ascending, distinct versions
	checkpoints []checkpoint // ascending; at one version the preferred comes last
}

func (l *listing) empty() bool { return len(l.entries) == 0 && len(l.checkpoints) == 0 }

// latest returns the highest version that the listing knows of.
func (l *listing) latest() Version {
	var v Version
	if n := len(l.entries); n > 0 {
		v = l.entries[n-1].Version
	}
	if n := len(l.checkpoints); n > 0 {
		v = max(v, l.checkpoints[n-1].version)
	}
	return v
}

// find returns the index of the first entry at or above v.
func (l *listing) find(v Version) int {
	i, _ := slices.BinarySearchFunc(l.entries, v, func(e EntryInfo, v Version) int { return cmp.Compare(e.Version, v) })
	return i
}

// between returns the entries first..last; ok only if none is missing. Otherwise
// missing is the first that is.
func (l *listing) between(first, last Version) (entries []EntryInfo, missing Version, ok bool) {
	i := l.find(first)
	for v := first; v <= last; v++ {
		at := i + int(v-first)
		if at >= len(l.entries) || l.entries[at].Version != v {
			return nil, v, false
		}
	}
	if last < first {
		return nil, 0, true
	}
	return l.entries[i : i+int(last-first)+1], 0, true
}

// list reads the log folder from a version on, in one listing; with upTo it stops
// after that version. NB: names sort as versions do only with twenty digits; others
// (protocol notes 1.1) are found by a listing from 0 without upTo.
func list(ctx context.Context, store *blobstore.Store, from Version, upTo *Version) (*listing, error) {
	l := &listing{}
	sets := map[[2]int64][]checkpointFile{} // parts by version and number of parts
	for info, err := range store.List(ctx, dir, dir+padded(from)) {
		if err != nil {
			return nil, fmt.Errorf("list log from version %d: %w", from, err)
		}
		name := info.Key[len(dir):]
		if name != "" && name[0] > '9' {
			break // _sidecars, _staged_commits and such come after all numbers
		}
		n := parseName(name)
		if n.kind == otherFile || strings.Contains(name, "/") {
			continue
		}
		if upTo != nil && n.version > *upTo {
			if strings.HasPrefix(name, padded(n.version)) {
				break
			}
			continue
		}
		l.take(n, info, sets)
	}
	l.finish(sets)
	return l, nil
}

func (l *listing) take(n logName, info blobstore.Info, sets map[[2]int64][]checkpointFile) {
	f := checkpointFile{key: info.Key, size: info.Size}
	switch n.kind {
	case entryFile:
		l.entries = append(l.entries, EntryInfo{Version: n.version, ModTime: info.ModTime, Size: info.Size, key: info.Key})
	case classicFile, v2File:
		if info.Size > 0 { // an empty one is a failed write
			l.checkpoints = append(l.checkpoints, checkpoint{version: n.version, v2: n.kind == v2File, files: []checkpointFile{f}})
		}
	case partFile:
		if info.Size > 0 {
			at := [2]int64{int64(n.version), int64(n.parts)}
			sets[at] = append(sets[at], f)
		}
	case otherFile:
	}
}

// finish adds the complete sets of parts and brings everything into order.
func (l *listing) finish(sets map[[2]int64][]checkpointFile) {
	for at, files := range sets {
		if int64(len(files)) == at[1] {
			slices.SortFunc(files, func(a, b checkpointFile) int { return cmp.Compare(a.key, b.key) })
			l.checkpoints = append(l.checkpoints, checkpoint{version: Version(at[0]), files: files})
		}
	}
	slices.SortFunc(l.checkpoints, func(a, b checkpoint) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.files[0].key, b.files[0].key))
	})
	slices.SortStableFunc(l.entries, func(a, b EntryInfo) int {
		// The canonical name first, should there be two for a version.
		return cmp.Or(cmp.Compare(a.Version, b.Version), -cmp.Compare(len(a.key), len(b.key)))
	})
	l.entries = slices.CompactFunc(l.entries, func(a, b EntryInfo) bool { return a.Version == b.Version })
}

// rank orders the log checkpoints of one version: V2, then parts by falling number, then single.
func (c checkpoint) rank() int {
	if c.v2 {
		return -1 << 31
	}
	return -len(c.files)
}
