package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/rowfile"
)

// demoBatches are six batches of versioned changes: inserts, updates, deletes, a
// late change, a contradiction, and two repeats.
//
//go:embed testdata/fixtures/versioned-changes/batch-*.jsonl
var demoBatches embed.FS

// demoCustomers are a table, changes to it, and a MERGE statement.
//
//go:embed testdata/fixtures/customers-merge/customers.jsonl
//go:embed testdata/fixtures/customers-merge/changes.jsonl
//go:embed testdata/fixtures/customers-merge/merge.sql
var demoCustomers embed.FS

const demoCount = 6

func (a *app) demoCommand() *cobra.Command {
	var keep string
	c := a.command("demo [flags]", "Fold small batches into temporary tables and show all there is", func(_ *cobra.Command, args []string) error {
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
			defer os.RemoveAll(dir) // a temporary folder left behind harms nobody
		} else if err := os.Mkdir(dir, 0o755); err != nil {
			return usagef("--keep needs the name of a new folder: %w", err)
		}
		// The commands are shown as people would type them in that folder.
		if err := os.Chdir(dir); err != nil {
			return err
		}
		return (&demo{a}).run(cmd.Context())
	})
	c.Flags().StringVar(&keep, "keep", "", "work in this new `folder` and leave it there")
	return c
}

// demo goes through the same code as the commands that it shows.
type demo struct{ *app }

// demoTable and demoFolder are the names in the demonstration's folder.
const (
	demoTable  = "state"
	demoFolder = "batches"
)

func (d *demo) run(ctx context.Context) error {
	for n := 1; n <= demoCount; n++ {
		if err := d.batch(ctx, n); err != nil {
			return err
		}
	}
	columns := []string{"batch", "change_id", "entity_id", "source_version", "operation", "value", "outcome"}
	d.say("$ deltafold outcomes state --columns %s", strings.Join(columns, ","))
	_, err := pipeline.ReadOutcomes(ctx, d.env(), &pipeline.OutcomesJob{Table: demoTable, Columns: columns, Format: rowfile.Table, Out: d.data()})
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
	list, err := pipeline.History(ctx, d.env(), demoTable, 0)
	if err != nil {
		return err
	}
	for _, h := range list {
		d.printf("%s\n", historyLine(&h))
	}
	d.say("$ deltafold audit state --changes batches --full")
	rep, err := pipeline.Audit(ctx, d.env(), &pipeline.AuditJob{Table: demoTable, Changes: demoFolder, Full: true})
	if err != nil {
		return err
	}
	d.printAudit(rep)
	if len(rep.Findings) > 0 {
		return &errFindings{n: len(rep.Findings)}
	}
	return d.customers(ctx)
}

// customers carries a MERGE statement out and shows both versions and a count.
func (d *demo) customers(ctx context.Context) error {
	const table, schema = "customers", "id long, name string, tier string"
	for _, name := range []string{"customers.jsonl", "changes.jsonl", "merge.sql"} {
		data, err := demoCustomers.ReadFile("testdata/fixtures/customers-merge/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	d.say("$ deltafold append %s customers.jsonl --schema '%s'", table, schema)
	rep, err := pipeline.Append(ctx, d.env(), &pipeline.AppendJob{Table: table, Files: []string{"customers.jsonl"}, Schema: schema})
	if err != nil {
		return err
	}
	if err := d.printAppend(rep); err != nil {
		return err
	}
	sql, err := os.ReadFile("merge.sql")
	if err != nil {
		return err
	}
	d.say("$ cat merge.sql")
	d.printf("%s", sql)
	d.say("$ deltafold merge %s --source changes=changes.jsonl --source-schema 'changes=deleted boolean' --sql merge.sql", table)
	if err := d.fold(ctx, func(ctx context.Context) (*pipeline.ApplyReport, error) {
		return pipeline.Merge(ctx, d.env(), &pipeline.MergeJob{
			Fold: pipeline.ApplyJob{Table: table}, SQL: string(sql),
			Sources: []pipeline.MergeSource{{Name: "changes", Files: []string{"changes.jsonl"}, Schema: "deleted boolean"}},
		})
	}); err != nil {
		return err
	}
	read := func(shown string, j pipeline.ReadJob) error {
		d.say("$ deltafold read %s %s", table, shown)
		j.Table, j.Limit, j.Format, j.Out = table, -1, rowfile.Table, d.data()
		_, err := pipeline.Read(ctx, d.env(), &j)
		return err
	}
	if err := read("--order-by id", pipeline.ReadJob{OrderBy: []string{"id"}}); err != nil {
		return err
	}
	first := deltatable.Version(0)
	if err := read("--version 0 --order-by id", pipeline.ReadJob{Version: &first, OrderBy: []string{"id"}}); err != nil {
		return err
	}
	return read("--count-by tier --count-as customers", pipeline.ReadJob{CountBy: []string{"tier"}, CountAs: "customers"})
}

func (d *demo) say(format string, args ...any) { d.printf("\n"+format+"\n", args...) }

// batch applies one batch and shows the state after it.
func (d *demo) batch(ctx context.Context, n int) error {
	name := fmt.Sprintf("batch-%d.jsonl", n)
	data, err := demoBatches.ReadFile("testdata/fixtures/versioned-changes/" + name)
	if err != nil {
		return err
	}
	file := filepath.Join(demoFolder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	d.say("$ deltafold apply state %s --batch %d", filepath.ToSlash(file), n)
	if err := d.apply(ctx, d.env(), &pipeline.ApplyJob{Table: demoTable, Files: []string{file}, Batch: fmt.Sprint(n)}); err != nil {
		return err
	}
	d.say("$ deltafold read state --order-by entity_id")
	return d.show(ctx, nil)
}

func (d *demo) show(ctx context.Context, v *deltatable.Version) error {
	_, err := pipeline.Read(ctx, d.env(), &pipeline.ReadJob{
		Table: demoTable, Version: v, OrderBy: []string{"entity_id"}, Limit: -1, Format: rowfile.Table, Out: d.data(),
	})
	return err
}
