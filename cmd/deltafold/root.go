package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
)

// app is one run of the command.
type app struct {
	in       io.Reader
	out      *bufio.Writer // standard output: data and reports
	stderr   io.Writer     // messages
	terminal struct{ out, err bool }
	progress *progress

	verb       string // the command that runs, "" before it is known
	json       bool
	quiet      bool
	noProgress bool
	timezone   string
	store      storeFlags
	config     *blobstore.Config // made of store by start
	now        func() time.Time
	began      time.Time
	held       []byte // the object that --stats completes at the end of the run
	// committed is the version that the run made, for the message of an
	// interruption.
	committed *deltatable.Version
}

func newApp(stdin io.Reader, stdout, stderr *os.File) *app {
	a := &app{in: stdin, out: bufio.NewWriterSize(stdout, 64<<10), stderr: stderr, now: time.Now, progress: &progress{}}
	a.terminal.out = term.IsTerminal(int(stdout.Fd()))
	a.terminal.err = term.IsTerminal(int(stderr.Fd()))
	return a
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "deltafold",
		Short: "Fold batches of versioned changes into Delta tables, and prove what each batch did",
		Long: `deltafold folds batches of versioned changes into Delta tables and proves what
each batch did by reading earlier versions back.

TABLE is a path or a URL. FILE is a path, a URL, or - for standard input.
Start with: deltafold demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; deltafold --help lists them", args[0])
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.start(cmd) },
	}
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON object in place of text")
	f.BoolVar(&a.quiet, "quiet", false, "print nothing but data and errors")
	f.BoolVar(&a.noProgress, "no-progress", false, "show no progress on the terminal")
	f.StringVar(&a.timezone, "timezone", "", "time `zone` of timestamps without one, in inputs and flags (default: refuse them)")
	f.StringVar(&a.store.endpoint, "endpoint", "", "`URL` of the object store's server (default: as the environment says, else the cloud's own)")
	f.BoolVar(&a.store.singleWriter, "unsafe-single-writer", false, "commit also to a store that ignores conditions: nobody else may write; the commit records it")
	f.BoolVar(&a.store.stats, "stats", false, "print requests to object stores, bytes and time on standard error, or as a member of the --json object")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		a.verb = verbOf(cmd)
		return usageError{err}
	})
	root.AddGroup(&cobra.Group{ID: "fold", Title: "Tables and batches:"}, &cobra.Group{ID: "look", Title: "Reading and proof:"}, &cobra.Group{ID: "care", Title: "Care:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("fold", a.demoCommand(), a.createCommand(), a.adoptCommand(), a.applyCommand(), a.appendCommand(),
		a.mergeCommand(), a.replaceCommand(), a.overwriteCommand(), a.deleteCommand(), a.updateCommand())
	add("look", a.readCommand(), a.historyCommand(), a.describeCommand(), a.outcomesCommand(), a.auditCommand())
	add("care", a.repairOutcomesCommand(), a.logCheckpointCommand(), a.setPropertyCommand())
	return root
}

func verbOf(cmd *cobra.Command) string {
	if cmd.HasParent() {
		return cmd.Name()
	}
	return ""
}

// start is what every command does first.
func (a *app) start(cmd *cobra.Command) error {
	a.verb = verbOf(cmd)
	if text := os.Getenv("DELTAFOLD_NOW"); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return usagef("DELTAFOLD_NOW: %w", err)
		}
		a.now = func() time.Time { return at }
	}
	if _, err := a.zone(); err != nil {
		return err
	}
	var err error
	if a.config, err = a.store.config(); err != nil {
		return err
	}
	a.began = a.now()
	streams := slices.Contains([]string{"read", "outcomes", "demo"}, a.verb) && a.terminal.out
	if a.terminal.err && !streams && !a.quiet && !a.noProgress {
		a.progress = startProgress(a.stderr, time.Second)
	}
	return nil
}

// zone is --timezone; nil where there is none.
func (a *app) zone() (*time.Location, error) {
	switch strings.ToUpper(a.timezone) {
	case "":
		return nil, nil
	case "Z", "UTC":
		return time.UTC, nil
	case "LOCAL":
		return nil, usagef("--timezone: name the zone; that of the machine would mean something else elsewhere")
	}
	loc, err := time.LoadLocation(a.timezone)
	if err != nil {
		return nil, usagef("--timezone %s is not the name of a time zone (such as UTC or Europe/Berlin)", a.timezone)
	}
	return loc, nil
}

// env is what the pipeline needs of its surroundings.
func (a *app) env() *pipeline.Env {
	return &pipeline.Env{Now: a.now, Stdin: a.in, Progress: a.progress.step, Store: a.config}
}

// printf prints to standard output, unless --quiet.
func (a *app) printf(format string, args ...any) {
	if !a.quiet {
		a.progress.stop()
		fmt.Fprintf(a.out, format, args...)
	}
}

// warnf prints a message that is no error to standard error, unless --quiet.
func (a *app) warnf(format string, args ...any) {
	if !a.quiet {
		a.message("warning: "+format, args...)
	}
}

// errorf prints an error, always.
func (a *app) errorf(format string, args ...any) { a.message(format, args...) }

func (a *app) message(format string, args ...any) {
	a.progress.stop()
	_ = a.out.Flush() // run reports what cannot be written
	fmt.Fprintf(a.stderr, "deltafold: "+format+"\n", args...)
}

func (a *app) warnings(list []string) {
	for _, w := range list {
		a.warnf("%s", w)
	}
}

// object prints v as one JSON object on one line; under --stats at the end of
// the run.
func (a *app) object(v any) error {
	a.progress.stop()
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	if a.store.stats {
		a.held = line.Bytes()
		return nil
	}
	_, err := a.out.Write(line.Bytes())
	return err
}

// tableArgs takes TABLE and, where files is set, one FILE or more.
func tableArgs(files bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("%s needs a TABLE", cmd.Name())
		case files && len(args) == 1:
			return usagef("%s needs a FILE, or - for standard input", cmd.Name())
		case !files && len(args) > 1:
			return usagef("%s takes one TABLE; %q is too much", cmd.Name(), args[1])
		}
		return nil
	}
}

// command makes a command whose errors before it runs are those of usage.
func (a *app) command(use, short string, args cobra.PositionalArgs, runE func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, RunE: runE, DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, given []string) error {
			a.verb = verbOf(cmd)
			if err := args(cmd, given); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
}
