package deltatable_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
)

var stores atomic.Int64

// memStore is an empty store in memory of its own.
func memStore(t testing.TB) *blobstore.Store {
	t.Helper()
	s, err := blobstore.Open(t.Context(), fmt.Sprintf("mem://%s-%d", "deltatable", stores.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clock is a clock that goes on by a millisecond each time it is asked.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) Now() time.Time { return time.UnixMilli(c.ms.Add(1)) }

func noSleep(context.Context, time.Duration) error { return nil }

func testOptions() *deltatable.Options {
	return &deltatable.Options{
		Now: newClock().Now, Engine: "deltafold-test",
		Undecided: &deltatable.Retry{Max: 4, For: time.Hour, Sleep: noSleep},
	}
}

func memTable(t testing.TB) *deltatable.Table {
	t.Helper()
	return deltatable.NewTable(memStore(t), testOptions())
}

func ddl(t testing.TB, text string) *deltatable.Schema {
	t.Helper()
	s, err := deltatable.ParseDDL(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// create makes version 0 and returns its snapshot.
func create(t testing.TB, tab *deltatable.Table, columns string, partitionBy []string, props map[string]string) *deltatable.Snapshot {
	t.Helper()
	md, p, err := deltatable.NewTableMetadata(ddl(t, columns), partitionBy, props)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tab.TryCommit(t.Context(), nil, &deltatable.Commit{Operation: "CREATE TABLE", Protocol: p, Metadata: md}); err != nil {
		t.Fatal(err)
	}
	return snapshot(t, tab)
}

func snapshot(t testing.TB, tab *deltatable.Table) *deltatable.Snapshot {
	t.Helper()
	s, err := tab.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// batch is a record batch of sch from a JSON list, one object a row.
func batch(t testing.TB, sch *arrow.Schema, json string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sch, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// write writes the rows of rec, split by partition, into new files.
func write(t testing.TB, tab *deltatable.Table, l *deltatable.Layout, rec arrow.RecordBatch) []*deltatable.Add {
	t.Helper()
	writers := make(map[string]*deltatable.FileWriter)
	var order []string
	for i := range int(rec.NumRows()) {
		p, err := l.Partition(rec, i)
		if err != nil {
			t.Fatal(err)
		}
		w, ok := writers[p.Key]
		if !ok {
			if w, err = tab.NewFileWriter(t.Context(), l, p); err != nil {
				t.Fatal(err)
			}
			writers[p.Key] = w
			order = append(order, p.Key)
		}
		if err := w.Write(rec.NewSlice(int64(i), int64(i)+1)); err != nil {
			t.Fatal(err)
		}
	}
	var adds []*deltatable.Add
	for _, k := range order {
		a, err := writers[k].Close()
		if err != nil {
			t.Fatal(err)
		}
		adds = append(adds, a...)
	}
	return adds
}

// appendRows appends rows given as JSON lines and returns the new snapshot.
func appendRows(t testing.TB, tab *deltatable.Table, json string) *deltatable.Snapshot {
	t.Helper()
	s := snapshot(t, tab)
	tx := tab.Begin(s)
	tx.Write.Operation = "WRITE"
	tx.Write.Adds = write(t, tab, s.Layout(), batch(t, s.Schema(), json))
	if _, err := tx.Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return snapshot(t, tab)
}
