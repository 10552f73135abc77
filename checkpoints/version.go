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
		s.roles, _, err = change.RolesFromProperties(s.cur.Properties())
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
	if s.rec.digest != "" && s.roles != nil && s.rec.table == nil && !s.rec.unknown && len(s.rec.problems) == 0 {
		s.find(CheckRecord, nil, "a batch's commit carries no %s", change.TagTableDigest)
	}
	switch {
	case s.rec.ours:
		s.done(CheckRecord, "run %s, batch %s", s.rec.run, s.rec.digest)
	case s.roles != nil:
		s.check(CheckWriter, Note, "%s by %s, without a record of ours: checked as far as its rows tell", s.operation(), s.rec.who())
		fallthrough
	default:
		if s.failed(CheckRecord) {
			s.done(CheckRecord, "")
		}
	}
	if s.mode == change.Replace {
		s.check(CheckWriter, Note, "of replace mode only row counts and file hashes are checked")
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
	switch {
	case s.roles == nil:
		return nil
	case s.rec.digest == "":
		return s.checkUnclaimed(ctx)
	}
	rows, err := s.outcomeRows(ctx)
	if err != nil {
		return err
	}
	c, err := s.batch(ctx, rows)
	if err != nil || c == nil {
		return err
	}
	rl, err := newRules(s.cur, s.roles, s.rec.flags)
	if err == nil {
		c.inputs, err = readInputs(c.recs, c.present, rl)
	}
	if err != nil {
		s.check(CheckState, Skipped, "%s: %v", c.source, err)
		return nil
	}
	if s.base {
		s.check(CheckState, Skipped, "the version before cannot be read")
		return nil
	}
	if err := c.correct(ctx, s.recorder, s.prev, s.cur, s.live, rl); err != nil {
		return err
	}
	s.correct = c
	s.done(CheckState, "%d rows folded, %s", len(c.inputs), c.source)
	if rows != nil {
		rows.compare(s.recorder, c, s.roles.Keys)
		s.done(CheckOutcomes, "%d rows, %s", len(rows.outcomes), c.source)
		return nil
	}
	expected := change.Counts{}
	for _, o := range c.folded.outcomes {
		expected[o]++
	}
	if s.rec.counts != nil && !maps.Equal(expected, s.rec.counts) {
		s.find(CheckOutcomes, nil, "the commit counts %s, the fold expects %s", s.rec.counts.JSON(), expected.JSON())
	}
	s.done(CheckOutcomes, "counts only, %s", c.source)
	return nil
}

// outcomeRows reads the run's outcomes and checks their counts; nil where there are none to
// read.
func (s *step) outcomeRows(ctx context.Context) (*outcomeRows, error) {
	switch {
	case s.roles.Outcomes == change.OutcomesNone:
		s.check(CheckCounts, Note, "the table keeps no outcomes")
		return nil, nil //nolint:nilnil // none
	case s.a.o.Outcomes == nil:
		s.check(CheckCounts, Skipped, "the outcomes table was not given")
		return nil, nil //nolint:nilnil // none
	case s.roles.Outcomes != s.a.o.OutcomesProperty:
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
	if s.a.outcomes == nil || s.roles.Outcomes != s.a.o.OutcomesProperty {
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
	if s.roles.Outcomes == "" {
		return "beside the table"
	}
	return s.roles.Outcomes
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
		s.check(CheckState, Skipped, "the batch is not at hand")
		return nil, nil //nolint:nilnil // none
	}
	return &correctness{source: "from the rows in the outcomes table", fromOutcomes: true, recs: rows.recs, present: rows.present(s.roles)}, nil
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
