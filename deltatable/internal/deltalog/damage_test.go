package deltalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable/internal/feature"
)

// TestLoadDamagedCheckpointNeverPanics flips bytes and cuts a log checkpoint. What is
// read may then be wrong, as the format has no checksum, or be an error; it is never
// a panic.
func TestLoadDamagedCheckpointNeverPanics(t *testing.T) {
	ctx := context.Background()
	store := newMemory(t)
	s := sampleState(t, store)
	if err := WriteCheckpoint(ctx, store, s, &CheckpointOptions{Now: time.Now(), StatsAsStruct: true}); err != nil {
		t.Fatal(err)
	}
	good := get(t, store, CheckpointKey(0))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	outcomes := map[string]int{}
	for range 400 {
		bad := slices.Clone(good)
		switch rnd.IntN(3) {
		case 0:
			bad = bad[:rnd.IntN(len(bad))]
		case 1:
			bad[rnd.IntN(len(bad))] ^= 1 << rnd.IntN(8)
		default:
			at := rnd.IntN(len(bad))
			for i := at; i < min(len(bad), at+rnd.IntN(40)); i++ {
				bad[i] = byte(rnd.Uint32())
			}
		}
		put(t, store, CheckpointKey(0), bad)
		_, err := replay(ctx, store, &segment{checkpoint: &checkpoint{files: []checkpointFile{{CheckpointKey(0), int64(len(bad))}}}})
		var damaged *checkpointError
		var corrupt *CorruptError
		var unsupported *feature.UnsupportedError
		switch {
		case err == nil:
			outcomes["read"]++
		case errors.As(err, &damaged):
			outcomes["damage found"]++
		case errors.As(err, &corrupt), errors.As(err, &unsupported):
			outcomes["other"]++
		default:
			t.Fatalf("error of no class: %v", err)
		}
	}
	t.Log(outcomes)
	if outcomes["damage found"] == 0 {
		t.Error("no damage was found")
	}
}

// failing fails all reads of log checkpoints.
type failing struct{ blobstore.Driver }

var errBroken = errors.New("the network is down")

func (f failing) OpenReader(ctx context.Context, key string, size int64) (blobstore.DriverReader, error) {
	r, err := f.Driver.OpenReader(ctx, key, size)
	return failingReader{r}, err
}

type failingReader struct{ blobstore.DriverReader }

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

// TestLoadStoreFailureIsNotDamage: that the store fails says nothing of the log, so
// that neither an older log checkpoint nor a *CorruptError may come of it (I4).
func TestLoadStoreFailureIsNotDamage(t *testing.T) {
	store := newMemory(t)
	numbered(t, store, 12)
	checkpointed(t, store, 10)
	broken := store.Wrap(func(d blobstore.Driver) blobstore.Driver { return failing{d} })
	_, err := Load(context.Background(), broken, nil)
	var corrupt *CorruptError
	if !errors.Is(err, errBroken) || errors.As(err, &corrupt) {
		t.Errorf("error is %v, want that of the store", err)
	}
}

// hintless fails reads of the hint, and counts listings.
type hintless struct {
	blobstore.Driver
	err      error
	listings *int
}

func (h hintless) Read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if key == lastCheckpointKey {
		return nil, h.err
	}
	return h.Driver.Read(ctx, key, off, n)
}

func (h hintless) List(ctx context.Context, prefix, from string) iter.Seq2[blobstore.Info, error] {
	*h.listings++
	return h.Driver.List(ctx, prefix, from)
}

// A hint that cannot be read is done without; a server that cannot be connected
// to is not waited for twice.
func TestLoadWithoutTheHint(t *testing.T) {
	store := newMemory(t)
	numbered(t, store, 12)
	checkpointed(t, store, 10)
	for err, unreachable := range map[error]bool{
		errBroken: false,
		&net.OpError{Op: "read", Net: "tcp", Err: errBroken}: false,
		&net.OpError{Op: "dial", Net: "tcp", Err: errBroken}: true,
	} {
		listings := 0
		broken := store.Wrap(func(d blobstore.Driver) blobstore.Driver {
			return hintless{d, fmt.Errorf("gave up: %w", err), &listings}
		})
		s, got := Load(context.Background(), broken, nil)
		if (s == nil) != unreachable || errors.Is(got, err) != unreachable || (listings == 0) != unreachable {
			t.Errorf("%v: state %t, %v, %d listings", err, s != nil, got, listings)
		}
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	store := newMemory(t)
	numbered(t, store, 50)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, store, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
}

// FuzzParseName: names that are read are those that the protocol names.
func FuzzParseName(f *testing.F) {
	for _, name := range []string{"00000000000000000007.json", "7.json", "00000000000000000007.checkpoint.parquet", "00000000000000000007.checkpoint.0000000001.0000000002.parquet", "00000000000000000007.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", "00000000000000000007.00000000000000000009.compacted.json"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n := parseName(name)
		if n.version < 0 || n.part > n.parts || (n.kind == partFile) != (n.parts > 0) {
			t.Fatalf("%q is %+v", name, n)
		}
		var back string
		switch n.kind {
		case entryFile:
			back = EntryKey(n.version)
		case classicFile:
			back = CheckpointKey(n.version)
		case partFile:
			back = fmt.Sprintf("%s%s.checkpoint.%010d.%010d.parquet", dir, padded(n.version), n.part, n.parts)
		case otherFile, v2File: // other names give the same
			return
		}
		if m := parseName(strings.TrimPrefix(back, dir)); m != n {
			t.Fatalf("%q is %+v, and %q is %+v", name, n, back, m)
		}
	})
}

func FuzzParseHint(f *testing.F) {
	f.Add([]byte(`{"version":10,"size":3,"parts":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, ok := parseHint(data); ok && v < 0 {
			t.Fatalf("%q gives %d", data, v)
		}
	})
}
