package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/internal/rows"
	"github.com/deltafold/deltafold/merge/statement"
)

// clauses is MERGE with clauses as a mode (merge-semantics 5).
//
// What becomes of a target row depends on the row and on the source alone, so
// the result of a file is worth keeping as long as the file is live: a retry
// judges the added files only (R2, R3). New rows are made again when they are
// written, so that memory does not follow the table (I9); what is kept of a file
// is the numbers of the source rows that it matched.
type clauses struct {
	job    *IntoJob
	bound  *statement.Bound
	engine *engine
	source *sourceRows

	mu      sync.Mutex
	snap    *deltatable.Snapshot
	files   map[deltatable.FileKey]*fileResult
	moved   []movedRow // rows that an update moves into another partition
	inserts []int32    // source rows that are inserted
	rows    map[int32]insertRow
}

// fileResult is what the statement does to one live file.
type fileResult struct {
	changes, gone    int64
	updated, deleted int64
	bySource         [2]int64 // of these by NOT MATCHED BY SOURCE: updated, deleted
	// sources are the source rows that matched, ascending, and what the strongest
	// clause did with each.
	sources []matchedRow
	moves   []movedRow // its rows that go to another partition
	moved   []int32    // their numbers
}

type matchedRow struct {
	row    int32
	action statement.Action // 0: no clause applied
}

type movedRow struct {
	rec  arrow.RecordBatch
	row  int32
	part deltatable.Partition
	dead bool
}

// insertRow is the new row of a source row that is inserted, made once.
type insertRow struct {
	rec  arrow.RecordBatch
	row  int32
	part deltatable.Partition
	none bool // no clause applies
}

// movedBase is the number of the first moved row; below are source rows.
const movedBase = 1 << 30

func newClauses(job *IntoJob) (*clauses, error) {
	layout, err := layoutOf(job.Read, nil)
	if err != nil {
		return nil, err
	}
	c := &clauses{job: job, files: map[deltatable.FileKey]*fileResult{}, rows: map[int32]insertRow{}}
	now := job.At
	if now.IsZero() {
		now = job.now()
	}
	c.bound, err = statement.Bind(job.Statement, layout.Schema(), job.Source.Schema, job.Evolve,
		&statement.Options{Zone: job.Zone, Now: now})
	if err != nil {
		return nil, err
	}
	create, err := c.evolved()
	if err != nil {
		return nil, err
	}
	if create != nil {
		if layout, err = deltatable.NewLayout(create); err != nil {
			return nil, err
		}
	}
	if c.source, err = newSourceRows(job.Source, c.bound, job.Dropped); err != nil {
		return nil, err
	}
	c.engine, err = newEngine(settings{
		table: job.Table, read: job.Read, identifier: job.Identifier, runID: job.RunID, tags: job.Tags,
		beforeCommit: job.BeforeCommit, retry: job.Retry, now: job.now, workers: workersOrAll(job.Workers, job.Table),
		checkRetries: job.CheckRetries, files: fileRows(job.Source), metadata: create,
	}, c, layout, nil)
	return c, err
}

// evolved is the table's metadata with the columns that the statement adds; nil
// if it adds none.
func (c *clauses) evolved() (*deltatable.Metadata, error) {
	if len(c.bound.Added) == 0 {
		return nil, nil
	}
	sch := c.bound.Target
	return deltatable.WithColumns(c.job.Read.Metadata(), c.job.Read.Protocol(), sch.Fields()[sch.NumFields()-len(c.bound.Added):])
}

// plan implements mode.
func (c *clauses) plan(ctx context.Context, snap *deltatable.Snapshot, s *Stats) error {
	c.snap, c.files = snap, map[deltatable.FileKey]*fileResult{}
	return c.judge(ctx, snap.Files(), s)
}

// rebase implements mode. Files that are gone take their results with them; all
// keys are looked for in all added files, and BY SOURCE clauses see these whole.
func (c *clauses) rebase(ctx context.Context, snap *deltatable.Snapshot, added []*deltatable.Add, s *Stats) error {
	if c.job.Self {
		return &RefusedError{Reason: "the source is the target itself, and another writer changed it meanwhile"}
	}
	c.snap = snap
	for key, res := range c.files {
		if _, live := snap.File(key); live {
			continue
		}
		for _, id := range res.moved {
			c.moved[id-movedBase].dead = true
		}
		delete(c.files, key)
	}
	return c.judge(ctx, added, s)
}

// judge works out the results of files and then what is inserted.
func (c *clauses) judge(ctx context.Context, files []*deltatable.Add, s *Stats) error {
	s.FilesLive = len(c.snap.Files())
	reach := c.reached(files)
	s.FilesProbed += len(reach)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.engine.workers)
	for _, f := range reach {
		g.Go(func() error { return c.judgeFile(gctx, f) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, f := range reach { // in the order of files, so that numbers do not depend on the schedule (I10)
		r := c.files[c.snap.KeyOf(f)]
		for _, m := range r.moves {
			r.moved = append(r.moved, movedBase+int32(len(c.moved)))
			c.moved = append(c.moved, m)
		}
		r.moves = nil
	}
	if err := c.insertions(); err != nil {
		return err
	}
	s.Inserted, s.Updated, s.Deleted = int64(len(c.inserts)), 0, 0
	for _, r := range c.files {
		s.Updated, s.Deleted = s.Updated+r.updated, s.Deleted+r.deleted
	}
	return nil
}

// reached are the files that the statement may read or change: those that the
// source's keys and the conditions on the target alone cannot rule out, and
// those that a BY SOURCE clause can reach (I4).
func (c *clauses) reached(files []*deltatable.Add) []*deltatable.Add {
	var out []*deltatable.Add
	for _, f := range files {
		bounds := c.boundsOf(f)
		if c.mayMatch(bounds) || c.mayLack(bounds) {
			out = append(out, f)
		}
	}
	return out
}

// boundsOf gives the statistics of a file by the names of the pair.
func (c *clauses) boundsOf(f *deltatable.Add) func(string) ordered.Bounds {
	prefix := c.bound.TargetColumn("")
	return func(column string) ordered.Bounds {
		name, ok := strings.CutPrefix(column, prefix)
		if !ok || !c.snap.Schema().HasField(name) {
			return ordered.Unknown()
		}
		return c.snap.Bounds(f, name)
	}
}

func (c *clauses) mayMatch(bounds func(string) ordered.Bounds) bool {
	if c.source.total == 0 || c.job.NoMatch {
		return false
	}
	for _, e := range c.bound.TargetOnly {
		if !e.MayMatch(bounds) {
			return false
		}
	}
	for k, key := range c.bound.Keys {
		if key.Column != "" && !key.NullSafe && bounds(c.bound.TargetColumn(key.Column)).Excludes(c.source.sorted[k]) {
			return false
		}
	}
	return true
}

func (c *clauses) mayLack(bounds func(string) ordered.Bounds) bool {
	for _, b := range c.bound.Branches {
		if b.When == statement.NotMatchedBySource && (b.Condition == nil || b.Condition.MayMatch(bounds)) {
			return true
		}
	}
	return false
}

// insertions finds the source rows that no target row matched and makes the new
// rows of those for which a clause applies.
func (c *clauses) insertions() error {
	matched := make([]bool, c.source.total)
	for _, r := range c.files {
		for _, m := range r.sources {
			matched[m.row] = true
		}
	}
	c.inserts = c.inserts[:0]
	var missing []int32
	for n := range c.source.total {
		if matched[n] || c.source.drops(n) {
			continue
		}
		if _, made := c.rows[n]; !made {
			missing = append(missing, n)
		}
		c.inserts = append(c.inserts, n)
	}
	for part := range slices.Chunk(missing, writeRows) {
		if err := c.makeInserts(part); err != nil {
			return err
		}
	}
	c.inserts = slices.DeleteFunc(c.inserts, func(n int32) bool { return c.rows[n].none })
	return nil
}

// makeInserts evaluates the insert clauses for source rows.
func (c *clauses) makeInserts(ns []int32) error {
	picks := make([]rows.Pick, len(ns))
	for i, n := range ns {
		rec, row := c.source.find(n)
		picks[i] = rows.Pick{Source: int32(rec), Row: row}
		c.rows[n] = insertRow{none: true}
	}
	all := make([]int, len(ns))
	for i := range all {
		all[i] = i
	}
	ev := &evaluation{c: c, source: c.source.recs, sourcePicks: picks, where: func(i int) string { return c.sourceText(ns[i]) }}
	chosen, err := ev.choose(statement.NotMatched, all)
	if err != nil {
		return err
	}
	for branch, which := range chosen {
		if len(which) == 0 {
			continue
		}
		rec, err := ev.values(branch, which)
		if err != nil {
			return err
		}
		for k, i := range which {
			part, err := c.partition(rec, k)
			if err != nil {
				return err
			}
			c.rows[ns[i]] = insertRow{rec: rec, row: int32(k), part: part}
		}
	}
	return nil
}

func (c *clauses) partition(rec arrow.RecordBatch, row int) (deltatable.Partition, error) {
	if c.engine.plain {
		return c.engine.whole, nil
	}
	return c.engine.layout.Partition(rec, row)
}

// sourceText names a source row for messages.
func (c *clauses) sourceText(n int32) string {
	for _, f := range c.job.Source.Files {
		var size int32
		for _, rec := range f.Records {
			size += int32(rec.NumRows())
		}
		if n < size {
			return fmt.Sprintf("source %s row %d", f.Name, n+1)
		}
		n -= size
	}
	return "source"
}
