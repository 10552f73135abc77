package tabletest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// MergeCase is a table, a source and a MERGE statement for them (merge-semantics
// 5), made from a seed.
type MergeCase struct {
	Seed      uint64
	Target    *arrow.Schema
	Partition []string
	// Files are the table's rows, one list a commit.
	Files [][]Row
	// Small says that the table's files are to stay alone, however small.
	Small  bool
	Source *arrow.Schema
	Rows   []Row
	// On and Clauses are the statement, whose sides are t and s.
	On      string
	Clauses []MergeClause

	keys int // of the target's columns, the first are keys
	rich bool
}

// MergeClause is one WHEN clause as SQL text.
type MergeClause struct {
	When   string   // MATCHED, NOT MATCHED, NOT MATCHED BY SOURCE
	Cond   string   // "" for none
	Action string   // UPDATE, DELETE, INSERT
	All    bool     // SET *, INSERT *
	Except []string // columns of the target that All leaves out
	// Set are columns of the target, unquoted, with their values.
	Set [][2]string
}

// MergeProfile is what an engine cannot say or does in its own way, so that a
// generated statement avoids it. The zero profile avoids nothing.
type MergeProfile struct {
	PlainNames   bool // column names are lower-case words
	SameCase     bool // names are written in the case of their column
	ASCIICase    bool // names with other letters than ASCII are written in their case
	SameTypes    bool // source columns have the types of the target's
	NoErrors     bool // no expression fails for a row
	NoNullSafe   bool // no <=>, no IS DISTINCT FROM
	NoTimestamps bool
	NoFunctions  bool // of functions, coalesce alone
	NoIf         bool // no IF()
	NoBare       bool // every name is qualified
	NoDots       bool // no partition column has a dot in its name
	NoOdd        bool // ON has an equality of columns
	Simple       bool // neither CASE nor arithmetic

	PlainKeys      bool // ON's equalities of keys compute nothing
	NoExtremes     bool // no integers at the ends of their range
	NoDecimalParts bool // no partition column is a decimal
	BareConditions bool // no TRY_CAST, no LENGTH in ON and WHEN
	TypedLiterals  bool // an int is written as a CAST, a NULL condition as well
	NoRlike        bool // regexp_like instead of RLIKE
	NoNestedCalls  bool // nested values are only read whole
}

// TargetRows are all rows of the table.
func (c *MergeCase) TargetRows() []Row {
	var out []Row
	for _, f := range c.Files {
		out = append(out, f...)
	}
	return out
}

// Next is another source and another statement for the same table.
func (c *MergeCase) Next(seed uint64, p MergeProfile) *MergeCase {
	g := &mergeGen{r: NewRand(seed), p: p, keys: c.keys, c: &MergeCase{
		Seed: seed, keys: c.keys, rich: c.rich, Target: c.Target, Partition: c.Partition, Small: c.Small,
	}}
	g.source()
	g.fill()
	g.statement()
	return g.c
}

// SQL is the statement; target and source are what it calls the tables, as SQL.
func (c *MergeCase) SQL(target, source string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "MERGE INTO %s AS t USING %s AS s ON %s", target, source, c.On)
	for _, w := range c.Clauses {
		b.WriteString("\n" + w.sql())
	}
	return b.String()
}

func (w *MergeClause) sql() string {
	out := "WHEN " + w.When
	if w.Cond != "" {
		out += " AND " + w.Cond
	}
	out += " THEN " + w.Action
	var names, values, sets []string
	for _, s := range w.Set {
		names, values = append(names, Quoted(s[0])), append(values, s[1])
		sets = append(sets, Quoted(s[0])+" = "+s[1])
	}
	switch {
	case w.Action == "DELETE":
	case w.Action == "UPDATE" && w.All:
		out += " SET *" + w.except()
	case w.Action == "UPDATE":
		out += " SET " + strings.Join(sets, ", ")
	case w.All:
		out += " *" + w.except()
	default:
		out += " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
	}
	return out
}

func (w *MergeClause) except() string {
	if len(w.Except) == 0 {
		return ""
	}
	names := make([]string, len(w.Except))
	for i, n := range w.Except {
		names[i] = Quoted(n)
	}
	return " EXCEPT (" + strings.Join(names, ", ") + ")"
}

// Quoted is a name in backticks.
func Quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// mergeGen makes one case.
type mergeGen struct {
	r        *rand.Rand
	p        MergeProfile
	c        *MergeCase
	keys     int  // of the target's columns, the first are keys
	extreme  bool // integers at the ends of their range occur
	fallible bool // the expression at hand may fail for a row
	// condition says that the expression at hand is in ON or the condition of a clause.
	condition bool
}

var (
	mergeDecimal = &arrow.Decimal128Type{Precision: 10, Scale: 2}
	mergeTypes   = []arrow.DataType{
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, mergeDecimal,
		arrow.FixedWidthTypes.Date32, arrow.PrimitiveTypes.Int16, arrow.FixedWidthTypes.Boolean, arrow.FixedWidthTypes.Timestamp_us,
	}
	oddNames   = []string{"id", "UserCode", "select", "é", "x.y", "1inch", "Group", "k", "Amount", "v", "w", "note", "flag", "day_of"}
	plainNames = []string{"id", "code", "k", "amount", "v", "w", "note", "flag", "day_of", "region"}
)

// NewMergeCase makes the case of a seed.
func NewMergeCase(seed uint64, p MergeProfile) *MergeCase {
	g := &mergeGen{r: NewRand(seed), p: p, c: &MergeCase{Seed: seed, rich: isRich(seed)}}
	g.extreme = !p.NoErrors && g.chance(12) && !p.NoExtremes
	g.target()
	g.source()
	g.fill()
	g.statement()
	return g.c
}

func (g *mergeGen) statement() {
	g.condition = true
	g.c.On = g.on()
	g.condition = false
	g.clauses()
}

// bare says that the expression at hand is to hold no TRY_CAST and no LENGTH.
func (g *mergeGen) bare() bool { return g.condition && g.p.BareConditions }

func (g *mergeGen) chance(percent int) bool { return g.r.IntN(100) < percent }

func oneOf[T any](g *mergeGen, list ...T) T { return list[g.r.IntN(len(list))] }

func (g *mergeGen) someType() arrow.DataType {
	if g.c.rich && g.chance(35) {
		return oneOf(g, richTypes...)
	}
	n := len(mergeTypes)
	if g.p.NoTimestamps {
		n--
	}
	return mergeTypes[g.r.IntN(n)]
}

// target makes the table's columns: keys first, then shuffled.
func (g *mergeGen) target() {
	names := append([]string(nil), oddNames...)
	if g.p.PlainNames {
		names = append([]string(nil), plainNames...)
	}
	g.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	g.keys = oneOf(g, 1, 1, 1, 1, 2, 2, 2, 3)
	g.c.keys = g.keys
	n := g.keys + 1 + g.r.IntN(4)
	fields := make([]arrow.Field, n)
	for i := range fields {
		t := g.someType()
		for i < g.keys && (isNested(t) || t.ID() == arrow.BOOL && g.chance(80)) {
			t = g.someType()
		}
		fields[i] = arrow.Field{Name: names[i], Type: t, Nullable: true}
	}
	g.c.Target = arrow.NewSchema(fields, nil)
	g.c.Small = g.chance(50)
	if !g.chance(40) {
		return
	}
	for range 1 + g.r.IntN(2) {
		i := g.r.IntN(n)
		if g.p.NoDots && strings.Contains(fields[i].Name, ".") || !g.canPartition(fields[i].Type) {
			continue
		}
		if len(g.c.Partition) < n-1 && !contains(g.c.Partition, fields[i].Name) {
			g.c.Partition = append(g.c.Partition, fields[i].Name)
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// source makes the source's columns: the target's keys and most others, maybe
// with another case or type, and some of its own, in any order.
func (g *mergeGen) source() {
	var fields []arrow.Field
	for i, f := range g.c.Target.Fields() {
		if i >= g.keys && !g.chance(85) {
			continue
		}
		if g.chance(25) {
			f.Name = g.recased(f.Name)
		}
		if !g.p.SameTypes && g.chance(20) {
			f.Type = g.otherType(f.Type)
		}
		fields = append(fields, f)
	}
	own := []arrow.Field{
		{Name: "op", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "delta", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "gone", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}
	for _, f := range own {
		if g.chance(40) {
			fields = append(fields, f)
		}
	}
	g.r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	g.c.Source = arrow.NewSchema(fields, nil)
}

// recased is a name in another case.
func (g *mergeGen) recased(name string) string {
	if g.p.SameCase || g.p.ASCIICase && strings.ContainsFunc(name, func(r rune) bool { return r > 127 }) {
		return name
	}
	return oneOf(g, strings.ToUpper(name), strings.ToLower(name))
}

// otherType is a wider or narrower type of the same family.
func (g *mergeGen) otherType(t arrow.DataType) arrow.DataType {
	switch t.ID() {
	case arrow.INT16, arrow.INT32, arrow.INT64:
		if g.c.rich && !g.p.NoErrors && g.chance(25) {
			return arrow.PrimitiveTypes.Float64
		}
		return oneOf[arrow.DataType](g, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int8)
	case arrow.DECIMAL128:
		return oneOf[arrow.DataType](g, &arrow.Decimal128Type{Precision: 14, Scale: 3}, &arrow.Decimal128Type{Precision: 6, Scale: 1}, arrow.PrimitiveTypes.Int32)
	case arrow.FLOAT64:
		return oneOf[arrow.DataType](g, arrow.PrimitiveTypes.Int32, mergeDecimal, arrow.PrimitiveTypes.Int64)
	}
	return t
}

// fill makes the rows of both sides.
func (g *mergeGen) fill() {
	target := g.rows(g.c.Target, oneOf(g, 0, 3, 8, 14, 25), !g.chance(30), g.c.Target)
	for len(target) > 0 {
		n := 1 + g.r.IntN(len(target))
		if len(g.c.Files) == 3 {
			n = len(target)
		}
		g.c.Files = append(g.c.Files, target[:n])
		target = target[n:]
	}
	g.c.Rows = g.rows(g.c.Source, oneOf(g, 0, 1, 4, 4, 8, 8, 16, 40), !g.chance(30), g.c.Target)
}

// rows makes up to n rows; distinct keeps one of each key.
func (g *mergeGen) rows(sch *arrow.Schema, n int, distinct bool, target *arrow.Schema) []Row {
	var out []Row
	seen := map[string]bool{}
	for range n {
		row := Row{}
		for _, f := range sch.Fields() {
			if v := g.value(f.Type, 14); v != nil && (v != Value("") || sch != target || !contains(g.c.Partition, f.Name)) {
				row[f.Name] = v
			}
		}
		key := ""
		for i := range g.keys {
			for _, f := range sch.Fields() {
				if strings.EqualFold(f.Name, target.Field(i).Name) {
					key += text(row[f.Name]) + "|"
				}
			}
		}
		if distinct && seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, row)
	}
	return out
}

var mergeTexts = []string{"a", "b", "A", "ab", "a_b", "a%b", "", "10", "7", "x", "é", "zz"}

// value is one of few values of a type, NULL in so many of a hundred.
func (g *mergeGen) value(t arrow.DataType, nulls int) Value {
	if g.chance(nulls) {
		return nil
	}
	switch t := t.(type) {
	case *arrow.BooleanType:
		return g.chance(50)
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type:
		if g.extreme && g.chance(25) {
			top := int64(1)<<(t.(arrow.FixedWidthDataType).BitWidth()-1) - 1
			return oneOf(g, top, top-1, -top-1)
		}
		return int64(g.r.IntN(9) - 2)
	case *arrow.StringType:
		return oneOf(g, mergeTexts...)
	case *arrow.Decimal128Type:
		n := int64(g.r.IntN(8)-2) * 5 // tenths
		for range t.Scale - 1 {
			n *= 10
		}
		if g.extreme && g.chance(25) {
			n = 1
			for range t.Precision {
				n *= 10
			}
			n--
		}
		return Decimal(decimal128.FromI64(n))
	case *arrow.Date32Type:
		return Date(19723 + g.r.IntN(6))
	case *arrow.TimestampType:
		return Time(1704067200000000 + int64(g.r.IntN(6))*3_600_000_001)
	}
	if v := g.richValue(t); v != nil {
		return v
	}
	panic(fmt.Sprintf("tabletest: no values of type %s here", t))
}

// RowTexts are rows as texts, sorted: equal multisets of rows give equal texts.
func RowTexts(sch *arrow.Schema, rows []Row) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		var parts []string
		for _, f := range sch.Fields() {
			parts = append(parts, f.Name+"="+text(row[f.Name]))
		}
		out[i] = strings.Join(parts, " ")
	}
	slices.Sort(out)
	return out
}
