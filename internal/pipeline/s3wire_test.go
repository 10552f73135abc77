package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/faultproxy"
	"github.com/deltafold/deltafold/internal/pipeline"
)

// state is what a table is found to be, by a look past the proxy.
type state struct {
	Version int64
	Rows    []string
}

func (w *wire) state() state {
	w.t.Helper()
	return state{int64(latest(w.t, w.plain, w.url).Version()), w.rows()}
}

func (w *wire) want(want state) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.state()); diff != "" {
		w.t.Errorf("state (-want +got):\n%s", diff)
	}
}

// apply folds rows through the proxy.
func (w *wire) apply(rows ...string) (*pipeline.ApplyReport, error) {
	w.t.Helper()
	return pipeline.Apply(w.t.Context(), w.env, applyJob(w.url, w.file(rows...)))
}

// fresh forgets stores that are open, as a new process has.
func (w *wire) fresh() { w.env.Open = kept(w.env.Store) }

// of matches requests of one kind for keys of the state table that end so.
func (w *wire) of(kind, suffix string) func(*faultproxy.Request) bool {
	prefix := strings.TrimPrefix(w.url, w.server.URL()+"/") + "/"
	return func(r *faultproxy.Request) bool {
		return r.Kind == kind && strings.HasPrefix(r.Key, prefix) && strings.HasSuffix(r.Key, suffix)
	}
}

var (
	twoRows  = []string{"a 1 active x", "b 1 active x"}
	fiveRows = []string{"a 5 active mine", "b 1 active x", "n 1 active mine"}
)

// TestCommitsOnS3 has the put of a commit go wrong once, in every way.
func TestCommitsOnS3(t *testing.T) {
	s := s3Server(t)
	for _, c := range []struct {
		name  string
		fault faultproxy.Fault
	}{
		{"none", faultproxy.Fault{}},
		{"throttled", faultproxy.SlowDown()},
		{"too many requests", faultproxy.TooManyRequests()},
		{"500", faultproxy.InternalError()},
		{"500 after the work", faultproxy.InternalErrorAfter()},
		{"conflict", faultproxy.Conflict()},
		{"reset", faultproxy.Fault{Kind: faultproxy.Reset}},
		{"answer lost", faultproxy.Fault{Kind: faultproxy.LoseAnswer}},
		{"late, by hand", faultproxy.Fault{Kind: faultproxy.Late}},
		{"late, after the next", faultproxy.Fault{Kind: faultproxy.Late, Next: true}},
		{"late, after 1 ms", faultproxy.Fault{Kind: faultproxy.Late, After: time.Millisecond}},
		{"wrong ETag", faultproxy.Fault{Kind: faultproxy.WrongETag}},
		{"slow", faultproxy.Slow(time.Second)},
	} {
		for _, winner := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a winner before the second put %v", c.name, winner), func(t *testing.T) {
				w := newWire(t, s)
				w.other("a 1 upsert x", "b 1 upsert x")
				put, puts := w.of("PutObject", logKey(1)), 0
				w.proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
					if !put(r) {
						return faultproxy.Fault{}
					}
					if puts++; puts == 1 {
						return c.fault
					}
					if puts == 2 && winner {
						w.other("w 1 upsert theirs")
					}
					return faultproxy.Fault{}
				})
				rep, err := w.apply("a 5 upsert mine", "n 1 upsert mine")
				if err != nil {
					t.Fatal(err)
				}
				w.proxy.Land()
				want := state{1, fiveRows}
				if winner && puts > 1 {
					want = state{2, append(fiveRows[:3:3], "w 1 active theirs")}
				}
				w.want(want)
				at := *rep.Version
				lines := []string{fmt.Sprintf("%d %d accepted", at, at-1), fmt.Sprintf("%d %d accepted", at, at-1)}
				if diff := cmp.Diff(lines, w.outcomeLines(rep.Run)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				checkComplete(t, w.plain, w.url)
			})
		}
	}
}

// TestUndecidedCommitsOnS3 has no put of a commit be answered, and then the
// read-back fail too. What was put lands in the end, or does not.
func TestUndecidedCommitsOnS3(t *testing.T) {
	s := s3Server(t)
	for _, c := range []struct {
		name   string
		fault  faultproxy.Fault
		landed bool
	}{
		{"answers lost", faultproxy.Fault{Kind: faultproxy.LoseAnswer}, true},
		{"late", faultproxy.Fault{Kind: faultproxy.Late}, true},
		{"500 after the work", faultproxy.InternalErrorAfter(), true},
		{"reset", faultproxy.Fault{Kind: faultproxy.Reset}, false},
		{"reset, then denied", faultproxy.Fault{Kind: faultproxy.Reset}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t, s)
			w.other("a 1 upsert x", "b 1 upsert x")
			put, get := w.of("PutObject", logKey(1)), w.of("GetObject", logKey(1))
			w.proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
				switch {
				case put(r) && c.name == "reset, then denied" && r.Nth > 1:
					return faultproxy.AccessDenied() // it says nothing of the first one
				case put(r):
					return c.fault
				case get(r):
					return faultproxy.SlowDown()
				}
				return faultproxy.Fault{}
			})
			file := w.file("a 5 upsert mine", "n 1 upsert mine")
			rep, err := pipeline.Apply(t.Context(), w.env, applyJob(w.url, file))
			undecided, ok := errors.AsType[*deltatable.UndecidedError](err)
			if !ok || rep == nil || rep.Version != nil {
				t.Fatalf("got %+v, %v, want an undecided commit", rep, err)
			}
			if !strings.Contains(err.Error(), logKey(1)) {
				t.Errorf("the error does not name the log entry: %v", err)
			}
			w.proxy.SetDecide(nil)
			w.proxy.Land()
			job := applyJob(w.url, file)
			job.Resume = pipeline.ResumePoint(undecided)
			again, err := pipeline.Apply(t.Context(), w.env, job)
			if err != nil || again.Run != rep.Run || (again.ReadVersion == nil) != c.landed { // one that is found has read nothing
				t.Fatalf("resumed as %+v, %v; landed should be %v", again, err, c.landed)
			}
			w.want(state{1, fiveRows})
			if diff := cmp.Diff([]string{"1 0 accepted", "1 0 accepted"}, w.outcomeLines(again.Run)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			checkComplete(t, w.plain, w.url)
		})
	}
}

// TestThrottlingOnS3 has a storm that ends, which costs requests alone, and ones
// that do not: the error names the object and the request, in bounded time.
func TestThrottlingOnS3(t *testing.T) {
	s := s3Server(t)
	t.Run("it ends", func(t *testing.T) {
		w := newWire(t, s)
		w.other("a 1 upsert x", "b 1 upsert x")
		w.proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
			if r.Nth <= 10 {
				return faultproxy.SlowDown()
			}
			return faultproxy.Fault{}
		})
		if _, err := w.apply("a 5 upsert mine", "n 1 upsert mine"); err != nil {
			t.Fatal(err)
		}
		w.want(state{1, fiveRows})
		checkComplete(t, w.plain, w.url)
		if got, want := w.stats.Counts().Retries, int64(w.proxy.Faults()["SlowDown"]); got != want || want < 100 {
			t.Errorf("%d requests were repeated, %d were throttled, want at least 100", got, want)
		}
	})
	for _, c := range []struct{ name, suffix string }{
		{"it never ends", ""}, {"it never ends, from the commit on", logKey(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t, s)
			w.other("a 1 upsert x", "b 1 upsert x")
			// NB: atomic: data files and outcomes are written at once.
			var slept atomic.Int64
			w.env.Store.Sleep = func(ctx context.Context, d time.Duration) error {
				slept.Add(int64(d))
				return ctx.Err()
			}
			w.fresh()
			commit := w.of("PutObject", c.suffix)
			var storm atomic.Bool
			storm.Store(c.suffix == "")
			w.proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
				if commit(r) {
					storm.Store(true)
				}
				if storm.Load() {
					return faultproxy.SlowDown()
				}
				return faultproxy.Fault{}
			})
			rep, err := w.apply("a 5 upsert mine", "n 1 upsert mine")
			if err == nil {
				t.Fatalf("got %+v", rep)
			}
			for _, part := range []string{"_delta_log/", "SlowDown", "request faultproxy-"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %s: %v", part, err)
				}
			}
			if _, undecided := errors.AsType[*deltatable.UndecidedError](err); undecided {
				t.Errorf("throttled requests were not carried out, and yet: %v", err)
			}
			t.Logf("%d requests, waited %s: %v", w.proxy.Total().Requests, time.Duration(slept.Load()).Round(time.Second), err)
			w.want(state{0, twoRows})
		})
	}
}

// TestReadsOnS3 has the first answer to each read be cut or altered: what is read
// is exact, or an error that names the object.
func TestReadsOnS3(t *testing.T) {
	s := s3Server(t)
	for _, c := range []struct {
		name string
		kind faultproxy.Kind
		cut  func([]byte) int
	}{
		{"reset in the body", faultproxy.ResetBody, nil},
		{"short body", faultproxy.ShortBody, nil},
		{"shorter body", faultproxy.ShorterBody, nil},
		{"shorter body, whole lines", faultproxy.ShorterBody, wholeLines},
		{"no body", faultproxy.ShorterBody, func([]byte) int { return 0 }},
		{"wrong ETag", faultproxy.WrongETag, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := faultproxy.Fault{Kind: c.kind, Cut: c.cut}
			w := newWire(t, s)
			w.other("a 1 upsert x", "b 1 upsert x")
			w.other("c 1 upsert x")
			w.other("a 2 upsert y")
			want := w.rows()
			w.proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
				if r.Method == http.MethodGet && r.Nth == 1 { // listings too
					return f
				}
				return faultproxy.Fault{}
			})
			got, err := w.read()
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("rows (-want +got):\n%s\n%v", diff, err)
			}
			if n := w.proxy.Counts()["GetObject"].Requests; n < 2 {
				t.Errorf("%d reads went through the proxy", n)
			}
			if f.Kind == faultproxy.WrongETag {
				return
			}
			for _, always := range []struct{ kind, suffix string }{
				{"GetObject", ".parquet"}, {"GetObject", logKey(1)}, {"ListObjects", "_delta_log/"},
			} {
				w.fresh()
				w.proxy.SetDecide(faultproxy.Always(w.of(always.kind, always.suffix), f))
				if got, err := w.read(); err == nil || errors.Is(err, deltatable.ErrNoTable) || !strings.Contains(err.Error(), always.suffix) {
					t.Errorf("answers to %s %s are all cut: got %q, %v", always.kind, always.suffix, got, err)
				}
			}
		})
	}
}

// read is rows, through the proxy.
func (w *wire) read() ([]string, error) {
	ctx := w.t.Context()
	table, err := w.env.OpenTable(ctx, w.url)
	if err != nil {
		return nil, err
	}
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	for _, err := range snap.Scan(ctx, nil) {
		if err != nil {
			return nil, err
		}
	}
	through := *w.faulty
	through.plain = w.env
	return through.rows(), nil
}

// TestLargeObjectsOnS3 writes and reads objects of several parts where a request
// of each kind goes wrong, and towards a store that refuses trailing checksums.
func TestLargeObjectsOnS3(t *testing.T) {
	w := newWire(t, s3Server(t))
	rng := rand.New(rand.NewPCG(seed(t), 5))
	large := make([]byte, 17<<20)
	for i := range large {
		large[i] = byte(rng.Uint32())
	}
	store, err := w.env.Open(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	kind := func(k string) func(*faultproxy.Request) bool {
		return func(r *faultproxy.Request) bool { return r.Kind == k }
	}
	lost, after := faultproxy.Fault{Kind: faultproxy.LoseAnswer}, faultproxy.InternalErrorAfter()
	for i, decide := range []faultproxy.Decide{
		nil, faultproxy.RefuseTrailers,
		faultproxy.Once(kind("UploadPart"), lost), faultproxy.Once(kind("UploadPart"), faultproxy.Fault{Kind: faultproxy.Reset}),
		faultproxy.Times(3, kind("UploadPart"), faultproxy.SlowDown()), faultproxy.Once(kind("UploadPart"), faultproxy.Fault{Kind: faultproxy.Late, Next: true}),
		faultproxy.Once(kind("CreateMultipartUpload"), lost), faultproxy.Once(kind("CreateMultipartUpload"), faultproxy.InternalError()),
		faultproxy.Once(kind("CompleteMultipartUpload"), lost), faultproxy.Once(kind("CompleteMultipartUpload"), after),
		faultproxy.Once(kind("CompleteMultipartUpload"), faultproxy.ErrorInSuccess()), faultproxy.Once(kind("CompleteMultipartUpload"), faultproxy.SlowDown()),
	} {
		w.proxy.SetDecide(decide)
		key := fmt.Sprintf("large-%d", i)
		out, err := store.NewWriter(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for b := large; len(b) > 0 && err == nil; b = b[min(len(b), 1<<20):] {
			_, err = out.Write(b[:min(len(b), 1<<20)])
		}
		if err := errors.Join(err, out.Close()); err != nil {
			t.Errorf("%d: write: %v", i, err)
			continue
		}
		if err := store.Put(t.Context(), key+"-small", large[:1000]); err != nil {
			t.Errorf("%d: put: %v", i, err)
		}
		w.proxy.Land()
		get := func(r *faultproxy.Request) bool { return r.Kind == "GetObject" && r.Nth == 1 }
		w.proxy.SetDecide(faultproxy.Once(get, []faultproxy.Fault{{Kind: faultproxy.ResetBody}, {Kind: faultproxy.ShortBody}, {Kind: faultproxy.ShorterBody}}[i%3]))
		for key, want := range map[string][]byte{key: large, key + "-small": large[:1000]} {
			if got, err := store.Get(t.Context(), key); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d: read %s: %d bytes, %v", i, key, len(got), err)
			}
		}
		if got := w.proxy.Counts()["UploadPart"].Requests; got < 3*(i+1) {
			t.Errorf("%d: %d parts were sent so far", i, got)
		}
	}
	w.proxy.SetDecide(faultproxy.Always(func(r *faultproxy.Request) bool {
		return r.Kind == "UploadPart" && r.Query.Get("partNumber") == "2"
	}, faultproxy.AccessDenied()))
	out, err := store.NewWriter(t.Context(), "denied")
	if err != nil {
		t.Fatal(err)
	}
	_, err = out.Write(large)
	if err = errors.Join(err, out.Close()); err == nil || !strings.Contains(err.Error(), "/denied: ") || !strings.Contains(err.Error(), "403") {
		t.Errorf("a part is denied: %v", err)
	}
	if _, err := store.Stat(t.Context(), "denied"); !errors.Is(err, blobstore.ErrNotFound) {
		t.Errorf("half an object is there: %v", err)
	}
	if n := w.proxy.Counts()["AbortMultipartUpload"].Requests; n == 0 {
		t.Error("the upload was not aborted")
	}
}

// TestRefusalsOnS3 has the store refuse one object, reading and writing: the
// error names it, and the table is as it was.
func TestRefusalsOnS3(t *testing.T) {
	s := s3Server(t)
	for _, c := range []struct{ kind, suffix string }{
		{"GetObject", ".parquet"}, {"PutObject", ".parquet"}, {"PutObject", logKey(1)}, {"GetObject", logKey(0)}, {"ListObjects", ""},
	} {
		t.Run(c.kind+" "+c.suffix, func(t *testing.T) {
			w := newWire(t, s)
			w.other("a 1 upsert x", "b 1 upsert x")
			w.proxy.SetDecide(faultproxy.Always(w.of(c.kind, c.suffix), faultproxy.AccessDenied()))
			rep, err := w.apply("a 5 upsert mine", "n 1 upsert mine")
			if err == nil || !strings.Contains(err.Error(), c.suffix) || !strings.Contains(err.Error(), "AccessDenied") || !strings.Contains(err.Error(), "request faultproxy-") {
				t.Fatalf("got %+v, %v", rep, err)
			}
			if _, undecided := errors.AsType[*deltatable.UndecidedError](err); undecided {
				t.Errorf("the store refused, and yet: %v", err)
			}
			t.Log(err)
			w.want(state{0, twoRows})
			w.noOrphans(w.url)
			w.noOrphans(w.url + "-outcomes")
		})
	}
}

// TestExpiredTokenOnS3 has the session token expire before each request of a run
// in turn, for good: it is an error that says so with the table as it was, or
// the commit was made before. For a while is as if nothing had happened.
func TestExpiredTokenOnS3(t *testing.T) {
	s := s3Server(t)
	// run says whether the commit was made, and how many requests met the token.
	run := func(what string, expires func(w *wire) func(*faultproxy.Request) bool) (made bool, met int) {
		w := newWire(t, s)
		w.other("a 1 upsert x", "b 1 upsert x")
		w.env.Workers = 1
		w.proxy.SetDecide(faultproxy.Always(expires(w), faultproxy.ExpiredToken()))
		rep, err := w.apply("a 5 upsert mine", "n 1 upsert mine")
		w.proxy.SetDecide(nil)
		met = w.proxy.Faults()["ExpiredToken"]
		switch {
		case err == nil:
			made = true
			w.want(state{1, fiveRows})
			if *rep.Version != 1 {
				t.Errorf("%s: %+v", what, rep)
			}
		case strings.Contains(err.Error(), "expired"):
			w.want(state{0, twoRows})
		default:
			t.Errorf("%s: %v", what, err)
		}
		if _, err := w.apply("a 5 upsert mine", "n 1 upsert mine"); err != nil {
			t.Errorf("%s: the batch again: %v", what, err)
		}
		w.want(state{1, fiveRows})
		checkComplete(t, w.plain, w.url)
		return made, met
	}
	ended, failed := false, 0
	for n := 1; !ended && n < 200; n++ {
		made, met := run(fmt.Sprint("request ", n), func(*wire) func(*faultproxy.Request) bool {
			return func(r *faultproxy.Request) bool { return r.N >= n }
		})
		if ended = met == 0; ended && !made {
			t.Errorf("request %d: without a fault no commit was made", n)
		}
		if !made {
			failed++
		}
	}
	t.Logf("%d runs failed", failed)
	if !ended || failed < 5 {
		t.Error("the runs did not meet both ends")
	}
	// NB: told by the commit itself: data files and outcomes are written at once, so
	// that its place among a run's requests is not the same each time.
	made, met := run("after the commit", func(w *wire) func(*faultproxy.Request) bool {
		commit := w.of("PutObject", logKey(1))
		var passed atomic.Bool
		return func(r *faultproxy.Request) bool { return passed.Load() || commit(r) && passed.Swap(true) }
	})
	if !made || met == 0 {
		t.Errorf("after the commit: made %t, %d requests met the token", made, met)
	}
	w := newWire(t, s)
	w.other("a 1 upsert x", "b 1 upsert x")
	w.proxy.SetDecide(func(r *faultproxy.Request) faultproxy.Fault {
		if r.Nth <= 2 {
			return faultproxy.ExpiredToken()
		}
		return faultproxy.Fault{}
	})
	if _, err := w.apply("a 5 upsert mine", "n 1 upsert mine"); err != nil {
		t.Errorf("a token that is renewed: %v", err)
	}
	w.want(state{1, fiveRows})
}

// TestSkewedClockOnS3 has the server's clock be an hour off.
func TestSkewedClockOnS3(t *testing.T) {
	s := s3Server(t)
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		w := newWire(t, s)
		w.other("a 1 upsert x", "b 1 upsert x")
		w.proxy.SetDecide(faultproxy.SkewedClock(time.Now, skew))
		if _, err := w.apply("a 5 upsert mine", "n 1 upsert mine"); err != nil {
			t.Errorf("the server's clock is off by %s: %v", skew, err)
		}
		w.want(state{1, fiveRows})
		if n := w.proxy.Faults(); n["RequestTimeTooSkewed"] == 0 || n["clock corrected"] == 0 {
			t.Errorf("the server's clock is off by %s: %v", skew, n)
		}
	}
}

// TestIgnoredConditionsOnS3 has a store that overwrites whatever it is told: it
// is found out before anything is written, or the user vouches for being alone.
func TestIgnoredConditionsOnS3(t *testing.T) {
	w := newWire(t, s3Server(t))
	w.proxy.SetDecide(faultproxy.IgnoreConditions)
	for _, exists := range []bool{false, true} {
		if exists {
			w.other("a 1 upsert x", "b 1 upsert x")
		}
		var refused *blobstore.NoConditionError
		if rep, err := w.apply("a 5 upsert mine", "n 1 upsert mine"); !errors.As(err, &refused) {
			t.Fatalf("got %+v, %v, want a refusal of the store", rep, err)
		}
		if !exists {
			if files := w.keys(w.url); len(files) > 0 {
				t.Errorf("the store was refused, and yet there is %q", files)
			}
		}
	}
	w.want(state{0, twoRows})
	w.noOrphans(w.url)

	w.env.Store.UnsafeSingleWriter = true
	w.fresh()
	rep, err := w.apply("a 5 upsert mine", "n 1 upsert mine")
	if err != nil || *rep.Version != 1 {
		t.Fatalf("got %+v, %v", rep, err)
	}
	w.want(state{1, fiveRows})
	table, err := w.plain.OpenTable(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range []string{"", "true"} {
		e, err := table.Entry(t.Context(), deltatable.Version(v))
		if err != nil || e.Info.Tags[deltatable.TagUnsafeSingleWriter] != want {
			t.Errorf("version %d: %+v, %v", v, e.Info, err)
		}
	}
	checkComplete(t, w.plain, w.url)
}

// keys are all objects below a location.
func (w *wire) keys(url string) []string {
	w.t.Helper()
	s, err := w.plain.Open(w.t.Context(), url)
	if err != nil {
		w.t.Fatal(err)
	}
	var keys []string
	for info, err := range s.List(w.t.Context(), "", "") {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// TestCountsOnS3 holds what --stats counts against what the proxy saw.
func TestCountsOnS3(t *testing.T) {
	w := newWire(t, s3Server(t))
	w.proxy.SetDecide(faultproxy.Random(seed(t), faultproxy.Rate{P: 0.2, Fault: faultproxy.SlowDown()}))
	for i := range 12 { // past a log checkpoint
		if _, err := w.apply(fmt.Sprintf("a %d upsert x", i+1), fmt.Sprintf("k%d 1 upsert x", i)); err != nil {
			t.Fatal(err)
		}
	}
	saw := w.proxy.Counts()
	var want blobstore.Counts
	for i, kinds := range [][]string{
		{"GetObject"},
		{"HeadObject", "HeadBucket"},
		{"PutObject"},
		{"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload"},
		{"ListObjects"},
		{"DeleteObject"},
	} {
		for _, k := range kinds {
			want.Requests[i] += int64(saw[k].Requests)
			delete(saw, k)
		}
	}
	want.Retries = int64(w.proxy.Faults()["SlowDown"])
	got := w.stats.Counts()
	got.Sent, got.Received = 0, 0
	if diff := cmp.Diff(want, got); diff != "" || len(saw) > 0 {
		t.Errorf("counts (-proxy +stats):\n%s\nnot counted: %v", diff, saw)
	}
	// Bytes: those of objects that arrived or were sent, so not those of errors.
	sent := w.proxy.Counts()["PutObject"].Sent
	if got := w.stats.Counts().Sent; got != sent {
		t.Errorf("%d bytes sent, the proxy saw %d", got, sent)
	}
}
