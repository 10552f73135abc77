package pipeline_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/pipeline"
	"github.com/deltafold/deltafold/merge"
)

// faulty is a table whose writer under test meets faults, and others do not.
type faulty struct {
	t          *testing.T
	url        string
	plain      *pipeline.Env // of everybody else
	env        *pipeline.Env // of the writer under test
	state      *blobstoretest.Faults
	outcomes   *blobstoretest.Faults
	puts       *putLog // what the writer's commits of the state table were
	dir        string
	batchCount int
}

// putLog records the bytes of every Create.
type putLog struct {
	mu    sync.Mutex
	bytes map[string][][]byte // by key
}

func noWait(context.Context, time.Duration) error { return nil }

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	retry := &deltatable.Retry{Max: 20, Sleep: noWait}
	f := &faulty{
		t: t, url: "mem://" + uuid.NewString(), dir: t.TempDir(), puts: &putLog{},
		plain: &pipeline.Env{Retry: retry, Workers: 2},
		state: &blobstoretest.Faults{}, outcomes: &blobstoretest.Faults{},
	}
	f.env = &pipeline.Env{Retry: retry, Workers: 2, Undecided: &deltatable.Retry{Max: 5, Sleep: noWait}}
	f.env.Open = func(ctx context.Context, url string) (*blobstore.Store, error) {
		s, err := blobstore.Open(ctx, url)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(url, "-outcomes") {
			return s.Wrap(f.outcomes.Wrap), nil
		}
		return s.Wrap(f.state.Wrap).Wrap(func(d blobstore.Driver) blobstore.Driver {
			return &recorded{d, f.puts}
		}), nil
	}
	return f
}

// recorded is a driver whose creates are written down.
type recorded struct {
	blobstore.Driver
	log *putLog
}

func (r *recorded) Create(ctx context.Context, key string, data []byte) (blobstore.Outcome, error) {
	r.log.mu.Lock()
	if r.log.bytes == nil {
		r.log.bytes = map[string][][]byte{}
	}
	r.log.bytes[key] = append(r.log.bytes[key], bytes.Clone(data))
	r.log.mu.Unlock()
	return r.Driver.Create(ctx, key, data)
}

// file writes rows "key version op value", value left out for NULL, as a change
// file of its own.
func (f *faulty) file(rows ...string) string {
	f.t.Helper()
	f.batchCount++
	path := filepath.Join(f.dir, fmt.Sprintf("batch-%d.jsonl", f.batchCount))
	var b strings.Builder
	for i, r := range rows {
		c, value := strings.Fields(r), "null"
		if len(c) > 3 {
			value = fmt.Sprintf("%q", c[3])
		}
		fmt.Fprintf(&b, `{"change_id":"c%d","entity_id":%q,"source_version":%s,"operation":%q,"value":%s}`+"\n", i, c[0], c[1], c[2], value)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// other applies rows without faults.
func (f *faulty) other(rows ...string) *pipeline.ApplyReport {
	f.t.Helper()
	rep, err := pipeline.Apply(f.t.Context(), f.plain, applyJob(f.url, f.file(rows...)))
	if err != nil {
		f.t.Fatal(err)
	}
	return rep
}

// rows is the state as "key version status value", sorted.
func (f *faulty) rows() []string {
	f.t.Helper()
	var out []string
	for rec, err := range latest(f.t, f.plain, f.url).Scan(f.t.Context(), nil) {
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range int(rec.NumRows()) {
			var c []string
			for _, col := range rec.Columns() {
				if col.IsNull(i) {
					c = append(c, "NULL")
				} else {
					c = append(c, col.ValueStr(i))
				}
			}
			out = append(out, strings.Join(c, " "))
		}
	}
	slices.Sort(out)
	return out
}

// dataFiles are the data files below a table's folder.
func (f *faulty) dataFiles(url string) []string {
	f.t.Helper()
	s, err := blobstore.OpenWith(f.t.Context(), url, f.plain.Store)
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for info, err := range s.List(f.t.Context(), "", "") {
		if err != nil {
			f.t.Fatal(err)
		}
		if strings.HasSuffix(info.Key, ".parquet") && !strings.HasPrefix(info.Key, "_delta_log/") {
			out = append(out, info.Key)
		}
	}
	return out
}

// noOrphans: every data file is named by some version of its table.
func (f *faulty) noOrphans(url string) {
	f.t.Helper()
	table, err := f.plain.OpenTable(f.t.Context(), url)
	if err != nil {
		f.t.Fatal(err)
	}
	named := map[string]bool{}
	for v := range latest(f.t, f.plain, url).Version() + 1 {
		e, err := table.Entry(f.t.Context(), v)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, a := range e.Actions {
			if a.Add != nil {
				key, err := neturl.PathUnescape(a.Add.Path)
				if err != nil {
					f.t.Fatal(err)
				}
				named[key] = true
			}
		}
	}
	for _, file := range f.dataFiles(url) {
		if !named[file] {
			f.t.Errorf("%s: data file %s is named by no version", url, file)
		}
	}
}

// outcomeLines are the outcomes of one run, "version read outcome" in the order
// of rows.
func (f *faulty) outcomeLines(run string) []string {
	f.t.Helper()
	var buf bytes.Buffer
	_, err := pipeline.ReadOutcomes(f.t.Context(), f.plain, &pipeline.OutcomesJob{Table: f.url, Run: run, Format: "csv", Out: &buf})
	if err != nil {
		f.t.Fatal(err)
	}
	lines, err := csv.NewReader(&buf).ReadAll()
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, c := range lines[min(1, len(lines)):] {
		at := func(name string) string { return c[slices.Index(lines[0], name)] }
		out = append(out, strings.Join([]string{at("_version"), at("_read_version"), at("outcome")}, " "))
	}
	return out
}

// logKey is the key of a version's log entry.
func logKey(v int) string { return fmt.Sprintf("_delta_log/%020d.json", v) }

// onCommit decides for the n-th put of version v by the writer under test; do is
// called before it, if not nil.
func onCommit(v int, faults map[int]blobstoretest.Fault) func(blobstoretest.Call) blobstoretest.Fault {
	var mu sync.Mutex
	n := 0
	return func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op != blobstoretest.OpCreate || c.Key != logKey(v) {
			return blobstoretest.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		return faults[n]
	}
}

// before is a fault that first does something.
func before(kind blobstoretest.FaultKind, do func()) blobstoretest.Fault {
	return blobstoretest.Fault{Kind: kind, Wait: func(context.Context) error { do(); return nil }}
}

// TestLostAnswers has a winner take version 1 and then loses answers of the
// second attempt's put, version 2, in every way that ends well (R8): the same
// bytes are put again, an entry of our own is recognised by its txnId, and the
// landed attempt's outcomes, and no others, are outcomes.
func TestLostAnswers(t *testing.T) {
	type test struct {
		name   string
		faults func(f *faulty) map[int]blobstoretest.Fault // of the put of version 2
		reads  map[int]bool                                // read-backs of version 2 that fail
		puts   int                                         // of version 2
		rows   []string
	}
	mine := []string{"a 5 active mine", "b 1 active x", "n 1 active mine", "w 1 active theirs"}
	for _, c := range []test{
		{name: "the answer is lost", puts: 2, rows: mine, faults: func(*faulty) map[int]blobstoretest.Fault {
			return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.LoseAnswer}}
		}},
		{name: "the request is lost", puts: 2, rows: mine, faults: func(*faulty) map[int]blobstoretest.Fault {
			return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.LoseRequest}}
		}},
		{name: "the answer is lost, and two read-backs", puts: 4, rows: mine, reads: map[int]bool{1: true, 2: true}, faults: func(*faulty) map[int]blobstoretest.Fault {
			return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.LoseAnswer}}
		}},
		{name: "the put lands before the second one", puts: 2, rows: mine, faults: func(f *faulty) map[int]blobstoretest.Fault {
			return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.Late}, 2: before(blobstoretest.None, func() { must(t, f.state.Land()) })}
		}},
		{name: "the put lands late and meets the second one", puts: 2, rows: mine, faults: func(*faulty) map[int]blobstoretest.Fault {
			return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.Late}}
		}},
		{name: "all puts but the last are lost", puts: 5, rows: mine, faults: func(*faulty) map[int]blobstoretest.Fault {
			lost := blobstoretest.Fault{Kind: blobstoretest.LoseRequest}
			return map[int]blobstoretest.Fault{1: lost, 2: lost, 3: lost, 4: lost}
		}},
		{name: "the last put's answer is lost, the last look finds it", puts: 5, rows: mine, faults: func(*faulty) map[int]blobstoretest.Fault {
			lost := blobstoretest.Fault{Kind: blobstoretest.LoseRequest}
			return map[int]blobstoretest.Fault{1: lost, 2: lost, 3: lost, 4: lost, 5: {Kind: blobstoretest.LoseAnswer}}
		}},
		{name: "a store that says no after it was silent", puts: 3, rows: mine, faults: func(*faulty) map[int]blobstoretest.Fault {
			return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.LoseAnswer}, 2: {Kind: blobstoretest.Fail}}
		}},
		{
			name: "another takes the version while our put is on its way", puts: 2,
			rows: []string{"a 5 active mine", "b 1 active x", "n 9 active second", "w 1 active theirs"},
			faults: func(f *faulty) map[int]blobstoretest.Fault {
				return map[int]blobstoretest.Fault{1: {Kind: blobstoretest.Late}, 2: before(blobstoretest.None, func() { f.other("n 9 upsert second") })}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFaulty(t)
			f.other("a 1 upsert x", "b 1 upsert x")
			late := c.faults(f)
			reads := 0
			first := onCommit(1, map[int]blobstoretest.Fault{1: before(blobstoretest.None, func() { f.other("w 1 upsert theirs") })})
			second := onCommit(2, late)
			f.state.Decide = func(call blobstoretest.Call) blobstoretest.Fault {
				if call.Op == blobstoretest.OpRead && call.Key == logKey(2) {
					if reads++; c.reads[reads] {
						return blobstoretest.Fault{Kind: blobstoretest.Fail}
					}
				}
				if fault := first(call); fault.Wait != nil {
					return fault
				}
				return second(call)
			}
			rep, err := pipeline.Apply(t.Context(), f.env, applyJob(f.url, f.file("a 5 upsert mine", "n 1 upsert mine")))
			if err != nil {
				t.Fatal(err)
			}
			must(t, f.state.Land())
			if diff := cmp.Diff(c.rows, f.rows()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			puts := f.puts.bytes[logKey(2)]
			if len(puts) != c.puts {
				t.Errorf("version 2 was put %d times, want %d", len(puts), c.puts)
			}
			for _, p := range puts {
				if !bytes.Equal(p, puts[0]) {
					t.Errorf("version 2 was put with other bytes")
				}
			}
			won := "accepted"
			if len(late) == 2 && c.rows[2] != mine[2] {
				won = "stale"
			}
			at := fmt.Sprintf("%d %d ", *rep.Version, *rep.Version-1)
			if diff := cmp.Diff([]string{at + "accepted", at + won}, f.outcomeLines(rep.Run)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			f.noOrphans(f.url)
			f.noOrphans(f.url + "-outcomes")
			checkComplete(t, f.plain, f.url)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// TestUndecidedCommits loses all answers of a commit. Nothing is deleted, the
// run says that it is undecided and how to go on; whether the entry lands or
// not, the batch ends up in the table once, with --resume and without.
func TestUndecidedCommits(t *testing.T) {
	for _, kind := range []blobstoretest.FaultKind{blobstoretest.LoseRequest, blobstoretest.Late, blobstoretest.LoseAnswer} {
		for _, resume := range []bool{true, false} {
			for _, meanwhile := range []bool{false, true} {
				t.Run(fmt.Sprintf("kind %d, resume %v, a winner meanwhile %v", kind, resume, meanwhile), func(t *testing.T) {
					f := newFaulty(t)
					f.other("a 1 upsert x", "b 1 upsert x")
					f.state.Decide = func(call blobstoretest.Call) blobstoretest.Fault {
						switch {
						case call.Op == blobstoretest.OpCreate && call.Key == logKey(1):
							return blobstoretest.Fault{Kind: kind}
						case call.Op == blobstoretest.OpRead && call.Key == logKey(1):
							return blobstoretest.Fault{Kind: blobstoretest.Fail} // no read-back succeeds
						}
						return blobstoretest.Fault{}
					}
					file := f.file("a 5 upsert mine", "n 1 upsert mine")
					rep, err := pipeline.Apply(t.Context(), f.env, applyJob(f.url, file))
					var undecided *deltatable.UndecidedError
					if !errors.As(err, &undecided) || rep == nil || rep.Version != nil {
						t.Fatalf("got %+v, %v, want an undecided commit", rep, err)
					}
					if want := rep.Run + "@1"; pipeline.ResumePoint(undecided) != want {
						t.Errorf("the way on is %s, want %s", pipeline.ResumePoint(undecided), want)
					}
					f.entryFilesAreThere(f.puts.bytes[logKey(1)][0])
					if meanwhile && kind != blobstoretest.LoseAnswer {
						f.other("w 1 upsert theirs") // takes version 1: what lands later does nothing
					}
					must(t, f.state.Land())
					f.state.Decide = nil
					job := applyJob(f.url, file)
					if resume {
						job.Resume = pipeline.ResumePoint(undecided)
					}
					again, err := pipeline.Apply(t.Context(), f.env, job)
					if err != nil {
						t.Fatal(err)
					}
					landed := kind == blobstoretest.LoseAnswer || kind == blobstoretest.Late && !meanwhile
					if landed && resume && (again.Run != rep.Run || again.Version == nil || *again.Version != 1) {
						t.Errorf("resumed as %+v, want run %s at version 1", again, rep.Run)
					}
					want := []string{"a 5 active mine", "b 1 active x", "n 1 active mine"}
					if meanwhile && kind != blobstoretest.LoseAnswer {
						want = append(want, "w 1 active theirs")
					}
					if diff := cmp.Diff(want, f.rows()); diff != "" {
						t.Errorf("state (-want +got):\n%s", diff)
					}
					checkComplete(t, f.plain, f.url)
					if landed {
						if diff := cmp.Diff([]string{"1 0 accepted", "1 0 accepted"}, f.outcomeLines(rep.Run)); diff != "" {
							t.Errorf("outcomes of the run that was undecided (-want +got):\n%s", diff)
						}
					}
				})
			}
		}
	}
}

// entryFilesAreThere: the data files that a log entry adds exist.
func (f *faulty) entryFilesAreThere(entry []byte) {
	f.t.Helper()
	files := f.dataFiles(f.url)
	n := 0
	for line := range bytes.Lines(entry) {
		if !bytes.HasPrefix(line, []byte(`{"add":`)) {
			continue
		}
		n++
		if !slices.ContainsFunc(files, func(p string) bool { return bytes.Contains(line, []byte(p)) }) {
			f.t.Errorf("a file of an undecided commit was deleted: %s", line)
		}
	}
	if n == 0 {
		f.t.Errorf("the entry adds no file: %s", entry)
	}
}

// TestAttemptsAreBounded has another writer win every version (R9).
func TestAttemptsAreBounded(t *testing.T) {
	f := newFaulty(t)
	f.other("a 1 upsert x")
	f.env.Retry = &deltatable.Retry{Max: 4, Sleep: noWait}
	n := 0
	f.state.Decide = func(c blobstoretest.Call) blobstoretest.Fault {
		if c.Op != blobstoretest.OpCreate || !strings.HasSuffix(c.Key, ".json") {
			return blobstoretest.Fault{}
		}
		return before(blobstoretest.None, func() { n++; f.other(fmt.Sprintf("w%d 1 upsert theirs", n)) })
	}
	rep, err := pipeline.Apply(t.Context(), f.env, applyJob(f.url, f.file("a 2 upsert mine", "m 1 upsert mine")))
	var spent *deltatable.RetryError
	if !errors.As(err, &spent) || spent.Attempts != 4 || rep != nil {
		t.Fatalf("got %+v, %v, want an end after 4 attempts", rep, err)
	}
	if diff := cmp.Diff([]string{"a 1 active x", "w1 1 active theirs", "w2 1 active theirs", "w3 1 active theirs", "w4 1 active theirs"}, f.rows()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	f.noOrphans(f.url)
	f.noOrphans(f.url + "-outcomes")
	checkComplete(t, f.plain, f.url)
}

// TestIdentifiersOfWinners has a winner record a version of the batch's own
// application, below and at or above the batch's (R5), and then loses an answer.
func TestIdentifiersOfWinners(t *testing.T) {
	for _, c := range []struct {
		winner  int64
		applied bool
	}{{6, false}, {7, true}, {8, true}} {
		t.Run(fmt.Sprint(c.winner), func(t *testing.T) {
			f := newFaulty(t)
			f.other("a 1 upsert x")
			win := onCommit(1, map[int]blobstoretest.Fault{1: before(blobstoretest.None, func() {
				job := applyJob(f.url, f.file("w 1 upsert theirs"))
				job.AppID, job.AppVersion = "app", c.winner
				if _, err := pipeline.Apply(t.Context(), f.plain, job); err != nil {
					t.Error(err)
				}
			})})
			lose := onCommit(2, map[int]blobstoretest.Fault{1: {Kind: blobstoretest.LoseAnswer}})
			f.state.Decide = func(call blobstoretest.Call) blobstoretest.Fault {
				if fault := win(call); fault.Wait != nil {
					return fault
				}
				return lose(call)
			}
			job := applyJob(f.url, f.file("a 2 upsert mine"))
			job.AppID, job.AppVersion = "app", 7
			rep, err := pipeline.Apply(t.Context(), f.env, job)
			if err != nil || rep.AlreadyApplied != c.applied || (rep.Version == nil) != c.applied {
				t.Fatalf("got %+v, %v, already applied should be %v", rep, err, c.applied)
			}
			state, outcome := []string{"a 2 active mine", "w 1 active theirs"}, "2 1 accepted"
			if c.applied {
				state[0], outcome = "a 1 active x", " 1 already_applied"
			}
			if diff := cmp.Diff(state, f.rows()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{outcome}, f.outcomeLines(rep.Run)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			f.noOrphans(f.url)
			f.noOrphans(f.url + "-outcomes")
			checkComplete(t, f.plain, f.url)
		})
	}
}

// TestRefusedLate has a winner turn a batch under policy reject into one that is
// refused (R6): its outcomes are those of the last decision, and no file stays.
func TestRefusedLate(t *testing.T) {
	f := newFaulty(t)
	create := applyJob(f.url, f.file("a 1 upsert x"))
	create.Roles.OnConflict = "reject"
	if _, err := pipeline.Apply(t.Context(), f.plain, create); err != nil {
		t.Fatal(err)
	}
	f.state.Decide = onCommit(1, map[int]blobstoretest.Fault{1: before(blobstoretest.LoseRequest, func() { f.other("a 2 upsert theirs") })})
	rep, err := pipeline.Apply(t.Context(), f.env, applyJob(f.url, f.file("a 2 upsert mine", "b 1 upsert mine")))
	var refused *merge.RefusedError
	if !errors.As(err, &refused) || rep == nil || rep.Version != nil {
		t.Fatalf("got %+v, %v, want a refusal", rep, err)
	}
	if diff := cmp.Diff([]string{"a 2 active theirs"}, f.rows()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{" 1 conflict", " 1 batch_refused"}, f.outcomeLines(rep.Run)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	f.noOrphans(f.url)
	f.noOrphans(f.url + "-outcomes")
	checkComplete(t, f.plain, f.url)
}

// TestLostAnswersOfCreation is TestLostAnswers for version 0, alone and with a
// winner who makes the table: then everything starts over (R5).
func TestLostAnswersOfCreation(t *testing.T) {
	for _, kind := range []blobstoretest.FaultKind{blobstoretest.None, blobstoretest.LoseAnswer, blobstoretest.LoseRequest, blobstoretest.Late} {
		for _, winner := range []bool{false, true} {
			t.Run(fmt.Sprintf("kind %d, winner %v", kind, winner), func(t *testing.T) {
				f := newFaulty(t)
				do := func() {
					if winner {
						f.other("a 3 upsert theirs", "w 1 upsert theirs")
					}
				}
				f.state.Decide = onCommit(0, map[int]blobstoretest.Fault{1: before(kind, do)})
				rep, err := pipeline.Apply(t.Context(), f.env, applyJob(f.url, f.file("a 2 upsert mine", "b 1 upsert mine")))
				if err != nil {
					t.Fatal(err)
				}
				must(t, f.state.Land())
				state, lines := []string{"a 2 active mine", "b 1 active mine"}, []string{"0  accepted", "0  accepted"}
				if winner {
					state = []string{"a 3 active theirs", "b 1 active mine", "w 1 active theirs"}
					lines = []string{"1 0 stale", "1 0 accepted"}
				}
				if diff := cmp.Diff(state, f.rows()); diff != "" {
					t.Errorf("state (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(lines, f.outcomeLines(rep.Run)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				if rep.Created == winner {
					t.Errorf("created is %v", rep.Created)
				}
				f.noOrphans(f.url)
				f.noOrphans(f.url + "-outcomes")
				checkComplete(t, f.plain, f.url)
			})
		}
	}
}
