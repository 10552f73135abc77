package changefile

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// BatchRows is the largest number of rows in one of a File's record batches.
const BatchRows = 64 << 10

// Formats that Read knows. A name of another format is refused.
const (
	FormatJSONL   = "jsonl"
	FormatCSV     = "csv"
	FormatParquet = "parquet"
	FormatArrow   = "arrow" // an Arrow IPC file or stream; its first bytes tell which
)

// formats is how messages list them.
const formats = "jsonl, csv, parquet and arrow"

// Source is one input by name. Name is what messages and outcomes call it and,
// where Options.Format is empty, what the format is told by. Open is called
// once by each Read and may return a reader that is also an io.ReaderAt with a
// Size() int64 method: then a Parquet or Arrow file is read from it in ranges, otherwise
// it is read whole. Read closes what Open returned.
type Source struct {
	Name string
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Options say how to read. The zero value reads Parquet and Arrow files with the
// types that they have.
type Options struct {
	// Format is one of the formats above; empty: by the name's ending, see FormatOf.
	Format string
	// Schema has the columns to read, of canonical types, in the order that the
	// batches will have. nil: only for Parquet and Arrow, types from the file.
	Schema *arrow.Schema
	// AllowUnknown lets fields that Schema lacks pass; they are checked to be
	// well-formed and then ignored. Without it they are refused.
	AllowUnknown bool
	// Zone gives zone-less timestamps of timestamp columns their zone. nil: they
	// are refused. A local time that the zone skips or has twice is refused.
	Zone *time.Location
}

// File is one input as read. It is not changed after Read returns; safe for
// concurrent use.
type File struct {
	Name string
	// Records hold at most BatchRows rows each, columns in the order of
	// Options.Schema, of canonical types. Top-level fields are always nullable,
	// whatever Options.Schema says: a NULL is judged later (merge-semantics 2).
	Records []arrow.RecordBatch
	// Present has the columns that the input has, in the schema's spelling: those
	// that any row names (JSON Lines, also as null) or the file has (the others).
	Present map[string]bool
	Rows    int64
	lines   []int64 // line of the first row of each run of consecutive lines, see Line
	firsts  []int64
}

// Line is the place of row i (from 0) in the input, counted from 1: its line in
// JSON Lines and CSV (the first, where it has several), where blank lines count,
// and its row in Parquet and Arrow.
func (f *File) Line(i int64) int64 {
	lo, hi := 0, len(f.firsts)
	for lo < hi {
		mid := (lo + hi) / 2
		if f.firsts[mid] <= i {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return i + 1
	}
	return f.lines[lo-1] + i - f.firsts[lo-1]
}

// place records that row i came from line n; only breaks in the run are stored.
func (f *File) place(i, n int64) {
	if k := len(f.firsts); k > 0 && f.lines[k-1]+i-f.firsts[k-1] == n || k == 0 && n == i+1 {
		return
	}
	f.firsts, f.lines = append(f.firsts, i), append(f.lines, n)
}

// InputError says what is wrong with an input and where.
type InputError struct {
	File string
	// Line counts from 1: lines of JSON Lines and CSV, rows of Parquet and Arrow;
	// 0: the file as a whole.
	Line int64
	// Column is the field's name, with the steps into nested types behind dots
	// (element, key, value, as Delta names them); empty where no field is at fault.
	Column string
	// Value is the offending text as it stands in the input, shortened; empty
	// where there is none.
	Value string
	Msg   string
}

// Error gives "file:line: column c: value: what is wrong".
func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Column != "" {
		fmt.Fprintf(&b, "column %s: ", e.Column)
	}
	if e.Value != "" {
		fmt.Fprintf(&b, "%s: ", e.Value)
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Read reads the whole of src. It fails with an *InputError where the content
// is at fault (see the package comment for the rules), and then returns no rows
// at all. A nil o is the zero Options.
func Read(ctx context.Context, src Source, o *Options) (*File, error) {
	if o == nil {
		o = &Options{}
	}
	format := o.Format
	if format == "" {
		format = FormatOf(src.Name)
	}
	var read func(ctx context.Context, name string, in io.Reader, o *Options) (*File, error)
	switch format {
	case FormatJSONL:
		read = readJSONL
	case FormatCSV:
		read = readCSV
	case FormatParquet:
		read = readParquet
	case FormatArrow:
		read = readArrow
	case "":
		return nil, fmt.Errorf("read %s: its name tells no format that can be read (%s): state one", src.Name, formats)
	default:
		return nil, fmt.Errorf("read %s: cannot read format %q; formats are %s", src.Name, format, formats)
	}
	if o.Schema == nil && !HasTypes(format) {
		return nil, fmt.Errorf("read %s: %s needs a schema: types of text inputs are never guessed", src.Name, map[string]string{FormatJSONL: "JSON Lines", FormatCSV: "CSV"}[format])
	}
	in, err := src.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", src.Name, err)
	}
	defer in.Close() // read only: a failing close loses nothing
	return read(ctx, src.Name, in, o)
}

// HasTypes says whether files of a format say what types their columns have.
func HasTypes(format string) bool { return format == FormatParquet || format == FormatArrow }

// FormatOf tells the format by a name's ending (.jsonl, .ndjson, .json; .csv;
// .parquet; .arrow, .arrows, .feather, .ipc); "" where it is none that Read knows.
func FormatOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".jsonl", ".ndjson", ".json":
		return FormatJSONL
	case ".csv":
		return FormatCSV
	case ".parquet":
		return FormatParquet
	case ".arrow", ".arrows", ".feather", ".ipc":
		return FormatArrow
	}
	return ""
}

// excerpt shortens the text of a value for a message and makes sure that it is
// one printable line.
func excerpt(b []byte) string {
	const limit = 80
	cut := false
	if len(b) > limit {
		b, cut = b[:limit], true
		for n := 0; n < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[len(b)-1]); n++ {
			b = b[:len(b)-1]
		}
		if r, _ := utf8.DecodeLastRune(b); r == utf8.RuneError && len(b) > 0 {
			b = b[:len(b)-1]
		}
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&s, "\\x%02x", b[0])
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&s, "\\u%04x", r)
		default:
			s.Write(b[:n])
		}
		b = b[n:]
	}
	if cut {
		s.WriteString("…")
	}
	return s.String()
}
