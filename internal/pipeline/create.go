package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// CreateJob is one invocation of create.
type CreateJob struct {
	Table  string // path or URL
	Schema string // --schema: key, version and payload columns
	Roles  RoleFlags
	// Mode is plain or guarded; "" is plain without role flags and guarded with.
	Mode        string
	PartitionBy []string
	Properties  map[string]string
}

// TableReport is what create, adopt and set-property did.
type TableReport struct {
	Table string
	Mode  change.Mode
	// Version is the version made, nil if there was nothing to do.
	Version *deltatable.Version
	Schema  *arrow.Schema
	// Roles are those of a guarded table, else nil.
	Roles *change.Roles
	// Replace are those of a table in mode replace, else nil.
	Replace *change.ReplaceRoles
	// Warnings are what went wrong after the commit, which it cannot undo.
	Warnings []string
}

// Create makes an empty table as version 0. A table that is there already is
// an error, never touched.
func Create(ctx context.Context, e *Env, j *CreateJob) (*TableReport, error) {
	if j.Schema == "" {
		return nil, usage("create needs --schema")
	}
	sch, err := parseSchema(j.Schema)
	if err != nil {
		return nil, err
	}
	rep := &TableReport{Mode: change.Mode(j.Mode)}
	switch {
	case rep.Mode == "" && j.Roles.Given():
		rep.Mode = change.Guarded
	case rep.Mode == "":
		rep.Mode = change.Plain
	case rep.Mode == change.Plain && j.Roles.Given():
		return nil, usage("--mode plain has no column roles: leave the role flags out")
	case rep.Mode != change.Plain && rep.Mode != change.Guarded:
		return nil, usage("--mode %s is not plain or guarded", j.Mode)
	}
	made, err := newTable(rep, j, sch)
	if err != nil {
		return nil, err
	}
	t, err := e.OpenTable(ctx, j.Table)
	if err != nil {
		return nil, err
	}
	if rep.Schema, err = schemaOf(made.Metadata); err != nil {
		return nil, err
	}
	rep.Table = t.Store().URL()
	if text := notShared(rep.Table, j.Roles.Outcomes); text != "" {
		return nil, usage("%s", text)
	}
	landed, err := t.TryCommit(ctx, nil, createCommit(rep.Mode, made))
	var lost *deltatable.ConflictError
	if errors.As(err, &lost) {
		return nil, fmt.Errorf("create table %s: there is a table already", j.Table)
	}
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", j.Table, err)
	}
	rep.Version = &landed.Version
	return rep, nil
}

func newTable(rep *TableReport, j *CreateJob, sch *arrow.Schema) (*merge.NewTable, error) {
	if rep.Mode == change.Guarded {
		roles, table, err := DeriveCreated(&j.Roles, sch)
		if err != nil {
			return nil, err
		}
		rep.Roles = roles
		return NewGuardedTable(roles, table, j.PartitionBy, j.Properties)
	}
	props := maps.Clone(j.Properties)
	if j.Roles.Outcomes != "" { // of the statements that will be carried out on it
		if props == nil {
			props = map[string]string{}
		}
		props[change.PropOutcomes] = j.Roles.Outcomes
	}
	if len(j.Roles.Expectations) > 0 {
		return nil, usage("a plain table remembers no expectations: they are given to each run")
	}
	// NB: from the text again, so that what Arrow cannot say (char and varchar,
	// comments) is kept.
	ds, err := deltatable.ParseDDL(j.Schema)
	if err != nil {
		return nil, usage("--schema: %v", err)
	}
	md, p, err := deltatable.NewTableMetadata(ds, j.PartitionBy, props)
	if err != nil {
		return nil, newTableError(err)
	}
	return &merge.NewTable{Metadata: md, Protocol: p}, nil
}

// newTableError makes a mistake in --partition-by or --property one of usage.
func newTableError(err error) error {
	var column *deltatable.ColumnError
	var property *deltatable.PropertyError
	if errors.As(err, &column) || errors.As(err, &property) {
		return usage("%v", err)
	}
	return err
}

func schemaOf(md *deltatable.Metadata) (*arrow.Schema, error) {
	ds, err := deltatable.ParseSchema(md.SchemaString)
	if err != nil {
		return nil, err
	}
	return ds.Arrow()
}

// createCommit is the first version of an empty table. A guarded one starts its
// digest here (merge-semantics 7).
func createCommit(mode change.Mode, made *merge.NewTable) *deltatable.Commit {
	c := &deltatable.Commit{
		TxnID: uuid.NewString(), Operation: "CREATE TABLE", BlindAppend: true,
		Parameters: map[string]string{
			"isManaged": "false", "description": "", "clusterBy": "[]",
			"partitionBy": jsonText(made.Metadata.PartitionColumns), "properties": jsonText(made.Metadata.Configuration),
		},
		Protocol: made.Protocol, Metadata: made.Metadata,
	}
	c.Tags = rowTags(c.TxnID, 0)
	if mode == change.Guarded {
		c.Tags[change.TagTableDigest] = integrity.Sum{}.String()
	}
	return c
}

// rowTags are the tags of a commit that adds rows and removes none.
func rowTags(run string, inserted int64) map[string]string {
	return map[string]string{
		change.TagRun: run, change.TagInserts: strconv.FormatInt(inserted, 10), change.TagDeletes: "0",
	}
}

func jsonText(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("pipeline: internal error: %v", err))
	}
	return string(text)
}

// SplitProperties reads --property flags, k=v each. The outcomes location is
// given back apart, absolute; other deltafold.* properties have flags of their
// own.
func SplitProperties(given []string) (props map[string]string, outcomes string, err error) {
	props = map[string]string{}
	for _, kv := range given {
		k, v, ok := strings.Cut(kv, "=")
		if k = strings.TrimSpace(k); !ok || k == "" {
			return nil, "", usage("property %q is not of the form key=value", kv)
		}
		if _, twice := props[k]; twice || k == change.PropOutcomes && outcomes != "" {
			return nil, "", usage("property %s is given twice", k)
		}
		ours := len(k) >= len(change.PropPrefix) && strings.EqualFold(k[:len(change.PropPrefix)], change.PropPrefix)
		switch {
		case k == change.PropOutcomes && v == "":
			return nil, "", usage("property %s needs a location, or none", k)
		case k == change.PropOutcomes:
			if outcomes, err = outcomesLocation(v); err != nil {
				return nil, "", err
			}
		case ours:
			return nil, "", usage("property %s names a role: the role flags set it, on create, adopt or a first apply", k)
		default:
			props[k] = v
		}
	}
	return props, outcomes, nil
}

// outcomesLocation makes a relative path absolute: the property is read again
// from other working directories. A URL has no parameters: a table is read with
// the endpoint and the credentials of who reads it.
func outcomesLocation(v string) (string, error) {
	if err := CheckLocation(v); err != nil {
		return "", err
	}
	if _, query := cutQuery(v); query != "" {
		return "", usage("property %s is a URL with parameters, which a table does not keep: leave out what follows the ?", change.PropOutcomes)
	}
	if v == change.OutcomesNone || isURL(v) {
		return v, nil
	}
	abs, err := filepath.Abs(v)
	if err != nil {
		return "", fmt.Errorf("property %s: %w", change.PropOutcomes, err)
	}
	return abs, nil
}

// checkTableFlags refuses flags about a new table that contradict the table
// which is there; the same command again must not fail.
func checkTableFlags(snap *deltatable.Snapshot, partitionBy []string, props map[string]string) error {
	if have := snap.PartitionColumns(); len(partitionBy) > 0 && !slices.EqualFunc(partitionBy, have, strings.EqualFold) {
		return usage("--partition-by %s is for a new table: this one is partitioned by %q", strings.Join(partitionBy, ","), have)
	}
	for _, k := range slices.Sorted(maps.Keys(props)) {
		if v, ok := snap.Property(k); !ok || v != props[k] {
			return usage("--property %s=%s is for a new table: set-property changes it on one that is there", k, props[k])
		}
	}
	return nil
}
