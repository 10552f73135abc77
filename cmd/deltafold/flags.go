package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
)

// roleFlags are the flags of "Column roles".
type roleFlags struct {
	pipeline.RoleFlags
	minVersion string
}

func (r *roleFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&r.Keys, "key", nil, "key `columns` (default entity_id)")
	f.StringSliceVar(&r.Versions, "version-column", nil, "source version `columns`, compared left to right (default source_version)")
	f.StringVar(&r.minVersion, "min-version", "", "least valid `version` (default 1 for source_version, none for columns that --version-column names)")
	f.StringVar(&r.Operation, "operation-column", "", "`column` of the operation word (default operation where the input has it)")
	f.StringVar(&r.UpsertWord, "upsert-word", "", "`word` of an upsert (default upsert)")
	f.StringVar(&r.DeleteWord, "delete-word", "", "`word` of a delete (default delete)")
	f.StringVar(&r.DeletesWhen, "deletes-when", "", "`SQL` condition that makes a change a delete")
	f.StringVar(&r.Deleted, "deleted-column", "", "boolean `column` that makes a change a delete; the table's status column too")
	f.StringVar(&r.Status, "status-column", "", "the table's status `column`, or none (default status)")
	f.StringVar(&r.ChangeID, "change-id-column", "", "`column` of a label for people (default change_id where the input has it)")
	f.StringSliceVar(&r.Payload, "payload", nil, "payload `columns`; other input columns are ignored (default all columns without another role)")
	f.StringVar(&r.OnConflict, "on-conflict", "", "quarantine or reject (default quarantine)")
	f.StringSliceVar(&r.Required, "require", nil, "payload `columns` that an upsert must not leave NULL")
	f.StringSliceVar(&r.NoCheck, "no-check", nil, "`checks` to switch off: change_id, min_version, empty_upsert, delete_payload")
}

// flags are the role flags as given; outcomes is the location among --property.
func (r *roleFlags) flags(cmd *cobra.Command, outcomes string) pipeline.RoleFlags {
	out := r.RoleFlags
	out.Outcomes = outcomes
	if cmd.Flags().Changed("min-version") {
		out.MinVersion = &r.minVersion
	}
	return out
}

// newTableFlags are the flags about a table that is to be made.
type newTableFlags struct {
	partitionBy []string
	properties  []string
}

func (n *newTableFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&n.partitionBy, "partition-by", nil, "partition `columns` of a new table")
	cmd.Flags().StringArrayVar(&n.properties, "property", nil, "table property `key=value` of a new table; may be repeated")
}

// inputFlags are the flags about reading files.
type inputFlags struct {
	schema        string
	format        string
	allowUnknown  bool
	missingAsNull bool
	failOnInvalid bool
}

func (i *inputFlags) addReading(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.schema, "schema", "", "columns and types of the input, such as 'id long, name string'")
	f.StringVar(&i.format, "format", "", "jsonl, csv, parquet or arrow (default by file name)")
	f.BoolVar(&i.allowUnknown, "allow-unknown", false, "ignore input columns that are not known")
}

func (i *inputFlags) addJudging(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&i.missingAsNull, "missing-as-null", false, "take a payload column that the whole batch lacks as NULL")
	f.BoolVar(&i.failOnInvalid, "fail-on-invalid", false, "refuse a batch that has an invalid row")
}

// deliveryFlags are the flags about the commit.
type deliveryFlags struct {
	batch        string
	appID        string
	batchVersion int64
	maxRetries   int
	retryFor     time.Duration
	resume       string
}

func (d *deliveryFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.batch, "batch", "", "`name` of the batch, for people (default: base name of the first FILE)")
	f.StringVar(&d.appID, "app-id", "", "application `id` of the batch's transaction identifier")
	f.Int64Var(&d.batchVersion, "batch-version", 0, "`number` of the batch in its application; not above the recorded one: skipped")
	f.IntVar(&d.maxRetries, "max-retries", 99, "`number` of times that a commit lost to another writer is tried again")
	f.DurationVar(&d.retryFor, "retry-for", 5*time.Minute, "`duration`, such as 30s, after which a lost commit is given up")
	f.StringVar(&d.resume, "resume", "", "`RUN@VERSION` of an undecided run: look for its commit first")
}

// check refuses what cannot be meant.
func (d *deliveryFlags) check(cmd *cobra.Command) error {
	id, version := cmd.Flags().Changed("app-id"), cmd.Flags().Changed("batch-version")
	switch {
	case id != version:
		return usagef("--app-id and --batch-version belong together")
	case id && d.appID == "":
		return usagef("--app-id is empty")
	case d.batchVersion < 0:
		return usagef("--batch-version %d is negative", d.batchVersion)
	case d.maxRetries < 0:
		return usagef("--max-retries %d is negative", d.maxRetries)
	case d.retryFor <= 0:
		return usagef("--retry-for %s is not a time to try for", d.retryFor)
	}
	return nil
}

func (d *deliveryFlags) retry() *deltatable.Retry {
	return &deltatable.Retry{Max: d.maxRetries + 1, For: d.retryFor}
}
