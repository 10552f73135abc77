package expr

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every function is in docs/expressions.md, and every one named there exists.
func TestFunctionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "## Functions")
	list, _, _ = strings.Cut(list, "Patterns of")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(list, -1) {
		documented[m[1]] = true
	}
	for _, table := range []map[string]*scalar{textFunctions, numberFunctions, timeFunctions} {
		for name := range table {
			if !documented[name] {
				t.Errorf("%s is not documented", name)
			}
		}
	}
	for name := range documented {
		known := lazy(name) != nil
		for _, table := range []map[string]*scalar{textFunctions, numberFunctions, timeFunctions} {
			known = known || table[name] != nil
		}
		if _, special := specialOf(name); !known && !special {
			t.Errorf("%s is documented and does not exist", name)
		}
	}
	for name := range refused {
		if documented[name] {
			t.Errorf("%s is refused and documented as supported", name)
		}
	}
	// The tables of functions with special rules are in code: read their names there.
	for _, file := range []string{"funcregex.go", "funcnumber.go", "functime.go", "funcnested.go", "branch.go"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"([a-z0-9_]+)": +\{\d, -?\d,`).FindAllSubmatch(code, -1) {
			if !documented[string(m[1])] {
				t.Errorf("%s is not documented", m[1])
			}
		}
	}
}
