package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/checkpoints"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
)

func (a *app) auditCommand() *cobra.Command {
	var job pipeline.AuditJob
	var from, to int64
	c := a.command("audit TABLE [flags]", "Read versions back and check them against an independent fold", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			var err error
			if job.From, err = versionFlag(cmd, "from", from); err != nil {
				return err
			}
			if job.To, err = versionFlag(cmd, "to", to); err != nil {
				return err
			}
			if job.From != nil && job.To != nil && *job.From > *job.To {
				return usagef("--from %d is above --to %d", from, to)
			}
			job.Table = args[0]
			rep, err := pipeline.Audit(cmd.Context(), a.env(), &job)
			a.progress.stop()
			if err != nil {
				return err
			}
			if a.json {
				err = a.object(auditObject(rep))
			} else {
				a.printAudit(rep)
			}
			if err == nil && job.Full && job.To == nil && len(rep.Findings) == 0 {
				err = a.newBaseline(cmd.Context(), job.Table)
			}
			if err == nil && len(rep.Findings) > 0 {
				err = &errFindings{n: len(rep.Findings)}
			}
			return err
		})
	f := c.Flags()
	f.Int64Var(&from, "from", 0, "first `version` to audit (default: the first that can be read)")
	f.Int64Var(&to, "to", 0, "last `version` to audit (default: the latest)")
	f.StringVar(&job.Changes, "changes", "", "`folder` of the change files: versions are checked against a fold of them")
	f.BoolVar(&job.Full, "full", false, "recompute everything, and start a new baseline")
	return c
}

// newBaseline starts the table's digest anew where the last one is unknown.
func (a *app) newBaseline(ctx context.Context, table string) error {
	v, err := pipeline.NewBaseline(ctx, a.env(), table)
	if err == nil && v != nil && !a.json {
		a.printf("the table's digest was unknown: version %d records a new one\n", *v)
	}
	return err
}

// printAudit prints a line a version, what a reader should know, and findings.
func (a *app) printAudit(rep *checkpoints.Report) {
	for _, v := range rep.Versions {
		var ok, notes, skipped, failed int64
		for _, c := range v.Checks {
			switch c.Status {
			case checkpoints.OK:
				ok++
			case checkpoints.Failed:
				failed++
			case checkpoints.Note:
				notes++
			case checkpoints.Skipped:
				skipped++
			}
		}
		verdict := "ok"
		if failed > 0 {
			verdict = "FINDINGS"
		}
		a.printf("audit of version %d: %s (%s passed, %d skipped)\n", v.Version, verdict, plural(ok, "check"), skipped)
		for _, c := range v.Checks {
			if c.Status == checkpoints.Note || c.Status == checkpoints.Skipped {
				a.printf("  %s %s: %s\n", c.Status, c.Name, c.Detail)
			}
		}
	}
	for _, f := range rep.Findings {
		a.printf("finding: %s\n", f)
	}
	if len(rep.Findings) == 0 {
		a.printf("no findings\n")
	}
}

type auditJSON struct {
	From     deltatable.Version `json:"from"`
	To       deltatable.Version `json:"to"`
	Versions []auditVersion     `json:"versions"`
	Findings []auditFinding     `json:"findings"`
}

type auditVersion struct {
	Version   deltatable.Version `json:"version"`
	Operation string             `json:"operation"`
	Writer    string             `json:"writer"`
	Run       string             `json:"run,omitempty"`
	Ours      bool               `json:"ours"`
	Digest    string             `json:"digest,omitempty"`
	Checks    []auditCheck       `json:"checks"`
}

type auditCheck struct {
	Name   string             `json:"name"`
	Status checkpoints.Status `json:"status"`
	Detail string             `json:"detail,omitempty"`
}

type auditFinding struct {
	Version deltatable.Version `json:"version"`
	Check   string             `json:"check"`
	Keys    []string           `json:"keys"`
	Detail  string             `json:"detail"`
}

func auditObject(rep *checkpoints.Report) *auditJSON {
	out := &auditJSON{From: rep.From, To: rep.To, Versions: []auditVersion{}, Findings: []auditFinding{}}
	for _, v := range rep.Versions {
		av := auditVersion{
			Version: v.Version, Operation: v.Operation, Writer: v.Writer, Run: v.Run, Ours: v.Ours, Digest: v.Digest,
			Checks: []auditCheck{},
		}
		for _, c := range v.Checks {
			av.Checks = append(av.Checks, auditCheck(c))
		}
		out.Versions = append(out.Versions, av)
	}
	for _, f := range rep.Findings {
		keys := f.Keys
		if keys == nil {
			keys = []string{}
		}
		out.Findings = append(out.Findings, auditFinding{f.Version, f.Check, keys, f.Detail})
	}
	return out
}
