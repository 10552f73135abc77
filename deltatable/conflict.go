package deltatable

import (
	"fmt"
	"slices"

	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// Changes is what winning commits did to a snapshot, by live sets (R2).
type Changes struct {
	First, Last     Version // of the winners; First > Last: there was none
	MetadataChanged bool    // schema, partitioning or properties
	ProtocolChanged bool
	Created         bool // there was no table before
	// Txns are the identifiers recorded by winners, the last of each application.
	Txns map[string]Txn
	// Domains are the domains written by winners.
	Domains []string
	// Added are the logical files live after the winners and not before: new
	// files, new vectors, restored and rearranged files; not what a later winner
	// removed again. Sorted as Snapshot.Files.
	Added []*Add
	// Removed are the logical files live before and not after, sorted.
	Removed []FileKey
	// Readded are files live before and after that a winner added again: their
	// statistics or tags may differ, their rows do not.
	Readded []*Add
}

// Answer is what a writer of row-level changes does about winners (R5; the
// merge column of the conflict matrix).
type Answer uint8

// The answers, in ascending strength.
const (
	Pass           Answer = iota // nothing of ours is touched: commit as planned
	ProbeAgain                   // live files changed: R2 to R4
	PlanAgain                    // metadata, protocol or existence changed: from the start, roles too
	AlreadyApplied               // our identifier is recorded at or above our version
	Refuse                       // the table now needs a feature that is not implemented
)

var answers = [...]string{"pass", "probe again", "plan again", "already applied", "refuse"}

func (a Answer) String() string {
	if int(a) < len(answers) {
		return answers[a]
	}
	return fmt.Sprintf("answer %d", uint8(a))
}

// Classify says what winners, all log entries after read in version order, did
// to it; read is nil if there was no table. Pure.
func Classify(read *Snapshot, winners []*Entry) *Changes {
	c := &Changes{Created: read == nil, Txns: make(map[string]Txn), First: 0, Last: -1}
	if read != nil {
		c.First, c.Last = read.Version()+1, read.Version()
	}
	type state struct {
		live *Add // nil: removed
	}
	last := make(map[FileKey]state)
	for _, w := range winners {
		c.Last = w.Version
		c.note(w)
		// Inside one commit the actions are a set, and no key is in both an add and
		// a remove.
		for _, a := range w.Actions {
			switch {
			case a.Add != nil:
				last[read.keyOf(a.Add.Path, a.Add.DeletionVector)] = state{live: a.Add}
			case a.Remove != nil:
				last[read.keyOf(a.Remove.Path, a.Remove.DeletionVector)] = state{}
			}
		}
	}
	for k, s := range last {
		var was bool
		if read != nil {
			_, was = read.File(k)
		}
		switch {
		case s.live != nil && was:
			c.Readded = append(c.Readded, s.live)
		case s.live != nil:
			c.Added = append(c.Added, s.live)
		case was:
			c.Removed = append(c.Removed, k)
		}
	}
	slices.SortFunc(c.Added, func(a, b *Add) int { return read.KeyOf(a).Compare(read.KeyOf(b)) })
	slices.SortFunc(c.Readded, func(a, b *Add) int { return read.KeyOf(a).Compare(read.KeyOf(b)) })
	slices.SortFunc(c.Removed, FileKey.Compare)
	slices.Sort(c.Domains)
	c.Domains = slices.Compact(c.Domains)
	return c
}

func (c *Changes) note(w *Entry) {
	for _, a := range w.Actions {
		switch {
		case a.Metadata != nil:
			c.MetadataChanged = true
		case a.Protocol != nil:
			c.ProtocolChanged = true
		case a.Txn != nil:
			c.Txns[a.Txn.AppID] = *a.Txn
		case a.DomainMetadata != nil:
			c.Domains = append(c.Domains, a.DomainMetadata.Domain)
		}
	}
}

// Answer is what a merge that would record own (nil: no identifier) does.
// after is the snapshot at c.Last; its protocol decides about Refuse.
func (c *Changes) Answer(after *Snapshot, own *Txn) (Answer, error) {
	if c.ProtocolChanged || c.MetadataChanged || c.Created {
		if err := after.CheckWritable(); err != nil {
			return Refuse, err
		}
	}
	if own != nil {
		if t, ok := c.Txns[own.AppID]; ok && t.Version >= own.Version {
			return AlreadyApplied, nil
		}
	}
	switch {
	case c.ProtocolChanged || c.MetadataChanged || c.Created:
		return PlanAgain, nil
	case len(c.Added) > 0 || len(c.Removed) > 0:
		return ProbeAgain, nil
	}
	return Pass, nil
}

// ConflictKind is why a transaction cannot follow a winning commit, named as
// the protocol's other writers name it.
type ConflictKind string

// The kinds of conflict, in the order in which they are looked for.
const (
	ProtocolChanged        ConflictKind = "ProtocolChanged"
	MetadataChanged        ConflictKind = "MetadataChanged"
	ConcurrentTransaction  ConflictKind = "ConcurrentTransaction"
	ConcurrentAppend       ConflictKind = "ConcurrentAppend"
	ConcurrentDeleteRead   ConflictKind = "ConcurrentDeleteRead"
	ConcurrentDeleteDelete ConflictKind = "ConcurrentDeleteDelete"
)

// TransactionConflictError says that a winning commit changed what a
// transaction relied on. Nothing was committed; the caller may begin anew.
type TransactionConflictError struct {
	Kind    ConflictKind
	Version Version // of the winner
	Detail  string
}

func (e *TransactionConflictError) Error() string {
	return fmt.Sprintf("%s: version %d %s", e.Kind, e.Version, e.Detail)
}

// Reads is what a transaction read to come to its commit.
type Reads struct {
	// Files are the live files that were read.
	Files []FileKey
	// Whole says that the whole table was read: any added or removed file conflicts.
	Whole bool
	// Matches says whether a file added by a winner would have been read too;
	// nil: none would (only Files count), unless Whole.
	Matches func(a *Add) (bool, error)
	// Apps are the applications whose identifiers the commit depends on.
	Apps []string
}

// blind says whether nothing was read.
func (r *Reads) blind() bool {
	return len(r.Files) == 0 && !r.Whole && r.Matches == nil
}

// harmless are features that a protocol may gain under a running transaction:
// they ask nothing of a commit that was prepared without them.
var harmless = []string{"domainMetadata", "vacuumProtocolCheck", "appendOnly", "invariants"}

// checkConflict is one cell of the conflict matrix (protocol notes 3.3): whether
// commit c with reads r, prepared on read, can follow winner w. What must only be
// made anew (row 20: in-commit timestamps) is no conflict: TryCommit stamps every
// attempt.
func checkConflict(read *Snapshot, c *Commit, r *Reads, w *Entry) error {
	fail := func(kind ConflictKind, format string, args ...any) error {
		return &TransactionConflictError{Kind: kind, Version: w.Version, Detail: fmt.Sprintf(format, args...)}
	}
	for _, a := range w.Actions {
		if a.Protocol == nil {
			continue
		}
		if err := feature.CheckWrite(a.Protocol, read.Metadata()); err != nil {
			return fmt.Errorf("version %d changed the protocol: %w", w.Version, err)
		}
		if c.Protocol != nil {
			return fail(ProtocolChanged, "changed the protocol, as this commit does")
		}
		if !onlyAdds(read.Protocol(), a.Protocol) {
			return fail(ProtocolChanged, "changed the protocol")
		}
	}
	// Rows 7 and 8 of the matrix let some metadata changes pass, for features
	// that are not implemented here: every change fails.
	for _, a := range w.Actions {
		if a.Metadata != nil {
			return fail(MetadataChanged, "changed the metadata")
		}
	}
	if err := checkNames(c, r, w, fail); err != nil {
		return err
	}
	if err := checkAppends(c, r, w, fail); err != nil {
		return err
	}
	return checkRemoves(read, c, r, w, fail)
}

type failer = func(kind ConflictKind, format string, args ...any) error

// onlyAdds: after is before and harmless features.
func onlyAdds(before, after *Protocol) bool {
	had := supportedFeatures(before)
	has := supportedFeatures(after)
	for _, f := range had {
		if !slices.Contains(has, f) {
			return false
		}
	}
	for _, f := range has {
		if !slices.Contains(had, f) && !slices.Contains(harmless, f) {
			return false
		}
	}
	return true
}

func checkNames(c *Commit, r *Reads, w *Entry, fail failer) error {
	for _, a := range w.Actions {
		if d := a.DomainMetadata; d != nil {
			if slices.ContainsFunc(c.Domains, func(o DomainMetadata) bool { return o.Domain == d.Domain }) {
				return fail(ConcurrentTransaction, "wrote domain %q", d.Domain)
			}
		}
		if t := a.Txn; t != nil {
			own := slices.ContainsFunc(c.Txns, func(o Txn) bool { return o.AppID == t.AppID })
			if own || slices.Contains(r.Apps, t.AppID) {
				return fail(ConcurrentTransaction, "recorded version %d of application %q", t.Version, t.AppID)
			}
		}
	}
	return nil
}

func checkAppends(c *Commit, r *Reads, w *Entry, fail failer) error {
	if r.blind() || isolation(c) == SnapshotIsolation {
		return nil
	}
	winnerBlind := w.Info != nil && w.Info.IsBlindAppend != nil && *w.Info.IsBlindAppend
	if winnerBlind && isolation(c) == WriteSerializable && c.Metadata == nil {
		return nil
	}
	for _, a := range w.Actions {
		if a.Add == nil {
			continue
		}
		match := r.Whole
		if !match && r.Matches != nil {
			var err error
			if match, err = r.Matches(a.Add); err != nil {
				return fmt.Errorf("compare version %d with what was read: %w", w.Version, err)
			}
		}
		if match {
			return fail(ConcurrentAppend, "added file %q to what this commit read", a.Add.Path)
		}
	}
	return nil
}

func checkRemoves(s *Snapshot, c *Commit, r *Reads, w *Entry, fail failer) error {
	path := func(p string) string { return s.keyOf(p, nil).Path }
	read := make(map[string]bool, len(r.Files))
	for _, k := range r.Files {
		read[path(k.Path)] = true
	}
	removes := make(map[string]bool, len(c.Removes))
	for _, a := range c.Removes {
		removes[path(a.Path)] = true
	}
	for _, a := range w.Actions {
		// A changed vector counts too: paths are compared, vectors are not.
		if a.Remove != nil && (r.Whole || read[path(a.Remove.Path)]) {
			return fail(ConcurrentDeleteRead, "removed file %q, which this commit read", a.Remove.Path)
		}
	}
	for _, a := range w.Actions {
		if a.Remove != nil && removes[path(a.Remove.Path)] {
			return fail(ConcurrentDeleteDelete, "removed file %q, which this commit removes", a.Remove.Path)
		}
	}
	return nil
}

// isolation is the level that a commit is checked at.
func isolation(c *Commit) string {
	switch {
	case c.Rearrange && c.Metadata == nil && c.Protocol == nil:
		return SnapshotIsolation
	case c.Isolation == "":
		return Serializable
	}
	return c.Isolation
}
