package expr

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A conversion turns an array into one of another type. It looks only at the
// rows that on allows (the others become NULL or anything), and asks fail about
// a value without result: an error of fail ends it, nil makes the value NULL.
type conversion func(arr arrow.Array, on func(i int) bool, fail func(i int, msg string) error) (arrow.Array, error)

// pairRule says which atomic types convert: cast or store assignment.
type pairRule func(from, to arrow.DataType) (cellFunc, string)

// conversionOf makes a conversion, of nested types part by part: arrays and maps
// by element, structs by the names of their fields.
func conversionOf(from, to arrow.DataType, rule pairRule) (conversion, string) {
	if arrow.TypeEqual(from, to) {
		return func(arr arrow.Array, _ func(int) bool, _ func(int, string) error) (arrow.Array, error) {
			arr.Retain()
			return arr, nil
		}, ""
	}
	if from.ID() == arrow.NULL {
		return func(arr arrow.Array, _ func(int) bool, _ func(int, string) error) (arrow.Array, error) {
			return array.MakeArrayOfNull(memory.DefaultAllocator, to, arr.Len()), nil
		}, ""
	}
	if from.ID() == to.ID() {
		switch from.ID() {
		case arrow.LIST:
			return listConversion(from, to, rule)
		case arrow.MAP:
			return mapConversion(from.(*arrow.MapType), to.(*arrow.MapType), rule)
		case arrow.STRUCT:
			return structConversion(from.(*arrow.StructType), to.(*arrow.StructType), rule)
		}
	}
	f, msg := rule(from, to)
	if msg != "" {
		return nil, msg
	}
	return func(arr arrow.Array, on func(int) bool, fail func(int, string) error) (arrow.Array, error) {
		read := cellsOf(arr)
		return build(to, arr.Len(), func(i int) (cell, error) {
			if arr.IsNull(i) || !on(i) {
				return null, nil
			}
			c, msg := f(read(i))
			if msg != "" {
				return null, fail(i, msg)
			}
			return c, nil
		})
	}, ""
}

// parents maps an element to the row that holds it, -1 for none.
func parents(arr array.ListLike, on func(i int) bool) []int {
	rows := make([]int, arr.ListValues().Len())
	for i := range rows {
		rows[i] = -1
	}
	for i := range arr.Len() {
		if arr.IsNull(i) || !on(i) {
			continue
		}
		start, end := arr.ValueOffsets(i)
		for e := start; e < end; e++ {
			rows[e] = i
		}
	}
	return rows
}

// within runs a conversion on the elements of a list or map.
func within(arr array.ListLike, part arrow.Array, f conversion, on func(int) bool, fail func(int, string) error) (arrow.Array, error) {
	rows := parents(arr, on)
	return f(part, func(e int) bool { return rows[e] >= 0 }, func(e int, msg string) error { return fail(rows[e], msg) })
}

func rebuilt(arr arrow.Array, to arrow.DataType, children ...arrow.Array) arrow.Array {
	data := make([]arrow.ArrayData, len(children))
	for i, c := range children {
		data[i] = c.Data()
	}
	d := arr.Data()
	return array.MakeFromData(array.NewData(to, arr.Len(), d.Buffers(), data, arr.NullN(), d.Offset()))
}

func listConversion(from, to arrow.DataType, rule pairRule) (conversion, string) {
	f, msg := conversionOf(from.(*arrow.ListType).Elem(), to.(*arrow.ListType).Elem(), rule)
	if msg != "" {
		return nil, msg
	}
	return func(arr arrow.Array, on func(int) bool, fail func(int, string) error) (arrow.Array, error) {
		l := arr.(*array.List)
		values, err := within(l, l.ListValues(), f, on, fail)
		if err != nil {
			return nil, err
		}
		return rebuilt(arr, to, values), nil
	}, ""
}

func mapConversion(from, to *arrow.MapType, rule pairRule) (conversion, string) {
	fk, msg := conversionOf(from.KeyType(), to.KeyType(), rule)
	if msg != "" {
		return nil, msg
	}
	fv, msg := conversionOf(from.ItemType(), to.ItemType(), rule)
	if msg != "" {
		return nil, msg
	}
	return func(arr arrow.Array, on func(int) bool, fail func(int, string) error) (arrow.Array, error) {
		m := arr.(*array.Map)
		keys, err := within(m, m.Keys(), fk, on, fail)
		if err != nil {
			return nil, err
		}
		items, err := within(m, m.Items(), fv, on, fail)
		if err != nil {
			return nil, err
		}
		entries := array.NewData(to.Elem(), keys.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{keys.Data(), items.Data()}, 0, 0)
		return rebuilt(arr, to, array.MakeFromData(entries)), nil
	}, ""
}

// structConversion takes fields by name, without regard to case; both sides must
// have the same ones.
func structConversion(from, to *arrow.StructType, rule pairRule) (conversion, string) {
	if len(from.Fields()) != len(to.Fields()) {
		return nil, fmt.Sprintf("a struct of %d fields where one of %d is needed", len(from.Fields()), len(to.Fields()))
	}
	source := make([]int, len(to.Fields()))
	convert := make([]conversion, len(to.Fields()))
	for i, f := range to.Fields() {
		at, n := findField(from.Fields(), f.Name)
		if n != 1 {
			return nil, fmt.Sprintf("the struct has no field %s", quoteName(f.Name))
		}
		source[i] = at
		var msg string
		if convert[i], msg = conversionOf(from.Field(at).Type, f.Type, rule); msg != "" {
			return nil, fmt.Sprintf("field %s: %s", quoteName(f.Name), msg)
		}
	}
	return func(arr arrow.Array, on func(int) bool, fail func(int, string) error) (arrow.Array, error) {
		st := arr.(*array.Struct)
		fields := make([]arrow.Array, len(source))
		for i, at := range source {
			field := st.Field(at)
			c, err := convert[i](field, func(r int) bool { return st.IsValid(r) && on(r) }, func(r int, msg string) error {
				return fail(r, "field "+quoteName(to.Field(i).Name)+": "+msg)
			})
			if err != nil {
				return nil, err
			}
			fields[i] = c
		}
		bits := make([]byte, (arr.Len()+7)/8)
		nulls := 0
		for r := range arr.Len() {
			if st.IsValid(r) {
				bits[r/8] |= 1 << (r % 8)
			} else {
				nulls++
			}
		}
		data := make([]arrow.ArrayData, len(fields))
		for i, f := range fields {
			data[i] = f.Data()
		}
		return array.MakeFromData(array.NewData(to, arr.Len(), []*memory.Buffer{memory.NewBufferBytes(bits)}, data, nulls, 0)), nil
	}, ""
}

// castNode is a value converted to another type.
type castNode struct {
	x      node
	to     arrow.DataType
	f      conversion
	src    Expr
	try    bool   // what fails is NULL
	column string // that it is stored in
}

func (c *castNode) typ() arrow.DataType { return c.to }

func (c *castNode) eval(b *batch) (arrow.Array, error) {
	arr, err := c.x.eval(b)
	if err != nil {
		return nil, err
	}
	defer arr.Release()
	return c.f(arr, b.wants, func(i int, msg string) error {
		if c.try {
			return nil
		}
		return &EvalError{Row: i, Column: c.column, Pos: c.src.Pos(), Text: c.src.String(), Msg: msg}
	})
}

// cast binds a conversion by the rules of CAST; a constant becomes a constant.
func (bd *binder) cast(x node, to arrow.DataType, src Expr, try bool) (node, error) {
	if arrow.TypeEqual(x.typ(), to) {
		return x, nil
	}
	f, msg := conversionOf(x.typ(), to, func(from, to arrow.DataType) (cellFunc, string) { return castCells(from, to, bd.zone) })
	if msg != "" {
		return nil, &BindError{At: src.Pos(), Text: src.String(), Msg: msg}
	}
	bd.fallible++
	return bd.fold(&castNode{x: x, to: to, f: f, src: src, try: try}, src, x), nil
}

// fold computes a function of constants once. Where that fails, the node stays,
// and fails for the rows that need it.
func (bd *binder) fold(n node, src Expr, args ...node) node {
	if nested(n.typ()) || n.typ().ID() == arrow.NULL {
		return n
	}
	for _, a := range args {
		if !isConstant(a) {
			return n
		}
	}
	arr, err := n.eval(&batch{rows: 1})
	if err != nil {
		return n
	}
	defer arr.Release()
	return constantOf(n.typ(), cellsOf(arr)(0), src)
}

func nested(t arrow.DataType) bool {
	return t.ID() == arrow.STRUCT || t.ID() == arrow.LIST || t.ID() == arrow.MAP
}

// Store gives the value converted for a column of the type (canonical Arrow), by
// ANSI store assignment (merge-semantics 5): numbers into numbers, where what
// does not fit is an [*EvalError] naming row and column; dates and timestamps
// into each other; structs by the names of their fields, arrays and maps by
// their parts; NULL into anything. All else (text into numbers, numbers into
// text) is a [*BindError] that names the column, and needs an explicit cast.
func Store(b *Bound, to arrow.DataType, column string) (*Bound, error) {
	if arrow.TypeEqual(b.root.typ(), to) {
		return b, nil
	}
	fail := func(why string) error {
		return &BindError{
			At: b.src.Pos(), Text: b.src.String(),
			Msg: fmt.Sprintf("%s cannot be stored in the column %s of type %s without a cast%s", typeName(b.root.typ()), quoteName(column), typeName(to), why),
		}
	}
	refused := "\x00"
	f, msg := conversionOf(b.root.typ(), to, func(from, to arrow.DataType) (cellFunc, string) {
		dated := func(t arrow.DataType) bool { return t.ID() == arrow.DATE32 || t.ID() == arrow.TIMESTAMP }
		if isNumber(from) && isNumber(to) || dated(from) && dated(to) {
			return castCells(from, to, b.zone)
		}
		return nil, refused
	})
	switch {
	case msg == refused:
		return nil, fail("")
	case msg != "":
		return nil, fail(": " + strings.ReplaceAll(msg, refused, "the types differ"))
	}
	bd := &binder{}
	root := bd.fold(&castNode{x: b.root, to: to, f: f, src: b.src, column: column}, b.src, b.root)
	return &Bound{src: b.src, root: root, cols: b.cols, zone: b.zone}, nil
}
