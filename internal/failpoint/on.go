//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Enabled tells whether this build can be killed at its failpoints.
const Enabled = true

// hits counts what was hit so far; only this test build has such a variable.
var hits struct {
	sync.Mutex
	count map[string]int
}

// Hit kills the process if the environment asks for it at this hit of name.
// Safe for concurrent use. A malformed DELTAFOLD_FAILPOINT or a log that cannot
// be written panics: a test that would prove nothing must not pass.
func Hit(name string) {
	hits.Lock()
	defer hits.Unlock()
	if hits.count == nil {
		hits.count = map[string]int{}
	}
	hits.count[name]++
	if file := os.Getenv("DELTAFOLD_FAILPOINT_LOG"); file != "" {
		note(file, name)
	}
	want, at, err := parse(os.Getenv("DELTAFOLD_FAILPOINT"))
	if err != nil {
		panic(err)
	}
	if want == name && hits.count[name] == at {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(fmt.Errorf("failpoint: kill at %s: %w", name, err))
		}
		select {} // SIGKILL is on its way; nothing of this goroutine may go on
	}
}

func parse(spec string) (name string, at int, err error) {
	name, count, given := strings.Cut(spec, ":")
	if !given {
		return name, 1, nil
	}
	at, err = strconv.Atoi(count)
	if err != nil || at < 1 {
		return "", 0, fmt.Errorf("failpoint: DELTAFOLD_FAILPOINT=%q: want name or name:n with n of 1 or more", spec)
	}
	return name, at, nil
}

func note(file, name string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(fmt.Errorf("failpoint: log: %w", err))
	}
	if _, err := f.WriteString(name + "\n"); err != nil {
		panic(fmt.Errorf("failpoint: log: %w", err))
	}
	if err := f.Close(); err != nil {
		panic(fmt.Errorf("failpoint: log: %w", err))
	}
}
