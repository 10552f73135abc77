package merge

import (
	"cmp"
	"slices"

	"github.com/deltafold/deltafold/deltatable"
)

// How files are packed. A commit packs the new rows of a partition with its
// touched small files, which are rewritten anyway, and with a few small
// untouched ones, smallest first, as long as each is not much larger than the
// new rows and what was taken before it: sizes then grow geometrically, so that
// any number of small batches leaves few files and each row is rewritten a
// logarithmic number of times. A commit without new rows makes no file more than
// it takes away, and packs no untouched file.
const (
	packFiles     = 10        // untouched files in one pack at most
	packAlways    = 64 << 10  // bytes; files up to this size are packed whatever the pack holds
	packTouched   = 64        // touched files up to 1/64 of the target size join the pack
	packUntouched = 4         // untouched ones up to 1/4
	sortRows      = 256 << 10 // outputs of at most so many rows are sorted as a whole
	sortBytes     = 32 << 20  // and of at most so many bytes of sources
)

// edit is what happens to one stored row: another takes its place, in the same
// file or, if drop, elsewhere.
type edit struct {
	pos  int64
	id   int32
	drop bool
}

// source is a live file that an output takes the place of.
type source struct {
	add     *deltatable.Add
	edits   []edit // by position; modes that do not list them decide in rewrite
	changes int64  // rows of it that are replaced or gone
}

// output is one or more new files of one partition, bound to its sources and to
// every row number whose stored row it drops or replaces or whose new row it
// holds (R3).
type output struct {
	part    deltatable.Partition
	sources []source
	inserts []int32 // new rows that it holds besides replacements

	written bool
	adds    []*deltatable.Add
	copied  int64 // rows taken over unchanged
}

// contents is what the outputs hold already: their sources, by key, and their
// inserts.
func contents(kept []*output, key func(*deltatable.Add) deltatable.FileKey) (map[deltatable.FileKey]bool, map[int32]bool) {
	sources, inserts := map[deltatable.FileKey]bool{}, map[int32]bool{}
	for _, o := range kept {
		for i := range o.sources {
			sources[key(o.sources[i].add)] = true
		}
		for _, id := range o.inserts {
			inserts[id] = true
		}
	}
	return sources, inserts
}

// bound calls f for each row number that the output is bound to until f is false.
func (o *output) bound(f func(id int32) bool) bool {
	for _, id := range o.inserts {
		if !f(id) {
			return false
		}
	}
	for i := range o.sources {
		for _, e := range o.sources[i].edits {
			if !f(e.id) {
				return false
			}
		}
	}
	return true
}

// group is what a plan does to one partition.
type group struct {
	part    deltatable.Partition
	inserts []int32
	small   []source // touched files that join the pack
	large   []source // touched files that are rewritten on their own
}

// planOutputs adds to the outputs kept from a lost attempt those that carry out
// the rest of the plan.
func (e *engine) planOutputs(st *state) error {
	want, err := e.mode.wants(st.outputs)
	if err != nil {
		return err
	}
	groups, err := e.groups(want)
	if err != nil {
		return err
	}
	for _, key := range sortedKeys(groups) {
		g := groups[key]
		for _, s := range g.large {
			st.outputs = append(st.outputs, &output{part: g.part, sources: []source{s}})
		}
		if len(g.small) == 0 && len(g.inserts) == 0 {
			continue
		}
		extra, err := e.pack(st, g)
		if err != nil {
			return err
		}
		st.outputs = append(st.outputs, &output{part: g.part, sources: slices.Concat(g.small, extra), inserts: g.inserts})
	}
	return nil
}

func sortedKeys(groups map[string]*group) []string {
	keys := make([]string, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// groups sorts what is wanted into partitions.
func (e *engine) groups(want *wanted) (map[string]*group, error) {
	groups := map[string]*group{}
	groupOf := func(part deltatable.Partition) *group {
		if groups[part.Key] == nil {
			groups[part.Key] = &group{part: part}
		}
		return groups[part.Key]
	}
	for _, i := range want.inserts {
		g := groupOf(i.part)
		g.inserts = append(g.inserts, i.id)
	}
	limit := e.layout.TargetSize() / packTouched
	for _, s := range want.touched {
		part, err := e.partitionOf(s.add)
		if err != nil {
			return nil, err
		}
		g := groupOf(part)
		if s.add.Size <= limit {
			g.small = append(g.small, s)
		} else {
			g.large = append(g.large, s)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.small, bySize)
		slices.SortFunc(g.large, bySize)
		g.overflow(e.layout.TargetSize())
	}
	return groups, nil
}

func bySize(a, b source) int {
	return cmp.Or(cmp.Compare(a.add.Size, b.add.Size), cmp.Compare(a.add.Path, b.add.Path))
}

// overflow moves small files beyond the target size out of the pack.
func (g *group) overflow(target int64) {
	var sum int64
	for i := range g.small {
		if sum += g.small[i].add.Size; sum > target {
			g.large = append(g.large, g.small[i:]...)
			g.small = g.small[:i]
			return
		}
	}
}

// pack chooses untouched small files of the group's partition to go into its
// pack. What a conflict does to them is R3: the pack is bound to all of them.
func (e *engine) pack(st *state, g *group) ([]source, error) {
	if st.snap == nil {
		return nil, nil
	}
	taken := map[deltatable.FileKey]bool{}
	for _, o := range st.outputs {
		for i := range o.sources {
			taken[o.sources[i].add.Key()] = true
		}
	}
	size := int64(len(g.inserts)) * rowBytes(st.snap)
	for _, list := range [][]source{g.small, g.large} {
		for i := range list {
			taken[list[i].add.Key()] = true
		}
	}
	if size == 0 {
		return nil, nil // no new file comes of it, so none has to go
	}
	target := e.layout.TargetSize()
	room := target - size
	for i := range g.small {
		room -= g.small[i].add.Size
	}
	var eligible []source
	for _, f := range st.snap.Files() {
		if f.Size > target/packUntouched || taken[f.Key()] {
			continue
		}
		part, err := e.partitionOf(f)
		if err != nil {
			return nil, err
		}
		if part.Key == g.part.Key {
			eligible = append(eligible, source{add: f})
		}
	}
	slices.SortFunc(eligible, bySize)
	var out []source
	for _, s := range eligible {
		if len(out) == packFiles || s.add.Size > max(2*size, packAlways) || s.add.Size > room {
			break
		}
		size, room = size+s.add.Size, room-s.add.Size
		out = append(out, s)
	}
	return out, nil
}

// rowBytes estimates the bytes of a stored row from a few live files.
func rowBytes(s *deltatable.Snapshot) int64 {
	var size, count int64
	for i, f := range s.Files() {
		if i == 100 {
			break
		}
		if n, ok := s.NumRecords(f); ok {
			size, count = size+f.Size, count+n
		}
	}
	if count == 0 {
		return 64
	}
	return max(size/count, 1)
}

// partitionOf is the typed partition of a live file.
func (e *engine) partitionOf(f *deltatable.Add) (deltatable.Partition, error) {
	if e.plain {
		return e.whole, nil
	}
	key := f.Key()
	if part, ok := e.parts[key]; ok {
		return part, nil
	}
	part, err := e.layout.PartitionOf(f)
	if err != nil {
		return deltatable.Partition{}, err
	}
	e.parts[key] = part
	return part, nil
}
