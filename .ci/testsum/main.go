// Command testsum reads what go test -json prints and says it in short: one line
// a package, the output of what failed, every skip with its reason, and the
// lines in which random tests print their seeds and counts.
//
//	go test -json ./... | testsum run -name unit -dir results
//	testsum total -dir results -allow .ci/skips
//
// run keeps its results in the folder; total adds the results of all runs up. A
// test that was skipped in one run must have passed in another, or be named with
// a reason in the allow file; otherwise total fails.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json), or of a build (go help buildjson).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
	ImportPath                    string
	FailedBuild                   string
}

// record is what is kept of one test in one run.
type record struct {
	Package, Test, Status string
	Reason                string `json:",omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want run or total")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	name := flags.String("name", "", "name of this run")
	dir := flags.String("dir", "", "folder of the results")
	allow := flags.String("allow", "", "file of tests that may be skipped: package test reason")
	failed := flags.Int("failed", 0, "failures outside the tests, added to the total")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "run":
		s := newSummary(os.Stdout)
		if err := s.read(os.Stdin); err != nil {
			return err
		}
		return s.finish(filepath.Join(*dir, *name+".jsonl"))
	case "total":
		return total(*dir, *allow, *failed)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// summary follows the events of one run.
type summary struct {
	out      io.Writer
	lines    map[string][]string // of a test or package that has not ended
	records  []record
	passed   map[string]int
	failures int
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, lines: map[string][]string{}, passed: map[string]int{}}
}

// telling are lines of passing tests that a reader of the log wants: what a
// random test ran, and how to run it again.
var telling = regexp.MustCompile(`(?i)\bseeds?\b|\bfloor|\d (killed|runs|histories|random|batches|sequences|statements|tables|processes)\b`)

func (s *summary) read(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if text := strings.TrimSpace(line); text != "" {
			var e event
			if json.Unmarshal([]byte(text), &e) == nil && e.Action != "" {
				s.event(&e)
			} else {
				fmt.Fprintln(s.out, text)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) event(e *event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		s.lines[key] = append(s.lines[key], strings.TrimRight(e.Output, "\n"))
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e, s.lines[key])
		} else {
			s.endTest(e, s.lines[key])
		}
		delete(s.lines, key)
	}
}

func (s *summary) endTest(e *event, lines []string) {
	r := record{Package: e.Package, Test: e.Test, Status: e.Action}
	switch e.Action {
	case "pass":
		s.passed[e.Package]++
		for _, l := range said(lines) {
			if telling.MatchString(l) {
				fmt.Fprintf(s.out, "     %s: %s\n", e.Test, l)
			}
		}
	case "skip":
		r.Reason = strings.Join(said(lines), " ")
		fmt.Fprintf(s.out, "skip %s %s: %s\n", e.Package, e.Test, r.Reason)
	case "fail":
		s.failures++
		fmt.Fprintf(s.out, "FAIL %s %s\n%s\n", e.Package, e.Test, strings.Join(lines, "\n"))
	}
	s.records = append(s.records, r)
}

func (s *summary) endPackage(e *event, lines []string) {
	switch {
	case e.Action == "fail":
		s.failures++
		s.records = append(s.records, record{Package: e.Package, Status: "fail"})
		fmt.Fprintf(s.out, "FAIL %s %.1fs\n%s\n", e.Package, e.Elapsed, strings.Join(lines, "\n"))
	case s.passed[e.Package] > 0:
		fmt.Fprintf(s.out, "ok   %s %.1fs, %d passed\n", e.Package, e.Elapsed, s.passed[e.Package])
	}
}

// said are the lines of a test without those of the test runner.
func said(lines []string) []string {
	var out []string
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			out = append(out, l)
		}
	}
	return out
}

// finish keeps the records and fails if anything did, or if nothing ran.
func (s *summary) finish(file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	passed := 0
	for _, r := range s.records {
		if err := encoder.Encode(r); err != nil {
			return err
		}
		if r.Status == "pass" {
			passed++
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	if s.failures > 0 {
		return fmt.Errorf("%d failures", s.failures)
	}
	if passed == 0 {
		return errors.New("no test passed: nothing ran")
	}
	return nil
}

func total(dir, allow string, failed int) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return err
	}
	allowed, err := readAllowed(allow)
	if err != nil {
		return err
	}
	passed := map[string]bool{}
	skipped := map[string]string{}
	runs := 0
	for _, file := range files {
		records, err := readRecords(file)
		if err != nil {
			return err
		}
		for _, r := range records {
			key := r.Package + " " + r.Test
			switch r.Status {
			case "pass":
				passed[key] = true
				runs++
			case "fail":
				failed++
			case "skip":
				skipped[key] = r.Reason
			}
		}
	}
	left, missing := 0, 0
	for _, key := range sortedKeys(skipped) {
		if passed[key] {
			continue
		}
		left++
		if why, ok := allowed[key]; ok {
			fmt.Printf("skipped, as it may be: %s: %s (%s)\n", key, why, skipped[key])
			continue
		}
		missing++
		fmt.Printf("skipped, but should have run: %s: %s\n", key, skipped[key])
	}
	failed += missing
	fmt.Printf("ci: %d passed, %d failed, %d skipped\n", runs, failed, left)
	if failed > 0 {
		return fmt.Errorf("%d failed", failed)
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func readRecords(file string) ([]record, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var out []record
	d := json.NewDecoder(in)
	for d.More() {
		var r record
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// readAllowed reads lines "package test reason…"; # starts a comment.
func readAllowed(file string) (map[string]string, error) {
	out := map[string]string{}
	if file == "" {
		return out, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s: %q: want a package, a test and a reason", file, line)
		}
		out[fields[0]+" "+fields[1]] = strings.Join(fields[2:], " ")
	}
	return out, nil
}
