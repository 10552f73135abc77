package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json"
)

// Names of the table properties that hold roles (command.md, "Column roles, one
// derivation"). Lists and objects are JSON.
const (
	PropMode           = "deltafold.mode"
	PropKeys           = "deltafold.keys"
	PropVersions       = "deltafold.versions"
	PropMinVersion     = "deltafold.minVersion"
	PropOperation      = "deltafold.operation"
	PropOperationGiven = "deltafold.operationGiven"
	PropUpsertWord     = "deltafold.upsertWord"
	PropDeleteWord     = "deltafold.deleteWord"
	PropDeletesWhen    = "deltafold.deletesWhen"
	PropDeleted        = "deltafold.deletedColumn"
	PropStatusForm     = "deltafold.statusForm"
	PropStatus         = "deltafold.status"
	PropChangeID       = "deltafold.changeId"
	PropChangeIDGiven  = "deltafold.changeIdGiven"
	PropPayload        = "deltafold.payload"
	PropPayloadGiven   = "deltafold.payloadGiven"
	PropRequired       = "deltafold.required"
	PropNoCheck        = "deltafold.noCheck"
	PropPolicy         = "deltafold.onConflict"
	PropOutcomes       = "deltafold.outcomes"
	PropInputTypes     = "deltafold.inputTypes"
)

// PropPrefix begins every table property of ours.
const PropPrefix = "deltafold."

// OutcomesNone is the value of Roles.Outcomes for a table that keeps no outcomes.
const OutcomesNone = "none"

// Roles say what the columns of a guarded state table and of its inputs are for
// (command.md, "Column roles, one derivation"). Column names are in the table's spelling.
type Roles struct {
	// Mode is Guarded.
	Mode Mode
	// Keys and Versions are the key and source version columns, in order; never empty.
	Keys, Versions []string
	// MinVersion is the least valid version as text in the version column's type; nil:
	// none. It applies to a single version column only.
	MinVersion *string
	// Operation is the input's operation column, "" for none. OperationGiven says that a
	// flag named it; otherwise an input may lack it and is then all upserts.
	Operation      string
	OperationGiven bool
	// UpsertWord and DeleteWord are the words of the operation column, "" where there is
	// no operation column.
	UpsertWord, DeleteWord string
	// DeletesWhen is the SQL condition that makes a change a delete, "" for none.
	DeletesWhen string
	// Deleted is the boolean column, in the input and as the table's status, "" for none.
	Deleted string
	// StatusForm says how the table stores a status; Status is the column, "" for none.
	StatusForm StatusForm
	Status     string
	// ChangeID is the input's label column, "" for none; ChangeIDGiven as OperationGiven.
	ChangeID      string
	ChangeIDGiven bool
	// Payload are the payload columns in table order; PayloadGiven says that a flag named
	// them, so that other input columns are ignored.
	Payload      []string
	PayloadGiven bool
	// Required are payload columns in which an upsert must not be NULL.
	Required []string
	// NoCheck are the validity checks that are off.
	NoCheck []Check
	// Policy is the conflict policy, never empty.
	Policy Policy
	// Outcomes is the outcomes table's URL, OutcomesNone, or "" for TABLE-outcomes.
	Outcomes string
	// InputTypes are the DDL types of input columns that are not in the table.
	InputTypes map[string]string
	// Expectations are checked on every batch.
	Expectations []Expectation
	// Extra are deltafold.* properties that this version does not know, kept as they are.
	Extra map[string]string
}

// PropertyError says that a table property of ours is damaged or contradicts another.
type PropertyError struct {
	Property, Value, Reason string
}

// Error names the property, its value and what is wrong with it.
func (e *PropertyError) Error() string {
	return fmt.Sprintf("table property %s = %q: %s", e.Property, e.Value, e.Reason)
}

// ModeOf gives the mode that a table's properties name; a table that names none is Plain.
// A mode that is not known is a *PropertyError.
func ModeOf(props map[string]string) (Mode, error) {
	text, ok := props[PropMode]
	if !ok {
		return Plain, nil
	}
	switch m := Mode(text); m {
	case Plain, Guarded, Replace:
		return m, nil
	}
	return "", &PropertyError{PropMode, text, "not a mode"}
}

// Off reports whether the check is switched off.
func (r *Roles) Off(c Check) bool { return slices.Contains(r.NoCheck, c) }

// Properties gives the roles as table properties, Extra included. RolesFromProperties
// reads them back to equal Roles.
func (r *Roles) Properties() map[string]string {
	p := map[string]string{}
	maps.Copy(p, r.Extra)
	text := func(name, v string) {
		if v != "" {
			p[name] = v
		}
	}
	flag := func(name string, v bool) {
		if v {
			p[name] = "true"
		}
	}
	list := func(name string, v any, n int) {
		if n > 0 {
			p[name] = mustJSON(v)
		}
	}
	text(PropMode, string(r.Mode))
	list(PropKeys, r.Keys, len(r.Keys))
	list(PropVersions, r.Versions, len(r.Versions))
	if r.MinVersion != nil {
		p[PropMinVersion] = *r.MinVersion
	}
	text(PropOperation, r.Operation)
	flag(PropOperationGiven, r.OperationGiven)
	if r.Operation != "" {
		p[PropUpsertWord], p[PropDeleteWord] = r.UpsertWord, r.DeleteWord
	}
	text(PropDeletesWhen, r.DeletesWhen)
	text(PropDeleted, r.Deleted)
	text(PropStatusForm, string(r.StatusForm))
	text(PropStatus, r.Status)
	text(PropChangeID, r.ChangeID)
	flag(PropChangeIDGiven, r.ChangeIDGiven)
	p[PropPayload] = mustJSON(nonNil(r.Payload))
	flag(PropPayloadGiven, r.PayloadGiven)
	list(PropRequired, r.Required, len(r.Required))
	list(PropNoCheck, r.NoCheck, len(r.NoCheck))
	text(PropPolicy, string(r.Policy))
	text(PropOutcomes, r.Outcomes)
	list(PropInputTypes, r.InputTypes, len(r.InputTypes))
	list(PropExpectations, r.Expectations, len(r.Expectations))
	return p
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func mustJSON(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("bug: %T is not JSON: %v", v, err))
	}
	return string(text)
}

// RolesFromProperties reads the roles of a guarded table. It is false, without an error,
// for a plain table and for one in replace mode (ModeOf tells them apart). Damaged values,
// and roles that contradict each other, are a *PropertyError.
func RolesFromProperties(props map[string]string) (*Roles, bool, error) {
	mode, err := ModeOf(props)
	if err != nil {
		return nil, false, err
	}
	if mode != Guarded {
		if keys, ok := props[PropKeys]; ok && props[PropMode] == "" {
			return nil, false, &PropertyError{PropKeys, keys, PropMode + " is missing beside it"}
		}
		return nil, false, nil
	}
	d := propReader{props: props, seen: map[string]bool{PropMode: true}}
	r := d.roles()
	if d.err == nil {
		d.err = r.Validate()
	}
	if d.err != nil {
		return nil, false, d.err
	}
	for name, v := range props {
		if strings.HasPrefix(name, PropPrefix) && !d.seen[name] {
			if r.Extra == nil {
				r.Extra = map[string]string{}
			}
			r.Extra[name] = v
		}
	}
	return r, true, nil
}

// propReader reads properties and keeps the first error.
type propReader struct {
	props map[string]string
	seen  map[string]bool
	err   error
}

func (d *propReader) roles() *Roles {
	r := &Roles{
		Mode:           Guarded,
		Operation:      d.text(PropOperation),
		OperationGiven: d.flag(PropOperationGiven),
		UpsertWord:     d.text(PropUpsertWord),
		DeleteWord:     d.text(PropDeleteWord),
		DeletesWhen:    d.text(PropDeletesWhen),
		Deleted:        d.text(PropDeleted),
		StatusForm:     StatusForm(d.text(PropStatusForm)),
		Status:         d.text(PropStatus),
		ChangeID:       d.text(PropChangeID),
		ChangeIDGiven:  d.flag(PropChangeIDGiven),
		PayloadGiven:   d.flag(PropPayloadGiven),
		Policy:         Policy(d.text(PropPolicy)),
		Outcomes:       d.text(PropOutcomes),
	}
	d.json(PropKeys, &r.Keys)
	d.json(PropVersions, &r.Versions)
	d.json(PropPayload, &r.Payload)
	d.json(PropRequired, &r.Required)
	d.json(PropNoCheck, &r.NoCheck)
	d.json(PropInputTypes, &r.InputTypes)
	d.json(PropExpectations, &r.Expectations)
	if v, ok := d.props[PropMinVersion]; ok {
		r.MinVersion = &v
	}
	d.seen[PropMinVersion] = true
	return r
}

func (d *propReader) text(name string) string {
	d.seen[name] = true
	return d.props[name]
}

func (d *propReader) flag(name string) bool {
	switch v := d.text(name); v {
	case "", "false":
		return false
	case "true":
		return true
	default:
		d.fail(name, "neither true nor false")
		return false
	}
}

func (d *propReader) json(name string, into any) {
	text := d.text(name)
	if _, ok := d.props[name]; !ok {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		d.fail(name, "not the JSON that is expected: "+err.Error())
	}
}

func (d *propReader) fail(name, reason string) {
	if d.err == nil {
		d.err = &PropertyError{name, d.props[name], reason}
	}
}
