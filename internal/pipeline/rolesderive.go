package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
)

// DeriveRoles gives the roles of a table that is to be made, and its schema,
// from the flags and the columns of its input. The table has key, version,
// status and payload, in this order (merge-semantics 1). Errors are *UsageError,
// and *RuleError where a rule forbids the table.
func DeriveRoles(f *RoleFlags, input *arrow.Schema) (*change.Roles, *arrow.Schema, error) {
	return f.derive(input, fromInput)
}

// DeriveCreated is DeriveRoles for a table that is made before any input is
// there: the schema lists key, version and payload columns. Inputs may have
// the default operation and label columns, or those that flags name, besides.
func DeriveCreated(f *RoleFlags, table *arrow.Schema) (*change.Roles, *arrow.Schema, error) {
	return f.derive(table, fromCreate)
}

// origin is where the schema that roles are derived from comes from.
type origin uint8

const (
	fromInput  origin = iota // the columns of an input, all of them
	fromCreate               // key, version and payload columns of a table to be
	fromTable                // the columns of a table that is there
)

func (f *RoleFlags) derive(sch *arrow.Schema, from origin) (*change.Roles, *arrow.Schema, error) {
	r, err := f.roles(sch, from)
	if err != nil {
		return nil, nil, err
	}
	var extra []string
	if from == fromInput { // else the columns that only the condition reads are not known yet
		if extra, err = onlyCondition(r, sch, nil); err != nil {
			return nil, nil, err
		}
	}
	taken := roleColumns(r)
	for _, c := range extra {
		if !containsFold(f.Payload, c) {
			taken[strings.ToLower(c)] = "--deletes-when"
		}
	}
	if err := r.payload(f, sch, taken); err != nil {
		return nil, nil, err
	}
	r.InputTypes = map[string]string{}
	for _, field := range sch.Fields() {
		if c := field.Name; c == r.Operation || c == r.ChangeID || slices.Contains(extra, c) && !slices.Contains(r.Payload, c) {
			if r.InputTypes[c], err = ddlOf(field.Type); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := r.check(sch); err != nil {
		return nil, nil, err
	}
	out := &r.Roles
	table := stateSchema(out, sch)
	if from != fromInput {
		if sch, err = InputSchema(out, table, ""); err != nil {
			return nil, nil, err
		}
	}
	if err := checkExpectations(out.Expectations, sch); err != nil {
		return nil, nil, err
	}
	return out, table, CheckStateSchema(out, table)
}

// DeriveAdopted gives the roles of a table that is there already.
func DeriveAdopted(f *RoleFlags, table *arrow.Schema) (*change.Roles, error) {
	r, err := f.roles(table, fromTable)
	if err != nil {
		return nil, err
	}
	r.adopting = true
	if err := r.payload(f, table, roleColumns(r)); err != nil {
		return nil, err
	}
	if err := r.check(table); err != nil {
		return nil, err
	}
	stored := len(r.Payload) + len(r.Keys) + len(r.Versions)
	if _, ok := fieldOf(table, r.Status); ok && r.Status != "" {
		stored++
	}
	if stored != table.NumFields() {
		return nil, usage("--payload must name every table column that is not key, version or status")
	}
	input, err := InputSchema(&r.Roles, table, "")
	if err != nil {
		return nil, err
	}
	if err := checkExpectations(r.Expectations, input); err != nil {
		return nil, err
	}
	return &r.Roles, CheckStateSchema(&r.Roles, table)
}

// derived are roles while they are put together.
type derived struct {
	change.Roles
	versionGiven bool // a flag named the version column: no minimum
	adopting     bool // the schema is the table's: it holds the status
}

// roles takes flags and defaults together, and finds the columns they name.
func (f *RoleFlags) roles(sch *arrow.Schema, from origin) (*derived, error) {
	r := &derived{versionGiven: len(f.Versions) > 0, Roles: change.Roles{
		Mode: change.Guarded, Keys: slices.Clone(f.Keys), Versions: slices.Clone(f.Versions), MinVersion: f.MinVersion,
		DeletesWhen: f.DeletesWhen, Deleted: f.Deleted, Required: slices.Clone(f.Required), Policy: change.Policy(f.OnConflict),
		Outcomes: f.Outcomes, Expectations: slices.Clone(f.Expectations),
	}}
	if err := distinct(f.Expectations); err != nil {
		return nil, err
	}
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
	switch r.Policy {
	case "":
		r.Policy = change.Quarantine
	case change.Quarantine, change.Reject:
	default:
		return nil, usage("--on-conflict %s is neither quarantine nor reject", r.Policy)
	}
	for _, step := range []func(*derived, *arrow.Schema, origin) error{f.status, f.label, f.operation} {
		if err := step(r, sch, from); err != nil {
			return nil, err
		}
	}
	return r, r.spell(sch)
}

func (f *RoleFlags) status(r *derived, _ *arrow.Schema, _ origin) error {
	switch {
	case f.Deleted != "" && f.Status != "":
		return usage("--deleted-column %s is the table's status column: --status-column cannot be given beside it", f.Deleted)
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
		return usage("--deleted-column and --status-column none cannot store a conflict: they need --on-conflict reject")
	}
	return nil
}

func (f *RoleFlags) label(r *derived, sch *arrow.Schema, from origin) error {
	is, err := f.inputOnly(f.ChangeID, &inputRole{"--change-id-column", defaultChangeID, "label"}, sch, from)
	if err != nil || !is {
		return err
	}
	r.ChangeID, r.ChangeIDGiven = f.ChangeID, f.ChangeID != ""
	if r.ChangeID == "" {
		r.ChangeID = defaultChangeID
	}
	return nil
}

func (f *RoleFlags) operation(r *derived, sch *arrow.Schema, from origin) error {
	ways := 0
	for _, w := range []string{f.Operation, f.Deleted, f.DeletesWhen} {
		if w != "" {
			ways++
		}
	}
	if ways > 1 {
		return usage("only one of --operation-column, --deleted-column and --deletes-when can say what a delete is")
	}
	words := f.UpsertWord != "" || f.DeleteWord != ""
	none := r.StatusForm == change.StatusNone
	if none && (ways > 0 || words) {
		return usage("--status-column none cannot store deletes: no --operation-column, --deleted-column or --deletes-when beside it")
	}
	is := false
	if f.Operation != "" || ways == 0 && (!none || from == fromInput) {
		var err error
		if is, err = f.inputOnly(f.Operation, &inputRole{"--operation-column", defaultOperation, "operation"}, sch, from); err != nil {
			return err
		}
	}
	switch {
	case is && none:
		return usage("--status-column none cannot store deletes, and the input has the column %s: --payload that names it stores it as it is", defaultOperation)
	case !is && words:
		return usage("--upsert-word and --delete-word need an operation column")
	case !is:
		return nil
	}
	r.Operation, r.OperationGiven = f.Operation, f.Operation != ""
	if r.Operation == "" {
		r.Operation = defaultOperation
	}
	r.UpsertWord, r.DeleteWord = defaultUpsert, defaultDelete
	if f.UpsertWord != "" {
		r.UpsertWord = f.UpsertWord
	}
	if f.DeleteWord != "" {
		r.DeleteWord = f.DeleteWord
	}
	if r.UpsertWord == r.DeleteWord {
		return usage("--upsert-word and --delete-word are the same: %s", r.UpsertWord)
	}
	if field, ok := fieldOf(sch, r.Operation); ok && field.Type.ID() != arrow.STRING {
		return usage("column %s is %s, but an operation column holds words: --operation-column names another", field.Name, deltatable.TypeName(field.Type))
	}
	return nil
}

// inputRole is a role that only columns of inputs have.
type inputRole struct{ flag, name, what string }

// inputOnly tells whether inputs have a column of this role: the one that the
// flag names, or the default where nothing else claims its name.
func (f *RoleFlags) inputOnly(given string, role *inputRole, sch *arrow.Schema, from origin) (bool, error) {
	if given != "" {
		field, has := fieldOf(sch, given)
		switch {
		case from == fromInput && !has:
			return false, usage("%s %s is not in the schema", role.flag, given)
		case from == fromCreate && has:
			return false, usage("%s %s is a column of inputs alone: leave it out of --schema", role.flag, field.Name)
		case from == fromTable && has:
			return false, usage("%s %s is a column of the table, so it is key, version, status or payload", role.flag, field.Name)
		}
		return true, nil
	}
	_, has := fieldOf(sch, role.name)
	claimed := slices.ContainsFunc([][]string{f.Keys, f.Versions, f.Payload, {f.Deleted, f.Status}}, func(names []string) bool {
		return containsFold(names, role.name)
	})
	switch {
	case from == fromInput:
		return has && !claimed, nil
	case from == fromCreate && has && !claimed:
		return false, usage("column %s is by default the %s column of inputs: leave it out of --schema, or name it in --payload to store it", role.name, role.what)
	}
	return !has && !claimed, nil
}

func containsFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
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
			return &RuleError{fmt.Sprintf("key column %s is %s: keys are atomic and neither float nor double", field.Name, deltatable.TypeName(field.Type))}
		}
		r.Keys[i] = field.Name
	}
	for i, name := range r.Versions {
		field, ok := fieldOf(sch, name)
		if !ok {
			return usage("version column %s is not in the schema (--version-column names it)", name)
		}
		if !versionType(field.Type) {
			return &RuleError{fmt.Sprintf("version column %s is %s: versions are integers, decimals, dates, timestamps or strings", field.Name, deltatable.TypeName(field.Type))}
		}
		r.Versions[i] = field.Name
		if r.MinVersion == nil && !r.versionGiven && numeric(field.Type) {
			one := "1"
			r.MinVersion = &one
		}
	}
	for _, p := range []*string{&r.Operation, &r.ChangeID, &r.Deleted, &r.Status} {
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
	}
	return nil
}

// check refuses one name in two roles, with the flag that resolves it, and a
// minimum that is no version.
func (r *derived) check(sch *arrow.Schema) error {
	statusFlag := "--status-column"
	if r.Deleted != "" {
		statusFlag = "--deleted-column"
	}
	claims := map[string]string{}
	for _, c := range []struct {
		flag  string
		names []string
	}{
		{"--key", r.Keys},
		{"--version-column", r.Versions},
		{statusFlag, []string{r.Status}},
		{"--operation-column", []string{r.Operation}},
		{"--change-id-column", []string{r.ChangeID}},
		{"--payload", r.Payload},
	} {
		for _, n := range c.names {
			other, twice := claims[strings.ToLower(n)]
			switch {
			case n == "":
			case twice && other == c.flag:
				return usage("%s names column %s twice", c.flag, n)
			case twice:
				return usage("column %s is claimed by the roles of %s and %s: one of these flags must name another", n, other, c.flag)
			default:
				claims[strings.ToLower(n)] = c.flag
			}
		}
	}
	if err := r.checkMinimum(sch); err != nil {
		return err
	}
	if err := r.Validate(); err != nil {
		return usage("%v", err)
	}
	return nil
}

func (r *derived) checkMinimum(sch *arrow.Schema) error {
	if r.MinVersion == nil {
		return nil
	}
	if len(r.Versions) > 1 {
		return usage("--min-version %s: a minimum needs a single version column", *r.MinVersion)
	}
	e := &expr.Infix{Op: ">=", L: &expr.Name{Parts: r.Versions}, R: &expr.Literal{Kind: expr.String, Text: *r.MinVersion}}
	if _, err := expr.Bind(e, sch); err != nil {
		return usage("--min-version %s is no version: column %s is %s", *r.MinVersion, r.Versions[0], fieldType(sch, r.Versions[0]))
	}
	return nil
}

func fieldType(sch *arrow.Schema, name string) arrow.DataType {
	f, _ := fieldOf(sch, name)
	return f.Type
}
