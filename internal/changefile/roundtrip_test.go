package changefile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/internal/tabletest"
)

// fileOf wraps records that did not come from an input.
func fileOf(recs ...arrow.RecordBatch) *changefile.File {
	f := &changefile.File{Records: recs}
	for _, r := range recs {
		f.Rows += r.NumRows()
	}
	return f
}

func randomTable(t *rapid.T) (*rand.Rand, *arrow.Schema, arrow.RecordBatch) {
	r := tabletest.NewRand(rapid.Uint64().Draw(t, "seed"))
	sch := arrow.NewSchema(tabletest.RandomFields(r, rapid.IntRange(1, 6).Draw(t, "columns"), 3), nil)
	return r, sch, tabletest.RandomRecord(r, sch, rapid.IntRange(0, 40).Draw(t, "rows"))
}

// What the writers write, the readers read back: the same types, the same values.
func TestWrittenRowsReadBack(t *testing.T) {
	for _, format := range []string{rowfile.JSONL, rowfile.CSV, rowfile.Parquet, rowfile.Arrow} {
		t.Run(format, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				_, sch, rec := randomTable(t)
				data := writeRapid(t, format, sch, rec)
				f, err := changefile.Read(t.Context(), changefile.FromBytes("f."+format, data), &changefile.Options{Schema: sch})
				if err != nil {
					t.Fatalf("%v\n%s\n%s", err, sch, rec)
				}
				if f.Rows != rec.NumRows() {
					t.Fatalf("%d rows came back as %d", rec.NumRows(), f.Rows)
				}
				for _, got := range f.Records {
					for i, fd := range got.Schema().Fields() {
						if want := sch.Field(i); fd.Name != want.Name || !arrow.TypeEqual(fd.Type, want.Type) || !arrow.TypeEqual(got.Column(i).DataType(), want.Type) {
							t.Fatalf("column %s came back as %s with data of %s", want, fd, got.Column(i).DataType())
						}
					}
				}
				before := writeRapid(t, rowfile.JSONL, sch, rec)
				if after := writeRapid(t, rowfile.JSONL, sch, f.Records...); !bytes.Equal(before, after) {
					t.Fatalf("written\n%s\nread back\n%s", before, after)
				}
				if a, b := changefile.Digest([]*changefile.File{fileOf(rec)}), changefile.Digest([]*changefile.File{f}); a != b {
					t.Fatalf("digest %s became %s", a, b)
				}
			})
		})
	}
}

func writeRapid(t *rapid.T, format string, sch *arrow.Schema, recs ...arrow.RecordBatch) []byte {
	var buf bytes.Buffer
	w, err := rowfile.NewWriter(&buf, format, sch)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// The order of rows, the split into files, the order and case of columns, and
// null written out or left out do not change the digest; any other change does.
func TestDigestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, sch, rec := randomTable(t)
		want := changefile.Digest([]*changefile.File{fileOf(rec)})

		var rows []arrow.RecordBatch
		for i := range rec.NumRows() {
			rows = append(rows, rec.NewSlice(i, i+1))
		}
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		var files []*changefile.File
		for from := 0; from < len(rows); {
			to := from + 1 + r.IntN(len(rows)-from)
			files = append(files, fileOf(rows[from:to]...))
			from = to
		}
		if got := changefile.Digest(files); got != want {
			t.Fatalf("permuted and split: %s, want %s\n%s", got, want, rec)
		}

		// Other column order and case, NULLs left out: by way of JSON Lines.
		order := r.Perm(sch.NumFields())
		fields := make([]arrow.Field, len(order))
		for k, i := range order {
			fields[k] = sch.Field(i)
			fields[k].Name = strings.ToUpper(fields[k].Name)
		}
		text := lines(rec, func(i, c int) bool { return r.IntN(2) == 0 })
		other, err := changefile.Read(t.Context(), changefile.FromBytes("f.jsonl", text), &changefile.Options{Schema: arrow.NewSchema(fields, nil)})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got := changefile.Digest([]*changefile.File{other}); got != want {
			t.Fatalf("columns moved, NULLs left out: %s, want %s\n%s", got, want, text)
		}

		// One row more, or one twice, is another batch.
		if len(rows) > 0 {
			if got := changefile.Digest([]*changefile.File{fileOf(rec, rows[0])}); got == want {
				t.Fatal("a repeated row does not change the digest")
			}
			if got := changefile.Digest([]*changefile.File{fileOf(rows[1:]...)}); got == want {
				t.Fatal("a missing row does not change the digest")
			}
		}
	})
}

// lines writes rec as JSON Lines without NULL columns where omit says so.
func lines(rec arrow.RecordBatch, omit func(row, col int) bool) []byte {
	var b bytes.Buffer
	for i := range int(rec.NumRows()) {
		b.WriteByte('{')
		first := true
		for c, col := range rec.Columns() {
			if col.IsNull(i) && omit(i, c) {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			name, _ := jsonString(rec.ColumnName(c))
			fmt.Fprintf(&b, "%s:%s", name, rowfile.JSON(col, i))
		}
		b.WriteString("}\n")
	}
	return b.Bytes()
}

// Rows that differ in one place have different digests, rows that are equal as
// payloads have one.
func TestDigestTellsValuesApart(t *testing.T) {
	sch := everyType()
	digest := func(in string) string {
		return changefile.Digest([]*changefile.File{read(t, "f.jsonl", []byte(in), &changefile.Options{Schema: sch})})
	}
	groups := [][]string{
		{``},
		{`{}`, `{"id":null,"str":null}`},
		{"{}\n{}", "{}\n\n{\"list\":null}\n"},
		{`{"id":1}`, `{"ID":1,"bool":null}`},
		{`{"int":1}`},
		{`{"id":2}`},
		{`{"str":""}`},
		{`{"str":"a"}`},
		{`{"str":"ab"}`},
		{`{"bin":""}`},
		{`{"bin":"61"}`},
		{"{\"str\":\"a\"}\n{\"bin\":\"61\"}"},
		{`{"str":"a","bin":"61"}`},
		{`{"double":0.0}`, `{"double":-0.0}`},
		{`{"float":0}`, `{"float":-0.0}`},
		{`{"double":"NaN"}`},
		{`{"float":"NaN"}`},
		{`{"dec":"1.50"}`, `{"dec":1.5}`, `{"dec":15e-1}`},
		{`{"dec":"15"}`},
		{`{"dec":"0.15"}`},
		{`{"dec":0}`, `{"dec":"-0.00"}`},
		{`{"ts":"2024-01-01T00:00:00Z"}`, `{"ts":"2024-01-01T02:00:00+02:00"}`},
		{`{"ntz":"2024-01-01T00:00:00"}`},
		{`{"date":"2024-01-01"}`},
		{`{"list":[]}`},
		{`{"list":[null]}`},
		{`{"list":[1]}`},
		{`{"list":[1,null]}`},
		{`{"list":[1,2]}`},
		{`{"list":[2,1]}`},
		{`{"full":[1]}`},
		{`{"map":{"$map":[]}}`},
		{`{"map":{"$map":[["a",1],["b",null]]}}`, `{"map":{"$map":[["b",null],["a",1]]}}`},
		{`{"map":{"$map":[["a",null],["b",1]]}}`},
		{`{"st":{"x":1}}`, `{"st":{"y":null,"X":1}}`},
		{`{"st":{"x":1,"y":[]}}`},
		{`{"st":{"x":1,"y":[null]}}`},
	}
	owner := map[string]string{}
	for _, g := range groups {
		for _, in := range g {
			d := digest(in)
			if d != digest(g[0]) {
				t.Errorf("%s and %s are equal, their digests differ", in, g[0])
			}
			if o, taken := owner[d]; taken && o != g[0] {
				t.Errorf("%s and %s differ, their digests are equal", in, o)
			}
			owner[d] = g[0]
		}
	}
}

// Digests are stored in tables: this one must never change.
func TestDigestIsStable(t *testing.T) {
	in := `{"id":-5,"str":"größe","dec":"12.30","double":0.5,"float":"NaN","bin":"00ff","date":"2024-02-29","ts":"2024-01-01T00:00:00Z","ntz":"0001-01-01T00:00:00","bool":true,"list":[1,null],"map":{"$map":[["b",1],["a",null]]},"st":{"x":1,"y":["z"]}}`
	f := read(t, "f.jsonl", []byte(in+"\n"+in+"\n{}"), &changefile.Options{Schema: everyType()})
	const want = "ed2ad9d41ac517bc3191da1f4d3c26db20feaf28eccc02be4a54b0f4f6b8c4d9"
	if got := changefile.Digest([]*changefile.File{f}); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestFixturesRead(t *testing.T) {
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "change_id", Type: arrow.BinaryTypes.String},
		{Name: "entity_id", Type: arrow.BinaryTypes.String},
		{Name: "source_version", Type: arrow.PrimitiveTypes.Int64},
		{Name: "operation", Type: arrow.BinaryTypes.String},
		{Name: "value", Type: arrow.BinaryTypes.String},
	}, nil)
	digests := make([]string, 7)
	rows := make([]int64, 7)
	for n := 1; n <= 6; n++ {
		name := fmt.Sprintf("testdata/batch-%d.jsonl", n)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := changefile.Read(t.Context(), changefile.FromFile("batch.jsonl", name), &changefile.Options{Schema: sch})
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(strings.ReplaceAll(string(data), `": `, `":`), `, "`, `,"`)
		if got := string(write(t, rowfile.JSONL, sch, f.Records...)); got != want {
			t.Errorf("%s was read as\n%s", name, got)
		}
		digests[n], rows[n] = changefile.Digest([]*changefile.File{f}), f.Rows
	}
	if !slices.Equal(rows, []int64{0, 5, 5, 7, 4, 4, 5}) {
		t.Errorf("rows %v", rows)
	}
	if digests[5] != digests[4] || digests[6] != digests[1] || digests[1] == digests[2] {
		t.Errorf("batch 5 repeats 4, 6 repeats 1, but the digests are %v", digests)
	}
}

// The documented form, written out by hand for the row {"id":1,"str":"a"}.
func TestDigestForm(t *testing.T) {
	text := "\x03id" + "i\x00\x00\x00\x00\x00\x00\x00\x01" + "\x04str" + "s\x01a" + "\x00"
	row := sha256.Sum256([]byte(text))
	all := sha256.Sum256(append([]byte("deltafold batch digest 1\n\x00\x00\x00\x00\x00\x00\x00\x01"), row[:]...))
	f := read(t, "f.jsonl", []byte(`{"STR":"a","id":1}`), &changefile.Options{Schema: everyType()})
	if got, want := changefile.Digest([]*changefile.File{f}), hex.EncodeToString(all[:]); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}
