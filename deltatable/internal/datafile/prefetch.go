package datafile

import "github.com/apache/arrow-go/v18/parquet/file"

// Range is a part of a file: N bytes from Off on.
type Range struct{ Off, N int64 }

// Prefetcher is what the io.ReaderAt of [Open] may be too: one for which a read
// takes long to begin.
type Prefetcher interface {
	// Prefetch starts to fetch what will be read soon, and returns at once.
	Prefetch(ranges []Range)
}

// aheadBytes is how much is told to the Prefetcher beyond the row group that is
// being decoded; at least one row group is.
const aheadBytes = 16 << 20

// ahead tells a Prefetcher which column chunks a read will need, a little before
// it does: those of the columns asked for and no others.
type ahead struct {
	to     Prefetcher // nil: nothing is told
	f      *File
	leaves []int // column indices
	groups []int
	told   int // groups told of
	bytes  int64
	sizes  []int64 // of the groups told of
}

func (f *File) newAhead(plans []*plan, groups []int) *ahead {
	a := &ahead{f: f, groups: groups}
	a.to, _ = f.source.r.(Prefetcher)
	if a.to == nil {
		return a
	}
	seen := map[int]bool{}
	for _, p := range plans {
		p.leaves(func(l *leaf) {
			if !seen[l.index] {
				seen[l.index] = true
				a.leaves = append(a.leaves, l.index)
			}
		})
	}
	return a
}

// at is called before the i-th of the groups is read.
func (a *ahead) at(i int) {
	if a.to == nil {
		return
	}
	if i > 0 {
		a.bytes -= a.sizes[i-1]
	}
	var ranges []Range
	for a.told < len(a.groups) && (a.told <= i+1 || a.bytes-a.sizes[i] < aheadBytes) {
		var size int64
		if g := a.groups[a.told]; g >= 0 && g < a.f.RowGroups() {
			for _, c := range a.leaves {
				r := ChunkRange(a.f.reader, g, c)
				ranges = append(ranges, r)
				size += r.N
			}
		}
		a.told++
		a.bytes += size
		a.sizes = append(a.sizes, size)
	}
	if len(ranges) > 0 {
		a.to.Prefetch(ranges)
	}
}

// ChunkRange is where column chunk c of row group g lies, by the footer.
func ChunkRange(r *file.Reader, g, c int) Range {
	m := r.MetaData().RowGroups[g].Columns[c].MetaData
	at := m.DataPageOffset
	if m.DictionaryPageOffset != nil && *m.DictionaryPageOffset > 0 {
		at = min(at, *m.DictionaryPageOffset)
	}
	return Range{Off: at, N: m.TotalCompressedSize}
}
