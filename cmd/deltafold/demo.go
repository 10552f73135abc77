package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/rowfile"
)

// demoBatches are six batches of versioned changes: inserts, updates, deletes, a
// late change, a contradiction, and two repeats.
//
//go:embed demo/batch-*.jsonl
var demoBatches embed.FS

const demoCount = 6

func (a *app) demoCommand() *cobra.Command {
	var keep string
	c := a.command("demo [flags]", "Fold six small batches into a temporary table and show all there is", func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("demo takes no arguments")
		}
		return nil
	}, func(cmd *cobra.Command, _ []string) error {
		dir := keep
		if dir == "" {
			var err error
			if dir, err = os.MkdirTemp("", "deltafold-demo-"); err != nil {
				return err
			}
			defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder left behind harms nobody
		} else if err := os.Mkdir(dir, 0o755); err != nil {
			return usagef("--keep needs the name of a new folder: %w", err)
		}
		d := &demo{app: a, dir: dir, table: filepath.Join(dir, "state")}
		return d.run(cmd.Context())
	})
	c.Flags().StringVar(&keep, "keep", "", "work in this new `folder` and leave it there")
	return c
}

// demo goes through the same code as the commands that it shows.
type demo struct {
	*app
	dir, table string
}

func (d *demo) run(ctx context.Context) error {
	for n := 1; n <= demoCount; n++ {
		if err := d.fold(ctx, n); err != nil {
			return err
		}
	}
	d.say("$ deltafold outcomes state --format table")
	_, err := pipeline.ReadOutcomes(ctx, d.env(), &pipeline.OutcomesJob{Table: d.table, Format: rowfile.Table, Out: d.data()})
	if err != nil {
		return err
	}
	for _, v := range []deltatable.Version{0, 1} {
		d.say("$ deltafold read state --version %d", v)
		if err := d.show(ctx, &v); err != nil {
			return err
		}
	}
	d.say("$ deltafold history state")
	list, err := pipeline.History(ctx, d.env(), d.table, 0)
	if err != nil {
		return err
	}
	for _, h := range list {
		d.printf("%s\n", historyLine(&h))
	}
	d.say("$ deltafold audit state --changes batches --full")
	rep, err := pipeline.Audit(ctx, d.env(), &pipeline.AuditJob{Table: d.table, Changes: filepath.Join(d.dir, "batches"), Full: true})
	if err != nil {
		return err
	}
	d.printAudit(rep)
	if len(rep.Findings) > 0 {
		return &errFindings{n: len(rep.Findings)}
	}
	return nil
}

func (d *demo) say(format string, args ...any) { d.printf("\n"+format+"\n", args...) }

// fold applies one batch and shows the state after it.
func (d *demo) fold(ctx context.Context, n int) error {
	name := fmt.Sprintf("batch-%d.jsonl", n)
	data, err := demoBatches.ReadFile("demo/" + name)
	if err != nil {
		return err
	}
	file := filepath.Join(d.dir, "batches", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	d.say("$ deltafold apply state %s --batch %d", name, n)
	if err := d.apply(ctx, d.env(), &pipeline.ApplyJob{Table: d.table, Files: []string{file}, Batch: fmt.Sprint(n)}); err != nil {
		return err
	}
	d.say("$ deltafold read state --order-by entity_id")
	return d.show(ctx, nil)
}

func (d *demo) show(ctx context.Context, v *deltatable.Version) error {
	_, err := pipeline.Read(ctx, d.env(), &pipeline.ReadJob{
		Table: d.table, Version: v, OrderBy: []string{"entity_id"}, Limit: -1, Format: rowfile.Table, Out: d.data(),
	})
	return err
}
