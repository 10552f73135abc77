package checkpoints

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// step is the audit of one version against the one before it.
type step struct {
	*recorder
	a          *auditor
	prev, cur  *deltatable.Snapshot // prev nil: nothing before
	base       bool                 // there is a version before, but it cannot be read
	rec        *record
	live       liveSets
	mode       change.Mode
	roles      *change.Roles // nil: not guarded
	wasGuarded bool          // the version before had the same keys, versions and status
	correct    *correctness  // nil: the batch is not at hand
	unreadable bool          // a file that is needed cannot be read

	replace      *change.ReplaceRoles // nil: not in mode replace
	wasReplace   bool                 // the version before had the same keys and sequence
	expectedRows *rowsExpected        // by the fold; nil: the batch is not at hand
	broke        string               // what set the guard aside; "" for nothing
}

// version audits cur and adds to the report.
func (a *auditor) version(ctx context.Context, prev, cur *deltatable.Snapshot) error {
	rec, err := a.record(ctx, cur.Version())
	if err != nil {
		return err
	}
	vr := VersionReport{Version: cur.Version(), Operation: rec.operation, Writer: rec.writer, Run: rec.run, Ours: rec.ours}
	s := &step{
		recorder: &recorder{report: &vr}, a: a, prev: prev, cur: cur, rec: rec,
		base: prev == nil && cur.Version() > 0, live: compareFiles(prev, cur),
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	a.report.Versions = append(a.report.Versions, vr)
	a.report.Findings = append(a.report.Findings, s.found...)
	return nil
}

func (s *step) run(ctx context.Context) error {
	s.checkRecord()
	for _, check := range []func(context.Context) error{s.checkHashes, s.checkOutcomes, s.checkRows, s.checkLaws} {
		err := check(ctx)
		var fe *fileError
		if errors.As(err, &fe) {
			s.lost(ctx, fe)
			continue
		}
		if err != nil {
			return err
		}
	}
	if s.unreadable {
		if s.failed(CheckFiles) {
			s.done(CheckFiles, "")
		}
	} else {
		s.done(CheckFiles, "%d files added, %d removed, %d kept", len(s.live.added), len(s.live.removed), len(s.live.kept))
	}
	return s.finish(ctx)
}

// finish makes the checks whose findings may come from more than one step done.
func (s *step) finish(ctx context.Context) error {
	if s.a.o.Full && s.roles != nil {
		if err := s.scratch(ctx); err != nil {
			return err
		}
	}
	for _, name := range []string{CheckDigest, CheckForm, CheckKeys} {
		if s.failed(name) && !slices.ContainsFunc(s.report.Checks, func(c Check) bool { return c.Name == name && c.Status == Failed }) {
			s.check(name, Failed, "")
		}
	}
	return nil
}

// lost reports a file that cannot be read; vacuum may have taken one.
func (s *step) lost(ctx context.Context, fe *fileError) {
	s.unreadable = true
	if how, ok := s.a.lawfullyGone(ctx, fe, s.cur.Version()); ok {
		s.check(CheckFiles, Skipped, "%s", how)
		return
	}
	text := fe.Error()
	if !slices.ContainsFunc(s.found, func(f Finding) bool { return f.Check == CheckFiles && f.Detail == text }) {
		s.find(CheckFiles, nil, "%s", text)
	}
}

// checkRecord looks at who wrote the version and what the commit carries.
func (s *step) checkRecord() {
	mode, err := change.ModeOf(s.cur.Properties())
	if err == nil {
		s.mode = mode
		if s.roles, _, err = change.RolesFromProperties(s.cur.Properties()); err == nil {
			err = s.replaceRoles()
		}
	}
	if err != nil {
		s.find(CheckRecord, nil, "%v", err)
	}
	if s.roles != nil && s.prev != nil {
		was, ok, err := change.RolesFromProperties(s.prev.Properties())
		s.wasGuarded = err == nil && ok && digestColumns(was) == digestColumns(s.roles)
	}
	if s.roles == nil || !s.wasGuarded || s.a.digestOf != digestColumns(s.roles) {
		s.a.digest = nil
		clear(s.a.sums)
	}
	if s.roles != nil {
		s.a.digestOf = digestColumns(s.roles)
	}
	for _, p := range s.rec.problems {
		s.find(CheckRecord, nil, "%s", p)
	}
	s.noteBroken()
	if s.rec.digest != "" && s.roles != nil && s.broke == "" && s.rec.table == nil && !s.rec.unknown && len(s.rec.problems) == 0 {
		s.find(CheckRecord, nil, "a batch's commit carries no %s", change.TagTableDigest)
	}
	switch {
	case s.rec.ours:
		s.done(CheckRecord, "run %s, batch %s", s.rec.run, s.rec.digest)
	case s.roles != nil || s.replace != nil:
		s.check(CheckWriter, Note, "%s by %s, without a record of ours: checked as far as its rows tell", s.operation(), s.rec.who())
		fallthrough
	default:
		if s.failed(CheckRecord) {
			s.done(CheckRecord, "")
		}
	}
}

// noteBroken names a commit that set the guard aside, and completes what the record does
// not say.
func (s *step) noteBroken() {
	var mode change.Mode
	if s.broke, mode = breaksGuard(s.prev, s.rec); s.broke != "" {
		s.check(CheckWriter, Note, "%s --break-guard by run %s, on a table in mode %s: what it did against the rules of the mode is found below", s.broke, s.rec.run, mode)
	}
	if s.replace != nil && s.broke == "" && s.rec.digest != "" && len(s.rec.expectations) == 0 {
		s.rec.expectations = s.replace.Expectations
	}
	if s.rec.digest != "" && (s.rec.inserts == nil || s.rec.deletes == nil) {
		s.find(CheckRecord, nil, "a batch's commit carries no %s or %s", change.TagInserts, change.TagDeletes)
	}
}

func (s *step) operation() string {
	if s.rec.operation == "" {
		return "a commit"
	}
	return s.rec.operation
}

// checkHashes hashes the bytes of the files added (of all files, under Full, of the first
// version).
func (s *step) checkHashes(ctx context.Context) error {
	files := s.live.added
	switch {
	case s.a.o.Full && s.cur.Version() == s.a.report.From:
		files = s.cur.Files()
	case s.base:
		s.check(CheckFileHash, Skipped, "the version before cannot be read, so that it is not known which files are new")
		return nil
	}
	untagged, hashed := 0, 0
	for _, f := range files {
		text, ok := f.Tags[change.TagFileHash]
		if !ok {
			untagged++
			continue
		}
		got, size, err := hashFile(ctx, s.a.table, f)
		if errors.Is(err, errElsewhere) {
			untagged++
			continue
		}
		if err != nil {
			// Whether it is gone or damaged, the table's own way of opening it says best.
			if _, err := footerRows(ctx, s.cur, f); err != nil {
				var fe *fileError
				if !errors.As(err, &fe) {
					return err
				}
				s.lost(ctx, fe)
			}
			continue
		}
		hashed++
		want, err := integrity.ParseSum(text)
		switch {
		case err != nil:
			s.find(CheckFileHash, nil, "file %q: tag %s: %v", f.Path, change.TagFileHash, err)
		case got != want:
			s.find(CheckFileHash, nil, "file %q has %d bytes with hash %s, its add action says %d bytes with hash %s", f.Path, size, got, f.Size, want)
		}
	}
	switch {
	case s.failed(CheckFileHash) || hashed > 0:
		s.done(CheckFileHash, "%d files hashed, %d carry no hash", hashed, untagged)
	case untagged > 0:
		s.check(CheckFileHash, Skipped, "%d files carry no hash", untagged)
	}
	return nil
}

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
	if err := c.correct(ctx, s.recorder, s.prev, s.cur, s.live, rl); err != nil {
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
