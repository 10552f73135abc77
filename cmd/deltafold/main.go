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
	a := newApp(stdin, stdout, stderr)
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	a.progress.stop()
	if ferr := a.out.Flush(); err == nil {
		err = ferr
	}
	return a.finish(ctx, err)
}
