package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/deltafold/deltafold/deltatable"
)

// ResumePoint is what --resume takes for a commit that is undecided.
func ResumePoint(e *deltatable.UndecidedError) string {
	return fmt.Sprintf("%s@%d", e.TxnID, e.Version)
}

// findRun looks for the commit that RUN@VERSION names; nil: it is not there.
func findRun(ctx context.Context, t *deltatable.Table, at string) (*deltatable.Entry, error) {
	run, text, ok := strings.Cut(at, "@")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || run == "" || err != nil || n < 0 {
		return nil, usage("--resume %s is not RUN@VERSION", at)
	}
	entry, err := t.Entry(ctx, deltatable.Version(n))
	var none *deltatable.VersionRangeError
	if errors.As(err, &none) || errors.Is(err, deltatable.ErrNoTable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if entry.Info == nil || entry.Info.TxnID != run {
		return nil, nil
	}
	return entry, nil
}
