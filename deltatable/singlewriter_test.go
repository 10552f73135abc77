package deltatable_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/deltatable"
)

// aloneDriver is a store that commits are unsafe in, or that refuses them.
type aloneDriver struct {
	blobstore.Driver
	prepared bool
	refusal  error
}

func (d *aloneDriver) Prepare(context.Context) error {
	d.prepared = d.refusal == nil
	return d.refusal
}

func (d *aloneDriver) SingleWriter() bool { return d.prepared }

// aloneTable is a table at version 0 and the same one through an aloneDriver.
func aloneTable(t *testing.T, refusal error) (tab, sound *deltatable.Table) {
	t.Helper()
	store := memStore(t)
	sound = deltatable.NewTable(store, testOptions())
	create(t, sound, "id long", nil, nil)
	d := &aloneDriver{refusal: refusal}
	store.Wrap(func(below blobstore.Driver) blobstore.Driver {
		d.Driver = below
		return below
	})
	return deltatable.NewTable(blobstore.New(d, store.URL()), testOptions()), sound
}

func TestUnsafeSingleWriterIsRecorded(t *testing.T) {
	tab, sound := aloneTable(t, nil)
	for i, tags := range []map[string]string{nil, {"k": "v"}} {
		read, err := tab.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := appendCommit("", "f.parquet")
		c.Tags = tags
		landed, err := tab.TryCommit(t.Context(), read, c)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{deltatable.TagUnsafeSingleWriter: "true"}
		for k, v := range tags {
			want[k] = v
		}
		e, err := sound.Entry(t.Context(), landed.Version)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, e.Info.Tags); diff != "" {
			t.Errorf("commit %d: tags (-want +got):\n%s", i, diff)
		}
	}
}

func TestStoreThatRefusesCommits(t *testing.T) {
	refusal := &blobstore.NoConditionError{Endpoint: "https://store", Bucket: "b", Detail: "it overwrites"}
	tab, sound := aloneTable(t, refusal)
	read, err := tab.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tab.TryCommit(t.Context(), read, appendCommit("", "f.parquet"))
	if got, ok := errors.AsType[*blobstore.NoConditionError](err); !ok || got != refusal {
		t.Errorf("TryCommit: %v", err)
	}
	if _, err := tab.NewFileWriter(t.Context(), read.Layout(), deltatable.Partition{}); !errors.Is(err, refusal) {
		t.Errorf("NewFileWriter: %v", err)
	}
	now, err := sound.Snapshot(t.Context())
	if err != nil || now.Version() != read.Version() {
		t.Errorf("the table is at version %d, %v", now.Version(), err)
	}
}
