package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/merge/change"
)

// OutcomesJob is one invocation of outcomes.
type OutcomesJob struct {
	Table   string // the state table
	Batch   string // "" for all
	Run     string
	Version *deltatable.Version // of the state table
	Columns []string            // in this order; nil: all
	Where   string
	Format  string
	Out     io.Writer
}

// ReadOutcomes writes outcomes of a table: by the version that the run
// read, runs without a commit before the one that made the next version, then by
// batch, run, file and row. A table without outcomes yet has no rows to write.
func ReadOutcomes(ctx context.Context, e *Env, j *OutcomesJob) (*ReadReport, error) {
	t, err := e.OpenTable(ctx, j.Table)
	if err != nil {
		return nil, err
	}
	snap, err := t.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", j.Table, err)
	}
	where, _ := snap.Property(change.PropOutcomes)
	if where == change.OutcomesNone {
		return nil, &RuleError{fmt.Sprintf("table %s keeps no outcomes (property %s is none)", j.Table, change.PropOutcomes)}
	}
	if text := notShared(t.Store().URL(), where); text != "" {
		return nil, &RuleError{text}
	}
	url := OutcomesURL(t.Store().URL(), where)
	ot, err := e.OpenTable(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("outcomes: %w", err)
	}
	rep := &ReadReport{Table: url, Format: formatOf(j.Format, "")}
	out, err := ot.Snapshot(ctx)
	if errors.Is(err, deltatable.ErrNoTable) {
		return rep, nil // no batch was applied yet
	}
	if err != nil {
		return nil, fmt.Errorf("read outcomes table %s: %w", url, err)
	}
	rep.Version, rep.Timestamp = out.Version(), out.Timestamp()
	q := &query{snap: out, limit: -1, columns: j.Columns, orderBy: []string{colReadVersion, colVersion, colBatch, colRunID, colFile, colRow}}
	if q.filter, err = outcomesFilter(out, j); err != nil {
		return nil, err
	}
	if rep.Rows, err = e.output(ctx, q, &target{format: rep.Format, out: j.Out}); err != nil {
		return nil, fmt.Errorf("read outcomes table %s: %w", url, err)
	}
	return rep, nil
}

func outcomesFilter(out *deltatable.Snapshot, j *OutcomesJob) (*expr.Bound, error) {
	var parts []expr.Expr
	if j.Where != "" {
		e, err := bindCondition(j.Where, out.Schema(), nil)
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
	}
	if j.Batch != "" {
		parts = append(parts, equals(colBatch, j.Batch))
	}
	if j.Run != "" {
		parts = append(parts, equals(colRunID, j.Run))
	}
	if j.Version != nil {
		n := &expr.Literal{Kind: expr.Bigint, Text: strconv.FormatInt(int64(*j.Version), 10)}
		parts = append(parts, &expr.Infix{Op: "=", L: &expr.Name{Parts: []string{colVersion}}, R: n})
	}
	return bindAll(parts, out.Schema(), nil)
}
