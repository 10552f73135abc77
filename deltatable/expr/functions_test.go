package expr

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// sampleRecord makes the rows of testdata/sample.json, whose cells are SQL.
func sampleRecord(t testing.TB) arrow.RecordBatch {
	t.Helper()
	text, err := os.ReadFile("testdata/sample.json")
	if err != nil {
		t.Fatal(err)
	}
	var sample struct {
		Columns []string
		Rows    [][]string
	}
	if err := json.Unmarshal(text, &sample); err != nil {
		t.Fatal(err)
	}
	one := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1)
	var fields []arrow.Field
	var cols []arrow.Array
	for c, name := range sample.Columns {
		var cells []arrow.Array
		dt := arrow.DataType(arrow.Null)
		for _, r := range sample.Rows {
			b, err := BindWith(mustParse(t, r[c]), one.Schema(), &Options{Zone: time.UTC})
			if err != nil {
				t.Fatal(err)
			}
			arr, err := b.Eval(one)
			if err != nil {
				t.Fatal(err)
			}
			cells, dt = append(cells, arr), wider(dt, arr.DataType(), true)
		}
		f, msg := conversionOf(dt, dt, nil)
		if msg != "" {
			t.Fatal(msg)
		}
		col, err := build(dt, len(cells), func(i int) (cell, error) {
			f, msg = conversionOf(cells[i].DataType(), dt, func(from, to arrow.DataType) (cellFunc, string) { return castCells(from, to, nil) })
			if msg != "" {
				return null, errors.New(msg)
			}
			arr, err := f(cells[i], func(int) bool { return true }, func(_ int, msg string) error { return errors.New(msg) })
			if err != nil {
				return null, err
			}
			return cellsOf(arr)(0), nil
		})
		if err != nil {
			t.Fatal(name, err)
		}
		fields, cols = append(fields, arrow.Field{Name: name, Type: dt, Nullable: true}), append(cols, col)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(len(sample.Rows)))
}

// fullTypeName is a type as Spark's typeof says it.
func fullTypeName(dt arrow.DataType) string {
	switch t := dt.(type) {
	case *arrow.ListType:
		return "array<" + fullTypeName(t.Elem()) + ">"
	case *arrow.MapType:
		return "map<" + fullTypeName(t.KeyType()) + "," + fullTypeName(t.ItemType()) + ">"
	case *arrow.StructType:
		var parts []string
		for _, f := range t.Fields() {
			parts = append(parts, f.Name+":"+fullTypeName(f.Type))
		}
		return "struct<" + strings.Join(parts, ",") + ">"
	}
	return typeName(dt)
}

// answerOf evaluates an expression row by row, as spark.py does.
type sparkAnswer struct {
	Expr  string
	Type  string
	Error string
	Rows  []*string
}

func ourAnswer(e Expr, rec arrow.RecordBatch) *sparkAnswer {
	o := &Options{Zone: time.UTC, Now: time.Unix(1700000000, 0)}
	b, err := BindWith(e, rec.Schema(), o)
	if err != nil {
		return &sparkAnswer{Error: err.Error()}
	}
	out := &sparkAnswer{Type: fullTypeName(b.Type())}
	shown, err := BindWith(&Cast{X: e, Type: "string"}, rec.Schema(), o)
	if err != nil {
		return &sparkAnswer{Error: err.Error()}
	}
	for i := range rec.NumRows() {
		arr, err := shown.Eval(rec.NewSlice(i, i+1))
		var ee *EvalError
		switch {
		case errors.As(err, &ee):
			s := "!" + ee.Msg
			out.Rows = append(out.Rows, &s)
		case err != nil:
			return &sparkAnswer{Error: err.Error()}
		case arr.IsNull(0):
			out.Rows = append(out.Rows, nil)
		default:
			s := fmt.Sprint(arr.ValueStr(0))
			out.Rows = append(out.Rows, &s)
		}
	}
	return out
}

// differsFromSpark says how our answer differs, "" if it does not: types and
// values are the same, and where Spark fails, we do.
func differsFromSpark(got, want *sparkAnswer) string {
	always := len(want.Rows) > 0
	for _, r := range want.Rows {
		always = always && (r == nil || strings.HasPrefix(*r, "!"))
	}
	if got.Error != "" && always { // refused when bound, for all rows
		return ""
	}
	if (got.Error != "") != (want.Error != "") {
		return fmt.Sprintf("refused: %q, by Spark: %q", got.Error, want.Error)
	}
	if got.Error != "" {
		return ""
	}
	if got.Type != want.Type {
		return fmt.Sprintf("type %s, Spark's %s", got.Type, want.Type)
	}
	text := func(s *string) string {
		switch {
		case s == nil:
			return "NULL"
		case strings.HasPrefix(*s, "!"):
			return "!"
		}
		return "'" + *s + "'"
	}
	var out []string
	for i := range want.Rows {
		if text(got.Rows[i]) != text(want.Rows[i]) {
			detail := ""
			if got.Rows[i] != nil {
				detail = *got.Rows[i]
			}
			out = append(out, fmt.Sprintf("row %d: %s (%s), Spark's %s", i+1, text(got.Rows[i]), detail, text(want.Rows[i])))
		}
	}
	return strings.Join(out, "; ")
}

// knownDifferences from Spark, each with its reason (docs/expressions.md).
var knownDifferences = map[string]string{
	"CAST(l AS FLOAT)":                 "the shortest text of a float, which Java 17 misses",
	"arr[l]":                           "a bigint is not cut to an int",
	"CAST(1e23 AS STRING)":             "the shortest text of a double",
	"bin || 'x'":                       "bytes that are not UTF-8 are no text",
	"CAST(bin AS STRING)":              "bytes that are not UTF-8 are no text",
	"upper(bin)":                       "bytes that are not UTF-8 are no text",
	"substring(bin, 1, 1)":             "bytes that are not UTF-8 are no text (the test shows them as such)",
	"regexp_replace('aaa', 'a*', 'x')": "RE2 has no empty match right after a match",
	"unhex('zz')":                      "what is not hexadecimal is an error",
	"ceil(d)":                          "what does not fit bigint is an error",
}

// testdata/functions.jsonl is made by testdata/spark.py.
func TestFunctionsGiveWhatSparkGives(t *testing.T) {
	rec := sampleRecord(t)
	f, err := os.Open("testdata/functions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, seen := 0, []string{}
	for in := bufio.NewScanner(f); in.Scan(); {
		want := new(sparkAnswer)
		if err := json.Unmarshal(in.Bytes(), want); err != nil {
			t.Fatal(err)
		}
		n++
		got := &sparkAnswer{}
		if e, err := Parse(want.Expr); err != nil {
			got.Error = err.Error()
		} else {
			got = ourAnswer(e, rec)
		}
		diff := differsFromSpark(got, want)
		_, known := knownDifferences[want.Expr]
		switch {
		case known:
			seen = append(seen, want.Expr)
			if diff == "" {
				t.Errorf("%s: is no difference any more", want.Expr)
			}
		case diff != "":
			t.Errorf("%s: %s", want.Expr, diff)
		}
	}
	for e := range knownDifferences {
		if !slices.Contains(seen, e) {
			t.Errorf("%s is a known difference that is not tested", e)
		}
	}
	t.Logf("%d expressions", n)
}
