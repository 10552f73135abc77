package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/merge/change"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestTables runs every case of testdata/*.txt: a command, its input lines, ----, the
// result, a blank line. -update rewrites the results.
func TestTables(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { runTable(t, file) })
	}
}

func runTable(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		if i > 0 {
			out.WriteString("\n\n")
		}
		input, want, found := strings.Cut(block, "\n----")
		want = strings.TrimPrefix(want, "\n")
		if !found {
			out.WriteString(block)
			continue
		}
		got := runCase(input)
		if diff := cmp.Diff(want, got); diff != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", input, diff)
		}
		out.WriteString(input + "\n----\n" + got)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func runCase(input string) string {
	var lines, result []string
	for line := range strings.Lines(input) {
		if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	command, args, _ := strings.Cut(lines[0], " ")
	switch command {
	case "decide":
		for _, line := range lines[1:] {
			result = append(result, decideLine(change.Policy(args), strings.Fields(line)))
		}
		return strings.Join(result, "\n")
	case "reduce":
		return reduceLines(lines[1:])
	}
	return "unknown command " + command
}

var (
	storedWords    = []string{"none", "active", "deleted", "conflict"}
	versionWords   = []string{"<", "=", ">"}
	candidateWords = []string{"", "upsert", "delete", "conflict"}
	writeWords     = []string{"keep", "write active", "write tombstone", "write conflict"}
)

func index(words []string, w string) int {
	for i, word := range words {
		if word == w {
			return i
		}
	}
	panic("not a word: " + w)
}

// decideLine reads "stored versions candidate [same|other]".
func decideLine(p change.Policy, f []string) string {
	stored := change.Status(index(storedWords, f[0]))
	versions := Equal
	if f[1] != "-" {
		versions = Comparison(index(versionWords, f[1]) - 1)
	}
	c := Candidate(index(candidateWords, f[2]))
	asked := 0
	var same func() bool
	if len(f) > 3 {
		same = func() bool { asked++; return f[3] == "same" }
	}
	v := Decide(p, stored, versions, c, same)
	if (asked == 1) != NeedsPayload(stored, versions, c) {
		return fmt.Sprintf("payload asked for %d times, NeedsPayload says %v", asked, asked == 0)
	}
	out := fmt.Sprintf("%s: %s", strings.Join(f, " "), v.Outcome)
	if v.Refuse {
		return out + ", batch refused"
	}
	return out + ", " + writeWords[v.Write]
}

// reduceLines reads rows "version operation payload".
func reduceLines(lines []string) string {
	var rows []Row
	content := map[string]int{}
	for _, line := range lines {
		f := strings.Fields(line)
		version, err := strconv.Atoi(f[0])
		if err != nil {
			panic(err)
		}
		class := strings.Join(f[1:], " ")
		if _, ok := content[class]; !ok {
			content[class] = len(content)
		}
		rows = append(rows, Row{Version: version, Content: content[class], Op: change.Op(index(candidateWords, f[1]))})
	}
	r := Reduce(rows)
	out := []string{fmt.Sprintf("%s at version %d, payload of row %d", candidateWords[r.Candidate], rows[r.First].Version, r.First)}
	if r.Candidate == Conflict {
		out[0] = fmt.Sprintf("conflict at version %d", rows[r.First].Version)
	}
	for i, line := range lines {
		word := change.Superseded
		if r.Highest[i] {
			word = "candidate"
		}
		if r.Contradicts != nil && r.Contradicts[i] {
			word += ", contradicts"
		}
		out = append(out, line+": "+string(word))
	}
	return strings.Join(out, "\n")
}

// TestEveryCellIsInTheTables guards against a table of testdata that lost rows: each
// combination of the enumerations stands in decide.txt once per policy.
func TestEveryCellIsInTheTables(t *testing.T) {
	text, err := os.ReadFile("testdata/decide.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range storedWords {
		for _, v := range versionWords {
			for _, c := range candidateWords[1:] {
				line := "\n" + strings.Join([]string{s, v, c}, " ")
				if s == "none" {
					line = "\nnone - " + c
				}
				if n := strings.Count(string(text), line); n < 4 {
					t.Errorf("%q stands in decide.txt %d times, want input and result for two policies", line[1:], n)
				}
			}
		}
	}
}

func TestReduceDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Row {
			content := rapid.IntRange(0, 2).Draw(t, "content")
			op := change.Upsert
			if content == 0 {
				op = change.Delete
			}
			return Row{Version: rapid.IntRange(0, 3).Draw(t, "version"), Content: content, Op: op}
		}), 1, 8).Draw(t, "rows")
		order := rapid.Permutation(rows).Draw(t, "order")
		a, b := Reduce(rows), Reduce(order)
		if a.Candidate != b.Candidate || rows[a.First].Version != order[b.First].Version {
			t.Fatalf("%v gives %+v, %v gives %+v", rows, a, order, b)
		}
		if a.Candidate != Conflict && rows[a.First] != order[b.First] {
			t.Fatalf("%v takes %v, %v takes %v", rows, rows[a.First], order, order[b.First])
		}
	})
}

// TestOrderDoesNotMatter folds one key's changes one by one and in one batch (law 1).
func TestOrderDoesNotMatter(t *testing.T) {
	type state struct {
		status           change.Status
		version, content int
	}
	apply := func(s state, rows []Row) state {
		r := Reduce(rows)
		u := rows[r.First]
		order := Comparison(min(max(u.Version-s.version, -1), 1))
		v := Decide(change.Quarantine, s.status, order, r.Candidate, func() bool { return s.content == u.Content })
		switch v.Write {
		case WriteActive:
			return state{change.Active, u.Version, u.Content}
		case WriteTombstone:
			return state{change.Deleted, u.Version, 0}
		case WriteConflict:
			return state{change.Conflict, u.Version, 0}
		case WriteNone:
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Row {
			content := rapid.IntRange(0, 2).Draw(t, "content")
			return Row{rapid.IntRange(1, 3).Draw(t, "version"), content, change.Upsert + change.Op(b2i(content == 0))}
		}), 1, 8).Draw(t, "rows")
		want := apply(state{}, rows)
		var got state
		for rest := rapid.Permutation(rows).Draw(t, "order"); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			got = apply(got, rest[:n])
			rest = rest[n:]
		}
		if got != want {
			t.Fatalf("%v: in batches %+v, at once %+v", rows, got, want)
		}
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
