package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestProgressShowsLongRunsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w lockedBuffer
		p := startProgress(&w, time.Second)
		p.step("reading")
		time.Sleep(900 * time.Millisecond)
		p.stop()
		if got := w.String(); got != "" {
			t.Errorf("a short run showed %q", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var w lockedBuffer
		p := startProgress(&w, time.Second)
		p.step("reading batch.jsonl")
		time.Sleep(1500 * time.Millisecond)
		p.step("merging batch.jsonl")
		time.Sleep(500 * time.Millisecond)
		p.stop()
		p.stop() // again does nothing
		p.step("after the end")
		got := w.String()
		for _, want := range []string{"reading batch.jsonl", "merging batch.jsonl"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q was not shown: %q", want, got)
			}
		}
		if strings.Contains(got, "after the end") {
			t.Error("shown after stop")
		}
	})
}

func TestNoProgress(t *testing.T) {
	p := &progress{}
	p.step("anything")
	p.stop()
}
