package blobstoretest

import (
	"os"
	"testing"
)

// Scratch returns a new folder that is removed after the test: in memory if the
// machine has /dev/shm, else as t.TempDir has it. It is for tests that make many
// small folders and need no disk, as power-loss tests do.
func Scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "deltafold-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove scratch folder: %v", err)
		}
	})
	return dir
}
