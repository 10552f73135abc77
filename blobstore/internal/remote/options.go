package remote

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// The bounds of one request, where [Options] says nothing. A request is sent
// again while all of them allow it; a slow attempt does not use up the time of
// the next two.
const (
	DefaultRetryFor = 30 * time.Second // from the first attempt to the last
	DefaultAttempts = 16
	DefaultSilence  = 30 * time.Second // of a server before an attempt is given up
	DefaultPartSize = 8 << 20          // bytes

	leastAttempts = 3
	leastRate     = 64 << 10 // bytes a second of an upload, before its attempt is given up
	uploads       = 3        // parts of one object sent at once
	firstWait     = 100 * time.Millisecond
	longestWait   = 5 * time.Second
)

// Options are what a driver takes beside its bucket. nil is the default.
type Options struct {
	// Prefix is put before all keys: "", or parts that end in '/'.
	Prefix string
	// Endpoint and Bucket name the store in errors and in what is remembered of it.
	Endpoint, Bucket string
	// Conditional says that the store is known to decide conditional puts, so that
	// it is not probed.
	Conditional bool
	// UnsafeSingleWriter allows stores that do not; see [driver.Config].
	UnsafeSingleWriter bool
	// CheckLog, if not nil, may refuse the table's log folder before the first
	// object is created in it. d is the driver itself.
	CheckLog func(ctx context.Context, d driver.Driver) error
	// Memory is the folder that remembers which stores honour conditions; "" is
	// deltafold/conditional-put in the user's cache folder.
	Memory string
	// Stats counts requests; nil counts nothing.
	Stats *driver.Stats

	// Reading bounds reads at random.
	Reading Reading

	// RetryFor, Attempts, Silence and PartSize are bounds; 0 is the default.
	RetryFor time.Duration
	Attempts int
	Silence  time.Duration
	PartSize int64

	// Now, Sleep and Jitter are the clock, a wait that ends early with ctx, and a
	// random number in [0, 1); nil is the machine's.
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
	Jitter func() float64
}

// withDefaults returns a copy with all that was left out.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.RetryFor == 0 {
		c.RetryFor = DefaultRetryFor
	}
	if c.Attempts == 0 {
		c.Attempts = DefaultAttempts
	}
	if c.Silence == 0 {
		c.Silence = DefaultSilence
	}
	if c.PartSize == 0 {
		c.PartSize = DefaultPartSize
	}
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the default clock
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Memory == "" {
		// Without a cache folder nothing is remembered.
		if dir, err := os.UserCacheDir(); err == nil {
			c.Memory = filepath.Join(dir, "deltafold", "conditional-put")
		}
	}
	return c
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
