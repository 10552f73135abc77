package tabletest

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// scope is the columns that an expression may read.
type scope struct {
	columns []scoped
}

type scoped struct {
	side, name string
	typ        arrow.DataType
	bare       bool // the other visible side has no such name
}

// scope is made of the sides t, s or ts, where visible ones are these as well.
func (g *mergeGen) scope(sides, visible string) scope {
	var out scope
	schemas := map[string]*arrow.Schema{"t": g.c.Target, "s": g.c.Source}
	for _, side := range strings.Split(sides, "") {
		for _, f := range schemas[side].Fields() {
			bare := true
			for _, other := range strings.Split(visible, "") {
				for _, o := range schemas[other].Fields() {
					bare = bare && (other == side || !strings.EqualFold(o.Name, f.Name))
				}
			}
			out.columns = append(out.columns, scoped{side: side, name: f.Name, typ: f.Type, bare: bare})
		}
	}
	return out
}

// ref is a column as SQL.
func (g *mergeGen) ref(c scoped) string {
	name := c.name
	if g.chance(10) {
		name = g.recased(name)
	}
	if (c.bare && g.chance(20) || g.chance(1)) && !g.p.NoBare {
		return Quoted(name)
	}
	side := c.side
	if !g.p.SameCase && g.chance(5) {
		side = strings.ToUpper(side)
	}
	return side + "." + Quoted(name)
}

// column is some column whose type satisfies ok; "" if there is none.
func (g *mergeGen) column(sc scope, ok func(arrow.DataType) bool) string {
	var fit []scoped
	for _, c := range sc.columns {
		if ok(c.typ) {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	return g.ref(fit[g.r.IntN(len(fit))])
}

func isMergeInt(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		return true
	}
	return false
}

// literal is a value as SQL.
func (g *mergeGen) literal(t arrow.DataType, nulls int) string {
	v := g.value(t, nulls)
	if v == nil {
		return "NULL"
	}
	switch t := t.(type) {
	case *arrow.StringType:
		return "'" + v.(string) + "'"
	case *arrow.Decimal128Type:
		return decimal128.Num(v.(Decimal)).ToString(t.Scale)
	case *arrow.Date32Type:
		return "DATE '" + time.Unix(int64(v.(Date))*86400, 0).UTC().Format("2006-01-02") + "'"
	case *arrow.TimestampType:
		return "TIMESTAMP '" + time.UnixMicro(int64(v.(Time))).UTC().Format("2006-01-02 15:04:05.000000") + "Z'"
	case *arrow.Float64Type:
		return doubleLiteral(v.(float64))
	}
	if v == Value(int64(-9223372036854775808)) {
		return "-9223372036854775807"
	}
	return fmt.Sprint(v)
}

// predicate is a condition over a scope.
func (g *mergeGen) predicate(sc scope, depth int) string {
	if depth > 0 && g.chance(45) {
		kinds := 6
		if g.p.Simple {
			kinds = 5
		}
		switch g.r.IntN(kinds) {
		case 0:
			return "NOT (" + g.predicate(sc, depth-1) + ")"
		case 1, 2:
			return "(" + g.predicate(sc, depth-1) + " AND " + g.predicate(sc, depth-1) + ")"
		case 3, 4:
			return "(" + g.predicate(sc, depth-1) + " OR " + g.predicate(sc, depth-1) + ")"
		default:
			return "CASE WHEN " + g.predicate(sc, depth-1) + " THEN " + g.predicate(sc, depth-1) +
				oneOf(g, " END", " ELSE "+g.predicate(sc, depth-1)+" END", " ELSE NULL END", " ELSE TRUE END")
		}
	}
	if g.c.rich && g.chance(12) {
		if p := g.richPredicate(sc); p != "" {
			return p
		}
	}
	t := sc.columns[g.r.IntN(len(sc.columns))].typ
	if isNested(t) {
		return g.nestedPredicate(sc, t)
	}
	x := g.operand(sc, t, depth)
	switch g.r.IntN(13) {
	case 0:
		return x + oneOf(g, " IS NULL", " IS NOT NULL")
	case 1:
		return x + oneOf(g, " IN (", " NOT IN (") + g.literal(t, 10) + ", " + g.literal(t, 0) + ", " + g.literal(t, 20) + ")"
	case 2:
		return x + oneOf(g, " BETWEEN ", " NOT BETWEEN ") + g.literal(t, 0) + " AND " + g.literal(t, 5)
	case 3:
		if c := g.column(sc, func(t arrow.DataType) bool { return t.ID() == arrow.STRING }); c != "" {
			return c + oneOf(g, " LIKE ", " NOT LIKE ") + oneOf(g, "'a%'", "'%b'", "'_'", "'a_b'", "'%'", "''", "NULL")
		}
	case 4:
		if c := g.column(sc, func(t arrow.DataType) bool { return t.ID() == arrow.BOOL }); c != "" {
			return c
		}
	case 5:
		if !g.p.NoNullSafe {
			y := g.operand(sc, t, depth)
			return oneOf(g, x+" <=> "+y, "("+x+" IS DISTINCT FROM "+y+")", "("+x+" IS NOT DISTINCT FROM "+y+")")
		}
	case 6:
		if g.chance(25) {
			return oneOf(g, "TRUE", "FALSE", g.nothing(), "1 = 1")
		}
	}
	return x + " " + oneOf(g, "=", "<>", "<", "<=", ">", ">=") + " " + g.operand(sc, t, depth)
}

// operand is a value that is compared with others of its type.
func (g *mergeGen) operand(sc scope, t arrow.DataType, depth int) string {
	return "(" + g.expr(sc, t, min(depth, 1), 0) + ")"
}

// expr is a value of exactly a type, but for the width of integers and the
// digits of decimals.
func (g *mergeGen) expr(sc scope, t arrow.DataType, depth, nulls int) string {
	same := g.column(sc, func(o arrow.DataType) bool { return arrow.TypeEqual(o, t) })
	if depth == 0 || g.chance(50) {
		if same != "" && g.chance(75) {
			return same
		}
		return g.constant(sc, t, nulls)
	}
	if g.c.rich && g.chance(30) {
		if p := g.part(sc, t); p != "" {
			return p
		}
	}
	sub := func() string { return g.expr(sc, t, depth-1, nulls) }
	if g.p.Simple {
		return sub()
	}
	switch g.r.IntN(8) {
	case 0:
		return "CASE WHEN " + g.predicate(sc, depth-1) + " THEN " + sub() + oneOf(g, " END", " ELSE "+sub()+" END")
	case 1:
		return "COALESCE(" + sub() + ", " + sub() + ")"
	case 2:
		if isNested(t) {
			return "COALESCE(" + sub() + ", " + sub() + ")" // NULLIF compares, and maps do not
		}
		if !g.p.NoFunctions && (g.p.NoIf || g.chance(50)) {
			return "NULLIF(" + sub() + ", " + sub() + ")"
		}
		if !g.p.NoFunctions {
			return "IF(" + g.predicate(sc, depth-1) + ", " + sub() + ", " + sub() + ")"
		}
	}
	if e := g.richExpr(sc, t, sub); e != "" {
		return e
	}
	switch {
	case isMergeInt(t):
		return g.integer(sc, t, sub)
	case t.ID() == arrow.DECIMAL128 && (!g.extreme || g.fallible):
		return "CAST(" + sub() + oneOf(g, " + ", " - ") + sub() + " AS DECIMAL(10,2))"
	case t.ID() == arrow.STRING:
		return g.textual(sc, sub)
	}
	return sub()
}

// constant is a value that no column gives, or a nested one of such parts.
func (g *mergeGen) constant(sc scope, t arrow.DataType, nulls int) string {
	if isNested(t) {
		return g.richLiteral(sc, t, nulls)
	}
	return g.typedLiteral(t, nulls)
}

// typedLiteral is a literal that has the type itself where engines guess
// differently.
func (g *mergeGen) typedLiteral(t arrow.DataType, nulls int) string {
	lit := g.literal(t, nulls)
	switch {
	case lit == "NULL":
		return "CAST(NULL AS " + SQLType(t) + ")"
	case isMergeInt(t) && (t.ID() != arrow.INT32 || g.p.TypedLiterals), t.ID() == arrow.DECIMAL128:
		return "CAST(" + lit + " AS " + SQLType(t) + ")"
	}
	return lit
}

// nothing is a condition that is NULL.
func (g *mergeGen) nothing() string {
	if g.p.TypedLiterals {
		return "CAST(NULL AS BOOLEAN)"
	}
	return "NULL"
}

// small is a small number to compute with.
func (g *mergeGen) small(n string) string {
	if g.p.TypedLiterals {
		return "CAST(" + n + " AS INT)"
	}
	return n
}

// SQLType is the name of a type in SQL.
func SQLType(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return "BOOLEAN"
	case *arrow.Int8Type:
		return "TINYINT"
	case *arrow.Int16Type:
		return "SMALLINT"
	case *arrow.Int32Type:
		return "INT"
	case *arrow.Int64Type:
		return "BIGINT"
	case *arrow.StringType:
		return "STRING"
	case *arrow.Date32Type:
		return "DATE"
	case *arrow.TimestampType:
		return "TIMESTAMP"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
	case *arrow.Float64Type:
		return "DOUBLE"
	case *arrow.StructType:
		return "STRUCT<a: INT, b: STRING>"
	case *arrow.ListType:
		return "ARRAY<INT>"
	case *arrow.MapType:
		return "MAP<STRING, INT>"
	}
	panic(fmt.Sprintf("tabletest: no SQL for type %s", t))
}

func (g *mergeGen) integer(sc scope, t arrow.DataType, sub func() string) string {
	risky := g.fallible && !g.p.NoErrors
	switch g.r.IntN(6) {
	case 0:
		if text := g.column(sc, isText); text != "" && !g.p.NoFunctions {
			return g.ofText(text, t, risky)
		}
	case 1:
		if risky && g.chance(30) {
			return sub() + " % " + sub()
		}
		return sub() + " % " + g.small(oneOf(g, "2", "3"))
	case 2:
		if text := g.column(sc, isText); text != "" && !g.p.NoFunctions {
			return g.lengthOf(text)
		}
	case 3:
		if d := g.column(sc, func(o arrow.DataType) bool { return o.ID() == arrow.DECIMAL128 }); d != "" && !g.extreme {
			return "CAST(" + d + " AS " + SQLType(t) + ")"
		}
	}
	if g.extreme && !risky {
		return sub()
	}
	if g.c.rich && risky && g.chance(15) {
		if d := g.column(sc, isDouble); d != "" {
			return "CAST(" + d + " AS " + SQLType(t) + ")"
		}
	}
	return sub() + oneOf(g, " + ", " - ") + oneOf(g, sub(), g.small("1"), g.small("2"))
}

// ofText is a text read as an integer.
func (g *mergeGen) ofText(text string, t arrow.DataType, risky bool) string {
	switch {
	case risky && g.chance(15):
		return "CAST(" + text + " AS " + SQLType(t) + ")"
	case g.bare():
		return "CAST(7 AS " + SQLType(t) + ")"
	}
	return "TRY_CAST(" + text + " AS " + SQLType(t) + ")"
}

func (g *mergeGen) lengthOf(text string) string {
	if g.bare() {
		return "CAST(1 AS INT)"
	}
	return "LENGTH(" + text + ")"
}

func (g *mergeGen) textual(sc scope, sub func() string) string {
	switch g.r.IntN(4) {
	case 0:
		if !g.p.NoFunctions {
			return oneOf(g, "UPPER(", "LOWER(") + sub() + ")"
		}
	case 1:
		if n := g.column(sc, func(o arrow.DataType) bool { return isMergeInt(o) || o.ID() == arrow.DATE32 }); n != "" {
			return "CAST(" + n + " AS STRING)"
		}
	}
	return sub() + " || " + sub()
}
