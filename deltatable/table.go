package deltatable

import (
	"context"
	"fmt"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
)

const (
	defaultEngine  = "deltafold"
	defaultWorkers = 4
	distantWorkers = 8 // where much of a read is waiting for answers
)

// Table is a handle on the Delta table at the root of a store, which need not
// exist yet. Safe for concurrent use.
type Table struct {
	store     *blobstore.Store
	now       func() time.Time
	engine    string
	workers   int
	undecided *Retry
	foreign   *foreignStores
}

// NewTable is the table at the root of store. It reads nothing.
func NewTable(store *blobstore.Store, o *Options) *Table {
	t := &Table{
		store: store, engine: defaultEngine, workers: defaultWorkers,
		now:       time.Now, //nolint:forbidigo // the default of Options.Now
		undecided: &Retry{Max: 12, For: 2 * time.Minute}, foreign: &foreignStores{opener: blobstore.Open},
	}
	if store.Distant() {
		t.workers = distantWorkers
	}
	if o == nil {
		return t
	}
	if o.Now != nil {
		t.now = o.Now
	}
	if o.Engine != "" {
		t.engine = o.Engine
	}
	if o.Workers > 0 {
		t.workers = o.Workers
	}
	if o.Undecided != nil {
		t.undecided = o.Undecided
	}
	if o.Open != nil {
		t.foreign.opener = o.Open
	}
	return t
}

// Store is the store that the table lies in.
func (t *Table) Store() *blobstore.Store { return t.store }

// Snapshot is the state at the latest version. ErrNoTable where there is none;
// *UnsupportedFeatureError where reading needs a feature that is not implemented.
func (t *Table) Snapshot(ctx context.Context) (*Snapshot, error) {
	st, err := deltalog.Load(ctx, t.store, nil)
	if err != nil {
		return nil, t.opening(err)
	}
	return newSnapshot(t, st)
}

// SnapshotAt is the state at version v. *VersionRangeError names the range
// that can be read (PROTOCOL.md "Requirements for Readers").
func (t *Table) SnapshotAt(ctx context.Context, v Version) (*Snapshot, error) {
	st, err := deltalog.Load(ctx, t.store, &deltalog.LoadOptions{At: &v})
	if err != nil {
		return nil, t.opening(err)
	}
	return newSnapshot(t, st)
}

// Refresh is the state at the latest version, made from s by reading only what
// was committed since; s itself if nothing was. s stays valid.
func (t *Table) Refresh(ctx context.Context, s *Snapshot) (*Snapshot, error) {
	st, err := deltalog.Next(ctx, t.store, s.state)
	if err != nil {
		return nil, t.opening(err)
	}
	if st == s.state {
		return s, nil
	}
	return newSnapshot(t, st)
}

func (t *Table) opening(err error) error {
	return fmt.Errorf("open table %s: %w", t.store.URL(), err)
}
