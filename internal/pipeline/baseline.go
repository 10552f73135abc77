package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// NewBaseline starts a guarded table's digest anew where the last recorded one
// is unknown, from all rows of the latest version (merge-semantics 7: audit
// --full starts a new baseline). It gives the version that records it, nil where
// the digest is known and nothing was committed. Rows that break the rules are
// a *merge.TargetError.
func NewBaseline(ctx context.Context, e *Env, table string) (*deltatable.Version, error) {
	t, err := e.OpenTable(ctx, table)
	if err != nil {
		return nil, err
	}
	var at *deltatable.Version
	err = e.restart(ctx, func() error {
		at, err = e.newBaseline(ctx, t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("new baseline of table %s: %w", table, err)
	}
	return at, nil
}

func (e *Env) newBaseline(ctx context.Context, t *deltatable.Table) (*deltatable.Version, error) {
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	roles, ok, err := change.RolesFromProperties(snap.Properties())
	if err != nil || !ok {
		return nil, err
	}
	known, err := digestKnown(ctx, t, snap)
	if err != nil || known {
		return nil, err
	}
	sum, err := merge.CheckTable(ctx, snap, roles)
	if err != nil {
		return nil, err
	}
	run := uuid.NewString()
	tx := t.Begin(snap)
	tx.Write = deltatable.Commit{TxnID: run, Operation: "SET TBLPROPERTIES", Parameters: map[string]string{"properties": "{}"}, Tags: baseline(run, sum)}
	tx.Read.Whole = true
	landed, err := tx.Commit(ctx, e.Retry)
	if err != nil {
		return nil, err
	}
	return &landed.Version, nil
}

// digestKnown says whether the last recorded digest is a number.
func digestKnown(ctx context.Context, t *deltatable.Table, snap *deltatable.Snapshot) (bool, error) {
	for v := snap.Version(); v >= 0; v-- {
		entry, err := t.Entry(ctx, v)
		var none *deltatable.VersionRangeError
		if errors.As(err, &none) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if entry.Info == nil {
			continue
		}
		if text, ok := entry.Info.Tags[change.TagTableDigest]; ok {
			return text != change.DigestUnknown, nil
		}
	}
	return false, nil
}
