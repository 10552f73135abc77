package blobstoretest_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/blobstoretest"
)

func TestMain(m *testing.M) { blobstoretest.Main(m) }

func open(t *testing.T, location string) *blobstore.Store {
	t.Helper()
	s, err := blobstore.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFiles(t *testing.T) {
	blobstoretest.Run(t, blobstoretest.Harness{
		Open:      func(t *testing.T) *blobstore.Store { return open(t, t.TempDir()+"/new/root of %41?") },
		Processes: true,
	})
}

func TestMemory(t *testing.T) {
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store { return open(t, "mem://"+uuid.NewString()) },
	})
}

// The wrappers must be stores too, or tests on them prove nothing.
func TestFaultsWithoutFaults(t *testing.T) {
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			return open(t, "mem://"+uuid.NewString()).Wrap((&blobstoretest.Faults{}).Wrap)
		},
	})
}

func TestRecorder(t *testing.T) {
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			s, _, err := blobstoretest.NewPowerLoss(blobstoretest.Scratch(t))
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}

// A bucket behind the driver of object stores.
func TestBucket(t *testing.T) {
	blobstoretest.Run(t, blobstoretest.Harness{
		Open: func(t *testing.T) *blobstore.Store {
			s, err := blobstoretest.NewBucket().Open(t.Context(), "bucket://suite")
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}
