package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// harness holds the data and what was measured.
type harness struct {
	o         *options
	work      string
	deltafold string // the command, built once
	python    string
	script    string
	table     string // made by delta-rs, unguarded
	adopted   string // the same files, adopted by deltafold
	versions  map[string]string
	results   []result
}

// result is one line of the report.
type result struct {
	Task, Engine string
	Cost         *cost
	Runs         int
}

func newHarness(ctx context.Context, o *options, work string) (*harness, error) {
	h := &harness{
		o: o, work: work,
		deltafold: filepath.Join(work, "deltafold"),
		python:    filepath.Join(o.peers, "lake", "bin", "python"),
		script:    filepath.Join("bench", "delta_rs.py"),
		table:     filepath.Join(work, "table"),
		adopted:   filepath.Join(work, "adopted"),
	}
	if _, err := os.Stat(h.script); err != nil {
		return nil, fmt.Errorf("run this from the root of the repository: %w", err)
	}
	if _, _, err := measure(ctx, "go", "build", "-o", h.deltafold, "./cmd/deltafold"); err != nil {
		return nil, err
	}
	if _, err := h.ask(ctx, &h.versions, "versions"); err != nil {
		return nil, err
	}
	return h, nil
}

// makeTables makes the state table, for either engine, and the batches.
func (h *harness) makeTables(ctx context.Context) error {
	o := h.o
	progress("making a table of %d rows in %d files", o.rows, o.files)
	var made map[string]int64
	if _, err := h.ask(ctx, &made, "generate", h.table, fmt.Sprint(o.rows), fmt.Sprint(o.files)); err != nil {
		return err
	}
	for _, n := range o.changes {
		if _, err := h.ask(ctx, &made, "changes", h.changes(n), fmt.Sprint(o.rows), fmt.Sprint(n)); err != nil {
			return err
		}
	}
	if err := linkTable(h.table, h.adopted); err != nil {
		return err
	}
	c, _, err := measure(ctx, h.deltafold, "adopt", h.adopted)
	if err != nil {
		return err
	}
	h.results = append(h.results, result{Task: "adopt the table (once)", Engine: "deltafold", Cost: c, Runs: 1})
	return nil
}

func (h *harness) changes(n int) string {
	return filepath.Join(h.work, fmt.Sprintf("changes-%d.parquet", n))
}

// engine folds a change file into a table that is its own.
type engine struct {
	name string
	base string
	fold func(ctx context.Context, table, changes string) (*cost, error)
}

func (h *harness) engines() []engine {
	deltaRS := func(mode string) func(ctx context.Context, table, changes string) (*cost, error) {
		return func(ctx context.Context, table, changes string) (*cost, error) {
			var said struct {
				Fold  float64 `json:"fold_seconds"`
				Merge float64 `json:"merge_seconds"`
			}
			c, err := h.ask(ctx, &said, "merge", table, changes, mode)
			if err != nil {
				return nil, err
			}
			c.Inner = time.Duration((said.Fold + said.Merge) * float64(time.Second))
			return c, nil
		}
	}
	ours := func(ctx context.Context, table, changes string) (*cost, error) {
		c, _, err := measure(ctx, h.deltafold, "apply", table, changes, "--quiet")
		return c, err
	}
	return []engine{
		{name: "deltafold", base: h.adopted, fold: ours},
		{name: "delta-rs, streamed (its default)", base: h.table, fold: deltaRS("streamed")},
		{name: "delta-rs, not streamed", base: h.table, fold: deltaRS("whole")},
	}
}

// merges measures each batch on each engine, the engines in turn, and compares
// the states they leave.
func (h *harness) merges(ctx context.Context) error {
	for _, n := range h.o.changes {
		costs := map[string][]*cost{}
		states := map[string]string{} // by state: an engine that left it
		for run := range h.o.repeat {
			for _, e := range h.engines() {
				progress("%d changes, run %d of %d, %s", n, run+1, h.o.repeat, e.name)
				c, state, err := h.mergeOnce(ctx, &e, n)
				if err != nil {
					return err
				}
				costs[e.name] = append(costs[e.name], c)
				states[state] = e.name
				if len(states) > 1 {
					return fmt.Errorf("%d changes: results differ: %v", n, states)
				}
			}
		}
		for _, e := range h.engines() {
			task := fmt.Sprintf("merge %s changes", grouped(n))
			if n == 1 {
				task = "merge 1 change"
			}
			h.results = append(h.results, result{Task: task, Engine: e.name, Cost: median(costs[e.name]), Runs: h.o.repeat})
		}
	}
	return nil
}

// mergeOnce folds a batch into a copy of the engine's table and returns what it
// cost and the state it left.
func (h *harness) mergeOnce(ctx context.Context, e *engine, changes int) (*cost, string, error) {
	table := filepath.Join(h.work, "run")
	if err := linkTable(e.base, table); err != nil {
		return nil, "", err
	}
	c, err := e.fold(ctx, table, h.changes(changes))
	if err != nil {
		return nil, "", err
	}
	state, err := h.fingerprint(ctx, table)
	if err != nil {
		return nil, "", err
	}
	return c, state, removeAll(table, table+"-outcomes")
}

// fingerprint is equal for equal multisets of rows.
func (h *harness) fingerprint(ctx context.Context, table string) (string, error) {
	var said struct {
		Rows                      int64
		Sum                       string
		Active, Deleted, Conflict int64
		Keys                      int64
	}
	if _, err := h.ask(ctx, &said, "fingerprint", table); err != nil {
		return "", err
	}
	return fmt.Sprintf("%+v", said), nil
}

// opening measures how long it takes to know the state of a table with a long
// log: from the entries alone, and from a log checkpoint.
func (h *harness) opening(ctx context.Context) error {
	table := filepath.Join(h.work, "long")
	progress("making a log of %d commits", h.o.commits)
	if err := longLog(table, h.o.commits); err != nil {
		return err
	}
	if err := h.open(ctx, table, "without a log checkpoint"); err != nil {
		return err
	}
	if _, _, err := measure(ctx, h.deltafold, "log-checkpoint", table); err != nil {
		return err
	}
	return h.open(ctx, table, "with a log checkpoint")
}

func (h *harness) open(ctx context.Context, table, how string) error {
	task := fmt.Sprintf("open a log of %s commits %s", grouped(h.o.commits), how)
	var ours, theirs []*cost
	for range h.o.repeat {
		c, _, err := measure(ctx, h.deltafold, "describe", table)
		if err != nil {
			return err
		}
		ours = append(ours, c)
		var said struct {
			Seconds float64
			Version int64
			Files   int
		}
		if c, err = h.ask(ctx, &said, "open_table", table); err != nil {
			return err
		}
		if said.Version != int64(h.o.commits)-1 || said.Files != h.o.commits-1 {
			return fmt.Errorf("delta-rs finds version %d with %d files; want %d with %d", said.Version, said.Files, h.o.commits-1, h.o.commits-1)
		}
		c.Inner = time.Duration(said.Seconds * float64(time.Second))
		theirs = append(theirs, c)
	}
	h.results = append(h.results,
		result{Task: task, Engine: "deltafold", Cost: median(ours), Runs: h.o.repeat},
		result{Task: task, Engine: "delta-rs", Cost: median(theirs), Runs: h.o.repeat})
	return nil
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
