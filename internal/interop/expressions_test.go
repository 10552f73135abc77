package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// expressions is the folder of what Spark was found to make of expressions,
// which the tests of package expr hold the evaluator against.
var expressions = filepath.Join("..", "..", "deltatable", "expr", "testdata")

// expressionAnswer is a line of functions.jsonl.
type expressionAnswer struct {
	Expr, Type, Error string
	Rows              []*string
}

func (a *expressionAnswer) fails(row int) bool {
	return a.Rows[row] != nil && strings.HasPrefix(*a.Rows[row], "!")
}

// bytes says that a value is text that is not UTF-8, which no answer can hold.
func (a *expressionAnswer) bytes() bool {
	for _, r := range a.Rows {
		if r != nil && strings.ContainsRune(*r, '\uFFFD') {
			return true
		}
	}
	return false
}

// plain says that Spark takes the expression and that no row fails.
func (a *expressionAnswer) plain() bool {
	for i := range a.Rows {
		if a.fails(i) {
			return false
		}
	}
	return a.Error == ""
}

func expressionAnswers(t *testing.T) []*expressionAnswer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(expressions, "functions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []*expressionAnswer
	in := bufio.NewScanner(bytes.NewReader(text))
	for in.Scan() {
		a := new(expressionAnswer)
		if err := json.Unmarshal(in.Bytes(), a); err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

// expressionSample makes the table over which the expressions are evaluated.
func expressionSample(t *testing.T, spark *peer) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(expressions, "sample.json"))
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
	var selects []string
	for _, r := range sample.Rows {
		var cells []string
		for c, cell := range r {
			cells = append(cells, cell+" AS "+sample.Columns[c])
		}
		selects = append(selects, "SELECT "+strings.Join(cells, ", "))
	}
	spark.run("", "DROP TABLE IF EXISTS expression_sample")
	spark.run("", "CREATE TABLE expression_sample USING parquet AS "+strings.Join(selects, " UNION ALL "))
}

// sparkValues evaluates expressions for the rows of the sample: a text for each
// expression and row.
func sparkValues(spark *peer, where string, as ...*expressionAnswer) ([][]*string, error) {
	items := []string{"CAST(id AS int) AS id"}
	for i, a := range as {
		items = append(items, fmt.Sprintf("CAST((%s) AS STRING) AS e%d", a.Expr, i))
	}
	answer, err := spark.process.call("sql", map[string]any{"sql": "SELECT " + strings.Join(items, ", ") + " FROM expression_sample " + where + " ORDER BY id"})
	if err != nil {
		return nil, err
	}
	var table []map[string]any
	if err := json.Unmarshal(answer, &table); err != nil {
		return nil, err
	}
	out := make([][]*string, len(as))
	for i := range as {
		for _, r := range table {
			var v *string
			if s, ok := r[fmt.Sprintf("e%d", i)].(string); ok {
				v = &s
			}
			out[i] = append(out[i], v)
		}
	}
	return out, nil
}

func sameText(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// What package expr is tested against is what Spark says today.
func TestExpressionsAreWhatSparkSays(t *testing.T) {
	spark := needPeer(t, "spark")
	expressionSample(t, spark)
	all := expressionAnswers(t)
	s := seed(t)
	random := rand.New(rand.NewPCG(s, 1))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if few := 300; !soak() && len(all) > few {
		all = all[:few]
	}
	t.Logf("seed %d, %d expressions", s, len(all))
	const together = 25
	var plain, alone, failing []*expressionAnswer
	for _, a := range all {
		switch {
		case a.bytes():
		case !a.plain():
			failing = append(failing, a)
		case strings.Contains(a.Expr, ">>"): // which Spark reads as two > after the word array
			alone = append(alone, a)
		default:
			plain = append(plain, a)
		}
	}
	parts := slices.Collect(slices.Chunk(plain, together))
	for _, a := range alone {
		parts = append(parts, []*expressionAnswer{a})
	}
	for _, part := range parts {
		values, err := sparkValues(spark, "", part...)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for i, a := range part {
			for r := range a.Rows {
				if len(values[i]) != len(a.Rows) || !sameText(values[i][r], a.Rows[r]) {
					t.Errorf("%s: row %d differs from functions.jsonl", a.Expr, r+1)
				}
			}
		}
	}
	for _, a := range failing {
		for r := range max(1, len(a.Rows)) {
			if a.Error == "" && !a.fails(r) {
				continue
			}
			_, err := sparkValues(spark, fmt.Sprintf("WHERE id = %d", r+1), a)
			var refused *peerError
			if !errors.As(err, &refused) {
				t.Errorf("%s: row %d: got %v, functions.jsonl has a failure", a.Expr, r+1, err)
			}
			break // one failing row is enough: each costs Spark a job
		}
	}
}
