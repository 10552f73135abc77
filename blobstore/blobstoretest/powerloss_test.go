package blobstoretest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/filestore"
)

// NB: the order of these calls is what durability rests on. A fsync that is
// missing here is a commit that a power loss takes back.
func TestChangesOfEachWrite(t *testing.T) {
	s, rec, err := NewPowerLoss(Scratch(t))
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name string
		run  func(s *blobstore.Store) error
		want []string
	}{
		{"create in a new folder", func(s *blobstore.Store) error {
			_, err := s.Create(t.Context(), "a/b/c", []byte("123"))
			return err
		}, []string{
			"mkdir a", "fsync-dir ", "mkdir a/b", "fsync-dir a",
			"create a/b/TEMP", "write a/b/TEMP (3 bytes)", "fsync a/b/TEMP",
			"link a/b/TEMP a/b/c", "remove a/b/TEMP", "fsync-dir a/b",
		}},
		{"create again", func(s *blobstore.Store) error {
			_, err := s.Create(t.Context(), "a/b/c", []byte("123"))
			return err
		}, []string{"fsync-dir a/b"}},
		{"put", func(s *blobstore.Store) error { return s.Put(t.Context(), "a/b/c", []byte("4567")) }, []string{
			"create a/b/TEMP", "write a/b/TEMP (4 bytes)", "fsync a/b/TEMP", "rename a/b/TEMP a/b/c", "fsync-dir a/b",
		}},
		{"writer", func(s *blobstore.Store) error {
			w, err := s.NewWriter(t.Context(), "d")
			if err != nil {
				return err
			}
			if _, err := w.Write([]byte("12")); err != nil {
				return err
			}
			return w.Close()
		}, []string{"create TEMP", "write TEMP (2 bytes)", "fsync TEMP", "rename TEMP d", "fsync-dir "}},
		{"aborted writer", func(s *blobstore.Store) error {
			w, err := s.NewWriter(t.Context(), "e")
			if err != nil {
				return err
			}
			return w.Abort()
		}, []string{"create TEMP", "remove TEMP"}},
		{"delete", func(s *blobstore.Store) error { return s.Delete(t.Context(), "d") }, []string{"remove d"}},
		// Another process may have made the folders and not fsynced them.
		{"first write of another store", func(*blobstore.Store) error {
			return rec.Store("a").Put(t.Context(), "b/d", nil)
		}, []string{
			"fsync-dir ", "fsync-dir a",
			"create a/b/TEMP", "write a/b/TEMP (0 bytes)", "fsync a/b/TEMP", "rename a/b/TEMP a/b/d", "fsync-dir a/b",
		}},
	}
	for _, step := range steps {
		before := rec.Cuts()
		if err := step.run(s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, rec.Ops(before, rec.Cuts())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestFilesOutlivePowerLoss writes at random, cuts the power at random moments,
// and holds the store to what it had acknowledged by then.
func TestFilesOutlivePowerLoss(t *testing.T) {
	rng := seeded(t)
	cuts := 0
	for range soak(60) {
		n, err := loseAtRandom(t, rng, nil)
		if err != nil {
			t.Fatal(err)
		}
		cuts += n
	}
	t.Logf("%d power losses", cuts)
}

// The test above must be able to fail.
func TestMissingFsyncIsNoticed(t *testing.T) {
	for name, lazy := range map[string]func(filestore.FS) filestore.FS{
		"file":   func(fs filestore.FS) filestore.FS { return noFileSync{fs} },
		"folder": func(fs filestore.FS) filestore.FS { return noDirSync{fs} },
	} {
		rng := seeded(t)
		noticed := false
		for range 20 {
			if _, err := loseAtRandom(t, rng, lazy); err != nil {
				noticed = true
				break
			}
		}
		if !noticed {
			t.Errorf("without fsync of the %s no test fails", name)
		}
	}
}

type noDirSync struct{ filestore.FS }

func (noDirSync) SyncDir(string) error { return nil }

type noFileSync struct{ filestore.FS }

func (f noFileSync) Create(path string) (filestore.File, error) {
	file, err := f.FS.Create(path)
	if err != nil {
		return nil, err
	}
	return noSync{file}, nil
}

type noSync struct{ filestore.File }

func (noSync) Sync() error { return nil }

// history is what was written to one key, in order.
type history struct {
	values []string
	at     []int // at[i]: the cut from which on values[i] or a later one must be there
}

// loseAtRandom runs one random history on four goroutines and checks some cuts of
// it; it returns how many. lazy, if not nil, alters the file system.
func loseAtRandom(t *testing.T, rng *rand.Rand, lazy func(filestore.FS) filestore.FS) (int, error) {
	t.Helper()
	dir := Scratch(t)
	if err := os.MkdirAll(filepath.Join(dir, "was/there"), 0o777); err != nil {
		t.Fatal(err)
	}
	_, rec, err := NewPowerLoss(dir)
	if err != nil {
		t.Fatal(err)
	}
	var fs filestore.FS = recordingFS{rec, filestore.OS()}
	if lazy != nil {
		fs = lazy(fs)
	}
	s := blobstore.New(filestore.New(filepath.Join(dir, "was/new"), fs), "file://"+dir)

	histories := map[string]*history{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 4 {
		seed := rng.Uint64()
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for i := range 6 {
				key := fmt.Sprintf("%d/%d/%d", rng.IntN(2), rng.IntN(2), g*10+rng.IntN(4))
				value := fmt.Sprintf("%s#%d#", key, i) + strings.Repeat("v", rng.IntN(9000)) + "."
				mu.Lock()
				h := histories[key]
				if h == nil {
					h = &history{}
					histories[key] = h
				}
				mu.Unlock()
				wrote, err := writeSomehow(t.Context(), s, rng, key, value)
				if err != nil {
					t.Error(err)
				}
				if wrote { // NB: h is this goroutine's alone: so are its keys
					h.values, h.at = append(h.values, value), append(h.at, rec.Cuts())
				}
			}
		})
	}
	wg.Wait()
	const losses = 25
	for i := range losses {
		k := rng.IntN(rec.Cuts() + 1)
		after := filepath.Join(Scratch(t), "after")
		r := rng
		if i%3 == 0 {
			r = nil
		}
		if err := rec.Materialise(k, r, after); err != nil {
			t.Fatal(err)
		}
		if err := checkLoss(t, filepath.Join(after, "was/new"), k, histories); err != nil {
			return i, fmt.Errorf("power loss after change %d, %q: %w", k, rec.Ops(k-1, k), err)
		}
	}
	return losses, nil
}

func writeSomehow(ctx context.Context, s *blobstore.Store, rng *rand.Rand, key, value string) (bool, error) {
	switch rng.IntN(3) {
	case 0:
		out, err := s.Create(ctx, key, []byte(value))
		return out == blobstore.Created, err
	case 1:
		return true, s.Put(ctx, key, []byte(value))
	}
	w, err := s.NewWriter(ctx, key)
	if err != nil {
		return false, err
	}
	_, err1 := w.Write([]byte(value[:len(value)/2]))
	_, err2 := w.Write([]byte(value[len(value)/2:]))
	return true, errors.Join(err1, err2, w.Close())
}

// checkLoss compares what is left with what had to be left.
func checkLoss(t *testing.T, dir string, k int, histories map[string]*history) error {
	t.Helper()
	s, err := blobstore.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for key, h := range histories {
		oldest := -1 // the last value acknowledged by then
		for i, at := range h.at {
			if at <= k {
				oldest = i
			}
		}
		got, err := s.Get(t.Context(), key)
		if errors.Is(err, blobstore.ErrNotFound) {
			if oldest >= 0 {
				return fmt.Errorf("%s: acknowledged value %d is lost", key, oldest)
			}
			continue
		}
		if err != nil {
			return err
		}
		found := -1
		for i, value := range h.values {
			if string(got) == value {
				found = i
			}
		}
		if found < oldest || found < 0 {
			return fmt.Errorf("%s: found value %d (%d bytes), want %d or later", key, found, len(got), oldest)
		}
	}
	return nil
}

// What is not fsynced comes out in all its ways.
func TestMaterialiseVaries(t *testing.T) {
	s, rec, err := NewPowerLoss(Scratch(t))
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "k", "old")
	old := rec.Cuts()
	mustPut(t, s, "k", "new")
	rng := seeded(t)
	seen := map[string]bool{}
	for k := old; k <= rec.Cuts(); k++ {
		for i := range 100 {
			dir := filepath.Join(Scratch(t), fmt.Sprint(i))
			if err := rec.Materialise(k, rng, dir); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "k"))
			if err != nil {
				t.Fatal(err)
			}
			temps, err := filepath.Glob(filepath.Join(dir, filestore.TempPrefix+"*"))
			if err != nil {
				t.Fatal(err)
			}
			state := string(got)
			for _, temp := range temps {
				data, err := os.ReadFile(temp)
				if err != nil {
					t.Fatal(err)
				}
				state += fmt.Sprintf(" temp=%q", data)
			}
			seen[state] = true
		}
	}
	want := map[string]bool{
		"old": true, "new": true,
		`old temp=""`: true, `old temp="n"`: true, `old temp="ne"`: true, `old temp="new"`: true, `old temp="\x00\x00\x00"`: true,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}
