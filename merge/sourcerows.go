package merge

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/keyset"
	"github.com/deltafold/deltafold/merge/statement"
)

// sourceRows are the rows of the source with the hash table of their keys.
type sourceRows struct {
	recs    []arrow.RecordBatch // columns named as in the pair
	starts  []int32
	total   int32
	keys    *keyset.Table    // nil: no equality in ON, every pair is looked at
	dropped []change.Outcome // by row; nil: none
	first   []int32          // by key: its first row, then next
	next    []int32          // by row: the next with the same key, -1
	sorted  [][][]byte       // by key column: distinct values; nil where not usable
}

func newSourceRows(b *Batch, bound *statement.Bound, dropped []change.Outcome) (*sourceRows, error) {
	s := &sourceRows{dropped: dropped}
	fields := make([]arrow.Field, b.Schema.NumFields())
	for i, f := range b.Schema.Fields() {
		fields[i] = arrow.Field{Name: bound.SourceColumn(f.Name), Type: f.Type, Nullable: true}
	}
	sch := arrow.NewSchema(fields, nil)
	for _, f := range b.Files {
		for _, rec := range f.Records {
			if rec.NumRows() == 0 {
				continue
			}
			s.recs = append(s.recs, array.NewRecordBatch(sch, rec.Columns(), rec.NumRows()))
			s.starts = append(s.starts, s.total)
			if int64(s.total)+rec.NumRows() >= movedBase {
				return nil, fmt.Errorf("the source has more than %d rows", movedBase)
			}
			s.total += int32(rec.NumRows())
		}
	}
	if len(bound.Keys) > 0 {
		return s, s.index(bound)
	}
	return s, nil
}

// index puts the rows whose keys can match anything into the hash table.
func (s *sourceRows) index(bound *statement.Bound) error {
	s.keys = keyset.New(int(s.total))
	s.next = make([]int32, s.total)
	s.sorted = make([][][]byte, len(bound.Keys))
	var last []int32
	for r, rec := range s.recs {
		cols, err := keyColumns(rec, bound, func(k *statement.Key) boundExpr { return k.Source })
		if err != nil {
			return err
		}
		row := ordered.NewRow(cols...)
		var buf []byte
		for i := range int(rec.NumRows()) {
			at := s.starts[r] + int32(i)
			s.next[at] = -1
			if s.drops(at) || !comparable(cols, bound.Keys, i) {
				continue
			}
			buf = row.Append(buf[:0], i)
			id, added := s.keys.Insert(buf)
			if added {
				s.first, last = append(s.first, at), append(last, at)
				for k := range bound.Keys {
					if bound.Keys[k].Column != "" {
						s.sorted[k] = append(s.sorted[k], ordered.Append(nil, cols[k], i))
					}
				}
				continue
			}
			s.next[last[id]] = at
			last[id] = at
		}
	}
	s.keys.Seal()
	for k := range s.sorted {
		slices.SortFunc(s.sorted[k], slices.Compare)
		s.sorted[k] = slices.CompactFunc(s.sorted[k], slices.Equal)
	}
	return nil
}

// drops says that an expectation dropped a row.
func (s *sourceRows) drops(n int32) bool { return s.dropped != nil && s.dropped[n] != "" }

// boundExpr is what keyColumns evaluates.
type boundExpr interface {
	Eval(rec arrow.RecordBatch) (arrow.Array, error)
}

func keyColumns(rec arrow.RecordBatch, bound *statement.Bound, side func(*statement.Key) boundExpr) ([]arrow.Array, error) {
	cols := make([]arrow.Array, len(bound.Keys))
	for k := range bound.Keys {
		var err error
		if cols[k], err = side(&bound.Keys[k]).Eval(rec); err != nil {
			return nil, err
		}
	}
	return cols, nil
}

// comparable says whether a row's keys can equal anything: NULL does under <=>
// only.
func comparable(cols []arrow.Array, keys []statement.Key, i int) bool {
	for k, c := range cols {
		if c.IsNull(i) && !keys[k].NullSafe {
			return false
		}
	}
	return true
}

// record and row find a source row by its number.
func (s *sourceRows) find(n int32) (rec int, row int32) {
	at, found := slices.BinarySearch(s.starts, n)
	if !found {
		at--
	}
	return at, n - s.starts[at]
}
