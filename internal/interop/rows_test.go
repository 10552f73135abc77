package interop

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// row is one row in the JSON encoding of deltafold's read command. Numbers are
// json.Number: they are compared by value, never by way of a float64 unless they
// are written as one.
type row map[string]any

// rows is a multiset.
type rows []row

// dataset is what a table is made of.
type dataset struct {
	columns     [][2]string // name, type in the words of Delta's DDL
	partitionBy []string
	properties  map[string]string
	rows        rows
}

// ddl is the dataset's schema as the command takes it.
func (d *dataset) ddl() string {
	var parts []string
	for _, c := range d.columns {
		parts = append(parts, "`"+c[0]+"` "+c[1])
	}
	return strings.Join(parts, ", ")
}

// complete returns the dataset with every column present in every row.
func (d *dataset) complete() *dataset {
	full := *d
	full.rows = nil
	for _, r := range d.rows {
		whole := row{}
		for _, c := range d.columns {
			whole[c[0]] = r[c[0]]
		}
		full.rows = append(full.rows, whole)
	}
	return &full
}

// with returns the dataset with these rows in place of its own.
func (d *dataset) with(rs ...row) *dataset {
	other := *d
	other.rows = rs
	return &other
}

func (d *dataset) jsonLines(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for _, r := range d.rows {
		if err := e.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// parseRows reads a JSON array of rows, or JSON Lines.
func parseRows(t *testing.T, from string, text []byte) rows {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out rows
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' {
		if err := d.Decode(&out); err != nil {
			t.Fatalf("rows of %s: %v", from, err)
		}
		return out
	}
	for d.More() {
		var r row
		if err := d.Decode(&r); err != nil {
			t.Fatalf("rows of %s: %v", from, err)
		}
		out = append(out, r)
	}
	return out
}

// canonical is the sorted text of the rows: equal multisets have equal texts.
func (rs rows) canonical() []string {
	out := make([]string, 0, len(rs))
	for _, r := range rs {
		out = append(out, string(canonicalValue(map[string]any(r))))
	}
	slices.Sort(out)
	return out
}

func canonicalValue(v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		if pairs, ok := v["$map"].([]any); ok && len(v) == 1 {
			return canonicalMap(pairs)
		}
		return canonicalObject(v)
	case row:
		return canonicalObject(v)
	case []any:
		parts := make([][]byte, 0, len(v))
		for _, e := range v {
			parts = append(parts, canonicalValue(e))
		}
		return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
	case json.Number:
		return canonicalNumber(string(v))
	case float64:
		return canonicalFloat(v)
	case int:
		return strconv.AppendInt(nil, int64(v), 10)
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case nil:
		return []byte("null")
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic("interop: internal error: a value that is no JSON: " + err.Error())
		}
		return text
	}
}

func canonicalObject(m map[string]any) []byte {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(strconv.Quote(name))
		out.WriteByte(':')
		out.Write(canonicalValue(m[name]))
	}
	out.WriteByte('}')
	return out.Bytes()
}

// canonicalMap sorts the pairs: maps are equal as sets.
func canonicalMap(pairs []any) []byte {
	parts := make([][]byte, 0, len(pairs))
	for _, p := range pairs {
		parts = append(parts, canonicalValue(p))
	}
	slices.SortFunc(parts, bytes.Compare)
	return slices.Concat([]byte("map("), bytes.Join(parts, []byte(",")), []byte(")"))
}

// canonicalNumber gives 1, 1.0 and 1e0 one text, and leaves integers of any
// size exact.
func canonicalNumber(text string) []byte {
	if !strings.ContainsAny(text, ".eE") {
		return []byte(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return []byte(text)
	}
	return canonicalFloat(f)
}

func canonicalFloat(f float64) []byte {
	switch {
	case f == 0 && math.Signbit(f):
		return []byte("-0")
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return strconv.AppendInt(nil, int64(f), 10)
	}
	return strconv.AppendFloat(nil, f, 'g', -1, 64)
}

// equalRows fails the test unless both multisets are equal.
func equalRows(t *testing.T, what string, got, want rows) {
	t.Helper()
	if diff := cmp.Diff(want.canonical(), got.canonical()); diff != "" {
		t.Errorf("%s: rows differ (-want +got):\n%s", what, diff)
	}
}
