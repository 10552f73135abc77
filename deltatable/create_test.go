package deltatable

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNewTableSaysWhatItRefuses: the message names the column, where it is one.
func TestNewTableSaysWhatItRefuses(t *testing.T) {
	for _, c := range []struct {
		ddl         string
		partitionBy []string
		want        string
	}{
		{"a long", []string{"b"}, `partition column: column "b": the table has no such column`},
		{"a long, b long", []string{"a", "A"}, `column "A": it is named twice as a partition column`},
		{"a binary, b long", []string{"a"}, `column "a": a column of type binary cannot be a partition column`},
		{"a long", []string{"a"}, `a table needs a column that is not a partition column`},
		{"`a b` long", nil, `column "a b": a column name must not be empty nor hold any of " ,;{}()=", tab or newline`},
		{"s struct<`x=y`: long>", nil, `column "s.x=y": a column name must not be empty nor hold any of " ,;{}()=", tab or newline`},
	} {
		sch, err := ParseDDL(c.ddl)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = NewTableMetadata(sch, c.partitionBy, nil)
		var ce *ColumnError
		if !errors.As(err, &ce) {
			t.Errorf("%s: got %v", c.ddl, err)
			continue
		}
		if diff := cmp.Diff(c.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.ddl, diff)
		}
	}
}
