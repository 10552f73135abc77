package expr

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// nestedSpecial gives the functions of arrays, maps and structs.
func nestedSpecial(name string) (special, bool) {
	s, ok := map[string]special{
		"array":          {0, -1, bindArray},
		"map":            {0, -1, bindMap},
		"struct":         {1, -1, bindStruct},
		"named_struct":   {2, -1, bindStruct},
		"size":           {1, 1, bindSize},
		"cardinality":    {1, 1, bindSize},
		"array_size":     {1, 1, bindSize},
		"element_at":     {2, 2, bindElementAt(false)},
		"try_element_at": {2, 2, bindElementAt(true)},
		"get":            {2, 2, bindGet},
		"array_contains": {2, 2, bindArrayFind(func(at int, hasNull bool) cell {
			if at == 0 && hasNull {
				return null
			}
			return boolCell(at > 0)
		}, typeBool)},
		"array_position":   {2, 2, bindArrayFind(func(at int, _ bool) cell { return cell{i: int64(at)} }, typeBigint)},
		"array_join":       {2, 3, bindArrayJoin},
		"array_max":        {1, 1, bindArrayExtreme(1)},
		"array_min":        {1, 1, bindArrayExtreme(-1)},
		"array_distinct":   {1, 1, bindArrayDistinct},
		"slice":            {3, 3, bindSlice},
		"map_keys":         {1, 1, bindMapPart(true)},
		"map_values":       {1, 1, bindMapPart(false)},
		"map_contains_key": {2, 2, bindMapContains},
	}[name]
	return s, ok
}

// makeNode builds arrays, maps and structs of values.
type makeNode struct {
	dt   arrow.DataType
	args []node
	src  Expr
}

func (n *makeNode) typ() arrow.DataType { return n.dt }

func (n *makeNode) eval(b *batch) (arrow.Array, error) {
	cols := make([]arrow.Array, len(n.args))
	read := make([]func(int) cell, len(n.args))
	for k, a := range n.args {
		arr, err := a.eval(b)
		if err != nil {
			return nil, err
		}
		cols[k], read[k] = arr, cellsOf(arr)
	}
	switch t := n.dt.(type) {
	case *arrow.StructType:
		data := make([]arrow.ArrayData, len(cols))
		for i, c := range cols {
			data[i] = c.Data()
		}
		return array.MakeFromData(array.NewData(t, b.rows, []*memory.Buffer{nil}, data, 0, 0)), nil
	case *arrow.MapType:
		return n.maps(b, t, read)
	}
	return build(n.dt, b.rows, func(i int) (cell, error) {
		list := make([]cell, len(read))
		for k, r := range read {
			list[k] = r(i)
		}
		return listCell(list), nil
	})
}

func (n *makeNode) maps(b *batch, t *arrow.MapType, read []func(int) cell) (arrow.Array, error) {
	bld := array.NewMapBuilderWithType(memory.DefaultAllocator, t)
	defer bld.Release()
	order := cellOrder(t.KeyType())
	for i := range b.rows {
		if !b.wants(i) {
			bld.AppendNull()
			continue
		}
		bld.Append(true)
		var keys []cell
		for k := 0; k < len(read); k += 2 {
			key := read[k](i)
			msg := ""
			if key.null {
				msg = "a key of a map is NULL"
			}
			for _, other := range keys {
				if msg == "" && order(other, key) == 0 {
					msg = "a map has a key twice"
				}
			}
			if msg != "" {
				return nil, &EvalError{Row: i, Pos: n.src.Pos(), Text: n.src.String(), Msg: msg}
			}
			keys = append(keys, key)
			appendCell(bld.KeyBuilder(), key)
			appendCell(bld.ItemBuilder(), read[k+1](i))
		}
	}
	return bld.NewArray(), nil
}

func bindArray(bd *binder, e *Call, args []node) (node, error) {
	el := arrow.DataType(arrow.Null)
	if len(args) > 0 {
		var err error
		if el, err = bd.same(e, e.Args, args); err != nil {
			return nil, err
		}
	}
	return &makeNode{dt: listOf(el), args: args, src: e}, nil
}

func bindMap(bd *binder, e *Call, args []node) (node, error) {
	if len(args)%2 != 0 {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: "map takes keys and values in turn"}
	}
	var parts [2][]node
	var exprs [2][]Expr
	for i, a := range args {
		parts[i%2], exprs[i%2] = append(parts[i%2], a), append(exprs[i%2], e.Args[i])
	}
	types := [2]arrow.DataType{arrow.Null, arrow.Null}
	for i := range parts {
		if len(args) == 0 {
			break
		}
		var err error
		if types[i], err = bd.same(e, exprs[i], parts[i]); err != nil {
			return nil, err
		}
	}
	if types[0].ID() != arrow.NULL && cellOrder(types[0]) == nil {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: "a key of a map cannot be a map"}
	}
	for i := range args {
		args[i] = parts[i%2][i/2]
	}
	bd.fallible++
	return &makeNode{dt: arrow.MapOf(types[0], types[1]), args: args, src: e}, nil
}

// bindStruct binds struct, whose fields have the names of its arguments, and
// named_struct.
func bindStruct(bd *binder, e *Call, args []node) (node, error) {
	var fields []arrow.Field
	var vals []node
	named := strings.EqualFold(e.Func, "named_struct")
	if named && len(args)%2 != 0 {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: "named_struct takes names and values in turn"}
	}
	for i := 0; i < len(args); i++ {
		name := fmt.Sprintf("col%d", i+1)
		if named {
			var err error
			if name, err = literalText(e, args, i); err != nil {
				return nil, err
			}
			i++
		} else if n, ok := e.Args[i].(*Name); ok {
			name = n.Parts[len(n.Parts)-1]
		}
		fields = append(fields, arrow.Field{Name: name, Type: args[i].typ(), Nullable: true})
		vals = append(vals, args[i])
	}
	return &makeNode{dt: arrow.StructOf(fields...), args: vals, src: e}, nil
}

func needs(e *Call, i int, n node, what string, ids ...arrow.Type) error {
	for _, id := range ids {
		if n.typ().ID() == id {
			return nil
		}
	}
	return &BindError{At: e.Args[i].Pos(), Text: e.Args[i].String(), Msg: typeName(n.typ()) + " where " + what + " is needed"}
}

func bindSize(bd *binder, e *Call, args []node) (node, error) {
	if err := needs(e, 0, args[0], "an array or a map", arrow.LIST, arrow.MAP); err != nil {
		return nil, err
	}
	return bd.function(&funcNode{dt: typeInt, args: args, src: e, fresh: always(func(a []cell) (cell, string) {
		if a[0].isList() {
			return cell{i: int64(len(a[0].elements()))}, ""
		}
		start, end := a[0].arr.(*array.Map).ValueOffsets(a[0].at)
		return cell{i: end - start}, ""
	})}, false), nil
}

// lookup binds access to a map by key: what is not there is NULL.
func (bd *binder) lookup(src Expr, m, key node, keyExpr Expr) (node, error) {
	t := m.typ().(*arrow.MapType)
	w := wider(t.KeyType(), key.typ(), true)
	if integers := isInteger(t.KeyType()) && isInteger(key.typ()); !integers && (w == nil || !arrow.TypeEqual(w, t.KeyType())) {
		return nil, &BindError{At: keyExpr.Pos(), Text: keyExpr.String(), Msg: fmt.Sprintf("the keys of the map are %s, this is %s", typeName(t.KeyType()), typeName(key.typ()))}
	}
	key, err := bd.cast(key, t.KeyType(), keyExpr, false)
	if err != nil {
		return nil, err
	}
	order := cellOrder(t.KeyType())
	return bd.function(&funcNode{dt: t.ItemType(), args: []node{m, key}, src: src, fresh: always(func(a []cell) (cell, string) {
		keys, items := a[0].entries()
		for i, k := range keys {
			if order(k, a[1]) == 0 {
				return items[i], ""
			}
		}
		return null, ""
	})}, false), nil
}

// access is how an index is taken: base is the first one, and from 1 negative
// ones count from the end; lenient gives NULL for one out of bounds.
type access struct {
	base    int64
	lenient bool
}

// elementOf binds access to an array.
func (bd *binder) elementOf(src Expr, l, index node, indexExpr Expr, how access) (node, error) {
	k := kSmall
	if _, ok := src.(*Index); ok {
		k = kBigint
	}
	index, err := bd.argument(indexExpr, index, k, src)
	if err != nil {
		return nil, err
	}
	n := &funcNode{dt: l.typ().(*arrow.ListType).Elem(), args: []node{l, index}, src: src}
	n.fresh = always(func(a []cell) (cell, string) {
		els, i := a[0].elements(), a[1].i-how.base
		if how.base == 1 && a[1].i == 0 {
			return null, "element_at counts from 1, or -1 from the end"
		}
		if how.base == 1 && a[1].i < 0 {
			i = int64(len(els)) + a[1].i
		}
		if i < 0 || i >= int64(len(els)) {
			if how.lenient {
				return null, ""
			}
			return null, fmt.Sprintf("the index %d is out of bounds: the array has %d elements", a[1].i, len(els))
		}
		return els[i], ""
	})
	return bd.function(n, true), nil
}

func bindElementAt(try bool) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		if err := needs(e, 0, args[0], "an array or a map", arrow.LIST, arrow.MAP); err != nil {
			return nil, err
		}
		if args[0].typ().ID() == arrow.MAP {
			return bd.lookup(e, args[0], args[1], e.Args[1])
		}
		return bd.elementOf(e, args[0], args[1], e.Args[1], access{1, try})
	}
}

func bindGet(bd *binder, e *Call, args []node) (node, error) {
	if err := needs(e, 0, args[0], "an array", arrow.LIST); err != nil {
		return nil, err
	}
	return bd.elementOf(e, args[0], args[1], e.Args[1], access{0, true})
}

// index binds x[key].
func (bd *binder) index(e *Index) (node, error) {
	x, err := bd.bind(e.X)
	if err != nil {
		return nil, err
	}
	key, err := bd.bind(e.Key)
	if err != nil {
		return nil, err
	}
	switch x.typ().ID() {
	case arrow.MAP:
		return bd.lookup(e, x, key, e.Key)
	case arrow.LIST:
		if !isInteger(key.typ()) && key.typ().ID() != arrow.NULL {
			return nil, &BindError{At: e.Key.Pos(), Text: e.Key.String(), Msg: typeName(key.typ()) + " where an integer is needed"}
		}
		return bd.elementOf(e, x, key, e.Key, access{0, false})
	}
	return nil, &BindError{At: e.At, Text: e.String(), Msg: typeName(x.typ()) + " has no elements"}
}

// fieldNode is a field of a struct that is no column.
type fieldNode struct {
	x  node
	at int
	dt arrow.DataType
}

func (f *fieldNode) typ() arrow.DataType { return f.dt }

func (f *fieldNode) eval(b *batch) (arrow.Array, error) {
	arr, err := f.x.eval(b)
	if err != nil {
		return nil, err
	}
	defer arr.Release()
	return fieldOf(arr.(*array.Struct), f.at), nil
}

func (bd *binder) field(e *Field) (node, error) {
	x, err := bd.bind(e.X)
	if err != nil {
		return nil, err
	}
	st, ok := x.typ().(*arrow.StructType)
	if !ok {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: typeName(x.typ()) + " has no fields"}
	}
	i, n := findField(st.Fields(), e.Name)
	if n != 1 {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: fmt.Sprintf("the struct has %d fields %s; its fields are %s", n, quoteName(e.Name), fieldNames(st.Fields()))}
	}
	return &fieldNode{x: x, at: i, dt: st.Field(i).Type}, nil
}

// elementsAlike converts an array and a value to one type of elements.
func (bd *binder) elementsAlike(e *Call, args []node) (func(a, b cell) int, error) {
	if err := needs(e, 0, args[0], "an array", arrow.LIST); err != nil {
		return nil, err
	}
	el := args[0].typ().(*arrow.ListType).Elem()
	w := wider(el, args[1].typ(), true)
	text := func(t arrow.DataType) bool { return t.ID() == arrow.STRING }
	if w == nil || cellOrder(w) == nil || args[1].typ().ID() == arrow.NULL || el.ID() != arrow.NULL && text(el) != text(args[1].typ()) {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: fmt.Sprintf("%s and %s cannot be compared", typeName(el), typeName(args[1].typ()))}
	}
	var err error
	if args[0], err = bd.cast(args[0], listOf(w), e.Args[0], false); err != nil {
		return nil, err
	}
	args[1], err = bd.cast(args[1], w, e.Args[1], false)
	return cellOrder(w), err
}

func bindArrayFind(result func(at int, hasNull bool) cell, dt arrow.DataType) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		order, err := bd.elementsAlike(e, args)
		if err != nil {
			return nil, err
		}
		return bd.function(&funcNode{dt: dt, args: args, src: e, fresh: always(func(a []cell) (cell, string) {
			hasNull := false
			for i, el := range a[0].elements() {
				if el.null {
					hasNull = true
				} else if order(el, a[1]) == 0 {
					return result(i+1, hasNull), ""
				}
			}
			return result(0, hasNull), ""
		})}, false), nil
	}
}

func bindArrayJoin(bd *binder, e *Call, args []node) (node, error) {
	if err := needs(e, 0, args[0], "an array", arrow.LIST); err != nil {
		return nil, err
	}
	var err error
	if args[0], err = bd.cast(args[0], listOf(typeString), e.Args[0], false); err != nil {
		return nil, err
	}
	for i := 1; i < len(args); i++ {
		if args[i], err = bd.argument(e.Args[i], args[i], kString, e); err != nil {
			return nil, err
		}
	}
	return bd.function(&funcNode{dt: typeString, args: args, src: e, fresh: always(func(a []cell) (cell, string) {
		var parts []string
		for _, el := range a[0].elements() {
			switch {
			case !el.null:
				parts = append(parts, el.s)
			case len(a) > 2:
				parts = append(parts, a[2].s)
			}
		}
		return cell{s: strings.Join(parts, a[1].s)}, ""
	})}, false), nil
}

func bindArrayExtreme(want int) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		if err := needs(e, 0, args[0], "an array", arrow.LIST); err != nil {
			return nil, err
		}
		el := args[0].typ().(*arrow.ListType).Elem()
		order := cellOrder(el)
		if order == nil {
			return nil, &BindError{At: e.At, Text: e.String(), Msg: "maps have no order"}
		}
		return bd.function(&funcNode{dt: el, args: args, src: e, fresh: always(func(a []cell) (cell, string) {
			best := null
			for _, c := range a[0].elements() {
				if !c.null && (best.null || order(c, best)*want > 0) {
					best = c
				}
			}
			return best, ""
		})}, false), nil
	}
}

func bindArrayDistinct(bd *binder, e *Call, args []node) (node, error) {
	if err := needs(e, 0, args[0], "an array", arrow.LIST); err != nil {
		return nil, err
	}
	order := cellOrder(args[0].typ().(*arrow.ListType).Elem())
	if order == nil {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: "maps cannot be compared"}
	}
	order = nullsFirst(order)
	return bd.function(&funcNode{dt: args[0].typ(), args: args, src: e, fresh: always(func(a []cell) (cell, string) {
		var out []cell
	next:
		for _, c := range a[0].elements() {
			for _, o := range out {
				if order(c, o) == 0 {
					continue next
				}
			}
			out = append(out, c)
		}
		return listCell(out), ""
	})}, false), nil
}

func bindSlice(bd *binder, e *Call, args []node) (node, error) {
	if err := needs(e, 0, args[0], "an array", arrow.LIST); err != nil {
		return nil, err
	}
	for i := 1; i < 3; i++ {
		var err error
		if args[i], err = bd.argument(e.Args[i], args[i], kInt, e); err != nil {
			return nil, err
		}
	}
	return bd.function(&funcNode{dt: args[0].typ(), args: args, src: e, fresh: always(func(a []cell) (cell, string) {
		els, start, n := a[0].elements(), a[1].i-1, a[2].i
		switch {
		case a[1].i == 0:
			return null, "slice counts from 1, or -1 from the end"
		case n < 0:
			return null, "the length of a slice is negative"
		case a[1].i < 0:
			start = int64(len(els)) + a[1].i
		}
		if start < 0 || start >= int64(len(els)) {
			return listCell(nil), ""
		}
		return listCell(els[start:min(start+n, int64(len(els)))]), ""
	})}, true), nil
}

func bindMapPart(keys bool) func(*binder, *Call, []node) (node, error) {
	return func(bd *binder, e *Call, args []node) (node, error) {
		if err := needs(e, 0, args[0], "a map", arrow.MAP); err != nil {
			return nil, err
		}
		t := args[0].typ().(*arrow.MapType)
		el := t.ItemType()
		if keys {
			el = t.KeyType()
		}
		return bd.function(&funcNode{dt: listOf(el), args: args, src: e, fresh: always(func(a []cell) (cell, string) {
			k, v := a[0].entries()
			if keys {
				return listCell(k), ""
			}
			return listCell(v), ""
		})}, false), nil
	}
}

func bindMapContains(bd *binder, e *Call, args []node) (node, error) {
	if err := needs(e, 0, args[0], "a map", arrow.MAP); err != nil {
		return nil, err
	}
	keys, err := bd.bind(&Call{At: e.At, Func: "map_keys", Args: e.Args[:1]})
	if err != nil {
		return nil, err
	}
	args[0] = keys
	return bindArrayFind(func(at int, _ bool) cell { return boolCell(at > 0) }, typeBool)(bd, e, args)
}
