package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// AdoptJob is one invocation of adopt.
type AdoptJob struct {
	Table string
	Roles RoleFlags
}

// Adopt puts a table that is there under the guarded merge, after a check of
// all its rows against the rules (merge-semantics 1). A *RuleError or a
// *merge.TargetError says which rule it breaks; nothing is committed then.
// A table that is adopted with these roles already is left as it is.
func Adopt(ctx context.Context, e *Env, j *AdoptJob) (*TableReport, error) {
	t, err := e.OpenTable(ctx, j.Table)
	if err != nil {
		return nil, err
	}
	var rep *TableReport
	err = e.restart(ctx, func() error {
		rep, err = e.adopt(ctx, t, j)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("adopt table %s: %w", j.Table, err)
	}
	return rep, nil
}

func (e *Env) adopt(ctx context.Context, t *deltatable.Table, j *AdoptJob) (*TableReport, error) {
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	mode, err := change.ModeOf(snap.Properties())
	if err != nil {
		return nil, err
	}
	rep := &TableReport{Table: t.Store().URL(), Mode: change.Guarded, Schema: snap.Schema()}
	switch mode {
	case change.Guarded:
		if rep.Roles, err = GuardedRoles(snap); err != nil {
			return nil, err
		}
		return rep, CheckFlags(&j.Roles, rep.Roles)
	case change.Replace:
		return nil, &RuleError{"the table is under mode replace"}
	case change.Plain:
	}
	if err := snap.CheckWritable(); err != nil {
		return nil, err
	}
	if rep.Roles, err = DeriveAdopted(&j.Roles, snap.Schema()); err != nil {
		return nil, err
	}
	e.step("checking the rows of version %d", snap.Version())
	sum, err := merge.CheckTable(ctx, snap, rep.Roles)
	if err != nil {
		return nil, err
	}
	md := *snap.Metadata()
	md.Configuration = maps.Clone(md.Configuration)
	if md.Configuration == nil {
		md.Configuration = map[string]string{}
	}
	props := rep.Roles.Properties()
	maps.Copy(md.Configuration, props)
	run := uuid.NewString()
	tx := t.Begin(snap)
	tx.Write = deltatable.Commit{
		TxnID: run, Operation: "SET TBLPROPERTIES", Metadata: &md,
		Parameters: map[string]string{"properties": jsonText(props)}, Tags: baseline(run, sum),
	}
	tx.Read.Whole = true
	landed, err := tx.Commit(ctx, e.Retry)
	if err != nil {
		return nil, err
	}
	rep.Version = &landed.Version
	rep.Warnings = postCommit(ctx, t, landed.Version)
	return rep, nil
}

// baseline are the tags of a commit that starts a table's digest.
func baseline(run string, sum integrity.Sum) map[string]string {
	tags := rowTags(run, 0)
	tags[change.TagTableDigest] = sum.String()
	return tags
}

// restart runs once again from the beginning whenever a winner changed what it
// relied on, within the bounds of the retries (R9).
func (e *Env) restart(ctx context.Context, once func() error) error {
	began := e.now()
	for attempt := 1; ; attempt++ {
		err := once()
		var matrix *deltatable.TransactionConflictError
		var lost *deltatable.ConflictError
		if !errors.As(err, &matrix) && !errors.As(err, &lost) {
			return err
		}
		if took := e.now().Sub(began); e.Retry.Spent(attempt, took) {
			return &deltatable.RetryError{Attempts: attempt, Took: took.Round(time.Millisecond), Err: err}
		}
		if err := e.Retry.Wait(ctx, attempt); err != nil {
			return err
		}
	}
}

// postCommit writes a log checkpoint when one is due. A failure is a warning:
// the commit stands.
func postCommit(ctx context.Context, t *deltatable.Table, v deltatable.Version) []string {
	if err := t.PostCommit(ctx, v); err != nil {
		return []string{fmt.Sprintf("log checkpoint: %v", err)}
	}
	return nil
}
