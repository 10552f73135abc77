package deltatable_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/deltatable"
)

// Partition values with every kind of character come back, and replaying them
// through PartitionOf gives the partition that they were written to.
func TestPartitionValuesComeBack(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long, p string, d decimal(10,2), ts timestamp, n timestamp_ntz", []string{"p", "d", "ts", "n"}, nil)
	var rows []string
	values := []string{"New York", "a/b", "50%", "x=y", "é", "2024-01-01 00:00:00", "日本", "a+b", "?#&", "..", " ", "__HIVE_DEFAULT_PARTITION__", "a\\b", "null", strings.Repeat("long", 100)}
	for i, v := range values {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"p":%s,"d":"1.5","ts":"2024-01-01T00:00:00.000001Z","n":"2024-01-01T00:00:00"}`, i, quote(v)))
	}
	s := appendRows(t, tab, "["+strings.Join(rows, ",")+"]")
	if n := len(s.Files()); n != len(values) {
		t.Errorf("%d files, want %d", n, len(values))
	}
	got := make(map[string]string)
	for rec, err := range s.Scan(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range encodeRows(rec) {
			p, err := s.Layout().Partition(rec, i)
			if err != nil {
				t.Fatal(err)
			}
			got[p.Key] = row
		}
	}
	for _, a := range s.Files() {
		p, err := s.Layout().PartitionOf(a)
		if err != nil {
			t.Fatal(err)
		}
		if got[p.Key] == "" {
			t.Errorf("no row in the partition of %s", a.Path)
		}
		delete(got, p.Key)
		if a.PartitionValues["p"] == nil {
			t.Errorf("%s has a NULL partition value", a.Path)
		}
	}
	if len(got) != 0 {
		t.Errorf("rows in partitions of no file: %v", got)
	}
}

// The spelling of a partition value does not matter, its value does.
func TestPartitionOfComparesTypedValues(t *testing.T) {
	md, _, err := deltatable.NewTableMetadata(ddl(t, "id long, ts timestamp, d decimal(5,2)"), []string{"ts", "d"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := deltatable.NewLayout(md)
	if err != nil {
		t.Fatal(err)
	}
	key := func(ts, d string) string {
		p, err := l.PartitionOf(&deltatable.Add{PartitionValues: map[string]*string{"ts": &ts, "d": &d}})
		if err != nil {
			t.Fatal(err)
		}
		return p.Key
	}
	if key("2024-01-01T00:00:00.000000Z", "1.50") != key("2024-01-01 00:00:00", "1.5") {
		t.Error("two spellings of one partition differ")
	}
	empty := ""
	p, err := l.PartitionOf(&deltatable.Add{PartitionValues: map[string]*string{"ts": &empty}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]*string{"ts": nil, "d": nil}, p.Values); d != "" {
		t.Error("values of the empty string and of none: -want +got\n", d)
	}
	if key("", "1.5") == key("2024-01-01 00:00:00", "1.5") || key("", "") == key("", "0") {
		t.Error("NULL equals a value")
	}
}

func TestNewTableMetadata(t *testing.T) {
	for _, c := range []struct {
		ddl, by string
		props   map[string]string
		want    string // protocol, or part of the error
	}{
		{"id long", "", nil, "1,2 [] []"},
		{"id long, n timestamp_ntz", "", nil, "3,7 [timestampNtz] [appendOnly invariants timestampNtz]"},
		{"id long, s struct<a:array<timestamp_ntz>>", "", nil, "3,7 [timestampNtz] [appendOnly invariants timestampNtz]"},
		{"id long", "", map[string]string{"delta.enableInCommitTimestamps": "true"}, "1,7 [] [appendOnly inCommitTimestamp invariants]"},
		{"id long", "", map[string]string{"delta.feature.domainMetadata": "supported"}, "1,7 [] [appendOnly domainMetadata invariants]"},
		{"id long", "", map[string]string{"delta.enableDeletionVectors": "true"}, "deletionVectors"},
		{"id long", "", map[string]string{"delta.enableRowTracking": "true"}, "rowTracking"},
		{"id long", "", map[string]string{"delta.columnMapping.mode": "name"}, "columnMapping"},
		{"id long", "", map[string]string{"delta.enableChangeDataFeed": "true"}, "changeDataFeed"},
		{"id long", "", map[string]string{"delta.constraints.c": "id > 0"}, "checkConstraints"},
		{"id long", "", map[string]string{"delta.targetFileSize": "many"}, "delta.targetFileSize"},
		{"id long", "id", nil, "not a partition column"},
		{"id long, b binary", "b", nil, "cannot be a partition column"},
		{"id long, v long", "nope", nil, "no such column"},
		{"id long, v long", "V,v", nil, "twice"},
		{"id long, `a b` long", "", nil, "must not"},
	} {
		var by []string
		if c.by != "" {
			by = strings.Split(c.by, ",")
		}
		_, p, err := deltatable.NewTableMetadata(ddl(t, c.ddl), by, c.props)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%d,%d %v %v", p.MinReader, p.MinWriter, p.ReaderFeatures, p.WriterFeatures)
		}
		if err == nil && got != c.want || err != nil && !strings.Contains(got, c.want) {
			t.Errorf("%s by %q with %v: %s, want %s", c.ddl, c.by, c.props, got, c.want)
		}
	}
}

func TestFileWriterRollsAndCounts(t *testing.T) {
	tab := memTable(t)
	s := create(t, tab, "id long, s string", nil, map[string]string{
		"delta.targetFileSize": "64kb", "deltafold.keys": `["s"]`, "delta.dataSkippingNumIndexedCols": "1",
	})
	var rows []string
	for i := range 40000 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"s":"%x"}`, i, uint64(i)*0x9E3779B97F4A7C15))
	}
	rec := batch(t, s.Schema(), "["+strings.Join(rows, ",")+"]")
	w, err := tab.NewFileWriter(t.Context(), s.Layout(), deltatable.Partition{})
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < rec.NumRows(); at += 10000 {
		if err := w.Write(rec.NewSlice(at, at+10000)); err != nil {
			t.Fatal(err)
		}
	}
	adds, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if len(adds) < 2 || w.Rows() != 40000 {
		t.Errorf("%d files, %d rows", len(adds), w.Rows())
	}
	var rowsByStats int64
	for _, a := range adds {
		n, ok := s.NumRecords(a)
		b := s.Bounds(a, "s")
		if !ok || b.Rows != n || b.Min == nil || b.Max == nil || b.NullCount != 0 {
			t.Errorf("%s: %d rows, key bounds %+v", a.Path, n, b)
		}
		rowsByStats += n
		if len(a.Tags[deltatable.TagFileHash]) != 32 || !strings.HasPrefix(a.Path, "part-00000-") || !strings.HasSuffix(a.Path, ".c000.snappy.parquet") {
			t.Errorf("add %+v", a)
		}
	}
	if rowsByStats != 40000 {
		t.Errorf("%d rows by statistics", rowsByStats)
	}
	if err := tab.Discard(t.Context(), adds); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Store().Stat(t.Context(), adds[0].Path); err == nil {
		t.Error("a discarded file is still there")
	}
}

func TestFileWriterRefusesNulls(t *testing.T) {
	tab := memTable(t)
	s := create(t, tab, "id long not null, p long not null", []string{"p"}, nil)
	one := "1"
	w, err := tab.NewFileWriter(t.Context(), s.Layout(), deltatable.Partition{Values: map[string]*string{"p": &one}})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Write(batch(t, s.Schema(), `[{"id":null,"p":1}]`))
	if err == nil {
		_, err = w.Close()
	}
	v, _ := errors.AsType[*deltatable.ValueError](err)
	if v == nil || v.Column != "id" {
		t.Errorf("got %v", err)
	}
	_, err = tab.NewFileWriter(t.Context(), s.Layout(), deltatable.Partition{Values: map[string]*string{"p": nil}})
	if v, _ := errors.AsType[*deltatable.ValueError](err); v == nil || v.Column != "p" {
		t.Errorf("got %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	for i, err := range tab.Store().List(t.Context(), "", "") {
		if err != nil || strings.HasSuffix(i.Key, ".parquet") {
			t.Errorf("left behind: %s %v", i.Key, err)
		}
	}
}

// Snapshots are immutable and refreshed by what is new only (I5).
func TestRefresh(t *testing.T) {
	tab := memTable(t)
	s0 := create(t, tab, "id long", nil, nil)
	before := len(s0.Files())
	appendRows(t, tab, `[{"id":1}]`)
	s1, err := tab.Refresh(t.Context(), s0)
	if err != nil {
		t.Fatal(err)
	}
	again, err := tab.Refresh(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{s0.Version(), before, len(s0.Files()), s1.Version(), len(s1.Files()), again == s1}
	want := []any{deltatable.Version(0), 0, 0, deltatable.Version(1), 1, true}
	if d := cmp.Diff(want, got); d != "" {
		t.Error("-want +got\n", d)
	}
}

// A property that only writers need stops writers, by name, and no reader.
func TestUnusablePropertyStopsWritersOnly(t *testing.T) {
	tab := memTable(t)
	create(t, tab, "id long", nil, nil)
	s := appendRows(t, tab, `[{"id":1}]`)
	c := &deltatable.Commit{Operation: "SET TBLPROPERTIES", Metadata: withProperty(s, "delta.targetFileSize", "many")}
	if _, err := tab.TryCommit(t.Context(), s, c); err != nil {
		t.Fatal(err)
	}
	s = snapshot(t, tab)
	if got := scanRows(t, s, nil); len(got) != 1 {
		t.Errorf("rows %v", got)
	}
	_, err := tab.NewFileWriter(t.Context(), s.Layout(), deltatable.Partition{})
	p, _ := errors.AsType[*deltatable.PropertyError](err)
	if p == nil || p.Key != "delta.targetFileSize" || p.Value != "many" {
		t.Errorf("got %v", err)
	}
}

func TestTargetFileSizeForms(t *testing.T) {
	for text, ok := range map[string]bool{"1048576": true, "128mb": true, "128 MB": true, "1g": true, "64KiB": true, "1tb": true, "0": false, "-1": false, "mb": false, "1.5mb": false, "1x": false, "99999999999999999999": false, "9999999999tb": false, "": false} {
		_, _, err := deltatable.NewTableMetadata(ddl(t, "id long"), nil, map[string]string{"delta.targetFileSize": text})
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
