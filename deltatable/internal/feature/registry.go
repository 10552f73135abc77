package feature

import "strings"

// The names of table features, in canonical spelling (PROTOCOL.md "Valid Feature Names
// in Table Features").
const (
	AppendOnly          = "appendOnly"
	Invariants          = "invariants"
	CheckConstraints    = "checkConstraints"
	ChangeDataFeed      = "changeDataFeed"
	GeneratedColumns    = "generatedColumns"
	ColumnMapping       = "columnMapping"
	IdentityColumns     = "identityColumns"
	DeletionVectors     = "deletionVectors"
	TimestampNtz        = "timestampNtz"
	V2Checkpoint        = "v2Checkpoint"
	DomainMetadata      = "domainMetadata"
	InCommitTimestamp   = "inCommitTimestamp"
	AllowColumnDefaults = "allowColumnDefaults"
	VacuumProtocolCheck = "vacuumProtocolCheck"
	TypeWidening        = "typeWidening"
	typeWideningPreview = "typeWidening-preview"
	timestampNtzAlias   = "timestampWithoutTimezone" // seen in the wild; never written
)

// kind says how a feature concerns readers, writers and old protocol versions.
type kind struct {
	name string
	// reader: a reader-writer feature; listed for readers and writers.
	reader bool
	// readable and writable: handled, or refused only while active by a check of its own.
	readable, writable bool
	// legacyWriter is the writer version up to 6 that implies it; 0: none.
	legacyWriter int
}

// kinds returns the features that are handled in some way, by protocol notes 1.4.
// Everything that is not here is refused by name.
func kinds() []kind {
	return []kind{
		{AppendOnly, false, true, true, 2},
		{Invariants, false, true, true, 2},
		{CheckConstraints, false, true, true, 3},
		{ChangeDataFeed, false, true, true, 4},
		{GeneratedColumns, false, true, true, 4},
		{ColumnMapping, true, true, true, 5},
		{IdentityColumns, false, true, true, 6},
		{DeletionVectors, true, true, true, 0},
		{TimestampNtz, true, true, true, 0},
		{timestampNtzAlias, true, true, true, 0},
		{V2Checkpoint, true, true, false, 0},
		{DomainMetadata, false, true, true, 0},
		{InCommitTimestamp, false, true, true, 0},
		{AllowColumnDefaults, false, true, true, 0},
		{VacuumProtocolCheck, true, true, true, 0},
		{TypeWidening, true, true, true, 0},
		{typeWideningPreview, true, true, true, 0},
	}
}

// find returns the feature of that name; names match in any case, as in Spark.
func find(name string) (kind, bool) {
	for _, k := range kinds() {
		if strings.EqualFold(k.name, name) {
			return k, true
		}
	}
	return kind{}, false
}

// catalogManaged reports whether the feature gives the commits to a catalog. Such a
// table is refused for reading too: what is published may lag behind (protocol notes 1.15).
func catalogManaged(name string) bool {
	switch strings.ToLower(name) {
	case "catalogmanaged", "catalogowned", "catalogowned-preview", "coordinatedcommits-preview":
		return true
	}
	return false
}
