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

// AdoptJob is one invocation of adopt: for the guarded merge, or with Using and
// Sequence for REPLACE USING.
type AdoptJob struct {
	Table string
	Roles RoleFlags
	// Using, Sequence and Ties are --using, --sequence-by and --ties.
	Using          []string
	Sequence, Ties string
}

// mode is what the flags ask for.
func (j *AdoptJob) mode() (change.Mode, error) {
	switch {
	case len(j.Using) == 0 && j.Sequence == "" && j.Ties == "":
		return change.Guarded, nil
	case len(j.Using) == 0 || j.Sequence == "":
		return "", usage("REPLACE USING needs both --using and --sequence-by")
	case j.Roles.Given():
		return "", usage("--using and --sequence-by are for REPLACE USING, which has no other role flags")
	}
	return change.Replace, nil
}

// Adopt puts a table that is there under the guarded merge or REPLACE USING,
// after a check of all its rows against the rules (merge-semantics 1 and 4). A
// *RuleError or a *merge.TargetError says which rule it breaks; nothing is
// committed then. A table that is adopted with these roles already is left as it
// is.
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
	want, err := j.mode()
	if err != nil {
		return nil, err
	}
	rep := &TableReport{Table: t.Store().URL(), Mode: want, Schema: snap.Schema()}
	if mode != change.Plain {
		return rep, adopted(snap, j, mode, rep)
	}
	if err := snap.CheckWritable(); err != nil {
		return nil, err
	}
	if appendOnly(snap.Properties()) {
		return nil, &RuleError{fmt.Sprintf("the table is append-only (%s): no change could be folded into it", propAppendOnly)}
	}
	run := uuid.NewString()
	tags := rowTags(run, 0)
	var props map[string]string
	if want == change.Guarded {
		if rep.Roles, err = DeriveAdopted(&j.Roles, snap.Schema()); err != nil {
			return nil, err
		}
		e.step("checking the rows of version %d", snap.Version())
		sum, err := merge.CheckTable(ctx, snap, rep.Roles)
		if err != nil {
			return nil, err
		}
		props, tags = rep.Roles.Properties(), baseline(run, sum)
	} else {
		if rep.Replace, err = j.replaceRoles(snap.Schema()); err != nil {
			return nil, err
		}
		e.step("checking the rows of version %d", snap.Version())
		if err := checkReplace(ctx, snap, rep.Replace); err != nil {
			return nil, err
		}
		props = rep.Replace.Properties()
	}
	md := *snap.Metadata()
	md.Configuration = maps.Clone(md.Configuration)
	if md.Configuration == nil {
		md.Configuration = map[string]string{}
	}
	maps.Copy(md.Configuration, props)
	tx := t.Begin(snap)
	tx.Write = deltatable.Commit{
		TxnID: run, Operation: "SET TBLPROPERTIES", Metadata: &md,
		Parameters: map[string]string{"properties": jsonText(props)}, Tags: tags,
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

// adopted says whether a table that is under a mode already has these roles.
func adopted(snap *deltatable.Snapshot, j *AdoptJob, mode change.Mode, rep *TableReport) error {
	if mode != rep.Mode {
		return &RuleError{fmt.Sprintf("the table is under mode %s already", mode)}
	}
	var err error
	if mode == change.Guarded {
		if rep.Roles, err = GuardedRoles(snap); err != nil {
			return err
		}
		return CheckFlags(&j.Roles, rep.Roles)
	}
	if rep.Replace, _, err = change.ReplaceRolesFromProperties(snap.Properties()); err != nil {
		return err
	}
	k := &replaceKind{job: &ReplaceJob{Using: j.Using, Sequence: j.Sequence}}
	if err := k.contradicts(rep.Replace); err != nil {
		return err
	}
	if err := checkTies(j.Ties); err != nil {
		return err
	}
	if j.Ties != "" && (j.Ties == change.TiesIgnoreIdentical) != rep.Replace.IgnoreIdentical {
		return usage("--ties %s contradicts what the table remembers", j.Ties)
	}
	return remembers(rep.Replace.Expectations, j.Roles.Expectations)
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
