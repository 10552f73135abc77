package statement

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable/expr"
)

// show writes a statement's tree as text.
func show(s *Statement) string {
	var b strings.Builder
	relation := func(r *Relation) string {
		out := r.Name + " as " + r.Qualifier()
		if r.Version+r.Timestamp != "" {
			out += " @" + r.Version + r.Timestamp
		}
		return out
	}
	fmt.Fprintf(&b, "%s <- %s on %s", relation(&s.Target), relation(&s.Source), s.On)
	if s.Evolve {
		b.WriteString(" evolve")
	}
	for _, c := range s.Clauses {
		fmt.Fprintf(&b, "\n%s", []string{"", "matched", "not matched", "by source"}[c.When])
		if c.Condition != nil {
			fmt.Fprintf(&b, " if %s", c.Condition)
		}
		fmt.Fprintf(&b, " %s", []string{"", "update", "delete", "insert"}[c.Action])
		if c.All {
			b.WriteString(" all")
		}
		if c.Except != nil {
			fmt.Fprintf(&b, " but %s", strings.Join(c.Except, ","))
		}
		for _, a := range c.Set {
			fmt.Fprintf(&b, " [%s := %s]", a.Column, a.Value)
		}
	}
	return b.String()
}

func TestParse(t *testing.T) {
	customers, err := os.ReadFile("testdata/customers.sql")
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		string(customers): `customers as c <- changes as u on c.id = u.id
matched if u.deleted delete
matched update [name := u.name] [tier := u.tier]
not matched if NOT u.deleted insert [id := u.id] [name := u.name] [tier := u.tier]`,
		"merge with schema evolution into a.b.`t x` using s on true when matched then update set * ;":                                                                                                                                                                       "a.b.t x as t x <- s as s on TRUE evolve\nmatched update all",
		"MERGE INTO t USING s VERSION AS OF 3 AS u ON t.a <=> u.a WHEN NOT MATCHED BY TARGET THEN INSERT * EXCEPT (a, `b c`)":                                                                                                                                               "t as t <- s as u @3 on t.a <=> u.a\nnot matched insert all but a,b c",
		"MERGE INTO t x USING s FOR TIMESTAMP AS OF '2024-01-01' u ON x.a = u.a AND x.b > 1 -- why\nWHEN NOT MATCHED BY SOURCE AND x.d < DATE '2024-01-01' THEN /* old */ UPDATE SET x.a = 1, `b c` = CASE WHEN x.a = 1 THEN 2 END\nWHEN NOT MATCHED BY SOURCE THEN DELETE": "t as x <- s as u @2024-01-01 on x.a = u.a AND x.b > 1\nby source if x.d < DATE '2024-01-01' update [a := 1] [b c := CASE WHEN x.a = 1 THEN 2 END]\nby source delete",
		"MERGE INTO t USING delta.`/a/b.c` ON t.a = 1 WHEN MATCHED THEN UPDATE SET T.a = NULL, b = `DEFAULT` + 1":                                                                                                                                                           "t as t <- delta./a/b.c as /a/b.c on t.a = 1\nmatched update [a := NULL] [b := DEFAULT + 1]",
		"MERGE INTO matched USING when1 ON matched.using = 1 WHEN MATCHED THEN UPDATE SET set = values, values = 2":                                                                                                                                                         "matched as matched <- when1 as when1 on matched.using = 1\nmatched update [set := values] [values := 2]",
	} {
		s, err := Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if d := cmp.Diff(want, show(s)); d != "" {
			t.Errorf("%s:\n%s", in, d)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const start = "MERGE INTO t USING s ON t.a = s.a "
	for in, want := range map[string]string{
		"":                                   "SQL syntax: expected MERGE, column 1 at the end",
		"DELETE FROM t":                      `SQL syntax: expected MERGE, column 1 near "DELETE"`,
		"MERGE t USING s":                    `SQL syntax: expected INTO, column 7 near "t"`,
		"MERGE INTO t USING s":               "SQL syntax: expected ON, column 21 at the end",
		"MERGE INTO t USING (SELECT 1) s ON": "SQL: a subquery (the source table must be a name) is not supported, column 20",
		"MERGE INTO t USING f(1) ON true":    "SQL: a table function (the source table must be a name) is not supported, column 20",
		"MERGE INTO t VERSION AS OF 1 USING s ON true":            "SQL: AS OF on the target is not supported, column 14",
		"MERGE INTO t USING s VERSION AS OF 1.5 ON true":          `SQL: VERSION AS OF takes a number, column 22 near "1.5"`,
		"WITH x AS (SELECT 1) MERGE INTO t":                       "SQL: WITH before MERGE is not supported, column 1",
		start:                                                     "SQL syntax: expected WHEN, column 35 at the end",
		start + "WHEN MATCHED THEN INSERT *":                      `SQL syntax: only WHEN NOT MATCHED [BY TARGET] can insert, column 53 near "INSERT"`,
		start + "WHEN NOT MATCHED THEN DELETE":                    `SQL syntax: WHEN NOT MATCHED [BY TARGET] can only insert, column 57 near "WHEN"`,
		start + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *":    `SQL syntax: WHEN NOT MATCHED BY SOURCE has no source columns for SET *, column 67 near "UPDATE"`,
		start + "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)":  `SQL syntax: expected a comma: INSERT names 2 columns and has 1 values, column 80 near ")"`,
		start + "WHEN NOT MATCHED THEN INSERT (a) VALUES (1, 2)":  `SQL syntax: INSERT names 1 columns and has more values, column 77 near ","`,
		start + "WHEN NOT MATCHED THEN INSERT VALUES (1, 2)":      "SQL: INSERT without a list of columns is not supported, column 64",
		start + "WHEN MATCHED THEN UPDATE SET t.a.b = 1":          "SQL: assigning to a.b (only whole columns of the target can be set) is not supported, column 64",
		start + "WHEN MATCHED THEN UPDATE SET s.a = 1":            "SQL: assigning to s.a (only whole columns of the target can be set) is not supported, column 64",
		start + "WHEN MATCHED THEN UPDATE SET a = DEFAULT":        "SQL: DEFAULT as a value is not supported, column 68",
		start + "WHEN MATCHED THEN UPDATE SET a > 1":              `SQL syntax: expected =, column 66 near ">"`,
		start + "WHEN MATCHED THEN DELETE; DELETE":                `SQL syntax: expected WHEN or the end, column 61 near "DELETE"`,
		start + "WHEN MATCHED AND THEN DELETE":                    `SQL syntax: expected an expression; a column of this name is written in backticks, column 52 near "THEN"`,
		start + "WHEN MAYBE THEN DELETE":                          `SQL syntax: expected MATCHED or NOT MATCHED, column 40 near "MAYBE"`,
		start + strings.Repeat("WHEN MATCHED THEN DELETE\n", 501): `SQL syntax: there are more than 500 clauses, line 501, column 1 near "WHEN"`,
	} {
		_, err := Parse(in)
		var se *expr.SyntaxError
		var ue *expr.UnsupportedError
		var be *expr.BindError
		if !errors.As(err, &se) && !errors.As(err, &ue) && !errors.As(err, &be) {
			t.Errorf("%.80s: got %v (%T)", in, err, err)
			continue
		}
		if err.Error() != want {
			t.Errorf("%.80s: got\n %s, want\n %s", in, err, want)
		}
	}
}

func TestParseAssignments(t *testing.T) {
	out, err := ParseAssignments("a = x + 1, `b c` = NULL")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range out {
		got = append(got, a.Column+" := "+a.Value.String())
	}
	if d := cmp.Diff([]string{"a := x + 1", "b c := NULL"}, got); d != "" {
		t.Error(d)
	}
	for _, in := range []string{"", "a", "a = ", "a = 1,", "a = 1 b", "a.b = 1", "a = 1; b = 2"} {
		if out, err := ParseAssignments(in); err == nil {
			t.Errorf("%s was taken: %v", in, out)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"MERGE INTO t AS x USING s VERSION AS OF 1 u ON x.a = u.a WHEN MATCHED AND u.d THEN DELETE WHEN NOT MATCHED THEN INSERT (a) VALUES (u.a);",
		"merge with schema evolution into `t` using s on t.a <=> s.a when not matched by source then update set a = 1 when matched then update set * except (b)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		st, err := Parse(s)
		if err == nil {
			_ = show(st)
			return
		}
		var se *expr.SyntaxError
		var ue *expr.UnsupportedError
		var be *expr.BindError
		if !errors.As(err, &se) && !errors.As(err, &ue) && !errors.As(err, &be) {
			t.Fatalf("%q: %T: %v", s, err, err)
		}
	})
}
