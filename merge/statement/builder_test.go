package statement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/merge/statement"
)

func ExampleInto() {
	st, err := statement.Into("customers", "c").Using("changes", "u").On("c.id = u.id").
		WhenMatched("u.deleted").Delete().
		WhenMatched().Update("name = u.name", "tier = u.tier").
		WhenNotMatched("NOT u.deleted").InsertAll().
		Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(st.On, len(st.Clauses))
	// Output: c.id = u.id 3
}

// TestBuilderEqualsText binds what was built and the same statement as text.
func TestBuilderEqualsText(t *testing.T) {
	text := arrow.BinaryTypes.String
	target := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "name", Type: text}, {Name: "tier", Type: text}}, nil)
	source := arrow.NewSchema(append(target.Fields(), arrow.Field{Name: "deleted", Type: arrow.FixedWidthTypes.Boolean}), nil)
	parsed, err := statement.Parse(`MERGE INTO customers c USING changes u ON c.id = u.id
		WHEN MATCHED AND u.deleted AND u.name IS NULL THEN DELETE
		WHEN MATCHED THEN UPDATE SET name = u.name, tier = 'x'
		WHEN NOT MATCHED AND NOT u.deleted THEN INSERT *
		WHEN NOT MATCHED BY SOURCE AND c.tier = 'old' THEN UPDATE SET tier = 'gone'`)
	if err != nil {
		t.Fatal(err)
	}
	built, err := statement.Into("customers", "c").Using("changes", "u").On("c.id = u.id").
		WhenMatched("u.deleted", "u.name IS NULL").Delete().
		WhenMatched().Update("name = u.name", "tier = 'x'").
		WhenNotMatched("NOT u.deleted").InsertAll().
		WhenNotMatchedBySource("c.tier = 'old'").Update("tier = 'gone'").
		Build()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bound(t, parsed, target, source), bound(t, built, target, source)); diff != "" {
		t.Errorf("bound (-text +built):\n%s", diff)
	}
}

func bound(t *testing.T, st *statement.Statement, target, source *arrow.Schema) []string {
	t.Helper()
	b, err := statement.Bind(st, target, source, false, &statement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := []string{b.On}
	for _, c := range b.Branches {
		line := fmt.Sprintf("%d %d %s", c.When, c.Action, c.Text)
		for _, v := range c.Values {
			if v == nil {
				line += " -"
			} else {
				line += " " + v.String()
			}
		}
		out = append(out, line)
	}
	return out
}

func TestBuilderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		b    *statement.Builder
		want string
	}{
		"no source":             {statement.Into("t", "").On("a = b"), "no source"},
		"no ON":                 {statement.Into("t", "").Using("s", ""), "no ON"},
		"a bad condition":       {statement.Into("t", "").Using("s", "").On("a ="), "ON a ="},
		"an insert of a match":  {statement.Into("t", "").Using("s", "").On("a = b").WhenMatched().InsertAll(), "no other does"},
		"a delete without one":  {statement.Into("t", "").Using("s", "").On("a = b").WhenNotMatched().Delete(), "no other does"},
		"an empty update":       {statement.Into("t", "").Using("s", "").On("a = b").WhenMatched().Update(), "sets no column"},
		"a bad assignment":      {statement.Into("t", "").Using("s", "").On("a = b").WhenMatched().Update("x +"), "x +"},
		"all columns BY SOURCE": {statement.Into("t", "").Using("s", "").On("a = b").WhenNotMatchedBySource().UpdateAll(), "BY SOURCE"},
	} {
		if _, err := c.b.Build(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}
