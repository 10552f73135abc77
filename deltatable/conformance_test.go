package deltatable_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
)

// The conformance tables are tables that other writers made, with the rows of
// each version as its manifest says. DELTAFOLD_TABLES names their folder;
// without it ../shared/tables beside the module is looked at. Where they are
// absent the test is skipped, unless DELTAFOLD_REQUIRE_TABLES=1.

// tablesFloor is the number of tables that must read exactly.
const tablesFloor = 60

type manifestEntry struct {
	Name             string                     `json:"name"`
	LatestVersion    *int64                     `json:"latest_version"`
	VersionsReadable []int64                    `json:"versions_readable"`
	Versions         map[string]manifestVersion `json:"versions"`
	ShouldFail       *struct {
		Reason string `json:"reason"`
	} `json:"should_fail"`
	Expected struct {
		SnapshotOnly bool `json:"snapshot_only"`
	} `json:"expected"`
}

type manifestVersion struct {
	Files   *int   `json:"num_active_files"`
	File    string `json:"file"`
	Missing int    `json:"missing_data_files"`
}

func tablesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DELTAFOLD_TABLES")
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for ; ; wd = filepath.Dir(wd) {
			if _, err := os.Stat(filepath.Join(wd, "go.mod")); err == nil || wd == filepath.Dir(wd) {
				break
			}
		}
		dir = filepath.Join(wd, "..", "shared", "tables")
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err != nil {
		if os.Getenv("DELTAFOLD_REQUIRE_TABLES") == "1" {
			t.Fatalf("the conformance tables are required and absent: %v", err)
		}
		t.Skipf("the conformance tables are absent (set DELTAFOLD_TABLES to their folder): %v", err)
	}
	return dir
}

// tally counts what the conformance test found.
type tally struct {
	tables, versions           int // that gave the rows expected
	snapshots                  int // versions with the right files, whose data is known to be gone
	snapshotTables, olderNoted int // tables of such a latest version; older versions refused
	refused                    []string
	failed                     []string
}

func TestConformance(t *testing.T) { conformance(t, blobstore.Open) }

// The same tables behind the driver of object stores, all read in small pieces: what
// is fetched ahead, coalesced and cut must not show.
func TestConformanceInPieces(t *testing.T) {
	conformance(t, func(ctx context.Context, folder string) (*blobstore.Store, error) {
		bucket := blobstoretest.NewBucket()
		bucket.Pieces = 1000
		s, err := bucket.Open(ctx, "bucket://t")
		if err != nil {
			return nil, err
		}
		return s, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			key, err := filepath.Rel(folder, path)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return s.Put(ctx, filepath.ToSlash(key), data)
		})
	})
}

type opener func(ctx context.Context, folder string) (*blobstore.Store, error)

func conformance(t *testing.T, open opener) {
	dir := tablesDir(t)
	data, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []manifestEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		t.Fatal(err)
	}
	var sum tally
	for _, e := range entries {
		t.Run(e.Name, func(t *testing.T) { sum.table(t, open, dir, e) })
	}
	slices.Sort(sum.refused)
	t.Logf("%d tables read, %d versions, %d refused, %d fail as they should; %d tables and %d versions with their data gone; %d older versions refused",
		sum.tables, sum.versions, len(sum.refused), len(sum.failed), sum.snapshotTables, sum.snapshots, sum.olderNoted)
	for _, r := range append(sum.refused, sum.failed...) {
		t.Log("  ", r)
	}
	if sum.tables < tablesFloor {
		t.Errorf("%d tables read, fewer than the floor of %d", sum.tables, tablesFloor)
	}
}

func (sum *tally) table(t *testing.T, open opener, dir string, e manifestEntry) {
	store, err := open(t.Context(), filepath.Join(dir, e.Name))
	if err != nil {
		t.Fatal(err)
	}
	tab := deltatable.NewTable(store, nil)
	latest, err := tab.Snapshot(t.Context())
	if e.ShouldFail != nil {
		if err == nil {
			err = drain(t, latest)
		}
		if !isRefusal(err) && !isDamage(err) {
			t.Errorf("it gives %v, although %s", err, e.ShouldFail.Reason)
		}
		sum.failed = append(sum.failed, fmt.Sprintf("%s -> %v", e.Name, err))
		sum.olderVersions(t, tab, dir, e)
		return
	}
	if err == nil {
		if e.LatestVersion != nil && int64(latest.Version()) != *e.LatestVersion {
			t.Errorf("latest version is %d, want %d", latest.Version(), *e.LatestVersion)
		}
		err = sum.version(t, latest, dir, e)
	}
	switch {
	case err == nil && e.Expected.SnapshotOnly:
		sum.snapshotTables++
	case err == nil:
		sum.tables++
	case isRefusal(err):
		sum.refused = append(sum.refused, fmt.Sprintf("%s -> %v", e.Name, err))
	default:
		t.Errorf("latest version: %v", err)
	}
	sum.olderVersions(t, tab, dir, e)
}

func isDamage(err error) bool {
	_, ok := errors.AsType[*deltatable.CorruptError](err)
	return ok || errors.Is(err, deltatable.ErrNoTable)
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*deltatable.UnsupportedFeatureError](err)
	return ok
}

// olderVersions reads every other version that the manifest has rows or a
// number of files for; one that needs an unsupported feature may be refused.
func (sum *tally) olderVersions(t *testing.T, tab *deltatable.Table, dir string, e manifestEntry) {
	for name := range e.Versions {
		v, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if e.LatestVersion != nil && v == *e.LatestVersion {
			continue
		}
		s, err := tab.SnapshotAt(t.Context(), deltatable.Version(v))
		if err == nil {
			err = sum.version(t, s, dir, e)
		}
		switch {
		case isRefusal(err):
			sum.olderNoted++
		case err != nil && slices.Contains(e.VersionsReadable, v):
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// version compares one version; the error is why it could not be read.
func (sum *tally) version(t *testing.T, s *deltatable.Snapshot, dir string, e manifestEntry) error {
	t.Helper()
	want, ok := e.Versions[fmt.Sprint(s.Version())]
	if !ok {
		return nil
	}
	if want.Files != nil && len(s.Files()) != *want.Files {
		t.Errorf("version %d has %d live files, want %d", s.Version(), len(s.Files()), *want.Files)
	}
	got, err := canonicalScan(t.Context(), s)
	if _, missing := errors.AsType[*deltatable.MissingFileError](err); missing && want.Missing > 0 {
		sum.snapshots++
		return nil
	}
	if err != nil {
		return err
	}
	if want.File == "" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(dir, want.File))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(data)) {
		row, err := canonicalRow(line)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	slices.Sort(rows)
	if d := cmp.Diff(rows, got); d != "" {
		t.Errorf("version %d: -want +got\n%.3000s", s.Version(), d)
	}
	sum.versions++
	return nil
}

func canonicalScan(ctx context.Context, s *deltatable.Snapshot) ([]string, error) {
	var rows []string
	for rec, err := range s.Scan(ctx, nil) {
		if err != nil {
			return nil, err
		}
		for _, text := range encodeRows(rec) {
			row, err := canonicalRow(text)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return rows, nil
}

func drain(t *testing.T, s *deltatable.Snapshot) error {
	t.Helper()
	for _, err := range s.Scan(t.Context(), nil) {
		if err != nil {
			return err
		}
	}
	return nil
}
