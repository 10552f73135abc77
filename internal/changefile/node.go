package changefile

import (
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// node reads the values of one column, or of one nested field, onto its builder.
type node interface {
	// parse reads the value at s.p, which is not null.
	parse(s *scanner) error
	// null appends a NULL.
	null()
}

// field is a node with its place in the schema.
type field struct {
	node
	column  string // for messages: a.b.element
	notNull bool   // nested only: null is refused
}

// parse reads the value at s.p or null.
func (f *field) parse(s *scanner) error {
	if s.peek() != 'n' {
		return f.node.parse(s)
	}
	if err := s.literal(f.column, "null"); err != nil {
		return err
	}
	if f.notNull {
		return s.fail(f.column, []byte("null"), "it is declared not null")
	}
	f.null()
	return nil
}

// newField compiles the reader of one column. bld must be a builder of af.Type.
func newField(af arrow.Field, column string, bld array.Builder, t *timeReader) (field, error) {
	f := field{column: column}
	var err error
	switch b := bld.(type) {
	case *array.BooleanBuilder:
		f.node = &boolNode{b, column}
	case *array.Int8Builder:
		f.node = &intNode{column: column, bits: 8, add: func(v int64) { b.Append(int8(v)) }, b: b}
	case *array.Int16Builder:
		f.node = &intNode{column: column, bits: 16, add: func(v int64) { b.Append(int16(v)) }, b: b}
	case *array.Int32Builder:
		f.node = &intNode{column: column, bits: 32, add: func(v int64) { b.Append(int32(v)) }, b: b}
	case *array.Int64Builder:
		f.node = &intNode{column: column, bits: 64, add: b.Append, b: b}
	case *array.Float32Builder:
		f.node = &floatNode{column: column, bits: 32, add: func(v float64) { b.Append(float32(v)) }, b: b}
	case *array.Float64Builder:
		f.node = &floatNode{column: column, bits: 64, add: b.Append, b: b}
	case *array.Decimal128Builder:
		dt := af.Type.(*arrow.Decimal128Type)
		f.node = &decimalNode{b, column, dt.Precision, dt.Scale}
	case *array.StringBuilder:
		f.node = &stringNode{b, column}
	case *array.BinaryBuilder:
		f.node = &binaryNode{b, column}
	case *array.Date32Builder:
		f.node = &dateNode{b, column}
	case *array.TimestampBuilder:
		f.node = &timeNode{b, column, af.Type.(*arrow.TimestampType).TimeZone != "", t}
	case *array.NullBuilder:
		f.node = &voidNode{b, column}
	case *array.StructBuilder:
		f.node, err = newStructNode(b, column, t)
	case *array.MapBuilder:
		f.node, err = newMapNode(af.Type.(*arrow.MapType), column, b, t)
	case *array.ListBuilder:
		f.node, err = newListNode(af.Type.(*arrow.ListType), column, b, t)
	default:
		err = fmt.Errorf("column %s: %s is no canonical type", column, af.Type)
	}
	return f, err
}

type boolNode struct {
	b      *array.BooleanBuilder
	column string
}

func (n *boolNode) null() { n.b.AppendNull() }
func (n *boolNode) parse(s *scanner) error {
	switch s.peek() {
	case 't':
		if err := s.literal(n.column, "true"); err != nil {
			return err
		}
		n.b.Append(true)
	case 'f':
		if err := s.literal(n.column, "false"); err != nil {
			return err
		}
		n.b.Append(false)
	default:
		return s.mistyped(n.column, "a boolean takes true or false")
	}
	return nil
}

type voidNode struct {
	b      *array.NullBuilder
	column string
}

func (n *voidNode) null() { n.b.AppendNull() }
func (n *voidNode) parse(s *scanner) error {
	return s.mistyped(n.column, "a void column takes only null")
}

type intNode struct {
	column string
	bits   uint
	add    func(int64)
	b      array.Builder
}

func (n *intNode) null() { n.b.AppendNull() }

func (n *intNode) parse(s *scanner) error {
	start, p, b := s.p, s.p, s.b
	neg := p < len(b) && b[p] == '-'
	if neg {
		p++
	}
	first := p
	var v uint64
	over := false
	for ; p < len(b) && b[p]-'0' <= 9; p++ {
		over = over || v > math.MaxUint64/10-1
		v = v*10 + uint64(b[p]-'0')
	}
	switch {
	case p == first:
		return s.mistyped(n.column, fmt.Sprintf("%s takes a JSON integer", intName(n.bits)))
	case b[first] == '0' && p > first+1, p < len(b) && (b[p] == '.' || b[p]|0x20 == 'e'):
		tok, err := s.number(n.column)
		if err != nil {
			return err
		}
		return s.fail(n.column, tok, "%s takes an integer without fraction or exponent", intName(n.bits))
	}
	limit := uint64(1)<<(n.bits-1) - 1
	if neg {
		limit++
	}
	if over || v > limit {
		return s.fail(n.column, b[start:p], "it does not fit %s (%d to %d)", intName(n.bits), int64(-1)<<(n.bits-1), int64(1)<<(n.bits-1)-1)
	}
	s.p = p
	if neg {
		n.add(-int64(v))
	} else {
		n.add(int64(v))
	}
	return nil
}

func intName(bits uint) string {
	switch bits {
	case 8:
		return "a byte"
	case 16:
		return "a short"
	case 32:
		return "an integer"
	default:
		return "a long"
	}
}

type floatNode struct {
	column string
	bits   int
	add    func(float64)
	b      array.Builder
}

func (n *floatNode) null() { n.b.AppendNull() }

func (n *floatNode) name() string {
	if n.bits == 32 {
		return "a float"
	}
	return "a double"
}

func (n *floatNode) parse(s *scanner) error {
	c := s.peek()
	if c == '"' {
		start := s.p
		t, err := s.str(n.column)
		if err != nil {
			return err
		}
		switch string(t) {
		case "NaN":
			n.add(math.NaN())
		case "Infinity":
			n.add(math.Inf(1))
		case "-Infinity":
			n.add(math.Inf(-1))
		default:
			return s.fail(n.column, s.b[start:s.p], `%s takes a JSON number, "NaN", "Infinity" or "-Infinity"`, n.name())
		}
		return nil
	}
	if c != '-' && c-'0' > 9 {
		return s.mistyped(n.column, n.name()+" takes a JSON number")
	}
	tok, err := s.number(n.column)
	if err != nil {
		return err
	}
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(tok), len(tok)), n.bits)
	if err != nil { // the grammar was checked: only the range is left
		return s.fail(n.column, tok, "it does not fit %s", n.name())
	}
	n.add(v)
	return nil
}

type decimalNode struct {
	b                *array.Decimal128Builder
	column           string
	precision, scale int32
}

func (n *decimalNode) null() { n.b.AppendNull() }
func (n *decimalNode) parse(s *scanner) error {
	var tok []byte
	var err error
	start := s.p
	switch c := s.peek(); {
	case c == '"':
		if tok, err = s.str(n.column); err != nil {
			return err
		}
		if end, ok := numberEnd(tok, 0); !ok || end != len(tok) {
			return s.fail(n.column, s.b[start:s.p], "decimal(%d,%d) takes a number", n.precision, n.scale)
		}
	case c == '-' || c-'0' <= 9:
		if tok, err = s.number(n.column); err != nil {
			return err
		}
	default:
		return s.mistyped(n.column, fmt.Sprintf("decimal(%d,%d) takes a JSON number or a string that holds one", n.precision, n.scale))
	}
	hi, lo, fault := parseDecimal(tok, n.precision, n.scale)
	if fault != "" {
		return s.fail(n.column, s.b[start:s.p], "%s decimal(%d,%d)", fault, n.precision, n.scale)
	}
	n.b.Append(decimal128.New(hi, lo))
	return nil
}

type stringNode struct {
	b      *array.StringBuilder
	column string
}

func (n *stringNode) null() { n.b.AppendNull() }
func (n *stringNode) parse(s *scanner) error {
	if s.peek() != '"' {
		return s.mistyped(n.column, "a string takes a JSON string")
	}
	t, err := s.str(n.column)
	if err != nil {
		return err
	}
	n.b.BinaryBuilder.Append(t)
	return nil
}

type binaryNode struct {
	b      *array.BinaryBuilder
	column string
}

func (n *binaryNode) null() { n.b.AppendNull() }
func (n *binaryNode) parse(s *scanner) error {
	const want = "a binary takes a string of lower-case hexadecimal digits, two for each byte"
	if s.peek() != '"' {
		return s.mistyped(n.column, want)
	}
	start := s.p
	t, err := s.str(n.column)
	if err != nil {
		return err
	}
	ok := len(t)%2 == 0
	s.text = s.text[:0] // t may lie here: bytes are written behind those already read
	out := s.text
	for i := 0; ok && i+1 < len(t); i += 2 {
		h, l := hexDigit(t[i]), hexDigit(t[i+1])
		ok = h < 16 && l < 16
		out = append(out, h<<4|l)
	}
	if !ok {
		return s.fail(n.column, s.b[start:s.p], want)
	}
	s.text = out
	n.b.Append(out)
	return nil
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	default:
		return 255
	}
}

type dateNode struct {
	b      *array.Date32Builder
	column string
}

func (n *dateNode) null() { n.b.AppendNull() }
func (n *dateNode) parse(s *scanner) error {
	if s.peek() != '"' {
		return s.mistyped(n.column, "a date takes a string YYYY-MM-DD")
	}
	start := s.p
	t, err := s.str(n.column)
	if err != nil {
		return err
	}
	days, rest, fault := parseDate(t)
	switch {
	case fault != "":
	case len(rest) > 0:
		fault = "a date takes a string YYYY-MM-DD"
	case days < math.MinInt32 || days > math.MaxInt32:
		fault = "the date is out of range"
	}
	if fault != "" {
		return s.fail(n.column, s.b[start:s.p], "%s", fault)
	}
	n.b.Append(arrow.Date32(days))
	return nil
}

type timeNode struct {
	b      *array.TimestampBuilder
	column string
	utc    bool // timestamp; otherwise timestamp_ntz
	t      *timeReader
}

func (n *timeNode) null() { n.b.AppendNull() }
func (n *timeNode) parse(s *scanner) error {
	if s.peek() != '"' {
		return s.mistyped(n.column, timeWant(n.utc))
	}
	start := s.p
	t, err := s.str(n.column)
	if err != nil {
		return err
	}
	us, fault := n.t.parse(t, n.utc)
	if fault != "" {
		return s.fail(n.column, s.b[start:s.p], "%s", fault)
	}
	n.b.Append(arrow.Timestamp(us))
	return nil
}
