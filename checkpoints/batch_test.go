package checkpoints

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/merge/change"
)

// rowsOf reads rows as JSON into a record of the given columns.
func rowsOf(t *testing.T, sch *arrow.Schema, text string) arrow.RecordBatch {
	t.Helper()
	rec, _, err := array.RecordFromJSON(allocator(), sch, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func fields(names string, types ...arrow.DataType) *arrow.Schema {
	var out []arrow.Field
	for i, n := range strings.Fields(names) {
		out = append(out, arrow.Field{Name: n, Type: types[i], Nullable: true})
	}
	return arrow.NewSchema(out, nil)
}

// verdicts are the validity of each row: "upsert", "delete" or the outcome.
func verdicts(t *testing.T, rec arrow.RecordBatch, present map[string]bool, r *rules) string {
	t.Helper()
	inputs, err := readInputs([]arrow.RecordBatch{rec}, present, r)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, u := range inputs {
		if u.invalid != "" {
			out = append(out, string(u.invalid))
		} else {
			out = append(out, u.op.String())
		}
	}
	return strings.Join(out, " ")
}

// TestValidity goes through merge-semantics 2.
func TestValidity(t *testing.T) {
	str, long, boolean := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Boolean
	all := fields("id k version v operation p q", str, str, str, long, str, str, long)
	word := change.Roles{
		Keys: []string{"k", "version"}, Versions: []string{"v"}, Operation: "operation", UpsertWord: "I", DeleteWord: "D",
		ChangeID: "id", Payload: []string{"p", "q"},
	}
	condition := change.Roles{Keys: []string{"k"}, Versions: []string{"v"}, DeletesWhen: "q > 5", Payload: []string{"p"}}
	deleted := change.Roles{Keys: []string{"k"}, Versions: []string{"v"}, Deleted: "gone", Payload: []string{"p"}}
	off := func(cs ...change.Check) map[change.Check]bool {
		m := map[change.Check]bool{}
		for _, c := range cs {
			m[c] = true
		}
		return m
	}
	const good = `"id":"1","k":"a","version":"b","v":1,"operation":"I","p":"x"`
	for _, c := range []struct {
		name    string
		sch     *arrow.Schema
		rules   rules
		present map[string]bool
		rows    string
		want    string
	}{
		{"good", all, rules{roles: &word}, nil, `[{` + good + `}]`, "upsert"},
		{
			"order of checks", all,
			rules{roles: &word},
			nil,
			`[{}, {"id":" "}, {"id":"1"}, {"id":"1","k":" \u0020"}, {"id":"1","k":"a"}, {"id":"1","k":"a","version":"b"},
			  {"id":"1","k":"a","version":"b","v":1}, {"id":"1","k":"a","version":"b","v":1,"operation":"i"}, {"id":"1","k":"a","version":"b","v":1,"operation":"I"}]`,
			"invalid_change_id invalid_change_id invalid_k invalid_k invalid_key_version invalid_version invalid_operation invalid_operation invalid_payload",
		},
		{"other white space is not blank", all, rules{roles: &word}, nil, `[{"id":"\t","k":"\u00a0","version":"\n","v":1,"operation":"I","p":""}]`, "upsert"},
		{"no change id column", all, rules{roles: &word}, map[string]bool{"k": true, "version": true, "v": true, "operation": true, "p": true}, `[{"k":"a","version":"b","v":1,"operation":"I","p":"x"}]`, "upsert"},
		{"no operation column", all, rules{roles: &word}, map[string]bool{"k": true, "version": true, "v": true, "p": true}, `[{"k":"a","version":"b","v":1,"operation":"D","p":"x"}]`, "upsert"},
		{
			"checks off", all,
			rules{roles: &word, off: off(change.CheckChangeID, change.CheckEmptyUpsert, change.CheckDeletePayload, change.CheckMinVersion)},
			nil,
			`[{"k":"a","version":"b","v":1,"operation":"I"}, {"k":"a","version":"b","v":1,"operation":"D","q":1}]`, "upsert delete",
		},
		{"delete with payload", all, rules{roles: &word}, nil, `[{"id":"1","k":"a","version":"b","v":1,"operation":"D","q":1}]`, "invalid_payload"},
		{
			"required", all,
			rules{roles: &word, required: []string{"q"}},
			nil,
			`[{` + good + `}, {` + good + `,"q":1}, {"id":"1","k":"a","version":"b","v":1,"operation":"D"}]`, "invalid_payload upsert delete",
		},
		{"minimum", all, rules{roles: &word, minimum: int64(1)}, nil, `[{"id":"1","k":"a","version":"b","v":0,"operation":"I","p":"x"}, {` + good + `}]`, "invalid_version upsert"},
		{
			"condition", fields("k v p q", str, long, str, long),
			rules{roles: &condition},
			nil,
			`[{"k":"a","v":1,"p":"x","q":6}, {"k":"a","v":1,"p":"x","q":5}, {"k":"a","v":1,"p":"x"}, {"k":"a","v":1,"q":5}]`,
			"delete upsert invalid_operation invalid_payload",
		},
		{
			"deleted column", fields("k v gone p", str, long, boolean, str),
			rules{roles: &deleted},
			nil,
			`[{"k":"a","v":1,"gone":true,"p":"x"}, {"k":"a","v":1,"gone":false,"p":"x"}, {"k":"a","v":1,"p":"x"}]`, "delete upsert invalid_operation",
		},
		{
			"empty string of a partition column", fields("k v p", str, long, str),
			rules{roles: &change.Roles{Keys: []string{"k"}, Versions: []string{"v"}, Payload: []string{"p"}}, partitions: map[string]bool{"p": true}},
			nil,
			`[{"k":"a","v":1,"p":""}]`, "invalid_payload",
		},
		{"no payload columns", fields("k v", str, long), rules{roles: &change.Roles{Keys: []string{"k"}, Versions: []string{"v"}}}, nil, `[{"k":"a","v":1}]`, "upsert"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := verdicts(t, rowsOf(t, c.sch, c.rows), c.present, &c.rules); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestRejectShouldHaveRefused: a committed batch that policy reject refuses is a finding.
func TestRejectShouldHaveRefused(t *testing.T) {
	for name, c := range map[string]struct {
		changes []change1
		key     string
		flags   string
	}{
		"conflict with stored":          {[]change1{{"a", "1", "upsert", "other"}}, "a", `{"policy":"reject"}`},
		"contradiction":                 {[]change1{{"b", "2", "upsert", "y"}, {"b", "2", "upsert", "z"}}, "b", `{"policy":"reject"}`},
		"contradiction below":           {[]change1{{"b", "2", "upsert", "y"}, {"b", "2", "delete", "-"}, {"b", "3", "upsert", "z"}}, "b", `{"policy":"reject"}`},
		"invalid":                       {[]change1{{"b", "0", "upsert", "y"}}, "b", `{"policy":"reject"}`},
		"invalid, and the run minds it": {[]change1{{"b", "0", "upsert", "y"}}, "b", `{"policy":"quarantine","failOnInvalid":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.tags = func(tags map[string]string) { tags[change.TagFlags] = c.flags }
			v := w.apply(c.changes...)
			found := false
			for _, f := range w.audit(nil).Findings {
				found = found || f.Version == v && f.Check == CheckState && len(f.Keys) > 0 && f.Keys[0] == c.key
			}
			if !found {
				t.Error("no finding")
			}
		})
	}
}

// TestFlagsOfARun: checks that a run switched off are off in the audit.
func TestFlagsOfARun(t *testing.T) {
	w := start(t)
	two := w.apply(change1{"a", "2", "upsert", "x"})
	r, err := newRules(w.snap, testRoles, &change.Flags{Policy: change.Reject, NoCheck: []change.Check{change.CheckMinVersion}, Required: []string{"p"}, FailOnInvalid: true})
	if err != nil || two != 2 {
		t.Fatal(err)
	}
	want := &rules{roles: testRoles, policy: change.Reject, failOn: true, off: map[change.Check]bool{change.CheckMinVersion: true}, required: []string{"p"}, partitions: map[string]bool{}}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(rules{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
