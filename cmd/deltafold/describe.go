package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge/change"
)

const timeForm = "2006-01-02T15:04:05.000Z07:00"

func timeText(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format(timeForm)
}

func (a *app) historyCommand() *cobra.Command {
	var limit int
	c := a.command("history TABLE [flags]", "List versions, newest first", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			if limit < 0 || cmd.Flags().Changed("limit") && limit == 0 {
				return usagef("--limit %d is not a number of versions", limit)
			}
			list, err := pipeline.History(cmd.Context(), a.env(), args[0], limit)
			if err != nil {
				return err
			}
			if a.json {
				return a.object(historyObject(list))
			}
			for _, h := range list {
				a.printf("%s\n", historyLine(&h))
			}
			return nil
		})
	c.Flags().IntVar(&limit, "limit", 0, "list at most this `number` of versions")
	return c
}

func historyLine(h *pipeline.HistoryEntry) string {
	op := h.Operation
	if op == "" {
		op = "(no operation)"
	}
	line := fmt.Sprintf("%d  %s  %s", h.Version, timeText(h.Timestamp), op)
	if h.Batch != "" {
		line += "  batch " + h.Batch
	}
	var counts []string
	for _, o := range sortedOutcomes(h.Counts) {
		counts = append(counts, fmt.Sprintf("%s %d", o, h.Counts[o]))
	}
	switch {
	case len(counts) > 0:
		line += "  " + strings.Join(counts, ", ")
	case h.Inserted != nil && *h.Inserted > 0:
		line += "  " + plural(*h.Inserted, "row") + " added"
	}
	if h.BreakGuard != "" {
		line += "  guard broken by " + h.BreakGuard
	}
	if h.SingleWriter {
		line += "  as the single writer, unsafely"
	}
	if h.Engine != "" {
		line += "  by " + h.Engine
	}
	return line
}

type historyJSON struct {
	Version    deltatable.Version `json:"version"`
	Timestamp  string             `json:"timestamp"`
	Operation  string             `json:"operation"`
	Parameters map[string]string  `json:"operation_parameters"`
	Metrics    map[string]string  `json:"operation_metrics"`
	Engine     string             `json:"engine"`
	Run        string             `json:"run,omitempty"`
	Batch      string             `json:"batch,omitempty"`
	Counts     change.Counts      `json:"counts,omitempty"`
	// Expectations are the numbers of rows that violated each.
	Expectations map[string]int64 `json:"expectations,omitempty"`
	BreakGuard   string           `json:"break_guard,omitempty"`
	SingleWriter bool             `json:"unsafe_single_writer,omitempty"`
	Message      string           `json:"user_metadata,omitempty"`
}

func historyObject(list []pipeline.HistoryEntry) any {
	out := struct {
		Versions []historyJSON `json:"versions"`
	}{[]historyJSON{}}
	for _, h := range list {
		out.Versions = append(out.Versions, historyJSON{
			h.Version, timeText(h.Timestamp), h.Operation, h.Parameters, h.Metrics, h.Engine, h.Run, h.Batch, h.Counts,
			h.Expectations, h.BreakGuard, h.SingleWriter, h.Message,
		})
	}
	return out
}

func (a *app) describeCommand() *cobra.Command {
	return a.command("describe TABLE", "Say what a table is: schema, roles, properties, size", tableArgs(false),
		func(cmd *cobra.Command, args []string) error {
			d, err := pipeline.Describe(cmd.Context(), a.env(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.object(describeObject(d))
			}
			a.printDescribe(d)
			return nil
		})
}

func (a *app) printDescribe(d *pipeline.DescribeReport) {
	a.printf("table: %s\n", d.Table)
	if d.Name != "" {
		a.printf("name: %s\n", d.Name)
	}
	a.printf("id: %s\n", d.ID)
	a.printf("mode: %s\n", d.Mode)
	a.printf("version: %d of %s\n", d.Version, timeText(d.Timestamp))
	rows := "an unknown number of rows"
	if d.Rows != nil {
		rows = plural(*d.Rows, "row")
	}
	a.printf("size: %s, %s, %d bytes\n", rows, plural(int64(d.Files), "file"), d.Bytes)
	p := d.Protocol
	a.printf("protocol: reader %d, writer %d%s\n", p.MinReader, p.MinWriter, features(p))
	if d.ReadOnly != "" {
		a.printf("not writable: %s\n", d.ReadOnly)
	}
	if d.Problem != "" {
		a.printf("problem: %s\n", d.Problem)
	}
	a.printf("columns:\n")
	width := [2]int{}
	for _, c := range d.Columns {
		width[0], width[1] = max(width[0], len(c.Name)), max(width[1], len(c.Type))
	}
	for _, c := range d.Columns {
		a.printf("%s\n", strings.TrimRight(fmt.Sprintf("  %-*s  %-*s  %s", width[0], c.Name, width[1], c.Type, columnNotes(&c)), " "))
	}
	if d.Roles != nil {
		a.printRoles(d.Roles)
	}
	if d.Replace != nil {
		a.printReplace(d.Replace)
	}
	if d.Outcomes != "" {
		a.printf("outcomes: %s\n", d.Outcomes)
	}
	printed := false
	for _, k := range slices.Sorted(maps.Keys(d.Properties)) {
		if (d.Roles != nil || d.Replace != nil) && strings.HasPrefix(k, change.PropPrefix) {
			continue // told as roles
		}
		if !printed {
			a.printf("properties:\n")
		}
		printed = true
		a.printf("  %s = %s\n", k, d.Properties[k])
	}
	for _, t := range d.Txns {
		a.printf("application %s: version %d\n", t.AppID, t.Version)
	}
}

func columnNotes(c *pipeline.ColumnReport) string {
	var notes []string
	if !c.Nullable {
		notes = append(notes, "not null")
	}
	if c.Role != "" {
		notes = append(notes, c.Role)
	}
	if c.Partition > 0 {
		notes = append(notes, fmt.Sprintf("partition column %d", c.Partition))
	}
	return strings.Join(notes, ", ")
}

func features(p *deltatable.Protocol) string {
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.ReaderFeatures, p.WriterFeatures))))
	if len(all) == 0 {
		return ""
	}
	return ", features " + strings.Join(all, ", ")
}

// printRoles says how a guarded table reads its batches.
func (a *app) printRoles(r *change.Roles) {
	a.printf("roles:\n")
	line := func(name, v string) {
		if v != "" {
			a.printf("  %-14s %s\n", name, v)
		}
	}
	line("key", strings.Join(r.Keys, ", "))
	line("version", strings.Join(r.Versions, ", "))
	if r.MinVersion != nil {
		line("minimum", *r.MinVersion)
	}
	if r.Operation != "" {
		line("operation", fmt.Sprintf("%s (%s, %s)", r.Operation, r.UpsertWord, r.DeleteWord))
	}
	line("deletes when", r.DeletesWhen)
	switch r.StatusForm {
	case change.StatusNone:
		line("status", "none")
	case change.StatusBoolean:
		line("status", r.Status+" (true: deleted)")
	case change.StatusWord:
		line("status", r.Status)
	}
	line("label", r.ChangeID)
	line("payload", strings.Join(r.Payload, ", "))
	line("required", strings.Join(r.Required, ", "))
	var off []string
	for _, c := range r.NoCheck {
		off = append(off, string(c))
	}
	line("checks off", strings.Join(off, ", "))
	line("on conflict", string(r.Policy))
	a.printExpectations(r.Expectations)
}

func (a *app) printExpectations(all []change.Expectation) {
	for _, x := range all {
		a.printf("  %-14s %s: %s\n", "expect "+string(x.Action), x.Name, x.Condition)
	}
}

// printReplace says how a table in mode replace reads its batches.
func (a *app) printReplace(r *change.ReplaceRoles) {
	a.printf("roles:\n  %-14s %s\n  %-14s %s\n  %-14s %s\n", "using", strings.Join(r.Keys, ", "), "sequence by", r.Sequence, "ties", tiesOf(r))
	a.printExpectations(r.Expectations)
}

func tiesOf(r *change.ReplaceRoles) string {
	if r.IgnoreIdentical {
		return change.TiesIgnoreIdentical
	}
	return change.TiesAppend
}

func rolesObject(r *change.Roles) map[string]string {
	if r == nil {
		return nil
	}
	return r.Properties()
}

type replaceJSON struct {
	Using        []string             `json:"using"`
	Sequence     string               `json:"sequence_by"`
	Ties         string               `json:"ties"`
	Expectations []change.Expectation `json:"expectations,omitempty"`
}

func replaceObject(r *change.ReplaceRoles) *replaceJSON {
	if r == nil {
		return nil
	}
	return &replaceJSON{r.Keys, r.Sequence, tiesOf(r), r.Expectations}
}

func describeObject(d *pipeline.DescribeReport) any {
	type txn struct {
		AppID   string `json:"app_id"`
		Version int64  `json:"version"`
	}
	txns := []txn{}
	for _, t := range d.Txns {
		txns = append(txns, txn{t.AppID, t.Version})
	}
	return struct {
		Table      string                  `json:"table"`
		ID         string                  `json:"id"`
		Name       string                  `json:"name,omitempty"`
		Mode       change.Mode             `json:"mode"`
		Version    deltatable.Version      `json:"version"`
		Timestamp  string                  `json:"timestamp"`
		Rows       *int64                  `json:"rows"`
		Files      int                     `json:"files"`
		Bytes      int64                   `json:"bytes"`
		MinReader  int                     `json:"min_reader_version"`
		MinWriter  int                     `json:"min_writer_version"`
		Reader     []string                `json:"reader_features,omitempty"`
		Writer     []string                `json:"writer_features,omitempty"`
		ReadOnly   string                  `json:"not_writable,omitempty"`
		Problem    string                  `json:"problem,omitempty"`
		Columns    []pipeline.ColumnReport `json:"columns"`
		Properties map[string]string       `json:"properties"`
		Replace    *replaceJSON            `json:"replace,omitempty"`
		Outcomes   string                  `json:"outcomes,omitempty"`
		Txns       []txn                   `json:"transaction_identifiers"`
	}{
		d.Table, d.ID, d.Name, d.Mode, d.Version, timeText(d.Timestamp), d.Rows, d.Files, d.Bytes,
		d.Protocol.MinReader, d.Protocol.MinWriter, d.Protocol.ReaderFeatures, d.Protocol.WriterFeatures,
		d.ReadOnly, d.Problem, d.Columns, d.Properties, replaceObject(d.Replace), d.Outcomes, txns,
	}
}
