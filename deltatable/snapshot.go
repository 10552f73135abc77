package deltatable

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// Snapshot is the immutable state of a table at one version (I5). Safe for
// concurrent use. What its methods hand out is shared: do not modify it.
type Snapshot struct {
	table  *Table
	state  *deltalog.State
	layout *Layout
	at     time.Time
}

func newSnapshot(t *Table, st *deltalog.State) (*Snapshot, error) {
	if err := feature.CheckRead(st.Protocol, st.Metadata); err != nil {
		return nil, fmt.Errorf("read version %d of table %s: %w", st.Version, t.store.URL(), err)
	}
	l, err := layoutOf(st.Metadata)
	if err != nil {
		return nil, fmt.Errorf("read version %d of table %s: %w", st.Version, t.store.URL(), err)
	}
	return &Snapshot{table: t, state: st, layout: l, at: stateTime(st)}, nil
}

// stateTime is the in-commit timestamp where the table has them, else the log
// entry's modification time in milliseconds, zero where the entry is gone.
func stateTime(st *deltalog.State) time.Time {
	if ci := st.CommitInfo; ci != nil && ci.InCommitTimestamp != nil && feature.InCommitTimestampsEnabled(st.Protocol, st.Metadata) {
		return time.UnixMilli(*ci.InCommitTimestamp).UTC()
	}
	if st.EntryModTime.IsZero() {
		return time.Time{}
	}
	return st.EntryModTime.UTC().Truncate(time.Millisecond)
}

// Table is the table that s is a state of.
func (s *Snapshot) Table() *Table { return s.table }

// Version is the version that s is the state of.
func (s *Snapshot) Version() Version { return s.state.Version }

// Timestamp is the time of the version: its in-commit timestamp, or the
// modification time of its log entry (History adjusts those so that they
// ascend), or the zero time where the entry is no longer there.
func (s *Snapshot) Timestamp() time.Time { return s.at }

// Metadata is the table's metadata at this version.
func (s *Snapshot) Metadata() *Metadata { return s.state.Metadata }

// Protocol is the table's protocol at this version.
func (s *Snapshot) Protocol() *Protocol { return s.state.Protocol }

// Schema is the logical schema in canonical types, partition columns in their
// place of the table's order.
func (s *Snapshot) Schema() *arrow.Schema { return s.layout.Schema() }

// DeltaSchema is the schema with its Delta field metadata.
func (s *Snapshot) DeltaSchema() *Schema { return s.layout.delta }

// PartitionColumns are the partition columns, in the metadata's order.
func (s *Snapshot) PartitionColumns() []string { return s.layout.PartitionColumns() }

// Properties are the table properties (metaData.configuration); a copy.
func (s *Snapshot) Properties() map[string]string {
	return maps.Clone(s.state.Metadata.Configuration)
}

// Property is one table property.
func (s *Snapshot) Property(key string) (string, bool) {
	v, ok := s.state.Metadata.Configuration[key]
	return v, ok
}

// AppVersion is the last version that application appID recorded
// (PROTOCOL.md "Transaction Identifiers").
func (s *Snapshot) AppVersion(appID string) (int64, bool) {
	if t, ok := s.state.Txns[appID]; ok {
		return t.Version, true
	}
	return 0, false
}

// Txns are the transaction identifiers, sorted by application.
func (s *Snapshot) Txns() []*Txn {
	ts := make([]*Txn, 0, len(s.state.Txns))
	for _, app := range slices.Sorted(maps.Keys(s.state.Txns)) {
		ts = append(ts, s.state.Txns[app])
	}
	return ts
}

// CommitInfo is the commitInfo of this version; nil where its log entry has
// none or is gone.
func (s *Snapshot) CommitInfo() *CommitInfo { return s.state.CommitInfo }

// Files are the live files, sorted by path, then deletion vector.
func (s *Snapshot) Files() []*Add { return s.state.Adds }

// File is the live file with identity k; absolute paths in any of their forms (I3).
func (s *Snapshot) File(k FileKey) (*Add, bool) { return s.state.File(k) }

// KeyOf is the identity of a as a file of this table. It differs from Add.Key
// only for an absolute path below the table's own root (I3).
func (s *Snapshot) KeyOf(a *Add) FileKey { return s.keyOf(a.Path, a.DeletionVector) }

// keyOf works without a snapshot too: then only a file's own spelling counts.
func (s *Snapshot) keyOf(path string, dv *DeletionVector) FileKey {
	root := ""
	if s != nil {
		root = s.table.store.URL()
	}
	return FileKey{Path: action.CanonicalPath(root, path), DV: dv.UniqueID()}
}

// Layout is the shape of the table's rows at this version.
func (s *Snapshot) Layout() *Layout { return s.layout }

// FileBounds is what statistics and partition values know of the columns of
// a; the statistics are parsed once, by the first call of the result that
// needs them. Unknown wherever anything is odd (I4). The result is not safe
// for concurrent use.
func (s *Snapshot) FileBounds(a *Add) func(column string) Bounds { return s.layout.bounds(a) }

// Bounds is FileBounds for a single column.
func (s *Snapshot) Bounds(a *Add, column string) Bounds { return s.layout.bounds(a)(column) }

// NumRecords is the number of rows of a by its statistics, less those that its
// deletion vector marks; false where unknown.
func (s *Snapshot) NumRecords(a *Add) (int64, bool) {
	n, ok := numRecords(a.Stats)
	if !ok || a.DeletionVector == nil {
		return n, ok
	}
	if n < a.DeletionVector.Cardinality {
		return 0, false
	}
	return n - a.DeletionVector.Cardinality, true
}

// CheckWritable is nil if this package can commit changes of rows to the table,
// else an *UnsupportedFeatureError (I8).
func (s *Snapshot) CheckWritable() error {
	if err := feature.CheckWrite(s.state.Protocol, s.state.Metadata); err != nil {
		return err
	}
	return s.checkVectors(s.Files())
}

// CheckAppendable is CheckWritable for commits that only add whole files of new
// rows, or only remove whole files.
func (s *Snapshot) CheckAppendable() error {
	return feature.CheckAppend(s.state.Protocol, s.state.Metadata)
}

// checkVectors refuses a file with a deletion vector by name.
func (s *Snapshot) checkVectors(files []*Add) error {
	for _, a := range files {
		if a.DeletionVector != nil {
			return &UnsupportedFeatureError{
				Feature: "deletionVectors", Operation: "read",
				Reason: fmt.Sprintf("file %q of version %d has a deletion vector", a.Path, s.Version()),
			}
		}
	}
	return nil
}
