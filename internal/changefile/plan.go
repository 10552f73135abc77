package changefile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// columnPlan knows which column of a Parquet or Arrow file fills which column of
// the batch, and takes the rows.
type columnPlan struct {
	sch   *arrow.Schema
	from  []int // by column of sch: column of the file, or -1
	convs []*converter
	zone  *timeReader
	file  *File
}

func planColumns(name string, fs *arrow.Schema, o *Options) (*columnPlan, error) {
	fail := func(column, format string, args ...any) error {
		return &InputError{File: name, Column: column, Msg: fmt.Sprintf(format, args...)}
	}
	folded, err := foldNames(fs.Fields())
	if err != nil {
		return nil, fail("", "%s", err)
	}
	p := &columnPlan{zone: &timeReader{o.Zone}, file: &File{Name: name, Present: map[string]bool{}}}
	want := o.Schema
	if want == nil {
		fields := make([]arrow.Field, fs.NumFields())
		for i, f := range fs.Fields() {
			t, err := canonicalType(f.Type)
			if err != nil {
				return nil, fail(f.Name, "%s", err)
			}
			fields[i] = arrow.Field{Name: f.Name, Type: t}
		}
		want = arrow.NewSchema(fields, nil)
	}
	if _, err := foldNames(want.Fields()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	p.sch = nullable(want)
	used := make([]bool, fs.NumFields())
	for _, f := range p.sch.Fields() {
		i, ok := folded[strings.ToLower(f.Name)]
		if !ok {
			p.from, p.convs = append(p.from, -1), append(p.convs, nil)
			continue
		}
		used[i] = true
		c, err := newConverter(fs.Field(i).Type, f.Type, f.Name, &conversion{zone: p.zone, allowUnknown: o.AllowUnknown})
		if err != nil {
			return nil, fail(f.Name, "%s", err)
		}
		p.from, p.convs = append(p.from, i), append(p.convs, c)
		p.file.Present[f.Name] = true
	}
	for i, u := range used {
		if !u && !o.AllowUnknown {
			return nil, fail(fs.Field(i).Name, "unknown field")
		}
	}
	return p, nil
}

// schemaName is the column that field i of the file fills.
func (p *columnPlan) schemaName(i int) string {
	for k, from := range p.from {
		if from == i {
			return p.sch.Field(k).Name
		}
	}
	return ""
}

// located makes an InputError of a convertError in the batch that comes next.
func (p *columnPlan) located(column string, err error) error {
	var ce *convertError
	if !errors.As(err, &ce) {
		return &InputError{File: p.file.Name, Line: p.file.Rows + 1, Column: column, Msg: err.Error()}
	}
	if ce.column != "" {
		column = ce.column
	}
	return &InputError{File: p.file.Name, Line: p.file.Rows + int64(ce.row) + 1, Column: column, Value: excerpt([]byte(ce.value)), Msg: ce.msg}
}

// add converts n rows, given by field of the file, and appends them.
func (p *columnPlan) add(fields map[int]arrow.Array, n int) error {
	if n == 0 {
		return nil
	}
	cols := make([]arrow.Array, len(p.from))
	for k, i := range p.from {
		if i < 0 {
			cols[k] = array.MakeArrayOfNull(memory.DefaultAllocator, p.sch.Field(k).Type, n)
			continue
		}
		if arrow.TypeEqual(fields[i].DataType(), p.sch.Field(k).Type) && fields[i].DataType().ID() == arrow.TIMESTAMP {
			cols[k] = fields[i]
			continue
		}
		arr, err := p.convs[k].convert(fields[i])
		if err != nil {
			return p.located(p.sch.Field(k).Name, err)
		}
		cols[k] = arr
	}
	out := array.NewRecordBatch(p.sch, cols, int64(n))
	if i, column := nestedNull(out); i >= 0 {
		return &InputError{File: p.file.Name, Line: p.file.Rows + int64(i) + 1, Column: column, Value: "null", Msg: "it is declared not null"}
	}
	if i, column, key := duplicateMapKey(out); i >= 0 {
		return &InputError{File: p.file.Name, Line: p.file.Rows + int64(i) + 1, Column: column, Value: key, Msg: "the key stands twice in one map"}
	}
	for from := 0; from < n; from += BatchRows {
		p.file.Records = append(p.file.Records, out.NewSlice(int64(from), int64(min(from+BatchRows, n))))
	}
	p.file.Rows += int64(n)
	return nil
}
