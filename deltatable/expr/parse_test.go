package expr

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseGivesCanonicalText(t *testing.T) {
	for in, want := range map[string]string{
		"a = 1 AND b <=> 'x'": "a = 1 AND b <=> 'x'",
		"date = DATE '2024-01-01' AND ts > TIMESTAMP '2024-01-01 00:00:00Z'": "date = DATE '2024-01-01' AND ts > TIMESTAMP '2024-01-01 00:00:00Z'",
		"`weird col`.`x.y` IS NOT NULL":                                      "`weird col`.`x.y` IS NOT NULL",
		"s.struct.field[0] = 5":                                              "s.struct.field[0] = 5",
		"m['k'] = 'v'":                                                       "m['k'] = 'v'",
		"CAST(x AS DECIMAL(10, 2)) > 1.5BD":                                  "CAST(x AS decimal(10,2)) > 1.5",
		"try_cast(x as array<map<string,int>>)":                              "TRY_CAST(x AS array<map<string,int>>)",
		"x RLIKE '^a.*' or x like 'a%'":                                      "x RLIKE '^a.*' OR x LIKE 'a%'",
		"CASE WHEN a > 1 THEN 'x' ELSE 'y' END = 'x'":                        "CASE WHEN a > 1 THEN 'x' ELSE 'y' END = 'x'",
		"x IN (1,2,3) AND NOT (y BETWEEN 1 AND 2)":                           "x IN (1, 2, 3) AND NOT y BETWEEN 1 AND 2",
		"a::int > 3":                             "CAST(a AS int) > 3",
		"x == 5 and y != 6":                      "x = 5 AND y <> 6",
		`name = "double quoted"`:                 `name = 'double quoted'`,
		"v > 10L":                                "v > 10L",
		"x % 2 = 0 AND a || b = 'cd'":            "x % 2 = 0 AND a || b = 'cd'",
		"date_format(ts, 'yyyy-MM') = '2024-01'": "date_format(ts, 'yyyy-MM') = '2024-01'",
		"a IS DISTINCT FROM b":                   "a IS DISTINCT FROM b",
		"transform(arr, x -> x + 1)[0] = 1":      "transform(arr, x -> x + 1)[0] = 1",
		"a OR b AND c":                           "a OR b AND c",
		"(a OR b) AND c":                         "(a OR b) AND c",
		"NOT a = b":                              "NOT a = b",
		"!a":                                     "NOT a",
		"(NOT a) = b":                            "(NOT a) = b",
		"a - -1":                                 "a - -1",
		"- - x":                                  "-(-x)",
		"-(1)":                                   "-(1)",
		"1 - 2 - 3 * (4 - 5)":                    "1 - 2 - 3 * (4 - 5)",
		"1 - (2 - 3)":                            "1 - (2 - 3)",
		"x'00ff' = b":                            "X'00ff' = b",
		"date > x":                               "date > x",
		"1e3 > 1D":                               "1e3 > 1D",
		`'it''s' = 'a\'b\\c\n'`:                  `'it\'s' = 'a\'b\\c\n'`,
		`r'a\b'`:                                 `'a\\b'`,
		"a /* no */ = -- yes\n 1":                "a = 1",
		"count(*) > count(distinct a)":           "count(*) > count(DISTINCT a)",
		"x LIKE 'a!%' ESCAPE '!'":                "x LIKE 'a!%' ESCAPE '!'",
		"naïve = 'é'":                            "naïve = 'é'",
		"position('a' IN s || t)":                "position('a', s || t)",
		"position('a', s) IN (1)":                "position('a', s) IN (1)",
		"position((a IN (1)) IN s)":              "position(a IN (1), s)",
		"substring(s FROM 2)":                    "substring(s, 2)",
		"substring(s FROM 2 FOR 3)":              "substring(s, 2, 3)",
		"extract(year FROM d)":                   "date_part('YEAR', d)",
		"trim(BOTH 'x' FROM s)":                  "btrim(s, 'x')",
		"trim(LEADING FROM s)":                   "ltrim(s)",
		"trim('x' FROM s)":                       "btrim(s, 'x')",
		"trim(both)":                             "trim(both)",
		"trim(s)":                                "trim(s)",
		"overlay(s PLACING 'x' FROM 2 FOR 3)":    "overlay(s, 'x', 2, 3)",
		"current_date > `current_date`":          "current_date() > `current_date`",
		"INTERVAL 1 DAY 2 HOURS":                 "INTERVAL '1 DAY 2 HOURS'",
		"INTERVAL '1-2' YEAR TO MONTH":           "INTERVAL '1-2' YEAR TO MONTH",
		"a IS NOT UNKNOWN":                       "a IS NOT UNKNOWN",
		"(a IS NULL) IS NULL":                    "(a IS NULL) IS NULL",
		"a = b = c":                              "a = b = c",
		"`select` = `a``b`":                      "`select` = `a``b`",
		"INTERVAL '1' day":                       "INTERVAL '1' DAY",
	} {
		e, err := Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := e.String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestSyntaxErrorsNameThePlace(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "SQL syntax: expected an expression, column 1 at the end",
		"a =":                              "SQL syntax: expected an expression, column 4 at the end",
		"a = 1 b":                          "SQL syntax: expected an operator or the end, column 7 near \"b\"",
		"a = 'x":                           "SQL syntax: the string is not closed, column 5 near \"'\"",
		"é = `x":                           "SQL syntax: the quoted name is not closed, column 5 near \"`\"",
		"a AND\n  OR b":                    "SQL syntax: expected an expression; a column of this name is written in backticks, line 2, column 3 near \"OR\"",
		"a IN ()":                          "SQL syntax: expected an expression, column 7 near \")\"",
		"a IN (SELECT b FROM c)":           "SQL syntax: a subquery is not supported here, column 7 near \"SELECT\"",
		"a BETWEEN 1 OR 2":                 "SQL syntax: expected AND of BETWEEN, column 13 near \"OR\"",
		"a IS 5":                           "SQL syntax: expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS, column 6 near \"5\"",
		"1x":                               "SQL syntax: not a number (suffixes are L, S, Y, D, F, BD), column 1 near \"1x\"",
		"1.5L":                             "SQL syntax: not a number (suffixes are L, S, Y, D, F, BD), column 1 near \"1.5L\"",
		"a LIKE 'x' ESCAPE 'ab'":           "SQL syntax: ESCAPE takes one character as a string, column 19 near \"'ab'\"",
		"a IS NULL = b":                    "SQL syntax: expected an operator or the end, column 11 near \"=\"",
		"a; b":                             "SQL syntax: expected an operator or the end, column 2 near \";\"",
		"a.":                               "SQL syntax: expected a field name after the point, column 3 at the end",
		"CAST(a, int)":                     "SQL syntax: expected AS of CAST, column 7 near \",\"",
		"(a":                               "SQL syntax: expected ), column 3 at the end",
		"a # b":                            "SQL syntax: unexpected character, column 3 near \"#\"",
		"/* a":                             "SQL syntax: the comment is not closed, column 1 near \"/*\"",
		strings.Repeat("(", 5000):          "SQL syntax: the expression is nested deeper than 200 levels, column 201 near \"(\"",
		"a" + strings.Repeat("+a", 5000):   "SQL syntax: the expression is nested deeper than 200 levels, column 400 near \"+\"",
		"a" + strings.Repeat("[a]", 5000):  "SQL syntax: the expression is nested deeper than 200 levels, column 599 near \"[\"",
		"a" + strings.Repeat(" AND", 5000): "SQL syntax: expected an expression; a column of this name is written in backticks, column 7 near \"AND\"",
		"'\xff'":                           "SQL syntax: the expression is not valid UTF-8, column 1 at the end",
	} {
		_, err := Parse(in)
		var se *SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("%.40s: got %v, want a SyntaxError", in, err)
			continue
		}
		if err.Error() != want {
			t.Errorf("%.40s: got\n %s, want\n %s", in, err, want)
		}
	}
}

// Each of these took twice the time for each level once.
func TestDeepCallsTakeLinearTime(t *testing.T) {
	for _, f := range []string{"trim(", "substring(", "position(", "overlay(", "extract(year from ", "trim(both 'x' from ", "f("} {
		if _, err := Parse(strings.Repeat(f, 90) + "a" + strings.Repeat(")", 90)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestLongChainsAreNotDeep(t *testing.T) {
	e, err := Parse("a = 0" + strings.Repeat(" OR a = 1", 20_000))
	if err != nil {
		t.Fatal(err)
	}
	if l := e.(*Logic); len(l.Args) != 20_001 {
		t.Fatalf("got %d operands", len(l.Args))
	}
}

// strip zeroes all positions in a tree, so that reflect.DeepEqual compares the
// rest. (go-cmp takes exponential time on lists nested in lists.)
func strip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			strip(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			strip(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Position]() {
			v.SetZero()
			return
		}
		for i := range v.NumField() {
			strip(v.Field(i))
		}
	}
}

func sameTree(a, b Expr) bool {
	strip(reflect.ValueOf(a))
	strip(reflect.ValueOf(b))
	return reflect.DeepEqual(a, b)
}

func TestStringParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExpr(t, 4)
		back, err := Parse(e.String())
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		if !sameTree(e, back) {
			t.Fatalf("%s came back as %s", e, back)
		}
	})
}

var genText = rapid.StringMatching(`[ a%_\\'"` + "`" + `é\n\x00\t.]{0,6}`)

// genExpr draws any tree that Parse can give.
func genExpr(t *rapid.T, depth int) Expr {
	sub := func() Expr { return genExpr(t, depth-1) }
	list := func(least int) []Expr {
		var out []Expr
		for range rapid.IntRange(least, 3).Draw(t, "n") {
			out = append(out, sub())
		}
		return out
	}
	flag := func() bool { return rapid.Bool().Draw(t, "flag") }
	most := 17
	if depth == 0 {
		most = 1
	}
	switch rapid.IntRange(0, most).Draw(t, "node") {
	case 0:
		n := &Name{}
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			n.Parts = append(n.Parts, rapid.SampledFrom([]string{"a", "b c", "x.y", "DATE", "and", "é", "_1", "1a", "`", "x"}).Draw(t, "part"))
		}
		return n
	case 1:
		return genLiteral(t)
	case 2:
		or := flag()
		args := list(2)
		if l, ok := args[0].(*Logic); ok && l.Or == or { // Parse flattens
			args = append(append([]Expr(nil), l.Args...), args[1:]...)
		}
		return &Logic{Or: or, Args: args}
	case 3:
		return &Not{X: sub()}
	case 4, 5:
		ops := []string{"=", "<=>", "<>", "<", "<=", ">", ">=", "|", "^", "&", "<<", ">>", ">>>", "+", "-", "||", "*", "/", "%", "DIV"}
		return &Infix{Op: rapid.SampledFrom(ops).Draw(t, "op"), L: sub(), R: sub()}
	case 6:
		return &Prefix{Op: rapid.SampledFrom([]string{"-", "+", "~"}).Draw(t, "op"), X: sub()}
	case 7:
		return &Is{X: sub(), Not: flag(), What: rapid.SampledFrom([]string{"NULL", "TRUE", "FALSE", "UNKNOWN"}).Draw(t, "what")}
	case 8:
		return &Distinct{L: sub(), R: sub(), Not: flag()}
	case 9:
		return &In{X: sub(), Not: flag(), List: list(1)}
	case 10:
		return &Between{X: sub(), Low: sub(), High: sub(), Not: flag()}
	case 11:
		l := &Like{Op: rapid.SampledFrom([]string{"LIKE", "ILIKE", "RLIKE"}).Draw(t, "op"), X: sub(), Not: flag(), Pattern: sub()}
		if l.Op != "RLIKE" {
			l.Escape = rapid.SampledFrom([]string{"", "!", "'"}).Draw(t, "escape")
		}
		return l
	case 12:
		x := sub()
		if n, ok := x.(*Name); ok {
			return &Name{Parts: append(append([]string(nil), n.Parts...), "f g")}
		}
		return &Field{X: x, Name: "f"}
	case 13:
		return &Index{X: sub(), Key: sub()}
	case 14:
		c := &Call{Func: "f1", Args: list(0)}
		if len(c.Args) == 0 {
			c.Star = flag()
		} else {
			c.Distinct = flag()
		}
		return c
	case 15:
		return &Lambda{Param: "x", Body: sub()}
	case 16:
		c := &Case{Whens: []When{{sub(), sub()}}}
		if flag() {
			c.X = sub()
		}
		if flag() {
			c.Else = sub()
		}
		return c
	default:
		return &Cast{Try: flag(), X: sub(), Type: rapid.SampledFrom([]string{"int", "decimal(10,2)", "array<struct<a:int,`b c`:map<int,string>>>"}).Draw(t, "type")}
	}
}

func genLiteral(t *rapid.T) *Literal {
	kind := rapid.SampledFrom([]LiteralKind{Null, Boolean, Integer, Tinyint, Smallint, Bigint, Decimal, Float, Double, String, Binary, Date, Timestamp, TimestampNTZ, Interval}).Draw(t, "kind")
	l := &Literal{Kind: kind}
	switch kind {
	case Null:
	case Boolean:
		l.Text = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")
	case Integer, Tinyint, Smallint, Bigint:
		l.Text = rapid.StringMatching(`-?[0-9]{1,4}`).Draw(t, "digits")
	case Decimal:
		l.Text = rapid.StringMatching(`-?([0-9]{1,3}\.[0-9]{0,2}|\.[0-9]|[0-9]|[0-9]e[0-9])`).Draw(t, "digits")
	case Float, Double:
		l.Text = rapid.StringMatching(`-?[0-9]{1,2}(\.[0-9])?(e[+-]?[0-9])?`).Draw(t, "digits")
	case Binary:
		l.Text = rapid.StringMatching(`[0-9a-f]{0,4}`).Draw(t, "hex")
	case String, Date, Timestamp, TimestampNTZ, Interval:
		l.Text = genText.Draw(t, "text")
	}
	return l
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a = 1 AND b <=> 'x'", "`a``b`.c[1] IN (1.5, -2e3D, X'0f')", "NOT a LIKE 'x!%' ESCAPE '!'", "CASE WHEN a THEN 1 END::decimal(3,1)", "f(x -> -x, *)", "--\n/**/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			var se *SyntaxError
			if !errors.As(err, &se) {
				t.Fatalf("%q: %T is no SyntaxError: %v", s, err, err)
			}
			return
		}
		again, err := Parse(e.String())
		if err != nil {
			if strings.Contains(err.Error(), "nested deeper") { // text that is just within the bound may print just beyond it
				return
			}
			t.Fatalf("%q printed as %q: %v", s, e, err)
		}
		if !sameTree(e, again) {
			t.Fatalf("%q printed as %q, came back as %q", s, e, again)
		}
	})
}
