package merge

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/internal/rows"
)

// ref addresses one input row: a record of the batch and a row in it.
type ref struct{ rec, row int32 }

// input is the batch with its columns found: the stored form of
// merge-semantics 1.
type input struct {
	recs   [][]arrow.Array // recs[r][c] is column c of record r
	lens   []int
	files  []int // the file of each record
	starts []int // the global number of each record's first row
	total  int

	columns map[string]int // by name
	present map[string]bool

	keys, versions, payload []int
	operation, deleted, id  int // -1: the input has none
	condition               []*array.Boolean
}

// newInput finds the columns of the roles in the batch.
func newInput(j *Job, partitions []string) (*input, error) {
	in, err := storedForm(j.Batch, partitions)
	if err != nil {
		return nil, err
	}
	return in, in.findRoles(j)
}

// storedForm is a batch with its values as the table stores them. partitions are
// the table's partition columns: there "" is NULL.
func storedForm(b *Batch, partitions []string) (*input, error) {
	in := &input{columns: map[string]int{}, present: map[string]bool{}, operation: -1, deleted: -1, id: -1}
	for i, f := range b.Schema.Fields() {
		in.columns[f.Name] = i
	}
	for f, file := range b.Files {
		for name, has := range file.Present {
			in.present[name] = in.present[name] || has
		}
		for _, rec := range file.Records {
			if rec.NumRows() == 0 {
				continue
			}
			in.recs = append(in.recs, slices.Clone(rec.Columns()))
			in.lens = append(in.lens, int(rec.NumRows()))
			in.files = append(in.files, f)
			in.starts = append(in.starts, in.total)
			in.total += int(rec.NumRows())
		}
	}
	if in.total > 1<<31-1 {
		return nil, fmt.Errorf("the batch has %d rows: at most 2147483647 fit one run", in.total)
	}
	for _, p := range partitions {
		if c, ok := in.columns[p]; ok {
			if err := in.emptyAsNull(c); err != nil {
				return nil, fmt.Errorf("column %s: %w", p, err)
			}
		}
	}
	return in, nil
}

// find gives the columns of the batch that have the names.
func (in *input) find(names []string) ([]int, error) {
	out := make([]int, len(names))
	for i, n := range names {
		c, ok := in.columns[n]
		if !ok {
			return nil, fmt.Errorf("internal error: the batch's schema lacks column %s", n)
		}
		out[i] = c
	}
	return out, nil
}

func (in *input) findRoles(j *Job) error {
	r := j.Roles
	optional := func(name string) int {
		if c, ok := in.columns[name]; ok && name != "" && in.present[name] {
			return c
		}
		return -1
	}
	var err error
	if in.keys, err = in.find(r.Keys); err != nil {
		return err
	}
	if in.versions, err = in.find(r.Versions); err != nil {
		return err
	}
	if in.payload, err = in.find(r.Payload); err != nil {
		return err
	}
	in.operation, in.id = optional(r.Operation), optional(r.ChangeID)
	if r.Deleted != "" {
		c, err := in.find([]string{r.Deleted})
		if err != nil {
			return err
		}
		in.deleted = c[0]
	}
	if r.DeletesWhen == "" {
		return nil
	}
	return in.evaluate(j, r.DeletesWhen)
}

func (in *input) evaluate(j *Job, condition string) error {
	e, err := expr.Parse(condition)
	if err != nil {
		return fmt.Errorf("deletes-when: %w", err)
	}
	b, err := expr.Bind(e, j.Batch.Schema)
	if err != nil {
		return fmt.Errorf("deletes-when: %w", err)
	}
	for r, cols := range in.recs {
		got, err := b.Filter(array.NewRecordBatch(j.Batch.Schema, cols, int64(in.lens[r])))
		if err != nil {
			return fmt.Errorf("deletes-when: %w", err)
		}
		in.condition = append(in.condition, got)
	}
	return nil
}

// emptyAsNull rewrites a string column so that "" is NULL, as a partition
// column stores it (merge-semantics 1, "stored form").
func (in *input) emptyAsNull(c int) error {
	for r, cols := range in.recs {
		s, ok := cols[c].(*array.String)
		if !ok {
			continue
		}
		var picks []rows.Pick
		for i := range s.Len() {
			if s.IsNull(i) || s.ValueLen(i) > 0 {
				if picks != nil {
					picks = append(picks, rows.Pick{Row: int32(i)})
				}
				continue
			}
			if picks == nil {
				for k := range i {
					picks = append(picks, rows.Pick{Row: int32(k)})
				}
			}
			picks = append(picks, rows.Null())
		}
		if picks == nil {
			continue
		}
		a, err := rows.Gather(s.DataType(), []arrow.Array{s}, picks)
		if err != nil {
			return err
		}
		in.recs[r][c] = a
	}
	return nil
}

// appendRow appends the ordered form of the given columns of one row.
func (in *input) appendRow(dst []byte, cols []int, at ref) []byte {
	for _, c := range cols {
		dst = ordered.Append(dst, in.recs[at.rec][c], int(at.row))
	}
	return dst
}

// samePayload says whether two rows of the batch have the same payload.
func (in *input) samePayload(a, b ref) bool {
	for _, c := range in.payload {
		if !rows.Equal(in.recs[a.rec][c], int(a.row), in.recs[b.rec][c], int(b.row)) {
			return false
		}
	}
	return true
}

// global is the number of a row over the whole batch.
func (in *input) global(at ref) int { return in.starts[at.rec] + int(at.row) }

// columnsOf returns the given columns of one record.
func (in *input) columnsOf(rec int, cols []int) []arrow.Array {
	out := make([]arrow.Array, len(cols))
	for i, c := range cols {
		out[i] = in.recs[rec][c]
	}
	return out
}
