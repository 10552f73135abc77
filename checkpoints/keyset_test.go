package checkpoints

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
)

// TestKeySetSkipsOnlyWhatIsCertain: I4, and keys whose type is not the table's.
func TestKeySetSkipsOnlyWhatIsCertain(t *testing.T) {
	w := newWorld(t.Context(), t)
	w.table = newTable(t.Context(), t)
	w.snap = w.create(w.table, "k string, n long", nil, nil)
	w.wideVersion(t, "WRITE", `[{"k":"b","n":1},{"k":"d","n":9}]`)
	file := w.snap.Files()[0]
	str, long, short := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32
	for _, c := range []struct {
		name    string
		columns []string
		keys    [][]arrow.Array
		want    bool
	}{
		{"no key is skipped over", []string{"k"}, [][]arrow.Array{{fromJSON(t, str, `["c"]`)}}, false},
		{"below", []string{"k"}, [][]arrow.Array{{fromJSON(t, str, `["a"]`)}}, true},
		{"above and below", []string{"k"}, [][]arrow.Array{{fromJSON(t, str, `["a"]`)}, {fromJSON(t, str, `["e"]`)}}, true},
		{"one column is enough", []string{"k", "n"}, [][]arrow.Array{{fromJSON(t, str, `["c"]`), fromJSON(t, long, `[10]`)}}, true},
		{"of another type", []string{"n"}, [][]arrow.Array{{fromJSON(t, short, `[10]`)}}, false},
		{"one of another type", []string{"n"}, [][]arrow.Array{{fromJSON(t, long, `[10]`)}, {fromJSON(t, short, `[5]`)}}, false},
		{"NULL", []string{"k"}, [][]arrow.Array{{fromJSON(t, str, `[null]`)}}, false},
		{"a column that is not there", []string{"z"}, [][]arrow.Array{{fromJSON(t, str, `["a"]`)}}, false},
	} {
		set := newKeySet(w.snap, c.columns)
		for _, key := range c.keys {
			set.add(string(appendAll(nil, key, 0)), key, 0)
		}
		set.ready()
		if got := set.excluded(w.snap.FileBounds(file)); got != c.want {
			t.Errorf("%s: excluded is %v, want %v", c.name, got, c.want)
		}
		unknown := func(string) deltatable.Bounds { return deltatable.Bounds{NullCount: -1, Rows: -1} }
		if set.excluded(unknown) {
			t.Errorf("%s: excluded by unknown bounds", c.name)
		}
	}
	// A wider type still finds the row.
	set := newKeySet(w.snap, []string{"n"})
	key := []arrow.Array{fromJSON(t, short, `[9]`)}
	set.add(string(appendAll(nil, key, 0)), key, 0)
	set.ready()
	var got []string
	err := set.scan(t.Context(), w.snap, w.snap.Files(), []string{"n", "k"}, func(_ string, cols []arrow.Array, i int) error {
		got = append(got, cols[1].ValueStr(i))
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"d"}) {
		t.Errorf("%v %v", got, err)
	}
}
