package deltatable

import (
	"context"
	"fmt"

	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
	"github.com/deltafold/deltafold/internal/failpoint"
)

// checkpointDue says whether version v of a table with md gets a log checkpoint
// (property delta.checkpointInterval, default 10; anything odd means the
// default: it is no reason to fail a commit).
func checkpointDue(md *Metadata, v Version) bool {
	every, err := feature.CheckpointInterval(md)
	if err != nil || every <= 0 {
		every = feature.DefaultCheckpointInterval
	}
	return v > 0 && int64(v)%every == 0
}

// PostCommit does what is due after version v was committed: a classic log
// checkpoint when v is a multiple of delta.checkpointInterval. An error leaves
// the commit as it is; it only says that the log checkpoint is not there.
func (t *Table) PostCommit(ctx context.Context, v Version) error {
	s, err := t.SnapshotAt(ctx, v)
	if err != nil {
		return err
	}
	if !checkpointDue(s.Metadata(), v) {
		return nil
	}
	return t.WriteLogCheckpoint(ctx, s)
}

// AfterCommit is PostCommit for a commit that this process made: it makes no request
// where nothing is due, and reads only what follows on what the commit was made on.
func (t *Table) AfterCommit(ctx context.Context, landed *Landed) error {
	if !landed.CheckpointDue {
		return nil
	}
	if landed.read == nil {
		return t.PostCommit(ctx, landed.Version)
	}
	st, err := deltalog.Load(ctx, t.store, &deltalog.LoadOptions{At: &landed.Version, Previous: landed.read.state})
	if err != nil {
		return t.opening(err)
	}
	s, err := newSnapshot(t, st)
	if err != nil {
		return err
	}
	return t.WriteLogCheckpoint(ctx, s)
}

// WriteLogCheckpoint writes a classic log checkpoint of s, and _last_checkpoint
// unless that names a later one. Refused for tables that CheckAppendable refuses:
// actions of unknown features would be lost.
func (t *Table) WriteLogCheckpoint(ctx context.Context, s *Snapshot) error {
	if err := s.CheckAppendable(); err != nil {
		return fmt.Errorf("write log checkpoint %d: %w", s.Version(), err)
	}
	md := s.Metadata()
	failpoint.Hit("log-checkpoint-before")
	err := deltalog.WriteCheckpoint(ctx, t.store, s.state, &deltalog.CheckpointOptions{
		StatsAsJSON:   feature.WriteStatsAsJSON(md),
		StatsAsStruct: feature.WriteStatsAsStruct(md),
		Now:           t.now(),
	})
	if err != nil {
		return fmt.Errorf("write log checkpoint %d: %w", s.Version(), err)
	}
	failpoint.Hit("log-checkpoint-after")
	return nil
}
