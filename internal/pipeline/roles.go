package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
)

// UsageError is a mistake in flags or arguments: nothing was read or written.
type UsageError struct{ Msg string }

// Error gives the message.
func (e *UsageError) Error() string { return e.Msg }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// RuleError says that the rules refuse what was asked for; nothing was
// committed (exit status 3).
type RuleError struct{ Msg string }

// Error gives the message.
func (e *RuleError) Error() string { return e.Msg }

// RoleFlags are the role flags as they were given; the zero value is none
// (command.md, "Column roles, one derivation").
type RoleFlags struct {
	Keys, Versions         []string // --key, --version-column
	MinVersion             *string  // --min-version
	Operation              string   // --operation-column
	UpsertWord, DeleteWord string   // --upsert-word, --delete-word
	DeletesWhen            string   // --deletes-when
	Deleted                string   // --deleted-column
	Status                 string   // --status-column; NoStatus for none
	ChangeID               string   // --change-id-column
	Payload                []string // --payload
	Required               []string // --require
	NoCheck                []string // --no-check
	OnConflict             string   // --on-conflict
	Outcomes               string   // --property deltafold.outcomes=…; "" for TABLE-outcomes
}

// NoStatus is the value of --status-column for a table without one.
const NoStatus = "none"

// Given says whether any role flag was given.
func (f *RoleFlags) Given() bool {
	return len(f.Keys)+len(f.Versions)+len(f.Payload) > 0 || f.MinVersion != nil ||
		f.Operation+f.UpsertWord+f.DeleteWord+f.DeletesWhen+f.Deleted+f.Status+f.ChangeID+f.OnConflict != ""
}

// Default names and words of the roles.
const (
	defaultKey       = "entity_id"
	defaultVersion   = "source_version"
	defaultOperation = "operation"
	defaultUpsert    = "upsert"
	defaultDelete    = "delete"
	defaultStatus    = "status"
	defaultChangeID  = "change_id"
)

// DeriveRoles gives the roles of a table that is to be made, and its schema,
// from the flags and the columns of its input. The table has key, version,
// status and payload, in this order (merge-semantics 1). Errors are *UsageError,
// and *RuleError where a rule forbids the table.
func DeriveRoles(f *RoleFlags, input *arrow.Schema) (*change.Roles, *arrow.Schema, error) {
	return f.derive(input, func(name string) bool { _, ok := fieldOf(input, name); return ok }, true)
}

// DeriveCreated is DeriveRoles for a table that is made before any input is
// there: the schema lists key, version and payload columns. Inputs may have
// the default operation and label columns, or those that flags name, besides.
func DeriveCreated(f *RoleFlags, table *arrow.Schema) (*change.Roles, *arrow.Schema, error) {
	return f.derive(table, func(string) bool { return true }, false)
}

// derive makes the roles; whole says that input has all columns of an input.
func (f *RoleFlags) derive(input *arrow.Schema, has func(string) bool, whole bool) (*change.Roles, *arrow.Schema, error) {
	r, err := f.roles(has)
	if err != nil {
		return nil, nil, err
	}
	if err := r.spell(input); err != nil {
		return nil, nil, err
	}
	var extra []string
	if whole { // else the columns that only the condition reads are not known yet
		if extra, err = onlyCondition(r, input, nil); err != nil {
			return nil, nil, err
		}
	}
	taken := roleColumns(r)
	for _, c := range extra {
		if !slices.Contains(f.Payload, c) {
			taken[strings.ToLower(c)] = "--deletes-when"
		}
	}
	if err := r.payload(f, input, taken); err != nil {
		return nil, nil, err
	}
	r.InputTypes = map[string]string{}
	for _, field := range input.Fields() {
		if c := field.Name; c == r.Operation || c == r.ChangeID || slices.Contains(extra, c) && !slices.Contains(r.Payload, c) {
			if r.InputTypes[c], err = ddlOf(field.Type); err != nil {
				return nil, nil, err
			}
		}
	}
	out := &r.Roles
	if err := out.Validate(); err != nil {
		return nil, nil, usage("%v", err)
	}
	table := stateSchema(out, input)
	return out, table, CheckStateSchema(out, table)
}

// DeriveAdopted gives the roles of a table that is there already.
func DeriveAdopted(f *RoleFlags, table *arrow.Schema) (*change.Roles, error) {
	r, err := f.roles(func(name string) bool { return name == defaultOperation || name == defaultChangeID })
	if err != nil {
		return nil, err
	}
	r.adopting = true
	// A column that the table has is no column of the input alone.
	if _, has := fieldOf(table, defaultOperation); has && f.Operation == "" {
		r.Operation, r.UpsertWord, r.DeleteWord = "", "", ""
	}
	if _, has := fieldOf(table, defaultChangeID); has && f.ChangeID == "" {
		r.ChangeID = ""
	}
	for _, c := range []struct{ name, flag string }{{r.Operation, "--operation-column"}, {r.ChangeID, "--change-id-column"}} {
		if _, has := fieldOf(table, c.name); has && c.name != "" {
			return nil, usage("%s %s is a column of the table, so it is key, version, status or payload", c.flag, c.name)
		}
	}
	if err := r.spell(table); err != nil {
		return nil, err
	}
	if err := r.payload(f, table, roleColumns(r)); err != nil {
		return nil, err
	}
	if _, ok := fieldOf(table, r.Status); !ok && r.Status != "" {
		return nil, CheckStateSchema(&r.Roles, table)
	}
	if len(r.Payload)+len(r.Keys)+len(r.Versions)+len(nonEmpty(r.Status)) != table.NumFields() {
		return nil, usage("--payload must name every table column that is not key, version or status")
	}
	if err := r.Validate(); err != nil {
		return nil, usage("%v", err)
	}
	return &r.Roles, CheckStateSchema(&r.Roles, table)
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// derived are roles while they are put together.
type derived struct {
	change.Roles
	versionGiven bool // a flag named the version column: no minimum
	adopting     bool // the schema is the table's: it holds the status
}

func (f *RoleFlags) roles(has func(string) bool) (*derived, error) {
	r := &derived{versionGiven: len(f.Versions) > 0, Roles: change.Roles{
		Mode: change.Guarded, Keys: f.Keys, Versions: f.Versions, MinVersion: f.MinVersion,
		DeletesWhen: f.DeletesWhen, Deleted: f.Deleted, Required: f.Required, Policy: change.Policy(f.OnConflict),
		ChangeID: f.ChangeID, ChangeIDGiven: f.ChangeID != "", Outcomes: f.Outcomes,
	}}
	for _, c := range f.NoCheck {
		if !slices.Contains(change.Checks(), change.Check(c)) {
			return nil, usage("--no-check %s: only change_id, min_version, empty_upsert and delete_payload can be switched off", c)
		}
		r.NoCheck = append(r.NoCheck, change.Check(c))
	}
	if len(r.Keys) == 0 {
		r.Keys = []string{defaultKey}
	}
	if len(r.Versions) == 0 {
		r.Versions = []string{defaultVersion}
	}
	if r.Policy == "" {
		r.Policy = change.Quarantine
	}
	if r.ChangeID == "" && has(defaultChangeID) {
		r.ChangeID = defaultChangeID
	}
	switch {
	case f.Deleted != "" && f.Status != "":
		return nil, usage("--deleted-column %s is the table's status column: --status-column cannot be given beside it", f.Deleted)
	case f.Deleted != "":
		r.StatusForm, r.Status = change.StatusBoolean, f.Deleted
	case f.Status == NoStatus:
		r.StatusForm = change.StatusNone
	default:
		r.StatusForm, r.Status = change.StatusWord, f.Status
		if r.Status == "" {
			r.Status = defaultStatus
		}
	}
	if r.StatusForm != change.StatusWord && r.Policy != change.Reject {
		return nil, usage("--deleted-column and --status-column none cannot store a conflict: they need --on-conflict reject")
	}
	return r, f.operation(r, has)
}

func (f *RoleFlags) operation(r *derived, has func(string) bool) error {
	ways := 0
	for _, w := range []string{f.Operation, f.Deleted, f.DeletesWhen} {
		if w != "" {
			ways++
		}
	}
	if ways > 1 {
		return usage("only one of --operation-column, --deleted-column and --deletes-when can say what a delete is")
	}
	if r.StatusForm == change.StatusNone && ways > 0 {
		return usage("--status-column none cannot store deletes: no --operation-column, --deleted-column or --deletes-when beside it")
	}
	r.Operation, r.OperationGiven = f.Operation, f.Operation != ""
	if ways == 0 && r.StatusForm == change.StatusWord && has(defaultOperation) {
		r.Operation = defaultOperation
	}
	if r.Operation == "" {
		if f.UpsertWord != "" || f.DeleteWord != "" {
			return usage("--upsert-word and --delete-word need an operation column")
		}
		return nil
	}
	r.UpsertWord, r.DeleteWord = defaultUpsert, defaultDelete
	if f.UpsertWord != "" {
		r.UpsertWord = f.UpsertWord
	}
	if f.DeleteWord != "" {
		r.DeleteWord = f.DeleteWord
	}
	return nil
}

// spell brings the names of columns into the schema's spelling and checks their
// types (merge-semantics 1).
func (r *derived) spell(sch *arrow.Schema) error {
	for i, name := range r.Keys {
		field, ok := fieldOf(sch, name)
		if !ok {
			return usage("key column %s is not in the schema (--key names the key columns)", name)
		}
		if id := field.Type.ID(); !ordered.Supported(field.Type) || id == arrow.FLOAT32 || id == arrow.FLOAT64 || id == arrow.NULL {
			return &RuleError{fmt.Sprintf("key column %s is %s: keys are atomic and neither float nor double", field.Name, field.Type)}
		}
		r.Keys[i] = field.Name
	}
	for i, name := range r.Versions {
		field, ok := fieldOf(sch, name)
		if !ok {
			return usage("version column %s is not in the schema (--version-column names it)", name)
		}
		if !versionType(field.Type) {
			return &RuleError{fmt.Sprintf("version column %s is %s: versions are integers, decimals, dates, timestamps or strings", field.Name, field.Type)}
		}
		r.Versions[i] = field.Name
		if r.MinVersion == nil && !r.versionGiven && numeric(field.Type) {
			one := "1"
			r.MinVersion = &one
		}
	}
	for _, p := range []*string{&r.Operation, &r.ChangeID, &r.Deleted} {
		if field, ok := fieldOf(sch, *p); ok {
			*p = field.Name
		}
	}
	if r.DeletesWhen != "" {
		if _, err := expr.Parse(r.DeletesWhen); err != nil {
			return usage("--deletes-when: %v", err)
		}
	}
	if r.Deleted != "" {
		field, ok := fieldOf(sch, r.Deleted)
		if !ok || field.Type.ID() != arrow.BOOL {
			return usage("--deleted-column %s is not a boolean column of the schema", r.Deleted)
		}
		r.Status = field.Name
	}
	return nil
}
