package action

import (
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Add says that a data file is part of the table (PROTOCOL.md "Add File and Remove File").
type Add struct {
	// Path is the URI-encoded path as written in the log: relative to the table root
	// or absolute. It is decoded only to open the file (I3).
	Path string
	// PartitionValues maps each partition column (physical name) to its text; nil
	// text is NULL. Never a nil map after Decode. Read-only: may be shared.
	PartitionValues map[string]*string
	// Size is the file's size in bytes.
	Size int64
	// ModificationTime is in milliseconds since the epoch.
	ModificationTime int64
	// DataChange is false for a rearrangement of the same rows, and meaningless in a
	// reconstructed state.
	DataChange bool
	// Stats is the raw text of the JSON statistics; "" when absent.
	Stats string
	// Tags is nil when absent. Read-only: may be shared.
	Tags map[string]string
	// DeletionVector is nil when no row of the file is marked as deleted.
	DeletionVector *DeletionVector
	// BaseRowID and DefaultRowCommitVersion belong to row tracking; nil when absent.
	BaseRowID               *int64
	DefaultRowCommitVersion *int64
	// ClusteringProvider names who clustered the file; nil when absent.
	ClusteringProvider *string
}

// Key returns the identity of the logical file: I3. An absolute path below the
// table's own root keeps its absolute form here, as an Add does not know the root;
// [CanonicalPath] and the log's state relate the two forms.
func (a *Add) Key() FileKey {
	return FileKey{Path: CanonicalLocation(a.Path), DV: a.DeletionVector.UniqueID()}
}

// Remove says that a data file is no longer part of the table. In a state it is a
// log tombstone (PROTOCOL.md "Add File and Remove File").
type Remove struct {
	// Path is the path of the add that is removed, to the byte (I3).
	Path string
	// DeletionTimestamp is in milliseconds since the epoch; nil counts as 0.
	DeletionTimestamp *int64
	// DataChange is true when absent from the log.
	DataChange bool
	// ExtendedFileMetadata says that PartitionValues and Size (and Tags, if any) are set.
	ExtendedFileMetadata bool
	// PartitionValues is nil when absent. Read-only: may be shared.
	PartitionValues map[string]*string
	// Size is in bytes; nil when absent.
	Size *int64
	// Stats is the raw text of the JSON statistics; "" when absent.
	Stats string
	// Tags is nil when absent.
	Tags map[string]string
	// DeletionVector is the vector of the add that is removed.
	DeletionVector *DeletionVector
	// BaseRowID and DefaultRowCommitVersion belong to row tracking; nil when absent.
	BaseRowID               *int64
	DefaultRowCommitVersion *int64
}

// Key returns the identity of the logical file that is removed; see [Add.Key].
func (r *Remove) Key() FileKey {
	return FileKey{Path: CanonicalLocation(r.Path), DV: r.DeletionVector.UniqueID()}
}

// RemoveOf returns the remove of a live add: the same path to the byte, the same
// deletion vector, and the extended metadata that Spark's change reader insists on.
// Statistics are not copied, as log tombstones do not use them.
func RemoveOf(a *Add, at time.Time, dataChange bool) *Remove {
	ts, size := at.UnixMilli(), a.Size
	values := a.PartitionValues
	if values == nil {
		values = noValues
	}
	return &Remove{
		Path:                    a.Path,
		DeletionTimestamp:       &ts,
		DataChange:              dataChange,
		ExtendedFileMetadata:    true,
		PartitionValues:         values,
		Size:                    &size,
		Tags:                    maps.Clone(a.Tags),
		DeletionVector:          a.DeletionVector,
		BaseRowID:               a.BaseRowID,
		DefaultRowCommitVersion: a.DefaultRowCommitVersion,
	}
}

// noValues is the one empty map of unpartitioned files. NB: never written to.
var noValues = map[string]*string{}

// NoPartitionValues returns the empty map of unpartitioned files. Read-only: it is shared.
func NoPartitionValues() map[string]*string { return noValues }

// DeletionVector describes the rows of a file that are deleted (PROTOCOL.md
// "Deletion Vectors"). A nil vector is no vector.
type DeletionVector struct {
	// StorageType is "u" (file below the root), "i" (inline) or "p" (absolute path).
	StorageType    string
	PathOrInlineDV string
	// Offset is the position of the vector's size field in its file; nil when absent,
	// which is not the same identity as 0.
	Offset *int32
	// SizeInBytes is the length of the serialised vector, without size and checksum.
	SizeInBytes int32
	// Cardinality is the number of rows marked.
	Cardinality int64
}

// Metadata is the table's metaData action (PROTOCOL.md "Change Metadata").
type Metadata struct {
	// ID is the table's identifier, stable over all later Metadata.
	ID string
	// Name and Description are "" when absent.
	Name, Description string
	// Provider is the data files' format: "parquet". FormatOptions is its options,
	// nil or empty when there are none.
	Provider      string
	FormatOptions map[string]string
	// SchemaString is the table's schema as JSON text.
	SchemaString string
	// PartitionColumns holds logical names, in order.
	PartitionColumns []string
	// Configuration holds the table properties.
	Configuration map[string]string
	// CreatedTime is in milliseconds since the epoch; nil when absent.
	CreatedTime *int64
}

// Clone returns a deep copy, to be changed and committed.
func (m *Metadata) Clone() *Metadata {
	c := *m
	c.FormatOptions = maps.Clone(m.FormatOptions)
	c.PartitionColumns = slices.Clone(m.PartitionColumns)
	c.Configuration = maps.Clone(m.Configuration)
	return &c
}

// Protocol says what a client must understand (PROTOCOL.md "Protocol Evolution").
// A feature list is nil when absent, which differs from empty.
type Protocol struct {
	MinReader, MinWriter           int
	ReaderFeatures, WriterFeatures []string
}

// Txn is a transaction identifier: how far an application got (PROTOCOL.md
// "Transaction Identifiers").
type Txn struct {
	AppID   string
	Version int64
	// LastUpdated is in milliseconds since the epoch; nil when absent.
	LastUpdated *int64
}

// DomainMetadata is the configuration of a named domain (PROTOCOL.md "Domain Metadata").
type DomainMetadata struct {
	Domain, Configuration string
	Removed               bool
}

// CommitInfo is the provenance of a commit (PROTOCOL.md "Commit Provenance
// Information"). It is free-form: a known member of an unexpected kind is kept in
// Extra instead of failing.
type CommitInfo struct {
	// Timestamp is in milliseconds since the epoch; 0 when absent.
	Timestamp int64
	// InCommitTimestamp is in milliseconds since the epoch; nil when absent.
	InCommitTimestamp *int64
	Operation         string
	// OperationParameters holds texts. They are written as JSON strings verbatim. A
	// value that is not a string is read as its JSON text; null is left out.
	OperationParameters map[string]string
	// ReadVersion is nil when absent.
	ReadVersion    *int64
	IsolationLevel string
	// IsBlindAppend is nil when absent.
	IsBlindAppend *bool
	// OperationMetrics is read and written as OperationParameters is.
	OperationMetrics map[string]string
	UserMetadata     string
	EngineInfo       string
	TxnID            string
	Tags             map[string]string
	// Extra is a JSON object with the members that have no field here; nil when none.
	Extra jsontext.Value
}

// CDC names a change data file (PROTOCOL.md "Add CDC File").
type CDC struct {
	Path            string
	PartitionValues map[string]*string
	Size            int64
	DataChange      bool
	Tags            map[string]string
}

// CheckpointMetadata marks a V2 log checkpoint (PROTOCOL.md "Checkpoint Metadata").
type CheckpointMetadata struct {
	Version int64
	Tags    map[string]string
}

// Sidecar names a file of a V2 log checkpoint (PROTOCOL.md "Sidecar File Information").
type Sidecar struct {
	Path             string
	SizeInBytes      int64
	ModificationTime int64
	Tags             map[string]string
}

// Action is one action: exactly one pointer is not nil.
type Action struct {
	Add                *Add
	Remove             *Remove
	Metadata           *Metadata
	Protocol           *Protocol
	Txn                *Txn
	DomainMetadata     *DomainMetadata
	CommitInfo         *CommitInfo
	CDC                *CDC
	CheckpointMetadata *CheckpointMetadata
	Sidecar            *Sidecar
}
