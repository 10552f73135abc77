package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

func (a *app) applyCommand() *cobra.Command {
	var roles roleFlags
	var input inputFlags
	var made newTableFlags
	var delivery deliveryFlags
	var audit bool
	var expect expectFlags
	c := a.command("apply TABLE FILE... [flags]", "Fold one batch of changes into a guarded table, as one commit", tableArgs(true),
		func(cmd *cobra.Command, args []string) error {
			if err := delivery.check(cmd); err != nil {
				return err
			}
			props, outcomes, err := pipeline.SplitProperties(made.properties)
			if err != nil {
				return err
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
			return a.apply(cmd.Context(), e, &pipeline.ApplyJob{
				Table: args[0], Files: args[1:], Schema: input.schema, Roles: roles.flags(cmd, outcomes),
				PartitionBy: made.partitionBy, Properties: props, Format: input.format,
				AllowUnknown: input.allowUnknown, MissingAsNull: input.missingAsNull, FailOnInvalid: input.failOnInvalid,
				Zone: zone, Batch: delivery.batch, AppID: delivery.appID, AppVersion: delivery.batchVersion,
				Resume: delivery.resume, Audit: audit, Expectations: expectations,
			})
		})
	roles.add(c)
	input.addReading(c)
	input.addJudging(c)
	made.add(c)
	delivery.add(c)
	expect.add(c)
	c.Flags().BoolVar(&audit, "audit", false, "audit the version just made")
	return c
}

// apply runs the batch and prints its report, also that of a refused batch.
func (a *app) apply(ctx context.Context, e *pipeline.Env, j *pipeline.ApplyJob) error {
	return a.fold(ctx, func(ctx context.Context) (*pipeline.ApplyReport, error) { return pipeline.Apply(ctx, e, j) })
}

// fold runs a batch and prints its report, also that of a refused batch.
func (a *app) fold(ctx context.Context, run func(context.Context) (*pipeline.ApplyReport, error)) error {
	rep, err := run(ctx)
	a.progress.stop()
	if rep == nil {
		return err
	}
	if err == nil {
		a.committed = rep.Version
	}
	if refused(err) {
		rep.Why = "the batch was refused"
	}
	if a.json {
		if oerr := a.object(applyObject(rep, err)); err == nil {
			err = oerr
		}
	} else {
		a.printApply(rep, err)
	}
	a.warnings(rep.Warnings)
	if err == nil && rep.Audit != nil && len(rep.Audit.Findings) > 0 {
		return &errFindings{n: len(rep.Audit.Findings), committed: rep.Version}
	}
	return err
}

// applyJSON is the object that apply --json prints.
type applyJSON struct {
	Run            string                `json:"run"`
	Batch          string                `json:"batch"`
	Table          string                `json:"table"`
	Counts         change.Counts         `json:"counts"`
	Version        *deltatable.Version   `json:"version"`
	ReadVersion    *deltatable.Version   `json:"read_version"`
	Why            string                `json:"why,omitempty"`
	Created        bool                  `json:"created"`
	AlreadyApplied bool                  `json:"already_applied"`
	Expectations   map[string]int64      `json:"expectations,omitempty"`
	Outcomes       string                `json:"outcomes"`
	Retries        int                   `json:"retries"`
	Sample         []pipeline.OutcomeRow `json:"sample"`
	Warnings       []string              `json:"warnings"`
	Audit          *auditJSON            `json:"audit,omitempty"`
	Error          string                `json:"error,omitempty"`
}

func applyObject(rep *pipeline.ApplyReport, err error) *applyJSON {
	out := &applyJSON{
		Run: rep.Run, Batch: rep.Batch, Table: rep.Table, Counts: rep.Counts, Version: rep.Version, ReadVersion: rep.ReadVersion,
		Why: rep.Why, Created: rep.Created, AlreadyApplied: rep.AlreadyApplied, Outcomes: rep.Outcomes, Retries: rep.Retries,
		Sample: rep.Sample, Warnings: rep.Warnings, Expectations: rep.Expectations,
	}
	if rep.Audit != nil {
		out.Audit = auditObject(rep.Audit)
	}
	if out.Counts == nil {
		out.Counts = change.Counts{}
	}
	if out.Sample == nil {
		out.Sample = []pipeline.OutcomeRow{}
	}
	if out.Warnings == nil {
		out.Warnings = []string{}
	}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// outcomeOrder is the order in which people read counts.
var outcomeOrder = []change.Outcome{
	change.Accepted, change.Duplicate, change.Stale, change.Superseded, change.Conflicted, change.Contradiction,
	change.BatchRefused, change.AlreadyApplied,
}

func sortedOutcomes(c change.Counts) []change.Outcome {
	rank := func(o change.Outcome) int {
		if i := slices.Index(outcomeOrder, o); i >= 0 {
			return i
		}
		return len(outcomeOrder)
	}
	return slices.SortedFunc(maps.Keys(c), func(x, y change.Outcome) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return strings.Compare(string(x), string(y))
	})
}

func (a *app) printApply(rep *pipeline.ApplyReport, err error) {
	var total, invalid int64
	var bad []string
	for _, o := range sortedOutcomes(rep.Counts) {
		total += rep.Counts[o]
		if o.Invalid() {
			invalid += rep.Counts[o]
			bad = append(bad, fmt.Sprintf("%s %d", o, rep.Counts[o]))
		}
	}
	a.printf("batch %s: %s\n", rep.Batch, plural(total, "row"))
	for _, o := range sortedOutcomes(rep.Counts) {
		a.printf("  %-20s %d\n", o, rep.Counts[o])
	}
	var undecided *deltatable.UndecidedError
	switch {
	case errors.As(err, &undecided):
		a.printf("version: not known\n")
	case rep.Version != nil && rep.Created:
		a.printf("version: %d (new table)\n", *rep.Version)
	case rep.Version != nil:
		a.printf("version: %d\n", *rep.Version)
	default:
		a.printf("version: none, %s\n", rep.Why)
	}
	a.printViolations(rep.Expectations)
	if rep.Retries > 0 {
		a.printf("retries: %d\n", rep.Retries)
	}
	a.printf("outcomes: %s\n", rep.Outcomes)
	a.printSample(rep.Sample, total)
	if rep.Audit != nil {
		a.printAudit(rep.Audit)
	}
	if invalid > 0 && !refused(err) {
		a.warnf("%s not valid and left out: %s", plural2(invalid, "row is", "rows are"), strings.Join(bad, ", "))
	}
}

// printViolations says how many rows violated each expectation.
func (a *app) printViolations(counts map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		a.printf("expectation %s: %s it\n", name, plural2(counts[name], "row violates", "rows violate"))
	}
}

func refused(err error) bool { return is[*merge.RefusedError](err) }

func (a *app) printSample(rows []pipeline.OutcomeRow, total int64) {
	if len(rows) == 0 {
		return
	}
	width := [3]int{}
	for _, r := range rows {
		width[0] = max(width[0], len(r.Outcome))
		width[1] = max(width[1], len(r.Key))
		width[2] = max(width[2], len(r.Version))
	}
	for _, r := range rows {
		line := ""
		for i, text := range []string{string(r.Outcome), r.Key, r.Version} {
			if width[i] > 0 { // a statement's rows have neither key nor version
				line += fmt.Sprintf("  %-*s", width[i], text)
			}
		}
		a.printf("%s  %s:%d\n", line, r.File, r.Row)
	}
	if n := total - int64(len(rows)); n > 0 {
		a.printf("  and %s\n", plural(n, "more row"))
	}
}

func plural(n int64, noun string) string { return plural2(n, noun, noun+"s") }

func plural2(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
