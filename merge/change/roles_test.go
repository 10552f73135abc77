package change

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func defaults() *Roles {
	one := "1"
	return &Roles{
		Mode: Guarded, Keys: []string{"entity_id"}, Versions: []string{"source_version"}, MinVersion: &one,
		Operation: "operation", UpsertWord: "upsert", DeleteWord: "delete",
		StatusForm: StatusWord, Status: "status", ChangeID: "change_id",
		Payload: []string{"value"}, Policy: Quarantine,
	}
}

func TestRolesAsProperties(t *testing.T) {
	want := map[string]string{
		"deltafold.mode": "guarded", "deltafold.keys": `["entity_id"]`, "deltafold.versions": `["source_version"]`,
		"deltafold.minVersion": "1", "deltafold.operation": "operation", "deltafold.upsertWord": "upsert",
		"deltafold.deleteWord": "delete", "deltafold.statusForm": "word", "deltafold.status": "status",
		"deltafold.changeId": "change_id", "deltafold.payload": `["value"]`, "deltafold.onConflict": "quarantine",
	}
	if diff := cmp.Diff(want, defaults().Properties()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRolesReadBack(t *testing.T) {
	many := defaults()
	many.Keys = []string{"a,b", `c"d`, "ключ"}
	many.Versions = []string{"v", "w"}
	many.MinVersion = nil
	many.PayloadGiven, many.OperationGiven, many.ChangeIDGiven = true, true, true
	many.Payload, many.Required = []string{"p", "q"}, []string{"q"}
	many.NoCheck = []Check{CheckEmptyUpsert}
	many.Outcomes = OutcomesNone
	many.InputTypes = map[string]string{"operation": "string", "extra": "decimal(10,2)"}
	many.Expectations = []Expectation{{Name: "positive", Condition: "p > 0", Action: ExpectDrop}, {Name: "known", Condition: "q IS NOT NULL", Action: ExpectFail}}
	many.Extra = map[string]string{"deltafold.later": "[]"}
	boolean := &Roles{
		Mode: Guarded, Keys: []string{"pump"}, Versions: []string{"seq"}, Deleted: "deleted",
		StatusForm: StatusBoolean, Status: "deleted", Policy: Reject,
	}
	none := &Roles{
		Mode: Guarded, Keys: []string{"k"}, Versions: []string{"v"}, StatusForm: StatusNone, Policy: Reject,
		Payload: []string{"status"},
	}
	for name, want := range map[string]*Roles{"defaults": defaults(), "many": many, "boolean": boolean, "none": none} {
		t.Run(name, func(t *testing.T) {
			props := want.Properties()
			props["delta.appendOnly"] = "false"
			got, ok, err := RolesFromProperties(props)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolesOfTablesWithoutGuard(t *testing.T) {
	for _, props := range []map[string]string{nil, {"deltafold.mode": "plain"}, {"deltafold.mode": "replace", "deltafold.keys": `["a"]`}} {
		if r, ok, err := RolesFromProperties(props); r != nil || ok || err != nil {
			t.Errorf("%v: %v %v %v", props, r, ok, err)
		}
	}
}

func TestDamagedRolesNameTheProperty(t *testing.T) {
	for _, c := range []struct {
		property string
		change   map[string]string // "-" removes
	}{
		{PropMode, map[string]string{PropMode: "gaurded"}},
		{PropKeys, map[string]string{PropKeys: "entity_id"}},
		{PropKeys, map[string]string{PropKeys: "-"}},
		{PropKeys, map[string]string{PropKeys: "[]"}},
		{PropKeys, map[string]string{PropKeys: `[""]`}},
		{PropKeys, map[string]string{PropMode: "-"}},
		{PropKeys, map[string]string{PropKeys: `["a","A"]`}},
		{PropVersions, map[string]string{PropVersions: "-"}},
		{PropVersions, map[string]string{PropVersions: `["ENTITY_ID"]`}},
		{PropMinVersion, map[string]string{PropVersions: `["v","w"]`}},
		{PropPolicy, map[string]string{PropPolicy: "-"}},
		{PropPolicy, map[string]string{PropPolicy: "ask"}},
		{PropStatusForm, map[string]string{PropStatusForm: "-"}},
		{PropStatus, map[string]string{PropStatus: "-"}},
		{PropStatus, map[string]string{PropStatusForm: "none"}},
		{PropPayload, map[string]string{PropPayload: `["status"]`}},
		{PropStatus, map[string]string{PropStatusForm: "boolean", PropDeleted: "gone", PropOperation: "-", PropUpsertWord: "-", PropDeleteWord: "-"}},
		{PropDeleted, map[string]string{PropDeleted: "gone"}},
		{PropOperation, map[string]string{PropStatusForm: "none", PropStatus: "-"}},
		{PropDeletesWhen, map[string]string{PropDeletesWhen: "x"}},
		{PropOperation, map[string]string{PropOperation: "-"}},
		{PropOperation, map[string]string{PropUpsertWord: "-"}},
		{PropDeleteWord, map[string]string{PropDeleteWord: "upsert"}},
		{PropOperationGiven, map[string]string{PropOperationGiven: "yes"}},
		{PropNoCheck, map[string]string{PropNoCheck: `["null_key"]`}},
		{PropRequired, map[string]string{PropRequired: `["entity_id"]`}},
		{PropInputTypes, map[string]string{PropInputTypes: `["a"]`}},
		{PropExpectations, map[string]string{PropExpectations: `[{"name":"x","condition":"a > 0","action":"erase"}]`}},
		{PropExpectations, map[string]string{PropExpectations: `[{"name":"","condition":"a > 0","action":"warn"}]`}},
		{PropExpectations, map[string]string{PropExpectations: `[{"name":"x","condition":"a","action":"warn"},{"name":"x","condition":"b","action":"fail"}]`}},
	} {
		props := defaults().Properties()
		for name, v := range c.change {
			if props[name] = v; v == "-" {
				delete(props, name)
			}
		}
		_, _, err := RolesFromProperties(props)
		var pe *PropertyError
		if !errors.As(err, &pe) || pe.Property != c.property {
			t.Errorf("%v: got %v, want an error about %s", c.change, err, c.property)
		}
	}
}

func TestStatusNoneNeedsReject(t *testing.T) {
	props := maps.Clone(defaults().Properties())
	for _, name := range []string{PropOperation, PropUpsertWord, PropDeleteWord, PropStatus} {
		delete(props, name)
	}
	props[PropStatusForm] = "none"
	_, _, err := RolesFromProperties(props)
	var pe *PropertyError
	if !errors.As(err, &pe) || pe.Property != PropPolicy {
		t.Errorf("got %v", err)
	}
}
