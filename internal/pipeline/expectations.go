package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// ParseExpectation reads 'name: condition' as a flag gives it.
func ParseExpectation(text string, action change.ExpectationAction) (change.Expectation, error) {
	name, condition, ok := strings.Cut(text, ":")
	name, condition = strings.TrimSpace(name), strings.TrimSpace(condition)
	if !ok || name == "" || condition == "" {
		return change.Expectation{}, usage("--expect-%s %q is not 'name: condition'", action, text)
	}
	if _, err := expr.Parse(condition); err != nil {
		return change.Expectation{}, usage("--expect-%s %s: %v", action, name, err)
	}
	return change.Expectation{Name: name, Condition: condition, Action: action}, nil
}

// expectations are the named conditions of a run and what they found
// (merge-semantics 4, "Expectations"). A nil one has none.
type expectations struct {
	all     []change.Expectation
	broken  []int64 // by expectation: rows that violated it
	dropped []change.Outcome
	failed  []bool // by row: a fail expectation was violated; nil: none was
}

// expect evaluates the expectations on the rows as read, before validity and
// before anything else. NULL counts as violated; over several, fail wins, then
// drop, then warn.
func (a *applier) expect() (*expectations, error) {
	return expect(a.kind.expectations(), a.job.Expectations, &expectedRows{a.files, a.batch.Schema, a.job.Zone})
}

// expectedRows are the rows that expectations are evaluated on.
type expectedRows struct {
	files  []*changefile.File
	schema *arrow.Schema
	zone   *time.Location
}

// expect evaluates the expectations that a table remembers and those that a run
// is given; nil: there are none.
func expect(remembered, given []change.Expectation, r *expectedRows) (*expectations, error) {
	x := &expectations{all: slices.Clone(remembered)}
	if err := distinct(given); err != nil {
		return nil, err
	}
	for _, e := range given {
		switch known, err := find(x.all, e); {
		case err != nil:
			return nil, err
		case !known:
			x.all = append(x.all, e)
		}
	}
	if len(x.all) == 0 {
		return nil, nil
	}
	total := 0
	for _, f := range r.files {
		total += int(f.Rows)
	}
	x.broken = make([]int64, len(x.all))
	for i := range x.all {
		if err := x.evaluate(r, i, total); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// distinct refuses two expectations of one name.
func distinct(all []change.Expectation) error {
	for i, e := range all {
		if slices.ContainsFunc(all[:i], func(o change.Expectation) bool { return o.Name == e.Name }) {
			return usage("expectation %s is given twice", e.Name)
		}
	}
	return nil
}

// find says whether the remembered ones have e; one of its name that is another
// is an error.
func find(remembered []change.Expectation, e change.Expectation) (bool, error) {
	for _, o := range remembered {
		if o.Name == e.Name && o != e {
			return false, usage("expectation %s contradicts what the table remembers: %s, %s", e.Name, o.Condition, o.Action)
		}
		if o == e {
			return true, nil
		}
	}
	return false, nil
}

// remembers refuses given expectations that a table which is there does not
// remember: only create, adopt and the first batch write them.
func remembers(remembered, given []change.Expectation) error {
	for _, e := range given {
		switch known, err := find(remembered, e); {
		case err != nil:
			return err
		case !known:
			return usage("expectation %s is not among those that the table remembers; a run can be given more of its own", e.Name)
		}
	}
	return nil
}

// checkExpectations binds what a table is going to remember to the columns of
// its inputs, so that no batch fails for it.
func checkExpectations(all []change.Expectation, input *arrow.Schema) error {
	if err := distinct(all); err != nil {
		return err
	}
	for _, e := range all {
		// Any zone will do: nothing is evaluated.
		if _, err := bindExpectation(e, input, time.UTC); err != nil {
			return err
		}
	}
	return nil
}

func bindExpectation(e change.Expectation, sch *arrow.Schema, zone *time.Location) (*expr.Bound, error) {
	parsed, err := expr.Parse(e.Condition)
	if err != nil {
		return nil, usage("expectation %s: %v", e.Name, err)
	}
	bound, err := expr.BindWith(parsed, sch, &expr.Options{Zone: zone})
	if err != nil {
		return nil, usage("expectation %s: %v", e.Name, err)
	}
	if !bound.IsPredicate() {
		return nil, usage("expectation %s is %s, not a condition", e.Name, deltatable.TypeName(bound.Type()))
	}
	return bound, nil
}

func (x *expectations) evaluate(r *expectedRows, i, total int) error {
	e := x.all[i]
	bound, err := bindExpectation(e, r.schema, r.zone)
	if err != nil {
		return err
	}
	row := 0
	for _, f := range r.files {
		for _, rec := range f.Records {
			held, err := bound.Filter(array.NewRecordBatch(r.schema, rec.Columns(), rec.NumRows()))
			if err != nil {
				return fmt.Errorf("expectation %s: %w", e.Name, err)
			}
			for k := range held.Len() {
				if !held.Value(k) {
					x.broken[i]++
					x.violated(e, row+k, total)
				}
			}
			row += held.Len()
		}
	}
	return nil
}

func (x *expectations) violated(e change.Expectation, row, total int) {
	switch e.Action {
	case change.ExpectFail:
		if x.failed == nil {
			x.failed = make([]bool, total)
		}
		x.failed[row] = true
	case change.ExpectDrop:
		if x.dropped == nil {
			x.dropped = make([]change.Outcome, total)
		}
		if x.dropped[row] == "" {
			x.dropped[row] = change.DroppedBy(e.Name)
		}
	case change.ExpectWarn:
	}
}

// refusal says why a fail expectation refuses the batch, nil if none does.
func (x *expectations) refusal() error {
	if x == nil || x.failed == nil {
		return nil
	}
	var reasons []string
	var culprits int64
	for i, e := range x.all {
		if e.Action == change.ExpectFail && x.broken[i] > 0 {
			rows := "1 row violates"
			if x.broken[i] > 1 {
				rows = fmt.Sprintf("%d rows violate", x.broken[i])
			}
			reasons = append(reasons, fmt.Sprintf("%s %s (%s)", rows, e.Name, e.Condition))
			culprits += x.broken[i]
		}
	}
	return &merge.RefusedError{Reason: strings.Join(reasons, ", "), Culprits: culprits}
}

// refusedByExpectation is the result of a batch that a fail expectation refuses.
func (a *applier) refusedByExpectation() *merge.Result {
	res := &merge.Result{Counts: change.Counts{}}
	if a.snap != nil {
		v := a.snap.Version()
		res.Read = &v
	}
	row := 0
	for _, f := range a.files {
		out := make([]change.Outcome, f.Rows)
		for i := range out {
			out[i] = change.BatchRefused
			if a.expected.failed[row] {
				out[i] = change.FailedExpectation
			}
			res.Counts[out[i]]++
			row++
		}
		res.Outcomes = append(res.Outcomes, out)
	}
	return res
}

// list are all expectations of the run.
func (x *expectations) list() []change.Expectation {
	if x == nil {
		return nil
	}
	return x.all
}

// counts are the numbers of rows that violated each expectation, by name.
func (x *expectations) counts() map[string]int64 {
	if x == nil {
		return nil
	}
	out := map[string]int64{}
	for i, e := range x.all {
		out[e.Name] = x.broken[i]
	}
	return out
}

// tag adds to a commit's tags what the audit needs to judge again.
func (x *expectations) tag(tags map[string]string) {
	if x == nil {
		return
	}
	tags[change.TagExpectations] = jsonText(x.all)
	tags[change.TagExpectationCounts] = jsonText(x.counts())
}

// kept are the rows that no expectation drops.
func (a *appender) kept(ctx context.Context, files []*changefile.File) (recs []arrow.RecordBatch, rows int64, err error) {
	var at int64
	a.dropped = 0
	for _, f := range files {
		for _, rec := range f.Records {
			n := rec.NumRows()
			if a.expected != nil && a.expected.dropped != nil {
				b := array.NewInt64Builder(memory.DefaultAllocator)
				for i := range n {
					if a.expected.dropped[at+i] == "" {
						b.Append(i)
					}
				}
				if rec, err = take(ctx, rec, b.NewInt64Array()); err != nil {
					return nil, 0, err
				}
			}
			at, a.dropped = at+n, a.dropped+n-rec.NumRows()
			if rec.NumRows() > 0 {
				recs, rows = append(recs, rec), rows+rec.NumRows()
			}
		}
	}
	return recs, rows, nil
}
