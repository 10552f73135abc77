package changefile_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
)

// asJSONL reads CSV and gives the rows as JSON Lines, or the error.
func asJSONL(t *testing.T, in string, o *changefile.Options) string {
	t.Helper()
	f, err := changefile.Read(t.Context(), changefile.FromBytes("f.csv", []byte(in)), o)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(write(t, rowfile.JSONL, o.Schema, f.Records...))
}

func textAndNumber() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}, {Name: "N", Type: arrow.PrimitiveTypes.Int64}}, nil)
}

func TestCSVRecords(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "s,N\na,1\nb,-2\n", `{"s":"a","N":1}` + "\n" + `{"s":"b","N":-2}` + "\n"},
		{"no final line end", "s,N\na,1", `{"s":"a","N":1}` + "\n"},
		{"CRLF", "s,N\r\na,1\r\n", `{"s":"a","N":1}` + "\n"},
		{"byte order mark", "\ufeffs,N\na,1\n", `{"s":"a","N":1}` + "\n"},
		{"columns in another order and case", "n,S\n1,a\n", `{"s":"a","N":1}` + "\n"},
		{"a column is missing", "n\n1\n", `{"s":null,"N":1}` + "\n"},
		{"NULL and empty", "s,N\n,\n\"\",1\n", `{"s":null,"N":null}` + "\n" + `{"s":"","N":1}` + "\n"},
		{"quoted number", "s,N\na,\"1\"\n", `{"s":"a","N":1}` + "\n"},
		{"quotes, commas, line ends", "s,N\n\"a\"\"b,\r\nc\nd\",1\n", `{"s":"a\"b,\r\nc\nd","N":1}` + "\n"},
		{"spaces belong to the field", "s,N\n a ,1\n", `{"s":" a ","N":1}` + "\n"},
		{"blank lines", "s,N\n\na,1\n\r\n\n", `{"s":"a","N":1}` + "\n"},
		{"a blank line of one column is NULL", "s\na\n\n", `{"s":"a","N":null}` + "\n" + `{"s":null,"N":null}` + "\n"},
		{"header only", "s,N\n", ""},
		{"NULL as text", "s,N\nNULL,1\n", `{"s":"NULL","N":1}` + "\n"},

		{"empty file", "", `error: f.csv: the file is empty: CSV begins with a header that names the columns`},
		{"unknown column", "s,x\na,1\n", `error: f.csv:1: x: unknown column in the header`},
		{"column twice", "s,N,S\na,1,b\n", `error: f.csv:1: S: the header names column s twice`},
		{"too few fields", "s,N\na,1\nb\n", `error: f.csv:3: the row has 1 field, the header 2`},
		{"too many fields", "s,N\na,1,\n", `error: f.csv:2: the row has 3 fields, the header 2`},
		{"quote inside", "s,N\na\"b,1\n", `error: f.csv:2: a"b: a quote stands inside a field that is not quoted`},
		{"text behind the quote", "s,N\n\"a\"b,1\n", `error: f.csv:2: b,1: there is more in the field behind the closing quote`},
		{"open quote", "s,N\na,1\n\"b,2\nc,3\n", `error: f.csv:3: b,2\u000ac,3\u000a: the quoted field has no end`},
		{"bare carriage return", "s,N\na\rb,1\n", `error: f.csv:2: \u000db,1\u000a: a carriage return stands outside quotes and does not end the line`},
		{"invalid UTF-8", "s,N\n\xff,1\n", `error: f.csv:2: column s: \xff: invalid UTF-8`},
		{"invalid UTF-8 in the header", "\xff,N\n", `error: f.csv:1: \xff: invalid UTF-8 in the header`},
		{"line of a value behind a long row", "s,N\n\"a\n\nb\",1\nc,x\n", `error: f.csv:5: column N: x: a long takes an integer`},
		{"line of a value in a long row", "s,N\n\"a\nb\",x\n", `error: f.csv:3: column N: x: a long takes an integer`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, asJSONL(t, c.in, &changefile.Options{Schema: textAndNumber()})); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestCSVUnknownColumnsAllowed(t *testing.T) {
	o := &changefile.Options{Schema: textAndNumber(), AllowUnknown: true}
	if got, want := asJSONL(t, "x,s,y\n\"\",a,\xff\n", o), `{"s":"a","N":null}`+"\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if got, want := asJSONL(t, "x,s,X\n1,a,2\n", o), `error: f.csv:1: X: the header names column x twice`; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func TestCSVSaysWhichColumnsThereAreAndWhere(t *testing.T) {
	f := read(t, "f.csv", []byte("n\n1\n\n\"3\"\n"), &changefile.Options{Schema: arrow.NewSchema(append(textAndNumber().Fields(), arrow.Field{Name: "z", Type: arrow.Null}), nil)})
	if d := cmp.Diff(map[string]bool{"N": true}, f.Present); d != "" || f.Rows != 3 {
		t.Errorf("%d rows, present (-want +got):\n%s", f.Rows, d)
	}
	f = read(t, "f.csv", []byte("s,n\n\"a\nb\",1\n\nc,2\n"), &changefile.Options{Schema: textAndNumber()})
	if got := []int64{f.Line(0), f.Line(1)}; !slices.Equal(got, []int64{2, 5}) {
		t.Errorf("lines %v", got)
	}
}

// Each type has the strictness of JSON Lines.
func TestCSVValues(t *testing.T) {
	for _, c := range []struct{ column, field, want string }{
		{"bool", "true", `true`},
		{"bool", "false", `false`},
		{"bool", `""`, `: a boolean takes true or false`},
		{"bool", "True", `True: a boolean takes true or false`},
		{"bool", "1", `1: a boolean takes true or false`},
		{"byte", "-128", `-128`},
		{"byte", "128", `128: it does not fit a byte (-128 to 127)`},
		{"id", "9223372036854775807", `9223372036854775807`},
		{"id", "9223372036854775808", `9223372036854775808: it does not fit a long (-9223372036854775808 to 9223372036854775807)`},
		{"id", "1.0", `1.0: a long takes an integer without fraction or exponent`},
		{"id", "1e3", `1e3: a long takes an integer without fraction or exponent`},
		{"id", " 1", ` 1: a long takes an integer`},
		{"id", "+1", `+1: a long takes an integer`},
		{"id", "01", `01: a long takes an integer`},
		{"id", "1_000", `1_000: a long takes an integer`},
		{"id", "NaN", `NaN: a long takes an integer`},
		{"id", "null", `null: a long takes an integer`},
		{"id", `""`, `: a long takes an integer`},
		{"double", "0.1", `0.1`},
		{"double", "1e3", `1000.0`},
		{"double", "NaN", `"NaN"`},
		{"double", "Infinity", `"Infinity"`},
		{"float", "-Infinity", `"-Infinity"`},
		{"double", "1e999", `1e999: it does not fit a double`},
		{"double", "inf", `inf: a double takes a number, NaN, Infinity or -Infinity`},
		{"float", "0x1", `0x1: a float takes a number, NaN, Infinity or -Infinity`},
		{"dec", "12.30", `"12.30"`},
		{"dec", "12.300", `"12.30"`},
		{"dec", "12.345", `12.345: it has digits beyond the scale of decimal(10,2)`},
		{"dec", "NaN", `NaN: decimal(10,2) takes a number`},
		{"dec", `"1,5"`, `1,5: decimal(10,2) takes a number`},
		{"big", "99999999999999999999999999999999999999", `"99999999999999999999999999999999999999"`},
		{"str", `"a,""b"""`, `"a,\"b\""`},
		{"str", `\n`, `"\\n"`},
		{"bin", "00ff", `"00ff"`},
		{"bin", `""`, `""`},
		{"bin", "00FF", `00FF: a binary takes a string of lower-case hexadecimal digits, two for each byte`},
		{"bin", `\u0030`, `\u0030: a binary takes lower-case hexadecimal digits, two for each byte`},
		{"date", "2024-02-29", `"2024-02-29"`},
		{"date", "2023-02-29", `2023-02-29: there is no such day`},
		{"date", "29.02.2024", `29.02.2024: a date takes a string YYYY-MM-DD`},
		{"ts", "2024-01-31 12:00:00+02:00", `"2024-01-31T10:00:00.000000Z"`},
		{"ntz", "2024-01-31T12:00:00.5", `"2024-01-31T12:00:00.500000"`},
		{"void", "x", `x: a void column takes only empty fields`},
		{"list", `"[1, null]"`, `[1,null]`},
		{"list", "[]", `[]`},
		{"list", "null", `null: NULL is an empty field`},
		{"list", "[1]x", `x: there is more in the field behind the value`},
		{"full", "[null]", `column full.element: null: it is declared not null`},
		{"map", `"{""$map"":[[""a"",1]]}"`, `{"$map":[["a",1]]}`},
		{"map", `"{""$map"":[[""a"",1],[""a"",2]]}"`, `a: the key stands twice in one map`},
		{"st", `"{""x"":1}"`, `{"x":1,"y":null}`},
		{"st", `"{""z"":1}"`, `"z": unknown field`},
	} {
		i := everyType().FieldIndices(c.column)[0]
		o := &changefile.Options{Schema: arrow.NewSchema([]arrow.Field{everyType().Field(i)}, nil)}
		want := `{"` + c.column + `":` + c.want + "}\n"
		got := asJSONL(t, c.column+"\n"+c.field+"\n", o)
		if rest, failed := strings.CutPrefix(got, "error: f.csv:2: "); failed {
			got, want = strings.TrimPrefix(rest, "column "+c.column+": "), strings.TrimPrefix(c.want, ": ")
		}
		if got != want {
			t.Errorf("%s %s\n got %s\nwant %s", c.column, c.field, got, want)
		}
	}
}

func TestCSVTakesTheZone(t *testing.T) {
	i := everyType().FieldIndices("ts")[0]
	o := &changefile.Options{Schema: arrow.NewSchema([]arrow.Field{everyType().Field(i)}, nil)}
	if got := asJSONL(t, "ts\n2024-01-31T12:00:00\n", o); !strings.Contains(got, "2024-01-31T12:00:00: ") {
		t.Errorf("a time without zone was read as %s", got)
	}
	var err error
	if o.Zone, err = time.LoadLocation("Europe/Berlin"); err != nil {
		t.Fatal(err)
	}
	if got, want := asJSONL(t, "ts\n2024-01-31T12:00:00\n", o), `{"ts":"2024-01-31T11:00:00.000000Z"}`+"\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

// Lines longer than the reader's buffer, and more rows than a batch.
func TestCSVLongLinesAndManyRows(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	f := read(t, "f.csv", []byte("s,n\n"+long+",1\n\""+long+"\n"+long+"\",2\n"), &changefile.Options{Schema: textAndNumber()})
	if got, want := string(write(t, rowfile.JSONL, textAndNumber(), f.Records...)), `{"s":"`+long+`","N":1}`+"\n"+`{"s":"`+long+`\n`+long+`","N":2}`+"\n"; got != want {
		t.Error("long values changed")
	}
	f = read(t, "f.csv", []byte("s,n\n"+strings.Repeat("a,1\n", changefile.BatchRows+1)), &changefile.Options{Schema: textAndNumber()})
	if f.Rows != changefile.BatchRows+1 || len(f.Records) != 2 {
		t.Errorf("%d rows in %d batches", f.Rows, len(f.Records))
	}
}

func TestCSVNeedsASchema(t *testing.T) {
	_, err := changefile.Read(t.Context(), changefile.FromBytes("f.csv", []byte("a\n1\n")), nil)
	if got, want := err.Error(), "read f.csv: CSV needs a schema: types of text inputs are never guessed"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

// FuzzCSV: whatever is refused is an InputError; what encoding/csv cannot read is
// refused; what is accepted has as many rows and, in text columns, the values that
// encoding/csv sees; and it survives being written and read again.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{
		"str,id\na,1\n", "str\n\n\"\"\n", "str,double\n\"a\"\"b\r\n,c\",NaN\n", "id\r\n1\r\n", "str,id\na\n", "\ufeffstr\nx",
		"list,map,st\n\"[1,null]\",\"{\"\"$map\"\":[[\"\"a\"\",1]]}\",\"{\"\"x\"\":1}\"\n", "date,ts,ntz,bin,dec,bool\n2024-01-01,2024-01-01T00:00:00Z,2024-01-01T00:00:00,00ff,1.50,true\n",
		"str,str\n1,2\n", "str\n\"a", "str\na\"b\n", "str\n\"a\"b\n", "str\ra\n",
	} {
		f.Add([]byte(s))
	}
	sch := everyType()
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &changefile.Options{Schema: sch}
		got, err := changefile.Read(context.Background(), changefile.FromBytes("f.csv", data), o)
		if err != nil {
			if _, ok := errors.AsType[*changefile.InputError](err); !ok {
				t.Fatalf("%q: %v is no InputError", data, err)
			}
			return
		}
		sameFields(t, data, got)
		text := write(t, rowfile.CSV, sch, got.Records...)
		again := read(t, "f.csv", text, o)
		if back := write(t, rowfile.CSV, sch, again.Records...); !bytes.Equal(text, back) {
			t.Fatalf("%q: written as %s, read back as %s", data, text, back)
		}
		if a, b := changefile.Digest([]*changefile.File{got}), changefile.Digest([]*changefile.File{again}); a != b {
			t.Fatalf("%q: digest %s became %s", data, a, b)
		}
	})
}

// sameFields compares with encoding/csv, but for what that one does otherwise:
// it skips blank lines and turns CRLF into LF.
func sameFields(t *testing.T, data []byte, got *changefile.File) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	recs, err := r.ReadAll()
	if err != nil {
		t.Fatalf("%q was read, encoding/csv says %v", data, err)
	}
	blank := len(recs) > 0 && len(recs[0]) == 1
	if !blank && int64(len(recs)-1) != got.Rows {
		t.Fatalf("%q: %d rows, encoding/csv has %d", data, got.Rows, len(recs)-1)
	}
	var want, seen []string
	for k, name := range recs[0] {
		if !strings.EqualFold(name, "str") {
			continue
		}
		for _, rec := range recs[1:] {
			if rec[k] != "" {
				want = append(want, rec[k])
			}
		}
		for _, rec := range got.Records {
			c := rec.Column(rec.Schema().FieldIndices("str")[0])
			for i := range c.Len() {
				if text := rowfile.Format(c, i); c.IsValid(i) && text != "" {
					seen = append(seen, strings.ReplaceAll(text, "\r\n", "\n"))
				}
			}
		}
	}
	if d := cmp.Diff(want, seen); d != "" {
		t.Fatalf("%q (-encoding/csv +got)\n%s", data, d)
	}
}
