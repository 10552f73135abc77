package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"
)

// report writes what was measured as Markdown. The ratio is a peer's wall time
// to deltafold's for the same task: above 1, deltafold is faster.
func (h *harness) report(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d cores, %s; %s, delta-rs %s, DuckDB %s (folds delta-rs's batches).\n",
		processor(), runtime.NumCPU(), runtime.Version(), revision(), h.versions["delta-rs"], h.versions["duckdb"])
	fmt.Fprintf(w, "State table: %s rows in %d files, random string keys. Median of %d runs, the engines in turn. All results equal.\n\n",
		grouped(h.o.rows), h.o.files, h.o.repeat)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprint(t, "| task\t| engine\t| wall s\t| without start s\t| CPU s\t| peak MiB\t| time, of deltafold's\t| memory, of deltafold's\t|\n")
	fmt.Fprint(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|\n")
	ours := map[string]*cost{}
	for _, r := range h.results {
		if r.Engine == "deltafold" {
			ours[r.Task] = r.Cost
		}
	}
	for _, r := range h.results {
		c, base := r.Cost, ours[r.Task]
		inner := "-"
		if c.Inner > 0 {
			inner = seconds(c.Inner)
		}
		fmt.Fprintf(t, "| %s\t| %s\t| %s\t| %s\t| %s\t| %d\t| %s\t| %s\t|\n",
			r.Task, r.Engine, seconds(c.Wall), inner, seconds(c.CPU), c.Peak>>20,
			ratio(float64(c.Wall), float64(base.Wall)), ratio(float64(c.Peak), float64(base.Peak)))
	}
	return t.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func ratio(theirs, ours float64) string { return fmt.Sprintf("%.2f", theirs/ours) }

// grouped writes 1000000 as 1,000,000.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// processor is the CPU's name, where the system tells it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// revision is the commit that this program was built from, where Go tells it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "deltafold"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 10 {
			return "deltafold " + s.Value[:10]
		}
	}
	return "deltafold"
}
