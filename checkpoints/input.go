package checkpoints

import (
	"context"
	"maps"

	"github.com/deltafold/deltafold/merge/change"
)

// checkOutcomes reads the outcomes and the batch, folds it and compares.
func (s *step) checkOutcomes(ctx context.Context) error {
	if s.rec.digest == "" {
		if err := s.checkUnclaimed(ctx); err != nil || s.replace == nil {
			return err
		}
		return s.checkReplace(ctx, nil, nil)
	}
	rows, err := s.outcomeRows(ctx)
	if err != nil {
		return err
	}
	c, err := s.batch(ctx, rows)
	if err != nil {
		return err
	}
	if c != nil {
		s.checkExpectations(rows, c)
	}
	if s.broke != "" || s.mode == change.Plain {
		c = nil // a statement: there is no rule to fold by
	}
	switch {
	case s.replace != nil:
		return s.checkReplace(ctx, c, rows)
	case s.roles != nil && c != nil:
		return s.checkFold(ctx, c, rows)
	}
	return nil
}

// checkFold folds a batch of the guarded merge.
func (s *step) checkFold(ctx context.Context, c *correctness, rows *outcomeRows) error {
	rl, err := newRules(s.cur, s.roles, s.rec.flags)
	if err == nil {
		c.inputs, err = readInputs(c.recs, c.present, rl)
	}
	if err != nil {
		s.check(CheckState, Skipped, "%s: %v", c.source, err)
		return nil
	}
	for i, o := range s.drops(c, rows) {
		if o != "" {
			c.inputs[i] = input{invalid: o}
		}
	}
	if s.base {
		s.check(CheckState, Skipped, "the version before cannot be read")
		return nil
	}
	if err := c.correct(ctx, s, rl); err != nil {
		return err
	}
	s.correct, s.expectedRows = c, &rowsExpected{inserts: c.fresh}
	s.done(CheckState, "%d rows folded, %s", len(c.inputs), c.source)
	s.compareOutcomes(rows, c, s.roles.Keys)
	return nil
}

// drops are the outcomes of the rows of a batch that its expectations drop, "" for others;
// nil where none does. Where they cannot be evaluated, the table's word is taken, which
// checkExpectations says.
func (s *step) drops(c *correctness, rows *outcomeRows) []change.Outcome {
	if x := s.expectations(c.recs); x != nil {
		return x.dropped
	}
	if !c.fromOutcomes {
		return nil
	}
	out := make([]change.Outcome, len(rows.outcomes))
	for i, o := range rows.outcomes {
		if o.Dropped() {
			out[i] = o
		}
	}
	return out
}

// compareOutcomes compares each row's outcome with what the fold says, or their numbers.
func (s *step) compareOutcomes(rows *outcomeRows, c *correctness, keys []string) {
	if rows != nil {
		rows.compare(s.recorder, c, keys)
		s.done(CheckOutcomes, "%d rows, %s", len(rows.outcomes), c.source)
		return
	}
	expected := change.Counts{}
	for _, o := range c.folded.outcomes {
		expected[o]++
	}
	if s.rec.counts != nil && !maps.Equal(expected, s.rec.counts) {
		s.find(CheckOutcomes, nil, "the commit counts %s, the fold expects %s", s.rec.counts.JSON(), expected.JSON())
	}
	s.done(CheckOutcomes, "counts only, %s", c.source)
}

// outcomeRows reads the run's outcomes and checks their counts; nil where there are none to
// read.
func (s *step) outcomeRows(ctx context.Context) (*outcomeRows, error) {
	switch {
	case s.cur.Properties()[change.PropOutcomes] == change.OutcomesNone:
		s.check(CheckCounts, Note, "the table keeps no outcomes")
		return nil, nil //nolint:nilnil // none
	case s.a.o.Outcomes == nil:
		s.check(CheckCounts, Skipped, "the outcomes table was not given")
		return nil, nil //nolint:nilnil // none
	case s.cur.Properties()[change.PropOutcomes] != s.a.o.OutcomesProperty:
		s.check(CheckCounts, Skipped, "the outcomes were kept elsewhere then: %s", s.outcomesPlace())
		return nil, nil //nolint:nilnil // none
	case s.a.outcomes == nil:
		if len(s.rec.counts) > 0 {
			s.find(CheckCounts, nil, "the commit counts %s, and there is no outcomes table at %s", s.rec.counts.JSON(), s.a.o.Outcomes.Store().URL())
		}
		s.done(CheckCounts, "")
		return nil, nil //nolint:nilnil // none
	}
	rows, err := readOutcomes(ctx, s.a.outcomes, s.rec.run, s.cur.Version())
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.find(CheckCounts, nil, "%v", err)
		s.done(CheckCounts, "")
		return nil, nil //nolint:nilnil // none
	}
	rows.checkCounts(s.recorder, s.rec)
	return rows, nil
}

// checkUnclaimed looks for outcomes of a version whose commit, as the log has it now, is
// none of a batch.
func (s *step) checkUnclaimed(ctx context.Context) error {
	if s.a.outcomes == nil || s.cur.Properties()[change.PropOutcomes] != s.a.o.OutcomesProperty {
		return nil
	}
	rows, err := readOutcomes(ctx, s.a.outcomes, s.rec.run, s.cur.Version())
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		s.find(CheckCounts, nil, "%v", err)
	} else if n := rows.strangers + int64(len(rows.outcomes)); n > 0 {
		s.find(CheckCounts, nil, "%d rows of the outcomes table claim the version, whose commit is none of a batch", n)
	}
	if s.failed(CheckCounts) {
		s.done(CheckCounts, "")
	}
	return nil
}

func (s *step) outcomesPlace() string {
	if place := s.cur.Properties()[change.PropOutcomes]; place != "" {
		return place
	}
	return "beside the table"
}

// batch finds the rows of the version's batch; nil where they are not at hand.
func (s *step) batch(ctx context.Context, rows *outcomeRows) (*correctness, error) {
	if s.a.o.Batches != nil {
		b, ok, err := s.a.o.Batches.Batch(ctx, &BatchRequest{
			Version: s.cur.Version(), Digest: s.rec.digest, Name: s.rec.batch,
			Schema: s.cur.Schema(), Roles: s.roles, Flags: s.rec.flags,
		})
		if err != nil {
			return nil, err
		}
		if ok {
			c := &correctness{source: "from the batch's files", present: map[string]bool{}}
			for _, f := range b.Files {
				c.recs = append(c.recs, f.Records...)
				for name, has := range f.presence() {
					c.present[name] = c.present[name] || has
				}
			}
			return c, nil
		}
	}
	// NB: outcomes that do not add up cannot stand in for the batch: the fold would only
	// repeat the finding in other words.
	if rows == nil || s.failed(CheckCounts) {
		if s.mode != change.Plain {
			s.check(CheckState, Skipped, "the batch is not at hand")
		}
		return nil, nil //nolint:nilnil // none
	}
	c := &correctness{source: "from the rows in the outcomes table", fromOutcomes: true, recs: rows.recs}
	if s.roles != nil {
		c.present = rows.present(s.roles)
	}
	return c, nil
}

func (f *BatchFile) presence() map[string]bool {
	if f.Present != nil {
		return f.Present
	}
	p := map[string]bool{}
	for _, rec := range f.Records {
		for _, field := range rec.Schema().Fields() {
			p[field.Name] = true
		}
	}
	return p
}
