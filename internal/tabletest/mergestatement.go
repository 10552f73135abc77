package tabletest

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// on is the condition between the two sides.
func (g *mergeGen) on() string {
	ts := g.scope("ts", "ts")
	var parts []string
	for i := range g.keys {
		parts = append(parts, g.equality(i))
	}
	if !g.p.NoOdd && g.chance(10) {
		parts = []string{oneOf(g, "FALSE", "t.X OR s.X", "range", "range", g.predicate(ts, 1), g.predicate(ts, 2))}
		k, o := g.keyRefs(0)
		switch parts[0] {
		case "t.X OR s.X":
			parts[0] = "(" + g.equality(0) + " OR " + g.predicate(ts, 1) + ")"
		case "range":
			parts[0] = k + oneOf(g, " < ", " >= ", " <> ") + o
		}
	}
	for _, sides := range []string{"t", "s", "ts"} {
		if g.chance(22) {
			p := g.predicate(g.scope(sides, "ts"), 1)
			if g.chance(30) {
				parts = append([]string{p}, parts...)
			} else {
				parts = append(parts, p)
			}
		}
	}
	return strings.Join(parts, " AND ")
}

// keyRefs are both sides of a key column.
func (g *mergeGen) keyRefs(i int) (target, source string) {
	f := g.c.Target.Field(i)
	for _, c := range g.scope("ts", "ts").columns {
		switch {
		case !strings.EqualFold(c.name, f.Name):
		case c.side == "t":
			target = g.ref(c)
		default:
			source = g.ref(c)
		}
	}
	return target, source
}

func (g *mergeGen) equality(i int) string {
	t, s := g.keyRefs(i)
	typ := g.c.Target.Field(i).Type
	switch {
	case typ.ID() == arrow.STRING && !g.p.NoFunctions && !g.p.Simple && !g.p.PlainKeys && g.chance(8):
		t, s = "UPPER("+t+")", "UPPER("+s+")"
	case isMergeInt(typ) && !g.extreme && !g.p.Simple && !g.p.PlainKeys && g.chance(8):
		s += " + " + g.small("1")
	case g.chance(4):
		s = g.typedLiteral(typ, 0)
	}
	op := " = "
	if !g.p.NoNullSafe && g.chance(15) {
		op = " <=> "
	}
	if g.chance(35) {
		return s + op + t
	}
	return t + op + s
}

// clauses makes the WHEN clauses.
func (g *mergeGen) clauses() {
	kinds := []struct {
		when, sides string
		counts      []int
	}{
		{"MATCHED", "ts", []int{0, 1, 1, 2, 2, 3}},
		{"NOT MATCHED", "s", []int{0, 1, 1, 2}},
		{"NOT MATCHED BY SOURCE", "t", []int{0, 0, 0, 1, 1, 2}},
	}
	g.fallible = true
	for len(g.c.Clauses) == 0 {
		for _, k := range kinds {
			n := oneOf(g, k.counts...)
			for i := range n {
				g.clause(k.when, k.sides, i == n-1)
			}
		}
	}
}

func (g *mergeGen) clause(when, sides string, last bool) {
	w := MergeClause{When: when, Action: "UPDATE"}
	if when == "NOT MATCHED" {
		w.Action = "INSERT"
		if g.chance(20) {
			w.When = "NOT MATCHED BY TARGET"
		}
	} else if g.chance(35) {
		w.Action = "DELETE"
	}
	if !last || g.chance(45) {
		g.condition = true
		w.Cond = g.predicate(g.scope(sides, sides), 2)
		g.condition = false
	}
	if w.Action != "DELETE" {
		g.assignments(&w, sides)
	}
	g.c.Clauses = append(g.c.Clauses, w)
}

func (g *mergeGen) assignments(w *MergeClause, sides string) {
	complete := true
	for _, f := range g.c.Target.Fields() {
		has := false
		for _, s := range g.c.Source.Fields() {
			has = has || strings.EqualFold(s.Name, f.Name)
		}
		complete = complete && has
	}
	if strings.Contains(sides, "s") && g.c.rich && g.chance(20) && g.exceptions(w) {
		return
	}
	if strings.Contains(sides, "s") && (complete && g.chance(35) || g.chance(1) && (complete || !g.p.NoErrors)) {
		w.All = true
		return
	}
	fields := append([]arrow.Field(nil), g.c.Target.Fields()...)
	g.r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	n := 1 + g.r.IntN(min(3, len(fields)))
	if w.Action == "INSERT" && g.chance(60) {
		n = len(fields)
	}
	sc := g.scope(sides, sides)
	for _, f := range fields[:n] {
		var v string
		if g.chance(50) {
			v = g.counterpart(sc, f, sides)
		}
		if v == "" {
			v = g.expr(sc, f.Type, 2, 10)
		}
		w.Set = append(w.Set, [2]string{f.Name, v})
	}
}

// counterpart is the source column of a target column's name.
func (g *mergeGen) counterpart(sc scope, f arrow.Field, sides string) string {
	if !strings.Contains(sides, "s") {
		return ""
	}
	for _, c := range sc.columns {
		if c.side == "s" && strings.EqualFold(c.name, f.Name) {
			return g.ref(c)
		}
	}
	return ""
}
