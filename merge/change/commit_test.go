package change

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInvalidKeyNames(t *testing.T) {
	for column, want := range map[string]Outcome{
		"entity_id": "invalid_entity_id", "version": "invalid_key_version", "payload": "invalid_key_payload",
		"operation": "invalid_key_operation", "change_id": "invalid_key_change_id", "Version": "invalid_Version",
	} {
		if got := InvalidKey(column); got != want || !got.Invalid() || !got.Culprit() {
			t.Errorf("%s: got %s, want %s", column, got, want)
		}
	}
}

func TestCountsAsText(t *testing.T) {
	c := Counts{Stale: 2, Accepted: 9007199254740993, Duplicate: 0, `invalid_"x"`: 1}
	text := c.JSON()
	if want := `{"accepted":9007199254740993,"invalid_\"x\"":1,"stale":2}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	got, err := ParseCounts(text)
	delete(c, Duplicate)
	if diff := cmp.Diff(c, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{``, `[]`, `{"a":-1}`, `{"a":1.5}`, `{"a":1,"a":1}`, `{"a":"1"}`} {
		if c, err := ParseCounts(bad); err == nil {
			t.Errorf("%s reads as %v", bad, c)
		}
	}
}

func TestFlagsAsText(t *testing.T) {
	text := `{"policy":"reject","failOnInvalid":true,"noCheck":["min_version"],"later":{"a":1}}`
	f, err := ParseFlags(text)
	if err != nil {
		t.Fatal(err)
	}
	want := Flags{Policy: Reject, FailOnInvalid: true, NoCheck: []Check{CheckMinVersion}, Extra: []byte(`{"later":{"a":1}}`)}
	if diff := cmp.Diff(want, *f); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := f.JSON(); err != nil || got != text {
		t.Errorf("got %s, %v, want %s", got, err, text)
	}
	if f, err := ParseFlags(""); err != nil || !cmp.Equal(*f, Flags{}) {
		t.Errorf("no tag: %v %v", f, err)
	}
}
