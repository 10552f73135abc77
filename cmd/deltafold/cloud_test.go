package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withoutClouds is how large the command may be without object stores, in MiB;
// linux/amd64 with -s -w has 41.
const withoutClouds = 50

// TestCloudsCanBeLeftOut builds the command with all build tags: no SDK is linked,
// and a URL of a store that is left out is refused by name.
func TestCloudsCanBeLeftOut(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "deltafold")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-tags", "nos3,nogcs,noazure", "-o", bin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) < 5 {
		t.Fatalf("the build information names %d modules", len(info.Deps))
	}
	for _, m := range info.Deps {
		for _, sdk := range []string{"github.com/aws/", "github.com/Azure/", "cloud.google.com/", "gocloud.dev", "google.golang.org/api"} {
			if strings.HasPrefix(m.Path, sdk) {
				t.Errorf("module %s is linked", m.Path)
			}
		}
	}
	st, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("without object stores the command has %.1f MiB", float64(st.Size())/(1<<20))
	if st.Size() > withoutClouds<<20 {
		t.Errorf("it is larger than %d MiB", withoutClouds)
	}
	for _, scheme := range []string{"s3", "s3a", "gs", "azblob", "az", "abfss"} {
		out, err := exec.CommandContext(t.Context(), bin, "read", scheme+"://b/t").CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != statusFailed {
			t.Errorf("%s: got %v, want exit status %d", scheme, err, statusFailed)
		}
		want := "deltafold: open table: open store \"" + scheme + "://b/t\": scheme \"" + scheme +
			"\" is not known: the package of its store is not linked into this program\n"
		if d := cmp.Diff(want, string(out)); d != "" {
			t.Errorf("%s: -want +got\n%s", scheme, d)
		}
	}
}
