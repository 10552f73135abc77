package interop

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/tabletest"
	"github.com/deltafold/deltafold/merge"
)

func openMergeTable(t *testing.T, path string) (*deltatable.Table, error) {
	t.Helper()
	store, err := blobstore.Open(t.Context(), path)
	if err != nil {
		return nil, err
	}
	return deltatable.NewTable(store, nil), nil
}

// writeMergeTable makes the table of a case, one commit for each list of rows.
func writeMergeTable(t *testing.T, path string, c *tabletest.MergeCase) (*deltatable.Table, error) {
	t.Helper()
	table, err := openMergeTable(t, path)
	if err != nil {
		return nil, err
	}
	sch, err := deltatable.SchemaFromArrow(c.Target)
	if err != nil {
		return nil, err
	}
	md, protocol, err := deltatable.NewTableMetadata(sch, c.Partition, nil)
	if err != nil {
		return nil, err
	}
	if _, err := table.TryCommit(t.Context(), nil, &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: protocol}); err != nil {
		return nil, err
	}
	for _, rows := range c.Files {
		snap, err := table.Snapshot(t.Context())
		if err != nil {
			return nil, err
		}
		adds, err := mergeFiles(t, table, snap, c, rows)
		if err != nil {
			return nil, err
		}
		if _, err := table.TryCommit(t.Context(), snap, &deltatable.Commit{Operation: "WRITE", Adds: adds, BlindAppend: true}); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// mergeFiles writes rows into one file for each partition.
func mergeFiles(t *testing.T, table *deltatable.Table, snap *deltatable.Snapshot, c *tabletest.MergeCase, rows []tabletest.Row) ([]*deltatable.Add, error) {
	t.Helper()
	groups, parts := map[string][]tabletest.Row{}, map[string]deltatable.Partition{}
	for i, rec := range (tabletest.Batch{Rows: rows}).Records(c.Target) {
		if i > 0 {
			return nil, fmt.Errorf("more rows than a test has: %d", len(rows))
		}
		for j, row := range rows {
			p, err := snap.Layout().Partition(rec, j)
			if err != nil {
				return nil, err
			}
			groups[p.Key], parts[p.Key] = append(groups[p.Key], row), p
		}
	}
	var adds []*deltatable.Add
	for key, group := range groups {
		w, err := table.NewFileWriter(t.Context(), snap.Layout(), parts[key])
		if err != nil {
			return nil, err
		}
		for _, rec := range (tabletest.Batch{Rows: group}).Records(c.Target) {
			if err := w.Write(rec); err != nil {
				return nil, err
			}
		}
		got, err := w.Close()
		if err != nil {
			return nil, err
		}
		adds = append(adds, got...)
	}
	return adds, nil
}

// mergeSource is the source of a case for our own engine.
func mergeSource(c *tabletest.MergeCase) *merge.Batch {
	present := map[string]bool{}
	for _, f := range c.Source.Fields() {
		present[f.Name] = true
	}
	return &merge.Batch{Name: "source", Schema: c.Source, Files: []merge.InputFile{{
		Name: "source", Records: (tabletest.Batch{Rows: c.Rows}).Records(c.Source), Present: present,
	}}}
}

// mergeRows are the rows of the latest version of a table.
func mergeRows(t *testing.T, path string, c *tabletest.MergeCase) ([]string, error) {
	t.Helper()
	table, err := openMergeTable(t, path)
	if err != nil {
		return nil, err
	}
	snap, err := table.Snapshot(t.Context())
	if err != nil {
		return nil, err
	}
	var rows []tabletest.Row
	for rec, err := range snap.Scan(t.Context(), nil) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, tabletest.Rows(rec)...)
	}
	return tabletest.RowTexts(c.Target, rows), nil
}

// mergeValue is a value in the encoding of the drivers.
func mergeValue(v tabletest.Value, t arrow.DataType) any {
	switch v := v.(type) {
	case tabletest.Decimal:
		return decimal128.Num(v).ToString(t.(*arrow.Decimal128Type).Scale)
	case tabletest.Date:
		return time.Unix(int64(v)*86400, 0).UTC().Format(time.DateOnly)
	case tabletest.Time:
		return time.UnixMicro(int64(v)).UTC().Format("2006-01-02T15:04:05.000000Z")
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return map[string]string{"NaN": "NaN", "+Inf": "Infinity", "-Inf": "-Infinity"}[strconv.FormatFloat(v, 'g', -1, 64)]
		}
		return json.RawMessage(strconv.FormatFloat(v, 'e', -1, 64)) // keeps the sign of -0.0
	case tabletest.List:
		out := []any{}
		for _, e := range v {
			out = append(out, mergeValue(e, t.(*arrow.ListType).Elem()))
		}
		return out
	case tabletest.Struct:
		out := map[string]any{}
		for i, f := range t.(*arrow.StructType).Fields() {
			out[f.Name] = mergeValue(v[i], f.Type)
		}
		return out
	case tabletest.Map:
		m := t.(*arrow.MapType)
		pairs := [][2]any{}
		for _, e := range v {
			pairs = append(pairs, [2]any{mergeValue(e[0], m.KeyType()), mergeValue(e[1], m.ItemType())})
		}
		return map[string]any{"$map": pairs}
	}
	return v
}
