package expr

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/internal/ordered"
)

// genComputed draws conditions with functions and computed constants.
func genComputed(t *rapid.T) condition {
	number := func(r row, f func(n int64) bool) uint8 {
		v, ok := r["i32"].(*big.Rat)
		if !ok {
			return isNull
		}
		return truth(f(v.Num().Int64()))
	}
	a, b := rapid.Int64Range(-5, 5).Draw(t, "a"), rapid.Int64Range(-5, 5).Draw(t, "b")
	text := genStr.Draw(t, "text")
	onText := func(sql string, f func(s string) bool) condition {
		return condition{sql, func(r row) uint8 {
			s, ok := r["s.t"].(string)
			if !ok {
				return isNull
			}
			return truth(f(s))
		}}
	}
	switch rapid.IntRange(0, 8).Draw(t, "computed") {
	case 0:
		return condition{fmt.Sprintf("i32 > %d + %d", a, b), func(r row) uint8 { return number(r, func(n int64) bool { return n > a+b }) }}
	case 1:
		return condition{fmt.Sprintf("i32 + %d <= %d", a, b), func(r row) uint8 { return number(r, func(n int64) bool { return n+a <= b }) }}
	case 2:
		return condition{fmt.Sprintf("i32 IN (%d * 2, CAST('%d' AS INT))", a, b), func(r row) uint8 { return number(r, func(n int64) bool { return n == a*2 || n == b }) }}
	case 3:
		return condition{fmt.Sprintf("i32 BETWEEN %d AND %d", a, b), func(r row) uint8 { return number(r, func(n int64) bool { return n >= a && n <= b }) }}
	case 4:
		return condition{fmt.Sprintf("coalesce(i32, %d) = %d", a, b), func(r row) uint8 {
			v := number(r, func(n int64) bool { return n == b })
			if v == isNull {
				return truth(a == b)
			}
			return v
		}}
	case 5:
		return onText("startswith(`s.t`, "+quoteString(text)+")", func(s string) bool { return strings.HasPrefix(s, text) })
	case 6:
		return onText("`s.t` ILIKE '%A%'", func(s string) bool { return strings.Contains(strings.ToLower(s), "a") })
	case 7:
		return onText("`s.t` RLIKE '^[ab]+$'", func(s string) bool { return s != "" && strings.Trim(s, "ab") == "" })
	}
	return condition{fmt.Sprintf("CASE WHEN i32 = %d THEN b ELSE i32 < %d END", a, b), func(r row) uint8 {
		if number(r, func(n int64) bool { return n == a }) == isTrue {
			if v, ok := r["b"].(bool); ok {
				return truth(v)
			}
			return isNull
		}
		return number(r, func(n int64) bool { return n < b })
	}}
}

func formOf(arr arrow.Array, i int) []byte { return ordered.Append(nil, arr, i) }

// exactBounds are the statistics of rows, all of them known.
func exactBounds(rows []row) boundsFunc {
	known, rec := map[string]ordered.Bounds{}, recordOf(rows)
	for i, f := range oracleSchema.Fields() {
		b := ordered.Bounds{Rows: int64(len(rows)), NullCount: int64(rec.Column(i).NullN())}
		for j := range rows {
			if f.Name == "st" || rec.Column(i).IsNull(j) {
				continue
			}
			form := formOf(rec.Column(i), j)
			if b.Min == nil || bytes.Compare(form, b.Min) < 0 {
				b.Min = form
			}
			if b.Max == nil || bytes.Compare(form, b.Max) > 0 {
				b.Max = form
			}
		}
		known[f.Name] = b
	}
	return func(column string) ordered.Bounds { return known[column] }
}
