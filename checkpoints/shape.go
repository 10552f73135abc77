package checkpoints

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
)

// shape is how the columns of a guarded table are read: keys, versions, status, payload, in
// this order. Payload is every other column of the table.
type shape struct {
	roles   *change.Roles
	payload []string
}

func newShape(s *deltatable.Snapshot, roles *change.Roles) *shape {
	sh := &shape{roles: roles}
	special := slices.Concat(roles.Keys, roles.Versions, []string{roles.Status})
	for _, f := range s.Schema().Fields() {
		if !slices.Contains(special, f.Name) {
			sh.payload = append(sh.payload, f.Name)
		}
	}
	return sh
}

// columns are those to read: without the payload, or with it.
func (sh *shape) columns(payload bool) []string {
	out := slices.Concat(sh.roles.Keys, sh.roles.Versions)
	if sh.roles.Status != "" {
		out = append(out, sh.roles.Status)
	}
	if payload {
		out = append(out, sh.payload...)
	}
	return out
}

// block is a batch of a table's rows, its columns told apart.
type block struct {
	keys, versions []arrow.Array
	status         arrow.Array // nil: the table has none
	payload        []arrow.Array
	key, version   ordered.Row
}

// supported says whether the digest can be made of the table's columns.
func (sh *shape) supported(s *deltatable.Snapshot) bool {
	for _, c := range sh.columns(false) {
		fields, ok := s.Schema().FieldsByName(c)
		if !ok || !ordered.Supported(fields[0].Type) {
			return false
		}
	}
	return true
}

func (sh *shape) block(cols []arrow.Array) *block {
	k, v := len(sh.roles.Keys), len(sh.roles.Versions)
	b := &block{keys: cols[:k], versions: cols[k : k+v]}
	rest := cols[k+v:]
	if sh.roles.Status != "" {
		b.status, rest = rest[0], rest[1:]
	}
	b.payload = rest
	b.key, b.version = ordered.NewRow(b.keys...), ordered.NewRow(b.versions...)
	return b
}

// statusOf is the status of row i; zero if it is none.
func (b *block) statusOf(i int) change.Status {
	if b.status == nil {
		return change.Active
	}
	if isNull(b.status, i) {
		return 0
	}
	switch a := b.status.(type) {
	case *array.String:
		s, _ := change.ParseStatus(a.Value(i))
		return s
	case *array.Boolean:
		if a.Value(i) {
			return change.Deleted
		}
		return change.Active
	}
	return 0
}

// appendCanonical appends what the table digest hashes of row i (merge-semantics 7): keys,
// versions, and the status as a word in every form that a table stores it in.
// The row's key and version forms are the first two pieces of what is appended.
func (b *block) appendCanonical(dst []byte, i int, row *encodedRow) []byte {
	start := len(dst)
	dst = b.key.Append(dst, i)
	k := len(dst)
	dst = b.version.Append(dst, i)
	v := len(dst)
	if s := b.statusOf(i); s != 0 {
		dst = ordered.AppendString(dst, s.String())
	} else { // not a status: as it is stored, so that the digest still sees it
		dst = ordered.Append(dst, b.status, i)
	}
	row.key, row.version = dst[start:k:k], dst[k:v:v]
	return dst
}

func orderedRow(cols []arrow.Array) ordered.Row { return ordered.NewRow(cols...) }

// sumRows is the sum of the row hashes of one file.
func sumRows(ctx context.Context, s *deltatable.Snapshot, a *deltatable.Add, sh *shape) (integrity.Sum, error) {
	var sum integrity.Sum
	var buf []byte
	var row encodedRow
	err := reading{snapshot: s, file: a, columns: sh.columns(false)}.rows(ctx, func(cols []arrow.Array, n int) error {
		b := sh.block(cols)
		for i := range n {
			buf = b.appendCanonical(buf[:0], i, &row)
			sum = sum.Plus(integrity.RowHash(buf))
		}
		return nil
	})
	return sum, err
}
