package main

import (
	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

func (a *app) createCommand() *cobra.Command {
	var roles roleFlags
	var made newTableFlags
	var expect expectFlags
	var schema, mode string
	c := a.command("create TABLE --schema '...' [flags]", "Make an empty table", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			props, outcomes, err := pipeline.SplitProperties(made.properties)
			if err != nil {
				return err
			}
			job := &pipeline.CreateJob{
				Table: args[0], Schema: schema, Roles: roles.flags(cmd, outcomes), Mode: mode,
				PartitionBy: made.partitionBy, Properties: props,
			}
			if job.Roles.Expectations, err = expect.expectations(); err != nil {
				return err
			}
			rep, err := pipeline.Create(cmd.Context(), a.env(), job)
			return a.tableReport("created", rep, err)
		})
	c.Flags().StringVar(&schema, "schema", "", "columns and types, such as 'id long not null, name string'; the status column is added")
	c.Flags().StringVar(&mode, "mode", "", "guarded or plain (default: guarded where a role flag is given)")
	roles.add(c)
	expect.add(c)
	made.add(c)
	return c
}

func (a *app) adoptCommand() *cobra.Command {
	var roles roleFlags
	var expect expectFlags
	var job pipeline.AdoptJob
	c := a.command("adopt TABLE [flags]", "Put a table that is there under the guarded merge or REPLACE USING, after a check of its rows", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			var err error
			job.Table, job.Roles = args[0], roles.flags(cmd, "")
			if job.Roles.Expectations, err = expect.expectations(); err != nil {
				return err
			}
			rep, err := pipeline.Adopt(cmd.Context(), a.env(), &job)
			return a.tableReport("adopted", rep, err)
		})
	roles.add(c)
	expect.add(c)
	f := c.Flags()
	f.StringSliceVar(&job.Using, "using", nil, "key `columns`, for REPLACE USING")
	f.StringVar(&job.Sequence, "sequence-by", "", "sequence `column`, for REPLACE USING")
	f.StringVar(&job.Ties, "ties", "", "append or ignore-identical, for REPLACE USING (default append)")
	return c
}

func (a *app) setPropertyCommand() *cobra.Command {
	return a.command("set-property TABLE KEY=VALUE...", "Set table properties", func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return usagef("%s needs a TABLE and one KEY=VALUE or more", cmd.Name())
		}
		return nil
	}, func(cmd *cobra.Command, args []string) error {
		rep, err := pipeline.SetProperties(cmd.Context(), a.env(), args[0], args[1:])
		return a.tableReport("set properties of", rep, err)
	})
}

func (a *app) logCheckpointCommand() *cobra.Command {
	return a.command("log-checkpoint TABLE", "Write a log checkpoint of the latest version", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			v, err := pipeline.LogCheckpoint(cmd.Context(), a.env(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.object(struct {
					Table   string             `json:"table"`
					Version deltatable.Version `json:"version"`
				}{args[0], v})
			}
			a.printf("log checkpoint of version %d\n", v)
			return nil
		})
}

// tableReport prints what create, adopt and set-property did.
func (a *app) tableReport(done string, rep *pipeline.TableReport, err error) error {
	if err != nil {
		return err
	}
	a.committed = rep.Version
	defer a.warnings(rep.Warnings)
	if a.json {
		return a.object(struct {
			Table   string              `json:"table"`
			Mode    change.Mode         `json:"mode"`
			Version *deltatable.Version `json:"version"`
			Roles   map[string]string   `json:"roles,omitempty"` // as the table's properties spell them
			Replace *replaceJSON        `json:"replace,omitempty"`
		}{rep.Table, rep.Mode, rep.Version, rolesObject(rep.Roles), replaceObject(rep.Replace)})
	}
	if rep.Version == nil {
		a.printf("nothing to do: %s table %s is so already\n", rep.Mode, rep.Table)
		return nil
	}
	a.printf("%s %s table %s, version %d\n", done, rep.Mode, rep.Table, *rep.Version)
	if rep.Roles != nil {
		a.printRoles(rep.Roles)
	}
	if rep.Replace != nil {
		a.printReplace(rep.Replace)
	}
	return nil
}
