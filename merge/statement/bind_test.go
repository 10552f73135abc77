package statement

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable/expr"
)

var (
	targetSchema = arrow.NewSchema([]arrow.Field{
		{Name: "Id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
		{Name: "x.y", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	sourceSchema = arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "NAME", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "price", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "x.y", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "extra", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}, nil)
)

func mustParse(t *testing.T, text string) *Statement {
	t.Helper()
	st, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return st
}

// showBound writes what Bind made as text.
func showBound(b *Bound) string {
	var out strings.Builder
	for _, k := range b.Keys {
		fmt.Fprintf(&out, "key %s %s %s %s %v column=%s\n", k.Target, k.Target.Type(), k.Source, k.Source.Type(), k.NullSafe, k.Column)
	}
	for _, e := range b.TargetOnly {
		fmt.Fprintf(&out, "target %s\n", e)
	}
	for _, e := range b.Rest {
		fmt.Fprintf(&out, "rest %s\n", e)
	}
	for _, a := range b.Added {
		fmt.Fprintf(&out, "added %s\n", a)
	}
	for _, c := range b.Branches {
		fmt.Fprintf(&out, "%s %s", []string{"", "matched", "not matched", "by source"}[c.When], []string{"", "update", "delete", "insert"}[c.Action])
		if c.Condition != nil {
			fmt.Fprintf(&out, " if %s (%s)", c.Condition, c.Text)
		}
		for i, v := range c.Values {
			if v != nil {
				fmt.Fprintf(&out, " [%s := %s %s]", b.Target.Field(i).Name, v, v.Type())
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestBind(t *testing.T) {
	const onID = "MERGE INTO shop.items t USING changes s ON "
	for _, c := range []struct {
		sql, want string
		evolve    bool
	}{
		{onID + "t.id = s.id AND s.extra AND t.price > 1 WHEN MATCHED AND extra THEN DELETE", "key `t.Id` int32 `s.id` int32 false column=Id\ntarget `t.price` > 1\nrest `s.extra`\nmatched delete if `s.extra` (extra)\n", false},
		{onID + "s.id <=> t.id AND t.price + s.price = 5 WHEN MATCHED THEN DELETE", "key `t.Id` int64 `s.id` int64 true column=\nrest `t.price` + `s.price` = 5\nmatched delete\n", false},
		{onID + "t.`x.y` = s.price WHEN MATCHED THEN UPDATE SET *", "key `t.x.y` float64 `s.price` float64 false column=x.y\nmatched update [Id := `s.id` int32] [name := `s.NAME` utf8] [price := `s.price` decimal(10, 2)] [x.y := `s.x.y` float64]\n", false},
		{onID + "1 = 1 WHEN NOT MATCHED THEN INSERT (ID, price) VALUES (id, NULL) WHEN NOT MATCHED BY SOURCE AND name = 'a' THEN UPDATE SET price = price + 1", "rest 1 = 1\nnot matched insert [Id := `s.id` int32] [price := NULL decimal(10, 2)]\nby source update if `t.name` = 'a' (name = 'a') [price := `t.price` + 1 decimal(10, 2)]\n", false},
		{onID + "t.id = s.id WHEN NOT MATCHED THEN INSERT * EXCEPT (price)", "key `t.Id` int32 `s.id` int32 false column=Id\nadded extra\nnot matched insert [Id := `s.id` int32] [name := `s.NAME` utf8] [x.y := `s.x.y` float64] [extra := `s.extra` bool]\n", true},
		{onID + "t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name", "key `t.Id` int32 `s.id` int32 false column=Id\nmatched update [name := `s.NAME` utf8]\n", true},
		{onID + "t.id = s.id WHEN MATCHED THEN UPDATE SET extra = s.extra", "key `t.Id` int32 `s.id` int32 false column=Id\nadded extra\nmatched update [extra := `s.extra` bool]\n", true},
		{"MERGE INTO shop.items USING changes ON shop.items.id = changes.id WHEN MATCHED THEN DELETE", "key `items.Id` int32 `changes.id` int32 false column=Id\nmatched delete\n", false},
	} {
		b, err := Bind(mustParse(t, c.sql), targetSchema, sourceSchema, c.evolve, &Options{})
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		if d := cmp.Diff(c.want, showBound(b)); d != "" {
			t.Errorf("%s:\n%s", c.sql, d)
		}
	}
}

func TestBindRefuses(t *testing.T) {
	const start = "MERGE INTO t USING s ON t.id = s.id "
	for sql, want := range map[string]string{
		"MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE":                "SQL: target and source have the same name: give one of them an alias, column 20 near \"t\"",
		"MERGE INTO t USING s ON id = 1 WHEN MATCHED THEN DELETE":              "SQL: ambiguous: both t and s have it, column 25 near \"id\"",
		"MERGE INTO t USING s ON t.id = s.extra WHEN MATCHED THEN DELETE":      "SQL: int and boolean cannot be compared, column 30 near \"`t.Id` = `s.extra`\"",
		"MERGE INTO t USING s ON t.id WHEN MATCHED THEN DELETE":                "SQL: not a condition, column 25 near \"t.id\"",
		start + "WHEN MATCHED THEN UPDATE SET nope = 1":                        "SQL: the target has no such column, column 66 near \"nope\"",
		start + "WHEN MATCHED THEN UPDATE SET name = t.nope":                   "SQL: t has no column nope, column 73 near \"t.nope\"",
		start + "WHEN MATCHED THEN UPDATE SET name = nope":                     "SQL: no such column here, column 73 near \"nope\"",
		start + "WHEN MATCHED THEN UPDATE SET name = 'a', Name = 'b'":          "SQL: the column is set twice, column 78 near \"Name\"",
		start + "WHEN MATCHED THEN UPDATE SET name = 99":                       "SQL: int cannot be stored in the column name of type string without a cast, column 73 near \"99\"",
		start + "WHEN MATCHED THEN UPDATE SET id = s.name":                     "SQL: string cannot be stored in the column Id of type int without a cast, column 71 near \"`s.NAME`\"",
		start + "WHEN MATCHED THEN UPDATE SET id = extra":                      "SQL: boolean cannot be stored in the column Id of type int without a cast, column 71 near \"`s.extra`\"",
		start + "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET id = 1": "SQL: only the last clause of a kind may be without a condition, column 62 near \"WHEN\"",
		start + "WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)":              "SQL: columns of t cannot be used here, column 79 near \"t.id\"",
		start + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = s.name":     "SQL: columns of s cannot be used here, column 87 near \"s.name\"",
		start + "WHEN MATCHED THEN UPDATE SET * EXCEPT (nope)":                 "SQL: EXCEPT names a column that the target does not have, column 37 near \"nope\"",
		start + "WHEN MATCHED AND s.price THEN DELETE":                         "SQL: not a condition, column 54 near \"s.price\"",
		"MERGE INTO t USING p ON t.id = p.id WHEN MATCHED THEN UPDATE SET *":   "SQL: the source has no such column, which * needs (--evolve-schema leaves it alone), column 37 near \"name\"",
		"MERGE INTO t USING `a.b` ON true WHEN MATCHED THEN DELETE":            "SQL: an alias must not hold a dot, column 20 near \"a.b\"",
	} {
		source := sourceSchema
		if strings.Contains(sql, "USING p") {
			source = arrow.NewSchema(sourceSchema.Fields()[:1], nil)
		}
		_, err := Bind(mustParse(t, sql), targetSchema, source, false, &Options{})
		var be *expr.BindError
		if !errors.As(err, &be) {
			t.Errorf("%s: got %v (%T)", sql, err, err)
			continue
		}
		if err.Error() != want {
			t.Errorf("%s: got\n %s, want\n %s", sql, err, want)
		}
	}
}
