package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestHit(t *testing.T) {
	bin := t.TempDir()
	for _, tags := range []string{"failpoint", ""} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-tags="+tags, "-o", filepath.Join(bin, "p"+tags), "./testdata/hit")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	for _, c := range []struct {
		tags, spec string
		killed     bool
		log        string
	}{
		{"failpoint", "", false, "a b a b"},
		{"failpoint", "c", false, "a b a b"},
		{"failpoint", "a", true, "a"},
		{"failpoint", "b:2", true, "a b a b"},
		{"failpoint", "a:3", false, "a b a b"},
		{"", "a", false, ""},
	} {
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "p"+c.tags))
		cmd.Env = append(os.Environ(), "DELTAFOLD_FAILPOINT="+c.spec, "DELTAFOLD_FAILPOINT_LOG="+log)
		out, err := cmd.Output()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if killed != c.killed || !killed && (err != nil || string(out) != "end\n") {
			t.Errorf("%q: killed %v, output %q, %v", c.spec, killed, out, err)
		}
		hits, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if got := strings.Join(strings.Fields(string(hits)), " "); got != c.log {
			t.Errorf("%q: hits %q, want %q", c.spec, got, c.log)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pfailpoint"))
	cmd.Env = append(os.Environ(), "DELTAFOLD_FAILPOINT=a:x")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `"a:x"`) {
		t.Errorf("a malformed point: %v\n%s", err, out)
	}
}
