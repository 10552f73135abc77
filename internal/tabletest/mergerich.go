package tabletest

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Rich cases have doubles, nested columns, regular expressions and * EXCEPT as
// well. Two seeds in five make one; what the others make does not depend on what
// rich cases hold, so that kept seeds stay what they are.
func isRich(seed uint64) bool { return seed%5 == 2 || seed%5 == 3 }

// The nested types of rich cases; each kind has one.
var (
	mergeStruct = arrow.StructOf(
		arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true},
	)
	mergeList = arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int32, Nullable: true})
	mergeMap  = arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)

	richTypes = []arrow.DataType{arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float64, mergeStruct, mergeList, mergeMap}
	mapKeys   = []string{"k", "j", ""}
)

func isNested(t arrow.DataType) bool { return arrow.IsNested(t.ID()) }

func isDouble(t arrow.DataType) bool { return t.ID() == arrow.FLOAT64 }

func isText(t arrow.DataType) bool { return t.ID() == arrow.STRING }

func sameAs(t arrow.DataType) func(arrow.DataType) bool {
	return func(o arrow.DataType) bool { return arrow.TypeEqual(o, t) }
}

// canPartition says whether a column of the type may be a partition column here.
func (g *mergeGen) canPartition(t arrow.DataType) bool {
	return !isNested(t) && !isDouble(t) && (t.ID() != arrow.DECIMAL128 || !g.p.NoDecimalParts)
}

// richValue is a double or a nested value.
func (g *mergeGen) richValue(t arrow.DataType) Value {
	switch t.ID() {
	case arrow.FLOAT64:
		plain := []float64{0, 1, 1.5, -2.25, 2, 3, 1e10, 0.1}
		odd := []float64{math.NaN(), math.Copysign(0, -1), math.Inf(1), math.Inf(-1)}
		if g.chance(65) {
			return oneOf(g, plain...)
		}
		return oneOf(g, odd...)
	case arrow.STRUCT:
		return Struct{g.value(arrow.PrimitiveTypes.Int32, 20), g.value(arrow.BinaryTypes.String, 20)}
	case arrow.LIST:
		out := List{}
		for range g.r.IntN(4) {
			out = append(out, g.value(arrow.PrimitiveTypes.Int32, 15))
		}
		return out
	case arrow.MAP:
		out := Map{}
		for _, k := range mapKeys {
			if g.chance(45) {
				out = append(out, [2]Value{k, g.value(arrow.PrimitiveTypes.Int32, 15)})
			}
		}
		return out
	}
	return nil
}

// doubleLiteral is a double as every engine reads it.
func doubleLiteral(v float64) string {
	switch {
	case math.IsNaN(v):
		return "CAST('NaN' AS DOUBLE)"
	case math.IsInf(v, 0):
		return "CAST('" + map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0] + "' AS DOUBLE)"
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return "CAST('" + text + "' AS DOUBLE)"
}

// richLiteral is a nested value that is put together, or a typed NULL.
func (g *mergeGen) richLiteral(sc scope, t arrow.DataType, nulls int) string {
	if g.p.NoNestedCalls {
		return "NULL" // their types have other names elsewhere
	}
	if g.chance(nulls) {
		return "CAST(NULL AS " + SQLType(t) + ")"
	}
	integer := func() string { return g.expr(sc, arrow.PrimitiveTypes.Int32, 1, 15) }
	switch t.ID() {
	case arrow.STRUCT:
		return "named_struct('a', " + integer() + ", 'b', " + g.expr(sc, arrow.BinaryTypes.String, 1, 15) + ")"
	case arrow.LIST:
		return "array(" + integer() + oneOf(g, "", ", "+integer()) + ")"
	}
	return "map('" + oneOf(g, mapKeys...) + "', " + integer() + ")"
}

// richExpr is a double or a nested value that is computed; "" where the generator
// has no more to say than for other types.
func (g *mergeGen) richExpr(sc scope, t arrow.DataType, sub func() string) string {
	switch {
	case isNested(t):
		return g.richLiteral(sc, t, 10)
	case !isDouble(t):
		return ""
	}
	switch g.r.IntN(5) {
	case 0:
		if n := g.column(sc, isMergeInt); n != "" {
			return "CAST(" + n + " AS DOUBLE)"
		}
	case 1:
		if s := g.column(sc, isText); s != "" && !g.p.NoFunctions && !g.bare() {
			return "TRY_CAST(" + s + " AS DOUBLE)"
		}
	case 2:
		return sub() + " / CAST('4.0' AS DOUBLE)"
	}
	return "(" + sub() + oneOf(g, " + ", " - ", " * ") + sub() + ")"
}

// part is an int or a text out of a nested column; "" where the scope has none.
func (g *mergeGen) part(sc scope, t arrow.DataType) string {
	if g.p.NoNestedCalls {
		return ""
	}
	field := "a"
	if isText(t) {
		field = "b"
	}
	if c := g.column(sc, sameAs(mergeStruct)); c != "" && (isText(t) || g.chance(40)) {
		if !g.p.SameCase && g.chance(15) {
			field = strings.ToUpper(field)
		}
		return c + "." + field
	}
	if isText(t) || t.ID() != arrow.INT32 {
		return ""
	}
	if c := g.column(sc, sameAs(mergeMap)); c != "" && g.chance(50) {
		return c + "['" + oneOf(g, mapKeys...) + "']"
	}
	c := g.column(sc, sameAs(mergeList))
	switch {
	case c == "":
		return ""
	case g.fallible && !g.p.NoErrors && g.chance(15):
		return c + "[" + oneOf(g, "0", "1") + "]"
	}
	return oneOf(g, "get("+c+", 0)", "get("+c+", 2)", "size("+c+")")
}

// richPredicate is a condition of its own kind; "" if the scope has nothing for it.
func (g *mergeGen) richPredicate(sc scope) string {
	switch g.r.IntN(6) {
	case 0, 1:
		c := g.column(sc, isText)
		if c == "" {
			return ""
		}
		pattern := oneOf(g, "'^a'", "'b$'", "'[ab]+'", "'a.b'", "'^$'", "'^(a|x)'", "'[0-9]'", "'.'", "'zz|7'")
		if g.p.NoRlike {
			return oneOf(g, "", "NOT ") + "regexp_like(" + c + ", " + pattern + ")"
		}
		return c + oneOf(g, " RLIKE ", " NOT RLIKE ", " REGEXP ") + pattern
	case 2:
		if c := g.column(sc, sameAs(mergeList)); c != "" && !g.p.NoNestedCalls {
			return "array_contains(" + c + ", " + g.expr(sc, arrow.PrimitiveTypes.Int32, 1, 10) + ")"
		}
	default:
		t := oneOf[arrow.DataType](g, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
		if p := g.part(sc, t); p != "" {
			return "(" + p + ") " + oneOf(g, "=", "<>", "<", ">=") + " " + g.operand(sc, t, 1)
		}
	}
	return ""
}

// nestedPredicate is a condition on a nested column.
func (g *mergeGen) nestedPredicate(sc scope, t arrow.DataType) string {
	c := g.column(sc, sameAs(t))
	if t.ID() == arrow.MAP || g.chance(35) {
		return c + oneOf(g, " IS NULL", " IS NOT NULL")
	}
	ops := []string{"=", "<>", "<", "<=", ">", ">="}
	if !g.p.NoNullSafe {
		ops = append(ops, "<=>")
	}
	other := g.column(sc, sameAs(t))
	if g.chance(40) {
		other = g.richLiteral(sc, t, 5)
	}
	return c + " " + oneOf(g, ops...) + " " + other
}

// exceptions makes a SET * or INSERT * that leaves columns out: those that the
// source lacks, and maybe more. It reports whether it did.
func (g *mergeGen) exceptions(w *MergeClause) bool {
	var out []string
	for _, f := range g.c.Target.Fields() {
		has := slices.ContainsFunc(g.c.Source.Fields(), func(s arrow.Field) bool { return strings.EqualFold(s.Name, f.Name) })
		if !has || g.chance(20) {
			out = append(out, f.Name)
		}
	}
	if len(out) == 0 || len(out) == g.c.Target.NumFields() {
		return false
	}
	w.All, w.Except = true, out
	return true
}

// Plain is the case without * EXCEPT, which Spark does not have: the statement
// says column by column what the short form means.
func (c *MergeCase) Plain() *MergeCase {
	out := *c
	out.Clauses = slices.Clone(c.Clauses)
	for i, w := range out.Clauses {
		if !w.All || len(w.Except) == 0 {
			continue
		}
		w.All, w.Except = false, nil
		for _, f := range c.Target.Fields() {
			if !slices.Contains(c.Clauses[i].Except, f.Name) {
				w.Set = append(w.Set, [2]string{f.Name, "s." + Quoted(f.Name)})
			}
		}
		out.Clauses[i] = w
	}
	return &out
}
