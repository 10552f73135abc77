package datafile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDamagedFilesGiveErrors flips and cuts bytes. Values may come out wrong, as
// Parquet has no obligatory checksum, but nothing panics, and what is not rows is
// an error.
func TestDamagedFilesGiveErrors(t *testing.T) {
	floor := scale(10000)
	seed := rand.Uint64()
	t.Logf("%d damaged files, seed %d", floor, seed)
	failed := 0
	for i := range floor {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		s := randomSchema(r)
		data, _ := writeFile(t, WriteOptions{Schema: s, RowGroupRows: 20, Codec: pick(r, "uncompressed", "snappy")}, randomBatch(r, s, 30))
		if r.IntN(4) == 0 {
			data = data[:r.IntN(len(data))]
		} else {
			for range 1 + r.IntN(4) {
				at := r.IntN(len(data))
				if r.IntN(2) == 0 {
					at = len(data) - 1 - r.IntN(min(len(data), 600)) // the footer
				}
				data[at] ^= 1 << r.IntN(8)
			}
		}
		f, err := Open(context.Background(), bytes.NewReader(data), int64(len(data)), s)
		if err == nil && f.NumRows() < 1e6 {
			for g := range f.RowGroups() {
				f.Bounds(g, s.Field(0).Name)
			}
			for _, err = range f.Read(context.Background(), ReadOptions{}) {
			}
		}
		if err != nil {
			failed++
		}
	}
	t.Logf("%d gave errors", failed)
}

func TestDamageIsAClassOfItsOwn(t *testing.T) {
	s := longs("c", 0, 0).Schema()
	good, _ := writeFile(t, WriteOptions{Schema: s}, longs("c", 0, 10))
	for name, data := range map[string][]byte{
		"empty": {}, "short": []byte("PAR1"), "text": []byte(strings.Repeat("x", 100)),
		"cut": good[:len(good)-3], "cut more": good[:len(good)-9], "no body": good[len(good)-30:],
	} {
		_, err := Open(context.Background(), namedReader{bytes.NewReader(data)}, int64(len(data)), s)
		var d *DamagedError
		if !errors.As(err, &d) || d.File != "the file" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type namedReader struct{ io.ReaderAt }

func (namedReader) Name() string { return "the file" }

type breaking struct {
	io.ReaderAt
	broken bool
}

var errWire = errors.New("connection reset")

func (b *breaking) ReadAt(p []byte, off int64) (int, error) {
	if b.broken {
		return 0, errWire
	}
	return b.ReaderAt.ReadAt(p, off)
}

func TestAFailedReadIsNotDamage(t *testing.T) {
	s := longs("c", 0, 0).Schema()
	data, _ := writeFile(t, WriteOptions{Schema: s}, longs("c", 0, 10))
	src := &breaking{ReaderAt: bytes.NewReader(data)}
	for _, early := range []bool{true, false} {
		src.broken = early
		f, err := Open(context.Background(), src, int64(len(data)), s)
		src.broken = true
		if !early && err != nil {
			t.Fatal(err)
		}
		if !early {
			for _, err = range f.Read(context.Background(), ReadOptions{}) {
			}
		}
		var d *DamagedError
		if !errors.Is(err, errWire) || errors.As(err, &d) {
			t.Errorf("early %v: %v", early, err)
		}
	}
}
