package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/faultproxy"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/internal/storeserver"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge/change"
)

// TestRandomFaultsOnS3 has two to four writers fold random batches into one table
// on an S3 server at once, all through a proxy that has requests fail in every
// way. Afterwards every version is what the oracle makes of the commits in their
// order: no commit is lost, doubled or came of a run that failed, no version is
// missing, outcomes are those of the landed commits, once a run, and the audit
// finds nothing. Runs that were undecided are settled by --resume or by looking.
func TestRandomFaultsOnS3(t *testing.T) {
	s := s3Server(t)
	first, runs := seed(t), share(1000, 40)
	if raceEnabled {
		runs = min(runs, 40)
	}
	total, faults, began := map[string]int{}, map[string]int{}, time.Now()
	longest, slowest := time.Duration(0), uint64(0)
	var mu sync.Mutex
	next := make(chan int)
	var workers sync.WaitGroup
	for range 3 { // most of a run's time it waits
		workers.Go(func() {
			for i := range next {
				at := time.Now()
				var c *s3Chaos
				ended := t.Run(fmt.Sprint(first+uint64(i)), func(t *testing.T) {
					c = newS3Chaos(t, s, first+uint64(i))
					c.run()
				})
				if !ended {
					t.Errorf("run %d: %s=%d makes it the first run", i, envSeed, first+uint64(i))
					continue
				}
				mu.Lock()
				if took := time.Since(at); took > longest {
					longest, slowest = took, first+uint64(i)
				}
				add(total, c.counts)
				add(faults, c.proxy.Faults())
				total["requests"] += c.proxy.Total().Requests
				mu.Unlock()
			}
		})
	}
	for i := range runs {
		if !t.Failed() {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d runs in %s, the longest %s (%d): %v", runs, time.Since(began).Round(time.Second), longest.Round(time.Millisecond), slowest, total)
	t.Logf("faults: %v", faults)
	if runs < 200 {
		return // few runs may miss what is rare
	}
	for _, k := range []string{"applied", "undecided", "failed", "unchanged", "retries", "resumed and found", "resumed and not found", "looked for"} {
		if total[k] == 0 {
			t.Errorf("no run met %s", k)
		}
	}
	for _, r := range wireFaults() {
		if faults[r.Fault.Name] == 0 {
			t.Errorf("no run met the fault %s", r.Fault.Name)
		}
	}
}

func add(sum, n map[string]int) {
	for k, v := range n {
		sum[k] += v
	}
}

// wireFaults are the faults of random runs; P weighs them.
func wireFaults() []faultproxy.Rate {
	write := (*faultproxy.Request).Write
	get := func(r *faultproxy.Request) bool { return r.Method == http.MethodGet } // listings too
	conditional := func(r *faultproxy.Request) bool { return r.Conditional && r.Write() }
	named := func(name string, f faultproxy.Fault) faultproxy.Fault { f.Name = name; return f }
	return []faultproxy.Rate{
		{P: 1, Fault: named("throttled", faultproxy.SlowDown())},
		{P: 1, Fault: named("too many requests", faultproxy.TooManyRequests())},
		{P: 1, Fault: named("500", faultproxy.InternalError())},
		{P: 2, When: write, Fault: named("500 after the work", faultproxy.InternalErrorAfter())},
		{P: 1, Fault: faultproxy.Fault{Name: "reset", Kind: faultproxy.Reset}},
		{P: 2, Fault: faultproxy.Fault{Name: "answer lost", Kind: faultproxy.LoseAnswer}},
		{P: 1, When: get, Fault: faultproxy.Fault{Name: "reset in the body", Kind: faultproxy.ResetBody}},
		{P: 1, When: get, Fault: faultproxy.Fault{Name: "short body", Kind: faultproxy.ShortBody}},
		{P: 1, When: get, Fault: faultproxy.Fault{Name: "shorter body", Kind: faultproxy.ShorterBody, Cut: wholeLines}},
		{P: 1, Fault: faultproxy.Fault{Name: "wrong ETag", Kind: faultproxy.WrongETag}},
		{P: 2, When: write, Fault: faultproxy.Fault{Name: "late, by hand", Kind: faultproxy.Late}},
		{P: 2, When: write, Fault: faultproxy.Fault{Name: "late, after the next", Kind: faultproxy.Late, Next: true}},
		{P: 2, When: write, Fault: faultproxy.Fault{Name: "late, after 5 ms", Kind: faultproxy.Late, After: 5 * time.Millisecond}},
		{P: 8, When: conditional, Fault: named("conflict", faultproxy.Conflict())},
		{P: 0.5, Fault: faultproxy.Fault{Name: "slow", Delay: 20 * time.Millisecond}},
		{P: 0.5, Fault: named("denied", faultproxy.AccessDenied())},
		{P: 0.5, Fault: named("token expired", faultproxy.ExpiredToken())},
	}
}

// wholeLines cuts a body at the end of a line, where it may look whole.
func wholeLines(body []byte) int {
	for i := len(body) / 2; i > 0; i-- {
		if body[i-1] == '\n' {
			return i
		}
	}
	return len(body) / 2
}

// s3Chaos is one random run of several writers on an S3 server.
type s3Chaos struct {
	*chaos
	proxy *faultproxy.Proxy
	mu    sync.Mutex // of chaos, while writers run
	open  []*unsettled
}

// unsettled is a run whose commit was undecided.
type unsettled struct {
	batch, point string
}

func newS3Chaos(t *testing.T, s *storeserver.Server, seed uint64) *s3Chaos {
	t.Helper()
	w := newWire(t, s)
	return &s3Chaos{chaos: newChaos(t, w.faulty, seed), proxy: w.proxy}
}

// wire is a table on an S3 server; the writer under test reaches it through a
// proxy, the others do not.
type wire struct {
	*faulty
	server *storeserver.Server
	proxy  *faultproxy.Proxy
	stats  *blobstore.Stats // of the writer under test
}

func newWire(t *testing.T, s *storeserver.Server) *wire {
	t.Helper()
	f := &faulty{
		t: t, dir: t.TempDir(), url: (&place{root: s.URL()}).table(),
		plain: &pipeline.Env{Workers: 2, Retry: &deltatable.Retry{Max: 20, Sleep: noWait}},
	}
	w := &wire{faulty: f, server: s, stats: &blobstore.Stats{}}
	w.proxy = faultproxy.New(t, s.Endpoint, &faultproxy.Options{
		Credentials: &faultproxy.Credentials{AccessKey: s.AccessKey, SecretKey: s.SecretKey},
	})
	f.env = &pipeline.Env{
		Workers: 2, Store: &blobstore.Config{Endpoint: w.proxy.URL(), Stats: w.stats, Sleep: yield},
		Retry: &deltatable.Retry{Sleep: yield}, Undecided: &deltatable.Retry{Max: 3, Sleep: yield},
	}
	f.plain.Open, f.env.Open = kept(nil), kept(f.env.Store)
	return w
}

// kept opens each store once: to read the SDK's configuration takes longer than
// many a run.
func kept(config *blobstore.Config) func(context.Context, string) (*blobstore.Store, error) {
	var mu sync.Mutex
	stores := map[string]*blobstore.Store{}
	return func(ctx context.Context, url string) (*blobstore.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if s := stores[url]; s != nil {
			return s, nil
		}
		s, err := blobstore.OpenWith(ctx, url, config)
		if err == nil {
			stores[url] = s
		}
		return s, err
	}
}

// yield is a short wait of what would be a longer one.
func yield(ctx context.Context, _ time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(rand.IntN(int(2 * time.Millisecond)))):
		return nil
	}
}

func (c *s3Chaos) run() {
	c.t.Helper()
	if c.rng.IntN(4) > 0 { // otherwise the writers race to make the table
		if _, err := c.apply(c.plain, nil); err != nil && c.world.Roles.Policy != change.Reject {
			c.t.Fatal(err)
		}
	}
	writers := 2 + c.rng.IntN(3)
	type job struct {
		name string
		*pipeline.ApplyJob
	}
	jobs := make([][]job, writers)
	for w := range jobs {
		for range 1 + c.rng.IntN(2) {
			name, j := c.prepareNext(nil)
			jobs[w] = append(jobs[w], job{name, j})
		}
	}
	c.proxy.SetDecide(c.decide())
	var wg sync.WaitGroup
	for w := range jobs {
		wg.Go(func() {
			for _, j := range jobs[w] {
				c.write(j.name, j.ApplyJob)
			}
		})
	}
	wg.Wait()
	c.proxy.SetDecide(nil)
	c.proxy.Land()
	c.settle()
	c.counts["faults"] = len(c.proxy.Faults())
	if len(c.reports) == 0 { // perhaps there is no table
		name, j := c.prepareNext(nil)
		rep, err := pipeline.Apply(c.t.Context(), c.plain, j)
		c.record(name, rep, err)
		if err != nil {
			if c.world.Roles.Policy != change.Reject {
				c.t.Fatal(err)
			}
			return
		}
	}
	if _, err := pipeline.RepairOutcomes(c.t.Context(), c.plain, c.url); err != nil {
		c.t.Fatal(err)
	}
	c.check()
}

// prepareNext is prepare for a table that may be there.
func (c *s3Chaos) prepareNext(b *tabletest.Batch) (string, *pipeline.ApplyJob) {
	name, j := c.prepare(b)
	j.Properties = nil
	return name, j
}

// decide is a random choice of faults for one run: some of the kinds, more or
// less often, and sometimes no clear answer to any put of the log.
func (c *s3Chaos) decide() faultproxy.Decide {
	often := []float64{0.003, 0.01, 0.03}[c.rng.IntN(3)]
	var rates []faultproxy.Rate
	for _, r := range wireFaults() {
		if c.rng.IntN(3) == 0 {
			r.P *= often
			rates = append(rates, r)
		}
	}
	// Puts of the log without a clear answer, of one kind or of several.
	if c.rng.IntN(3) == 0 {
		var silent []faultproxy.Rate
		for _, r := range wireFaults() {
			if slices.Contains([]faultproxy.Kind{faultproxy.LoseAnswer, faultproxy.Late, faultproxy.RefuseAfter}, r.Fault.Kind) {
				silent = append(silent, r)
			}
		}
		c.rng.Shuffle(len(silent), func(i, j int) { silent[i], silent[j] = silent[j], silent[i] })
		silent = silent[:1+c.rng.IntN(2)]
		for i, r := range silent {
			r.P = []float64{0.3, 0.8, 1}[c.rng.IntN(3)] / float64(len(silent)-i)
			r.When = func(q *faultproxy.Request) bool { return q.Log() && q.Method == http.MethodPut }
			rates = append([]faultproxy.Rate{r}, rates...)
		}
	}
	return faultproxy.Random(c.rng.Uint64(), rates...)
}

// write is one run of a writer; an undecided one is resumed at once, or left to
// settle.
func (c *s3Chaos) write(name string, j *pipeline.ApplyJob) {
	rep, err := pipeline.Apply(c.t.Context(), c.env, j)
	c.note(name, rep, err)
}

func (c *s3Chaos) note(name string, rep *pipeline.ApplyReport, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record(name, rep, err)
	if undecided, ok := errors.AsType[*deltatable.UndecidedError](err); ok {
		c.open = append(c.open, &unsettled{name, pipeline.ResumePoint(undecided)})
	}
}

// settle resumes half of the undecided runs, and looks for the others in the log:
// check does, as it takes them for made if they are there.
func (c *s3Chaos) settle() {
	for len(c.open) > 0 {
		u := c.open[0]
		c.open = c.open[1:]
		if c.rng.IntN(2) == 0 {
			c.counts["looked for"]++
			continue
		}
		b := c.batches[u.batch]
		again, j := c.prepareNext(&b)
		j.Resume = u.point
		rep, err := pipeline.Apply(c.t.Context(), c.plain, j)
		if err == nil && rep.Batch == u.batch {
			c.counts["resumed and found"]++
			again = u.batch
		} else {
			c.counts["resumed and not found"]++
		}
		c.note(again, rep, err)
	}
}
