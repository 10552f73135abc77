package remote

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

func repeated(s step, n int) []step { return slices.Repeat([]step{s}, n) }

func TestCreateOutcomes(t *testing.T) {
	const ours, theirs = "ours", "theirs"
	for _, c := range []struct {
		name   string
		there  string
		steps  []step
		always step
		want   driver.Outcome
		err    string // in the error; "" for none
		puts   int
		holds  string
	}{
		{name: "created", want: driver.Created, puts: 1, holds: ours},
		{name: "412 at once", there: theirs, want: driver.Exists, puts: 1, holds: theirs},
		{name: "412 after unclear, ours", steps: []step{lost}, want: driver.Exists, puts: 2, holds: ours},
		{name: "412 after unclear, theirs", there: theirs, steps: []step{unclear}, want: driver.Exists, puts: 2, holds: theirs},
		{name: "unclear, then created", steps: []step{unclear, unclear}, want: driver.Created, puts: 3, holds: ours},
		{name: "409, then created", steps: []step{conflict}, want: driver.Created, puts: 2, holds: ours},
		{name: "409, then 412", there: theirs, steps: []step{conflict}, want: driver.Exists, puts: 2, holds: theirs},
		{name: "409 for ever", there: theirs, always: conflict, want: driver.Unknown, err: "gave up after 16 attempts in 25.65s: scripted (request id-7)", puts: 16, holds: theirs},
		{name: "throttled, then created", steps: repeated(throttled, 3), want: driver.Created, puts: 4, holds: ours},
		{name: "throttled for ever", always: throttled, want: driver.NotDone, err: "gave up after 16 attempts in 25.65s: SlowDown: scripted (request id-7)", puts: 16},
		{name: "unclear for ever", always: unclear, want: driver.Unknown, err: "gave up after 16 attempts", puts: 16},
		{name: "lost for ever", always: step{fails: true, works: true}, want: driver.Unknown, err: "gave up", puts: 16, holds: ours},
		{name: "throttled, then lost for ever", steps: repeated(throttled, 2), always: unclear, want: driver.Unknown, err: "gave up", puts: 16},
		{name: "refused", steps: []step{refused}, want: driver.NotDone, err: "AccessDenied: scripted (request id-7)", puts: 1},
		{name: "refused after throttled", steps: []step{throttled, refused}, want: driver.NotDone, err: "attempt 2: AccessDenied", puts: 2},
		{name: "refused after unclear", steps: []step{unclear, refused}, want: driver.Unknown, err: "attempt 2: AccessDenied", puts: 2},
		{name: "refused after lost", steps: []step{lost, refused}, want: driver.Unknown, err: "attempt 2: AccessDenied", puts: 2, holds: ours},
		{name: "refused after 409", steps: []step{conflict, refused}, want: driver.Unknown, err: "attempt 2: AccessDenied", puts: 2},
		{name: "expired, renewed", steps: []step{expired}, want: driver.Created, puts: 2, holds: ours},
		{name: "expired for good", always: expired, want: driver.NotDone, err: "attempt 3: ExpiredToken", puts: 3},
		{name: "expired after unclear", steps: []step{unclear}, always: expired, want: driver.Unknown, err: "attempt 4: ExpiredToken", puts: 4},
		{name: "no such bucket", steps: []step{{fails: true, class: NotFound}}, want: driver.NotDone, err: "scripted", puts: 1},
		{name: "an error without a class", steps: []step{{raw: errors.New("odd")}}, want: driver.Created, puts: 2, holds: ours},
		{name: "errors without a class for ever", always: step{raw: errors.New("odd")}, want: driver.Unknown, err: "odd", puts: 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			if c.there != "" {
				f.objects["t/k"] = []byte(c.there)
			}
			f.script["create"], f.always["create"] = c.steps, c.always
			s, _ := testStore(t, f, nil)
			got, err := s.Create(t.Context(), "k", []byte(ours))
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %s, %v; want %s, %q", got, err, c.want, c.err)
			}
			if diff := cmp.Diff(slices.Repeat([]string{"create"}, c.puts), f.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got := string(f.objects["t/k"]); got != c.holds {
				t.Errorf("the store holds %q, want %q", got, c.holds)
			}
			n := s.o.Stats.Counts()
			if n.Requests[driver.RequestPut] != int64(c.puts) || n.Retries != int64(c.puts-1) || n.Sent != int64(4*c.puts) {
				t.Errorf("counted: %+v", n)
			}
		})
	}
}

// The end of ctx says nothing of what was sent before.
func TestCreateCancelled(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step
		at    string // where ctx ends: before, in an attempt, in the wait after it
		want  driver.Outcome
		puts  int
	}{
		{name: "before", at: "before", want: driver.NotDone},
		{name: "in an attempt without an answer", at: "attempt", steps: []step{unclear}, want: driver.Unknown, puts: 1},
		{name: "in an attempt that was carried out", at: "attempt", steps: []step{lost}, want: driver.Unknown, puts: 1},
		{name: "in an attempt that is answered", at: "attempt", steps: []step{passes}, want: driver.Created, puts: 1},
		{name: "in an attempt that is throttled", at: "attempt", steps: []step{throttled}, want: driver.NotDone, puts: 1},
		{name: "in an attempt that is refused", at: "attempt", steps: []step{refused}, want: driver.NotDone, puts: 1},
		{name: "in an attempt that hangs", at: "attempt", steps: []step{{hang: true}}, want: driver.Unknown, puts: 1},
		{name: "waiting after unclear", at: "wait", steps: []step{unclear}, want: driver.Unknown, puts: 1},
		{name: "waiting after conflict", at: "wait", steps: []step{conflict}, want: driver.Unknown, puts: 1},
		{name: "waiting after throttled", at: "wait", steps: []step{throttled}, want: driver.NotDone, puts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := newFake()
			f.script["create"] = c.steps
			s, clock := testStore(t, f, nil)
			switch c.at {
			case "before":
				cancel()
			case "attempt":
				c.steps[0].call = cancel
			case "wait":
				clock.wake = func(int) { cancel() }
			}
			got, err := s.Create(ctx, "k", []byte("ours"))
			if got != c.want || len(f.requests()) != c.puts {
				t.Errorf("got %s, %v, %d puts; want %s, %d", got, err, len(f.requests()), c.want, c.puts)
			}
			if decided := c.want == driver.Created; decided != (err == nil) {
				t.Errorf("error: %v", err)
			}
			if isRefused := asError(errors.Join(err)).Class == Refused; err != nil && !isRefused && !errors.Is(err, context.Canceled) {
				t.Errorf("error does not tell of the end: %v", err)
			}
		})
	}
}

func TestBackOff(t *testing.T) {
	ms := func(n ...int) []time.Duration {
		out := make([]time.Duration, len(n))
		for i, d := range n {
			out[i] = time.Duration(d) * time.Millisecond
		}
		return out
	}
	for _, c := range []struct {
		name   string
		jitter float64
		steps  []step
		always step
		change func(*Options)
		want   []time.Duration
	}{
		{name: "doubles", always: throttled, jitter: 0.5, want: ms(75, 150, 300, 600, 1200, 2400, 3750, 3750, 3750, 3750, 3750, 3750, 2775)},
		{name: "least", steps: repeated(unclear, 4), want: ms(50, 100, 200, 400)},
		{name: "Retry-After", steps: []step{{fails: true, class: Throttled, after: 7 * time.Second}, throttled}, want: ms(7000, 100)},
		{name: "Retry-After past the end", always: step{fails: true, class: Throttled, after: time.Hour}, want: ms(30000, 100)},
		{name: "attempts", always: throttled, change: func(o *Options) { o.Attempts = 3 }, want: ms(50, 100)},
		{name: "time", always: throttled, change: func(o *Options) { o.RetryFor = time.Second }, want: ms(50, 100, 200, 400, 250)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.script["put"], f.always["put"] = c.steps, c.always
			s, clock := testStore(t, f, func(o *Options) {
				o.Jitter = func() float64 { return c.jitter }
				if c.change != nil {
					c.change(o)
				}
			})
			if err := s.Put(t.Context(), "k", nil); (err != nil) != c.always.fails {
				t.Errorf("error: %v", err)
			}
			if diff := cmp.Diff(c.want, clock.sleeps); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*fake)
		unsafe  bool
		want    driver.Outcome
		refused bool // by NoConditionError
		err     string
		log     string // requests
	}{
		{name: "honoured", want: driver.Created, log: "create create get delete create"},
		{name: "honoured, although unsafe is allowed", unsafe: true, want: driver.Created, log: "create create get delete create"},
		{name: "ignored", change: func(f *fake) { f.ignores = true }, want: driver.NotDone, refused: true, log: "create create get delete"},
		{name: "ignored, unsafe", unsafe: true, change: func(f *fake) { f.ignores = true }, want: driver.Created, log: "create create get delete head put"},
		{name: "a lie", change: func(f *fake) { f.lies = true }, want: driver.NotDone, refused: true, log: "create create get delete"},
		{name: "a shrug", change: func(f *fake) { f.shrugs = true }, want: driver.NotDone, refused: true, log: "create create get delete"},
		{name: "not implemented", change: func(f *fake) {
			f.script["create"] = []step{{fails: true, class: Refused, http: 501, code: "NotImplemented"}}
		}, want: driver.NotDone, refused: true, log: "create delete"},
		{name: "first lost", change: func(f *fake) { f.script["create"] = []step{lost} }, want: driver.Created, log: "create create create get delete create"},
		{name: "second lost, honoured", change: func(f *fake) { f.script["create"] = []step{passes, unclear} }, want: driver.Created, log: "create create create get delete create"},
		{name: "second conflict, honoured", change: func(f *fake) { f.script["create"] = []step{passes, conflict} }, want: driver.Created, log: "create create create get delete create"},
		{name: "first refused", change: func(f *fake) { f.script["create"] = []step{refused} }, want: driver.NotDone, err: "AccessDenied", log: "create delete"},
		{name: "second refused", change: func(f *fake) { f.script["create"] = []step{passes, refused} }, want: driver.NotDone, err: "AccessDenied", log: "create create delete"},
		{name: "second refused, unsafe", unsafe: true, change: func(f *fake) { f.script["create"] = []step{passes, refused} }, want: driver.NotDone, err: "AccessDenied", log: "create create delete"},
		{name: "second unclear for ever", change: func(f *fake) {
			f.script["create"] = append([]step{passes}, repeated(unclear, 16)...)
		}, want: driver.NotDone, err: "gave up", log: strings.Repeat("create ", 17) + "delete"},
		{name: "read refused", change: func(f *fake) { f.script["get"] = []step{refused} }, want: driver.NotDone, err: "AccessDenied", log: "create create get delete"},
		{name: "gone when read", change: func(f *fake) { f.always["get"] = step{call: func() { clear(f.objects) }} }, want: driver.NotDone, err: "not there after it was created", log: "create create get delete"},
		{name: "not deleted", change: func(f *fake) { f.script["delete"] = []step{refused} }, want: driver.Created, log: "create create get delete create"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			if c.change != nil {
				c.change(f)
			}
			s, _ := testStore(t, f, func(o *Options) { o.Conditional, o.UnsafeSingleWriter = false, c.unsafe })
			got, err := s.Create(t.Context(), "_delta_log/0", []byte("ours"))
			refusal, isRefusal := errors.AsType[*driver.NoConditionError](err)
			if got != c.want || isRefusal != c.refused || (err == nil) != (got == driver.Created) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %s, %v", got, err)
			}
			if isRefusal && (refusal.Endpoint != "https://fake" || !strings.Contains(err.Error(), "https://fake") || !strings.Contains(err.Error(), "single writer")) {
				t.Errorf("refusal: %v", err)
			}
			if errors.Is(err, driver.ErrNotFound) {
				t.Errorf("the probe's object is taken for the caller's: %v", err)
			}
			if got := strings.Join(f.requests(), " "); got != c.log {
				t.Errorf("requests: %s; want %s", got, c.log)
			}
			if alone := c.want == driver.Created && f.ignores; s.SingleWriter() != alone {
				t.Errorf("SingleWriter: %t", s.SingleWriter())
			}
			for key := range f.objects {
				if key != "t/_delta_log/0" && c.name != "not deleted" {
					t.Errorf("left: %s", key)
				}
				if c.name == "not deleted" && key != "t/_delta_log/0" && !strings.HasPrefix(key, "t/_delta_log/.deltafold-probe-") {
					t.Errorf("left: %s", key)
				}
			}
		})
	}
}

// One store asks once, and a store that honours conditions is remembered.
func TestProbeIsRemembered(t *testing.T) {
	f, memory := newFake(), t.TempDir()
	probes := func(bucket string, now time.Time) int {
		t.Helper()
		f.objects, f.log = map[string][]byte{}, nil
		s, clock := testStore(t, f, func(o *Options) { o.Conditional, o.Memory, o.Bucket = false, memory, bucket })
		clock.now = now
		for _, key := range []string{"a", "b"} {
			if out, err := s.Create(t.Context(), key, nil); out != driver.Created {
				t.Fatal(out, err)
			}
		}
		n := 0
		for _, kind := range f.requests() {
			if kind == "delete" {
				n++
			}
		}
		return n
	}
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s, _ := testStore(t, f, func(o *Options) { o.Conditional, o.Memory, o.Bucket = false, memory, "b" })
	path := s.memory()
	for i, c := range []struct {
		bucket string
		now    time.Time
		before func()
		want   int
	}{
		{"b", now, nil, 1},
		{"b", now, nil, 0},
		{"b", now.Add(29 * 24 * time.Hour), nil, 0},
		{"other", now, nil, 1},
		{"b", now.Add(31 * 24 * time.Hour), nil, 1}, // it may be another store by now
		{"b", now, nil, 1},                          // remembered in the future
		{"b", now, nil, 0},
		{"b", now, func() { write(t, path, "") }, 1},
		{"b", now, func() { write(t, path, "yes\n") }, 1},
		{"b", now, func() { write(t, path, memoryHead+"\nhttps://fake\nother\n2026-12-01T00:00:00Z\n") }, 1},
		{"b", now, func() { write(t, path, memoryHead+"\nhttps://fake\nb\nnow\n") }, 1},
		{"b", now, func() { write(t, path, memoryHead+"\nhttps://fake\nb\n2026-12-01T00:00:00Z") }, 1},
		{"b", now, func() { write(t, path, memoryHead+"\nhttps://fake\nb\n2026-12-01T00:00:00Z\n") }, 0},
	} {
		if c.before != nil {
			c.before()
		}
		if got := probes(c.bucket, c.now); got != c.want {
			t.Errorf("case %d: %d probes, want %d", i, got, c.want)
		}
	}
	// A refusal is not remembered: the next version of the store may honour it.
	f.ignores = true
	s, _ = testStore(t, f, func(o *Options) { o.Conditional, o.Memory, o.Bucket = false, memory, "third" })
	for range 2 {
		f.log = nil
		if out, err := s.Create(t.Context(), "k", nil); out != driver.NotDone || err == nil || len(f.requests()) != 4 {
			t.Errorf("%s, %v, %v", out, err, f.requests())
		}
	}
	// Without a folder to remember in, all goes on.
	f = newFake()
	s, _ = testStore(t, f, func(o *Options) { o.Conditional, o.Memory = false, path })
	if out, err := s.Create(t.Context(), "k", nil); out != driver.Created {
		t.Error(out, err)
	}
}

// With a single writer, what is there is still not overwritten.
func TestCreateAlone(t *testing.T) {
	for _, c := range []struct {
		name      string
		there     bool
		head, put []step
		want      driver.Outcome
		holds     string
	}{
		{name: "absent", want: driver.Created, holds: "ours"},
		{name: "there", there: true, want: driver.Exists, holds: "theirs"},
		{name: "head refused", head: []step{refused}, want: driver.NotDone},
		{name: "head unclear, there", there: true, head: []step{unclear}, want: driver.Exists, holds: "theirs"},
		{name: "put lost", put: []step{lost}, want: driver.Created, holds: "ours"},
		{name: "put lost, then refused", put: []step{lost, refused}, want: driver.Unknown, holds: "ours"},
		{name: "put refused", put: []step{refused}, want: driver.NotDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.ignores = true
			s, _ := testStore(t, f, func(o *Options) { o.Conditional, o.UnsafeSingleWriter = false, true })
			if err := s.Prepare(t.Context()); err != nil || !s.SingleWriter() {
				t.Fatal(err)
			}
			if c.there {
				f.objects["t/k"] = []byte("theirs")
			}
			f.script["head"], f.script["put"] = c.head, c.put
			got, err := s.Create(t.Context(), "k", []byte("ours"))
			if got != c.want || (err == nil) != (got == driver.Created || got == driver.Exists) || string(f.objects["t/k"]) != c.holds {
				t.Errorf("%s, %v, holds %q; want %s, %q", got, err, f.objects["t/k"], c.want, c.holds)
			}
		})
	}
}

func TestCheckLog(t *testing.T) {
	f, calls := newFake(), 0
	refusal := errors.New("refused")
	answers := []error{refusal, nil}
	s, _ := testStore(t, f, func(o *Options) {
		o.CheckLog = func(context.Context, driver.Driver) error {
			calls++
			return answers[calls-1]
		}
	})
	for i, c := range []struct {
		key   string
		want  driver.Outcome
		calls int
	}{
		{"data", driver.Created, 0},
		{"_delta_log/0", driver.NotDone, 1}, // refused
		{"data2", driver.Created, 1},
		{"_delta_log/0", driver.Created, 2}, // looked at again
		{"_delta_log/1", driver.Created, 2}, // and not again
	} {
		out, err := s.Create(t.Context(), c.key, nil)
		if out != c.want || calls != c.calls || errors.Is(err, refusal) != (out == driver.NotDone) {
			t.Errorf("case %d: %s, %v, %d calls", i, out, err, calls)
		}
	}
}
