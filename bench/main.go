// Command bench measures deltafold beside delta-rs: the same guarded merge, on
// the same files, in the same run, each in a process of its own. It prints a
// Markdown report.
//
//	go run ./bench                 10,000,000 rows in 16 files; 1, 100,000 and 1,000,000 changes
//	go run ./bench -quick          the same, small: tells only that it works and that results are equal
//	go run ./bench -latency 20ms   instead: tables on an S3 server behind a proxy that delays each request
//	go run ./bench -concurrent     instead: 8 processes that write 100 small batches each to one table at once
//
// The table and the changes are made by DuckDB and delta-rs, from hashes, so
// that every run has the same ones. Each run works on a copy whose data files
// are hard links: no writer of Delta tables changes a file in place. The results
// are compared as multisets of rows; a difference is an error. What deltafold
// does beyond the merge (outcomes, hashes of files, a digest of the table) is in
// its time; what delta-rs's side needs before the merge (folding the batch to
// one change a key, by DuckDB) is in its time.
//
// The peers come from .ci/peers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	rows    int
	files   int
	changes []int
	commits int
	repeat  int
	dir     string
	peers   string

	latency            time.Duration
	concurrent         bool
	processes, batches int
	at                 string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, "deltafold-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	h, err := newHarness(ctx, o, work)
	if err != nil {
		return err
	}
	if o.latency > 0 {
		return h.latency(ctx, os.Stdout)
	}
	if o.concurrent {
		return h.concurrent(ctx, os.Stdout)
	}
	if err := h.makeTables(ctx); err != nil {
		return err
	}
	if err := h.merges(ctx); err != nil {
		return err
	}
	if err := h.carryOut(ctx); err != nil {
		return err
	}
	if err := h.opening(ctx); err != nil {
		return err
	}
	return h.report(os.Stdout)
}

func parse() (*options, error) {
	o := &options{}
	flag.IntVar(&o.rows, "rows", 10_000_000, "rows of the state table")
	flag.IntVar(&o.files, "files", 16, "data files of the state table")
	changes := flag.String("changes", "1,100000,1000000", "sizes of the batches")
	flag.IntVar(&o.commits, "commits", 10_000, "commits of the log that is opened")
	flag.IntVar(&o.repeat, "repeat", 3, "runs of each measurement; the median counts")
	flag.StringVar(&o.dir, "dir", "", "folder for the data; needs 2 GB (default: the system's temporary folder)")
	quick := flag.Bool("quick", false, "small sizes, one run each: a test of the harness")
	flag.DurationVar(&o.latency, "latency", 0, "of a request to an S3 server: measure that, in place of the other tasks")
	flag.BoolVar(&o.concurrent, "concurrent", false, "several writers at once, in place of the other tasks")
	flag.IntVar(&o.processes, "processes", 8, "with -concurrent: writers at once")
	flag.IntVar(&o.batches, "batches", 100, "with -concurrent: batches of each writer")
	flag.StringVar(&o.at, "at", "folder,s3", "with -concurrent: places of the table")
	flag.Parse()
	if *quick {
		o.rows, o.files, *changes, o.commits, o.repeat = 200_000, 4, "1,1000,20000", 300, 1
		o.processes, o.batches = 4, 5
	}
	for _, text := range strings.Split(*changes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-changes: %q is no number of changes", text)
		}
		o.changes = append(o.changes, n)
	}
	o.peers = os.Getenv("DELTAFOLD_PEERS")
	if o.peers == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		o.peers = filepath.Join(home, ".cache", "deltafold-peers")
	}
	if _, err := os.Stat(filepath.Join(o.peers, "lake", ".installed")); err != nil {
		return nil, fmt.Errorf("delta-rs is not installed (.ci/peers does it): %w", err)
	}
	return o, nil
}
