package deltatable

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// checkCommit refuses, before anything is written, a commit that breaks a rule
// of the log or of the table (I8; PROTOCOL.md "Actions"; protocol notes 1.2,
// constraints inside one commit).
func checkCommit(read *Snapshot, c *Commit) error {
	if read == nil && (c.Protocol == nil || c.Metadata == nil) {
		return &CommitError{Msg: "the first version needs protocol and metadata"}
	}
	check := feature.CheckWrite
	if c.Rearrange || len(c.Adds) == 0 || len(c.Removes) == 0 {
		check = feature.CheckAppend // whole files need no change data
	}
	if read != nil {
		if err := check(read.Protocol(), read.Metadata()); err != nil {
			return err
		}
	}
	p, md := inForce(read, c)
	if read != nil {
		for _, f := range supportedFeatures(read.Protocol()) {
			if !feature.Supports(p, f) {
				return &CommitError{Msg: fmt.Sprintf("the protocol drops the feature %s", f)}
			}
		}
	}
	if err := check(p, md); err != nil {
		return err
	}
	if c.Operation == "" {
		return &CommitError{Msg: "it has no operation"}
	}
	if err := checkIdentity(read, c, p, md); err != nil {
		return err
	}
	if feature.IsAppendOnly(p, md) && !c.Rearrange && len(c.Removes) > 0 {
		return &AppendOnlyError{Path: c.Removes[0].Path}
	}
	if c.BlindAppend && len(c.Removes) > 0 {
		return &CommitError{Msg: "a blind append removes nothing"}
	}
	return checkFiles(read, c)
}

// inForce is the protocol and metadata after c is committed on read.
func inForce(read *Snapshot, c *Commit) (*Protocol, *Metadata) {
	p, md := c.Protocol, c.Metadata
	if p == nil {
		p = read.Protocol()
	}
	if md == nil {
		md = read.Metadata()
	}
	return p, md
}

// checkIdentity: one metadata id for the table's life, one txn an application,
// one configuration a domain, system domains untouched.
func checkIdentity(read *Snapshot, c *Commit, p *Protocol, md *Metadata) error {
	if read != nil && md.ID != read.Metadata().ID {
		return &CommitError{Msg: "the metadata has another id than the table"}
	}
	apps := make(map[string]bool, len(c.Txns))
	for _, t := range c.Txns {
		if t.AppID == "" || apps[t.AppID] {
			return &CommitError{Msg: fmt.Sprintf("application %q is empty or has two transaction identifiers", t.AppID)}
		}
		apps[t.AppID] = true
	}
	domains := make(map[string]bool, len(c.Domains))
	for _, d := range c.Domains {
		if d.Domain == "" || domains[d.Domain] || strings.HasPrefix(d.Domain, "delta.") {
			return &CommitError{Msg: fmt.Sprintf("domain %q is empty, occurs twice or belongs to a table feature", d.Domain)}
		}
		domains[d.Domain] = true
	}
	if len(c.Domains) > 0 && !feature.Supports(p, feature.DomainMetadata) {
		return &CommitError{Msg: "the protocol lacks the feature domainMetadata, which a domain needs"}
	}
	return nil
}

// supportedFeatures are the features that a protocol implies by number or
// names (PROTOCOL.md "Supported Features"; protocol notes 1.3), sorted.
func supportedFeatures(p *Protocol) []string {
	legacy := [][]string{
		2: {"appendOnly", "invariants"}, 3: {"checkConstraints"}, 4: {"changeDataFeed", "generatedColumns"},
		5: {"columnMapping"}, 6: {"identityColumns"},
	}
	names := slices.Concat(p.ReaderFeatures, p.WriterFeatures)
	if p.MinWriter < 7 {
		for v := 2; v <= p.MinWriter && v < len(legacy); v++ {
			names = append(names, legacy[v]...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sharesPath finds a live file that has k's path and another deletion vector.
func (s *Snapshot) sharesPath(k FileKey) (FileKey, bool) {
	if s == nil {
		return FileKey{}, false
	}
	files := s.Files()
	i := sort.Search(len(files), func(i int) bool { return s.KeyOf(files[i]).Path >= k.Path })
	for ; i < len(files); i++ {
		switch o := s.KeyOf(files[i]); {
		case o.Path != k.Path:
			return FileKey{}, false
		case o != k:
			return o, true
		}
	}
	return FileKey{}, false
}

// checkFiles: no path twice among the adds or among the removes; every remove
// live by its exact key; a path added while live only along with its remove.
func checkFiles(read *Snapshot, c *Commit) error {
	removed := make(map[string]FileKey, len(c.Removes))
	for _, a := range c.Removes {
		k := read.KeyOf(a)
		if _, twice := removed[k.Path]; twice {
			return &CommitError{Msg: fmt.Sprintf("file %q is removed twice", a.Path)}
		}
		removed[k.Path] = k
		if read == nil {
			return &CommitError{Msg: fmt.Sprintf("file %q is removed from a table that does not exist", a.Path)}
		}
		live, ok := read.File(k)
		if !ok || live.Path != a.Path {
			return &CommitError{Msg: fmt.Sprintf("file %q is removed but is not live in version %d", a.Path, read.Version())}
		}
	}
	added := make(map[string]bool, len(c.Adds))
	for _, a := range c.Adds {
		k := read.KeyOf(a)
		if a.Path == "" || added[k.Path] {
			return &CommitError{Msg: fmt.Sprintf("file %q is added twice or has no path", a.Path)}
		}
		added[k.Path] = true
		if r, ok := removed[k.Path]; ok && r == k {
			return &CommitError{Msg: fmt.Sprintf("file %q is added and removed", a.Path)}
		}
		if other, ok := read.sharesPath(k); ok && removed[k.Path] != other {
			return &CommitError{Msg: fmt.Sprintf("file %q is added while it is live with another deletion vector, which is not removed", a.Path)}
		}
		if a.DeletionVector != nil {
			return &UnsupportedFeatureError{
				Feature: "deletionVectors", Operation: "write",
				Reason: fmt.Sprintf("file %q is added with a deletion vector", a.Path),
			}
		}
	}
	return nil
}
