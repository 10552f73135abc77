package checkpoints

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/ordered"
)

// keySet is a set of keys to look for in the files of a table.
type keySet struct {
	columns []string
	types   []arrow.DataType
	keys    map[string]struct{}   // forms of appendValue
	values  []map[string]struct{} // ordered forms by column; nil: not to skip by
	sorted  [][][]byte            // made of values by ready
}

// newKeySet is an empty set of keys of a table.
func newKeySet(s *deltatable.Snapshot, columns []string) *keySet {
	k := &keySet{columns: columns, keys: map[string]struct{}{}, types: make([]arrow.DataType, len(columns)), values: make([]map[string]struct{}, len(columns))}
	for i, c := range columns {
		if fields, ok := s.Schema().FieldsByName(c); ok && ordered.Supported(fields[0].Type) {
			k.types[i] = fields[0].Type
			k.values[i] = map[string]struct{}{}
		}
	}
	return k
}

// add puts the key of row i in; form is its appendValue form.
func (k *keySet) add(form string, cols []arrow.Array, i int) {
	if _, ok := k.keys[form]; ok {
		return
	}
	k.keys[form] = struct{}{}
	for c, arr := range cols {
		switch {
		case k.values[c] == nil:
		case !arrow.TypeEqual(arr.DataType(), k.types[c]) || isNull(arr, i):
			k.values[c] = nil // the statistics do not speak of this value: skip nothing
		default:
			k.values[c][string(ordered.Append(nil, arr, i))] = struct{}{}
		}
	}
}

func (k *keySet) ready() {
	k.sorted = make([][][]byte, len(k.values))
	for c, vs := range k.values {
		if vs == nil {
			continue
		}
		list := make([][]byte, 0, len(vs))
		for v := range maps.Keys(vs) {
			list = append(list, []byte(v))
		}
		slices.SortFunc(list, bytes.Compare)
		k.sorted[c] = list
	}
}

// excluded says that it is certain that rows with these bounds hold none of the keys (I4).
func (k *keySet) excluded(bounds func(string) deltatable.Bounds) bool {
	for c, sorted := range k.sorted {
		if k.values[c] != nil && bounds(k.columns[c]).Excludes(sorted) {
			return true
		}
	}
	return false
}

// scan calls fn for each row of files whose key is in the set; columns begin with the
// key's. ready must have been called.
func (k *keySet) scan(
	ctx context.Context, s *deltatable.Snapshot, files []*deltatable.Add, columns []string,
	fn func(form string, cols []arrow.Array, i int) error,
) error {
	if len(k.keys) == 0 {
		return nil
	}
	var buf []byte
	for _, a := range files {
		if k.excluded(s.FileBounds(a)) {
			continue
		}
		err := reading{snapshot: s, file: a, columns: columns, skip: k.excluded}.rows(ctx, func(cols []arrow.Array, n int) error {
			for i := range n {
				buf = appendAll(buf[:0], cols[:len(k.columns)], i)
				if _, ok := k.keys[string(buf)]; !ok {
					continue
				}
				if err := fn(string(buf), cols, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
