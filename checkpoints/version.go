package checkpoints

import (
	"context"
	"errors"
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
