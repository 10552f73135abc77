package expr

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

func mustParse(t testing.TB, s string) Expr {
	t.Helper()
	e, err := Parse(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return e
}

func TestBindRefusesByNameAndPlace(t *testing.T) {
	for in, want := range map[string]string{
		"nope = 1":                     "SQL: there is no column nope; the columns are i8, i16, i32, i64, f32, f64, dec, `Big Dec`, `s.t`, bin, b, d, and 3 more, column 1 near \"nope\"",
		"st.nope = 1":                  "SQL: the struct has 0 fields nope; its fields are x, s, column 1 near \"st.nope\"",
		"i8.x = 1":                     "SQL: i8 is no struct but tinyint, column 1 near \"i8.x\"",
		"i32 = 'x'":                    "SQL: 'x' is no int, column 7 near \"'x'\"",
		"i32 IN (1, '1.5')":            "SQL: '1.5' is no int, column 12 near \"'1.5'\"",
		"d > '2024-02-30'":             "SQL: '2024-02-30' is no date, column 5 near \"'2024-02-30'\"",
		"ts > '2024-01-01 00:00:00'":   "SQL: the timestamp '2024-01-01 00:00:00' has no time zone, column 6 near \"'2024-01-01 00:00:00'\"",
		"ts > DATE '2024-01-01'":       "SQL: date beside a timestamp needs a time zone, and none is given, column 6 near \"DATE '2024-01-01'\"",
		"ntz > '2024-01-01T00:00:00Z'": "SQL: '2024-01-01T00:00:00Z' has a time zone, the type timestamp_ntz has none, column 7 near \"'2024-01-01T00:00:00Z'\"",
		"b = 'maybe'":                  "SQL: 'maybe' is no boolean, column 5 near \"'maybe'\"",
		"i8 AND b":                     "SQL: expected a condition, this is tinyint, column 1 near \"i8\"",
		"NOT `s.t`":                    "SQL: expected a condition, this is string, column 5 near \"`s.t`\"",
		"`s.t` LIKE 'a!b' ESCAPE '!'":  "SQL: in the LIKE pattern the escape character stands before something else than %, _ or itself, column 12 near \"'a!b'\"",
		"i8 = 300Y":                    "SQL: the number is out of range for its suffix, column 6 near \"300Y\"",
		"i8 = 1e999":                   "SQL: the number is out of range for double, column 6 near \"1e999\"",
		"i8 = 123456789012345678901234567890123456789": "SQL: the number has too many digits (at most 38), column 6 near \"123456789012345678901234567890123456789\"",
		"nope(i8)":                     "SQL: the function nope is not supported, column 1",
		"b AND\n rand() > 1":           "SQL: the function rand (its result differs from call to call) is not supported, line 2, column 2",
		"uuid() = 'a'":                 "SQL: the function uuid (its result differs from call to call) is not supported, column 1",
		"sum(i8) > 1":                  "SQL: the function sum (it is computed over several rows) is not supported, column 1",
		"count(*) > 1":                 "SQL: the aggregate function count is not supported, column 1",
		"current_timestamp() > ts":     "SQL: current_timestamp here (there is no time of a statement) is not supported, column 1",
		"transform(st, x -> x) = i8":   "SQL: a lambda (in transform) is not supported, column 15",
		"substring(`s.t`) = 'a'":       "SQL: substring takes 2 to 3 arguments, this has 1, column 1 near \"substring(`s.t`)\"",
		"`s.t` RLIKE '(?=a)'":          "SQL: the regular expression \"(?=a)\" is not one of RE2: error parsing regexp: invalid or unsupported Perl syntax: `(?=`, column 13 near \"'(?=a)'\"",
		"INTERVAL '1' DAY = i8":        "SQL: an INTERVAL that is not added to a date or timestamp is not supported, column 1",
		"d + INTERVAL 'x' DAY = d":     "SQL: no interval, column 5 near \"INTERVAL 'x' DAY\"",
		"d - d = i8":                   "SQL: the difference of dates and timestamps (an interval; datediff and unix_micros give numbers) is not supported, column 3",
		"CAST(i8 AS date) = d":         "SQL: tinyint cannot be cast to date, column 1 near \"CAST(i8 AS date)\"",
		"CAST(i8 AS char(3)) = 'a'":    "SQL: the type \"char\" is not supported, column 1 near \"CAST(i8 AS char(3))\"",
		"CAST(i8 AS decimal(39)) = 1":  "SQL: a decimal has 1 to 38 digits, of which none, some or all are a fraction, column 1 near \"CAST(i8 AS decimal(39))\"",
		"date_format(d, 'yyyy G')='a'": "SQL: G in the pattern 'yyyy G' is not supported, column 16",
		"b + 1 = 2":                    "SQL: boolean + int has no meaning, column 3 near \"b + 1\"",
		"ts = current_date":            "SQL: current_date here (there is no time of a statement) is not supported, column 6",
		"hour(ts) = 1":                 "SQL: a conversion between timestamp_ntz and timestamp needs a time zone, and none is given, column 6 near \"ts\"",
		"bin = X'0g'":                  "SQL: not hexadecimal digits, column 7 near \"X'0g'\"",
	} {
		_, err := Bind(mustParse(t, in), oracleSchema)
		var be *BindError
		var ue *UnsupportedError
		if !errors.As(err, &be) && !errors.As(err, &ue) {
			t.Errorf("%s: got %v (%T)", in, err, err)
			continue
		}
		if err.Error() != want {
			t.Errorf("%s: got\n %s, want\n %s", in, err, want)
		}
	}
}

func TestNamesExactFirstThenWithoutCase(t *testing.T) {
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int32}, {Name: "A", Type: arrow.BinaryTypes.String}, {Name: "B.c", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	for in, want := range map[string][]string{"A = 'x'": {"A"}, "a = 1": {"a"}, "`b.C` = 1 OR a = 2": {"B.c", "a"}} {
		b, err := Bind(mustParse(t, in), sch)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if d := cmp.Diff(want, b.Columns()); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
	sch = arrow.NewSchema([]arrow.Field{{Name: "ab", Type: arrow.PrimitiveTypes.Int32}, {Name: "AB", Type: arrow.PrimitiveTypes.Int32}}, nil)
	if _, err := Bind(mustParse(t, "Ab = 1"), sch); err == nil {
		t.Error("an ambiguous name was taken")
	}
}

func TestEvalGivesValues(t *testing.T) {
	rec := recordOf([]row{{"i32": rat(7, 0), "s.t": "x"}, {}})
	for in, want := range map[string]string{
		"i32":             "[7 (null)]",
		"`s.t`":           `["x" (null)]`,
		"1.50":            "[1.5 1.5]",
		"NULL":            "[(null) (null)]",
		"i32 > 5":         "[true (null)]",
		"i32 > 5 IS NULL": "[false true]",
		"X'0aff'":         `["\n\xff" "\n\xff"]`,
		"st.x":            "[(null) (null)]",
	} {
		b, err := Bind(mustParse(t, in), oracleSchema)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		arr, err := b.Eval(rec)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := arr.String(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestTimeTexts(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zone data: ", err)
	}
	for in, want := range map[string]string{
		"TIMESTAMP '2024-07-01'":                       "2024-06-30T22:00:00Z",
		"TIMESTAMP '2024-07-01 1:02'":                  "2024-06-30T23:02:00Z",
		"TIMESTAMP '2024-01-01T12:00:00.1234567'":      "2024-01-01T11:00:00.123456Z",
		"TIMESTAMP '2024-01-01 12:00:00-08:00'":        "2024-01-01T20:00:00Z",
		"TIMESTAMP '2024-01-01 12:00:00 UTC+1'":        "2024-01-01T11:00:00Z",
		"TIMESTAMP '2024-01-01 12:00:00 Asia/Kolkata'": "2024-01-01T06:30:00Z",
		"TIMESTAMP '1969-12-31 23:59:59.999999Z'":      "1969-12-31T23:59:59.999999Z",
		"TIMESTAMP_NTZ '2024-01-01 12:00:00.5'":        "2024-01-01T12:00:00.5Z",
	} {
		b, err := BindWith(mustParse(t, in), oracleSchema, &Options{Zone: berlin})
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		us := b.root.(*constant).i
		if got := time.UnixMicro(us).UTC().Format(time.RFC3339Nano); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// One batch of a million rows per turn, so that ns/op over 1e6 is ns a row.
func BenchmarkFilter(b *testing.B) {
	const rows = 1_000_000
	ib := array.NewInt64Builder(memory.DefaultAllocator)
	sb := array.NewStringBuilder(memory.DefaultAllocator)
	words := []string{"active", "deleted", "conflict"}
	for i := range rows {
		ib.Append(int64(i * 7919 % rows))
		sb.Append(words[i%3])
	}
	sch := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	rec := array.NewRecordBatch(sch, []arrow.Array{ib.NewArray(), sb.NewArray()}, rows)
	for _, sql := range []string{"n > 500000", "n > 500000.5", "s = 'active'", "s LIKE 'act%'", "n IN (1, 2, 3)", "n > 10 AND s <> 'deleted'", "n + 1 > 500000", "upper(s) = 'ACTIVE'", "CASE WHEN s = 'active' THEN n ELSE 0 END > 5"} {
		e, err := Parse(sql)
		if err != nil {
			b.Fatal(err)
		}
		bound, err := Bind(e, sch)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(sql, func(b *testing.B) {
			for b.Loop() {
				if _, err := bound.Filter(rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
