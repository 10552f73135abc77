package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cost is what one child process took.
type cost struct {
	Wall time.Duration
	CPU  time.Duration
	Peak int64 // bytes of resident memory at most
	// Inner is the step alone as the child measured it, without its start; zero
	// if it does not say.
	Inner time.Duration
}

// measure runs a child process to its end and returns what it printed.
func measure(ctx context.Context, args ...string) (*cost, []byte, error) {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env = append(os.Environ(), "RUST_LOG=error", "PYTHONDONTWRITEBYTECODE=1")
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	start := time.Now()
	err := command.Run()
	wall := time.Since(start)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, out.Bytes(), said.Bytes())
	}
	usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, nil, errors.New("this system does not tell what a process used")
	}
	c := &cost{
		Wall: wall,
		CPU:  command.ProcessState.UserTime() + command.ProcessState.SystemTime(),
		Peak: usage.Maxrss * 1024, // Linux counts in KiB
	}
	return c, out.Bytes(), nil
}

// ask runs a command of delta_rs.py and reads the object it prints.
func (h *harness) ask(ctx context.Context, into any, args ...string) (*cost, error) {
	c, out, err := measure(ctx, append([]string{h.python, h.script}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return nil, fmt.Errorf("%q printed %q: %w", args, out, err)
	}
	return c, nil
}

// median is the run with the median wall time.
func median(costs []*cost) *cost {
	sorted := slices.Clone(costs)
	slices.SortFunc(sorted, func(a, b *cost) int { return int(a.Wall - b.Wall) })
	return sorted[len(sorted)/2]
}
