package changefile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
)

func jsonString(s string) (string, error) {
	b, err := jsontext.AppendQuote(nil, s)
	return string(b), err
}

// FuzzJSONL holds the scanner against jsontext: what that refuses must be
// refused; what is accepted must have exactly the values that it sees; what the
// writer makes of it must read back as the same.
func FuzzJSONL(f *testing.F) {
	for _, c := range refused {
		f.Add([]byte(c.in))
	}
	for _, c := range accepted {
		f.Add([]byte(c.in))
	}
	sch := everyType()
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, unknown := range []bool{false, true} {
			o := &changefile.Options{Schema: sch, AllowUnknown: unknown}
			got, err := changefile.Read(context.Background(), changefile.FromBytes("f.jsonl", data), o)
			if err != nil {
				var ie *changefile.InputError
				if !errors.As(err, &ie) {
					t.Fatalf("%q: %v is no InputError", data, err)
				}
				if strings.Contains(err.Error(), "malformed JSON") && wellFormed(data) {
					t.Fatalf("%q is well-formed, yet: %v", data, err)
				}
				continue
			}
			if !wellFormed(data) {
				t.Fatalf("%q is malformed, yet read as %v", data, got.Records)
			}
			sameValues(t, data, got)
			text := write(t, rowfile.JSONL, sch, got.Records...)
			again := read(t, "f.jsonl", text, o)
			if back := write(t, rowfile.JSONL, sch, again.Records...); !bytes.Equal(text, back) {
				t.Fatalf("%q: written as %s, read back as %s", data, text, back)
			}
		}
	})
}

// objectLines cuts data as JSON Lines.
func objectLines(data []byte) [][]byte {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var out [][]byte
	for l := range bytes.SplitSeq(data, []byte("\n")) {
		if l = bytes.Trim(l, " \t\r"); len(l) > 0 {
			out = append(out, l)
		}
	}
	return out
}

func wellFormed(data []byte) bool {
	for _, l := range objectLines(data) {
		if !jsontext.Value(l).IsValid() {
			return false
		}
	}
	return true
}

// sameValues checks integers, strings, floats and decimals against the standard
// library's reading of the same line.
func sameValues(t *testing.T, data []byte, got *changefile.File) {
	lines := objectLines(data)
	if int64(len(lines)) != got.Rows {
		t.Fatalf("%q has %d lines, read as %d rows", data, len(lines), got.Rows)
	}
	row := 0
	for _, rec := range got.Records {
		for i := range int(rec.NumRows()) {
			members := map[string]any{}
			dec := json.NewDecoder(bytes.NewReader(lines[row]))
			dec.UseNumber()
			if err := dec.Decode(&members); err != nil {
				t.Fatalf("%s: %v", lines[row], err)
			}
			row++
			seen := map[string]any{}
			for name, v := range members {
				seen[strings.ToLower(name)] = v
			}
			for c, f := range rec.Schema().Fields() {
				if col := rec.Column(c); !plausible(seen[f.Name], col, i) {
					t.Fatalf("%s: column %s was read as %s", lines[row-1], f.Name, rowfile.JSON(col, i))
				}
			}
		}
	}
}

func plausible(want any, col arrow.Array, i int) bool {
	text := rowfile.Format(col, i)
	if want == nil {
		return text == "NULL"
	}
	switch col.DataType().ID() {
	case arrow.BOOL:
		return want == (text == "true")
	case arrow.STRING:
		return want == text
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		n, ok := want.(json.Number)
		return ok && (string(n) == text || n == "-0" && text == "0")
	case arrow.DECIMAL128:
		var s string
		switch w := want.(type) {
		case json.Number:
			s = string(w)
		case string:
			s = w
		}
		if at := strings.IndexAny(s, "eE"); at >= 0 && len(s)-at > 5 {
			return true // too large for big.Rat; zero, if anything
		}
		a, ok1 := new(big.Rat).SetString(s)
		b, ok2 := new(big.Rat).SetString(text)
		return ok1 && ok2 && a.Cmp(b) == 0
	}
	return true
}
