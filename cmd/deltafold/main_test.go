package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden files in the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"deltafold": main})
}

// TestScripts runs the command as a process, one script for each verb and for
// each failure that a user can cause. -update rewrites what stdout and stderr
// are compared with.
//
// Besides testscript's own commands there are
//
//	status N deltafold …        run, expect exit status N
//	rows [-own] A B             A and B are JSON Lines of equal rows, as multisets
//	                            and by value; -own: without columns that begin with _
//	get NAME PATH               set NAME from the JSON object on standard output
//	damage FILE                 change one byte in the middle of a file
//	hides TEXT DIR…             TEXT is in no file below the folders, nor in the
//	                            output of the last command
func TestScripts(t *testing.T) {
	runScripts(t, "testdata/script", nil)
}

// runScripts runs the scripts of a folder. setup, if not nil, has the last word
// on their environment.
func runScripts(t *testing.T, dir string, setup func(e *testscript.Env) error) {
	t.Helper()
	fixtures, err := filepath.Abs("testdata/fixtures")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("FIXTURES", fixtures)
			e.Setenv("DELTAFOLD_NOW", "")
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
			if setup == nil {
				return nil
			}
			return setup(e)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": status, "rows": rows, "get": get, "damage": damage, "hides": hides,
		},
	})
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func rows(ts *testscript.TestScript, neg bool, args []string) {
	own := len(args) > 0 && args[0] == "-own"
	if own {
		args = args[1:]
	}
	if neg || len(args) != 2 {
		ts.Fatalf("usage: rows [-own] A B")
	}
	if d := cmp.Diff(readRows(ts, args[1], own), readRows(ts, args[0], own)); d != "" {
		ts.Fatalf("%s and %s differ (-want +got):\n%s", args[0], args[1], d)
	}
}

// readRows reads JSON Lines into sorted lines of canonical text.
func readRows(ts *testscript.TestScript, file string, own bool) []string {
	var out []string
	for _, line := range bytes.Split([]byte(ts.ReadFile(file)), []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var row map[string]any
		ts.Check(json.Unmarshal(line, &row)) // the fixtures' numbers are small: float64 holds them
		for k := range row {
			if own && strings.HasPrefix(k, "_") {
				delete(row, k)
			}
		}
		text, err := json.Marshal(row)
		ts.Check(err)
		out = append(out, string(text))
	}
	slices.Sort(out)
	return out
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get NAME PATH")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
	for _, step := range strings.Split(args[1], ".") {
		if list, ok := v.([]any); ok {
			i, err := strconv.Atoi(step)
			ts.Check(err)
			v = list[i]
			continue
		}
		m, ok := v.(map[string]any)
		if !ok {
			ts.Fatalf("%s: there is no %s", args[1], step)
		}
		v = m[step]
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage FILE")
	}
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(names) == 0 {
		ts.Fatalf("%s: no such file", args[0])
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		ts.Check(err)
		data[len(data)/2] ^= 0xff
		ts.Check(os.WriteFile(name, data, 0o644))
	}
}

func hides(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || args[0] == "" {
		ts.Fatalf("usage: hides TEXT DIR…")
	}
	look := func(name, text string) {
		if strings.Contains(text, args[0]) {
			ts.Fatalf("%s holds what should be hidden", name)
		}
	}
	look("stdout", ts.ReadFile("stdout"))
	look("stderr", ts.ReadFile("stderr"))
	for _, dir := range args[1:] {
		files := 0
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(name)
			files++
			look(name, string(data))
			return err
		}))
		if files == 0 {
			ts.Fatalf("there is no file below %s", dir)
		}
	}
}
