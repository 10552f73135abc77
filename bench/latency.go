package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/s3" // s3://
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/faultproxy"
)

// Sizes of the tables behind a server with latency.
const (
	thousandRows, thousandFiles = 2_000_000, 1_000
	wideFiles, wideRows         = 64, 8_000 // rows of a file, of 1 KiB
)

// distant measures tables on an S3 server behind a proxy that delays each request.
type distant struct {
	h      *harness
	proxy  *faultproxy.Proxy
	bucket string // folder of the server's bucket
	copies int
	lines  []*distantLine
}

// distantLine is a task of an engine, without and with latency.
type distantLine struct {
	task, engine  string
	near, far     time.Duration // medians
	requests      int
	received, put int64 // bytes
}

// latency measures what a round trip to the server costs each task: opening a
// table, one changed file of a thousand, a whole scan.
func (h *harness) latency(ctx context.Context, w io.Writer) error {
	url, stop, err := startS3(ctx, h.work)
	if err != nil {
		return err
	}
	defer stop()
	d := &distant{h: h, bucket: filepath.Join(h.work, "s3", "bench")}
	if err := d.tables(ctx, url); err != nil {
		return err
	}
	if d.proxy, err = faultproxy.Start(os.Getenv("AWS_ENDPOINT_URL"), nil); err != nil {
		return err
	}
	defer d.proxy.Close()
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		if err := os.Setenv(name, d.proxy.URL()); err != nil {
			return err
		}
	}
	// The first commit to an endpoint tries whether it honours conditions, and the first
	// run on an adopted table looks through its history for outcomes: once.
	if _, _, err := measure(ctx, h.deltafold, "apply", url+"/adopted", filepath.Join(h.work, "first.parquet"), "--quiet"); err != nil {
		return err
	}
	for _, run := range []func(context.Context, string) error{d.open, d.refresh, d.merge, d.scan} {
		if err := run(ctx, url); err != nil {
			return err
		}
	}
	return d.report(w)
}

// tables makes a state table of 1,000 files whose keys ascend, for either engine,
// a wide table, and a batch of one change, and puts them into the bucket.
func (d *distant) tables(ctx context.Context, url string) error {
	h := d.h
	progress("making a table of %d files and one of %d MiB", thousandFiles, wideFiles*wideRows>>10)
	var nothing struct{}
	table, wide := filepath.Join(h.work, "thousand"), filepath.Join(h.work, "wide")
	if _, err := h.ask(ctx, &nothing, "ordered", table, fmt.Sprint(thousandRows), fmt.Sprint(thousandFiles), filepath.Join(h.work, "first.parquet"), filepath.Join(h.work, "one.parquet")); err != nil {
		return err
	}
	if _, err := h.ask(ctx, &nothing, "wide", wide, fmt.Sprint(wideFiles), fmt.Sprint(wideRows)); err != nil {
		return err
	}
	adopted := filepath.Join(h.work, "adopted")
	if err := linkTable(table, adopted); err != nil {
		return err
	}
	if _, _, err := measure(ctx, h.deltafold, "adopt", adopted); err != nil {
		return err
	}
	for name, folder := range map[string]string{"thousand": table, "adopted": adopted, "wide": wide} {
		if err := upload(ctx, folder, url+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// upload puts the files of a folder into a store.
func upload(ctx context.Context, folder, url string) error {
	store, err := blobstore.Open(ctx, url)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		key, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		g.Go(func() error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return store.Put(ctx, filepath.ToSlash(key), data)
		})
		return nil
	})
	return errors.Join(err, g.Wait())
}

// copy gives a table a copy of its own in the bucket, made behind the server's back
// of hard links: the server never changes a file in place.
func (d *distant) copy(table string) (string, error) {
	d.copies++
	name := fmt.Sprintf("%s-%d", table, d.copies)
	if _, err := os.Stat(filepath.Join(d.bucket, table+"-outcomes")); err == nil {
		if err := d.link(table+"-outcomes", name+"-outcomes"); err != nil {
			return "", err
		}
	}
	return name, d.link(table, name)
}

func (d *distant) link(table, name string) error {
	from := filepath.Join(d.bucket, table)
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(d.bucket, name, rel)
		if e.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		return os.Link(path, to)
	})
}

// measure runs a task without and with latency and keeps the medians.
func (d *distant) measure(task, engine string, f func() (time.Duration, error)) error {
	line := &distantLine{task: task, engine: engine}
	for _, far := range []bool{false, true} {
		progress("%s, %s, with latency: %v", task, engine, far)
		d.proxy.SetLatency(0)
		if far {
			d.proxy.SetLatency(d.h.o.latency)
		}
		var took []time.Duration
		for range d.h.o.repeat {
			d.proxy.ResetCounts()
			t, err := f()
			if err != nil {
				return err
			}
			took = append(took, t)
		}
		n := d.proxy.Total()
		line.requests, line.received, line.put = n.Requests, n.Received, n.Sent
		slices.Sort(took)
		if far {
			line.far = took[len(took)/2]
		} else {
			line.near = took[len(took)/2]
		}
	}
	d.proxy.SetLatency(0)
	d.lines = append(d.lines, line)
	return nil
}

func (d *distant) open(ctx context.Context, url string) error {
	const task = "open the table of 1,000 files"
	err := d.measure(task, "deltafold", func() (time.Duration, error) {
		c, _, err := measure(ctx, d.h.deltafold, "describe", url+"/adopted")
		if err != nil {
			return 0, err
		}
		return c.Wall, nil
	})
	if err != nil {
		return err
	}
	return d.measure(task, "delta-rs", func() (time.Duration, error) {
		var said struct{ Seconds float64 }
		_, err := d.h.ask(ctx, &said, "open_table", url+"/thousand")
		return time.Duration(said.Seconds * float64(time.Second)), err
	})
}

// refresh looks for new versions from a process that has the table open.
func (d *distant) refresh(ctx context.Context, url string) error {
	store, err := blobstore.Open(ctx, url+"/adopted")
	if err != nil {
		return err
	}
	table := deltatable.NewTable(store, nil)
	s, err := table.Snapshot(ctx)
	if err != nil {
		return err
	}
	return d.measure("refresh it, nothing new", "deltafold", func() (time.Duration, error) {
		began := time.Now()
		_, err := table.Refresh(ctx, s)
		return time.Since(began), err
	})
}

func (d *distant) merge(ctx context.Context, url string) error {
	const task = "merge 1 change: 1 file of 1,000"
	change := filepath.Join(d.h.work, "one.parquet")
	err := d.measure(task, "deltafold", func() (time.Duration, error) {
		name, err := d.copy("adopted")
		if err != nil {
			return 0, err
		}
		c, _, err := measure(ctx, d.h.deltafold, "apply", url+"/"+name, change, "--quiet")
		if err != nil {
			return 0, err
		}
		return c.Wall, nil
	})
	if err != nil {
		return err
	}
	return d.measure(task, "delta-rs", func() (time.Duration, error) {
		name, err := d.copy("thousand")
		if err != nil {
			return 0, err
		}
		var said struct {
			Merge float64 `json:"merge_seconds"`
		}
		_, err = d.h.ask(ctx, &said, "merge", url+"/"+name, change, "streamed")
		return time.Duration(said.Merge * float64(time.Second)), err
	})
}

// scan reads all columns of all rows and keeps none.
func (d *distant) scan(ctx context.Context, url string) error {
	task := fmt.Sprintf("scan %d files, %d MiB", wideFiles, wideFiles*wideRows>>10)
	err := d.measure(task, "deltafold", func() (time.Duration, error) {
		c, _, err := measure(ctx, d.h.deltafold, "read", url+"/wide", "--where", "length(text) = 3", "--format", "jsonl")
		if err != nil {
			return 0, err
		}
		return c.Wall, nil
	})
	if err != nil {
		return err
	}
	return d.measure(task, "delta-rs", func() (time.Duration, error) {
		var said struct{ Seconds float64 }
		_, err := d.h.ask(ctx, &said, "scan", url+"/wide")
		return time.Duration(said.Seconds * float64(time.Second)), err
	})
}

// report writes what was measured as Markdown. Trips is the time that latency adds,
// in round trips.
func (d *distant) report(w io.Writer) error {
	h := d.h
	fmt.Fprintf(w, "%s, %d cores, %s; %s, delta-rs %s. S3 server (versitygw) on the same machine behind a proxy that delays each request by %v; medians of %d.\n\n",
		processor(), runtime.NumCPU(), runtime.Version(), revision(), h.versions["delta-rs"], h.o.latency, h.o.repeat)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(t, "| task\t| engine\t| s at 0 ms\t| s at %v\t| difference in round trips\t| requests\t| MiB received\t| MiB sent\t|\n", h.o.latency)
	fmt.Fprint(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|\n")
	for _, l := range d.lines {
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %.0f\t| %d\t| %.1f\t| %.1f\t|\n", l.task, l.engine, seconds(l.near), seconds(l.far),
			float64(l.far-l.near)/float64(h.o.latency), l.requests, float64(l.received)/(1<<20), float64(l.put)/(1<<20))
	}
	return t.Flush()
}
