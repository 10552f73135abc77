package expr

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/internal/ordered"
)

// The oracle works on one row at a time with big.Rat, and is made together
// with the SQL text, so that it shares no line with the parser or the binder.

// A value is nil (NULL), *big.Rat, float64, string, []byte, bool, days,
// micros (with zone) or localMicros.
type (
	days        int64
	micros      int64
	localMicros int64
)

type row map[string]any

type operandGen struct {
	sql  string
	kind string // num, str, bin, bool, date, ts, ntz, null
	at   func(r row) any
	dbl  bool
}

type condition struct {
	sql string
	at  func(r row) uint8
}

var oracleZone = time.FixedZone("x", -5*3600)

var oracleSchema = arrow.NewSchema([]arrow.Field{
	{Name: "i8", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
	{Name: "i16", Type: arrow.PrimitiveTypes.Int16, Nullable: true},
	{Name: "i32", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "i64", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "f32", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "f64", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "dec", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
	{Name: "Big Dec", Type: &arrow.Decimal128Type{Precision: 38, Scale: 20}, Nullable: true},
	{Name: "s.t", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "bin", Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
	{Name: "ts", Type: tsUTC, Nullable: true},
	{Name: "ntz", Type: tsNTZ, Nullable: true},
	{Name: "st", Type: arrow.StructOf(
		arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		arrow.Field{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
}, nil)

var (
	genInt = rapid.SampledFrom([]int64{-128, -3, -1, 0, 1, 2, 3, 127})
	genI64 = rapid.SampledFrom([]int64{math.MinInt64, -1<<53 - 1, -3, -1, 0, 1, 2, 1 << 24, 1<<24 + 1, 1 << 53, 1<<53 + 1, math.MaxInt64})
	genF   = rapid.SampledFrom([]float64{math.Inf(-1), -1.5, math.Copysign(0, -1), 0, 0.1, 1, 1.5, 2, 1 << 24, 1 << 53, 1 << 63, 1e300, math.Inf(1), math.NaN()})
	genDec = rapid.SampledFrom([]int64{-150, -100, -1, 0, 1, 10, 100, 150, 200, 300})
	genStr = rapid.SampledFrom([]string{"", "a", "ab", "abc", "a%", "a_", "b", "é", "\U0001F600", "\uFFFD", "A", "a\nb"})
	genDay = rapid.SampledFrom([]int64{-1, 0, 1, 19723})
	genUs  = rapid.SampledFrom([]int64{-1, 0, 1, 5 * 3600e6, microsPerDay, microsPerDay - 1, 19723 * microsPerDay, 19723*microsPerDay + 5*3600e6})
)

func rat(unscaled int64, scale int) *big.Rat {
	return new(big.Rat).SetFrac(big.NewInt(unscaled), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
}

func genRow(t *rapid.T) row {
	r := row{}
	put := func(name string, v any) {
		if rapid.IntRange(0, 4).Draw(t, "null") > 0 {
			r[name] = v
		}
	}
	put("i8", rat(genInt.Draw(t, "i8"), 0))
	put("i16", rat(genInt.Draw(t, "i16"), 0))
	put("i32", rat(genInt.Draw(t, "i32"), 0))
	put("i64", rat(genI64.Draw(t, "i64"), 0))
	put("f32", float64(float32(genF.Draw(t, "f32"))))
	put("f64", genF.Draw(t, "f64"))
	put("dec", rat(genDec.Draw(t, "dec"), 2))
	put("Big Dec", rat(genDec.Draw(t, "big"), 20))
	put("s.t", genStr.Draw(t, "s"))
	put("bin", []byte(genStr.Draw(t, "bin")))
	put("b", rapid.Bool().Draw(t, "b"))
	put("d", days(genDay.Draw(t, "d")))
	put("ts", micros(genUs.Draw(t, "ts")))
	put("ntz", localMicros(genUs.Draw(t, "ntz")))
	if rapid.IntRange(0, 3).Draw(t, "struct") > 0 {
		r["st"] = true
		put("st.x", rat(genInt.Draw(t, "x"), 0))
		put("st.s", genStr.Draw(t, "s"))
	}
	return r
}

func unscaled(v any, scale int) *big.Int {
	x := new(big.Rat).Mul(v.(*big.Rat), rat(1, 0).SetInt(pow10(scale)))
	return x.Num()
}

// appendValue puts an oracle value into a builder.
func appendValue(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(unscaled(v, 0).Int64()))
	case *array.Int16Builder:
		b.Append(int16(unscaled(v, 0).Int64()))
	case *array.Int32Builder:
		b.Append(int32(unscaled(v, 0).Int64()))
	case *array.Int64Builder:
		b.Append(unscaled(v, 0).Int64())
	case *array.Float32Builder:
		b.Append(float32(v.(float64)))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromBigInt(unscaled(v, int(b.Type().(*arrow.Decimal128Type).Scale))))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.(days)))
	case *array.TimestampBuilder:
		switch v := v.(type) {
		case micros:
			b.Append(arrow.Timestamp(v))
		case localMicros:
			b.Append(arrow.Timestamp(v))
		}
	}
}

func recordOf(rows []row) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, oracleSchema)
	defer b.Release()
	for _, r := range rows {
		for i, f := range oracleSchema.Fields() {
			if f.Name != "st" {
				appendValue(b.Field(i), r[f.Name])
				continue
			}
			sb := b.Field(i).(*array.StructBuilder)
			sb.AppendValues([]bool{r["st"] != nil})
			if r["st"] == nil { // values below a NULL struct must not show
				appendValue(sb.FieldBuilder(0), rat(1, 0))
				appendValue(sb.FieldBuilder(1), "a")
				continue
			}
			appendValue(sb.FieldBuilder(0), r["st.x"])
			appendValue(sb.FieldBuilder(1), r["st.s"])
		}
	}
	return b.NewRecordBatch()
}

// toFloat is what a number is as double.
func toFloat(v any) float64 {
	if r, ok := v.(*big.Rat); ok {
		f, _ := r.Float64()
		return f
	}
	return v.(float64)
}

func oracleCompare(a, b any) int {
	instant := func(v any) int64 {
		switch v := v.(type) {
		case days:
			return int64(v)*microsPerDay + 5*3600e6
		case localMicros:
			return int64(v) + 5*3600e6
		}
		return int64(v.(micros))
	}
	switch x := a.(type) {
	case *big.Rat:
		if y, ok := b.(*big.Rat); ok {
			return x.Cmp(y)
		}
		return oracleFloat(toFloat(a), toFloat(b))
	case float64:
		return oracleFloat(x, toFloat(b))
	case string:
		return bytes.Compare([]byte(x), []byte(b.(string)))
	case []byte:
		return bytes.Compare(x, b.([]byte))
	case bool:
		return cmp.Compare(map[bool]int{true: 1}[x], map[bool]int{true: 1}[b.(bool)])
	}
	_, zoned := a.(micros)
	if _, z := b.(micros); z || zoned {
		return cmp.Compare(instant(a), instant(b))
	}
	wall := func(v any) int64 {
		if d, ok := v.(days); ok {
			return int64(d) * microsPerDay
		}
		return int64(v.(localMicros))
	}
	return cmp.Compare(wall(a), wall(b))
}

func oracleFloat(x, y float64) int {
	if x != x || y != y {
		return cmp.Compare(map[bool]int{true: 1}[x != x], map[bool]int{true: 1}[y != y])
	}
	if x < y {
		return -1
	}
	return map[bool]int{true: 1}[x > y]
}

func genColumn(t *rapid.T) operandGen {
	cols := []operandGen{
		{sql: "i8", kind: "num"},
		{sql: "I16", kind: "num"},
		{sql: "i32", kind: "num"},
		{sql: "i64", kind: "num"},
		{sql: "f32", kind: "num", dbl: true},
		{sql: "f64", kind: "num", dbl: true},
		{sql: "dec", kind: "num"},
		{sql: "`Big Dec`", kind: "num"},
		{sql: "`s.t`", kind: "str"},
		{sql: "bin", kind: "bin"},
		{sql: "b", kind: "bool"},
		{sql: "d", kind: "date"},
		{sql: "ts", kind: "ts"},
		{sql: "ntz", kind: "ntz"},
		{sql: "st.x", kind: "num"},
		{sql: "St.S", kind: "str"},
	}
	o := rapid.SampledFrom(cols).Draw(t, "column")
	key := map[string]string{"I16": "i16", "St.S": "st.s"}[o.sql]
	if key == "" {
		key = strings.Trim(o.sql, "`")
	}
	o.at = func(r row) any { return r[key] }
	return o
}

// genLiteralFor draws a constant comparable with kind; quoted says that it may
// be a string that is read as the column's type.
func genLiteralFor(t *rapid.T, kind, column string) operandGen {
	mk := func(sql, k string, v any) operandGen {
		_, dbl := v.(float64)
		return operandGen{sql: sql, kind: k, at: func(row) any { return v }, dbl: dbl}
	}
	quoted := rapid.IntRange(0, 3).Draw(t, "quoted") == 0
	switch kind {
	case "num":
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			n := genI64.Draw(t, "lit")
			s := fmt.Sprint(n)
			if quoted && strings.HasPrefix(strings.ToLower(column), "i") {
				s = "' " + s + "'"
			}
			return mk(s, kind, rat(n, 0))
		case 1:
			n := genDec.Draw(t, "lit")
			return mk(rat(n, 2).FloatString(2), kind, rat(n, 2))
		case 2:
			n := genDec.Draw(t, "lit")
			return mk(rat(n, 20).FloatString(21), kind, rat(n, 20))
		}
		f := genF.Draw(t, "lit")
		if math.IsNaN(f) || math.IsInf(f, 0) {
			if column != "f64" && column != "f32" {
				return mk("1.5e0", kind, 1.5)
			}
			return mk(fmt.Sprintf("'%v'", f), kind, f)
		}
		return mk(strconv.FormatFloat(f, 'e', -1, 64), kind, f)
	case "str":
		s := genStr.Draw(t, "lit")
		return mk(quoteString(s), kind, s)
	case "bin":
		s := genStr.Draw(t, "lit")
		return mk(fmt.Sprintf("X'%X'", s), kind, []byte(s))
	case "bool":
		b := rapid.Bool().Draw(t, "lit")
		if quoted {
			return mk(fmt.Sprintf("'%v'", b), kind, b)
		}
		return mk(fmt.Sprint(b), kind, b)
	}
	us := genUs.Draw(t, "lit")
	at := time.UnixMicro(us).UTC()
	switch k := rapid.SampledFrom([]string{"date", "ts", "ntz"}).Draw(t, "time"); {
	case quoted && kind == "ts":
		return mk(at.Format("'2006-01-02T15:04:05.000000Z'"), kind, micros(us))
	case quoted && kind == "ntz":
		return mk(at.Format("'2006-01-02 15:04:05.000000'"), kind, localMicros(us))
	case quoted && kind == "date", k == "date":
		d := genDay.Draw(t, "day")
		sql := time.Unix(d*86400, 0).UTC().Format("'2006-01-02'")
		if k == "date" {
			return mk("DATE "+sql, "date", days(d))
		}
		return mk(sql, "date", days(d))
	case k == "ts":
		if rapid.Bool().Draw(t, "zoned") {
			return mk(at.In(oracleZone).Format("TIMESTAMP '2006-01-02 15:04:05.000000'"), "ts", micros(us))
		}
		return mk(at.Format("TIMESTAMP '2006-01-02T15:04:05.000000+00:00'"), "ts", micros(us))
	default:
		return mk(at.Format("TIMESTAMP_NTZ '2006-01-02 15:04:05.000000'"), "ntz", localMicros(us))
	}
}

var timeKinds = []string{"date", "ts", "ntz"}

// genPeer draws something that may be compared with x.
func genPeer(t *rapid.T, x operandGen) operandGen {
	switch rapid.IntRange(0, 5).Draw(t, "peer") {
	case 0:
		return operandGen{sql: "NULL", kind: "null", at: func(row) any { return nil }}
	case 1:
		for range 8 {
			o := genColumn(t)
			if o.kind == x.kind || slices.Contains(timeKinds, o.kind) && slices.Contains(timeKinds, x.kind) {
				return o
			}
		}
	}
	return genLiteralFor(t, x.kind, x.sql)
}

func truth(b bool) uint8 { return map[bool]uint8{true: isTrue}[b] }

func genCompare(t *rapid.T) condition {
	x := genColumn(t)
	y := genPeer(t, x)
	ops := map[string]func(c int) bool{
		"=": func(c int) bool { return c == 0 }, "==": func(c int) bool { return c == 0 }, "!=": func(c int) bool { return c != 0 },
		"<>": func(c int) bool { return c != 0 }, "<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
		">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 }, "<=>": nil,
	}
	op := rapid.SampledFrom([]string{"=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>"}).Draw(t, "op")
	if rapid.Bool().Draw(t, "swap") && !strings.HasPrefix(y.sql, "'") {
		x, y = y, x
	}
	return condition{x.sql + " " + op + " " + y.sql, func(r row) uint8 {
		a, b := x.at(r), y.at(r)
		switch {
		case op == "<=>" && (a == nil || b == nil):
			return truth(a == nil && b == nil)
		case a == nil || b == nil:
			return isNull
		case op == "<=>":
			return truth(oracleCompare(a, b) == 0)
		}
		return truth(ops[op](oracleCompare(a, b)))
	}}
}

func genIn(t *rapid.T) condition {
	x := genColumn(t)
	not := rapid.Bool().Draw(t, "not")
	dbl, sql := x.dbl, []string{}
	var list []operandGen
	for range rapid.IntRange(1, 4).Draw(t, "n") {
		o := genPeer(t, x)
		list, sql, dbl = append(list, o), append(sql, o.sql), dbl || o.dbl
	}
	word := map[bool]string{true: " NOT IN ", false: " IN "}[not]
	return condition{x.sql + word + "(" + strings.Join(sql, ", ") + ")", func(r row) uint8 {
		a, out := x.at(r), isFalse
		for _, o := range list {
			b := o.at(r)
			switch {
			case a == nil || b == nil:
				out = max(out, isNull)
			case dbl:
				out = max(out, truth(oracleFloat(toFloat(a), toFloat(b)) == 0))
			default:
				out = max(out, truth(oracleCompare(a, b) == 0))
			}
		}
		if not {
			out = isTrue - out
		}
		return out
	}}
}

// oracleLike is LIKE by recursion over characters, with ! as escape.
func oracleLike(s, p []rune) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] == '%':
		return oracleLike(s, p[1:]) || len(s) > 0 && oracleLike(s[1:], p)
	case p[0] == '!':
		return len(s) > 0 && s[0] == p[1] && oracleLike(s[1:], p[2:])
	}
	return len(s) > 0 && (p[0] == '_' || p[0] == s[0]) && oracleLike(s[1:], p[1:])
}

func genLike(t *rapid.T) condition {
	var pat string
	for range rapid.IntRange(0, 4).Draw(t, "n") {
		pat += rapid.SampledFrom([]string{"a", "b", "é", "%", "_", "!%", "!_", "!!", "\n"}).Draw(t, "piece")
	}
	return condition{"`s.t` LIKE " + quoteString(pat) + " ESCAPE '!'", func(r row) uint8 {
		s, ok := r["s.t"].(string)
		if !ok {
			return isNull
		}
		return truth(oracleLike([]rune(s), []rune(pat)))
	}}
}

func genCondition(t *rapid.T, depth int) condition {
	most := 9
	if depth == 0 {
		most = 4
	}
	if rapid.IntRange(0, 4).Draw(t, "family") == 0 {
		return genComputed(t)
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		o := genColumn(t)
		not := rapid.Bool().Draw(t, "not")
		return condition{o.sql + map[bool]string{true: " IS NOT NULL", false: " IS NULL"}[not], func(r row) uint8 { return truth((o.at(r) == nil) != not) }}
	case 1:
		return genIn(t)
	case 2:
		return genLike(t)
	case 3:
		return condition{"b", func(r row) uint8 {
			if v, ok := r["b"].(bool); ok {
				return truth(v)
			}
			return isNull
		}}
	case 4, 5:
		return genCompare(t)
	case 6:
		c := genCondition(t, depth-1)
		return condition{"NOT (" + c.sql + ")", func(r row) uint8 { return isTrue - c.at(r) }}
	case 7:
		c, want := genCondition(t, depth-1), rapid.SampledFrom([]uint8{isFalse, isNull, isTrue}).Draw(t, "want")
		return condition{"(" + c.sql + ") IS " + []string{"FALSE", "UNKNOWN", "TRUE"}[want], func(r row) uint8 { return truth(c.at(r) == want) }}
	}
	l, r := genCondition(t, depth-1), genCondition(t, depth-1)
	if rapid.Bool().Draw(t, "or") {
		return condition{"(" + l.sql + ") OR (" + r.sql + ")", func(x row) uint8 { return max(l.at(x), r.at(x)) }}
	}
	return condition{"(" + l.sql + ") AND (" + r.sql + ")", func(x row) uint8 { return min(l.at(x), r.at(x)) }}
}

// boundsOf gives what statistics of these rows may say, some of it unknown,
// some of it wider than need be.
func boundsOf(t *rapid.T, rows []row) boundsFunc {
	known := map[string]ordered.Bounds{}
	rec := recordOf(rows)
	for i, f := range oracleSchema.Fields() {
		b := ordered.Unknown()
		if f.Name == "st" || rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
			known[f.Name] = b
			continue
		}
		var nulls int64
		for j := range rows {
			if rec.Column(i).IsNull(j) {
				nulls++
				continue
			}
			form := ordered.Append(nil, rec.Column(i), j)
			if b.Min == nil || bytes.Compare(form, b.Min) < 0 {
				b.Min = form
			}
			if b.Max == nil || bytes.Compare(form, b.Max) > 0 {
				b.Max = form
			}
		}
		b.NullCount, b.Rows = nulls, int64(len(rows))
		b.Exact = bytes.Equal(b.Min, b.Max) && (nulls == 0 || nulls == b.Rows)
		switch rapid.IntRange(0, 8).Draw(t, "less") {
		case 0:
			b.NullCount, b.Exact = -1, false
		case 1:
			b.Rows, b.Exact = -1, false
		case 2:
			b.Min, b.Exact = nil, false
		case 3:
			b.Max, b.Exact = nil, false
		}
		known[f.Name] = b
	}
	return func(column string) ordered.Bounds { return known[column] }
}

func TestEvaluatorAndSkippingAgainstOracle(t *testing.T) {
	var skipped, kept, conditions int
	rounds := 50
	if os.Getenv("DELTAFOLD_SOAK") != "" {
		rounds = 1000
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(genRow), 1, 12).Draw(t, "rows")
		if rapid.Bool().Draw(t, "constant") { // one row many times: tight bounds
			for i := range rows {
				rows[i] = rows[0]
			}
		}
		rec := recordOf(rows)
		if cut := rapid.IntRange(0, len(rows)-1).Draw(t, "cut"); cut > 0 { // arrays with offsets
			rec, rows = rec.NewSlice(int64(cut), int64(len(rows))), rows[cut:]
		}
		bounds := boundsOf(t, rows)
		for range rounds {
			c := genCondition(t, 3)
			e, err := Parse(c.sql)
			if err != nil {
				t.Fatalf("%s: %v", c.sql, err)
			}
			b, err := BindWith(e, oracleSchema, &Options{Zone: oracleZone})
			if err != nil {
				t.Fatalf("%s: %v", c.sql, err)
			}
			got, err := b.Filter(rec)
			if err != nil {
				t.Fatalf("%s: %v", c.sql, err)
			}
			p, _ := asPred(b.root)
			possible, any := p.possible(bounds), false
			for i, r := range rows {
				v := truth(got.Value(i))
				if got.IsNull(i) {
					v = isNull
				}
				want := c.at(r)
				if v != want {
					t.Fatalf("%s\n for %v: got %d, want %d", c.sql, r, v, want)
				}
				if got.IsNull(i) && got.Value(i) {
					t.Fatalf("%s: a NULL has the value true", c.sql)
				}
				if possible>>want&1 == 0 {
					t.Fatalf("%s\n for %v: %d, which the statistics are said to exclude (%03b)", c.sql, r, want, possible)
				}
				any = any || want == isTrue
			}
			conditions++
			if b.MayMatch(bounds) {
				kept++
			} else {
				skipped++
				if any {
					t.Fatalf("%s: a row matches, and the file was skipped", c.sql)
				}
			}
			if !b.MayMatch(func(string) ordered.Bounds { return ordered.Bounds{} }) && any {
				t.Fatalf("%s: skipped on zero bounds", c.sql)
			}
		}
	})
	t.Logf("%d conditions: %d files kept, %d skipped", conditions, kept, skipped)
	if skipped*20 < conditions {
		t.Errorf("only %d of %d conditions skipped a file", skipped, conditions)
	}
}
