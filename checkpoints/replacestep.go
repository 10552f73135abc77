package checkpoints

import (
	"context"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// checkReplace audits a version in mode replace: the rules of merge-semantics 4 with the
// batch c, nil where it is not at hand, law 4, and that no key's sequence decreases.
func (s *step) checkReplace(ctx context.Context, c *correctness, rows *outcomeRows) error {
	sh := newReplaceShape(s.cur, s.replace)
	if why := sh.check(s.cur); why != "" {
		s.find(CheckRecord, nil, "%s", why)
		s.check(CheckRecord, Failed, "")
		return nil
	}
	if err := s.nullSequences(ctx, sh); err != nil {
		return err
	}
	if s.base {
		s.check(CheckState, Skipped, "the version before cannot be read")
		return nil
	}
	if s.wasReplace && s.prev != nil && sh.sequenceKind(s.prev) != sh.sequenceKind(s.cur) {
		s.check(CheckSequence, Skipped, "sequence column %q has another type than before", s.replace.Sequence)
		return nil
	}
	b, err := s.replaceRows(c, rows, sh)
	if err != nil {
		s.check(CheckState, Skipped, "%s: %v", c.source, err)
	}
	d := &replaceDiff{
		prev: s.prev, cur: s.cur, live: s.live, shape: sh, batch: b, law: s.wasReplace, frozen: s.rec.rearranges,
		budget: s.a.o.MemoryBytes,
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	if err := s.reportReplace(ctx, d); err != nil {
		return err
	}
	if b == nil {
		return nil
	}
	s.expectedRows = &rowsExpected{d.result.inserts, d.result.deletes}
	s.compareOutcomes(rows, b.correctness, s.replace.Keys)
	return nil
}

// replaceRows reads the batch; nil where it is not at hand.
func (s *step) replaceRows(c *correctness, rows *outcomeRows, sh *replaceShape) (*replaceBatch, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // none
	}
	b, err := readReplaceRows(c, sh, s.cur, s.drops(c, rows))
	if err != nil {
		return nil, err
	}
	b.ignore = s.replace.IgnoreIdentical
	if s.rec.flags.Ties != "" {
		b.ignore = s.rec.flags.Ties == change.TiesIgnoreIdentical
	}
	return b, nil
}

// nullSequences looks at the rows of all files, under Full at the first version; those of
// files added are looked at in any case.
func (s *step) nullSequences(ctx context.Context, sh *replaceShape) error {
	if !s.a.o.Full || s.cur.Version() != s.a.report.From {
		return nil
	}
	var null keyList
	keys := len(sh.roles.Keys)
	files := s.live.kept
	if s.base {
		files = s.cur.Files()
	}
	for _, f := range files {
		err := reading{snapshot: s.cur, file: f, columns: sh.names[:keys+1]}.rows(ctx, func(cols []arrow.Array, n int) error {
			for i := range n {
				if isNull(cols[keys], i) {
					null.add(func() string { return keyText(cols[:keys], i) })
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.findKeys(CheckForm, &null, "rows of files from before have a NULL sequence")
	return nil
}

// reportReplace names the keys that are wrong.
func (s *step) reportReplace(ctx context.Context, d *replaceDiff) error {
	r := &d.result
	s.findKeys(CheckForm, &r.form, "rows of files added have a NULL sequence")
	s.done(CheckForm, "")
	var lists [keyNullInTarget + 1]keyList
	if len(r.bad) > 0 {
		if err := d.nameBad(ctx, &lists); err != nil {
			return err
		}
	}
	if s.wasReplace {
		s.findKeys(CheckSequence, &lists[keyGone], "keys have disappeared")
		s.findKeys(CheckSequence, &lists[keyLowered], "keys have a lower highest sequence than before")
		s.done(CheckSequence, "%d keys changed", r.keys)
	} else if s.prev != nil {
		s.check(CheckSequence, Skipped, "the table was not in mode replace by these columns before")
	}
	s.findKeys(CheckOthers, &lists[keyMoved], "keys have other rows than before, and the commit does not write them")
	s.findKeys(CheckState, &lists[keyUnlawful], "keys have rows that no batch can have left by the rules of REPLACE USING")
	s.findKeys(CheckState, &lists[keyMissing], "keys of the batch lack rows that the rules of REPLACE USING give them")
	s.findKeys(CheckState, &lists[keyExtra], "keys of the batch have rows that the rules of REPLACE USING do not give them")
	s.findKeys(CheckState, &lists[keyNullInBatch], "keys have a NULL sequence in the batch, which had to be refused")
	s.findKeys(CheckState, &lists[keyNullInTarget], "keys of the batch had a NULL sequence stored, and the batch had to be refused")
	if d.batch != nil {
		s.findKeys(CheckState, &d.batch.empty, `rows of the batch have "" in a key that is a partition column, and the batch had to be refused`)
	}
	switch {
	case d.batch != nil:
		s.done(CheckOthers, "")
		s.done(CheckState, "%d rows folded, %s", len(d.batch.rows), d.batch.source)
	case s.rec.rearranges || s.failed(CheckOthers):
		s.done(CheckOthers, "")
	case s.wasReplace:
		s.check(CheckOthers, Skipped, "which keys the commit writes is not known")
		if s.failed(CheckState) {
			s.done(CheckState, "")
		}
	}
	return nil
}

// nameBad finds the texts of the keys that are wrong, in the files and the batch.
func (d *replaceDiff) nameBad(ctx context.Context, lists *[keyNullInTarget + 1]keyList) error {
	left := maps.Clone(d.result.bad)
	p := &replacePass{d: d}
	return p.eachKey(ctx, func(key string, cols []arrow.Array, i int) {
		if problem, ok := left[key]; ok {
			delete(left, key)
			lists[problem].add(func() string { return keyText(cols, i) })
		}
	})
}

// replaceRoles reads the roles of both versions.
func (s *step) replaceRoles() error {
	var err error
	if s.replace, _, err = change.ReplaceRolesFromProperties(s.cur.Properties()); err != nil || s.replace == nil || s.prev == nil {
		return err
	}
	was, ok, err := change.ReplaceRolesFromProperties(s.prev.Properties())
	s.wasReplace = err == nil && ok && was.Sequence == s.replace.Sequence && slices.Equal(was.Keys, s.replace.Keys)
	return nil //nolint:nilerr // a finding of the version that has them
}

// rowsExpected are the rows that the rules add and remove, for law 5.
type rowsExpected struct{ inserts, deletes int64 }

// breaksGuard is the operation that set the guard of the table aside; "" for none. The
// guard counts that the version before had.
func breaksGuard(prev *deltatable.Snapshot, rec *record) (op string, mode change.Mode) {
	if rec.breaks == "" || prev == nil {
		return "", ""
	}
	mode, err := change.ModeOf(prev.Properties())
	if err != nil || mode == change.Plain {
		return "", ""
	}
	return rec.breaks, mode
}
