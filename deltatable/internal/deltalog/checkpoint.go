package deltalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
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
// commit. A table with a writer feature that is not handled is refused by a
// *feature.UnsupportedError, as a checkpoint would drop what we do not know.
//
// NB: two writers that move the hint at the same moment may leave the lower version
// in it. Readers list from there on and find the higher one all the same.
func WriteCheckpoint(ctx context.Context, store *blobstore.Store, s *State, o *CheckpointOptions) error {
	if o == nil || o.Now.IsZero() {
		return errors.New("write log checkpoint: no time given")
	}
	if err := feature.CheckAppend(s.Protocol, s.Metadata); err != nil {
		return fmt.Errorf("write log checkpoint %d: %w", s.Version, err)
	}
	h, err := existing(ctx, store, s)
	if err != nil {
		return fmt.Errorf("write log checkpoint %d: %w", s.Version, err)
	}
	if h == nil {
		if h, err = writeClassic(ctx, store, s, o); err != nil {
			return fmt.Errorf("write log checkpoint %d: %w", s.Version, err)
		}
	}
	if err := writeHint(ctx, store, h); err != nil {
		return fmt.Errorf("write hint to log checkpoint %d: %w", s.Version, err)
	}
	return nil
}

// existing returns the hint to a readable log checkpoint of the version that is there
// already, nil if there is none. A damaged one is replaced.
func existing(ctx context.Context, store *blobstore.Store, s *State) (*hint, error) {
	key := CheckpointKey(s.Version)
	info, err := store.Stat(ctx, key)
	switch {
	case notFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size == 0:
		return nil, nil
	}
	rows := int64(0)
	c := &checkpoint{version: s.Version, files: []checkpointFile{{key: key, size: info.Size}}}
	err = readCheckpoint(ctx, store, c, func(action.Action) { rows++ })
	var damaged *checkpointError
	var unsupported *feature.UnsupportedError
	switch {
	case errors.As(err, &damaged):
		return nil, nil
	case errors.As(err, &unsupported):
		return nil, fmt.Errorf("there is one already: %w", err)
	case err != nil:
		return nil, err
	}
	return &hint{version: s.Version, rows: rows, bytes: info.Size, adds: int64(len(s.Adds))}, nil
}

func writeClassic(ctx context.Context, store *blobstore.Store, s *State, o *CheckpointOptions) (*hint, error) {
	retention, err := feature.DeletedFileRetention(s.Metadata)
	if err != nil {
		return nil, err
	}
	txns, err := unexpiredTxns(s, o.Now)
	if err != nil {
		return nil, err
	}
	content := &content{
		state:   s,
		removes: unexpired(s.Removes, retention, o.Now),
		txns:    txns,
		json:    o.StatsAsJSON,
		parsed:  o.StatsAsStruct,
	}
	var buf bytes.Buffer
	rows, err := content.encode(&buf)
	if errors.Is(err, errUntyped) {
		// A partition value is not of its column's type: without the typed form, which
		// would call it NULL, the checkpoint is still complete.
		buf.Reset()
		content.untyped = true
		rows, err = content.encode(&buf)
	}
	if err != nil {
		return nil, err
	}
	if err := verify(buf.Bytes(), rows); err != nil {
		return nil, err
	}
	if err := store.Put(ctx, CheckpointKey(s.Version), buf.Bytes()); err != nil {
		return nil, err
	}
	return &hint{version: s.Version, rows: rows, bytes: int64(buf.Len()), adds: int64(len(s.Adds))}, nil
}

// verify reads the footer back before anything relies on the file.
func verify(data []byte, rows int64) error {
	pf, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("internal error: what was written cannot be read: %w", err)
	}
	defer pf.Close() // only read from
	if n := pf.NumRows(); n != rows {
		return fmt.Errorf("internal error: %d rows were written, want %d", n, rows)
	}
	return nil
}

// unexpiredTxns applies delta.setTransactionRetentionDuration; without a time of its
// last update an identifier is expired then (protocol notes 1.5).
func unexpiredTxns(s *State, now time.Time) ([]*action.Txn, error) {
	retention, set, err := feature.TxnRetention(s.Metadata)
	if err != nil {
		return nil, err
	}
	limit := now.Add(-retention).UnixMilli()
	var txns []*action.Txn
	for _, app := range sortedKeys(s.Txns) {
		t := s.Txns[app]
		if !set || t.LastUpdated != nil && *t.LastUpdated > limit {
			txns = append(txns, t)
		}
	}
	return txns, nil
}

// hint is the content of _last_checkpoint.
type hint struct {
	version           Version
	rows, bytes, adds int64
}

// writeHint moves _last_checkpoint to a version, unless it is there or further. NB:
// version and size come first, as old parsers look for them early.
func writeHint(ctx context.Context, store *blobstore.Store, h *hint) error {
	data, err := store.Get(ctx, lastCheckpointKey)
	if err != nil && !notFound(err) {
		return err
	}
	if v, ok := parseHint(data); ok && v >= h.version {
		return nil
	}
	b := append([]byte(nil), `{"version":`...)
	b = strconv.AppendInt(b, int64(h.version), 10)
	b = strconv.AppendInt(append(b, `,"size":`...), h.rows, 10)
	b = strconv.AppendInt(append(b, `,"sizeInBytes":`...), h.bytes, 10)
	b = strconv.AppendInt(append(b, `,"numOfAddFiles":`...), h.adds, 10)
	return store.Put(ctx, lastCheckpointKey, append(b, '}'))
}
