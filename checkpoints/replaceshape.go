package checkpoints

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
)

// replaceShape is how the columns of a table in mode replace are read: keys, sequence, all
// others, in this order.
type replaceShape struct {
	roles *change.ReplaceRoles
	names []string
}

func newReplaceShape(s *deltatable.Snapshot, roles *change.ReplaceRoles) *replaceShape {
	sh := &replaceShape{roles: roles, names: append(slices.Clone(roles.Keys), roles.Sequence)}
	for _, f := range s.Schema().Fields() {
		if !slices.Contains(sh.names, f.Name) {
			sh.names = append(sh.names, f.Name)
		}
	}
	return sh
}

// check says why the table cannot be read in this mode; "" if it can.
func (sh *replaceShape) check(s *deltatable.Snapshot) string {
	for i, name := range sh.names[:len(sh.roles.Keys)+1] {
		fields, ok := s.Schema().FieldsByName(name)
		switch {
		case !ok:
			return fmt.Sprintf("the table lacks column %q, which its roles name", name)
		case !ordered.Supported(fields[0].Type) || fields[0].Type.ID() == arrow.FLOAT32 || fields[0].Type.ID() == arrow.FLOAT64:
			return fmt.Sprintf("column %q is %s, which is neither a key nor a sequence", name, deltatable.TypeName(fields[0].Type))
		case i < len(sh.roles.Keys):
			continue
		}
		if _, err := versionValue(array.MakeArrayOfNull(allocator(), fields[0].Type, 1), 0); err != nil || !sequenceType(fields[0].Type) {
			return fmt.Sprintf("column %q is %s, which is no sequence", name, deltatable.TypeName(fields[0].Type))
		}
	}
	return ""
}

func sequenceType(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.DECIMAL128, arrow.DATE32, arrow.TIMESTAMP, arrow.STRING:
		return true
	}
	return false
}

// sequenceKind tells sequences that do not compare apart.
func (sh *replaceShape) sequenceKind(s *deltatable.Snapshot) string {
	fields, ok := s.Schema().FieldsByName(sh.roles.Sequence)
	if !ok {
		return ""
	}
	switch id := fields[0].Type.ID(); id {
	case arrow.STRING, arrow.DECIMAL128:
		return id.String()
	}
	return "count"
}

// replaceBatch is the batch of a version, if it is at hand.
type replaceBatch struct {
	*correctness
	rows   []replaceRow
	byKey  map[string][]int // rows that count
	ignore bool             // --ties ignore-identical
	// empty are the keys with "" in a partition column, which would be stored as NULL.
	empty keyList
}

// readReplaceRows reads the rows of a batch in their stored form.
func readReplaceRows(c *correctness, sh *replaceShape, s *deltatable.Snapshot, dropped []change.Outcome) (*replaceBatch, error) {
	b := &replaceBatch{correctness: c, byKey: map[string][]int{}}
	at, keys := 0, len(sh.roles.Keys)
	for _, rec := range c.recs {
		cols, partitions := sh.storedForm(rec, s)
		for i := range int(rec.NumRows()) {
			u := replaceRow{key: string(appendAll(nil, cols[:keys], i)), row: string(appendAll(nil, cols[keys:], i))}
			var err error
			if u.sequence, err = versionValue(cols[keys], i); err != nil {
				return nil, err
			}
			if dropped != nil {
				u.dropped = dropped[at]
			}
			if u.dropped == "" {
				if partitions.empty(i) {
					b.empty.add(func() string { return keyText(cols[:keys], i) })
				}
				b.byKey[u.key] = append(b.byKey[u.key], at)
			}
			b.rows = append(b.rows, u)
			at++
		}
	}
	b.inputs, b.folded.outcomes = make([]input, at), make([]change.Outcome, at)
	for n, u := range b.rows {
		b.folded.outcomes[n] = u.dropped
	}
	return b, nil
}

// texts are string columns of a batch.
type texts []*array.String

// empty says that one of them is "" in row i.
func (ts texts) empty(i int) bool {
	return slices.ContainsFunc(ts, func(a *array.String) bool { return a.IsValid(i) && a.Value(i) == "" })
}

// storedForm gives the columns of a batch as the table stores them, and as they
// came those key columns that are partition columns.
func (sh *replaceShape) storedForm(rec arrow.RecordBatch, s *deltatable.Snapshot) (cols []arrow.Array, partitions texts) {
	cols = make([]arrow.Array, len(sh.names))
	for k, name := range sh.names {
		cols[k] = column(rec, name)
		text, isText := cols[k].(*array.String)
		switch {
		case cols[k] == nil:
			cols[k] = array.NewNull(int(rec.NumRows()))
		case isText && slices.Contains(s.PartitionColumns(), name):
			cols[k] = emptyIsNull(text)
			if k < len(sh.roles.Keys) {
				partitions = append(partitions, text)
			}
		}
	}
	return cols, partitions
}
