package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// requestLimit bounds one answer of a peer; a peer that is stuck fails the test
// that asked, not the run.
const requestLimit = 4 * time.Minute

// peerProcess is a running driver. Requests are answered one at a time; safe for
// concurrent use.
type peerProcess struct {
	name    string
	mu      sync.Mutex
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  string // file
	broken  error
}

// peerError is what a peer answered instead of a result.
type peerError struct {
	Peer, Request, Type, Text string
}

func (e *peerError) Error() string {
	return fmt.Sprintf("%s refuses %s: %s: %s", e.Peer, e.Request, e.Type, e.Text)
}

// launcher starts each kind of process at most once in a run of the tests.
type launcher struct {
	scratch string
	mu      sync.Mutex
	started map[string]*peerProcess
	failed  map[string]error
}

// errAbsent: the peers are not installed.
var errAbsent = errors.New("peers are not installed")

func peersFolder() (string, error) {
	folder := os.Getenv("DELTAFOLD_PEERS")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%w: no home folder: %w", errAbsent, err)
		}
		folder = filepath.Join(home, ".cache", "deltafold-peers")
	}
	return folder, nil
}

// arguments is the command line of a kind of process: spark, sail or lake.
func (l *launcher) arguments(kind string) ([]string, error) {
	folder, err := peersFolder()
	if err != nil {
		return nil, err
	}
	needed := []string{filepath.Join(folder, kind, ".installed")}
	if kind == "spark" {
		needed = append(needed, filepath.Join(folder, "jars", ".installed"))
	}
	for _, file := range needed {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%w: %s is missing; .ci/peers installs them", errAbsent, file)
		}
	}
	script, err := filepath.Abs(filepath.Join("peers", kind+"_peer.py"))
	if err != nil {
		return nil, err
	}
	args := []string{filepath.Join(folder, kind, "bin", "python"), script}
	if kind == "spark" {
		args = append(args, filepath.Join(folder, "jars"), filepath.Join(l.scratch, "spark"))
	}
	return args, nil
}

// start returns the process of a kind, started on first use.
func (l *launcher) start(kind string) (*peerProcess, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.started[kind]; p != nil {
		return p, nil
	}
	if err := l.failed[kind]; err != nil {
		return nil, err
	}
	p, err := l.launch(kind)
	if err != nil {
		l.failed[kind] = err
		return nil, err
	}
	l.started[kind] = p
	return p, nil
}

func (l *launcher) launch(kind string) (*peerProcess, error) {
	args, err := l.arguments(kind)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(l.scratch, kind)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	p := &peerProcess{name: kind, stderr: filepath.Join(l.scratch, kind+".stderr")}
	log, err := os.Create(p.stderr)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.command = exec.Command(args[0], args[1:]...)
	p.command.Dir = work // Spark leaves files where it runs
	p.command.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", "TZ=UTC", "RUST_LOG=warn")
	p.command.Stderr = log
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	if _, err := p.call("versions", nil); err != nil {
		return nil, err
	}
	return p, nil
}

// stop ends every process that was started.
func (l *launcher) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.started {
		p.stop()
	}
}

func (p *peerProcess) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.in.Close() // the driver leaves its loop; if it is gone already there is nothing to tell
	killer := time.AfterFunc(20*time.Second, func() { _ = p.command.Process.Kill() })
	_ = p.command.Wait() // its status says nothing about a test
	killer.Stop()
}

// call sends one request and returns the member "ok" of the answer. An answer
// with an error is a *peerError.
func (p *peerProcess) call(request string, arguments map[string]any) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return nil, p.broken
	}
	message := map[string]any{"cmd": request}
	for k, v := range arguments {
		message[k] = v
	}
	line, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	killer := time.AfterFunc(requestLimit, func() { _ = p.command.Process.Kill() })
	defer killer.Stop()
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return nil, p.fail(request, err)
	}
	text, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, p.fail(request, err)
	}
	var answer struct {
		OK    json.RawMessage `json:"ok"`
		Error *string         `json:"error"`
		Type  string          `json:"type"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, p.fail(request, err)
	}
	if answer.Error != nil {
		return nil, &peerError{Peer: p.name, Request: request, Type: answer.Type, Text: *answer.Error}
	}
	return answer.OK, nil
}

// fail marks the process as broken and says what it last printed.
func (p *peerProcess) fail(request string, err error) error {
	said, readErr := os.ReadFile(p.stderr)
	if readErr != nil {
		said = []byte(readErr.Error())
	}
	if len(said) > 4000 {
		said = said[len(said)-4000:]
	}
	p.broken = fmt.Errorf("%s stopped at %s: %w\n%s", p.name, request, err, strings.TrimSpace(string(said)))
	return p.broken
}

// peer is one of the engines that tests speak to.
type peer struct {
	t       *testing.T
	name    string
	process *peerProcess
	read    string // request that reads a table
	append  string // request that appends rows
	merge   string // request that upserts rows; "" if the engine has no MERGE
	creates bool   // whether it can make a table
}

var peerKinds = map[string]struct {
	kind string
	peer peer
}{
	"spark":    {"spark", peer{read: "read", append: "write", merge: "merge", creates: true}},
	"sail":     {"sail", peer{read: "read", append: "write", merge: "merge", creates: true}},
	"delta-rs": {"lake", peer{read: "read", append: "write", merge: "merge", creates: true}},
	"duckdb":   {"lake", peer{read: "duck_read", append: "duck_write"}},
}

// allPeers in the order in which tests visit them.
var allPeers = []string{"spark", "delta-rs", "sail", "duckdb"}

// needPeer returns the peer of that name, or skips the test if the peers are not
// installed (fails with DELTAFOLD_REQUIRE_PEERS=1). A peer that is installed but
// does not start is always a failure.
func needPeer(t *testing.T, name string) *peer {
	t.Helper()
	k := peerKinds[name]
	process, err := processes.start(k.kind)
	if errors.Is(err, errAbsent) && os.Getenv("DELTAFOLD_REQUIRE_PEERS") != "1" {
		t.Skipf("no %s: %v", name, err)
	}
	if err != nil {
		t.Fatalf("no %s: %v", name, err)
	}
	p := k.peer
	p.t, p.name, p.process = t, name, process
	return &p
}

// ask sends a request and fails the test on any error.
func (p *peer) ask(request string, arguments map[string]any) json.RawMessage {
	p.t.Helper()
	result, err := p.process.call(request, arguments)
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return result
}

// rows reads the latest version of the table at path.
func (p *peer) rows(path string) rows {
	p.t.Helper()
	return parseRows(p.t, p.name, p.ask(p.read, map[string]any{"path": path}))
}

// rowsAt reads a version of the table at path.
func (p *peer) rowsAt(path string, version int) rows {
	p.t.Helper()
	return parseRows(p.t, p.name, p.ask(p.read, map[string]any{"path": path, "version": version}))
}

// create makes a table and fills it.
func (p *peer) create(path string, d *dataset) {
	p.t.Helper()
	p.ask(p.append, map[string]any{
		"path": path, "columns": d.columns, "rows": d.rows, "mode": "create",
		"partition_by": d.partitionBy, "properties": d.properties,
	})
}

// add appends rows to a table.
func (p *peer) add(path string, d *dataset) {
	p.t.Helper()
	p.ask(p.append, map[string]any{"path": path, "columns": d.columns, "rows": d.rows})
}

// upsert merges rows into a table by keys.
func (p *peer) upsert(path string, d *dataset, keys ...string) {
	p.t.Helper()
	p.ask(p.merge, map[string]any{"path": path, "columns": d.columns, "rows": d.rows, "keys": keys})
}

// run runs a statement on Spark or Sail; {target} in it is the table at path.
func (p *peer) run(path, statement string) {
	p.t.Helper()
	p.ask("run", map[string]any{"path": path, "sql": statement})
}
