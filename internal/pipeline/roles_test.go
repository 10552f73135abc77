package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/merge/change"
)

func mustSchema(t *testing.T, ddl string) *arrow.Schema {
	t.Helper()
	sch, err := parseSchema(ddl)
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

func ptr[T any](v T) *T { return &v }

const defaultDDL = "change_id string, entity_id string, source_version long, operation string, value string"

func TestDeriveRoles(t *testing.T) {
	base := func(edit func(r *change.Roles)) *change.Roles {
		r := &change.Roles{
			Mode: change.Guarded, Keys: []string{"k"}, Versions: []string{"v"}, StatusForm: change.StatusWord, Status: "status",
			Policy: change.Quarantine, Payload: []string{"p"}, InputTypes: map[string]string{},
		}
		edit(r)
		return r
	}
	kv := RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}}
	with := func(edit func(f *RoleFlags)) RoleFlags {
		f := kv
		edit(&f)
		return f
	}
	for _, c := range []struct {
		name, schema string
		flags        RoleFlags
		want         *change.Roles
		columns      string // of the table
	}{
		{"the five default columns", defaultDDL, RoleFlags{}, &change.Roles{
			Mode: change.Guarded, Keys: []string{"entity_id"}, Versions: []string{"source_version"}, MinVersion: ptr("1"),
			Operation: "operation", UpsertWord: "upsert", DeleteWord: "delete", StatusForm: change.StatusWord, Status: "status",
			ChangeID: "change_id", Payload: []string{"value"}, Policy: change.Quarantine,
			InputTypes: map[string]string{"change_id": "string", "operation": "string"},
		}, "entity_id source_version status value"},
		{
			"a named version column has no minimum; spelling is the schema's", "K string, V long, p string", kv,
			base(func(r *change.Roles) { r.Keys, r.Versions = []string{"K"}, []string{"V"} }), "K V status p",
		},
		{
			"a minimum that a flag gives", "k string, v long, p string", with(func(f *RoleFlags) { f.MinVersion = ptr("-5") }),
			base(func(r *change.Roles) { r.MinVersion = ptr("-5") }), "k v status p",
		},
		{
			"several keys and versions, in the flags' order", "p string, b date, a long, v string, w timestamp_ntz",
			RoleFlags{Keys: []string{"a", "b"}, Versions: []string{"w", "v"}},
			base(func(r *change.Roles) { r.Keys, r.Versions = []string{"a", "b"}, []string{"w", "v"} }), "a b w v status p",
		},
		{
			"words of a named operation", "k string, v long, op string, p string", with(func(f *RoleFlags) { f.Operation, f.UpsertWord, f.DeleteWord = "op", "U", "D" }),
			base(func(r *change.Roles) {
				r.Operation, r.OperationGiven, r.UpsertWord, r.DeleteWord = "op", true, "U", "D"
				r.InputTypes = map[string]string{"op": "string"}
			}), "k v status p",
		},
		{
			"a boolean is status and delete", "k string, v long, gone boolean, p string", with(func(f *RoleFlags) { f.Deleted, f.OnConflict = "GONE", "reject" }),
			base(func(r *change.Roles) {
				r.Deleted, r.Status, r.StatusForm, r.Policy = "gone", "gone", change.StatusBoolean, change.Reject
			}), "k v gone p",
		},
		{
			"no status", "k string, v long, p string", with(func(f *RoleFlags) { f.Status, f.OnConflict = NoStatus, "reject" }),
			base(func(r *change.Roles) { r.Status, r.StatusForm, r.Policy = "", change.StatusNone, change.Reject }), "k v p",
		},
		{
			"what only the condition reads is not stored", "k string, v long, kind string, p string", with(func(f *RoleFlags) { f.DeletesWhen = "kind = 'D'" }),
			base(func(r *change.Roles) {
				r.DeletesWhen = "kind = 'D'"
				r.InputTypes = map[string]string{"kind": "string"}
			}), "k v status p",
		},
		{
			"unless it is payload too", "k string, v long, kind string, p string", with(func(f *RoleFlags) {
				f.DeletesWhen, f.Payload = "KIND = 'D' OR v < 0", []string{"p", "Kind"}
			}),
			base(func(r *change.Roles) {
				r.DeletesWhen, r.Payload, r.PayloadGiven = "KIND = 'D' OR v < 0", []string{"p", "kind"}, true
			}), "k v status p kind",
		},
		{
			"given payload leaves the rest out", "k string, v long, p string, q string", with(func(f *RoleFlags) { f.Payload, f.Required = []string{"p"}, []string{"P"} }),
			base(func(r *change.Roles) { r.PayloadGiven, r.Required = true, []string{"p"} }), "k v status p",
		},
		{
			"a claimed name is no default role", "operation string, v long, p string",
			RoleFlags{Keys: []string{"operation"}, Versions: []string{"v"}},
			base(func(r *change.Roles) { r.Keys = []string{"operation"} }), "operation v status p",
		},
		{
			"another status column", "k string, v long, status string", with(func(f *RoleFlags) { f.Status = "state" }),
			base(func(r *change.Roles) { r.Status, r.Payload = "state", []string{"status"} }), "k v state status",
		},
		{"checks, label, outcomes", "k string, v long, p string, note long", with(func(f *RoleFlags) {
			f.NoCheck, f.ChangeID, f.Outcomes = []string{"min_version"}, "note", "none"
		}), base(func(r *change.Roles) {
			r.NoCheck, r.ChangeID, r.ChangeIDGiven, r.Outcomes = []change.Check{change.CheckMinVersion}, "note", true, "none"
			r.InputTypes = map[string]string{"note": "long"}
		}), "k v status p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, table, err := DeriveRoles(&c.flags, mustSchema(t, c.schema))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if have := strings.Join(names(table), " "); have != c.columns {
				t.Errorf("the table has %s, want %s", have, c.columns)
			}
			back, ok, err := change.RolesFromProperties(got.Properties())
			if err != nil || !ok {
				t.Fatalf("the table would not remember them: %v", err)
			}
			if d := cmp.Diff(got.Properties(), back.Properties()); d != "" {
				t.Error(d)
			}
			if err := CheckFlags(&c.flags, got); err != nil {
				t.Errorf("the same flags again: %v", err)
			}
			if err := CheckFlags(&RoleFlags{}, got); err != nil {
				t.Errorf("no flags: %v", err)
			}
		})
	}
}

func TestDeriveRolesRefuses(t *testing.T) {
	for _, c := range []struct {
		schema string
		flags  RoleFlags
		want   string // in the message
	}{
		{"a string, v long", RoleFlags{}, "--key names the key columns"},
		{"entity_id string, v long", RoleFlags{}, "--version-column names it"},
		{"k string, v long, status string", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}}, "--status-column"},
		{"status string, v long", RoleFlags{Keys: []string{"status"}, Versions: []string{"v"}}, "--status-column"},
		{"k string, v long", RoleFlags{Keys: []string{"k", "K"}, Versions: []string{"v"}}, "--key names column k twice"},
		{"k long", RoleFlags{Keys: []string{"k"}, Versions: []string{"k"}}, "--version-column"},
		{"k string, v long, p long", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Operation: "op"}, "--operation-column op is not in the schema"},
		{"k string, v long, op long", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Operation: "op"}, "--operation-column names another"},
		{"k string, v long, p long", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, ChangeID: "id"}, "--change-id-column id is not in the schema"},
		{"k string, v long, p long", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, ChangeID: "k"}, "--change-id-column"},
		{"k string, v long, operation string", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Status: NoStatus, OnConflict: "reject"}, "--payload"},
		{"k string, v long, b boolean", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Deleted: "b"}, "--on-conflict reject"},
		{"k string, v long, b string", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Deleted: "b", OnConflict: "reject"}, "--deleted-column b is not a boolean"},
		{"k string, v long, b boolean", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Deleted: "b", Status: "s", OnConflict: "reject"}, "--status-column"},
		{"k string, v long", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, OnConflict: "ignore"}, "--on-conflict ignore"},
		{"k string, v long", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, MinVersion: ptr("many")}, "--min-version many"},
		{"k string, v long, w long", RoleFlags{Keys: []string{"k"}, Versions: []string{"v", "w"}, MinVersion: ptr("1")}, "--min-version 1"},
		{"k string, v long, o string", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Operation: "o", UpsertWord: "x", DeleteWord: "x"}, "--delete-word"},
		{"k string, v long, p string", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Payload: []string{"q"}}, "--payload q"},
		{"k string, v long, p string", RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Payload: []string{"p", "P"}}, "--payload names column p twice"},
	} {
		_, _, err := DeriveRoles(&c.flags, mustSchema(t, c.schema))
		var ue *UsageError
		if !errors.As(err, &ue) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %+v: got %v, want a UsageError about %s", c.schema, c.flags, err, c.want)
		}
	}
	for _, c := range []struct{ schema, want string }{
		{"k double, v long", "keys are atomic"},
		{"k array<int>, v long", "keys are atomic"},
		{"k string, v boolean", "versions are"},
		{"k string, v double", "versions are"},
		{"k string, v long, p string not null", "payload column p is NOT NULL"},
	} {
		_, _, err := DeriveRoles(&RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}}, mustSchema(t, c.schema))
		var re *RuleError
		if !errors.As(err, &re) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a RuleError about %s", c.schema, err, c.want)
		}
	}
}

func TestDeriveCreatedLeavesRoomForInputColumns(t *testing.T) {
	roles, table, err := DeriveCreated(&RoleFlags{}, mustSchema(t, "value string, source_version long, entity_id string"))
	if err != nil {
		t.Fatal(err)
	}
	if roles.Operation != "operation" || roles.OperationGiven || roles.ChangeID != "change_id" || roles.ChangeIDGiven {
		t.Errorf("got %+v", roles)
	}
	if got := strings.Join(names(table), " "); got != "entity_id source_version status value" {
		t.Errorf("the table has %s", got)
	}
	for ddl, want := range map[string]string{
		defaultDDL: "column change_id is by default the label column of inputs",
		"entity_id string, source_version long, operation string": "column operation is by default the operation column of inputs",
	} {
		if _, _, err := DeriveCreated(&RoleFlags{}, mustSchema(t, ddl)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", ddl, err, want)
		}
	}
	flags := RoleFlags{Payload: []string{"operation", "change_id", "value"}}
	roles, _, err = DeriveCreated(&flags, mustSchema(t, defaultDDL))
	if err != nil || roles.Operation != "" || roles.ChangeID != "" {
		t.Errorf("named as payload: got %+v, %v", roles, err)
	}
	flags = RoleFlags{DeletesWhen: "kind = 'D'"} // a column that only inputs will have
	if _, _, err := DeriveCreated(&flags, mustSchema(t, "entity_id string, source_version long, value string")); err != nil {
		t.Error(err)
	}
}

func TestDeriveAdopted(t *testing.T) {
	table := mustSchema(t, "id long, name string, status string, v long, operation string")
	roles, err := DeriveAdopted(&RoleFlags{Keys: []string{"ID"}, Versions: []string{"v"}}, table)
	if err != nil {
		t.Fatal(err)
	}
	want := &change.Roles{
		Mode: change.Guarded, Keys: []string{"id"}, Versions: []string{"v"}, StatusForm: change.StatusWord, Status: "status",
		ChangeID: "change_id", Payload: []string{"name", "operation"}, Policy: change.Quarantine,
	}
	if d := cmp.Diff(want, roles); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		flags RoleFlags
		want  string
	}{
		{RoleFlags{Keys: []string{"id"}, Versions: []string{"v"}, Payload: []string{"name"}}, "--payload must name every table column"},
		{RoleFlags{Keys: []string{"id"}, Versions: []string{"v"}, Operation: "name"}, "--operation-column name is a column of the table"},
		{RoleFlags{Keys: []string{"id"}, Versions: []string{"v"}, Status: "state"}, "no string column state"},
		{RoleFlags{Keys: []string{"id"}, Versions: []string{"v"}, Status: "v"}, "claimed by the roles of --version-column and --status-column"},
	} {
		if _, err := DeriveAdopted(&c.flags, table); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.flags, err, c.want)
		}
	}
}

func TestCheckFlagsNamesWhatContradicts(t *testing.T) {
	given := RoleFlags{Keys: []string{"k"}, Versions: []string{"v"}, Operation: "op", Payload: []string{"p", "q"}, Required: []string{"p"}}
	roles, _, err := DeriveRoles(&given, mustSchema(t, "k string, v long, op string, p string, q string"))
	if err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]RoleFlags{
		"--key":                         {Keys: []string{"q"}},
		"--version-column":              {Versions: []string{"v", "q"}},
		"--min-version":                 {MinVersion: ptr("1")},
		"--operation-column":            {Operation: "q"},
		"--upsert-word":                 {UpsertWord: "U"},
		"--delete-word":                 {DeleteWord: "D"},
		"--deletes-when":                {DeletesWhen: "q = 'x'"},
		"--deleted-column":              {Deleted: "q"},
		"--status-column":               {Status: NoStatus},
		"--change-id-column":            {ChangeID: "q"},
		"--payload":                     {Payload: []string{"p"}},
		"--on-conflict":                 {OnConflict: "reject"},
		"--require":                     {Required: []string{"q"}},
		"--no-check":                    {NoCheck: []string{"all"}},
		"--property deltafold.outcomes": {Outcomes: "none"},
	} {
		var ue *UsageError
		if err := CheckFlags(&f, roles); !errors.As(err, &ue) || !strings.HasPrefix(err.Error(), want+" ") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	same := RoleFlags{Keys: []string{"K"}, Versions: []string{"V"}, Operation: "OP", Payload: []string{"q", "p"}, Status: "status", OnConflict: "quarantine", NoCheck: []string{"change_id"}}
	if err := CheckFlags(&same, roles); err != nil {
		t.Errorf("equal flags: %v", err)
	}
}
