package merge

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/merge/internal/keyset"
	"github.com/deltafold/deltafold/merge/internal/rows"
)

// ties are the batch's rows that count, as forms of whole rows, so that a stored
// row that equals some of them is found at once, however many a key has. What is
// found is found by comparing forms, never by a hash alone (I11).
type ties struct {
	forms *keyset.Table
	of    []int32 // by row of the batch: its form; -1 where the row does not count
}

// formSet are numbers of forms.
type formSet map[int32]struct{}

// columnsToRead are the columns that a file is looked through for: keys and
// sequence, and all others where whole rows are compared.
func (r *replace) columnsToRead() []string {
	names := append(slices.Clone(r.job.Roles.Keys), r.job.Roles.Sequence)
	if r.job.Roles.IgnoreIdentical {
		for _, f := range r.target.schema.Fields() {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

func (r *replace) newTies() *ties {
	names := r.columnsToRead()
	t := &ties{forms: keyset.New(r.in.total), of: make([]int32, r.in.total)}
	cols := make([]arrow.Array, len(names))
	var form []byte
	for g, id := range r.owner {
		if t.of[g] = -1; id < 0 {
			continue
		}
		at := r.rows[g]
		for c, name := range names {
			cols[c] = r.in.recs[at.rec][r.in.columns[name]]
		}
		form = appendForms(form[:0], cols, int(at.row))
		t.of[g], _ = t.forms.Insert(form)
	}
	t.forms.Seal()
	return t
}

// appendForms is the form of row i over several columns.
func appendForms(dst []byte, cols []arrow.Array, i int) []byte {
	for _, c := range cols {
		dst = rows.AppendForm(dst, c, i)
	}
	return dst
}

// none is room for a mark on each form.
func (t *ties) none() []bool {
	if t == nil {
		return nil
	}
	return make([]bool, t.forms.Len())
}

// rows are the rows of the batch, of so many, whose form is marked.
func (t *ties) rows(marked []bool, total int) []bool {
	out := make([]bool, total)
	if t == nil {
		return out
	}
	for g, f := range t.of {
		out[g] = f >= 0 && marked[f]
	}
	return out
}
