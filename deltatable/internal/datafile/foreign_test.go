package datafile

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// foreignTables is the folder of tables that other engines wrote.
func foreignTables(t *testing.T) string {
	dir := os.Getenv("DELTAFOLD_TABLES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "tables")
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err != nil {
		t.Skipf("no foreign tables: set DELTAFOLD_TABLES (%v)", err)
	}
	return dir
}

// TestForeignFilesNeverPanic opens and reads every Parquet file there is, log
// checkpoints too, under its own schema guessed from nothing: every column as
// string, and under the empty schema. Errors are fine, panics are not.
func TestForeignFilesNeverPanic(t *testing.T) {
	files, opened := 0, 0
	err := filepath.WalkDir(foreignTables(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := Open(context.Background(), bytes.NewReader(data), int64(len(data)), arrow.NewSchema(nil, nil))
		if err != nil {
			return nil
		}
		opened++
		var fields []arrow.Field
		root := f.reader.MetaData().Schema.Root()
		for i := range root.NumFields() {
			fields = append(fields, field(root.Field(i).Name(), arrow.BinaryTypes.String))
		}
		f, err = Open(context.Background(), bytes.NewReader(data), int64(len(data)), arrow.NewSchema(fields, nil))
		if err != nil {
			return nil
		}
		for _, fd := range fields {
			for _, err := range f.Read(context.Background(), ReadOptions{Columns: []string{fd.Name}}) {
				if err != nil {
					break
				}
			}
			for g := range f.RowGroups() {
				f.Bounds(g, fd.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d opened", files, opened)
	if opened < 750 {
		t.Errorf("%d files opened, fewer than 750", opened)
	}
}

type manifestEntry struct {
	Name             string          `json:"name"`
	LatestVersion    int64           `json:"latest_version"`
	PartitionColumns []string        `json:"partition_columns"`
	Features         []string        `json:"features"`
	ShouldFail       json.RawMessage `json:"should_fail"`
	Substitution     json.RawMessage `json:"needs_substitution"`
	Expected         struct {
		File         string `json:"file"`
		SnapshotOnly bool   `json:"snapshot_only"`
	} `json:"expected"`
	StateFile string `json:"state_file"`
}

// TestForeignTablesReadAsExpected compares the rows of every table whose files
// need no more than this package: no deletion vectors, no column mapping, no
// type widening, no variant.
func TestForeignTablesReadAsExpected(t *testing.T) {
	dir := foreignTables(t)
	var tables []manifestEntry
	data, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &tables); err != nil {
		t.Fatal(err)
	}
	compared := 0
	beyond := map[string]int{} // tables that need more than this package, by what
	for _, e := range tables {
		if e.Expected.File == "" || e.Expected.SnapshotOnly {
			continue
		}
		got, more, err := readForeign(filepath.Join(dir, e.Name))
		if more != "" {
			beyond[more]++
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			if err != nil {
				t.Fatal(err)
			}
			want, err := expectedRows(filepath.Join(dir, e.Expected.File))
			if err != nil {
				t.Fatal(err)
			}
			got = append([]string{}, got...)
			sort.Strings(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("rows (-want +got):\n%.3000s", d)
			}
			compared++
		})
	}
	t.Logf("%d tables compared; beyond this package: %v", compared, beyond)
	if floor := 85; compared < floor && !t.Failed() {
		t.Errorf("%d tables compared, fewer than %d", compared, floor)
	}
}

func expectedRows(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for line := range strings.Lines(string(data)) {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		out = append(out, render(sortMaps(v)))
	}
	sort.Strings(out)
	return out, nil
}

func render(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "unrenderable: " + err.Error()
	}
	return string(b)
}

// sortMaps orders the entries of {"$map": …}, which compare as a set.
func sortMaps(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = sortMaps(v[k])
		}
		if m, ok := v["$map"].([]any); ok && len(v) == 1 {
			sort.Slice(m, func(i, j int) bool { return render(m[i]) < render(m[j]) })
		}
	case []any:
		for i := range v {
			v[i] = sortMaps(v[i])
		}
	case json.Number: // floating-point numbers have many spellings
		if strings.ContainsAny(string(v), ".eE") {
			if f, err := v.Float64(); err == nil {
				return "number " + strconv.FormatFloat(f, 'g', -1, 64)
			}
		}
	}
	return v
}

type logAction struct {
	Add *struct {
		Path            string             `json:"path"`
		PartitionValues map[string]*string `json:"partitionValues"`
		Stats           string             `json:"stats"`
		DeletionVector  json.RawMessage    `json:"deletionVector"`
	} `json:"add"`
	Remove *struct {
		Path string `json:"path"`
	} `json:"remove"`
	MetaData *struct {
		SchemaString     string            `json:"schemaString"`
		PartitionColumns []string          `json:"partitionColumns"`
		Configuration    map[string]string `json:"configuration"`
	} `json:"metaData"`
}

// readForeign replays the plain JSON log in the simplest way there is, only for
// tables that have all their commits, and reads the live files.
func readForeign(table string) (rows []string, beyond string, err error) {
	log := filepath.Join(table, "_delta_log")
	var commits []string
	entries, err := os.ReadDir(log)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		if len(e.Name()) == 25 && strings.HasSuffix(e.Name(), ".json") {
			commits = append(commits, e.Name())
		}
	}
	var meta *logAction
	live := map[string]*logAction{}
	for i, c := range commits {
		if c != fmt.Sprintf("%020d.json", i) {
			return nil, "not all commits are there", nil
		}
		data, err := os.ReadFile(filepath.Join(log, c))
		if err != nil {
			return nil, "", err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		var adds []*logAction
		for d.More() {
			a := &logAction{}
			if err := d.Decode(a); err != nil {
				return nil, "", err
			}
			switch {
			case a.Add != nil:
				if len(a.Add.DeletionVector) > 0 && string(a.Add.DeletionVector) != "null" {
					return nil, "deletion vectors", nil
				}
				adds = append(adds, a)
			case a.Remove != nil:
				delete(live, a.Remove.Path)
			case a.MetaData != nil:
				meta = a
			}
		}
		for _, a := range adds {
			live[a.Add.Path] = a
		}
	}
	if meta == nil {
		return nil, "no metadata", nil
	}
	if m := meta.MetaData.Configuration["delta.columnMapping.mode"]; m != "" && m != "none" {
		return nil, "column mapping", nil
	}
	if strings.Contains(meta.MetaData.SchemaString, "delta.typeChanges") {
		return nil, "type widening", nil
	}
	s, err := schema.Parse(meta.MetaData.SchemaString)
	if err != nil {
		return nil, "", err
	}
	logical, err := s.Arrow()
	if err != nil {
		return nil, err.Error(), nil
	}
	for _, a := range live {
		more, skip, err := foreignFile(table, a, meta.MetaData.PartitionColumns, logical)
		if err != nil || skip != "" {
			return nil, skip, err
		}
		rows = append(rows, more...)
	}
	return rows, "", nil
}

func foreignFile(table string, a *logAction, partitions []string, logical *arrow.Schema) (rows []string, skip string, err error) {
	isPartition := map[string]bool{}
	for _, p := range partitions {
		isPartition[p] = true
	}
	var dataFields []arrow.Field
	for _, f := range logical.Fields() {
		if !isPartition[f.Name] {
			dataFields = append(dataFields, f)
		}
	}
	want := arrow.NewSchema(dataFields, nil)
	key, absolute, err := schema.DecodePath(a.Add.Path)
	if err != nil || absolute {
		return nil, "absolute path", err
	}
	data, err := os.ReadFile(filepath.Join(table, filepath.FromSlash(key)))
	if err != nil {
		return nil, "a data file is not there", nil
	}
	f, err := Open(context.Background(), bytes.NewReader(data), int64(len(data)), want)
	if err != nil {
		return nil, "", err
	}
	constant := map[string]arrow.Array{}
	for _, p := range partitions {
		arr, err := schema.PartitionArray(logical.Field(logical.FieldIndices(p)[0]).Type, a.Add.PartitionValues[p], 1)
		if err != nil {
			return nil, "", err
		}
		constant[p] = arr
	}
	for b, err := range f.Read(context.Background(), ReadOptions{BatchRows: 1000}) {
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", key, err)
		}
		if err := boundsHold(f, b.Rec, a.Add.Stats, want); err != nil {
			return nil, "", fmt.Errorf("%s: %w", key, err)
		}
		for i := range int(b.Rec.NumRows()) {
			row := map[string]any{}
			for _, fd := range logical.Fields() {
				if c, ok := constant[fd.Name]; ok {
					row[fd.Name] = jsonValue(c, 0)
				} else {
					row[fd.Name] = jsonValue(b.Rec.Column(want.FieldIndices(fd.Name)[0]), i)
				}
			}
			rows = append(rows, render(sortMaps(row)))
		}
	}
	return rows, "", nil
}

// boundsHold checks that neither a foreign writer's statistics nor its footer
// exclude a value that is there.
func boundsHold(f *File, rec arrow.RecordBatch, stats string, want *arrow.Schema) error {
	of := StatsBounds(stats, want)
	for c, fd := range want.Fields() {
		forms, _ := leafValues([]arrow.RecordBatch{rec}, []int{c})
		for _, v := range forms {
			if of(fd.Name).Excludes([][]byte{v}) {
				return fmt.Errorf("the statistics of column %s exclude a value that is there: %s", fd.Name, stats)
			}
			if f.RowGroups() == 1 && f.Bounds(0, fd.Name).Excludes([][]byte{v}) {
				return fmt.Errorf("the footer's statistics of column %s exclude a value that is there", fd.Name)
			}
		}
	}
	return nil
}

// jsonValue gives a value in the encoding of the expected rows.
func jsonValue(arr arrow.Array, i int) any {
	if arr.DataType().ID() == arrow.NULL || arr.IsNull(i) {
		return nil
	}
	switch a := arr.(type) {
	case *array.Float32:
		return jsonFloat(float64(a.Value(i)), 32)
	case *array.Float64:
		return jsonFloat(a.Value(i), 64)
	case *array.Decimal128:
		return string(schema.AppendDecimal(nil, a.Value(i), a.DataType().(*arrow.Decimal128Type).Scale))
	case *array.Binary:
		return hex.EncodeToString(a.Value(i))
	case *array.Date32:
		return string(schema.AppendDate(nil, int64(a.Value(i))))
	case *array.Timestamp:
		zone := ""
		if a.DataType().(*arrow.TimestampType).TimeZone != "" {
			zone = "Z"
		}
		return string(schema.AppendTimestamp(nil, int64(a.Value(i)), 'T', 6)) + zone
	case *array.Map:
		out := []any{}
		from, to := a.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			out = append(out, []any{jsonValue(a.Keys(), j), jsonValue(a.Items(), j)})
		}
		return map[string]any{"$map": out}
	case *array.List:
		out := []any{}
		from, to := a.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			out = append(out, jsonValue(a.ListValues(), j))
		}
		return out
	case *array.Struct:
		out := map[string]any{}
		for j, f := range a.DataType().(*arrow.StructType).Fields() {
			out[f.Name] = jsonValue(a.Field(j), i)
		}
		return out
	case *array.String:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	}
	return json.Number(arr.ValueStr(i))
}

func jsonFloat(v float64, bits int) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return json.Number(schema.AppendFloat(nil, v, bits))
}
