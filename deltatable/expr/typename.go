package expr

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

var typeWords = map[string]arrow.DataType{
	"boolean": typeBool, "bool": typeBool, "tinyint": arrow.PrimitiveTypes.Int8, "byte": arrow.PrimitiveTypes.Int8,
	"smallint": arrow.PrimitiveTypes.Int16, "short": arrow.PrimitiveTypes.Int16, "int": typeInt, "integer": typeInt,
	"bigint": typeBigint, "long": typeBigint, "float": arrow.PrimitiveTypes.Float32, "real": arrow.PrimitiveTypes.Float32,
	"double": typeDouble, "string": typeString, "binary": typeBinary, "date": typeDate,
	"timestamp": tsUTC, "timestamp_ltz": tsUTC, "timestamp_ntz": tsNTZ,
}

// typeParser reads the type of a cast.
type typeParser struct {
	p     parser
	depth int
}

// parseType gives the type that a cast names; msg says what is wrong with it.
func parseType(text string) (arrow.DataType, string) {
	toks, err := lex(strings.ReplaceAll(text, ">", " > ")) // never >>
	if err != nil {
		return nil, "no type"
	}
	tp := &typeParser{p: parser{toks: toks}}
	t, msg := tp.typ()
	if msg == "" && tp.p.peek().kind != tokEnd {
		msg = "no type"
	}
	return t, msg
}

func (tp *typeParser) typ() (arrow.DataType, string) {
	const deepest = 30
	if tp.depth++; tp.depth > deepest {
		return nil, "the type is nested too deeply"
	}
	defer func() { tp.depth-- }()
	word := strings.ToLower(tp.p.take().text)
	if t, ok := typeWords[word]; ok {
		return t, ""
	}
	switch word {
	case "decimal", "dec", "numeric":
		return tp.decimal()
	case "array", "map", "struct":
		if !tp.p.op("<") {
			return nil, word + " needs its parts in < >"
		}
		return tp.nested(word)
	}
	return nil, fmt.Sprintf("the type %s is not supported", quoteText(word))
}

func (tp *typeParser) decimal() (arrow.DataType, string) {
	if !tp.p.op("(") {
		return &arrow.Decimal128Type{Precision: 10}, ""
	}
	p, err := strconv.Atoi(tp.p.take().text)
	s := 0
	if err == nil && tp.p.op(",") {
		s, err = strconv.Atoi(tp.p.take().text)
	}
	if err != nil || !tp.p.op(")") || p < 1 || p > maxPrecision || s < 0 || s > p {
		return nil, "a decimal has 1 to 38 digits, of which none, some or all are a fraction"
	}
	return &arrow.Decimal128Type{Precision: int32(p), Scale: int32(s)}, ""
}

func (tp *typeParser) nested(word string) (arrow.DataType, string) {
	var parts []arrow.Field
	for {
		f := arrow.Field{Nullable: true}
		if word == "struct" {
			f.Name = tp.p.take().text
			tp.p.op(":")
		}
		var msg string
		if f.Type, msg = tp.typ(); msg != "" {
			return nil, msg
		}
		parts = append(parts, f)
		if !tp.p.op(",") {
			break
		}
	}
	switch {
	case !tp.p.op(">"):
	case word == "struct":
		return arrow.StructOf(parts...), ""
	case word == "array" && len(parts) == 1:
		return listOf(parts[0].Type), ""
	case word == "map" && len(parts) == 2:
		return arrow.MapOf(parts[0].Type, parts[1].Type), ""
	}
	return nil, "the type " + word + " is not written so"
}

// castExpr binds CAST, TRY_CAST and ::.
func (bd *binder) castExpr(e *Cast) (node, error) {
	x, err := bd.bind(e.X)
	if err != nil {
		return nil, err
	}
	to, msg := parseType(e.Type)
	if msg != "" {
		return nil, &BindError{At: e.At, Text: e.String(), Msg: msg}
	}
	return bd.cast(x, to, e, e.Try)
}
