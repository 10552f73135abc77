package deltalog

import (
	"slices"
	"time"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// replayer reconciles actions, newest first: the first seen of each key wins
// (PROTOCOL.md "Action Reconciliation"). A logical file's key is its path with its
// deletion vector, so that a commit which gives a file a new vector, by a remove of
// the old logical file and an add of the new one, may list them in either order.
type replayer struct {
	root     string
	seen     map[action.FileKey]struct{}
	adds     []*action.Add
	removes  []*action.Remove
	protocol *action.Protocol
	metadata *action.Metadata
	txns     map[string]*action.Txn
	domains  map[string]*action.DomainMetadata // removed ones too
}

func newReplayer(root string) *replayer {
	return &replayer{
		root:    root,
		seen:    map[action.FileKey]struct{}{},
		txns:    map[string]*action.Txn{},
		domains: map[string]*action.DomainMetadata{},
	}
}

// entry takes the actions of the next older entry. Within an entry the order means
// nothing; should it hold one key twice all the same, the last line wins, as in Spark.
func (r *replayer) entry(actions []action.Action) {
	for _, a := range slices.Backward(actions) {
		switch {
		case a.Add != nil:
			if r.first(addKey(r.root, a.Add)) {
				r.adds = append(r.adds, a.Add)
			}
		case a.Remove != nil:
			if r.first(removeKey(r.root, a.Remove)) {
				r.removes = append(r.removes, tombstone(a.Remove))
			}
		default:
			r.other(a)
		}
	}
}

// first marks a key and reports whether it was not seen before.
func (r *replayer) first(k action.FileKey) bool {
	if _, ok := r.seen[k]; ok {
		return false
	}
	r.seen[k] = struct{}{}
	return true
}

// base takes an action of what lies below all entries: a log checkpoint or an
// earlier state, where each key stands once, so that nothing needs to be marked.
func (r *replayer) base(a action.Action) {
	switch {
	case a.Add != nil:
		if !r.covered(addKey(r.root, a.Add)) {
			r.adds = append(r.adds, a.Add)
		}
	case a.Remove != nil:
		if !r.covered(removeKey(r.root, a.Remove)) {
			r.removes = append(r.removes, tombstone(a.Remove))
		}
	default:
		r.other(a)
	}
}

func (r *replayer) covered(k action.FileKey) bool {
	if len(r.seen) == 0 {
		return false
	}
	_, ok := r.seen[k]
	return ok
}

func (r *replayer) other(a action.Action) {
	switch {
	case a.Protocol != nil && r.protocol == nil:
		r.protocol = normalProtocol(a.Protocol)
	case a.Metadata != nil && r.metadata == nil:
		r.metadata = a.Metadata
	case a.Txn != nil:
		if _, ok := r.txns[a.Txn.AppID]; !ok {
			r.txns[a.Txn.AppID] = a.Txn
		}
	case a.DomainMetadata != nil:
		if _, ok := r.domains[a.DomainMetadata.Domain]; !ok {
			r.domains[a.DomainMetadata.Domain] = a.DomainMetadata
		}
	}
}

// normalProtocol drops feature lists that the versions do not have: some writers put
// empty ones there, and a log checkpoint must not repeat them (protocol notes 1.5).
func normalProtocol(p *action.Protocol) *action.Protocol {
	c := *p
	if c.MinReader < 3 && len(c.ReaderFeatures) == 0 {
		c.ReaderFeatures = nil
	}
	if c.MinWriter < 7 && len(c.WriterFeatures) == 0 {
		c.WriterFeatures = nil
	}
	return &c
}

// tombstone drops what a log tombstone does not need (I9).
func tombstone(r *action.Remove) *action.Remove {
	if r.Stats == "" && r.Tags == nil {
		return r
	}
	c := *r
	c.Stats, c.Tags = "", nil
	return &c
}

// finish orders what was collected into the state. What an earlier state holds, and
// nothing newer covers, is merged in.
func (r *replayer) finish(s, prev *State) error {
	byAdd, byRemove := compareAdds(r.root), compareRemoves(r.root)
	s.Adds, s.Removes = sorted(r.adds, byAdd), sorted(r.removes, byRemove)
	if prev != nil {
		adds := slices.DeleteFunc(slices.Clone(prev.Adds), func(a *action.Add) bool { return r.covered(addKey(r.root, a)) })
		removes := slices.DeleteFunc(slices.Clone(prev.Removes), func(m *action.Remove) bool { return r.covered(removeKey(r.root, m)) })
		s.Adds, s.Removes = merged(adds, s.Adds, byAdd), merged(removes, s.Removes, byRemove)
		r.below(prev)
	}
	for name, d := range r.domains {
		if d.Removed {
			delete(r.domains, name)
		}
	}
	s.Protocol, s.Metadata, s.Txns, s.Domains, s.root = r.protocol, r.metadata, r.txns, r.domains, r.root
	if s.Protocol == nil {
		return &CorruptError{Version: s.Version, Reason: "the log has no protocol action"}
	}
	if s.Metadata == nil {
		return &CorruptError{Version: s.Version, Reason: "the log has no metaData action"}
	}
	return nil
}

// below takes what an earlier state says of everything but files.
func (r *replayer) below(prev *State) {
	r.other(action.Action{Protocol: prev.Protocol})
	r.other(action.Action{Metadata: prev.Metadata})
	for _, t := range prev.Txns {
		r.other(action.Action{Txn: t})
	}
	for _, d := range prev.Domains {
		r.other(action.Action{DomainMetadata: d})
	}
}

// sorted orders a list and keeps one of each key: a log checkpoint that names a
// logical file twice is wrong, and counting it twice would be worse.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return slices.Clip(slices.CompactFunc(list, func(a, b T) bool { return compare(a, b) == 0 }))
}

// merged merges two ordered lists without common keys.
func merged[T any](a, b []T, compare func(a, b T) int) []T {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make([]T, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compare(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// unexpired drops the log tombstones that have expired at a time (PROTOCOL.md "Delta
// Log Entries", protocol notes 1.5).
func unexpired(removes []*action.Remove, retention time.Duration, at time.Time) []*action.Remove {
	limit := at.Add(-retention).UnixMilli()
	var kept []*action.Remove
	for _, r := range removes {
		if deletedAt(r) > limit {
			kept = append(kept, r)
		}
	}
	return kept
}

// deletedAt returns the deletion time in milliseconds; absent counts as 0.
func deletedAt(r *action.Remove) int64 {
	if r.DeletionTimestamp == nil {
		return 0
	}
	return *r.DeletionTimestamp
}
