package datafile

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	pq "github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

type planKind uint8

const (
	planMissing planKind = iota // not in the file: NULL
	planLeaf
	planStruct
	planList
	planMap
)

// plan says how one field of the table is put together from a file's columns.
// Slots are places for values: rows at the top, elements within lists. A slot of
// a node within lists of repetition level r exists for each entry of a leaf with
// repetition level <= r and definition level >= the level of the enclosing
// repeated group.
type plan struct {
	kind  planKind
	typ   arrow.DataType
	def   int16 // definition level from which on the node is not NULL
	leaf  *leaf // planLeaf: its column
	shape *leaf // any leaf below: its levels are the node's; planMissing: nil
	kids  []*plan
	elem  int16 // planList, planMap: definition level of the repeated group
	rep   int16 // planList, planMap: repetition level within
	err   error // the stored type does not fit
	name  string
}

// leaf is a column of the file.
type leaf struct {
	index          int
	node           *pq.PrimitiveNode
	maxDef, maxRep int16
	convert        convertFunc // nil where it only gives the shape
}

// resolver matches nodes of the file to fields of the table.
type resolver struct{ schema *pq.Schema }

func resolve(root *pq.GroupNode, s *pq.Schema, want *arrow.Schema) []*plan {
	r := &resolver{schema: s}
	out := make([]*plan, want.NumFields())
	for i, f := range want.Fields() {
		out[i] = r.member(root, f, f.Name, 0, 0)
	}
	return out
}

// member finds field f among a group's members: by its exact name, else by the
// only one whose name differs in case.
func (r *resolver) member(g *pq.GroupNode, f arrow.Field, path string, def, rep int16) *plan {
	missing := &plan{kind: planMissing, typ: f.Type, name: path}
	if f.Type.ID() == arrow.NULL {
		return missing
	}
	found := -1
	for i := range g.NumFields() {
		if g.Field(i).Name() == f.Name {
			found = i
			break
		}
	}
	if found < 0 {
		for i := range g.NumFields() {
			if schema.Fold(g.Field(i).Name()) != schema.Fold(f.Name) {
				continue
			}
			if found >= 0 {
				missing.err = &MismatchError{Column: path, Want: f.Type, Found: "several columns whose names differ in case only"}
				return missing
			}
			found = i
		}
	}
	if found < 0 {
		return missing
	}
	return r.node(g.Field(found), f.Type, path, def, rep)
}

// node plans a node whose enclosing levels are def and rep.
func (r *resolver) node(n pq.Node, t arrow.DataType, path string, def, rep int16) *plan {
	if n.RepetitionType() == parquet.Repetitions.Repeated {
		return r.bare(n, t, path, def, rep)
	}
	return r.value(n, t, path, def, rep)
}

// value plans a node as one value, its own repetition apart from repeated.
func (r *resolver) value(n pq.Node, t arrow.DataType, path string, def, rep int16) *plan {
	if n.RepetitionType() == parquet.Repetitions.Optional {
		def++
	}
	p := &plan{typ: t, def: def, name: path}
	g, isGroup := n.(*pq.GroupNode)
	switch t := t.(type) {
	case *arrow.StructType:
		if isGroup {
			r.structure(p, g, t, rep)
			return p
		}
	case *arrow.MapType:
		if isGroup && g.NumFields() == 1 && g.Field(0).RepetitionType() == parquet.Repetitions.Repeated {
			r.mapping(p, g.Field(0), t, rep)
			return p
		}
	case *arrow.ListType:
		if isGroup && g.NumFields() == 1 && g.Field(0).RepetitionType() == parquet.Repetitions.Repeated {
			r.list(p, g, t, rep)
			return p
		}
	default:
		if !isGroup {
			r.atom(p, n.(*pq.PrimitiveNode), rep)
			return p
		}
	}
	p.mismatch(n)
	return p
}

func (p *plan) mismatch(n pq.Node) {
	p.err = &MismatchError{Column: p.name, Want: p.typ, Found: describe(n)}
}

func describe(n pq.Node) string {
	switch n := n.(type) {
	case *pq.PrimitiveNode:
		s := n.PhysicalType().String()
		if l := n.LogicalType(); l != nil && !l.IsNone() {
			s += " (" + l.String() + ")"
		}
		return s
	case *pq.GroupNode:
		return fmt.Sprintf("a group of %d members", n.NumFields())
	}
	return "something else"
}

func (r *resolver) atom(p *plan, n *pq.PrimitiveNode, rep int16) {
	p.kind = planLeaf
	p.leaf = r.leaf(n)
	p.shape = p.leaf
	if p.leaf == nil {
		p.mismatch(n)
		return
	}
	p.leaf.convert = converter(n, p.typ)
	if p.leaf.convert == nil {
		p.mismatch(n)
	}
}

func (r *resolver) leaf(n *pq.PrimitiveNode) *leaf {
	i := r.schema.ColumnIndexByNode(n)
	if i < 0 {
		return nil
	}
	c := r.schema.Column(i)
	return &leaf{index: i, node: n, maxDef: c.MaxDefinitionLevel(), maxRep: c.MaxRepetitionLevel()}
}

func (r *resolver) structure(p *plan, g *pq.GroupNode, t *arrow.StructType, rep int16) {
	p.kind = planStruct
	for _, f := range t.Fields() {
		p.kids = append(p.kids, r.member(g, f, p.name+"."+f.Name, p.def, rep))
	}
	p.adopt(g, r)
}

// adopt takes the first error of the kids, and a shape from a kid or, if the
// table has no column that the file has, from any column of the file below.
func (p *plan) adopt(n pq.Node, r *resolver) {
	for _, k := range p.kids {
		if k.err != nil && p.err == nil {
			p.err = k.err
		}
		// A leaf within a list would do as well, but costs more to read.
		if k.shape != nil && (p.shape == nil || k.shape.maxRep < p.shape.maxRep) {
			p.shape = k.shape
		}
	}
	if p.shape == nil {
		p.shape = r.anyLeaf(n)
	}
	if p.shape == nil && p.err == nil {
		p.mismatch(n)
	}
}

func (r *resolver) anyLeaf(n pq.Node) *leaf {
	switch n := n.(type) {
	case *pq.PrimitiveNode:
		return r.leaf(n)
	case *pq.GroupNode:
		var best *leaf
		for i := range n.NumFields() {
			if l := r.anyLeaf(n.Field(i)); l != nil && (best == nil || l.maxRep < best.maxRep) {
				best = l
			}
		}
		return best
	}
	return nil
}

// list plans LIST groups of two and three levels, told apart by structure
// (parquet-format LogicalTypes.md "Lists", with the backward rules).
func (r *resolver) list(p *plan, g *pq.GroupNode, t *arrow.ListType, rep int16) {
	mid := g.Field(0)
	p.kind, p.elem, p.rep = planList, p.def+1, rep+1
	inner := mid
	if mg, ok := mid.(*pq.GroupNode); ok && mg.NumFields() == 1 && !isElement(mg, g, t.Elem()) {
		inner = mg.Field(0)
	}
	var kid *plan
	if inner == mid {
		kid = r.required(mid, t.Elem(), p.name+".element", p.elem, p.rep)
	} else {
		kid = r.node(inner, t.Elem(), p.name+".element", p.elem, p.rep)
	}
	p.kids = []*plan{kid}
	p.adopt(mid, r)
}

// isElement says whether a repeated group of one member is the element itself
// rather than what is around it.
func isElement(mid, list *pq.GroupNode, elem arrow.DataType) bool {
	st, ok := elem.(*arrow.StructType)
	if !ok {
		return false
	}
	member := false // the struct has a member of that name
	for _, f := range st.Fields() {
		member = member || schema.Fold(f.Name) == schema.Fold(mid.Field(0).Name())
	}
	_, group := mid.Field(0).(*pq.GroupNode)
	if mid.Name() == "array" || mid.Name() == list.Name()+"_tuple" {
		return member || !group
	}
	return member && !group // other names of lists of two levels
}

// required plans a repeated node as the element that it is in lists of two levels.
func (r *resolver) required(n pq.Node, t arrow.DataType, path string, def, rep int16) *plan {
	return r.value(n, t, path, def, rep) // value counts optional only
}

// bare plans a repeated node without a group around it: a list that is never NULL.
func (r *resolver) bare(n pq.Node, t arrow.DataType, path string, def, rep int16) *plan {
	p := &plan{typ: t, def: def, name: path, kind: planList, elem: def + 1, rep: rep + 1}
	switch t := t.(type) {
	case *arrow.ListType:
		p.kids = []*plan{r.required(n, t.Elem(), path+".element", p.elem, p.rep)}
		p.adopt(n, r)
	case *arrow.MapType:
		r.mapping(p, n, t, rep)
	default:
		p.mismatch(n)
	}
	return p
}

// mapping plans a map of which n is the repeated group. Its members are found by
// the names key and value, else by position (legacy names differ).
func (r *resolver) mapping(p *plan, n pq.Node, t *arrow.MapType, rep int16) {
	p.kind, p.elem, p.rep = planMap, p.def+1, rep+1
	g, ok := n.(*pq.GroupNode)
	if !ok || g.NumFields() < 1 || g.NumFields() > 2 {
		p.mismatch(n)
		return
	}
	k, v := 0, 1
	if g.NumFields() == 2 && schema.Fold(g.Field(0).Name()) == "value" && schema.Fold(g.Field(1).Name()) == "key" {
		k, v = 1, 0
	}
	key := r.node(g.Field(k), t.KeyType(), p.name+".key", p.elem, p.rep)
	val := &plan{kind: planMissing, typ: t.ItemType(), name: p.name + ".value"}
	if g.NumFields() == 2 {
		val = r.node(g.Field(v), t.ItemType(), p.name+".value", p.elem, p.rep)
	}
	p.kids = []*plan{key, val}
	p.adopt(g, r)
}

// leaves calls visit for every column that the plan reads.
func (p *plan) leaves(visit func(*leaf)) {
	if p.kind == planMissing {
		return
	}
	if p.shape != nil {
		visit(p.shape)
	}
	for _, k := range p.kids {
		k.leaves(visit)
	}
}
