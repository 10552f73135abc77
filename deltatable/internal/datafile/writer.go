package datafile

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/deltafold/deltafold/internal/integrity"
)

// DefaultRowGroupRows is the number of rows of a row group unless said
// otherwise: small enough that skipping row groups and copying them bites.
const DefaultRowGroupRows = 1 << 17

// DefaultRowGroupBytes bounds the memory of writing wide rows.
const DefaultRowGroupBytes = 128 << 20

// DefaultStringPrefix is the number of UTF-16 units that statistics keep of a
// string (protocol notes 1.6).
const DefaultStringPrefix = 32

// createdBy stands in each footer. Readers look for known faults of writers by
// this name.
const createdBy = "deltafold version 0.1.0 (build deltafold)"

// WriteOptions say how a file is written. Schema is required.
type WriteOptions struct {
	// Schema holds the table's data columns, without partition columns, in the
	// canonical types. Files hold every column as optional, as Spark's do; NOT
	// NULL is enforced. Void columns are not stored.
	Schema *arrow.Schema
	Stats  StatsSpec
	// RowGroupRows is the most rows of a row group; 0: DefaultRowGroupRows.
	RowGroupRows int
	// RowGroupBytes is about the most bytes of a row group's values before they
	// are encoded, for rows that are wide; 0: DefaultRowGroupBytes.
	RowGroupBytes int64
	// Codec is snappy (also ""), zstd, gzip, lz4_raw, brotli or uncompressed.
	Codec string
	// StringPrefix is the length of strings in statistics, in UTF-16 units;
	// 0: DefaultStringPrefix.
	StringPrefix int
}

// Summary is what a finished file's add action needs.
type Summary struct {
	NumRecords int64  // read back from the footer as it was written
	Size       int64  // bytes
	Stats      string // JSON for the add action (PROTOCOL.md "Per-file Statistics")
	Hash       integrity.Sum
}

// sampleRows is how many rows decide whether a column gets a dictionary.
const sampleRows = 4096

// Writer writes one Parquet file: format v1 pages, PLAIN and dictionary
// encodings, no dictionary on columns that look unique. Its memory is bounded by
// one row group.
type Writer struct {
	opts    WriteOptions
	stored  *arrow.Schema // opts.Schema as stored: all optional, no void
	keep    []int         // stored column i is column keep[i] of opts.Schema
	checks  []check
	stats   *collectors
	sink    *sink
	parquet *pqarrow.FileWriter // nil until the sample is complete
	sample  []arrow.RecordBatch // stored form, kept until then
	sampled int64
	rows    int64 // written to Write so far, for messages and row groups only
	open    int64 // rows in the open row group
	raw     int64 // approximate bytes before encoding in the open row group
	rawDone int64 // the same in finished row groups
	err     error // first failure; sticky
}

// NewWriter begins a file on w, which the caller closes after [Writer.Close].
func NewWriter(w io.Writer, o WriteOptions) (*Writer, error) {
	if o.RowGroupRows <= 0 {
		o.RowGroupRows = DefaultRowGroupRows
	}
	if o.RowGroupBytes <= 0 {
		o.RowGroupBytes = DefaultRowGroupBytes
	}
	if o.StringPrefix <= 0 {
		o.StringPrefix = DefaultStringPrefix
	}
	if _, err := codecOf(o.Codec); err != nil {
		return nil, err
	}
	d := &Writer{opts: o, sink: &sink{w: w, hash: integrity.NewFileHash()}}
	var fields []arrow.Field
	for i, f := range o.Schema.Fields() {
		s, ok, err := storedField(f)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		fields = append(fields, s)
		d.keep = append(d.keep, i)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("write a data file: no column of the table can be stored")
	}
	d.stored = arrow.NewSchema(fields, nil)
	d.checks = checksOf(o.Schema)
	d.stats = newCollectors(o.Schema, o.Stats)
	return d, nil
}

func codecOf(name string) (compress.Compression, error) {
	switch strings.ToLower(name) {
	case "", "snappy":
		return compress.Codecs.Snappy, nil
	case "zstd":
		return compress.Codecs.Zstd, nil
	case "gzip":
		return compress.Codecs.Gzip, nil
	case "lz4_raw", "lz4":
		return compress.Codecs.Lz4Raw, nil
	case "brotli":
		return compress.Codecs.Brotli, nil
	case "uncompressed", "none":
		return compress.Codecs.Uncompressed, nil
	}
	return 0, fmt.Errorf("write a data file: the compression codec %q is not supported", name)
}

// Write appends the rows of rec, whose columns are those of the schema, in order
// and of its types. rec is not kept beyond the call, except that its memory may
// be shared for up to a few thousand rows until the next calls. After an error
// the writer is of no more use.
func (d *Writer) Write(rec arrow.RecordBatch) error {
	if d.err != nil {
		return d.err
	}
	if err := d.write(rec); err != nil {
		d.err = err
		return err
	}
	return nil
}

func (d *Writer) write(rec arrow.RecordBatch) error {
	if rec.NumRows() == 0 {
		return nil
	}
	if int(rec.NumCols()) != d.opts.Schema.NumFields() {
		return fmt.Errorf("write a data file: a batch of %d columns for a schema of %d", rec.NumCols(), d.opts.Schema.NumFields())
	}
	for i, f := range d.opts.Schema.Fields() {
		if !sameType(rec.Column(i).DataType(), f.Type) {
			return fmt.Errorf("write a data file: column %s: data of type %s for type %s", f.Name, rec.Column(i).DataType(), f.Type)
		}
	}
	for _, c := range d.checks {
		if err := c.run(rec.Column(c.column), d.rows); err != nil {
			return err
		}
	}
	d.stats.add(rec)
	d.rows += rec.NumRows()
	stored := d.restate(rec)
	if d.parquet == nil {
		d.sample = append(d.sample, stored)
		d.sampled += stored.NumRows()
		if d.sampled < sampleRows {
			return nil
		}
		return d.start()
	}
	return d.encode(stored)
}

// restate gives rec the stored schema without copying values.
func (d *Writer) restate(rec arrow.RecordBatch) arrow.RecordBatch {
	cols := make([]arrow.Array, len(d.keep))
	for i, c := range d.keep {
		data := retype(rec.Column(c).Data(), d.stored.Field(i).Type)
		cols[i] = array.MakeFromData(data)
		data.Release()
	}
	return array.NewRecordBatch(d.stored, cols, rec.NumRows())
}

// start creates the Parquet writer, now that the sample says which columns take
// a dictionary, and encodes the sample.
func (d *Writer) start() error {
	codec, err := codecOf(d.opts.Codec)
	if err != nil {
		return err
	}
	props := []parquet.WriterProperty{
		parquet.WithVersion(parquet.V1_0), parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithCompression(codec), parquet.WithCreatedBy(createdBy),
		parquet.WithMaxRowGroupLength(int64(d.opts.RowGroupRows)),
		parquet.WithStoreDecimalAsInteger(true), parquet.WithDictionaryDefault(true),
	}
	for _, path := range uniqueLooking(d.stored, d.sample) {
		props = append(props, parquet.WithDictionaryPath(path, false))
	}
	floats, err := floatLeaves(d.stored)
	if err != nil {
		return err
	}
	for _, path := range floats {
		props = append(props, parquet.WithStatsFor(path, false))
	}
	d.parquet, err = pqarrow.NewFileWriter(d.stored, d.sink, parquet.NewWriterProperties(props...), pqarrow.NewArrowWriterProperties())
	if err != nil {
		return fmt.Errorf("write a data file: %w", err)
	}
	for i, rec := range d.sample {
		d.sample[i] = nil
		if err := d.encode(rec); err != nil {
			return err
		}
	}
	d.sample = nil
	return nil
}

// floatLeaves are the Parquet paths of the floating-point columns, which get no
// statistics in the footer: there NaN is left out of min and max, while SQL
// orders it above every number. Spark skips a row group whose footer max is
// below 100 for NOT (d < 100), and would lose its NaN. The action's statistics
// leave the max out instead (PROTOCOL.md "Per-file Statistics").
func floatLeaves(stored *arrow.Schema) ([]string, error) {
	sch, err := pqarrow.ToParquet(stored, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties())
	if err != nil {
		return nil, fmt.Errorf("write a data file: %w", err)
	}
	var paths []string
	for i := range sch.NumColumns() {
		c := sch.Column(i)
		if t := c.PhysicalType(); t == parquet.Types.Float || t == parquet.Types.Double {
			paths = append(paths, c.Path())
		}
	}
	return paths, nil
}

func (d *Writer) encode(rec arrow.RecordBatch) error {
	width := max(rawSize(rec)/max(rec.NumRows(), 1), 1)
	for at := int64(0); at < rec.NumRows(); {
		room := min(int64(d.opts.RowGroupRows)-d.open, (d.opts.RowGroupBytes-d.raw)/width)
		if room <= 0 && d.open > 0 {
			if err := d.parquet.NewBufferedRowGroupChecked(); err != nil {
				return fmt.Errorf("write a data file: %w", err)
			}
			d.rawDone, d.raw, d.open = d.rawDone+d.raw, 0, 0
			continue
		}
		n := min(rec.NumRows()-at, max(room, 1))
		part := rec
		if n < rec.NumRows() {
			part = rec.NewSlice(at, at+n)
		}
		if err := d.parquet.WriteBuffered(part); err != nil {
			return fmt.Errorf("write a data file: %w", err)
		}
		d.raw += n * width
		at, d.open = at+n, d.open+n
	}
	return nil
}

// Written estimates the size that the file would have if it were closed now: the
// bytes written, and what is still in memory at the compression seen so far.
func (d *Writer) Written() int64 {
	pending := d.raw
	for _, rec := range d.sample {
		pending += rawSize(rec)
	}
	if d.rawDone == 0 || d.sink.n == 0 {
		return d.sink.n + pending*6/10
	}
	return d.sink.n + int64(float64(pending)*float64(d.sink.n)/float64(d.rawDone))
}

// Close ends the file and says what its add action needs. A file without rows
// is a valid file.
func (d *Writer) Close() (Summary, error) {
	if d.err != nil {
		return Summary{}, d.err
	}
	d.err = fmt.Errorf("write a data file: it is closed")
	if d.parquet == nil {
		if err := d.start(); err != nil {
			d.err = err
			return Summary{}, err
		}
	}
	d.sink.keepTail = true
	if err := d.parquet.Close(); err != nil {
		d.err = fmt.Errorf("write a data file: %w", err)
		return Summary{}, d.err
	}
	n, err := footerRows(d.sink.tail)
	if err != nil {
		return Summary{}, err
	}
	return Summary{NumRecords: n, Size: d.sink.n, Stats: d.stats.json(n, d.opts.StringPrefix), Hash: d.sink.hash.Sum()}, nil
}

// footerRows reads the row count from the footer's bytes: a count of what was
// meant to be written could not tell a lost row group.
func footerRows(tail []byte) (n int64, err error) {
	defer recovered("", &err)
	if len(tail) < 8 || string(tail[len(tail)-4:]) != "PAR1" {
		return 0, fmt.Errorf("write a data file: internal error: no Parquet footer was written")
	}
	size := int64(binary.LittleEndian.Uint32(tail[len(tail)-8:]))
	if size > int64(len(tail)-8) {
		return 0, fmt.Errorf("write a data file: internal error: the footer is longer than what was kept of it")
	}
	footer := tail[int64(len(tail)-8)-size : len(tail)-8]
	md, err := metadata.NewFileMetaData(footer, nil)
	if err != nil {
		return 0, fmt.Errorf("write a data file: read the footer back: %w", err)
	}
	for _, rg := range md.RowGroups {
		n += rg.NumRows
	}
	if n != md.NumRows {
		return 0, fmt.Errorf("write a data file: internal error: the footer says %d rows and its row groups %d", md.NumRows, n)
	}
	return n, nil
}

// sink counts, hashes and passes on the file's bytes; from the last row group on
// it also keeps them, as the footer is among them.
type sink struct {
	w        io.Writer
	hash     *integrity.FileHash
	n        int64
	keepTail bool
	tail     []byte
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	if n > 0 {
		if _, herr := s.hash.Write(p[:n]); herr != nil && err == nil {
			err = herr
		}
	}
	if s.keepTail {
		s.tail = append(s.tail, p[:n]...)
	}
	return n, err
}

// rawSize approximates the bytes of a batch's values before encoding.
func rawSize(rec arrow.RecordBatch) int64 {
	var n int64
	for _, c := range rec.Columns() {
		n += rawArray(c)
	}
	return n
}

func rawArray(arr arrow.Array) int64 {
	switch a := arr.(type) {
	case array.BinaryLike:
		return int64(a.Len())*4 + int64(len(a.ValueBytes()))
	case *array.Struct:
		var n int64
		for i := range a.NumField() {
			n += rawArray(a.Field(i))
		}
		return n
	case array.ListLike:
		if a.Len() == 0 {
			return 0
		}
		from, _ := a.ValueOffsets(0)
		_, to := a.ValueOffsets(a.Len() - 1)
		if inner := int64(a.ListValues().Len()); inner > 0 {
			return int64(float64(rawArray(a.ListValues())) * float64(to-from) / float64(inner))
		}
		return int64(a.Len()) / 8
	}
	if t, ok := arr.DataType().(arrow.FixedWidthDataType); ok {
		return int64(arr.Len()) * int64(t.BitWidth()) / 8
	}
	return 0
}
