package merge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// lawOptions are what must make no difference to any state or outcome.
type lawOptions struct {
	targetSize, checkpoint string // table properties, "" for the default
	workers                int
}

func randomOptions(r *rand.Rand) lawOptions {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	return lawOptions{targetSize: pick("", "8", "8", "3000", "100kb"), checkpoint: pick("", "1", "2", "3"), workers: 1 + r.IntN(4)}
}

// lawTable is one table with its oracle; every batch that it applies is checked
// against both the oracle and the laws of merge-semantics 3.3.
type lawTable struct {
	world  *tabletest.World
	opts   lawOptions
	rng    *rand.Rand
	table  *deltatable.Table
	oracle *tabletest.Oracle
	snap   *deltatable.Snapshot // of the latest version; nil: no table yet
	rows   map[string]tabletest.Row
	then   []map[string]tabletest.Row // rows by version
	ids    int64                      // transaction identifiers used
	seen   *tally
}

// applied is what became of a batch.
type applied struct {
	outcomes         []change.Outcome
	refused, version bool
}

func newLawTable(ctx context.Context, w *tabletest.World, o lawOptions, r *rand.Rand, seen *tally) (*lawTable, error) {
	store, err := blobstore.Open(ctx, "mem://"+uuid.NewString())
	if err != nil {
		return nil, err
	}
	return &lawTable{
		world: w, opts: o, rng: r, oracle: w.Oracle(), seen: seen, rows: map[string]tabletest.Row{},
		table: deltatable.NewTable(store, &deltatable.Options{Workers: o.workers}),
	}, nil
}

// job is a run of the batch, cut into files and records at random.
func (l *lawTable) job(b tabletest.Batch) (*merge.Job, error) {
	batch := &merge.Batch{Name: "batch", Digest: fmt.Sprintf("%064x", l.rng.Uint64()), Schema: l.world.Input}
	present := map[string]bool{}
	for _, f := range l.world.Input.Fields() {
		present[f.Name] = true
	}
	for i, part := range cut(l.rng, b, 3) {
		f := merge.InputFile{Name: fmt.Sprintf("%d.jsonl", i), Present: present}
		for _, piece := range cut(l.rng, part, 2) {
			f.Records = append(f.Records, piece.Records(l.world.Input)...)
		}
		batch.Files = append(batch.Files, f)
	}
	job := &merge.Job{
		Table: l.table, Read: l.snap, Batch: batch, Roles: l.world.Roles, RunID: uuid.NewString(), CheckRetries: true,
		Retry: &deltatable.Retry{Max: 50, Sleep: noSleep}, Workers: l.opts.workers,
	}
	if l.snap == nil {
		var err error
		if job.Create, err = l.create(); err != nil {
			return nil, err
		}
	}
	return job, nil
}

func cut(r *rand.Rand, b tabletest.Batch, n int) []tabletest.Batch {
	if r.IntN(2) == 0 {
		return []tabletest.Batch{b}
	}
	return b.Split(r, n)
}

func (l *lawTable) create() (*merge.NewTable, error) {
	sch, err := deltatable.SchemaFromArrow(arrow.NewSchema(l.world.Table.Fields(), nil))
	if err != nil {
		return nil, err
	}
	props := l.world.Roles.Properties()
	for k, v := range map[string]string{"delta.targetFileSize": l.opts.targetSize, "delta.checkpointInterval": l.opts.checkpoint} {
		if v != "" {
			props[k] = v
		}
	}
	md, protocol, err := deltatable.NewTableMetadata(sch, l.world.Partition, props)
	return &merge.NewTable{Metadata: md, Protocol: protocol}, err
}

// apply folds a batch and checks what came of it. A winner, if there is one, is
// folded between the decisions and the commit of the batch's first attempt.
func (l *lawTable) apply(ctx context.Context, b tabletest.Batch, id *deltatable.Txn, winner *tabletest.Batch) (*applied, error) {
	job, err := l.job(b)
	if err != nil {
		return nil, err
	}
	job.Identifier = id
	attempt := 0
	var lost error
	onEachErr(job, func() error {
		if attempt++; attempt == 1 && winner != nil {
			l.seen.winners.Add(1)
			_, lost = l.apply(ctx, *winner, nil, nil)
		}
		return lost
	})
	known := false
	if l.snap != nil && id != nil {
		v, ok := l.snap.AppVersion(id.AppID)
		known = ok && v >= id.Version
	}
	res, err := merge.Run(ctx, job)
	var refusal *merge.RefusedError
	if err != nil && !errors.As(err, &refusal) {
		return nil, err
	}
	got := &applied{refused: refusal != nil, version: res.Version != nil}
	for _, f := range res.Outcomes {
		got.outcomes = append(got.outcomes, f...)
	}
	if res.AlreadyApplied != known {
		return nil, fmt.Errorf("already applied is %v, want %v", res.AlreadyApplied, known)
	}
	if known {
		return got, l.unchanged(ctx, res)
	}
	before := l.oracle.Clone()
	want, refused := l.oracle.Apply(b)
	if refused != got.refused {
		return nil, fmt.Errorf("refused is %v (%w), want %v: %v", got.refused, err, refused, want)
	}
	if !slices.Equal(got.outcomes, want) {
		return nil, fmt.Errorf("outcomes (-want +got):\n%s", cmp.Diff(want, got.outcomes))
	}
	l.seen.rows.Add(int64(len(b.Rows)))
	if res.Version == nil {
		return got, l.unchanged(ctx, res)
	}
	return got, l.advance(ctx, b, res, before)
}

// unchanged: a run without a commit left the table as it was.
func (l *lawTable) unchanged(ctx context.Context, res *merge.Result) error {
	if res.Version != nil {
		return fmt.Errorf("a version %d was made", *res.Version)
	}
	snap, err := l.table.Snapshot(ctx)
	if l.snap == nil {
		if !errors.Is(err, deltatable.ErrNoTable) {
			return fmt.Errorf("the table is there (%w)", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if snap.Version() != l.snap.Version() {
		return fmt.Errorf("the table went from version %d to %d without a commit", l.snap.Version(), snap.Version())
	}
	if d := l.oracle.Diff(slices.Collect(maps.Values(l.rows))); d != "" {
		return fmt.Errorf("no commit, and yet the state should differ:\n%s", d)
	}
	return nil
}

// advance reads the version that a batch made and checks it.
func (l *lawTable) advance(ctx context.Context, b tabletest.Batch, res *merge.Result, before *tabletest.Oracle) error {
	l.seen.commits.Add(1)
	old := l.snap
	want := deltatable.Version(0)
	if old != nil {
		want = old.Version() + 1
	}
	if *res.Version != want {
		return fmt.Errorf("version %d was made, want %d", *res.Version, want)
	}
	if err := l.table.PostCommit(ctx, *res.Version); err != nil {
		return err
	}
	var err error
	if old != nil && l.rng.IntN(2) == 0 {
		l.snap, err = l.table.Refresh(ctx, old)
	} else {
		l.snap, err = l.table.Snapshot(ctx)
	}
	if err != nil {
		return err
	}
	if l.snap.Version() != want {
		return fmt.Errorf("the latest version is %d, want %d", l.snap.Version(), want)
	}
	rows, err := readRows(ctx, l.snap)
	if err != nil {
		return err
	}
	if d := l.oracle.Diff(rows); d != "" { // law 6 too: it finds keys with several rows
		return fmt.Errorf("state:\n%s", d)
	}
	now := l.byKey(rows)
	if len(now) != len(rows) {
		return fmt.Errorf("law 6: %d rows of %d keys", len(rows), len(now))
	}
	if err := l.lawsBetween(b, l.rows, now, before); err != nil {
		return err
	}
	if err := l.rowsAddUp(ctx, old, want, now); err != nil {
		return err
	}
	l.rows, l.then = now, append(l.then, now)
	l.seen.files(l.snap)
	return l.digest(ctx, want)
}

func (l *lawTable) byKey(rows []tabletest.Row) map[string]tabletest.Row {
	m := make(map[string]tabletest.Row, len(rows))
	for _, r := range rows {
		m[l.oracle.KeyOf(r)] = r
	}
	return m
}

func readRows(ctx context.Context, snap *deltatable.Snapshot) ([]tabletest.Row, error) {
	var rows []tabletest.Row
	for rec, err := range snap.Scan(ctx, nil) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, tabletest.Rows(rec)...)
	}
	return rows, nil
}

// lawsBetween checks laws 3 and 4 on the rows as read before and after a batch.
func (l *lawTable) lawsBetween(b tabletest.Batch, was, is map[string]tabletest.Row, before *tabletest.Oracle) error {
	inBatch := map[string]bool{}
	for _, r := range b.Rows {
		inBatch[before.KeyOf(r)] = true
	}
	for key, old := range was {
		row, ok := is[key]
		if !ok {
			return fmt.Errorf("law 4: the row of %s is gone", key)
		}
		if !inBatch[key] && !tabletest.SameRow(old, row) {
			return fmt.Errorf("law 4: %s is not in the batch and went from %v to %v", key, old, row)
		}
		for _, c := range l.world.Roles.Versions {
			o := tabletest.Compare(row[c], old[c])
			if o < 0 {
				return fmt.Errorf("law 3: the version of %s went from %v to %v", key, old, row)
			}
			if o > 0 {
				break
			}
		}
	}
	for key := range is {
		if _, was := was[key]; !was && !inBatch[key] {
			return fmt.Errorf("law 4: %s is new and not in the batch", key)
		}
	}
	return nil
}

// rowsAddUp checks law 5 by the footers of the files that the version's entry
// names: those removed, plus new keys, are those added.
func (l *lawTable) rowsAddUp(ctx context.Context, old *deltatable.Snapshot, v deltatable.Version, now map[string]tabletest.Row) error {
	e, err := l.table.Entry(ctx, v)
	if err != nil {
		return err
	}
	var removed, added int64
	for _, a := range e.Actions {
		switch {
		case a.Add != nil:
			n, err := footer(ctx, l.snap, a.Add)
			if err != nil {
				return err
			}
			added += n
		case a.Remove != nil:
			was, ok := old.File(deltatable.FileKey{Path: a.Remove.Path})
			if !ok {
				return fmt.Errorf("law 5: version %d removes %s, which was not live", v, a.Remove.Path)
			}
			n, err := footer(ctx, old, was)
			if err != nil {
				return err
			}
			removed += n
		}
	}
	inserted := int64(len(now) - len(l.rows))
	if removed+inserted != added {
		return fmt.Errorf("law 5: version %d removed %d rows, inserted %d and added %d", v, removed, inserted, added)
	}
	if got := e.Info.Tags[change.TagInserts]; got != strconv.FormatInt(inserted, 10) {
		return fmt.Errorf("version %d says that it inserted %s rows, it inserted %d", v, got, inserted)
	}
	return nil
}

func footer(ctx context.Context, snap *deltatable.Snapshot, a *deltatable.Add) (int64, error) {
	r, err := snap.OpenFile(ctx, a)
	if err != nil {
		return 0, err
	}
	return r.NumRows(), r.Close()
}

// digest compares the digest that the version recorded with its rows.
func (l *lawTable) digest(ctx context.Context, v deltatable.Version) error {
	e, err := l.table.Entry(ctx, v)
	if err != nil {
		return err
	}
	sum, err := merge.CheckTable(ctx, l.snap, l.world.Roles)
	if err != nil {
		return err
	}
	if got := e.Info.Tags[change.TagTableDigest]; got != sum.String() {
		return fmt.Errorf("version %d records digest %s, its rows give %s", v, got, sum)
	}
	return nil
}

// travel reads every version again and compares it with what it held when it
// was the latest.
func (l *lawTable) travel(ctx context.Context) error {
	for v, want := range l.then {
		snap, err := l.table.SnapshotAt(ctx, deltatable.Version(v))
		if err != nil {
			return err
		}
		rows, err := readRows(ctx, snap)
		if err != nil {
			return err
		}
		got := l.byKey(rows)
		if len(rows) != len(want) || !maps.EqualFunc(got, want, tabletest.SameRow) {
			return fmt.Errorf("version %d, read again, has other rows", v)
		}
	}
	return nil
}

// noOrphans: every data file is named by some version; attempts that were lost,
// refused or idle left none behind.
func (l *lawTable) noOrphans(ctx context.Context) error {
	named := map[string]bool{}
	for v := range l.then {
		e, err := l.table.Entry(ctx, deltatable.Version(v))
		if err != nil {
			return err
		}
		for _, a := range e.Actions {
			if a.Add == nil {
				continue
			}
			key, err := url.PathUnescape(a.Add.Path)
			if err != nil {
				return err
			}
			named[key] = true
		}
	}
	for info, err := range l.table.Store().List(ctx, "", "") {
		if err != nil {
			return err
		}
		if strings.HasSuffix(info.Key, ".parquet") && !strings.HasPrefix(info.Key, "_delta_log/") && !named[info.Key] {
			return fmt.Errorf("data file %s is named by no version", info.Key)
		}
	}
	return nil
}
