package storeserver

import (
	"bufio"
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

// startLimit bounds a start: a server that says nothing for so long is stuck.
const startLimit = 60 * time.Second

// kind is one of the three stores.
type kind struct {
	name   string
	scheme string // of URLs
	// command returns the program and its first arguments, building it if need be.
	command func() ([]string, error)
	// arguments are those that follow: the address and the folder of the data.
	arguments   func(p *process) []string
	makeBucket  func(p *process, name string) error
	environment func(s *Server) []string
	// describe fills in what a client needs.
	describe func(p *process, s *Server)

	mu     sync.Mutex
	shared *process
	failed error
}

// process is a server, running or killed.
type process struct {
	kind    *kind
	program []string
	address string
	root    string // folder of the data; "": in memory
	own     bool   // of one test
	secret  string

	mu      sync.Mutex
	command *exec.Cmd
	stdin   io.Closer // its end ends the server
	done    chan struct{}
}

// errAbsent: the server cannot be had here.
var errAbsent = errors.New("the server cannot be had")

func shared(t testing.TB, k *kind) *Server {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shared == nil && k.failed == nil {
		k.shared, k.failed = open(k, nil)
	}
	return k.serve(t, k.shared, k.failed)
}

func own(t testing.TB, k *kind) *Server {
	t.Helper()
	p, err := open(k, t)
	if err == nil {
		t.Cleanup(p.stop)
	}
	return k.serve(t, p, err)
}

// serve makes a bucket, or ends the test where there is no server.
func (k *kind) serve(t testing.TB, p *process, err error) *Server {
	t.Helper()
	if errors.Is(err, errAbsent) && os.Getenv("DELTAFOLD_REQUIRE_SERVERS") != "1" {
		t.Skipf("no %s server: %v", k.name, err)
	}
	if err != nil {
		t.Fatalf("no %s server: %v", k.name, err)
	}
	s := &Server{process: p, Endpoint: "http://" + p.address, SecretKey: p.secret}
	k.describe(p, s)
	s.Bucket = s.NewBucket(t)
	return s
}

// open starts a server for one test, or for all of them if t is nil.
func open(k *kind, t testing.TB) (*process, error) {
	program, err := k.command()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAbsent, err)
	}
	p := &process{kind: k, program: program, own: t != nil, secret: newSecret()}
	switch {
	case t != nil:
		p.root = filepath.Join(t.TempDir(), "root")
		err = os.Mkdir(p.root, 0o755)
	case k == s3:
		// Removed by the server at its end: a test binary has no end of its own.
		p.root, err = os.MkdirTemp("", "deltafold-"+k.name+"-")
	}
	if err != nil {
		return nil, err
	}
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

// start starts the server, at the address it had if it had one.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	args := append(p.program[1:len(p.program):len(p.program)], p.kind.arguments(p)...)
	command := exec.Command(p.program[0], args...)
	command.Dir = os.TempDir()
	command.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+s3AccessKey, "AWS_SECRET_ACCESS_KEY="+p.secret, "AWS_REGION="+s3Region)
	said, err := os.CreateTemp("", "deltafold-"+p.kind.name+"-*.stderr")
	if err != nil {
		return err
	}
	defer os.Remove(said.Name()) // read below if the start fails; nobody reads it later
	defer said.Close()
	command.Stderr = said
	stdin, err := command.StdinPipe()
	if err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	killer := time.AfterFunc(startLimit, func() { _ = command.Process.Kill() })
	defer killer.Stop()
	reader := bufio.NewReader(out)
	line, err := reader.ReadString('\n')
	if err != nil {
		_ = command.Process.Kill()
		status := command.Wait()
		text, _ := os.ReadFile(said.Name()) // nothing better to say without it
		return fmt.Errorf("start %s: %w (%w)\n%s", p.program[0], err, status, text)
	}
	p.address, p.command, p.stdin, p.done = strings.TrimSpace(line), command, stdin, make(chan struct{})
	go func() {
		defer close(p.done)
		_, _ = io.Copy(io.Discard, reader) // until it ends
		_ = command.Wait()                 // it was told to end; its status says nothing about a test
	}()
	return nil
}

// kill ends the server at once. Does nothing if it is killed already.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return
	}
	_ = p.command.Process.Kill() // an error means that it has ended
	<-p.done
	p.command = nil
}

// stop lets the server end by itself, and kills it if it does not.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return
	}
	_ = p.stdin.Close() // an error means that it has ended
	killer := time.AfterFunc(5*time.Second, func() { _ = p.command.Process.Kill() })
	<-p.done
	killer.Stop()
	p.command = nil
}

func (p *process) mustBeOwn(t testing.TB) {
	t.Helper()
	if !p.own {
		t.Fatalf("the %s server is shared with other tests: use Own%s", p.kind.name, strings.ToUpper(p.kind.name))
	}
}
