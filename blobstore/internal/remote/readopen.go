package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// Reading bounds how objects are read at random. The zero value of a member
// means its default.
type Reading struct {
	// Small is the size up to which an object is fetched whole when it is opened.
	// Default 1 MiB.
	Small int64
	// Tail is how much of the end of a larger object is fetched when it is opened:
	// the footer of a Parquet file. Default 64 KiB.
	Tail int64
	// Unsized is how much of the end is fetched where the size is not known
	// before. Default 256 KiB.
	Unsized int64
	// Gap is how much between two ranges is fetched along with them, if they want
	// no less. Default 1 MiB.
	Gap int64
	// Block is the most bytes of one request. Default 8 MiB.
	Block int64
	// Window is how many bytes one reader fetches before they are read, and Windows
	// how many all readers of a driver do; each may have one block all the same.
	// Defaults 16 MiB and 128 MiB.
	Window, Windows int64
	// Parallel is how many requests the readers of one driver have in flight.
	// Default 16.
	Parallel int
	// Kept is how many bytes of ends and small objects are kept for the next time
	// they are opened. Default 64 MiB.
	Kept int64
}

// near is the gap that is always fetched along: less than what a request costs.
const near = 64 << 10

// leftover is how much of a block may be left unread when the next ranges are told.
const leftover = 4 << 10

func (r Reading) withDefaults() Reading {
	set := func(v *int64, def int64) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&r.Small, 1<<20)
	set(&r.Tail, 64<<10)
	set(&r.Unsized, 256<<10)
	set(&r.Gap, 1<<20)
	set(&r.Block, 8<<20)
	set(&r.Window, 16<<20)
	set(&r.Windows, 128<<20)
	set(&r.Kept, 64<<20)
	if r.Parallel <= 0 {
		r.Parallel = 16
	}
	return r
}

// OpenReader is [driver.Driver]'s. See [readers.open].
func (s *store) OpenReader(ctx context.Context, key string, size int64) (driver.Reader, error) {
	r, err := s.readers.open(ctx, key, size)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ReadInfo is [driver.Describer]'s.
func (s *store) ReadInfo(ctx context.Context, key string) ([]byte, driver.Info, error) {
	return s.fetch(ctx, key, driver.Range{Off: 0, N: -1}, "")
}

// Distant is [driver.Distant]'s.
func (s *store) Distant() bool { return true }

// fetchFunc gets a part of an object, as [Bucket] names parts, and repeats what
// can be repeated. Fewer bytes than asked for come only where the object ends.
type fetchFunc func(ctx context.Context, key string, part driver.Range, etag string) ([]byte, driver.Info, error)

// readers opens objects for one driver. Safe for concurrent use.
type readers struct {
	fetch fetchFunc
	o     Reading
	slots chan struct{} // one for each request in flight
	kept  *holder
	ahead atomic.Int64 // bytes of hinted blocks of all readers
}

func newReaders(fetch fetchFunc, o Reading) *readers {
	o = o.withDefaults()
	return &readers{fetch: fetch, o: o, slots: make(chan struct{}, o.Parallel), kept: newHolder(o.Kept)}
}

// get is fetch within the bound of requests in flight.
func (s *readers) get(ctx context.Context, key string, part driver.Range, etag string) ([]byte, driver.Info, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, driver.Info{}, ctx.Err()
	}
	defer func() { <-s.slots }()
	return s.fetch(ctx, key, part, etag)
}

// open opens an object by one request, or none: who passes a size (of an add
// action, of a listing) reads what is written once under its name, and may get
// what was read of it before, unless it is of the log. A wrong size costs a request.
func (s *readers) open(ctx context.Context, key string, size int64) (*reader, error) {
	// NB: a log checkpoint may be written again by anyone, and a table made anew at
	// its place gives the names of its log, and sizes, once more.
	keep := !strings.HasPrefix(key, logFolder)
	var end *held
	if size >= 0 && keep {
		end = s.kept.get(key, size)
	}
	if end == nil {
		var err error
		if end, err = s.end(ctx, key, size); err != nil {
			return nil, err
		}
		if keep {
			s.kept.put(end)
		}
	}
	r := &reader{s: s, end: end}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r, nil
}

// end fetches the end of an object, or all of a small one.
func (s *readers) end(ctx context.Context, key string, size int64) (*held, error) {
	// NB: not by the end of the object where its size is known: not every store
	// counts ranges from there.
	part := driver.Range{Off: 0, N: s.o.Small}
	switch {
	case size < 0:
		part = driver.Range{Off: -s.o.Unsized, N: -1}
	case size > s.o.Small:
		part = driver.Range{Off: size - s.o.Tail, N: s.o.Tail}
	}
	data, info, err := s.get(ctx, key, part, "")
	if err != nil {
		return nil, err
	}
	off := part.Off
	if off < 0 {
		off = max(0, info.Size-s.o.Unsized)
	}
	if off+int64(len(data)) != info.Size { // another size than believed, or grown past Small
		off = max(0, info.Size-s.o.Tail)
		part = driver.Range{Off: off, N: info.Size - off}
		if data, err = s.exactly(ctx, key, part, info); err != nil {
			return nil, err
		}
	}
	return &held{key: key, etag: info.ETag, size: info.Size, off: off, data: data}, nil
}

// exactly fetches a part that lies in the object described by is.
func (s *readers) exactly(ctx context.Context, key string, part driver.Range, is driver.Info) ([]byte, error) {
	if part.N == 0 {
		return nil, nil
	}
	data, info, err := s.get(ctx, key, part, is.ETag)
	if err != nil {
		return nil, err
	}
	if info.Size != is.Size || is.ETag != "" && info.ETag != "" && info.ETag != is.ETag {
		return nil, &Error{Class: Changed, Err: errors.New("the object was replaced while it was read")}
	}
	if int64(len(data)) != part.N {
		return nil, &Error{Err: fmt.Errorf("%d of %d bytes came: %w", len(data), part.N, io.ErrUnexpectedEOF)}
	}
	return data, nil
}
