package main

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

// expectFlags are the expectations, which every mode has.
type expectFlags struct{ warn, drop, fail []string }

func (x *expectFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&x.warn, "expect-warn", nil, "`'name: SQL'`: count the rows that violate the condition; may be repeated")
	f.StringArrayVar(&x.drop, "expect-drop", nil, "`'name: SQL'`: leave out the rows that violate the condition; may be repeated")
	f.StringArrayVar(&x.fail, "expect-fail", nil, "`'name: SQL'`: refuse the batch if a row violates the condition; may be repeated")
}

func (x *expectFlags) expectations() ([]change.Expectation, error) {
	var out []change.Expectation
	for _, list := range []struct {
		texts  []string
		action change.ExpectationAction
	}{{x.fail, change.ExpectFail}, {x.drop, change.ExpectDrop}, {x.warn, change.ExpectWarn}} {
		for _, text := range list.texts {
			e, err := pipeline.ParseExpectation(text, list.action)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// foldFlags are what every command that folds a batch has.
type foldFlags struct {
	input    inputFlags
	delivery deliveryFlags
	expect   expectFlags
	audit    bool
}

func (f *foldFlags) add(cmd *cobra.Command) {
	f.expect.add(cmd)
	f.addDelivery(cmd)
}

// addDelivery adds the flags of a command that reads no rows.
func (f *foldFlags) addDelivery(cmd *cobra.Command) {
	f.delivery.add(cmd)
	cmd.Flags().BoolVar(&f.audit, "audit", false, "audit the version just made")
}

// job is the common part of a run.
func (f *foldFlags) job(a *app, cmd *cobra.Command, table string, files []string) (*pipeline.Env, *pipeline.ApplyJob, error) {
	if err := f.delivery.check(cmd); err != nil {
		return nil, nil, err
	}
	expectations, err := f.expect.expectations()
	if err != nil {
		return nil, nil, err
	}
	zone, err := a.zone()
	if err != nil {
		return nil, nil, err
	}
	e := a.env()
	e.Retry = f.delivery.retry()
	return e, &pipeline.ApplyJob{
		Table: table, Files: files, Schema: f.input.schema, Format: f.input.format, AllowUnknown: f.input.allowUnknown,
		MissingAsNull: f.input.missingAsNull, Zone: zone, Batch: f.delivery.batch, AppID: f.delivery.appID,
		AppVersion: f.delivery.batchVersion, Resume: f.delivery.resume, Audit: f.audit, Expectations: expectations,
	}, nil
}

func (a *app) mergeCommand() *cobra.Command {
	var fold foldFlags
	var job pipeline.MergeJob
	var sources, schemas []string
	var file string
	c := a.command("merge TABLE --source name=FILE|TABLE[@vN]... (--sql FILE | 'MERGE INTO ...')", "Carry out a MERGE statement, as one commit",
		cobra.RangeArgs(1, 2), func(cmd *cobra.Command, args []string) error {
			e, common, err := fold.job(a, cmd, args[0], nil)
			if err != nil {
				return err
			}
			job.Fold = *common
			if job.SQL, err = statementText(file, args[1:]); err != nil {
				return err
			}
			if job.Sources, err = mergeSources(sources, schemas); err != nil {
				return err
			}
			return a.fold(cmd.Context(), func(ctx context.Context) (*pipeline.ApplyReport, error) { return pipeline.Merge(ctx, e, &job) })
		})
	f := c.Flags()
	f.StringArrayVar(&sources, "source", nil, "`name=FILE` or name=TABLE[@vN] of the statement's source; a name with several files may be repeated")
	f.StringArrayVar(&schemas, "source-schema", nil, "`'name=columns and types'` of a source that the target lacks or has otherwise")
	f.StringVar(&file, "sql", "", "`file` that holds the statement")
	f.BoolVar(&job.Evolve, "evolve-schema", false, "add columns that only the source has, where a clause sets all columns")
	f.BoolVar(&job.BreakGuard, "break-guard", false, "merge into a guarded table all the same; the commit records it")
	f.StringVar(&fold.input.format, "format", "", "format of the source files (default by file name)")
	f.BoolVar(&fold.input.allowUnknown, "allow-unknown", false, "ignore source columns that are not known")
	fold.add(c)
	return c
}

func statementText(file string, args []string) (string, error) {
	switch {
	case file != "" && len(args) == 0:
		text, err := os.ReadFile(file)
		return string(text), err
	case file == "" && len(args) == 1:
		return args[0], nil
	}
	return "", usagef("the statement comes from --sql FILE or as an argument, one of them")
}

// mergeSources reads --source and --source-schema.
func mergeSources(sources, schemas []string) ([]pipeline.MergeSource, error) {
	var out []pipeline.MergeSource
	find := func(name string) *pipeline.MergeSource {
		for i := range out {
			if strings.EqualFold(out[i].Name, name) {
				return &out[i]
			}
		}
		return nil
	}
	for _, text := range sources {
		name, where, ok := strings.Cut(text, "=")
		if !ok || name == "" || where == "" {
			return nil, usagef("--source %s is not name=FILE or name=TABLE", text)
		}
		var version *deltatable.Version
		if at := strings.LastIndex(where, "@v"); at > 0 {
			if n, err := strconv.ParseInt(where[at+2:], 10, 64); err == nil && n >= 0 {
				v := deltatable.Version(n)
				version, where = &v, where[:at]
			}
		}
		if s := find(name); s != nil {
			s.Files = append(s.Files, where)
			continue
		}
		out = append(out, pipeline.MergeSource{Name: name, Files: []string{where}, Version: version})
	}
	for _, text := range schemas {
		name, ddl, ok := strings.Cut(text, "=")
		s := find(strings.TrimSpace(name))
		if !ok || s == nil {
			return nil, usagef("--source-schema %s is not name=columns of a --source", text)
		}
		s.Schema = ddl
	}
	return out, nil
}

func (a *app) replaceCommand() *cobra.Command {
	var fold foldFlags
	var made newTableFlags
	var job pipeline.ReplaceJob
	c := a.command("replace TABLE FILE... --using a,b --sequence-by s", "Replace the rows of the batch's keys by those with the highest sequence, as one commit",
		tableArgs(true), func(cmd *cobra.Command, args []string) error {
			e, common, err := fold.job(a, cmd, args[0], args[1:])
			if err != nil {
				return err
			}
			props, outcomes, err := pipeline.SplitProperties(made.properties)
			if err != nil {
				return err
			}
			job.Fold, job.Outcomes = *common, outcomes
			job.Fold.PartitionBy, job.Fold.Properties = made.partitionBy, props
			return a.fold(cmd.Context(), func(ctx context.Context) (*pipeline.ApplyReport, error) { return pipeline.ReplaceUsing(ctx, e, &job) })
		})
	f := c.Flags()
	f.StringSliceVar(&job.Using, "using", nil, "key `columns` of a new table; NULL equals NULL")
	f.StringVar(&job.Sequence, "sequence-by", "", "sequence `column` of a new table")
	f.StringVar(&job.Ties, "ties", "", "append or ignore-identical: what rows at the stored sequence do (default append)")
	f.BoolVar(&job.Again, "again", false, "apply a batch that was applied already")
	fold.input.addReading(c)
	made.add(c)
	fold.add(c)
	return c
}

func (a *app) overwriteCommand() *cobra.Command {
	var fold foldFlags
	var job pipeline.ChangeJob
	c := a.command("overwrite TABLE FILE... (--where 'SQL' | --all)", "Replace the rows of a condition by those of the files, as one commit",
		tableArgs(true), func(cmd *cobra.Command, args []string) error {
			return a.change(cmd, &fold, &job, args, pipeline.Overwrite)
		})
	c.Flags().BoolVar(&job.All, "all", false, "replace all rows of the table")
	fold.input.addReading(c)
	fold.expect.add(c)
	changeFlags(c, &fold, &job)
	return c
}

func (a *app) deleteCommand() *cobra.Command {
	var fold foldFlags
	var job pipeline.ChangeJob
	c := a.command("delete TABLE --where 'SQL'", "Delete the rows for which a condition is true, as one commit",
		tableArgs(false), func(cmd *cobra.Command, args []string) error {
			return a.change(cmd, &fold, &job, args, pipeline.Delete)
		})
	changeFlags(c, &fold, &job)
	return c
}

func (a *app) updateCommand() *cobra.Command {
	var fold foldFlags
	var job pipeline.ChangeJob
	c := a.command("update TABLE --set 'a = ...' [--where 'SQL']", "Set columns of the rows for which a condition is true, as one commit",
		tableArgs(false), func(cmd *cobra.Command, args []string) error {
			return a.change(cmd, &fold, &job, args, pipeline.Update)
		})
	c.Flags().StringArrayVar(&job.Set, "set", nil, "`'column = expression'`; may be repeated")
	changeFlags(c, &fold, &job)
	return c
}

func changeFlags(c *cobra.Command, fold *foldFlags, job *pipeline.ChangeJob) {
	c.Flags().StringVar(&job.Where, "where", "", "`SQL` condition on the table's rows")
	c.Flags().BoolVar(&job.BreakGuard, "break-guard", false, "change a guarded table all the same; the commit records it")
	fold.addDelivery(c)
}

// changeRun is one of MERGE's little sisters.
type changeRun func(context.Context, *pipeline.Env, *pipeline.ChangeJob) (*pipeline.ApplyReport, error)

func (a *app) change(cmd *cobra.Command, fold *foldFlags, job *pipeline.ChangeJob, args []string, run changeRun) error {
	e, common, err := fold.job(a, cmd, args[0], args[1:])
	if err != nil {
		return err
	}
	job.Fold = *common
	return a.fold(cmd.Context(), func(ctx context.Context) (*pipeline.ApplyReport, error) { return run(ctx, e, job) })
}
