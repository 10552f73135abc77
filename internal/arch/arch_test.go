package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/deltafold/deltafold/"

// mayImport lists, for each package, the packages of this module that it may
// import outside its tests. A line for "x/..." holds for the packages below x
// that have none of their own. A package that no line holds for may not exist.
//
// The order is that of the arrows: nothing imports what stands below it.
var mayImport = map[string][]string{
	"internal/failpoint": {},
	"internal/ordered":   {},
	"internal/integrity": {},
	"internal/arch":      {},

	"blobstore":                    {"blobstore/internal/driver", "blobstore/internal/filestore", "blobstore/internal/memstore"},
	"blobstore/internal/driver":    {},
	"blobstore/internal/filestore": {"blobstore/internal/driver"},
	"blobstore/internal/memstore":  {"blobstore/internal/driver"},
	"blobstore/blobstoretest":      {"blobstore", "blobstore/internal/driver", "blobstore/internal/filestore", "blobstore/internal/remote"},
	"blobstore/internal/remote":    {"blobstore/internal/driver"},
	"blobstore/s3":                 {"blobstore", "blobstore/internal/driver", "blobstore/internal/remote"},
	"blobstore/gcs":                {"blobstore", "blobstore/internal/driver", "blobstore/internal/remote"},
	"blobstore/azure":              {"blobstore", "blobstore/internal/driver", "blobstore/internal/remote"},

	"deltatable/expr":             {"internal/ordered"},
	"deltatable/internal/action":  {},
	"deltatable/internal/feature": {"deltatable/internal/action"},
	"deltatable/internal/schema":  {},
	"deltatable/internal/dv":      {"blobstore", "deltatable/internal/action"},
	"deltatable/internal/datafile": {
		"deltatable/expr", "deltatable/internal/action", "deltatable/internal/schema", "internal/integrity", "internal/ordered",
	},
	"deltatable/internal/deltalog": {
		"blobstore", "deltatable/internal/action", "deltatable/internal/datafile", "deltatable/internal/feature", "deltatable/internal/schema",
	},
	"deltatable": {
		"blobstore", "deltatable/expr", "deltatable/internal/action", "deltatable/internal/datafile", "deltatable/internal/deltalog",
		"deltatable/internal/dv", "deltatable/internal/feature", "deltatable/internal/schema",
		"internal/failpoint", "internal/integrity", "internal/ordered",
	},

	"merge/change":       {},
	"merge/policy":       {"merge/change"},
	"merge/statement":    {"deltatable/expr"},
	"merge/internal/...": {"deltatable", "deltatable/expr", "internal/ordered", "merge/change", "merge/policy", "merge/internal/..."},
	"merge": {
		"blobstore", "deltatable", "deltatable/expr", "internal/failpoint", "internal/integrity", "internal/ordered",
		"merge/change", "merge/internal/...", "merge/policy", "merge/statement",
	},

	// NB: the audit must not see the merge's rules. One that shares them repeats
	// their mistakes and calls them correct (I6).
	"checkpoints": {"blobstore", "deltatable", "deltatable/expr", "internal/integrity", "internal/ordered", "merge/change"},

	"internal/changefile": {"blobstore"},
	"internal/rowfile":    {},
	"internal/pipeline": {
		"blobstore", "checkpoints", "deltatable", "deltatable/expr", "internal/changefile", "internal/failpoint",
		"internal/integrity", "internal/ordered", "internal/rowfile", "merge", "merge/change", "merge/statement",
	},
	"cmd/deltafold": {
		"blobstore", "blobstore/s3", "blobstore/gcs", "blobstore/azure", "checkpoints", "deltatable", "deltatable/expr",
		"internal/changefile", "internal/failpoint", "internal/pipeline", "internal/rowfile", "merge", "merge/change",
	},

	// Tools of tests and benchmarks stand above everything but the command.
	// NB: the oracle of statements knows their syntax, and no rule of merge (I6).
	"internal/tabletest":   {"blobstore", "blobstore/blobstoretest", "deltatable", "deltatable/expr", "merge/change", "merge/statement"},
	"internal/interop":     {},
	"internal/faultproxy":  {},
	"internal/storeserver": {},
	"internal/deps":        {},
	"bench/...":            anything,
	"bench":                anything,
}

var anything = []string{"..."}

// onlyIn lists outside packages, by the beginnings of their paths, and the
// packages that may import them outside their tests.
var onlyIn = map[string][]string{
	"gocloud.dev":                    {"blobstore/s3", "blobstore/gcs", "blobstore/azure"},
	"github.com/aws/":                {"blobstore/s3"},
	"cloud.google.com/":              {"blobstore/gcs"},
	"github.com/Azure/":              {"blobstore/azure"},
	"golang.org/x/sys":               {"blobstore/internal/filestore", "internal/deps"},
	"github.com/spf13/cobra":         {"cmd/deltafold", "internal/deps", "bench/..."},
	"github.com/schollz/progressbar": {"cmd/deltafold", "internal/deps"},
	"pgregory.net/rapid":             {"internal/deps", "internal/tabletest"},
	"github.com/google/go-cmp":       {"internal/deps", "internal/tabletest", "blobstore/blobstoretest"},
	"testing":                        {"internal/tabletest", "blobstore/blobstoretest", "internal/faultproxy", "internal/interop", "internal/storeserver"},
	// Strings and bytes of one buffer, in the one place where parsing is the time.
	"unsafe": {"internal/changefile"},
	"log":    {},
}

// neverIn lists what some packages must do without.
var neverIn = map[string][]string{
	// Pure functions and plain types: no I/O, no clock, no chance, no Arrow.
	"merge/policy": {"os", "io", "net/http", "time", "math/rand", "context", "github.com/apache/arrow-go"},
	"merge/change": {"os", "net/http", "math/rand", "context", "github.com/apache/arrow-go"},
	// All of a table's bytes go through blobstore.
	"deltatable":                   {"os", "net/http", "path/filepath"},
	"deltatable/expr":              {"os", "net/http", "io", "path/filepath"},
	"deltatable/internal/action":   {"os", "net/http", "path/filepath", "github.com/apache/arrow-go"},
	"deltatable/internal/feature":  {"os", "net/http", "path/filepath"},
	"deltatable/internal/datafile": {"os", "net/http", "path/filepath"},
	"deltatable/internal/deltalog": {"os", "net/http", "path/filepath"},
	"merge":                        {"os", "net/http", "path/filepath"},
	"checkpoints":                  {"os", "net/http", "path/filepath"},
	"blobstore":                    {"github.com/apache/arrow-go"},
}

// The files are read here, not by a go list command, so that the test cache sees
// them: a cached pass of a go list would hide a new import.
func TestImports(t *testing.T) {
	files := 0
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (skipped(d.Name()) || name != "." && exists("../../"+name+"/go.mod")) {
			return fs.SkipDir
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := os.ReadFile("../../" + name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		for _, broken := range check(path.Dir(name), imports(t, f)) {
			t.Errorf("%s: %s", name, broken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no files read")
	}
}

// exists tells whether a file is there. A folder with a go.mod is a module of its
// own, with imports that are not this module's.
func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func skipped(dir string) bool {
	return dir == "testdata" || len(dir) > 1 && (dir[0] == '.' || dir[0] == '_')
}

func imports(t *testing.T, f *ast.File) []string {
	t.Helper()
	var out []string
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, imp)
	}
	return out
}

// check returns the rules that pkg breaks by its imports.
func check(pkg string, imports []string) []string {
	var broken []string
	allowed, known := ruleFor(pkg)
	if !known {
		broken = append(broken, "package "+pkg+" has no line in mayImport")
	}
	for _, imp := range imports {
		if rest, ours := strings.CutPrefix(imp, module); ours && !matches(allowed, rest) {
			broken = append(broken, pkg+" may not import "+rest)
		}
		for prefix, where := range onlyIn {
			if begins(imp, prefix) && !matches(where, pkg) {
				broken = append(broken, pkg+" may not import "+imp)
			}
		}
		for _, prefix := range neverIn[pkg] {
			if begins(imp, prefix) {
				broken = append(broken, pkg+" must do without "+imp)
			}
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

func ruleFor(pkg string) (allowed []string, known bool) {
	if allowed, known = mayImport[pkg]; known {
		return allowed, true
	}
	for dir := path.Dir(pkg); dir != "."; dir = path.Dir(dir) {
		if allowed, known = mayImport[dir+"/..."]; known {
			return allowed, true
		}
	}
	return nil, false
}

// matches tells whether pkg is one of list, or below an "x/..." of it.
func matches(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(l string) bool {
		below, tree := strings.CutSuffix(l, "...")
		return l == pkg || tree && strings.HasPrefix(pkg, below)
	})
}

// begins tells whether imp is the package prefix or one below it; a prefix that
// ends at a '/' stands for all that begin so.
func begins(imp, prefix string) bool {
	return imp == prefix || strings.HasPrefix(imp, strings.TrimSuffix(prefix, "/")+"/")
}

// The rules themselves: the arrows that must never be drawn, and that lists name
// no package twice under other names.
func TestRulesForbid(t *testing.T) {
	for _, c := range []struct{ pkg, imp string }{
		{"checkpoints", module + "merge"},
		{"checkpoints", module + "merge/policy"},
		{"checkpoints", module + "merge/internal/rows"},
		{"deltatable", module + "merge"},
		{"deltatable", module + "merge/change"},
		{"blobstore", module + "deltatable"},
		{"deltatable", "gocloud.dev/blob"},
		{"cmd/deltafold", "github.com/aws/aws-sdk-go-v2/service/s3"},
		{"merge/policy", "os"},
		{"merge/policy", "github.com/apache/arrow-go/v18/arrow"},
		{"deltatable", "os"},
		{"merge", "unsafe"},
		{"nobody", "fmt"},
	} {
		if len(check(c.pkg, []string{c.imp})) == 0 {
			t.Errorf("%s may import %s", c.pkg, c.imp)
		}
	}
	for _, c := range []struct{ pkg, imp string }{
		{"checkpoints", module + "merge/change"},
		{"merge", module + "merge/internal/rows"},
		{"merge/internal/rows", module + "merge/internal/keyset"},
		{"deltatable", "golang.org/x/sync/errgroup"},
		{"merge/policy", "iter"},
		{"bench/peers", module + "merge"},
	} {
		if broken := check(c.pkg, []string{c.imp}); len(broken) > 0 {
			t.Errorf("%s, %s: %q", c.pkg, c.imp, broken)
		}
	}
}
