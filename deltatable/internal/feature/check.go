package feature

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deltafold/deltafold/deltatable/internal/action"
)

// UnsupportedError says which table features stand in the way of an operation. It
// names all of them.
type UnsupportedError struct {
	// Feature holds the names, joined by ", " when there are several.
	Feature string
	// Operation is "read" or "write".
	Operation string
	// Reason says why, for a person.
	Reason string
}

// Error names the features, the operation and the reason.
func (e *UnsupportedError) Error() string {
	noun := "feature"
	if strings.Contains(e.Feature, ", ") {
		noun = "features"
	}
	s := fmt.Sprintf("cannot %s the table: unsupported %s %s", e.Operation, noun, e.Feature)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// refusals collects what stands in the way.
type refusals struct{ names, reasons []string }

func (r *refusals) add(name, reason string) {
	for _, n := range r.names {
		if strings.EqualFold(n, name) {
			return
		}
	}
	r.names = append(r.names, name)
	if reason != "" && !slices.Contains(r.reasons, reason) {
		r.reasons = append(r.reasons, reason)
	}
}

func (r *refusals) err(operation string) error {
	if len(r.names) == 0 {
		return nil
	}
	return &UnsupportedError{
		Feature:   strings.Join(r.names, ", "),
		Operation: operation,
		Reason:    strings.Join(r.reasons, "; "),
	}
}

// CheckRead returns a *[UnsupportedError] unless a table with this protocol and
// metadata can be read (protocol notes 1.3, 1.4). Not decided here: whether a live
// file has a deletion vector (deltatable, per snapshot) and whether a V2 log
// checkpoint must be read (deltalog).
func CheckRead(p *action.Protocol, md *action.Metadata) error {
	var r refusals
	checkRead(&r, p, md)
	return r.err("read")
}

func checkRead(r *refusals, p *action.Protocol, md *action.Metadata) {
	checkVersions(r, p)
	for _, name := range slices.Concat(p.ReaderFeatures, p.WriterFeatures) {
		if catalogManaged(name) {
			r.add(name, "commits of this table belong to a catalog; use the catalog"+catalogOf(md))
		}
	}
	if p.MinReader >= 3 {
		for _, name := range p.ReaderFeatures {
			if k, ok := find(name); (!ok || !k.readable) && !catalogManaged(name) {
				r.add(name, "")
			}
		}
	}
	if md == nil {
		return
	}
	if md.Provider != "" && !strings.EqualFold(md.Provider, "parquet") {
		r.add("format "+md.Provider, "data files are not Parquet")
	}
	if mode := ColumnMappingMode(p, md); mode != "none" {
		r.add(ColumnMapping, "columns are mapped, mode "+mode)
	}
	u := usage(md.SchemaString)
	if u.has("delta.typeChanges") {
		name := TypeWidening
		if lists(p.ReaderFeatures, typeWideningPreview) {
			name = typeWideningPreview
		}
		r.add(name, "columns have changed their type")
	}
}

// checkVersions refuses protocol versions that are not known.
func checkVersions(r *refusals, p *action.Protocol) {
	switch {
	case p.MinReader > 3:
		r.add(fmt.Sprintf("minReaderVersion %d", p.MinReader), "the newest known is 3")
	case p.MinReader < 1:
		r.add(fmt.Sprintf("minReaderVersion %d", p.MinReader), "not a protocol version")
	case p.MinReader == 3 && p.MinWriter < 7:
		r.add(fmt.Sprintf("minReaderVersion 3 with minWriterVersion %d", p.MinWriter), "not a protocol")
	}
}

// catalogOf names the catalog's properties, if any, for the message.
func catalogOf(md *action.Metadata) string {
	if md == nil {
		return ""
	}
	var keys []string
	for k, v := range md.Configuration {
		l := strings.ToLower(k)
		if strings.Contains(l, "coordinator-preview") || strings.Contains(l, "catalog") {
			keys = append(keys, k+"="+v)
		}
	}
	if keys == nil {
		return ""
	}
	slices.Sort(keys)
	return " (" + strings.Join(keys, ", ") + ")"
}

// CheckWrite returns a *[UnsupportedError] unless rows of a table with this protocol
// and metadata can be changed: what stands in the way of reading, every writer
// feature that is not handled, and the handled ones that are active in a way that
// asks for more than plain files, change data feed among them. Not decided here:
// live deletion vectors, and removes from an append-only table ([IsAppendOnly]).
func CheckWrite(p *action.Protocol, md *action.Metadata) error {
	var r refusals
	checkWrite(&r, p, md)
	if ChangeDataFeedEnabled(p, md) {
		r.add(ChangeDataFeed, "change data files are not written")
	}
	return r.err("write")
}

// CheckAppend is [CheckWrite] for a commit that only adds whole files of new rows,
// or only removes whole files: it needs no change data files (PROTOCOL.md "Change
// Data Files").
func CheckAppend(p *action.Protocol, md *action.Metadata) error {
	var r refusals
	checkWrite(&r, p, md)
	return r.err("write")
}

func checkWrite(r *refusals, p *action.Protocol, md *action.Metadata) {
	checkRead(r, p, md)
	if p.MinWriter > 7 || p.MinWriter < 1 {
		r.add(fmt.Sprintf("minWriterVersion %d", p.MinWriter), "the newest known is 7")
	}
	if p.MinWriter == 7 {
		for _, name := range p.WriterFeatures {
			if k, ok := find(name); (!ok || !k.writable) && !catalogManaged(name) {
				r.add(name, "")
			}
		}
	}
	if md == nil {
		return
	}
	u := usage(md.SchemaString)
	if u.damaged {
		r.add("schema", "schemaString is not a JSON schema")
	}
	// NB: a constraint in use is refused whether or not the protocol lists it; to
	// write rows that it forbids is the worse mistake.
	if u.has("delta.invariants") {
		r.add(Invariants, "a column has an invariant")
	}
	if u.has("delta.generationExpression") {
		r.add(GeneratedColumns, "a column is generated")
	}
	if u.hasPrefix("delta.identity.") {
		r.add(IdentityColumns, "a column is an identity column")
	}
	if u.has("CURRENT_DEFAULT") {
		r.add(AllowColumnDefaults, "a column has a default")
	}
	for k := range md.Configuration {
		if strings.HasPrefix(strings.ToLower(k), "delta.constraints.") {
			r.add(CheckConstraints, "the table has a constraint")
		}
	}
	checkProperties(r, p, md)
}

// checkProperties refuses features that a property makes active.
func checkProperties(r *refusals, p *action.Protocol, md *action.Metadata) {
	if enabled(md, "delta.enableDeletionVectors") && Supports(p, DeletionVectors) {
		r.add(DeletionVectors, "the table wants deletion vectors")
	}
	if enabled(md, "delta.enableTypeWidening") && (Supports(p, TypeWidening) || Supports(p, typeWideningPreview)) {
		r.add(TypeWidening, "columns may change their type")
	}
}

// IsAppendOnly reports whether rows must not be removed (PROTOCOL.md "Append-only Tables").
func IsAppendOnly(p *action.Protocol, md *action.Metadata) bool {
	return Supports(p, AppendOnly) && enabled(md, "delta.appendOnly")
}

// ChangeDataFeedEnabled reports whether row-level changes need change data files.
func ChangeDataFeedEnabled(p *action.Protocol, md *action.Metadata) bool {
	return Supports(p, ChangeDataFeed) && enabled(md, "delta.enableChangeDataFeed")
}

// InCommitTimestampsEnabled reports whether each commit carries its own timestamp
// (PROTOCOL.md "In-Commit Timestamps"). Evaluated with the metadata of that commit.
func InCommitTimestampsEnabled(p *action.Protocol, md *action.Metadata) bool {
	return Supports(p, InCommitTimestamp) && enabled(md, "delta.enableInCommitTimestamps")
}

// ColumnMappingMode returns "none", or the mode in lower case ("name", "id") if the
// protocol supports column mapping (PROTOCOL.md "Column Mapping").
func ColumnMappingMode(p *action.Protocol, md *action.Metadata) string {
	if md == nil || p.MinReader != 2 && (p.MinReader < 3 || !Supports(p, ColumnMapping)) {
		return "none"
	}
	mode := strings.ToLower(Property(md, "delta.columnMapping.mode"))
	if mode == "" {
		return "none"
	}
	return mode
}

// Supports reports whether the protocol lists the feature or implies it by a legacy
// version. Names match in any case.
func Supports(p *action.Protocol, name string) bool {
	if p == nil {
		return false
	}
	if p.MinWriter >= 7 || p.MinReader >= 3 {
		return lists(p.WriterFeatures, name) || lists(p.ReaderFeatures, name)
	}
	k, ok := find(name)
	return ok && k.legacyWriter > 0 && p.MinWriter >= k.legacyWriter
}

func lists(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
