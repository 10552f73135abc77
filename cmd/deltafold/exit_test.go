package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge"
)

func TestStatusOfEveryClassOfError(t *testing.T) {
	undecided := &deltatable.UndecidedError{Version: 7, TxnID: "r", Err: errors.New("no answer")}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{deltatable.ErrNoTable, 1},
		{&deltatable.VersionRangeError{}, 1},
		{&deltatable.TimeRangeError{}, 1},
		{&deltatable.UnsupportedFeatureError{}, 1},
		{&deltatable.CorruptError{}, 1},
		{&deltatable.RetryError{Err: &deltatable.ConflictError{}}, 1},
		{&blobstore.NoConditionError{}, 1},
		{&blobstore.LogStoreError{}, 1},
		{blobstore.ErrNotFound, 1},
		{&changefile.InputError{}, 1},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, 1},
		{usagef("flag"), 2},
		{&pipeline.UsageError{}, 2},
		{&expr.SyntaxError{}, 2},
		{&expr.BindError{}, 2},
		{&expr.UnsupportedError{}, 2},
		{&merge.RefusedError{}, 3},
		{&merge.TargetError{}, 3},
		{&pipeline.RuleError{}, 3},
		{&deltatable.ValueError{}, 3},
		{&errFindings{n: 1}, 4},
		{undecided, 5},
		// Undecided counts before what else is in the chain.
		{&deltatable.RetryError{Err: undecided}, 5},
	} {
		for _, err := range []error{c.err, wrap(c.err)} {
			if got := statusOf(err); got != c.want {
				t.Errorf("%T: status %d, want %d", c.err, got, c.want)
			}
		}
	}
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("apply: %w", err)
}

// finishText ends a run with err and gives status and standard error.
func finishText(ctx context.Context, err error, committed *deltatable.Version) (int, string) {
	var stderr bytes.Buffer
	a := &app{out: bufio.NewWriter(&bytes.Buffer{}), stderr: &stderr, progress: &progress{}, verb: "apply", committed: committed}
	return a.finish(ctx, err), stderr.String()
}

func TestFinishSaysWhatIsKnown(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	undecided := fmt.Errorf("merge: %w", &deltatable.UndecidedError{Version: 7, TxnID: "run", Err: errors.New("no answer")})
	const resume = "deltafold: run the same command with --resume run@7: it looks for that commit first and does nothing if it is there\n"
	version := deltatable.Version(3)
	for _, c := range []struct {
		name      string
		ctx       context.Context
		err       error
		committed *deltatable.Version
		status    int
		text      string
	}{
		{"done", t.Context(), nil, nil, 0, ""},
		{"failed", t.Context(), errors.New("x"), nil, 1, "deltafold: x\n"},
		{"usage", t.Context(), usagef("x"), nil, 2, "deltafold: x\ndeltafold: deltafold apply --help shows the usage\n"},
		{"findings", t.Context(), &errFindings{n: 2, committed: &version}, &version, 4, "deltafold: the audit has 2 findings; the batch is committed, as version 3\n"},
		{"undecided", t.Context(), undecided, nil, 5, "deltafold: merge: it is not known whether transaction run landed as version 7: no answer\n" + resume},
		{"interrupted", interrupted, fmt.Errorf("read: %w", context.Canceled), nil, 130, "deltafold: interrupted; nothing was committed\n"},
		{"interrupted after the commit", interrupted, nil, &version, 130, "deltafold: interrupted; version 3 was committed\n"},
		{"interrupted and undecided", interrupted, undecided, nil, 130, "deltafold: interrupted: merge: it is not known whether transaction run landed as version 7: no answer\n" + resume},
		{"interrupted at the end of a read", interrupted, nil, nil, 130, "deltafold: interrupted at the end\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text := finishText(c.ctx, c.err, c.committed)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			if d := cmp.Diff(c.text, text); d != "" {
				t.Error(d)
			}
		})
	}
}
