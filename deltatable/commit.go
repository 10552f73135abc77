package deltatable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/action"
	"github.com/deltafold/deltafold/deltatable/internal/deltalog"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
	"github.com/deltafold/deltafold/internal/failpoint"
)

// Table properties of in-commit timestamps (PROTOCOL.md "In-Commit Timestamps").
const (
	propICTVersion = "delta.inCommitTimestampEnablementVersion"
	propICTTime    = "delta.inCommitTimestampEnablementTimestamp"
)

// Isolation levels as commitInfo spells them (protocol notes 3.2).
const (
	Serializable      = "Serializable"
	WriteSerializable = "WriteSerializable"
	SnapshotIsolation = "SnapshotIsolation"
)

// TagUnsafeSingleWriter is the tag of commitInfo, "true", of a commit that was
// made without the store's own mutual exclusion, because the user vouched for
// being the only writer ([blobstore.Config]).
const TagUnsafeSingleWriter = "deltafold.unsafeSingleWriter"

// Commit is the content of a log entry to be. What depends on the attempt -
// version, timestamps, enablement properties - is added by TryCommit, anew for
// each (R7).
type Commit struct {
	TxnID        string // one for all attempts of a run; "": a random one is made and set
	Operation    string // such as "WRITE" or "MERGE"
	Parameters   map[string]string
	Metrics      map[string]string
	Tags         map[string]string // of commitInfo
	UserMetadata string
	BlindAppend  bool   // true only if nothing of the table was read to make this
	Isolation    string // "": Serializable; SnapshotIsolation if Rearrange
	Rearrange    bool   // no row changes: dataChange is false in every file action
	Protocol     *Protocol
	Metadata     *Metadata
	Adds         []*Add
	Removes      []*Add // live adds to take out; their paths are copied to the byte
	Txns         []Txn
	Domains      []DomainMetadata
}

// Landed is a commit that is in the log.
type Landed struct {
	Version Version
	Entry   *Entry
	// CheckpointDue says that PostCommit has a log checkpoint to write.
	CheckpointDue bool

	read *Snapshot // what it was committed on; nil where that is not known
}

// TryCommit makes one attempt to commit c as the version after read, or as
// version 0 of a new table if read is nil. While the store gives no answer the
// same bytes are put again at the same version (R8), within Options.Undecided.
//
// Errors: *ConflictError: another writer has the version; *UndecidedError: it
// is not known; any other: nothing was or will be committed, c breaks a rule
// (*CommitError, *AppendOnlyError, *UnsupportedFeatureError) or the store
// refused. Files that c adds must be durable before (I2).
func (t *Table) TryCommit(ctx context.Context, read *Snapshot, c *Commit) (*Landed, error) {
	if c.TxnID == "" {
		c.TxnID = uuid.NewString()
	}
	v := Version(0)
	if read != nil {
		v = read.Version() + 1
	}
	if err := checkCommit(read, c); err != nil {
		return nil, fmt.Errorf("commit version %d: %w", v, err)
	}
	if read == nil {
		if err := t.checkAbsent(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.store.Prepare(ctx); err != nil { // NB: before stamp: it decides SingleWriter
		return nil, fmt.Errorf("commit version %d: %w", v, err)
	}
	e, err := t.stamp(read, v, c)
	if err != nil {
		return nil, fmt.Errorf("commit version %d: %w", v, err)
	}
	data, err := action.Encode(e.Actions)
	if err != nil {
		return nil, fmt.Errorf("commit version %d: %w", v, err)
	}
	failpoint.Hit("commit-before")
	landed, err := t.put(ctx, &attempt{version: v, txnID: c.TxnID, data: data, entry: e})
	if err != nil {
		return nil, fmt.Errorf("commit version %d: %w", v, err)
	}
	failpoint.Hit("commit-after")
	_, md := inForce(read, c)
	landed.CheckpointDue, landed.read = checkpointDue(md, v), read
	return landed, nil
}

// checkAbsent refuses to create a table over one whose first entries are gone.
func (t *Table) checkAbsent(ctx context.Context) error {
	st, err := deltalog.Load(ctx, t.store, nil)
	switch {
	case errors.Is(err, ErrNoTable):
		return nil
	case err != nil:
		return t.opening(err)
	}
	return fmt.Errorf("create table %s, which is at version %d: %w", t.store.URL(), st.Version, &ConflictError{Version: 0})
}

// stamp makes the actions of one attempt. commitInfo comes first, as in-commit
// timestamps demand.
func (t *Table) stamp(read *Snapshot, v Version, c *Commit) (*Entry, error) {
	now := t.now().UTC().Truncate(time.Millisecond)
	info := commitInfoOf(c, t.engine, t.store.SingleWriter(), now)
	if read != nil {
		rv := int64(read.Version())
		info.ReadVersion = &rv
	}
	md, at, err := stampTime(read, v, c, now)
	if err != nil {
		return nil, err
	}
	e := &Entry{Version: v, Timestamp: now, Info: info}
	if at != nil {
		info.InCommitTimestamp = at
		e.Timestamp = time.UnixMilli(*at).UTC()
	}
	e.Actions = append(e.Actions, Action{CommitInfo: info})
	if c.Protocol != nil {
		e.Actions = append(e.Actions, Action{Protocol: c.Protocol})
	}
	if md != nil {
		e.Actions = append(e.Actions, Action{Metadata: md})
	}
	for i := range c.Txns {
		txn := c.Txns[i]
		if txn.LastUpdated == nil {
			ms := now.UnixMilli()
			txn.LastUpdated = &ms
		}
		e.Actions = append(e.Actions, Action{Txn: &txn})
	}
	for i := range c.Domains {
		d := c.Domains[i]
		e.Actions = append(e.Actions, Action{DomainMetadata: &d})
	}
	for _, a := range c.Removes {
		e.Actions = append(e.Actions, Action{Remove: action.RemoveOf(a, now, !c.Rearrange)})
	}
	for _, a := range c.Adds {
		added := *a
		added.DataChange = !c.Rearrange
		e.Actions = append(e.Actions, Action{Add: &added})
	}
	return e, nil
}

// commitInfoOf is commitInfo as all attempts have it. alone: see
// TagUnsafeSingleWriter.
func commitInfoOf(c *Commit, engine string, alone bool, now time.Time) *CommitInfo {
	blind := c.BlindAppend
	info := &CommitInfo{
		Timestamp: now.UnixMilli(), Operation: c.Operation, OperationParameters: maps.Clone(c.Parameters),
		IsolationLevel: isolation(c), IsBlindAppend: &blind, OperationMetrics: maps.Clone(c.Metrics),
		UserMetadata: c.UserMetadata, EngineInfo: engine, TxnID: c.TxnID, Tags: maps.Clone(c.Tags),
	}
	if info.OperationParameters == nil {
		info.OperationParameters = map[string]string{}
	}
	if alone {
		if info.Tags == nil {
			info.Tags = map[string]string{}
		}
		info.Tags[TagUnsafeSingleWriter] = "true"
	}
	return info
}

// stampTime is the commit's metadata, if it has any, and the in-commit timestamp
// of this attempt, nil where the table has none: max(now, previous + 1). A commit that switches them on for an existing
// table says from which version and time (protocol notes 1.12); one that
// switches them off drops both.
func stampTime(read *Snapshot, v Version, c *Commit, now time.Time) (*Metadata, *int64, error) {
	md := c.Metadata
	if md != nil && md.CreatedTime == nil && read == nil {
		md = cloneMetadata(md)
		ms := now.UnixMilli()
		md.CreatedTime = &ms
	}
	p, current := inForce(read, c)
	before := read != nil && feature.InCommitTimestampsEnabled(read.Protocol(), read.Metadata())
	if !feature.InCommitTimestampsEnabled(p, current) {
		if md != nil && before {
			md = cloneMetadata(md)
			delete(md.Configuration, propICTVersion)
			delete(md.Configuration, propICTTime)
		}
		return md, nil, nil
	}
	at := now.UnixMilli()
	if read != nil {
		if read.at.IsZero() {
			return nil, nil, &CommitError{Msg: fmt.Sprintf("the in-commit timestamp of version %d is not known: its log entry is gone", read.Version())}
		}
		at = max(at, read.at.UnixMilli()+1)
	}
	if md != nil && read != nil && !before {
		md = cloneMetadata(md)
		md.Configuration[propICTVersion] = strconv.FormatInt(int64(v), 10)
		md.Configuration[propICTTime] = strconv.FormatInt(at, 10)
	}
	return md, &at, nil
}

func cloneMetadata(md *Metadata) *Metadata {
	c := *md
	c.Configuration = maps.Clone(md.Configuration)
	if c.Configuration == nil {
		c.Configuration = make(map[string]string)
	}
	return &c
}

// attempt is one body at one version. It is never changed: another version
// gets another body.
type attempt struct {
	version Version
	txnID   string
	data    []byte
	entry   *Entry
}

// put creates the log entry and does not return before it knows the outcome,
// or the bound is reached.
func (t *Table) put(ctx context.Context, a *attempt) (*Landed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // nothing was put
	}
	began, unknown := t.now(), false
	for n := 1; ; n++ {
		out, err := t.store.Create(ctx, deltalog.EntryKey(a.version), a.data)
		switch out { //nolint:exhaustive // whatever is left is unknown (I4)
		case blobstore.Created:
			return &Landed{Version: a.version, Entry: a.entry}, nil
		case blobstore.Exists:
			var landed *Landed
			if landed, err = t.readBack(ctx, a); landed != nil || isConflict(err) {
				return landed, err
			}
			unknown = true
		case blobstore.NotDone:
			if !unknown {
				return nil, err // none of the puts before can land either
			}
		default:
			unknown = true
		}
		if t.undecided.Spent(n, t.now().Sub(began)) || t.undecided.Wait(ctx, n) != nil {
			return t.lastLook(ctx, a, err)
		}
	}
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*ConflictError](err)
	return ok
}

// readBack decides a version that exists: ours by its txnId, or another's.
// Any other error is no answer.
func (t *Table) readBack(ctx context.Context, a *attempt) (*Landed, error) {
	e, err := deltalog.ReadEntry(ctx, t.store, a.version)
	if err != nil {
		return nil, fmt.Errorf("read back log entry %d: %w", a.version, err)
	}
	for _, act := range e.Actions {
		if act.CommitInfo != nil && act.CommitInfo.TxnID == a.txnID {
			return &Landed{Version: a.version, Entry: newEntry(e)}, nil
		}
	}
	return nil, &ConflictError{Version: a.version}
}

// lastLook reads once more what is there, even after ctx ended: an answer is
// better than none. Without an entry it stays unknown, as a put may land late.
func (t *Table) lastLook(ctx context.Context, a *attempt, cause error) (*Landed, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	landed, err := t.readBack(ctx, a)
	if landed != nil || isConflict(err) {
		return landed, err
	}
	return nil, &UndecidedError{Version: a.version, TxnID: a.txnID, Err: errors.Join(cause, err)}
}
