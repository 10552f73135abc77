package datafile

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

var scanSeeds = []string{
	`{}`, ` { "a" : 1 , "b":[1, {"x":"}"}] ,"c":"\"}", "d":{"e":{}}, "f":null,"g":true ,"h":-1.5e3 } `,
	`{"\u0061\\":[[],{}],"":""}`, `[]`, `5`, `"x"`, `{"a":{"b":[ ] , "c" : { } }, "z": 0}`,
}

// members by the scan and by the JSON library.
func checkScan(t *testing.T, text string) {
	v := jsontext.Value(text)
	if !v.IsValid() {
		return
	}
	got := map[string]string{}
	eachMember(v, func(name, val jsontext.Value) bool {
		got[string(unquoteName(name))] = string(val)
		return true
	})
	want := map[string]string{}
	if v.Kind() == '{' {
		var o map[string]jsontext.Value
		if err := json.Unmarshal(v, &o); err != nil {
			t.Fatal(err)
		}
		for k, val := range o {
			want[k] = string(val)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%q (-want +got):\n%s", text, d)
	}
}

func TestScansFindTheMembersOfObjects(t *testing.T) {
	for _, s := range scanSeeds {
		checkScan(t, s)
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add(s)
	}
	f.Fuzz(checkScan)
}
