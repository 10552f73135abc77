package deltatable_test

import (
	"context"
	"errors"
	"fmt"
	"log" //nolint:depguard // as in a program of one's own
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
)

// newExampleTable makes a table with two versions: created, and three rows.
func newExampleTable(ctx context.Context, url string) (*deltatable.Table, error) {
	store, err := blobstore.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	table := deltatable.NewTable(store, nil)

	sch, err := deltatable.ParseDDL("id long not null, city string, temperature double")
	if err != nil {
		return nil, err
	}
	md, protocol, err := deltatable.NewTableMetadata(sch, []string{"city"}, nil)
	if err != nil {
		return nil, err
	}
	tx := table.Begin(nil)
	tx.Write = deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: protocol}
	if _, err := tx.Commit(ctx, nil); err != nil {
		return nil, err
	}
	return table, appendReadings(ctx, table, `[
		{"id": 1, "city": "Oslo", "temperature": -3.5},
		{"id": 2, "city": "Oslo", "temperature": -1},
		{"id": 3, "city": "Cairo", "temperature": 24}]`)
}

// appendReadings writes rows into files, one writer a partition, and commits them.
func appendReadings(ctx context.Context, table *deltatable.Table, rows string) error {
	s, err := table.Snapshot(ctx)
	if err != nil {
		return err
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s.Schema(), strings.NewReader(rows))
	if err != nil {
		return err
	}
	tx := table.Begin(s)
	tx.Write.Operation = "WRITE"
	tx.Write.Parameters = map[string]string{"mode": "Append", "partitionBy": "[]"}
	writers := make(map[string]*deltatable.FileWriter)
	for i := range rec.NumRows() {
		p, err := s.Layout().Partition(rec, int(i))
		if err != nil {
			return err
		}
		w, ok := writers[p.Key]
		if !ok {
			if w, err = table.NewFileWriter(ctx, s.Layout(), p); err != nil {
				return err
			}
			writers[p.Key] = w
		}
		if err := w.Write(rec.NewSlice(i, i+1)); err != nil {
			return err
		}
	}
	for _, w := range writers {
		adds, err := w.Close()
		if err != nil {
			return err
		}
		tx.Write.Adds = append(tx.Write.Adds, adds...)
	}
	_, err = tx.Commit(ctx, nil)
	return err
}

// Open a table and read some of its rows.
func ExampleSnapshot_Scan() {
	ctx := context.Background()
	table, err := newExampleTable(ctx, "mem://example-scan")
	if err != nil {
		log.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	where, err := expr.Parse("city = 'Oslo' AND temperature > -2")
	if err != nil {
		log.Fatal(err)
	}
	filter, err := expr.Bind(where, s.Schema())
	if err != nil {
		log.Fatal(err)
	}
	for rec, err := range s.Scan(ctx, &deltatable.ScanOptions{Columns: []string{"id", "temperature"}, Filter: filter}) {
		if err != nil {
			log.Fatal(err)
		}
		ids, temps := rec.Column(0).(*array.Int64), rec.Column(1).(*array.Float64)
		for i := range ids.Len() {
			fmt.Println(ids.Value(i), temps.Value(i))
		}
	}
	// Output: 2 -1
}

// Read an earlier version, and ask for one that is not there.
func ExampleTable_SnapshotAt() {
	ctx := context.Background()
	table, err := newExampleTable(ctx, "mem://example-travel")
	if err != nil {
		log.Fatal(err)
	}
	s, err := table.SnapshotAt(ctx, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("version", s.Version(), "has", len(s.Files()), "files")

	_, err = table.SnapshotAt(ctx, 9)
	if e, ok := errors.AsType[*deltatable.VersionRangeError](err); ok {
		fmt.Println("there are versions", e.Earliest, "to", e.Latest)
	}
	// Output:
	// version 0 has 0 files
	// there are versions 0 to 1
}

// A writer of row-level changes makes single attempts and looks at what the
// winners did.
func ExampleClassify() {
	ctx := context.Background()
	table, err := newExampleTable(ctx, "mem://example-classify")
	if err != nil {
		log.Fatal(err)
	}
	read, err := table.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Another writer is faster.
	if err := appendReadings(ctx, table, `[{"id": 4, "city": "Lima", "temperature": 18}]`); err != nil {
		log.Fatal(err)
	}
	_, err = table.TryCommit(ctx, read, &deltatable.Commit{Operation: "DELETE", Removes: read.Files()[:1]})
	if _, ok := errors.AsType[*deltatable.ConflictError](err); !ok {
		log.Fatal(err)
	}
	winners, after, err := table.Winners(ctx, read)
	if err != nil {
		log.Fatal(err)
	}
	changes := deltatable.Classify(read, winners)
	answer, err := changes.Answer(after, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(changes.Added), "file added,", len(changes.Removed), "removed:", answer)
	// Output: 1 file added, 0 removed: probe again
}

// List what happened to a table.
func ExampleTable_History() {
	ctx := context.Background()
	table, err := newExampleTable(ctx, "mem://example-history")
	if err != nil {
		log.Fatal(err)
	}
	entries, err := table.History(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Version, e.Info.Operation, "blind append:", *e.Info.IsBlindAppend)
	}
	// Output:
	// 1 WRITE blind append: true
	// 0 CREATE TABLE blind append: true
}
