package changefile

import (
	"errors"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/go-json-experiment/json/jsontext"
)

// object reads JSON objects into columns by name: the row itself and structs.
type object struct {
	column string // of the struct; empty for the row
	kids   []field
	names  []string
	plain  []bool // the name stands for itself between quotes
	exact  map[string]int
	folded map[string]int

	turn int    // counts objects, so that seen need not be cleared
	seen []seen // by kid
}

type seen struct {
	turn int
	at   int // where its name starts in the line
}

func newObject(fields []arrow.Field, column string, build func(int) array.Builder, t *timeReader) (*object, error) {
	o := &object{column: column, exact: map[string]int{}, seen: make([]seen, len(fields))}
	var err error
	if o.folded, err = foldNames(fields); err != nil {
		return nil, err
	}
	for i, af := range fields {
		name := af.Name
		if column != "" {
			name = column + "." + af.Name
		}
		kid, err := newField(af, name, build(i), t)
		if err != nil {
			return nil, err
		}
		kid.notNull = column != "" && !af.Nullable
		o.kids = append(o.kids, kid)
		o.names = append(o.names, af.Name)
		o.exact[af.Name] = i
		isPlain := true
		for _, c := range []byte(af.Name) {
			isPlain = isPlain && plain[c]
		}
		o.plain = append(o.plain, isPlain)
	}
	return o, nil
}

// foldNames maps the lower-case names of fields to their places.
func foldNames(fields []arrow.Field) (map[string]int, error) {
	m := make(map[string]int, len(fields))
	for i, f := range fields {
		k := strings.ToLower(f.Name)
		if j, twice := m[k]; twice {
			return nil, errors.New("columns " + fields[j].Name + " and " + f.Name + " differ only in case")
		}
		m[k] = i
	}
	return m, nil
}

// guess tries whether the name at s.p is that of kid i, the usual case.
func (o *object) guess(s *scanner, i int) bool {
	if i >= len(o.names) || !o.plain[i] {
		return false
	}
	n := o.names[i]
	end := s.p + 1 + len(n)
	if end >= len(s.b) || s.b[s.p] != '"' || s.b[end] != '"' || string(s.b[s.p+1:end]) != n {
		return false
	}
	s.p = end + 1
	return true
}

// parse reads the object at s.p. Kids without a member become NULL.
func (o *object) parse(s *scanner) error {
	o.turn++
	s.p++
	s.space()
	met := 0
	if s.peek() == '}' {
		s.p++
	} else {
		var err error
		if met, err = o.members(s); err != nil {
			return err
		}
	}
	if met == len(o.kids) {
		return nil
	}
	for i := range o.kids {
		if o.seen[i].turn == o.turn {
			continue
		}
		if o.kids[i].notNull {
			return s.fail(o.kids[i].column, nil, "it is declared not null and is missing")
		}
		o.kids[i].null()
	}
	return nil
}

func (o *object) members(s *scanner) (met int, err error) {
	var others map[string]bool // unknown names
	next := 0
	for {
		at := s.p
		i := next
		if !o.guess(s, next) {
			if i, err = o.lookup(s, &others); err != nil {
				return met, err
			}
		}
		if i >= 0 {
			if o.seen[i].turn == o.turn {
				return met, o.twice(s, i, at)
			}
			o.seen[i] = seen{o.turn, at}
			met++
			next = i + 1
		}
		s.space()
		if s.peek() != ':' {
			return met, s.malformed(o.column, "where a colon was expected")
		}
		s.p++
		s.space()
		if i >= 0 {
			err = o.kids[i].parse(s)
		} else {
			err = s.skip("")
		}
		if err != nil {
			return met, err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.p++
			s.space()
		case '}':
			s.p++
			return met, nil
		default:
			return met, s.malformed(o.column, "where a comma or the end of the object was expected")
		}
	}
}

// lookup reads the name at s.p and finds its kid; -1: unknown but allowed.
func (o *object) lookup(s *scanner, others *map[string]bool) (int, error) {
	if s.peek() != '"' {
		return 0, s.malformed(o.column, "where a name was expected")
	}
	at := s.p
	name, err := s.str(o.column)
	if err != nil {
		return 0, err
	}
	if i, ok := o.exact[string(name)]; ok {
		return i, nil
	}
	if i, ok := o.folded[strings.ToLower(string(name))]; ok {
		return i, nil
	}
	if !s.allowUnknown {
		return 0, s.fail(o.column, s.b[at:s.p], "unknown field")
	}
	if (*others)[string(name)] {
		return 0, s.fail(o.column, s.b[at:s.p], "the name stands twice in one object")
	}
	if *others == nil {
		*others = map[string]bool{}
	}
	(*others)[string(name)] = true
	return -1, nil
}

// twice makes the error for the second name, at, that matches kid i.
func (o *object) twice(s *scanner, i, at int) error {
	second := s.b[at:s.p]
	s.p = o.seen[i].at
	first, err := s.str(o.column)
	if err != nil {
		return err
	}
	firstText := string(first)
	s.p = at
	if again, err := s.str(o.column); err != nil {
		return err
	} else if string(again) == firstText {
		return s.fail(o.kids[i].column, second, "the name stands twice in one object")
	}
	return s.fail(o.kids[i].column, second, "it names the same column as %q", firstText)
}

type structNode struct {
	*object
	b *array.StructBuilder
}

func newStructNode(b *array.StructBuilder, column string, t *timeReader) (node, error) {
	o, err := newObject(b.Type().(*arrow.StructType).Fields(), column, b.FieldBuilder, t)
	return &structNode{o, b}, err
}

func (n *structNode) null() { n.b.AppendNull() } // its children get NULLs too
func (n *structNode) parse(s *scanner) error {
	if s.peek() != '{' {
		return s.mistyped(n.column, "a struct takes a JSON object")
	}
	n.b.Append(true)
	return n.object.parse(s)
}

type listNode struct {
	b       *array.ListBuilder
	column  string
	element field
}

func newListNode(dt *arrow.ListType, column string, b *array.ListBuilder, t *timeReader) (node, error) {
	e, err := newField(dt.ElemField(), column+".element", b.ValueBuilder(), t)
	e.notNull = !dt.ElemField().Nullable
	return &listNode{b, column, e}, err
}

func (n *listNode) null() { n.b.AppendNull() }
func (n *listNode) parse(s *scanner) error {
	if s.peek() != '[' {
		return s.mistyped(n.column, "an array takes a JSON array")
	}
	n.b.Append(true)
	return s.elements(n.column, func() error { return n.element.parse(s) })
}

// elements reads the array at s.p, each element by read.
func (s *scanner) elements(column string, read func() error) error {
	s.p++
	s.space()
	if s.peek() == ']' {
		s.p++
		return nil
	}
	for {
		if err := read(); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.p++
			s.space()
		case ']':
			s.p++
			return nil
		default:
			return s.malformed(column, "where a comma or the end of the array was expected")
		}
	}
}

type mapNode struct {
	b          *array.MapBuilder
	column     string
	key, value field
}

const mapWant = `a map takes {"$map":[[key,value],…]}`

func newMapNode(dt *arrow.MapType, column string, b *array.MapBuilder, t *timeReader) (node, error) {
	k, err := newField(dt.KeyField(), column+".key", b.KeyBuilder(), t)
	if err != nil {
		return nil, err
	}
	k.notNull = true
	v, err := newField(dt.ItemField(), column+".value", b.ItemBuilder(), t)
	v.notNull = !dt.ItemField().Nullable
	return &mapNode{b, column, k, v}, err
}

func (n *mapNode) null() { n.b.AppendNull() }
func (n *mapNode) parse(s *scanner) error {
	start := s.p
	if s.peek() != '{' {
		return s.mistyped(n.column, mapWant)
	}
	wrong := func() error {
		s.p = start
		return s.mistyped(n.column, mapWant)
	}
	s.p++
	s.space()
	if s.peek() != '"' {
		return wrong()
	}
	if name, err := s.str(n.column); err != nil {
		return err
	} else if string(name) != "$map" {
		return wrong()
	}
	s.space()
	if s.peek() != ':' {
		return wrong()
	}
	s.p++
	s.space()
	if s.peek() != '[' {
		return wrong()
	}
	n.b.Append(true)
	entries := 0
	err := s.elements(n.column, func() error { entries++; return n.entry(s) })
	if err != nil {
		return err
	}
	if entries > 1 {
		s.maps++ // keys are compared when the batch is whole, see checkMapKeys
	}
	s.space()
	if s.peek() != '}' {
		return wrong()
	}
	s.p++
	return nil
}

// entry reads one [key,value].
func (n *mapNode) entry(s *scanner) error {
	start := s.p
	if s.peek() != '[' {
		return s.mistyped(n.column, mapWant)
	}
	s.p++
	s.space()
	if s.peek() == ']' {
		return s.fail(n.column, s.b[start:s.p+1], mapWant)
	}
	if err := n.key.parse(s); err != nil {
		return err
	}
	s.space()
	if s.peek() != ',' {
		s.p = start
		return s.mistyped(n.column, mapWant)
	}
	s.p++
	s.space()
	if err := n.value.parse(s); err != nil {
		return err
	}
	s.space()
	if s.peek() != ']' {
		s.p = start
		return s.mistyped(n.column, mapWant)
	}
	s.p++
	return nil
}

// plainSyntaxError is what jsontext found wrong, without its prefix and offset.
func plainSyntaxError(err error) string {
	var se *jsontext.SyntacticError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the line ends inside a value"
	}
	if errors.As(err, &se) && se.Err != nil {
		if errors.Is(se.Err, jsontext.ErrDuplicateName) {
			return "the name " + se.JSONPointer.LastToken() + " stands twice in one object"
		}
		return strings.TrimPrefix(se.Err.Error(), "jsontext: ")
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}
