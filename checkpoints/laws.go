package checkpoints

import (
	"context"
	"errors"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// checkRows is law 5: counts from the footers of the files.
func (s *step) checkRows(ctx context.Context) error {
	if s.base {
		s.check(CheckRows, Skipped, "the version before cannot be read")
		return nil
	}
	if len(s.live.added) == 0 && len(s.live.removed) == 0 && s.expectedRows == nil {
		return nil
	}
	before, err := s.count(ctx, s.prev, s.live.removed)
	if err != nil {
		return err
	}
	after, err := s.count(ctx, s.cur, s.live.added)
	if err != nil {
		return err
	}
	known := false
	expect := func(inserts, deletes int64, by string) {
		known = true
		if before+inserts-deletes != after {
			s.find(CheckRows, nil, "%d rows in the %d files removed + %d inserted - %d deleted (%s) is not the %d rows in the %d files added",
				before, len(s.live.removed), inserts, deletes, by, after, len(s.live.added))
		}
	}
	if s.rec.inserts != nil && s.rec.deletes != nil {
		expect(*s.rec.inserts, *s.rec.deletes, "as the commit says")
	}
	if x := s.expectedRows; x != nil {
		expect(x.inserts, x.deletes, "as the fold expects")
	}
	if !known && !s.failed(CheckRows) {
		s.check(CheckRows, Skipped, "the commit does not say how many rows it inserted and deleted")
		return nil
	}
	s.done(CheckRows, "%d rows in the files removed, %d in the files added", before, after)
	return nil
}

// count adds up footers, and compares each with the statistics in the log.
func (s *step) count(ctx context.Context, at *deltatable.Snapshot, files []*deltatable.Add) (int64, error) {
	total := int64(0)
	for _, f := range files {
		n, err := footerRows(ctx, at, f)
		if err != nil {
			return 0, err
		}
		if logged, ok := at.NumRecords(f); ok && logged != n && at == s.cur {
			s.find(CheckRows, nil, "file %q has %d rows by its footer, %d by the log", f.Path, n, logged)
		}
		total += n
	}
	return total, nil
}

// checkLaws compares the rows of the files that changed: digest, form, laws 3, 4 and 6.
func (s *step) checkLaws(ctx context.Context) error {
	if s.roles == nil {
		return nil
	}
	sh := newShape(s.cur, s.roles)
	if !sh.supported(s.cur) {
		s.find(CheckRecord, nil, "the table lacks a column that its roles name, or has it in a type that cannot be one")
		s.done(CheckRecord, "")
		return nil
	}
	if s.base {
		s.baseline(nil, "the version before cannot be read")
		return nil
	}
	d := &diff{prev: s.prev, cur: s.cur, live: s.live, shape: sh, guarded: s.wasGuarded, mayWrite: s.mayWrite(), budget: s.a.o.MemoryBytes}
	if s.prev == nil {
		// Version 0: everything is new, and the batch must have brought it.
		d.guarded = s.correct != nil
	}
	if err := d.run(ctx); err != nil {
		s.a.digest = nil
		var fe *fileError
		if errors.As(err, &fe) {
			if s.rec.table != nil {
				s.a.digest = s.rec.table
			}
			s.check(CheckDigest, Skipped, "a file cannot be read")
		}
		return err
	}
	s.checkDigest(&d.result)
	s.reportLaws(&d.result)
	return nil
}

func (s *step) reportLaws(r *diffResult) {
	s.findKeys(CheckForm, &r.form, "rows have a NULL key or version, an unknown status, or a payload in a row that is not active")
	s.done(CheckForm, "")
	if s.wasGuarded {
		s.findKeys(CheckVersions, &r.lowered, "keys are stored at a lower version than before")
		s.findKeys(CheckVersions, &r.gone, "keys have disappeared")
		s.findKeys(CheckVersions, &r.erased, "tombstones have disappeared")
		s.done(CheckVersions, "%d keys changed, %d are new", r.changed, r.fresh)
	} else if s.prev != nil {
		s.check(CheckVersions, Skipped, "the table was not guarded by these columns before")
	}
	s.findKeys(CheckOthers, &r.moved, "rows changed that the commit does not write")
	s.findKeys(CheckOthers, &r.appeared, "rows appeared that the commit does not write")
	switch {
	case s.correct != nil || s.rec.rearranges || s.failed(CheckOthers), len(s.live.added)+len(s.live.removed) == 0:
		s.done(CheckOthers, "")
	case s.wasGuarded:
		s.check(CheckOthers, Skipped, "which keys the commit writes is not known; no row changed under the version it had")
	}
	s.findKeys(CheckKeys, &r.doubled, "rows have a key that another row of the files added has")
	s.findKeys(CheckKeys, &r.elsewhere, "rows in other live files have the key of a new row")
	s.done(CheckKeys, "%d new keys", r.fresh)
}

// mayWrite says which rows the commit may write (law 4). Without the batch, a row that
// keeps its version can only have become a conflict; a rearrangement writes none.
func (s *step) mayWrite() func(key string, fresh, sameVersion bool, now change.Status) bool {
	switch {
	case s.correct != nil:
		return func(key string, _, _ bool, _ change.Status) bool { return s.correct.writes[key] }
	case s.rec.rearranges:
		return func(string, bool, bool, change.Status) bool { return false }
	}
	return func(_ string, fresh, sameVersion bool, now change.Status) bool {
		return fresh || !sameVersion || now == change.Conflict
	}
}

// checkDigest follows the table digest over the step.
func (s *step) checkDigest(r *diffResult) {
	start := s.a.digest
	if s.prev == nil {
		start = &integrity.Sum{}
	}
	if start == nil {
		s.baseline(nil, "no digest is known of the version before")
		return
	}
	now := start.Minus(r.removed).Plus(r.added)
	s.report.Digest = now.String()
	s.a.digest = &now
	switch {
	case s.rec.table == nil && s.rec.unknown:
		s.check(CheckDigest, Note, "recorded as unknown; computed %s", now)
	case s.rec.table == nil:
		s.check(CheckDigest, Skipped, "the commit records none; computed %s", now)
	default:
		if *s.rec.table != now {
			s.find(CheckDigest, nil, "recorded %s; the version before, less the rows of the %d files removed, plus those of the %d files added is %s",
				s.rec.table, len(s.live.removed), len(s.live.added), now)
		}
		// NB: go on from what is recorded, so that one fault is one finding.
		s.a.digest = s.rec.table
		s.done(CheckDigest, "%s", s.rec.table)
	}
}

// baseline takes a recorded digest that there is nothing to compare with.
func (s *step) baseline(sum *integrity.Sum, why string) {
	s.a.digest = sum
	if s.rec.table == nil {
		s.check(CheckDigest, Skipped, "%s, and the commit records none", why)
		return
	}
	s.a.digest = s.rec.table
	s.report.Digest = s.rec.table.String()
	s.check(CheckDigest, Note, "%s: the recorded one is taken as it is", why)
}

// scratch recomputes from all live files, under Full: the digest of each version, and law 6
// and form over all rows of the first and the last version.
func (s *step) scratch(ctx context.Context) error {
	sh := newShape(s.cur, s.roles)
	if !sh.supported(s.cur) {
		return nil
	}
	total, err := s.sumFiles(ctx, sh)
	var fe *fileError
	if errors.As(err, &fe) {
		s.lost(ctx, fe)
		if s.failed(CheckFiles) {
			s.check(CheckFiles, Failed, "")
		}
		s.check(CheckDigest, Skipped, "from scratch: a file cannot be read")
		return nil
	}
	if err != nil {
		return err
	}
	s.report.Digest = total.String()
	want, by := s.a.digest, "the version before and the files changed give"
	if s.rec.table != nil {
		want, by = s.rec.table, "the commit records"
	}
	if want != nil && *want != total {
		s.find(CheckDigest, nil, "all %d live files sum to %s, %s %s", len(s.cur.Files()), total, by, want)
	} else {
		s.check(CheckDigest, OK, "from scratch: %s", total)
	}
	if want == nil {
		s.a.digest = &total
	}
	if v := s.cur.Version(); v != s.a.report.From && v != s.a.report.To || s.prev == nil && !s.base {
		return nil
	}
	d := &diff{cur: s.cur, live: liveSets{added: s.cur.Files()}, shape: sh, budget: s.a.o.MemoryBytes}
	err = d.run(ctx)
	if errors.As(err, &fe) {
		s.lost(ctx, fe)
		return nil
	}
	if err != nil {
		return err
	}
	s.findKeys(CheckForm, &d.result.form, "rows of the whole table have a NULL key or version, an unknown status, or a payload in a row that is not active")
	s.findKeys(CheckKeys, &d.result.doubled, "rows of the whole table have a key that another row has")
	return nil
}

// sumFiles sums the rows of all live files, each file read once in the whole audit.
func (s *step) sumFiles(ctx context.Context, sh *shape) (integrity.Sum, error) {
	var total integrity.Sum
	for _, f := range s.cur.Files() {
		sum, ok := s.a.sums[f.Key()]
		if !ok {
			var err error
			if sum, err = sumRows(ctx, s.cur, f, sh); err != nil {
				return integrity.Sum{}, err
			}
			s.a.sums[f.Key()] = sum
		}
		total = total.Plus(sum)
	}
	return total, nil
}
