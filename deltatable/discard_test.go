package deltatable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
	"github.com/deltafold/deltafold/deltatable"
)

// TestDiscardIsBounded has a store not answer: files that nobody waits for do not
// hold a run up, however many they are.
func TestDiscardIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := blobstore.Open(t.Context(), "mem://"+t.Name())
		if err != nil {
			t.Fatal(err)
		}
		f := &blobstoretest.Faults{Decide: func(blobstoretest.Call) blobstoretest.Fault {
			return blobstoretest.Fault{Wait: func(ctx context.Context) error {
				select { // what an object store waits before it gives a request up
				case <-time.After(20 * time.Second):
					return blobstoretest.ErrInjected
				case <-ctx.Done():
					return ctx.Err()
				}
			}}
		}}
		table := deltatable.NewTable(store.Wrap(f.Wrap), nil)
		adds := make([]*deltatable.Add, 100)
		for i := range adds {
			adds[i] = &deltatable.Add{Path: "f"}
		}
		began := time.Now()
		err = table.Discard(t.Context(), adds)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, blobstoretest.ErrInjected) {
			t.Errorf("got %v", err)
		}
		if n := f.Calls(blobstoretest.OpDelete); n != 2 {
			t.Errorf("%d files were asked for, want 2", n)
		}
	})
}
