package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func unmarshal(t *testing.T, text json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// inSparkWords gives the types as Spark's simpleString prints them.
func inSparkWords(columns [][2]string) [][2]string {
	words := map[string]string{"long": "bigint", "byte": "tinyint", "short": "smallint"}
	word := regexp.MustCompile(`[a-z_]+`)
	out := make([][2]string, 0, len(columns))
	for _, c := range columns {
		text := word.ReplaceAllStringFunc(c[1], func(w string) string {
			if other, ok := words[w]; ok {
				return other
			}
			return w
		})
		out = append(out, [2]string{c[0], text})
	}
	return out
}

func copyTable(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// A copy of a folder without write bits must be writable all the same.
	err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	entryName         = regexp.MustCompile(`^([0-9]{20})\.json$`)
	logCheckpointName = regexp.MustCompile(`^([0-9]{20})\.checkpoint\..*parquet$`)
)

func versionIn(t *testing.T, pattern *regexp.Regexp, name string) int64 {
	t.Helper()
	m := pattern.FindStringSubmatch(name)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// dropCheckpointedEntries removes the log entries up to the newest log
// checkpoint, and returns how many. Checksum files beside the log go too.
func dropCheckpointedEntries(t *testing.T, table string) int {
	t.Helper()
	dir := filepath.Join(table, "_delta_log")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	newest := int64(-1)
	for _, e := range entries {
		newest = max(newest, versionIn(t, logCheckpointName, e.Name()))
	}
	if newest < 0 {
		t.Fatalf("%s has no log checkpoint", table)
	}
	removed := 0
	for _, e := range entries {
		v := versionIn(t, entryName, e.Name())
		covered := v >= 0 && v < newest
		if !covered && !strings.HasSuffix(e.Name(), ".crc") {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
		if covered {
			removed++
		}
	}
	return removed
}

// countEntries counts the log entries of a table: its versions are 0 up to it.
func countEntries(t *testing.T, table string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(table, "_delta_log"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if entryName.MatchString(e.Name()) {
			n++
		}
	}
	return n
}
