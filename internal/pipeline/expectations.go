package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable/expr"
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
	x := &expectations{}
	x.all = slices.Clone(a.kind.expectations())
	remembered := len(x.all)
	for _, e := range a.job.Expectations {
		at := slices.IndexFunc(x.all, func(o change.Expectation) bool { return o.Name == e.Name })
		switch {
		case at < 0:
			x.all = append(x.all, e)
		case at >= remembered:
			return nil, usage("expectation %s is given twice", e.Name)
		case x.all[at] != e:
			return nil, usage("expectation %s contradicts what the table remembers: %s, %s", e.Name, x.all[at].Condition, x.all[at].Action)
		}
	}
	if len(x.all) == 0 {
		return nil, nil
	}
	total := 0
	for _, f := range a.files {
		total += int(f.Rows)
	}
	x.broken = make([]int64, len(x.all))
	for i, e := range x.all {
		if err := x.evaluate(a, i, e, total); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *expectations) evaluate(a *applier, i int, e change.Expectation, total int) error {
	parsed, err := expr.Parse(e.Condition)
	if err != nil {
		return usage("expectation %s: %v", e.Name, err)
	}
	bound, err := expr.BindWith(parsed, a.batch.Schema, &expr.Options{Zone: a.job.Zone})
	if err != nil {
		return usage("expectation %s: %v", e.Name, err)
	}
	if !bound.IsPredicate() {
		return usage("expectation %s is %s, not a condition", e.Name, bound.Type())
	}
	row := 0
	for _, f := range a.files {
		for _, rec := range f.Records {
			held, err := bound.Filter(array.NewRecordBatch(a.batch.Schema, rec.Columns(), rec.NumRows()))
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
			reasons = append(reasons, fmt.Sprintf("%d rows violate %s (%s)", x.broken[i], e.Name, e.Condition))
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
