package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/merge/change"
)

func (a *app) readCommand() *cobra.Command {
	var job pipeline.ReadJob
	var version int64
	var limit int64
	c := a.command("read TABLE [flags]", "Print the rows of a table, at any version", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			var err error
			if job.Version, err = versionFlag(cmd, "version", version); err != nil {
				return err
			}
			if job.Limit = -1; cmd.Flags().Changed("limit") {
				if job.Limit = limit; limit < 0 {
					return usagef("--limit %d is negative", limit)
				}
			}
			if cmd.Flags().Changed("columns") && len(job.Columns) == 0 {
				return usagef("--columns names no column")
			}
			if job.Zone, err = a.zone(); err != nil {
				return err
			}
			if job.Format == "" && job.Output == "" && a.json {
				job.Format = rowfile.JSONL
			}
			if job.Output == "" {
				if err := a.refuseBinary(job.Format); err != nil {
					return err
				}
			}
			job.Table, job.Out = args[0], a.data()
			rep, err := pipeline.Read(cmd.Context(), a.env(), &job)
			if err != nil {
				return err
			}
			return a.readDone(&job, rep)
		})
	f := c.Flags()
	f.Int64Var(&version, "version", 0, "read this `version` (default: the latest)")
	f.StringVar(&job.Timestamp, "timestamp", "", "read the last version committed at or before this `time`")
	f.BoolVar(&job.Active, "active", false, "only the active rows of a guarded table")
	f.StringSliceVar(&job.Columns, "columns", nil, "`columns` to print, in this order")
	f.StringVar(&job.Where, "where", "", "`SQL` condition on the rows")
	f.StringSliceVar(&job.OrderBy, "order-by", nil, "`columns` to sort by, each with desc after it where it descends")
	f.Int64Var(&limit, "limit", 0, "print at most this `number` of rows")
	f.BoolVar(&job.Count, "count", false, "print the number of rows in place of them")
	f.StringSliceVar(&job.CountBy, "count-by", nil, "print the number of rows for each combination of values in these `columns`")
	f.StringVar(&job.CountAs, "count-as", "", "`name` of the column of numbers (default count)")
	f.StringVar(&job.Format, "format", "", "table, jsonl, csv, parquet or arrow (default: by the name of --output, else table)")
	f.StringVar(&job.Output, "output", "", "write to this `file` or URL in place of standard output")
	return c
}

// versionFlag is the value of a flag that names a version; nil if not given.
func versionFlag(cmd *cobra.Command, name string, n int64) (*deltatable.Version, error) {
	if !cmd.Flags().Changed(name) {
		return nil, nil
	}
	if n < 0 {
		return nil, usagef("--%s %d is negative", name, n)
	}
	v := deltatable.Version(n)
	return &v, nil
}

// refuseBinary keeps bytes that are no text away from a terminal.
func (a *app) refuseBinary(format string) error {
	if a.terminal.out && slices.Contains([]string{rowfile.Parquet, rowfile.Arrow}, format) {
		return usagef("--format %s is not for a terminal: give --output FILE, or redirect it", format)
	}
	return nil
}

// data is standard output for rows; the first of them ends the progress display.
func (a *app) data() io.Writer { return dataWriter{a} }

type dataWriter struct{ a *app }

func (d dataWriter) Write(p []byte) (int, error) {
	d.a.progress.stop()
	return d.a.out.Write(p)
}

// readDone says about an output file what nobody sees otherwise.
func (a *app) readDone(job *pipeline.ReadJob, rep *pipeline.ReadReport) error {
	if job.Output == "" {
		return nil
	}
	if a.json {
		return a.object(struct {
			Table   string             `json:"table"`
			Version deltatable.Version `json:"version"`
			Rows    int64              `json:"rows"`
			Output  string             `json:"output"`
			Format  string             `json:"format"`
		}{rep.Table, rep.Version, rep.Rows, job.Output, rep.Format})
	}
	a.printf("%s of version %d written to %s as %s\n", plural(rep.Rows, "row"), rep.Version, job.Output, rep.Format)
	return nil
}

func (a *app) outcomesCommand() *cobra.Command {
	var job pipeline.OutcomesJob
	var version int64
	c := a.command("outcomes TABLE [flags]", "Print what became of every input row", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			var err error
			if job.Version, err = versionFlag(cmd, "version", version); err != nil {
				return err
			}
			if job.Format == "" && a.json {
				job.Format = rowfile.JSONL
			}
			if err := a.refuseBinary(job.Format); err != nil {
				return err
			}
			job.Table, job.Out = args[0], a.data()
			_, err = pipeline.ReadOutcomes(cmd.Context(), a.env(), &job)
			return err
		})
	f := c.Flags()
	f.StringVar(&job.Batch, "batch", "", "only the batch of this `name`")
	f.StringVar(&job.Run, "run", "", "only the run of this `id`")
	f.Int64Var(&version, "version", 0, "only the run that made this `version`")
	f.StringSliceVar(&job.Columns, "columns", nil, "`columns` to print, in this order")
	f.StringVar(&job.Where, "where", "", "`SQL` condition on the outcomes")
	f.StringVar(&job.Format, "format", "", "table, jsonl, csv, parquet or arrow (default table)")
	return c
}

func (a *app) repairOutcomesCommand() *cobra.Command {
	return a.command("repair-outcomes TABLE", "Complete the outcomes of runs that died after their commit", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			url, err := pipeline.RepairOutcomes(cmd.Context(), a.env(), args[0])
			switch {
			case err != nil:
				return err
			case a.json:
				return a.object(struct {
					Outcomes string `json:"outcomes"`
				}{url})
			case url == change.OutcomesNone:
				a.printf("the table keeps no outcomes\n")
			default:
				a.printf("outcomes are complete: %s\n", url)
			}
			return nil
		})
}
