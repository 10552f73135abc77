package remote

import (
	"cmp"
	"slices"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// block is a part of an object that is fetched by one request.
type block struct {
	off, n int64
	left   int64 // bytes that were asked for and not read yet; at 0 the block is dropped
	ahead  bool  // fetched before a read asked for it: its failure is not the read's
	hinted bool  // it comes of Prefetch
	begun  bool  // the request was made, or is about to be

	done chan struct{} // closed once data or err is set
	data []byte
	err  error
}

func newBlock(off, n int64) *block {
	return &block{off: off, n: n, left: n, done: make(chan struct{})}
}

func (b *block) end() int64 { return b.off + b.n }

// finished says whether the block was fetched, well or not.
func (b *block) finished() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// limits bound the shape of requests, in bytes.
type limits struct {
	near  int64 // a gap up to this is fetched along
	gap   int64 // and one up to this if what is wanted around it is no less
	block int64 // the most of one request
}

// wish is a range asked for, and its place in the order asked for.
type wish struct {
	driver.Range
	at int
}

func (w wish) end() int64 { return w.Off + w.N }

// coalesce makes blocks of those parts of ranges that lie below end and in none
// of the blocks that are there (ascending). Near ranges share a block, long ones
// are cut into equal ones. Blocks come in the order in which they were asked for.
func coalesce(ranges []driver.Range, there []*block, end int64, l limits) []*block {
	type placed struct {
		*block
		at int
	}
	var out []placed
	wishes := missing(ranges, there, end)
	for len(wishes) > 0 {
		n := together(wishes, there, l)
		first, last := wishes[0].Off, wishes[n-1].end()
		pieces := (last - first + l.block - 1) / l.block
		size := (last - first + pieces - 1) / pieces
		for off := first; off < last; off += size {
			b := newBlock(off, min(size, last-off))
			b.ahead = true
			var at int
			if b.left, at = wanted(wishes[:n], b); b.left > 0 {
				out = append(out, placed{b, at})
			}
		}
		wishes = wishes[n:]
	}
	slices.SortStableFunc(out, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	blocks := make([]*block, len(out))
	for i := range out {
		blocks[i] = out[i].block
	}
	return blocks
}

// missing returns what of ranges is below end and in no block, ascending and
// without overlaps.
func missing(ranges []driver.Range, there []*block, end int64) []wish {
	var all []wish
	for i, r := range ranges {
		off := max(r.Off, 0)
		stop := end
		if r.N < end-r.Off {
			stop = r.Off + r.N
		}
		for _, b := range there {
			if b.end() <= off || b.off >= stop {
				continue
			}
			if b.off > off {
				all = append(all, wish{driver.Range{Off: off, N: b.off - off}, i})
			}
			off = b.end()
		}
		if off < stop {
			all = append(all, wish{driver.Range{Off: off, N: stop - off}, i})
		}
	}
	slices.SortStableFunc(all, func(a, b wish) int { return cmp.Compare(a.Off, b.Off) })
	var out []wish
	for _, w := range all {
		if n := len(out); n > 0 && w.Off < out[n-1].end() {
			stop := w.end()
			w.Off = out[n-1].end()
			w.N = stop - w.Off
		}
		if w.N > 0 {
			out = append(out, w)
		}
	}
	return out
}

// together says how many of the wishes, from the first on, are fetched at once.
func together(wishes []wish, there []*block, l limits) int {
	sum := wishes[0].N
	for i := 1; i < len(wishes); i++ {
		before, w := wishes[i-1].end(), wishes[i]
		gap := w.Off - before
		if gap > l.near && (gap > l.gap || gap > sum+w.N) {
			return i
		}
		if gap > 0 && slices.ContainsFunc(there, func(b *block) bool { return b.off < w.Off && b.end() > before }) {
			return i // it would be fetched twice
		}
		sum += w.N
	}
	return len(wishes)
}

// wanted is how much of a block the wishes cover, and the place of the first that does.
func wanted(wishes []wish, b *block) (n int64, at int) {
	at = -1
	for _, w := range wishes {
		part := min(w.end(), b.end()) - max(w.Off, b.off)
		if part <= 0 {
			continue
		}
		n += part
		if at < 0 || w.at < at {
			at = w.at
		}
	}
	return n, at
}
