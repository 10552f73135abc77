package blobstoretest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/deltafold/deltafold/blobstore"
)

const (
	childEnv   = "DELTAFOLD_BLOBSTORETEST_CHILD" // race or kill: what a child process does
	childURL   = "DELTAFOLD_BLOBSTORETEST_URL"
	childName  = "DELTAFOLD_BLOBSTORETEST_NAME"
	goroutines = 8
	processes  = 4
)

// Main is a TestMain: it runs m's tests, or the part of another process in them.
func Main(m *testing.M) {
	role := os.Getenv(childEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background() //nolint:forbidigo // a process begins here
	if err := child(ctx, role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(ctx context.Context, role string) error {
	s, err := blobstore.Open(ctx, os.Getenv(childURL))
	if err != nil {
		return err
	}
	name := os.Getenv(childName)
	if role == "kill" {
		return childCreatesUntilKilled(ctx, s, name)
	}
	// race: for each key read, all goroutines try to create it; then one line
	// says what became of it.
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		outcomes := raceOnce(ctx, s, in.Text(), name)
		if _, err := fmt.Println(strings.Join(outcomes, " ")); err != nil {
			return err
		}
	}
	return in.Err()
}

// raceOnce lets all goroutines create one key at once; each result is an outcome,
// with the goroutine's name if that is created.
func raceOnce(ctx context.Context, s *blobstore.Store, key, name string) []string {
	results := make([]string, goroutines)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for g := range results {
		wg.Go(func() {
			who := fmt.Sprintf("%s-%d", name, g)
			<-start
			out, err := s.Create(ctx, key, payload(who))
			results[g] = out.String()
			if out == blobstore.Created {
				results[g] += ":" + who
			}
			if err != nil {
				results[g] = strings.ReplaceAll(err.Error(), " ", "_")
			}
		})
	}
	close(start)
	wg.Wait()
	return results
}

// payload is long enough for a half-written one to be seen.
func payload(who string) []byte { return []byte(strings.Repeat(who+"\n", 3000)) }

func wantOneWinner(t *testing.T, s *blobstore.Store, key string, results []string) {
	t.Helper()
	var winners []string
	for _, r := range results {
		if who, won := strings.CutPrefix(r, "created:"); won {
			winners = append(winners, who)
		} else if r != "exists" {
			t.Errorf("%s: %s", key, r)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("%s: %d winners: %q", key, len(winners), winners)
	}
	wantObject(t, s, key, string(payload(winners[0])))
}

func testRaceGoroutines(t *testing.T, s *blobstore.Store) {
	n := soak(400)
	for i := range n {
		key := fmt.Sprintf("l/%020d.json", i)
		wantOneWinner(t, s, key, raceOnce(t.Context(), s, key, "p"))
	}
	t.Logf("%d keys, %d goroutines, one winner each", n, goroutines)
}

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, s *blobstore.Store, role, name string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role, childURL+"="+s.URL(), childName+"="+name)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{cmd, in, bufio.NewScanner(out)}
}

func testRaceProcesses(t *testing.T, s *blobstore.Store) {
	var children []*process
	for p := range processes {
		children = append(children, start(t, s, "race", fmt.Sprint("p", p)))
	}
	n := soak(400)
	for i := range n {
		key := fmt.Sprintf("l/%020d.json", i)
		for _, c := range children {
			if _, err := fmt.Fprintln(c.in, key); err != nil {
				t.Fatal(err)
			}
		}
		var results []string
		for _, c := range children {
			if !c.out.Scan() {
				t.Fatalf("a child ended: %v", c.out.Err())
			}
			results = append(results, strings.Fields(c.out.Text())...)
		}
		if len(results) != processes*goroutines {
			t.Fatalf("%d results", len(results))
		}
		wantOneWinner(t, s, key, results)
	}
	for _, c := range children {
		if err := errors.Join(c.in.Close(), c.cmd.Wait()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d keys, %d processes of %d goroutines, one winner each", n, processes, goroutines)
	if got := len(keys(t, s, "", "")); got != n {
		t.Errorf("%d keys listed, want %d", got, n)
	}
}

// childCreatesUntilKilled creates objects and tells of each that it did.
func childCreatesUntilKilled(ctx context.Context, s *blobstore.Store, name string) error {
	for i := 0; ; i++ {
		key := fmt.Sprintf("l/%s-%06d", name, i)
		out, err := s.Create(ctx, key, payload(key))
		if out != blobstore.Created {
			return fmt.Errorf("create %s: %s: %w", key, out, err)
		}
		if _, err := fmt.Println(key); err != nil {
			return err
		}
	}
}

// testKilledProcesses kills writers at random moments: what they told of is
// there, and nothing is there in part.
func testKilledProcesses(t *testing.T, h Harness) {
	rng := seeded(t)
	s := h.Open(t)
	told := 0
	for i := range soak(40) {
		c := start(t, s, "kill", fmt.Sprint("p", i))
		for range 1 + rng.IntN(10) {
			if !c.out.Scan() {
				t.Fatalf("child %d ended: %v", i, c.out.Err())
			}
			told++
			wantObject(t, s, c.out.Text(), string(payload(c.out.Text())))
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for c.out.Scan() { // what it told of before it died
			told++
			wantObject(t, s, c.out.Text(), string(payload(c.out.Text())))
		}
		_ = c.cmd.Wait() // killed: an error by design
	}
	all := keys(t, s, "", "")
	if len(all) < told {
		t.Errorf("%d objects, %d told of", len(all), told)
	}
	for _, key := range all {
		wantObject(t, s, key, string(payload(key)))
	}
	t.Logf("%d objects of killed writers, %d told of", len(all), told)
}
