package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// writers is what several processes that write to one table at once did.
type writers struct {
	place, engine string
	wall          time.Duration
	commits       int
	retries       string // commits lost and tried again, as the engine tells
	gaveUp        string // what the engine left to its caller
	lost          []string
	files         int
	state         string
}

// tries bounds how often one batch is tried: the default of deltafold.
const tries = 100

// concurrent has each engine write small batches with overlapping keys from
// several processes at once, on a folder and on an S3 server, and compares the
// states that they leave.
func (h *harness) concurrent(ctx context.Context, w io.Writer) error {
	batches := filepath.Join(h.work, "batches")
	if err := os.Mkdir(batches, 0o700); err != nil {
		return err
	}
	var nothing struct{}
	if _, err := h.ask(ctx, &nothing, "small_batches", batches, fmt.Sprint(h.o.processes), fmt.Sprint(h.o.batches)); err != nil {
		return err
	}
	server, stop, err := startS3(ctx, h.work)
	if err != nil {
		return err
	}
	defer stop()
	roots := map[string]string{"folder": h.work, "s3": server}
	var all []*writers
	states := map[string]string{}
	for _, place := range strings.Split(h.o.at, ",") {
		for _, e := range []string{"deltafold", "delta-rs"} {
			progress("%d processes with %d batches each, %s, %s", h.o.processes, h.o.batches, e, place)
			r, err := h.writeAtOnce(ctx, e, roots[place]+"/writers-"+e, batches)
			if err != nil {
				return err
			}
			r.place = place
			all = append(all, r)
			if len(r.lost) == 0 {
				states[r.state] = r.engine + " on " + r.place
			}
		}
	}
	h.reportWriters(w, all)
	if len(states) > 1 {
		return fmt.Errorf("results differ: %v", states)
	}
	return nil
}

// writeAtOnce makes a table and has the processes write to it.
func (h *harness) writeAtOnce(ctx context.Context, engine, table, batches string) (*writers, error) {
	var nothing struct{}
	if _, err := h.ask(ctx, &nothing, "small_table", table); err != nil {
		return nil, err
	}
	first := 0
	if engine == "deltafold" {
		if _, _, err := measure(ctx, h.deltafold, "adopt", table); err != nil {
			return nil, err
		}
		first = 1
	}
	r := &writers{engine: engine}
	work := h.applyAll
	if engine == "delta-rs" {
		work = h.mergeAll
	}
	told := make([]*told, h.o.processes)
	errs := make([]error, h.o.processes)
	var wg sync.WaitGroup
	began := time.Now()
	for p := range h.o.processes {
		wg.Go(func() {
			var files []string
			for b := range h.o.batches {
				files = append(files, filepath.Join(batches, fmt.Sprintf("batch-%d-%d.parquet", p, b)))
			}
			told[p], errs[p] = work(ctx, table, files)
		})
	}
	wg.Wait()
	r.wall = time.Since(began)
	retries, gaveUp := 0, map[string]int{}
	for p := range told {
		if errs[p] != nil {
			return nil, errs[p]
		}
		retries += told[p].retries
		for name, n := range told[p].GaveUp {
			gaveUp[name] += n
		}
		r.lost = append(r.lost, told[p].Lost...)
	}
	r.retries, r.gaveUp = fmt.Sprint(retries), "0"
	if engine == "delta-rs" {
		r.retries = "not told"
	}
	if len(gaveUp) > 0 {
		r.gaveUp = strings.Trim(fmt.Sprint(gaveUp), "map[]")
	}
	var end struct {
		Rows, Active, Deleted, Conflict, Keys int64
		Sum                                   string
		Files, Version                        int
	}
	if _, err := h.ask(ctx, &end, "fingerprint", table); err != nil {
		return nil, err
	}
	r.commits, r.files = end.Version-first, end.Files
	end.Files, end.Version = 0, 0
	r.state = fmt.Sprintf("%+v", end)
	return r, nil
}

// told is what one process says at its end.
type told struct {
	GaveUp  map[string]int `json:"gave_up"` // by the error's name
	Lost    []string       `json:"lost"`    // batches that were not applied
	retries int
}

// mergeAll is one Python process.
func (h *harness) mergeAll(ctx context.Context, table string, files []string) (*told, error) {
	t := &told{}
	_, err := h.ask(ctx, t, append([]string{"work", table, fmt.Sprint(tries)}, files...)...)
	return t, err
}

// applyAll runs deltafold once for each file, as its users do.
func (h *harness) applyAll(ctx context.Context, table string, files []string) (*told, error) {
	t := &told{}
	for _, f := range files {
		_, out, err := measure(ctx, h.deltafold, "apply", table, f, "--json", "--max-retries", fmt.Sprint(tries-1))
		if err != nil {
			return nil, err
		}
		var said struct{ Retries int }
		if err := json.Unmarshal(out, &said); err != nil {
			return nil, err
		}
		t.retries += said.Retries
	}
	return t, nil
}

func (h *harness) reportWriters(w io.Writer, all []*writers) {
	fmt.Fprintf(w, "%d processes at once, %d batches of 1 to 12 changes each, on one table with keys that overlap; %s, delta-rs %s.\n\n",
		h.o.processes, h.o.batches, revision(), h.versions["delta-rs"])
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprint(t, "| table on\t| engine\t| wall s\t| commits\t| commits a second\t| lost and tried again\t| given up by the engine\t| batches lost after 100 tries\t| live files\t|\n")
	fmt.Fprint(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|\n")
	for _, r := range all {
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %d\t| %.1f\t| %s\t| %s\t| %d\t| %d\t|\n",
			r.place, r.engine, seconds(r.wall), r.commits, float64(r.commits)/r.wall.Seconds(), r.retries, r.gaveUp, len(r.lost), r.files)
	}
	t.Flush()
	for _, r := range all {
		for i, l := range r.lost {
			if i == 3 {
				break
			}
			fmt.Fprintf(w, "\n%s on %s lost %s\n", r.engine, r.place, l)
		}
	}
}

// startS3 builds and starts the S3 server of tools/s3gw, sets the environment of
// this process for it, and returns the URL of a bucket.
func startS3(ctx context.Context, work string) (url string, stop func(), err error) {
	program, root := filepath.Join(work, "s3gw"), filepath.Join(work, "s3")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("tools", "s3gw")
	if out, err := build.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("build the S3 server: %w\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(root, "bench"), 0o700); err != nil {
		return "", nil, err
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": rand.Text(), "AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1",
		"AWS_PROFILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			return "", nil, err
		}
	}
	server := exec.CommandContext(ctx, program, "--root", root)
	input, err := server.StdinPipe() // its end ends the server
	if err != nil {
		return "", nil, err
	}
	output, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		input.Close()
		_ = server.Wait() // it was told to end
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("start the S3 server: %w", err)
	}
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		if err := os.Setenv(name, "http://"+strings.TrimSpace(address)); err != nil {
			stop()
			return "", nil, err
		}
	}
	if err := os.Setenv("AWS_ALLOW_HTTP", "true"); err != nil {
		stop()
		return "", nil, err
	}
	return "s3://bench", stop, nil
}
