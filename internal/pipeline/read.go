package pipeline

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/merge/change"
)

// ReadJob is one invocation of read.
type ReadJob struct {
	Table string
	// Version or Timestamp choose the version; neither: the latest. The
	// timestamp may lack a zone where Zone is given.
	Version   *deltatable.Version
	Timestamp string
	Zone      *time.Location
	Active    bool     // only rows of status active (merge-semantics 1, "active view")
	Columns   []string // in this order; nil: all
	Where     string   // SQL; "" for none
	OrderBy   []string // columns, each with an optional " desc"
	Limit     int64    // rows at most; negative: all
	// Count asks for the number of rows in place of them; CountBy for one number
	// for each combination of values; CountAs names the numbers (default count).
	Count   bool
	CountBy []string
	CountAs string
	Format  string // of rowfile.Formats
	// Output is the file or URL that takes the rows; "": Out.
	Output string
	Out    io.Writer
}

// ReadReport is what a read gave out.
type ReadReport struct {
	Table     string
	Version   deltatable.Version
	Timestamp time.Time
	Rows      int64
	Format    string
}

// Read writes the rows of a table at a version (command.md, "Commands"). An
// output file is whole or not there.
func Read(ctx context.Context, e *Env, j *ReadJob) (*ReadReport, error) {
	t, err := e.OpenTable(ctx, j.Table)
	if err != nil {
		return nil, err
	}
	snap, err := snapshotOf(ctx, t, j)
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", j.Table, err)
	}
	q := &query{snap: snap, columns: j.Columns, orderBy: j.OrderBy, limit: j.Limit}
	if q.filter, err = readFilter(snap, j); err != nil {
		return nil, err
	}
	if j.Count || len(j.CountBy) > 0 {
		if len(j.Columns) > 0 {
			return nil, usage("--columns is for rows, not beside --count or --count-by")
		}
		q.count = &count{snap: snap, filter: q.filter, by: j.CountBy, as: j.CountAs}
		if j.CountAs == "" {
			q.count.as = defaultCountName
		}
	} else if j.CountAs != "" {
		return nil, usage("--count-as needs --count or --count-by")
	}
	rep := &ReadReport{Table: t.Store().URL(), Version: snap.Version(), Timestamp: snap.Timestamp(), Format: formatOf(j.Format, j.Output)}
	e.step("reading version %d of %s", snap.Version(), j.Table)
	rep.Rows, err = e.output(ctx, q, &target{format: rep.Format, file: j.Output, out: j.Out})
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", j.Table, err)
	}
	return rep, nil
}

func snapshotOf(ctx context.Context, t *deltatable.Table, j *ReadJob) (*deltatable.Snapshot, error) {
	switch {
	case j.Version != nil && j.Timestamp != "":
		return nil, usage("--version and --timestamp exclude each other")
	case j.Version != nil:
		return t.SnapshotAt(ctx, *j.Version)
	case j.Timestamp != "":
		at, err := ParseTimestamp(j.Timestamp, j.Zone)
		if err != nil {
			return nil, err
		}
		return t.SnapshotAtTime(ctx, at)
	}
	return t.Snapshot(ctx)
}

// ParseTimestamp reads the value of a flag: RFC 3339, a space in place of the T,
// seconds and their fraction optional, or a date. Without a zone of its own it
// needs the given one.
func ParseTimestamp(text string, zone *time.Location) (time.Time, error) {
	s := strings.Replace(strings.TrimSpace(text), " ", "T", 1)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02"} {
		at, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if zone == nil {
			return at, usage("timestamp %s has no time zone: give one (2024-01-31T12:00:00Z), or --timezone", text)
		}
		return time.ParseInLocation(layout, s, zone)
	}
	return time.Time{}, usage("timestamp %q is not of the form 2024-01-31T12:00:00Z", text)
}

// readFilter puts --where and --active together.
func readFilter(snap *deltatable.Snapshot, j *ReadJob) (*expr.Bound, error) {
	var parts []expr.Expr
	if j.Where != "" {
		e, err := bindCondition(j.Where, snap.Schema(), j.Zone)
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
	}
	if j.Active {
		roles, err := GuardedRoles(snap)
		if err != nil {
			return nil, usage("--active needs a guarded table: %v", err)
		}
		if e := activeCondition(roles); e != nil {
			parts = append(parts, e)
		}
	}
	return bindAll(parts, snap.Schema(), j.Zone)
}

// activeCondition holds of the rows in the active view; nil: of all.
func activeCondition(r *change.Roles) expr.Expr {
	status := &expr.Name{Parts: []string{r.Status}}
	switch r.StatusForm {
	case change.StatusWord:
		return equals(r.Status, change.Active.String())
	case change.StatusBoolean:
		return &expr.Not{X: status}
	case change.StatusNone:
	}
	return nil
}

// equals is the condition that a string column has a value.
func equals(column, value string) expr.Expr {
	return &expr.Infix{Op: "=", L: &expr.Name{Parts: []string{column}}, R: &expr.Literal{Kind: expr.String, Text: value}}
}

// bindCondition parses a --where and checks that it is a condition, so that
// its mistakes are found with their places in its own text.
func bindCondition(where string, sch *arrow.Schema, zone *time.Location) (expr.Expr, error) {
	e, err := expr.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	b, err := expr.BindWith(e, sch, &expr.Options{Zone: zone})
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	if !b.IsPredicate() {
		return nil, usage("--where %s is not a condition", where)
	}
	return e, nil
}

// bindAll binds the conjunction of conditions; nil: there is none.
func bindAll(parts []expr.Expr, sch *arrow.Schema, zone *time.Location) (*expr.Bound, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	e := parts[0]
	if len(parts) > 1 {
		e = &expr.Logic{Args: parts}
	}
	return expr.BindWith(e, sch, &expr.Options{Zone: zone})
}

// formatOf is the format of an output: as asked for, or by the file's name, or
// the table for people.
func formatOf(asked, file string) string {
	if asked != "" {
		return asked
	}
	file, _ = cutQuery(file)
	if i := strings.LastIndexByte(file, '.'); i >= 0 {
		switch ext := strings.ToLower(file[i+1:]); ext {
		case "ndjson", "json":
			return rowfile.JSONL
		case "ipc", "arrows":
			return rowfile.Arrow
		default:
			if slices.Contains(rowfile.Formats(), ext) {
				return ext
			}
		}
	}
	return rowfile.Table
}
