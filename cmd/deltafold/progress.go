package main

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal what a long run is doing. The zero value shows
// nothing. Safe for concurrent use.
type progress struct {
	mu   sync.Mutex
	text string
	done chan struct{} // closed by stop; nil: not running
	gone chan struct{} // closed when the display is cleared
}

// startProgress shows the current step once delay has passed, on one line that
// is cleared again by stop.
func startProgress(w io.Writer, delay time.Duration) *progress {
	done := make(chan struct{}) // NB: p.done is nil once stop was called, so show has its own
	p := &progress{done: done, gone: make(chan struct{})}
	tick := time.NewTicker(100 * time.Millisecond)
	go func() {
		defer tick.Stop()
		p.show(w, done, time.After(delay), tick.C)
	}()
	return p
}

// show waits for start, then draws at each tick until done is closed.
func (p *progress) show(w io.Writer, done <-chan struct{}, start, tick <-chan time.Time) {
	defer close(p.gone)
	select {
	case <-done:
		return
	case <-start:
	}
	bar := progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionSetSpinnerChangeInterval(0), // drawn here: the bar's own goroutine outlives it
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionClearOnFinish(),
	)
	for {
		p.mu.Lock()
		bar.Describe(p.text)
		p.mu.Unlock()
		_ = bar.Add(1) // a display that cannot be drawn is no reason to fail
		select {
		case <-done:
			_ = bar.Finish()
			return
		case <-tick:
		}
	}
}

// step says what is being done now.
func (p *progress) step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// stop clears the display for good.
func (p *progress) stop() {
	p.mu.Lock()
	done := p.done
	p.done = nil
	p.mu.Unlock()
	if done != nil {
		close(done)
		<-p.gone
	}
}
