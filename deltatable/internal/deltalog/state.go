package deltalog

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// State is the table at a version, as the log tells it. Immutable: the slices, maps
// and actions are shared between states and must not be changed. Safe for concurrent
// use.
type State struct {
	Version  Version
	Protocol *action.Protocol
	Metadata *action.Metadata
	// Adds are the live files, ascending by path, then by deletion vector. Their
	// DataChange has no meaning.
	Adds []*action.Add
	// Removes are the log tombstones that the entries and the log checkpoint hold,
	// ascending by path; without statistics and tags, and their DataChange has no
	// meaning either. Whether one has expired depends
	// on the time and is decided by who uses them.
	Removes []*action.Remove
	// Txns holds the newest transaction identifier of each application, expired ones too.
	Txns map[string]*action.Txn
	// Domains holds the domains that are not removed.
	Domains map[string]*action.DomainMetadata
	// CommitInfo is that of Version's own entry; nil if it has none or is gone.
	CommitInfo *action.CommitInfo
	// EntryModTime is the modification time of Version's entry; zero if it is gone.
	EntryModTime time.Time
	// CheckpointVersion is that of the log checkpoint read; nil if the entries were
	// read from version 0 on.
	CheckpointVersion *Version

	root string // the table's canonical URL
}

// File returns the live file of that identity. Absolute paths are found in each of
// their forms (I3).
func (s *State) File(k action.FileKey) (*action.Add, bool) {
	k.Path = action.CanonicalPath(s.root, k.Path)
	i, ok := slices.BinarySearchFunc(s.Adds, k, func(a *action.Add, k action.FileKey) int {
		return compareFile(s.root, a, k)
	})
	if !ok {
		return nil, false
	}
	return s.Adds[i], true
}

// Key returns the identity of an add of this table. It differs from Add.Key only for
// an absolute path below the table's root, which it makes relative (I3).
func (s *State) Key(a *action.Add) action.FileKey { return addKey(s.root, a) }

// DeletionVectors reports whether any live file has a deletion vector.
func (s *State) DeletionVectors() bool {
	return slices.ContainsFunc(s.Adds, func(a *action.Add) bool { return a.DeletionVector != nil })
}

func addKey(root string, a *action.Add) action.FileKey {
	return action.FileKey{Path: action.CanonicalPath(root, a.Path), DV: a.DeletionVector.UniqueID()}
}

func removeKey(root string, r *action.Remove) action.FileKey {
	return action.FileKey{Path: action.CanonicalPath(root, r.Path), DV: r.DeletionVector.UniqueID()}
}

// compareFile compares without making the vector's id where the paths decide.
func compareFile(root string, a *action.Add, k action.FileKey) int {
	if c := strings.Compare(action.CanonicalPath(root, a.Path), k.Path); c != 0 {
		return c
	}
	return strings.Compare(a.DeletionVector.UniqueID(), k.DV)
}

func compareAdds(root string) func(a, b *action.Add) int {
	return func(a, b *action.Add) int {
		return cmp.Or(
			strings.Compare(action.CanonicalPath(root, a.Path), action.CanonicalPath(root, b.Path)),
			compareVectors(a.DeletionVector, b.DeletionVector))
	}
}

func compareRemoves(root string) func(a, b *action.Remove) int {
	return func(a, b *action.Remove) int {
		return cmp.Or(
			strings.Compare(action.CanonicalPath(root, a.Path), action.CanonicalPath(root, b.Path)),
			compareVectors(a.DeletionVector, b.DeletionVector))
	}
}

func compareVectors(a, b *action.DeletionVector) int {
	if a == nil && b == nil {
		return 0
	}
	return strings.Compare(a.UniqueID(), b.UniqueID())
}
