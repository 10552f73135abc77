package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/merge/change"
)

// Columns of the outcomes table that are not the input's (merge-semantics 6).
const (
	colRun     = "_run_id"
	colVersion = "_version"
	colOutcome = "outcome"
	colBatch   = "batch"
)

// outcomeRows are the rows of the outcomes table that belong to one run or version.
type outcomeRows struct {
	recs     []arrow.RecordBatch
	outcomes []change.Outcome // over all recs
	counts   change.Counts
	// strangers are rows of the version that carry another run, misplaced rows of the run
	// that carry another version.
	strangers, misplaced int64
}

// readOutcomes reads the rows of run, and of other runs that claim its version.
func readOutcomes(ctx context.Context, s *deltatable.Snapshot, run string, v deltatable.Version) (*outcomeRows, error) {
	filter, err := expr.Parse(fmt.Sprintf("%s = '%s' OR %s = %d", colRun, strings.ReplaceAll(run, "'", "''"), colVersion, v))
	if err != nil {
		return nil, fmt.Errorf("outcomes of run %s: %w", run, err)
	}
	bound, err := expr.Bind(filter, s.Schema())
	if err != nil {
		return nil, fmt.Errorf("outcomes of run %s: %w", run, err)
	}
	out := &outcomeRows{counts: change.Counts{}}
	for rec, err := range s.Scan(ctx, &deltatable.ScanOptions{Filter: bound}) {
		if err != nil {
			return nil, fmt.Errorf("outcomes of run %s: %w", run, err)
		}
		if err := out.take(rec, run, int64(v)); err != nil {
			return nil, fmt.Errorf("outcomes of run %s: %w", run, err)
		}
	}
	return out, nil
}

func (o *outcomeRows) take(rec arrow.RecordBatch, run string, v int64) error {
	runs, ok1 := column(rec, colRun).(*array.String)
	words, ok2 := column(rec, colOutcome).(*array.String)
	versions := column(rec, colVersion)
	if !ok1 || !ok2 || versions == nil {
		return errors.New("the outcomes table lacks columns _run_id, _version or outcome")
	}
	from := 0 // of the run of rows that are ours
	flush := func(to int) {
		if to > from {
			o.recs = append(o.recs, rec.NewSlice(int64(from), int64(to)))
		}
		from = to + 1
	}
	for i := range int(rec.NumRows()) {
		if runs.IsNull(i) || runs.Value(i) != run {
			o.strangers++
			flush(i)
			continue
		}
		if n, ok := integer(versions, i); isNull(versions, i) || !ok || n != v {
			o.misplaced++
		}
		w := change.Outcome("")
		if !words.IsNull(i) {
			w = change.Outcome(strings.Clone(words.Value(i)))
		}
		o.outcomes = append(o.outcomes, w)
		o.counts[w]++
	}
	flush(int(rec.NumRows()))
	return nil
}

// present guesses which columns the input had. The outcomes table merges the columns of all
// runs, so that a column which this run's input lacked reads as NULL: a column counts as
// present where it has a value, or an outcome that only it can have.
func (o *outcomeRows) present(roles *change.Roles) map[string]bool {
	p := map[string]bool{}
	for _, rec := range o.recs {
		for i, f := range rec.Schema().Fields() {
			if arr := rec.Column(i); arr.DataType().ID() != arrow.NULL && arr.NullN() < arr.Len() {
				p[f.Name] = true
			}
		}
	}
	if o.counts[change.InvalidOperation] > 0 {
		p[roles.Operation] = true
		p[roles.Deleted] = true
	}
	if o.counts[change.InvalidChangeID] > 0 {
		p[roles.ChangeID] = true
	}
	return p
}

// checkCounts compares the counts that the commit carries with the outcomes table.
func (o *outcomeRows) checkCounts(r *recorder, rec *record) {
	if o.strangers > 0 {
		r.find(CheckCounts, nil, "%d rows of the outcomes table claim the version for another run than %s", o.strangers, rec.run)
	}
	if o.misplaced > 0 {
		r.find(CheckCounts, nil, "%d outcomes of run %s name another version", o.misplaced, rec.run)
	}
	switch {
	case rec.counts == nil:
		r.find(CheckCounts, nil, "the commit carries no counts")
	case len(o.outcomes) == 0 && len(rec.counts) > 0:
		r.find(CheckCounts, nil, "the outcomes table has no row of run %s, the commit counts %s; repair-outcomes completes what a writer that died left out", rec.run, rec.counts.JSON())
	case !maps.Equal(o.counts, rec.counts):
		r.find(CheckCounts, nil, "the commit counts %s, the outcomes table has %s", rec.counts.JSON(), o.counts.JSON())
	}
	for _, refused := range []change.Outcome{change.BatchRefused, change.FailedExpectation, change.AlreadyApplied} {
		if n := rec.counts[refused]; n > 0 {
			r.find(CheckCounts, nil, "%d rows have the outcome %s, of a batch that makes no commit", n, refused)
		}
	}
	r.done(CheckCounts, "%s", o.counts.JSON())
}

// inputColumns are the columns of the input that both the outcomes table and the batch
// have, by the batch's names.
func inputColumns(outcomes, batch arrow.RecordBatch) []string {
	var out []string
	for _, f := range batch.Schema().Fields() {
		if arr := column(outcomes, f.Name); arr != nil && !strings.HasPrefix(f.Name, "_") && f.Name != colOutcome && f.Name != colBatch {
			out = append(out, f.Name)
		}
	}
	slices.Sort(out)
	return out
}

// contents are the forms of all rows of recs over some columns.
func contents(recs []arrow.RecordBatch, columns []string) []string {
	var out []string
	for _, rec := range recs {
		arrs := make([]arrow.Array, len(columns))
		for i, c := range columns {
			if arrs[i] = column(rec, c); arrs[i] == nil {
				arrs[i] = array.NewNull(int(rec.NumRows()))
			}
		}
		for i := range int(rec.NumRows()) {
			out = append(out, string(appendAll(nil, arrs, i)))
		}
	}
	return out
}

// compare puts the outcomes in the table against those that the fold expects of the batch.
// Rows are matched by content, since a batch is a multiset (merge-semantics 1); rows of one
// content have one outcome.
func (o *outcomeRows) compare(r *recorder, c *correctness, keys []string) {
	var culprits keyList
	want := change.Counts{}
	miss := func(i int) {
		culprits.add(func() string { return c.text(i, keys) })
		want[c.folded.outcomes[i]]++
	}
	wrong := 0
	switch {
	case c.fromOutcomes: // row against row
		for i, expected := range c.folded.outcomes {
			if o.outcomes[i] != expected {
				wrong++
				miss(i)
			}
		}
	case len(o.recs) == 0 || len(c.recs) == 0:
		if wrong = len(o.outcomes); len(o.outcomes) != len(c.inputs) {
			for i := range c.inputs {
				miss(i)
			}
		} else {
			wrong = 0
		}
	default:
		wrong = o.match(c, miss)
	}
	if wrong > 0 || culprits.n > 0 {
		slices.Sort(culprits.keys)
		r.find(CheckOutcomes, culprits.keys, "%d rows of the outcomes table are not what the fold expects; it expects, and misses, %s", wrong, want.JSON())
	}
}

// match finds for each expected row of the batch its row in the table; it counts the rows
// of the table that are left and calls miss for those of the batch.
func (o *outcomeRows) match(c *correctness, miss func(i int)) (wrong int) {
	type one struct {
		content string
		outcome change.Outcome
	}
	have := map[one]int{}
	columns := inputColumns(o.recs[0], c.recs[0])
	for i, content := range contents(o.recs, columns) {
		have[one{content, o.outcomes[i]}]++
	}
	wrong = len(o.outcomes)
	for i, content := range contents(c.recs, columns) {
		if at := (one{content, c.folded.outcomes[i]}); have[at] > 0 {
			have[at]--
			wrong--
		} else {
			miss(i)
		}
	}
	return wrong
}
