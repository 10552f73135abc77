package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/merge/change"
)

// Options are the settings of an audit. The nil *Options and every zero field mean the
// defaults.
type Options struct {
	// From and To are the first and the last version to audit, inclusive. Default: the
	// first version that can be read, and the latest.
	From, To *deltatable.Version
	// Full recomputes everything: the digest of every version from all its files, the
	// hashes of all files of the first version, and law 6 over all rows of the first and the
	// last version.
	Full bool
	// Outcomes is the table's outcomes table; nil: outcomes are not checked.
	Outcomes *deltatable.Table
	// OutcomesProperty is the table property that led to Outcomes ("": the default).
	// Versions with another one keep their outcomes elsewhere, where they are not checked.
	OutcomesProperty string
	// Batches finds the batches behind the versions; nil: the rows in the outcomes table
	// stand in for them.
	Batches BatchSource
	// Now is the clock. It decides whether a file that is gone may have been removed by
	// vacuum. Default time.Now.
	Now func() time.Time
	// MemoryBytes bounds the rows that are held at once to compare two versions. Default
	// 256 MiB.
	MemoryBytes int64
	// Progress is called before each version is audited; nil: nothing is called.
	Progress func(v, to deltatable.Version)
}

const defaultMemory = 256 << 20

// auditor is one run of Audit.
type auditor struct {
	table    *deltatable.Table
	o        Options
	outcomes *deltatable.Snapshot // nil: none
	last     *deltatable.Snapshot // version To
	// digest is the table digest of the version before, as recorded or else computed; nil
	// where it is not known. It is one of the columns that digestOf names.
	digest   *integrity.Sum
	digestOf string
	sums     map[deltatable.FileKey]integrity.Sum // of the rows of files, under digestOf
	report   *Report
}

// Audit checks the versions of a table, each against the one before it, as the package
// comment says. What is wrong with the table is in the report's Findings; an error means
// that the audit could not be made: no table, versions out of range
// (*deltatable.VersionRangeError), a table feature that is not supported, ctx done. It
// writes nothing. o may be nil.
func Audit(ctx context.Context, t *deltatable.Table, o *Options) (*Report, error) {
	a := &auditor{table: t, report: &Report{}, sums: map[deltatable.FileKey]integrity.Sum{}}
	if o != nil {
		a.o = *o
	}
	if a.o.MemoryBytes <= 0 {
		a.o.MemoryBytes = defaultMemory
	}
	if a.o.Now == nil {
		a.o.Now = time.Now //nolint:forbidigo // the default of the clock option
	}
	prev, cur, err := a.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit table %s: %w", t.Store().URL(), err)
	}
	for v := a.report.From; ; v++ {
		if a.o.Progress != nil {
			a.o.Progress(v, a.report.To)
		}
		if v > a.report.From {
			prev = cur
			if cur, err = a.at(ctx, v); err != nil {
				return nil, fmt.Errorf("audit version %d of table %s: %w", v, t.Store().URL(), err)
			}
		}
		if err := a.version(ctx, prev, cur); err != nil {
			return nil, fmt.Errorf("audit version %d of table %s: %w", v, t.Store().URL(), err)
		}
		if v == a.report.To {
			return a.report, nil
		}
	}
}

func (a *auditor) at(ctx context.Context, v deltatable.Version) (*deltatable.Snapshot, error) {
	if v == a.last.Version() {
		return a.last, nil
	}
	return a.table.SnapshotAt(ctx, v)
}

// open finds the range, the first version, the one before it (nil: there is none that can
// be read) and the outcomes.
func (a *auditor) open(ctx context.Context) (prev, cur *deltatable.Snapshot, err error) {
	if a.o.To == nil {
		a.last, err = a.table.Snapshot(ctx)
	} else {
		a.last, err = a.table.SnapshotAt(ctx, *a.o.To)
	}
	if err != nil {
		return nil, nil, err
	}
	a.report.To = a.last.Version()
	var outside *deltatable.VersionRangeError
	first := deltatable.Version(0)
	if a.o.From != nil {
		first = *a.o.From
	}
	if first > a.report.To {
		return nil, nil, fmt.Errorf("from version %d to version %d: nothing to audit", first, a.report.To)
	}
	cur, err = a.at(ctx, first)
	if a.o.From == nil && errors.As(err, &outside) {
		first = outside.Earliest
		cur, err = a.at(ctx, first)
	}
	if err != nil {
		return nil, nil, err
	}
	a.report.From = first
	if first > 0 {
		prev, err = a.table.SnapshotAt(ctx, first-1)
		if err != nil && !errors.As(err, &outside) {
			return nil, nil, err
		}
		if err != nil {
			prev = nil
		}
	}
	if err := a.startDigest(ctx, prev); err != nil {
		return nil, nil, err
	}
	return prev, cur, a.openOutcomes(ctx)
}

// startDigest finds the digest of the version before the first one: the one that it
// recorded, or else the last recorded one and the rows of the files live then and not now,
// and now and not then. It stays unknown where these cannot be read, or where the table was
// not guarded by the same columns in between.
func (a *auditor) startDigest(ctx context.Context, prev *deltatable.Snapshot) error {
	if prev == nil {
		return nil
	}
	roles, ok, err := change.RolesFromProperties(prev.Properties())
	if err != nil || !ok {
		return nil //nolint:nilerr // damaged roles are a finding of the version that has them
	}
	a.digestOf = digestColumns(roles)
	for v := prev.Version(); v >= 0; v-- {
		rec, err := a.record(ctx, v)
		if err != nil || !rec.known || rec.unknown {
			return err
		}
		if rec.table == nil {
			continue
		}
		if v == prev.Version() {
			a.digest = rec.table
			return nil
		}
		return a.carryDigest(ctx, rec.table, v, prev, newShape(prev, roles))
	}
	return nil
}

// carryDigest brings the digest recorded at an older version to prev.
func (a *auditor) carryDigest(ctx context.Context, sum *integrity.Sum, v deltatable.Version, prev *deltatable.Snapshot, sh *shape) error {
	then, err := a.table.SnapshotAt(ctx, v)
	var outside *deltatable.VersionRangeError
	if errors.As(err, &outside) {
		return nil
	}
	if err != nil {
		return err
	}
	if roles, ok, err := change.RolesFromProperties(then.Properties()); err != nil || !ok || digestColumns(roles) != a.digestOf || !sh.supported(prev) || !sh.supported(then) {
		return nil //nolint:nilerr // as in startDigest
	}
	live := compareFiles(then, prev)
	now := *sum
	for _, f := range live.removed {
		s, err := sumRows(ctx, then, f, sh)
		if err != nil {
			return unlessFile(err)
		}
		now = now.Minus(s)
	}
	for _, f := range live.added {
		s, err := sumRows(ctx, prev, f, sh)
		if err != nil {
			return unlessFile(err)
		}
		now = now.Plus(s)
	}
	a.digest = &now
	return nil
}

// unlessFile is nil for an error of a data file.
func unlessFile(err error) error {
	var fe *fileError
	if errors.As(err, &fe) {
		return nil
	}
	return err
}

func (a *auditor) openOutcomes(ctx context.Context) error {
	if a.o.Outcomes == nil {
		return nil
	}
	s, err := a.o.Outcomes.Snapshot(ctx)
	if errors.Is(err, deltatable.ErrNoTable) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("outcomes: %w", err)
	}
	a.outcomes = s
	return nil
}

// record reads the log entry of v; a record that is not known where it is gone.
func (a *auditor) record(ctx context.Context, v deltatable.Version) (*record, error) {
	e, err := a.table.Entry(ctx, v)
	var outside *deltatable.VersionRangeError
	if errors.As(err, &outside) {
		return &record{flags: &change.Flags{}}, nil
	}
	if err != nil {
		return nil, err
	}
	return readRecord(e), nil
}

// digestColumns names what a digest is made of: digests of other columns do not compare.
func digestColumns(r *change.Roles) string {
	return fmt.Sprintf("%q %q %q %q", r.Keys, r.Versions, r.Status, r.StatusForm)
}
