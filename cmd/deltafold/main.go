// Command deltafold folds batches of versioned changes into Delta tables and
// proves what each batch did. It has no rules of its own: it reads flags, calls
// package pipeline and prints what comes back.
//
// # Exit statuses
//
// 0 done, 1 failed, 2 wrong usage, 3 refused by rules, 4 the audit found
// something, 5 it is not known whether the commit landed, 130 interrupted; see
// exit.go.
//
// # Environment
//
// DELTAFOLD_NOW, an RFC 3339 time, stands in for the clock. It is for tests,
// whose output has to be the same each time.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // --timezone must work on machines without a zone database
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command as a function: arguments in, exit status out.
func run(args []string, stdin io.Reader, stdout, stderr *os.File) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the next one ends the process the hard way.
	context.AfterFunc(ctx, stop)
	a := newApp(untilDone(ctx, stdin), stdout, stderr)
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	a.progress.stop()
	counted := a.store.stats && !a.began.IsZero() && a.held == nil
	if eerr := errors.Join(a.end(), a.out.Flush()); err == nil {
		err = eerr
	}
	status := a.finish(ctx, err)
	if counted {
		a.errorf("stats: %s", a.statsText())
	}
	return status
}

// untilDone reads r until the context ends: reading standard input must not
// outlast a signal. Nothing is read before the first Read.
func untilDone(ctx context.Context, r io.Reader) io.Reader { return &contextReader{ctx: ctx, from: r} }

type contextReader struct {
	ctx  context.Context //nolint:containedctx // the reader stands for one run of the command
	from io.Reader
	pipe *io.PipeReader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.pipe == nil {
		var w *io.PipeWriter
		c.pipe, w = io.Pipe()
		context.AfterFunc(c.ctx, func() { w.CloseWithError(c.ctx.Err()) })
		go func() {
			_, err := io.Copy(w, c.from)
			w.CloseWithError(err)
		}()
	}
	return c.pipe.Read(p)
}
