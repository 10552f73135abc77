package datafile

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// assembler puts columns of one batch together from levels and values (the
// record assembly of Dremel, column by column). See plan for slots.
type assembler struct {
	leaves map[int]*leafReader
	julian julian
}

var errLevels = errors.New("the levels of its columns contradict each other")

// build makes the array of plan p for the n slots of definition level a and
// repetition level r.
func (s *assembler) build(p *plan, a, r int16, n int) (arrow.ArrayData, error) {
	switch p.kind {
	case planLeaf:
		return s.atom(p, a, n)
	case planStruct:
		return s.structure(p, a, r, n)
	case planList, planMap:
		return s.lists(p, a, r, n)
	case planMissing:
	}
	return nullColumn(p.typ, n).Data(), nil
}

func (s *assembler) atom(p *plan, a int16, n int) (arrow.ArrayData, error) {
	l := s.leaves[p.leaf.index]
	def := l.def
	slots := l.entries
	if a > 0 { // within lists: entries of empty and NULL lists are no slots
		def = make([]int16, 0, len(l.def))
		for _, d := range l.def {
			if d >= a {
				def = append(def, d)
			}
		}
		slots = len(def)
	}
	if slots != n {
		return nil, errLevels
	}
	v := validity{n: n, def: def, max: p.leaf.maxDef}
	v.count()
	if n-v.nulls != l.vals.len() {
		return nil, errors.New("the number of values is not what the levels say")
	}
	return p.leaf.convert(&l.vals, &v, p.typ, s.julian)
}

// structure makes a struct; its members have the same slots, NULL or not.
func (s *assembler) structure(p *plan, a, r int16, n int) (arrow.ArrayData, error) {
	shape := s.leaves[p.shape.index]
	var bits []byte
	nulls := 0
	if p.def > a {
		bits = make([]byte, bitutil.BytesForBits(int64(n)))
		i := 0
		for e, d := range shape.def {
			if d < a || shape.rep != nil && shape.rep[e] > r {
				continue
			}
			if i == n {
				return nil, errLevels
			}
			if d >= p.def {
				bitutil.SetBit(bits, i)
			} else {
				nulls++
			}
			i++
		}
		if i != n {
			return nil, errLevels
		}
	}
	kids := make([]arrow.ArrayData, len(p.kids))
	for i, k := range p.kids {
		var err error
		if kids[i], err = s.build(k, a, r, n); err != nil {
			return nil, err
		}
	}
	return array.NewData(p.typ, n, []*memory.Buffer{bitmap(bits, nulls)}, kids, nulls, 0), nil
}

func bitmap(bits []byte, nulls int) *memory.Buffer {
	if nulls == 0 {
		return nil
	}
	return memory.NewBufferBytes(bits)
}

// lists makes a list or a map: offsets from the shape's levels, then the
// elements in slots of their own.
func (s *assembler) lists(p *plan, a, r int16, n int) (arrow.ArrayData, error) {
	shape := s.leaves[p.shape.index]
	offs := make([]int32, 1, n+1)
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	nulls, elems := 0, int32(0)
	for e, d := range shape.def {
		rep := shape.rep[e]
		switch {
		case rep > p.rep || rep <= r && d < a:
			continue // deeper within an element; or no slot at all
		case rep <= r: // a new list
			if len(offs) > n {
				return nil, errLevels
			}
			if len(offs) > 1 {
				offs[len(offs)-1] = elems
			}
			if d >= p.def {
				bitutil.SetBit(bits, len(offs)-1)
			} else {
				nulls++
			}
			offs = append(offs, elems)
		case d < p.elem || len(offs) == 1:
			return nil, errLevels
		}
		if d >= p.elem {
			elems++
		}
	}
	offs[len(offs)-1] = elems
	if len(offs) != n+1 {
		return nil, errLevels
	}
	kids := make([]arrow.ArrayData, len(p.kids))
	for i, k := range p.kids {
		var err error
		if kids[i], err = s.build(k, p.elem, p.rep, int(elems)); err != nil {
			return nil, err
		}
	}
	if p.kind == planMap {
		if kids[0].NullN() > 0 {
			return nil, errors.New("a key of a map is NULL")
		}
		kids = []arrow.ArrayData{array.NewData(p.typ.(*arrow.MapType).Elem(), int(elems), []*memory.Buffer{nil}, kids, 0, 0)}
	}
	buffers := []*memory.Buffer{bitmap(bits, nulls), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offs))}
	return array.NewData(p.typ, n, buffers, kids, nulls, 0), nil
}

// validity says which slots of a leaf hold values.
type validity struct {
	n     int
	def   []int16 // nil: all do
	max   int16
	nulls int
}

func (v *validity) count() {
	v.nulls = 0
	for _, d := range v.def {
		if d != v.max {
			v.nulls++
		}
	}
}

func (v *validity) buffer() *memory.Buffer {
	if v.nulls == 0 {
		return nil
	}
	bits := make([]byte, bitutil.BytesForBits(int64(v.n)))
	for i, d := range v.def {
		if d == v.max {
			bits[i>>3] |= 1 << (i & 7)
		}
	}
	return memory.NewBufferBytes(bits)
}

// spread moves the values to their slots, in place where there is room.
func spread[T any](vals []T, v *validity) []T {
	if v.nulls == 0 {
		return vals
	}
	j := len(vals) - 1
	if cap(vals) < v.n {
		vals = append(make([]T, 0, v.n), vals...)
	}
	vals = vals[:v.n]
	var zero T
	for i := v.n - 1; i >= 0; i-- {
		if v.def[i] == v.max {
			vals[i] = vals[j]
			j--
		} else {
			vals[i] = zero
		}
	}
	return vals
}
