package changefile_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltafold/deltafold/internal/changefile"
)

// TestFilesAreNamedOnce: an error of the file system names the file; who reads
// it does not say it again.
func TestFilesAreNamedOnce(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{filepath.Join(dir, "none"): fs.ErrNotExist, dir: nil} {
		_, err := changefile.Read(t.Context(), changefile.FromFile("f", path), &changefile.Options{Format: changefile.FormatParquet})
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("got the error %v, want %v", err, want)
			continue
		}
		if strings.Contains(err.Error(), path) || strings.Count(err.Error(), "open ")+strings.Count(err.Error(), "read ") != 1 {
			t.Errorf("the error %q names step and file more than once", err)
		}
	}
}
