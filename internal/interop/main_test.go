package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// processes starts the peers; binary gives deltafold's command, built at its
// first use. Both are set by TestMain and only read afterwards.
var (
	processes *launcher
	binary    func() (string, error)
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	scratch, err := os.MkdirTemp("", "deltafold-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	binary = sync.OnceValues(func() (string, error) {
		path := filepath.Join(scratch, "deltafold")
		said, err := exec.Command("go", "build", "-o", path, "../../cmd/deltafold").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build the command: %w\n%s", err, said)
		}
		return path, nil
	})
	processes = &launcher{scratch: scratch, started: map[string]*peerProcess{}, failed: map[string]error{}}
	defer processes.stop()
	return m.Run()
}

// soak reports whether the full numbers of random cases run.
func soak() bool { return os.Getenv("DELTAFOLD_SOAK") == "1" }

// seed is printed by the tests that use it; DELTAFOLD_SEED repeats a run.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("DELTAFOLD_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("DELTAFOLD_SEED: %v", err)
		}
	}
	return s
}

// shared is the path of a folder that is kept beside the repository.
func shared(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("DELTAFOLD_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("DELTAFOLD_REQUIRE_TABLES") == "1" {
			t.Fatalf("DELTAFOLD_REQUIRE_TABLES=1, but: %v", err)
		}
		t.Skipf("no %s: set DELTAFOLD_SHARED to the folder that has it: %v", name, err)
	}
	return path
}

// result of one run of the command.
type result struct {
	status         int
	stdout, stderr []byte
}

// attempt runs the command with that standard input.
func attempt(t *testing.T, stdin []byte, args ...string) result {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Stdin = bytes.NewReader(stdin)
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("deltafold %q: %v", args, err)
	}
	return result{status: command.ProcessState.ExitCode(), stdout: out.Bytes(), stderr: said.Bytes()}
}

// deltafold runs the command and fails the test unless its exit status is 0.
func deltafold(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	r := attempt(t, stdin, args...)
	if r.status != 0 {
		t.Fatalf("deltafold %q: exit status %d\n%s%s", args, r.status, r.stdout, r.stderr)
	}
	return r.stdout
}

// create makes a plain table by the command and fills it in one commit.
func create(t *testing.T, path string, d *dataset) {
	t.Helper()
	args := []string{"create", path, "--schema", d.ddl()}
	for _, c := range d.partitionBy {
		args = append(args, "--partition-by", c)
	}
	for k, v := range d.properties {
		args = append(args, "--property", k+"="+v)
	}
	deltafold(t, nil, args...)
	if len(d.rows) > 0 {
		appendRows(t, path, d)
	}
}

// appendRows adds rows to a plain table.
func appendRows(t *testing.T, path string, d *dataset) {
	t.Helper()
	deltafold(t, d.jsonLines(t), "append", path, "-", "--format", "jsonl", "--quiet")
}

// applied is what apply --json prints, as far as these tests look at it.
type applied struct {
	Run     string           `json:"run"`
	Counts  map[string]int64 `json:"counts"`
	Version *int64           `json:"version"`
}

// apply folds a batch by the command.
func apply(t *testing.T, path string, d *dataset, args ...string) *applied {
	t.Helper()
	args = append([]string{"apply", path, "-", "--format", "jsonl", "--json"}, args...)
	text := deltafold(t, d.jsonLines(t), args...)
	out := new(applied)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("apply --json printed %q: %v", text, err)
	}
	return out
}

// readRows reads the latest version by the command, or with more flags.
func readRows(t *testing.T, path string, args ...string) rows {
	t.Helper()
	args = append([]string{"read", path, "--format", "jsonl"}, args...)
	return parseRows(t, "deltafold", deltafold(t, nil, args...))
}
