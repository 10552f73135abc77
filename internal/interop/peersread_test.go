package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// eachPeer runs a test once for each peer; the table is made before, once.
func eachPeer(t *testing.T, names []string, test func(t *testing.T, p *peer)) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) { test(t, needPeer(t, name)) })
	}
}

func TestPeersReadEveryType(t *testing.T) {
	path := filepath.Join(t.TempDir(), "types")
	d := allTypes()
	create(t, path, d)
	equalRows(t, "deltafold itself", readRows(t, path), d.rows)
	eachPeer(t, allPeers, func(t *testing.T, p *peer) {
		equalRows(t, p.name, p.rows(path), d.rows)
	})
	eachPeer(t, []string{"spark", "sail"}, func(t *testing.T, p *peer) {
		// Equal rows in JSON could hide a narrower or wider type.
		var got [][2]string
		unmarshal(t, p.ask("schema", map[string]any{"path": path}), &got)
		if diff := cmp.Diff(inSparkWords(d.columns), got); diff != "" {
			t.Errorf("schema differs (-want +got):\n%s", diff)
		}
	})
}

func TestPeersReadPartitions(t *testing.T) {
	for name, d := range map[string]*dataset{"odd": oddPartitions(), "typed": typedPartitions()} {
		path := filepath.Join(t.TempDir(), name)
		create(t, path, d)
		equalRows(t, "deltafold itself", readRows(t, path), d.rows)
		t.Run(name, func(t *testing.T) {
			eachPeer(t, allPeers, func(t *testing.T, p *peer) {
				equalRows(t, p.name, p.rows(path), d.rows)
			})
		})
	}
}

// The peers must be able to start from the log checkpoint: the entries that it
// covers are taken away, in a copy.
func TestPeersReadLogCheckpoint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "table")
	d := typedPartitions()
	create(t, path, d)
	want := d.rows
	for i := range 12 {
		r := row{"id": 100 + i, "pb": nil, "pi": i, "pl": nil, "pdec": nil, "pd": nil, "pt": nil, "pn": nil, "ps": fmt.Sprint("s", i%3)}
		appendRows(t, path, d.with(r))
		want = append(want, r)
	}
	short := filepath.Join(dir, "short")
	copyTable(t, path, short)
	removed := dropCheckpointedEntries(t, short)
	if removed < 10 {
		t.Fatalf("a table of 14 commits has a log checkpoint that covers %d entries; want 10 or more", removed)
	}
	equalRows(t, "deltafold itself", readRows(t, short), want)
	eachPeer(t, allPeers, func(t *testing.T, p *peer) {
		equalRows(t, p.name, p.rows(short), want)
	})
}

// After each batch of the fixture, the peers see the same state and the same
// earlier versions.
func TestPeersReadMerges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	versions := applyFixture(t, path)
	eachPeer(t, allPeers, func(t *testing.T, p *peer) {
		for version, want := range versions {
			equalRows(t, fmt.Sprintf("%s, version %d", p.name, version), p.rowsAt(path, version), want)
		}
	})
}

// applyFixture folds versioned-changes and returns the state of each version,
// checked against the fixture.
func applyFixture(t *testing.T, path string) map[int]rows {
	t.Helper()
	folder := shared(t, "fixtures/versioned-changes")
	versions := map[int]rows{}
	for n := 1; n <= 6; n++ {
		batch := changes(readFile(t, filepath.Join(folder, fmt.Sprintf("batch-%d.jsonl", n)))...)
		done := apply(t, path, batch, "--batch", fmt.Sprint(n))
		want := readFile(t, filepath.Join(folder, fmt.Sprintf("state-after-%d.jsonl", n)))
		equalRows(t, fmt.Sprintf("deltafold after batch %d", n), readRows(t, path), want)
		if done.Version != nil {
			versions[int(*done.Version)] = want
		}
	}
	return versions
}

func readFile(t *testing.T, path string) rows {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseRows(t, path, text)
}
