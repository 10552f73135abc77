package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// shown runs a display whose clock is in the hands of the test. What it wrote
// may be read after stop.
func shown() (p *progress, w *bytes.Buffer, start, tick chan time.Time) {
	p = &progress{done: make(chan struct{}), gone: make(chan struct{})}
	w, start, tick = &bytes.Buffer{}, make(chan time.Time), make(chan time.Time)
	go p.show(w, p.done, start, tick) // p.done as it is now
	return p, w, start, tick
}

func TestProgressShowsNothingOfShortRuns(t *testing.T) {
	p, w, _, _ := shown()
	p.step("reading")
	p.stop()
	if got := w.String(); got != "" {
		t.Errorf("a short run showed %q", got)
	}
}

func TestProgressShowsTheStepsOfLongRuns(t *testing.T) {
	p, w, start, tick := shown()
	p.step("reading batch.jsonl")
	start <- time.Time{}
	tick <- time.Time{} // taken when the first step is drawn
	p.step("merging batch.jsonl")
	tick <- time.Time{}
	tick <- time.Time{}
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
}

func TestProgressStopsBeforeItStarts(t *testing.T) {
	var w bytes.Buffer
	p := startProgress(&w, time.Hour)
	p.step("anything")
	p.stop()
	if w.Len() > 0 {
		t.Errorf("shown: %q", w.String())
	}
	none := &progress{}
	none.step("anything")
	none.stop()
}
