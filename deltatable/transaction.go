package deltatable

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
)

// Transaction is a write that follows winners where the conflict matrix
// allows it (protocol notes 3.3). Fill Write and Read, then Commit once. Not
// safe for concurrent use. A merge does not use it: see Classify.
type Transaction struct {
	// Write is the content of the commit. Metadata and Protocol, where set, were
	// made from the snapshot that the transaction began with.
	Write Commit
	// Read is what was read. The zero value, with no removes, makes a blind append.
	Read Reads

	table    *Table
	snapshot *Snapshot
}

// Begin starts a transaction on read; nil: one that creates the table.
func (t *Table) Begin(read *Snapshot) *Transaction {
	return &Transaction{table: t, snapshot: read}
}

// Snapshot is the snapshot that the transaction was begun with.
func (tx *Transaction) Snapshot() *Snapshot { return tx.snapshot }

// Commit commits tx after the last winner that does not conflict with it,
// trying again within r. isBlindAppend is worked out here: no file is
// removed and nothing was read, as Spark counts it. The isolation level is the table's property
// delta.isolationLevel, Serializable by default.
//
// Errors: *TransactionConflictError, *RetryError, *ConflictError for a table
// that was created meanwhile, *UndecidedError, and those of TryCommit. In all
// but UndecidedError nothing was committed.
func (tx *Transaction) Commit(ctx context.Context, r *Retry) (*Landed, error) {
	c := &tx.Write
	if c.TxnID == "" {
		c.TxnID = uuid.NewString()
	}
	c.BlindAppend = len(c.Removes) == 0 && tx.Read.blind()
	if c.Isolation == "" && tx.snapshot != nil {
		c.Isolation = tableIsolation(tx.snapshot)
	}
	began := tx.table.now()
	for at, n := tx.snapshot, 1; ; n++ {
		landed, err := tx.table.TryCommit(ctx, at, c)
		if !isConflict(err) || at == nil {
			return landed, err
		}
		if took := tx.table.now().Sub(began); r.Spent(n, took) {
			return nil, &RetryError{Attempts: n, Took: took, Err: err}
		}
		next, mine, err := tx.follow(ctx, at)
		if err != nil || mine != nil {
			return mine, err
		}
		at = next
		if err := r.Wait(ctx, n); err != nil {
			return nil, fmt.Errorf("commit after version %d: %w", at.Version(), err)
		}
	}
}

func tableIsolation(s *Snapshot) string {
	if v, _ := s.Property("delta.isolationLevel"); v == WriteSerializable {
		return v
	}
	return Serializable
}

// follow reads the winners after at and the state they lead to. If one of them
// carries our txnId the commit had landed.
func (tx *Transaction) follow(ctx context.Context, at *Snapshot) (*Snapshot, *Landed, error) {
	winners, next, err := tx.table.Winners(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range winners {
		if w.Info != nil && w.Info.TxnID == tx.Write.TxnID {
			md := next.Metadata()
			return nil, &Landed{Version: w.Version, Entry: w, CheckpointDue: checkpointDue(md, w.Version)}, nil
		}
	}
	for _, w := range winners {
		if err := checkConflict(at, &tx.Write, &tx.Read, w); err != nil {
			return nil, nil, err
		}
	}
	return next, nil, nil
}

// Winners are the log entries after read, in version order, and the snapshot
// that they lead to; read nil: all entries of the table that appeared. There may
// be none where a store shows a commit late: then it is worth another attempt.
// The caller looks for its own txnId among them before anything else (R8).
func (t *Table) Winners(ctx context.Context, read *Snapshot) ([]*Entry, *Snapshot, error) {
	var next *Snapshot
	var entries []*deltalog.Entry
	if read == nil {
		var err error
		if next, err = t.Snapshot(ctx); err != nil {
			return nil, nil, err
		}
		if entries, err = t.entries(ctx, 0, next.Version()); err != nil {
			return nil, nil, err
		}
	} else {
		st, after, err := deltalog.NextEntries(ctx, t.store, read.state)
		if err != nil {
			return nil, nil, t.opening(err)
		}
		next, entries = read, after
		if st != read.state {
			if next, err = newSnapshot(t, st); err != nil {
				return nil, nil, err
			}
		}
	}
	winners := make([]*Entry, len(entries))
	for i, e := range entries {
		winners[i] = newEntry(e)
	}
	return winners, next, nil
}

// entries reads the log entries of versions first to last, several at once.
func (t *Table) entries(ctx context.Context, first, last Version) ([]*deltalog.Entry, error) {
	out := make([]*deltalog.Entry, last-first+1)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(entryReaders)
	for i := range out {
		g.Go(func() (err error) {
			v := first + Version(i)
			if out[i], err = deltalog.ReadEntry(ctx, t.store, v); err != nil {
				return fmt.Errorf("read winner %d: %w", v, err)
			}
			return nil
		})
	}
	return out, g.Wait()
}

// entryReaders is how many log entries are read at once.
const entryReaders = 16
