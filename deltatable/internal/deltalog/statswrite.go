package deltalog

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/go-json-experiment/json/jsontext"
)

// statNode appends statistics in text form to the builder of their struct form. What
// has no place there, or is not of the type, becomes NULL, which is "unknown" (I4).
type statNode struct {
	b    array.Builder
	kids []*statNode
	at   map[string]int
	seen []bool
	dec  *jsontext.Decoder // of the root
}

func newStatNode(b array.Builder) *statNode {
	n := &statNode{b: b}
	sb, ok := b.(*array.StructBuilder)
	if !ok {
		return n
	}
	n.at = map[string]int{}
	for i, f := range sb.Type().(*arrow.StructType).Fields() {
		n.at[f.Name] = i
		n.kids = append(n.kids, newStatNode(sb.FieldBuilder(i)))
	}
	n.seen = make([]bool, len(n.kids))
	return n
}

// append appends the statistics of one file. Text that is not a JSON object is NULL.
func (n *statNode) append(stats string) {
	if v := jsontext.Value(stats); stats == "" || !v.IsValid() || v.Kind() != '{' {
		n.b.AppendNull()
		return
	}
	if n.dec == nil {
		n.dec = jsontext.NewDecoder(strings.NewReader(stats))
	} else {
		n.dec.Reset(strings.NewReader(stats))
	}
	n.value(n.dec)
}

// value appends the next value. NB: the text was found valid, so that the decoder
// does not fail; should it all the same, fields not seen become NULL.
func (n *statNode) value(dec *jsontext.Decoder) {
	if n.kids == nil {
		n.leaf(dec)
		return
	}
	if dec.PeekKind() != '{' {
		_ = dec.SkipValue() // valid, as above
		n.b.AppendNull()
		return
	}
	n.b.(*array.StructBuilder).Append(true)
	clear(n.seen)
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != '}' {
		var name jsontext.Token
		if name, err = dec.ReadToken(); err != nil {
			break
		}
		i, ok := n.at[name.String()]
		if !ok || n.seen[i] {
			err = dec.SkipValue()
			continue
		}
		n.seen[i] = true
		n.kids[i].value(dec)
	}
	if err == nil {
		_, _ = dec.ReadToken() // the closing brace
	}
	for i, seen := range n.seen {
		if !seen {
			n.kids[i].b.AppendNull()
		}
	}
}

func (n *statNode) leaf(dec *jsontext.Decoder) {
	kind := dec.PeekKind()
	if kind != '"' && kind != '0' && kind != 't' && kind != 'f' {
		_ = dec.SkipValue() // valid, as above
		n.b.AppendNull()
		return
	}
	tok, err := dec.ReadToken()
	if err != nil {
		n.b.AppendNull()
		return
	}
	if b, ok := n.b.(*array.BooleanBuilder); ok {
		if kind == 't' || kind == 'f' {
			b.Append(kind == 't')
		} else {
			b.AppendNull()
		}
		return
	}
	_, text := n.b.(*array.StringBuilder)
	if kind == 't' || kind == 'f' || text && kind != '"' || !appendTyped(n.b, tok.String()) {
		n.b.AppendNull()
	}
}
