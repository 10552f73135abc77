package main

import (
	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

func (a *app) appendCommand() *cobra.Command {
	var input inputFlags
	var made newTableFlags
	var delivery deliveryFlags
	var expect expectFlags
	var breakGuard bool
	c := a.command("append TABLE FILE... [flags]", "Add the rows of one batch to a plain table", tableArgs(true),
		func(cmd *cobra.Command, args []string) error {
			if err := delivery.check(cmd); err != nil {
				return err
			}
			props, outcomes, err := pipeline.SplitProperties(made.properties)
			if err != nil {
				return err
			}
			if outcomes != "" { // an append has none; statements on the table will
				props[change.PropOutcomes] = outcomes
			}
			zone, err := a.zone()
			if err != nil {
				return err
			}
			expectations, err := expect.expectations()
			if err != nil {
				return err
			}
			e := a.env()
			e.Retry = delivery.retry()
			rep, err := pipeline.Append(cmd.Context(), e, &pipeline.AppendJob{
				Table: args[0], Files: args[1:], Schema: input.schema, PartitionBy: made.partitionBy, Properties: props,
				Format: input.format, AllowUnknown: input.allowUnknown, Zone: zone, Batch: delivery.batch,
				AppID: delivery.appID, AppVersion: delivery.batchVersion, Resume: delivery.resume, BreakGuard: breakGuard,
				Expectations: expectations,
			})
			if err != nil {
				return err
			}
			return a.printAppend(rep)
		})
	input.addReading(c)
	made.add(c)
	delivery.add(c)
	expect.add(c)
	c.Flags().BoolVar(&breakGuard, "break-guard", false, "append to a guarded table all the same; the commit records it")
	return c
}

func (a *app) printAppend(rep *pipeline.AppendReport) error {
	a.committed = rep.Version
	defer a.warnings(rep.Warnings)
	if a.json {
		return a.object(struct {
			Run            string              `json:"run"`
			Batch          string              `json:"batch"`
			Table          string              `json:"table"`
			Rows           int64               `json:"rows"`
			Dropped        int64               `json:"dropped,omitempty"`
			Expectations   map[string]int64    `json:"expectations,omitempty"`
			Files          int                 `json:"files"`
			Version        *deltatable.Version `json:"version"`
			Why            string              `json:"why,omitempty"`
			Created        bool                `json:"created"`
			AlreadyApplied bool                `json:"already_applied"`
		}{rep.Run, rep.Batch, rep.Table, rep.Rows, rep.Dropped, rep.Expectations, rep.Files, rep.Version, rep.Why, rep.Created, rep.AlreadyApplied})
	}
	a.printf("batch %s: %s appended\n", rep.Batch, plural(rep.Rows, "row"))
	if rep.Dropped > 0 {
		a.printf("dropped: %s\n", plural(rep.Dropped, "row"))
	}
	a.printViolations(rep.Expectations)
	switch {
	case rep.Version == nil:
		a.printf("version: none, %s\n", rep.Why)
	case rep.Created:
		a.printf("version: %d (new table)\n", *rep.Version)
	default:
		a.printf("version: %d\n", *rep.Version)
	}
	return nil
}
