package deltalog

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The functions here read single values of whatever Arrow type a writer's Parquet
// types turn into. A nil array is a missing column: every value is NULL.

// child returns a field of a struct, nil if there is none.
func child(s *array.Struct, name string) arrow.Array {
	if s == nil {
		return nil
	}
	i, ok := s.DataType().(*arrow.StructType).FieldIdx(name)
	if !ok {
		return nil
	}
	return s.Field(i)
}

// childStruct is child for a struct.
func childStruct(s *array.Struct, name string) *array.Struct {
	c, _ := child(s, name).(*array.Struct)
	return c
}

// stringAt returns a string that is independent of the array's memory.
func stringAt(a arrow.Array, i int) (string, bool) {
	if a == nil || a.IsNull(i) {
		return "", false
	}
	switch a := a.(type) {
	case *array.String:
		return strings.Clone(a.Value(i)), true
	case *array.LargeString:
		return strings.Clone(a.Value(i)), true
	case *array.Binary: // text without the annotation
		return string(a.Value(i)), true
	case *array.LargeBinary:
		return string(a.Value(i)), true
	}
	return "", false
}

func textAt(a arrow.Array, i int) string {
	s, _ := stringAt(a, i)
	return s
}

func intAt(a arrow.Array, i int) (int64, bool) {
	if a == nil || a.IsNull(i) {
		return 0, false
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i), true
	case *array.Int32:
		return int64(a.Value(i)), true
	case *array.Int16:
		return int64(a.Value(i)), true
	case *array.Int8:
		return int64(a.Value(i)), true
	case *array.Timestamp: // a time in milliseconds, by a writer that annotates it
		return a.Value(i).ToTime(a.DataType().(*arrow.TimestampType).Unit).UnixMilli(), true
	}
	return 0, false
}

func longAt(a arrow.Array, i int) int64 {
	v, _ := intAt(a, i)
	return v
}

func optLongAt(a arrow.Array, i int) *int64 {
	v, ok := intAt(a, i)
	if !ok {
		return nil
	}
	return &v
}

// boolAt returns def for NULL.
func boolAt(a arrow.Array, i int, def bool) bool {
	if b, ok := a.(*array.Boolean); ok && b.IsValid(i) {
		return b.Value(i)
	}
	return def
}

// listAt returns a list of strings, nil for NULL.
func listAt(a arrow.Array, i int) []string {
	l, ok := a.(array.ListLike)
	if !ok || l.IsNull(i) {
		return nil
	}
	from, to := l.ValueOffsets(i)
	list := make([]string, 0, to-from)
	for j := from; j < to; j++ {
		list = append(list, textAt(l.ListValues(), int(j)))
	}
	return list
}

// mapRange returns the keys and values of a map and its range in them.
func mapRange(a arrow.Array, i int) (keys, values arrow.Array, from, to int, ok bool) {
	m, isMap := a.(*array.Map)
	if !isMap || m.IsNull(i) {
		return nil, nil, 0, 0, false
	}
	lo, hi := m.ValueOffsets(i)
	return m.Keys(), m.Items(), int(lo), int(hi), true
}

// mapAt returns a map of strings without its null values, nil for NULL.
func mapAt(a arrow.Array, i int) map[string]string {
	keys, values, from, to, ok := mapRange(a, i)
	if !ok {
		return nil
	}
	m := make(map[string]string, to-from)
	for j := from; j < to; j++ {
		if v, ok := stringAt(values, j); ok {
			m[textAt(keys, j)] = v
		}
	}
	return m
}

// allNull reports whether no field of a struct has a value in a row.
func allNull(s *array.Struct, i int) bool {
	for f := range s.NumField() {
		if s.Field(f).IsValid(i) {
			return false
		}
	}
	return true
}

// mapCache gives equal partition values one map (I9).
type mapCache struct {
	maps map[string]map[string]*string
	key  []byte
}

func newMapCache() *mapCache { return &mapCache{maps: map[string]map[string]*string{}} }

// maxMaps bounds the cache.
const maxMaps = 1 << 16

// at returns the partition values of a row; nil for NULL. Read-only.
func (c *mapCache) at(a arrow.Array, i int) map[string]*string {
	keys, values, from, to, ok := mapRange(a, i)
	if !ok {
		return nil
	}
	c.key = c.key[:0]
	for j := from; j < to; j++ {
		c.key = appendCounted(c.key, keys, j)
		c.key = appendCounted(c.key, values, j)
	}
	if m, ok := c.maps[string(c.key)]; ok {
		return m
	}
	m := make(map[string]*string, to-from)
	for j := from; j < to; j++ {
		var value *string
		if v, ok := stringAt(values, j); ok {
			value = &v
		}
		m[textAt(keys, j)] = value
	}
	if len(c.maps) < maxMaps {
		c.maps[string(c.key)] = m
	}
	return m
}

// appendCounted appends a nullable text so that lists of them cannot be mistaken for others.
func appendCounted(dst []byte, a arrow.Array, i int) []byte {
	s, ok := rawAt(a, i)
	if !ok {
		return append(dst, 0xFF)
	}
	n := len(s)
	return append(append(dst, byte(n>>21)&0x7F, byte(n>>14)&0x7F, byte(n>>7)&0x7F, byte(n)&0x7F), s...)
}

// rawAt is stringAt without the copy.
func rawAt(a arrow.Array, i int) (string, bool) {
	if s, ok := a.(*array.String); ok {
		if s.IsNull(i) {
			return "", false
		}
		return s.Value(i), true
	}
	return stringAt(a, i)
}
