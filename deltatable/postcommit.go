package deltatable

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
	"github.com/deltafold/deltafold/internal/failpoint"
)

const defaultCheckpointInterval = 10

// checkpointDue says whether version v of a table with md gets a log checkpoint
// (property delta.checkpointInterval, default 10; anything odd means the
// default: it is no reason to fail a commit).
func checkpointDue(md *Metadata, v Version) bool {
	every := int64(defaultCheckpointInterval)
	if p, ok := md.Configuration["delta.checkpointInterval"]; ok {
		if n, err := strconv.ParseInt(strings.TrimSpace(p), 10, 64); err == nil && n > 0 {
			every = n
		}
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

// WriteLogCheckpoint writes a classic log checkpoint of s, and _last_checkpoint
// unless that names a later one. Refused for tables that CheckWritable refuses:
// actions of unknown features would be lost.
func (t *Table) WriteLogCheckpoint(ctx context.Context, s *Snapshot) error {
	if err := s.CheckWritable(); err != nil {
		return fmt.Errorf("write log checkpoint %d: %w", s.Version(), err)
	}
	p := s.Metadata().Configuration
	failpoint.Hit("log-checkpoint-before")
	err := deltalog.WriteCheckpoint(ctx, t.store, s.state, deltalog.CheckpointOptions{
		StatsAsJSON:   boolProperty(p, "delta.checkpoint.writeStatsAsJson", true),
		StatsAsStruct: boolProperty(p, "delta.checkpoint.writeStatsAsStruct", true),
		Now:           t.now(),
	})
	if err != nil {
		return fmt.Errorf("write log checkpoint %d: %w", s.Version(), err)
	}
	failpoint.Hit("log-checkpoint-after")
	return nil
}
