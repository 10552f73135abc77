package changefile_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/rowfile"
)

type arrowForm struct {
	name   string
	stream bool
	opts   []ipc.Option
}

var arrowForms = []arrowForm{
	{"stream", true, nil},
	{"stream, lz4", true, []ipc.Option{ipc.WithLZ4()}},
	{"stream, zstd", true, []ipc.Option{ipc.WithZstd()}},
	{"file", false, nil},
	{"file, zstd", false, []ipc.Option{ipc.WithZstd()}},
}

// fatal is what tests and rapid share.
type fatal interface{ Fatal(args ...any) }

func (f arrowForm) write(t fatal, sch *arrow.Schema, recs ...arrow.RecordBatch) []byte {
	var buf bytes.Buffer
	opts := append([]ipc.Option{ipc.WithSchema(sch)}, f.opts...)
	var w interface {
		Write(arrow.RecordBatch) error
		Close() error
	} = ipc.NewWriter(&buf, opts...)
	if !f.stream {
		var err error
		if w, err = ipc.NewFileWriter(&buf, opts...); err != nil {
			t.Fatal(err)
		}
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

// Files and streams of every type, with several batches, read as what they hold.
func TestArrowFormsReadBack(t *testing.T) {
	for _, form := range arrowForms {
		t.Run(form.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				_, sch, rec := randomTable(t)
				cut := rapid.Int64Range(0, rec.NumRows()).Draw(t, "cut")
				data := form.write(t, sch, rec.NewSlice(0, cut), rec.NewSlice(cut, rec.NumRows()))
				f, err := changefile.Read(t.Context(), changefile.FromBytes("f.arrow", data), &changefile.Options{Schema: sch})
				if err != nil {
					t.Fatal(err)
				}
				if a, b := changefile.Digest([]*changefile.File{fileOf(rec)}), changefile.Digest([]*changefile.File{f}); a != b || f.Rows != rec.NumRows() {
					t.Fatalf("%d rows, digest %s became %s", f.Rows, a, b)
				}
			})
		})
	}
}

func fromJSON(t *testing.T, sch *arrow.Schema, text string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sch, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestArrowTypesComeFromTheFileOrAreChecked(t *testing.T) {
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "ID", Type: arrow.PrimitiveTypes.Int32}, {Name: "tier", Type: dict, Nullable: true}, {Name: "big", Type: arrow.BinaryTypes.LargeString, Nullable: true},
	}, nil)
	rec := fromJSON(t, sch, `[{"ID":1,"tier":"gold","big":"x"},{"ID":2,"tier":null,"big":null},{"ID":3,"tier":"gold","big":""}]`)
	data := arrowForms[0].write(t, sch, rec)

	f := read(t, "f.arrows", data, nil)
	want := `{"ID":1,"tier":"gold","big":"x"}` + "\n" + `{"ID":2,"tier":null,"big":null}` + "\n" + `{"ID":3,"tier":"gold","big":""}` + "\n"
	if got := string(write(t, rowfile.JSONL, f.Records[0].Schema(), f.Records...)); got != want {
		t.Errorf("got %s want %s", got, want)
	}

	wanted := func(fields ...arrow.Field) *changefile.Options {
		return &changefile.Options{Schema: arrow.NewSchema(fields, nil)}
	}
	tier, big := arrow.Field{Name: "Tier", Type: arrow.BinaryTypes.String}, arrow.Field{Name: "big", Type: arrow.BinaryTypes.String}
	long := arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int64}
	o := wanted(big, long, tier, arrow.Field{Name: "more", Type: arrow.PrimitiveTypes.Int64})
	f = read(t, "f.feather", arrowForms[3].write(t, sch, rec), o)
	want = `{"big":"x","id":1,"Tier":"gold","more":null}` + "\n" + `{"big":null,"id":2,"Tier":null,"more":null}` + "\n" + `{"big":"","id":3,"Tier":"gold","more":null}` + "\n"
	if got := string(write(t, rowfile.JSONL, o.Schema, f.Records...)); got != want || f.Present["more"] || !f.Present["Tier"] {
		t.Errorf("got %s want %s; present %v", got, want, f.Present)
	}

	for want, o := range map[string]*changefile.Options{
		"f.arrow: column big: unknown field":                                       wanted(long, tier),
		"f.arrow: column id: a file column of type int32 cannot be read as short":  wanted(arrow.Field{Name: "id", Type: arrow.PrimitiveTypes.Int16}, tier, big),
		"f.arrow: column Tier: a file column of type utf8 cannot be read as short": wanted(long, arrow.Field{Name: "Tier", Type: arrow.PrimitiveTypes.Int16}, big),
	} {
		if _, err := changefile.Read(t.Context(), changefile.FromBytes("f.arrow", data), o); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	span := arrow.NewSchema([]arrow.Field{{Name: "d", Type: arrow.FixedWidthTypes.Duration_s}}, nil)
	if _, err := changefile.Read(t.Context(), changefile.FromBytes("f.arrow", arrowForms[0].write(t, span)), nil); err == nil ||
		err.Error() != "f.arrow: column d: a file column of type duration[s] has no Delta type" {
		t.Error(err)
	}
}

// bodies are the places of the messages' bodies in a stream.
func bodies(t *testing.T, stream []byte) (at []int) {
	t.Helper()
	r := bytes.NewReader(stream)
	m := ipc.NewMessageReader(r)
	for {
		msg, err := m.Message()
		if err != nil {
			return at
		}
		end := len(stream) - r.Len()
		for i := end - int(msg.BodyLen()); i < end; i++ {
			at = append(at, i)
		}
	}
}

// Whatever is cut off, no prefix of a file or stream reads as fewer rows. A
// damaged byte of a body may go unnoticed in a value, but never panics later.
// (Metadata is arrow-go's: it believes the lengths in it.)
func TestArrowDamage(t *testing.T) {
	sch := arrow.NewSchema([]arrow.Field{
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
	}, nil)
	rec := fromJSON(t, sch, `[{"s":"a","l":[1,2]},{"s":null,"l":null},{"s":"bc","l":[]}]`)
	for _, form := range arrowForms {
		data := form.write(t, sch, rec, rec)
		for n := range len(data) {
			if f, err := changefile.Read(t.Context(), changefile.FromBytes("f.arrow", data[:n]), nil); err == nil {
				t.Fatalf("%s: the first %d of %d bytes read as %d rows", form.name, n, len(data), f.Rows)
			}
		}
		if _, err := changefile.Read(t.Context(), changefile.FromBytes("f.arrow", append(bytes.Clone(data), 0)), nil); err == nil {
			t.Errorf("%s: a byte behind the end went unnoticed", form.name)
		}
	}
	data := arrowForms[0].write(t, sch, rec, rec)
	places := bodies(t, data)
	if len(places) < 100 {
		t.Fatalf("bodies of %d bytes", len(places))
	}
	for _, n := range places {
		bad := bytes.Clone(data)
		bad[n] ^= 0xff
		if f, err := changefile.Read(t.Context(), changefile.FromBytes("f.arrow", bad), nil); err == nil {
			changefile.Digest([]*changefile.File{f}) // looks at every value
		}
	}
	for data, want := range map[string]string{
		"":                 "f.arrow: no readable Arrow file: ",
		"FEA1xxxxxxxxFEA1": "f.arrow: this is Feather version 1; version 2, which is Arrow IPC, can be read",
		"id,name\n1,a\n":   "f.arrow: no readable Arrow file: ",
	} {
		if _, err := changefile.Read(t.Context(), changefile.FromBytes("f.arrow", []byte(data)), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", data, err)
		}
	}
}
