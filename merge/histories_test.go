package merge_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge/change"
)

// Floors of TestLaws; a quarter of the histories without DELTAFOLD_SOAK.
const (
	lawHistories = 2000
	lawCommits   = 3    // of each history, at least
	largeBatch   = 8193 // rows; one history in largeEvery has such batches
	largeEvery   = 100
)

// tally counts what the histories met.
type tally struct {
	histories, batches, rows, commits, refused, winners, replays atomic.Int64
	identifiers, permuted, permutedRefused, options, travelled   atomic.Int64
	large, manyFiles                                             atomic.Int64

	mu    sync.Mutex
	kinds map[string]int
}

func (c *tally) kind(k string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = map[string]int{}
	}
	c.kinds[k]++
}

func (c *tally) world(w *tabletest.World) {
	r := w.Roles
	types := func(prefix string, names []string) (s string) {
		for _, n := range names {
			s += " " + w.Input.Field(w.Input.FieldIndices(n)[0]).Type.Name()
		}
		return prefix + s
	}
	c.kind(types("key", r.Keys))
	c.kind(types("version", r.Versions))
	for _, p := range r.Payload {
		c.kind(types("payload", []string{p}))
	}
	c.kind("policy " + string(r.Policy))
	c.kind("status " + string(r.StatusForm))
	switch {
	case len(w.Partition) == 0:
		c.kind("partition none")
	case slices.Contains(r.Keys, w.Partition[0]):
		c.kind("partition key")
	default:
		c.kind("partition payload")
	}
}

func (c *tally) files(s *deltatable.Snapshot) {
	if len(s.Files()) > 1 {
		c.manyFiles.Add(1)
	}
}

// soak is the number of cases that a test makes: n under DELTAFOLD_SOAK, a
// quarter otherwise, few under the race detector.
func soak(n int) int {
	switch {
	case os.Getenv("DELTAFOLD_SOAK") != "":
		return n
	case raceEnabled:
		return (n + 39) / 40
	}
	return (n + 3) / 4
}

// testSeed is the seed of a test's first case; case i has seed+i.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("DELTAFOLD_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d (DELTAFOLD_SEED=%d makes this run again)", s, s)
	return s
}

// TestLaws folds random histories and checks laws 1 to 6 of merge-semantics 3.3
// and the oracle after each batch.
func TestLaws(t *testing.T) {
	seed, n, seen := testSeed(t), soak(lawHistories), &tally{}
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			h := history{seed: seed + uint64(i), seen: seen}
			h.large = h.seed%largeEvery == largeEvery/2 // by the seed alone, so that it can be made again
			if err := h.run(ctx); err != nil {
				return fmt.Errorf("history %d (DELTAFOLD_SEED=%d, large %v): %w", i, h.seed, h.large, err)
			}
			seen.histories.Add(1)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d histories, %d batches of %d rows, %d commits, %d batches refused; %d winners in between, %d replays, %d with identifiers; "+
		"%d permuted and split (%d more refused in another split), %d repeated under other options, %d read back; "+
		"%d large batches, %d versions of several files",
		seen.histories.Load(), seen.batches.Load(), seen.rows.Load(), seen.commits.Load(), seen.refused.Load(), seen.winners.Load(),
		seen.replays.Load(), seen.identifiers.Load(), seen.permuted.Load(), seen.permutedRefused.Load(), seen.options.Load(),
		seen.travelled.Load(), seen.large.Load(), seen.manyFiles.Load())
	for _, k := range slices.Sorted(maps.Keys(seen.kinds)) {
		t.Logf("%5d %s", seen.kinds[k], k)
	}
	if raceEnabled {
		return // too few histories to meet everything
	}
	if seen.histories.Load() < int64(n) || seen.commits.Load() < int64(n*lawCommits) || seen.large.Load() < int64(n/largeEvery) {
		t.Error("fewer histories, commits or large batches than the floor")
	}
	for _, k := range []string{
		"key utf8", "key int64", "key utf8 utf8", "key int32 utf8 date32", "key decimal", "key date32", "key timestamp",
		"policy quarantine", "policy reject", "status word", "status boolean", "status none",
		"partition none", "partition key", "partition payload",
	} {
		if seen.kinds[k] == 0 {
			t.Errorf("no history with %s", k)
		}
	}
}

// TestLawsAcrossRowGroups is a history whose first batch fills more than one row
// group of one file.
func TestLawsAcrossRowGroups(t *testing.T) {
	if raceEnabled {
		t.Skip("as large as it has to be, it takes minutes under the race detector")
	}
	seed, seen := testSeed(t), &tally{}
	for i := range soak(4) {
		h := history{seed: seed + uint64(i), large: true, seen: seen, rng: tabletest.NewRand(seed + uint64(i))}
		for h.world == nil || len(h.world.Partition) > 0 || h.world.Input.Field(h.world.Input.FieldIndices(h.world.Roles.Keys[0])[0]).Type.ID() == arrow.BOOL {
			h.world = tabletest.RandomWorld(h.rng, tabletest.WorldOptions{FlatPayload: true})
		}
		l, err := newLawTable(t.Context(), h.world, lawOptions{workers: 2}, h.rng, seen)
		if err != nil {
			t.Fatal(err)
		}
		rows := []int{rowGroup + 2*largeBatch, largeBatch, 1000}
		for n, least := range rows {
			h.gen = tabletest.NewGen(h.seed, tabletest.GenOptions{
				World: h.world, Keys: rowGroup * 16, MinRows: least, MaxRows: least, Versions: 6 + 100*n, Invalid: -1, Conflicts: -1, Replays: -1, Repeats: -1,
			})
			if _, err := l.apply(t.Context(), complete(h.world, h.gen.Batch()), nil, nil); err != nil {
				t.Fatalf("batch %d: %v", n, err)
			}
			if n == 0 && !slices.ContainsFunc(l.snap.Files(), func(a *deltatable.Add) bool { return groups(t, l.snap, a) > 1 }) {
				t.Fatalf("no file of %d has several row groups", len(l.snap.Files()))
			}
		}
		if len(l.then) < lawCommits {
			t.Errorf("%d commits", len(l.then))
		}
	}
	t.Logf("%d rows in %d commits", seen.rows.Load(), seen.commits.Load())
}

const rowGroup = 128 << 10 // rows, as deltatable writes them

func groups(t *testing.T, snap *deltatable.Snapshot, a *deltatable.Add) int {
	t.Helper()
	r, err := snap.OpenFile(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.RowGroups()
}

// history is one random history.
type history struct {
	seed  uint64
	large bool // batches of largeBatch rows and more
	seen  *tally

	rng     *rand.Rand
	world   *tabletest.World
	gen     *tabletest.Gen
	batches []tabletest.Batch // in the order in which they took effect
	results []*applied        // nil for winners in between
}

func (h *history) run(ctx context.Context) error {
	h.rng = tabletest.NewRand(h.seed)
	h.choose()
	h.seen.world(h.world)
	l, err := newLawTable(ctx, h.world, randomOptions(h.rng), h.rng, h.seen)
	if err != nil {
		return err
	}
	for n := 0; n < 3+h.rng.IntN(3) || len(l.then) < lawCommits; n++ {
		if n == 40 {
			return fmt.Errorf("%d batches made %d commits", n, len(l.then))
		}
		if err := h.step(ctx, l, n); err != nil {
			return fmt.Errorf("batch %d of %+v: %w", n, l.opts, err)
		}
	}
	if err := h.compare(ctx, l); err != nil {
		return err
	}
	if err := l.noOrphans(ctx); err != nil {
		return err
	}
	if !h.large && h.rng.IntN(4) == 0 {
		h.seen.travelled.Add(1)
		return l.travel(ctx)
	}
	return nil
}

// choose makes the world and the generator.
func (h *history) choose() {
	for {
		h.world = tabletest.RandomWorld(h.rng, tabletest.WorldOptions{FlatPayload: h.large || h.rng.IntN(2) == 0})
		if !h.large || len(h.world.Partition) == 0 || !slices.Contains(h.world.Roles.Keys, h.world.Partition[0]) {
			break // a large history has more keys than partitions are good for
		}
	}
	o := tabletest.GenOptions{World: h.world, Keys: 1 + h.rng.IntN(40), MinRows: 1, MaxRows: 1 + h.rng.IntN(40)}
	if h.large {
		o.Keys, o.MinRows, o.MaxRows = 30000, largeBatch, 20000
	}
	if h.world.Roles.Policy == change.Reject {
		o.Invalid, o.Conflicts = -1, -1
		if !h.large && h.rng.IntN(2) == 0 {
			o.Invalid, o.Conflicts = 15, 40
		}
	}
	h.gen = tabletest.NewGen(h.seed, o)
}

// batch is the next batch, every column of the input in its first row, so that
// the input has them all.
func (h *history) batch(n int) tabletest.Batch {
	b := h.gen.Batch()
	if n >= 10 { // too many were refused: one that is not
		b.Rows = nil
		for k := range 1 + h.rng.IntN(5) {
			row := h.gen.Row(k, 300+n, 0)
			if c := h.world.Roles.ChangeID; c != "" {
				row[c] = "change"
			}
			b.Rows = append(b.Rows, row)
		}
	}
	return complete(h.world, b)
}

func complete(w *tabletest.World, b tabletest.Batch) tabletest.Batch {
	out := tabletest.Batch{Rows: slices.Clone(b.Rows)}
	first := maps.Clone(out.Rows[0])
	for _, f := range w.Input.Fields() {
		if _, ok := first[f.Name]; !ok {
			first[f.Name] = nil
		}
	}
	out.Rows[0] = first
	return out
}

// step folds one batch, now and then with a winner in between, with an
// identifier, and a second time.
func (h *history) step(ctx context.Context, l *lawTable, n int) error {
	b := h.batch(n)
	var winner *tabletest.Batch
	if l.snap != nil && !h.large && h.rng.IntN(4) == 0 {
		w := h.batch(n)
		winner = &w
	}
	var id *deltatable.Txn
	if h.rng.IntN(8) == 0 {
		l.ids++
		id = &deltatable.Txn{AppID: "app", Version: l.ids}
		h.seen.identifiers.Add(1)
	}
	before := len(l.then)
	got, err := l.apply(ctx, b, id, winner)
	if err != nil {
		return err
	}
	if got.refused {
		h.seen.refused.Add(1)
	}
	if winner != nil && len(l.then)-before > btoi(got.version) {
		h.batches, h.results = append(h.batches, *winner), append(h.results, nil)
	}
	h.batches, h.results = append(h.batches, b), append(h.results, got)
	h.seen.batches.Add(1)
	if len(b.Rows) >= largeBatch {
		h.seen.large.Add(1)
	}
	if got.version && id != nil {
		again, err := l.apply(ctx, b, id, nil) // already applied
		if err != nil {
			return fmt.Errorf("with its identifier again: %w", err)
		}
		if again.version {
			return fmt.Errorf("with its identifier again it made a version")
		}
	}
	if h.rng.IntN(2) == 0 {
		h.seen.replays.Add(1)
		again, err := l.apply(ctx, b, nil, nil)
		if err != nil {
			return fmt.Errorf("law 2: the batch again: %w", err)
		}
		if again.version && (got.version || !isFirst(l)) {
			return fmt.Errorf("law 2: the batch again made a version")
		}
	}
	return nil
}

func isFirst(l *lawTable) bool { return len(l.then) == 1 }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compare folds the same changes into a second table: the same batches under
// other options, which must give the same states and outcomes, or a permutation
// and another split of them, which must give the same state (law 1).
func (h *history) compare(ctx context.Context, l *lawTable) error {
	other, err := newLawTable(ctx, h.world, randomOptions(h.rng), h.rng, h.seen)
	if err != nil {
		return err
	}
	if h.rng.IntN(3) == 0 {
		h.seen.options.Add(1)
		return h.repeat(ctx, l, other)
	}
	var all []tabletest.Batch
	for i, b := range h.batches {
		if h.results[i] == nil || !h.results[i].refused {
			all = append(all, b)
		}
	}
	for i, part := range tabletest.Join(all...).Permute(h.rng).Split(h.rng, 5) {
		got, err := other.apply(ctx, complete(h.world, part), nil, nil)
		if err != nil {
			return fmt.Errorf("law 1: part %d of a permutation (%+v): %w", i, other.opts, err)
		}
		if got.refused {
			h.seen.permutedRefused.Add(1)
			return nil
		}
	}
	h.seen.permuted.Add(1)
	return sameRows("law 1: a permutation of the changes", l, other)
}

func (h *history) repeat(ctx context.Context, l, other *lawTable) error {
	for i, b := range h.batches {
		got, err := other.apply(ctx, b, nil, nil)
		if err != nil {
			return fmt.Errorf("batch %d again under %+v: %w", i, other.opts, err)
		}
		if want := h.results[i]; want != nil && (want.refused != got.refused || !slices.Equal(want.outcomes, got.outcomes)) {
			return fmt.Errorf("batch %d has other outcomes under %+v than under %+v", i, other.opts, l.opts)
		}
	}
	return sameRows("the same batches under other options", l, other)
}

func sameRows(what string, a, b *lawTable) error {
	if !maps.EqualFunc(a.rows, b.rows, tabletest.SameRow) {
		return fmt.Errorf("%s: another state:\n%s", what, a.oracle.Diff(slices.Collect(maps.Values(b.rows))))
	}
	return nil
}
