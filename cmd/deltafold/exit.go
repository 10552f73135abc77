package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge"
)

// The exit statuses that scripts rely on.
const (
	statusDone        = 0
	statusFailed      = 1
	statusUsage       = 2
	statusRules       = 3
	statusFindings    = 4
	statusUndecided   = 5
	statusInterrupted = 130
)

// usageError is a mistake in flags or arguments that the command found itself.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errFindings says that an audit found something; what, was printed.
type errFindings struct {
	n         int
	committed *deltatable.Version // by apply --audit
}

func (e *errFindings) Error() string {
	text := fmt.Sprintf("the audit has %d findings", e.n)
	if e.n == 1 {
		text = "the audit has 1 finding"
	}
	if e.committed != nil {
		text += fmt.Sprintf("; the batch is committed, as version %d", *e.committed)
	}
	return text
}

// statusOf is the exit status that an error means. This is the only place that
// knows.
func statusOf(err error) int {
	switch {
	case err == nil:
		return statusDone
	case is[*errFindings](err):
		return statusFindings
	case is[*deltatable.UndecidedError](err):
		return statusUndecided
	case is[usageError](err), is[*pipeline.UsageError](err),
		is[*expr.SyntaxError](err), is[*expr.BindError](err), is[*expr.UnsupportedError](err):
		return statusUsage
	case is[*merge.RefusedError](err), is[*merge.TargetError](err), is[*pipeline.RuleError](err), is[*deltatable.ValueError](err),
		is[*merge.CardinalityError](err), is[*merge.ValueError](err), is[*expr.EvalError](err):
		return statusRules
	}
	return statusFailed
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// finish tells people how it ended and gives the exit status.
func (a *app) finish(ctx context.Context, err error) int {
	status := statusOf(err)
	interrupted := ctx.Err() != nil // nothing but a signal ends the command's context
	if err == nil && !interrupted {
		return statusDone
	}
	undecided, isUndecided := errors.AsType[*deltatable.UndecidedError](err)
	switch {
	case interrupted && err == nil && a.committed != nil:
		a.errorf("interrupted; version %d was committed", *a.committed)
	case interrupted && err == nil:
		a.errorf("interrupted at the end")
	case interrupted && isUndecided:
		a.errorf("interrupted: %v", err)
	case interrupted:
		a.errorf("interrupted; nothing was committed")
	default:
		a.errorf("%v", err)
	}
	switch {
	case isUndecided:
		a.errorf("run the same command with --resume %s: it looks for that commit first and does nothing if it is there", pipeline.ResumePoint(undecided))
	case is[*blobstore.NoConditionError](err) && !interrupted:
		a.errorf("--unsafe-single-writer commits all the same, if nothing else ever writes to the table; each commit records it")
	case status == statusUsage && a.verb != "":
		a.errorf("deltafold %s --help shows the usage", a.verb)
	}
	if interrupted {
		return statusInterrupted
	}
	return status
}
