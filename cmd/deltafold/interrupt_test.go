package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startCommand runs this test binary as the command; see TestMain.
func startCommand(t *testing.T, dir string, args ...string) (*exec.Cmd, func(data string) error, *bytes.Buffer) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "deltafold")
	if err := os.Symlink(os.Args[0], bin); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func(data string) error {
		_, err := stdin.Write([]byte(data))
		return err
	}, stderr
}

func TestInterruptedWhileReading(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := t.TempDir()
		cmd, write, stderr := startCommand(t, dir, "apply", "t", "-", "--format", "jsonl")
		// More than a pipe holds: when it is written the command is reading, and
		// catches signals.
		row := `{"change_id":"1","entity_id":"a","source_version":1,"operation":"upsert","value":"x"}` + "\n"
		if err := write(strings.Repeat(row, 5000)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 130 {
			t.Fatalf("%s: got %v, want exit status 130 (%s)", sig, err, stderr)
		}
		if got, want := stderr.String(), "deltafold: interrupted; nothing was committed\n"; got != want {
			t.Errorf("%s: got %q, want %q", sig, got, want)
		}
		if _, err := os.Stat(filepath.Join(dir, "t")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a table was made: %v", sig, err)
		}
	}
}
