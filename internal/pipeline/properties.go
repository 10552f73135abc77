package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// SetProperties sets table properties, k=v each. Properties that name roles are
// refused: only create and adopt write those. A property that asks for a table
// feature which the table's protocol lacks is refused by name (I8). Where all
// have their values already, no version is made.
func SetProperties(ctx context.Context, e *Env, table string, given []string) (*TableReport, error) {
	props, outcomes, err := SplitProperties(given)
	if err != nil {
		return nil, err
	}
	if outcomes != "" {
		props[change.PropOutcomes] = outcomes
	}
	t, err := e.OpenTable(ctx, table)
	if err != nil {
		return nil, err
	}
	var rep *TableReport
	err = e.restart(ctx, func() error {
		rep, err = e.setProperties(ctx, t, props)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("set properties of table %s: %w", table, err)
	}
	return rep, nil
}

func (e *Env) setProperties(ctx context.Context, t *deltatable.Table, props map[string]string) (*TableReport, error) {
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	mode, err := change.ModeOf(snap.Properties())
	if err != nil {
		return nil, err
	}
	rep := &TableReport{Table: t.Store().URL(), Mode: mode, Schema: snap.Schema()}
	md := *snap.Metadata()
	md.Configuration = snap.Properties()
	maps.Copy(md.Configuration, props)
	if maps.Equal(md.Configuration, snap.Properties()) {
		return rep, nil
	}
	if err := checkNeeded(snap, props); err != nil {
		return nil, err
	}
	if _, err := deltatable.NewLayout(&md); err != nil {
		return nil, newTableError(err)
	}
	if err := e.completeOutcomes(ctx, t, snap, props); err != nil {
		return nil, err
	}
	run := uuid.NewString()
	tags := rowTags(run, 0)
	if before := snap.CommitInfo(); before != nil && before.Tags[change.TagTableDigest] != "" {
		tags[change.TagTableDigest] = before.Tags[change.TagTableDigest]
	}
	tx := t.Begin(snap)
	tx.Write = deltatable.Commit{
		TxnID: run, Operation: "SET TBLPROPERTIES", Metadata: &md,
		Parameters: map[string]string{"properties": jsonText(props)}, Tags: tags,
	}
	tx.Read.Whole = true // the digest carried on is of these rows
	landed, err := tx.Commit(ctx, e.Retry)
	if err != nil {
		return nil, err
	}
	rep.Version = &landed.Version
	rep.Warnings = postCommit(ctx, t, landed.Version)
	return rep, nil
}

// completeOutcomes completes the outcomes where they are kept so far, before a
// property moves them: a run that died is not looked for there afterwards.
func (e *Env) completeOutcomes(ctx context.Context, t *deltatable.Table, snap *deltatable.Snapshot, props map[string]string) error {
	to, moves := props[change.PropOutcomes]
	if !moves {
		return nil
	}
	if _, err := e.openOutcomes(ctx, t.Store().URL(), to); err != nil {
		return err
	}
	roles, ok, err := change.RolesFromProperties(snap.Properties())
	if err != nil || !ok {
		return err
	}
	o, err := e.openOutcomes(ctx, t.Store().URL(), roles.Outcomes)
	var rule *RuleError
	if errors.As(err, &rule) {
		return nil // no run can have left anything at such a location
	}
	if err != nil {
		return err
	}
	return o.repair(ctx, t, snap)
}

// checkNeeded refuses new properties that ask for features which the protocol
// does not have yet, as a new table with them would need, and odd values. What
// the table has already, perhaps from other writers, is not judged.
func checkNeeded(snap *deltatable.Snapshot, props map[string]string) error {
	for k := range props {
		if _, had := snap.Property(k); !had && strings.HasPrefix(k, "delta.feature.") {
			return usage("%s: features are chosen when a table is created", k)
		}
	}
	some, err := deltatable.ParseDDL("c long")
	if err != nil {
		return err
	}
	_, fresh, err := deltatable.NewTableMetadata(some, nil, props)
	if err != nil {
		return newTableError(err)
	}
	_, plain, err := deltatable.NewTableMetadata(some, nil, nil)
	if err != nil {
		return err
	}
	p := snap.Protocol()
	for _, f := range fresh.WriterFeatures {
		if !slices.Contains(plain.WriterFeatures, f) && !slices.Contains(p.WriterFeatures, f) && f != "appendOnly" && f != "invariants" {
			return usage("the property needs the table feature %s, which this table was created without", f)
		}
	}
	return nil
}

// LogCheckpoint writes a log checkpoint of the latest version and gives that.
func LogCheckpoint(ctx context.Context, e *Env, table string) (deltatable.Version, error) {
	t, err := e.OpenTable(ctx, table)
	if err != nil {
		return 0, err
	}
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	e.step("writing a log checkpoint of version %d", snap.Version())
	if err := t.WriteLogCheckpoint(ctx, snap); err != nil {
		return 0, fmt.Errorf("table %s: %w", table, err)
	}
	return snap.Version(), nil
}
