package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/merge/change"
)

// fieldOf finds a column by name, without case as Delta resolves columns.
func fieldOf(sch *arrow.Schema, name string) (arrow.Field, bool) {
	for _, f := range sch.Fields() {
		if strings.EqualFold(f.Name, name) {
			return f, true
		}
	}
	return arrow.Field{}, false
}

func versionType(t arrow.DataType) bool {
	switch t.(type) {
	case *arrow.Date32Type, *arrow.TimestampType, *arrow.StringType:
		return true
	}
	return numeric(t)
}

func numeric(t arrow.DataType) bool {
	switch t.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type, *arrow.Decimal128Type:
		return true
	}
	return false
}

// roleColumns maps the columns that a role claims, in lower case, to the flag
// that moves the role elsewhere.
func roleColumns(r *derived) map[string]string {
	taken := map[string]string{}
	for _, c := range []struct {
		names []string
		flag  string
	}{
		{r.Keys, "--key"},
		{r.Versions, "--version-column"},
		{[]string{r.Operation}, "--operation-column"},
		{[]string{r.ChangeID}, "--change-id-column"},
		{[]string{r.Deleted}, "--deleted-column"},
	} {
		for _, n := range c.names {
			if n != "" {
				taken[strings.ToLower(n)] = c.flag
			}
		}
	}
	return taken
}

// payload fills in the payload columns: those that the flag names, or all that
// no other role claims.
func (r *derived) payload(f *RoleFlags, sch *arrow.Schema, taken map[string]string) error {
	status := strings.ToLower(r.Status)
	for _, p := range f.Payload {
		field, ok := fieldOf(sch, p)
		if !ok {
			return usage("--payload %s is not in the schema", p)
		}
		if flag, is := taken[strings.ToLower(p)]; is && flag != "--deletes-when" {
			return usage("column %s is claimed by --payload and by %s", p, flag)
		}
		if strings.ToLower(p) == status {
			return usage("column %s is claimed by --payload and by the status: --status-column names another, or none", p)
		}
		r.Payload = append(r.Payload, field.Name)
	}
	r.PayloadGiven = len(f.Payload) > 0
	statusIn, _ := fieldOf(sch, r.Status)
	if r.PayloadGiven {
		return r.checkRequired(sch)
	}
	for _, field := range sch.Fields() {
		if _, is := taken[strings.ToLower(field.Name)]; is {
			continue
		}
		if r.Status != "" && field.Name == statusIn.Name && !r.adopting {
			return usage("column %s is payload and the table's status at once: --status-column names another status column, or none", field.Name)
		}
		if r.Status != "" && field.Name == statusIn.Name {
			continue
		}
		r.Payload = append(r.Payload, field.Name)
	}
	return r.checkRequired(sch)
}

func (r *derived) checkRequired(sch *arrow.Schema) error {
	for i, name := range r.Required {
		field, ok := fieldOf(sch, name)
		if !ok || !slices.Contains(r.Payload, field.Name) {
			return usage("--require %s is not a payload column", name)
		}
		r.Required[i] = field.Name
	}
	return nil
}

// onlyCondition gives the columns that --deletes-when reads and that have no
// other role; with a table, those that the table does not have.
func onlyCondition(r *derived, input, table *arrow.Schema) ([]string, error) {
	if r.DeletesWhen == "" {
		return nil, nil
	}
	e, err := expr.Parse(r.DeletesWhen)
	if err != nil {
		return nil, usage("--deletes-when: %v", err)
	}
	b, err := expr.Bind(e, input)
	if err != nil {
		return nil, usage("--deletes-when: %v", err)
	}
	if b.Type().ID() != arrow.BOOL {
		return nil, usage("--deletes-when is %s, not a condition", deltatable.TypeName(b.Type()))
	}
	taken := roleColumns(r)
	var out []string
	for _, c := range b.Columns() {
		if _, is := taken[strings.ToLower(c)]; is {
			continue
		}
		if table != nil {
			if _, is := fieldOf(table, c); is {
				continue
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// stateSchema is the schema of a table that we make (merge-semantics 1).
func stateSchema(r *change.Roles, input *arrow.Schema) *arrow.Schema {
	var fields []arrow.Field
	add := func(names []string) {
		for _, n := range names {
			f, _ := fieldOf(input, n)
			fields = append(fields, f)
		}
	}
	add(r.Keys)
	add(r.Versions)
	switch r.StatusForm {
	case change.StatusWord:
		fields = append(fields, arrow.Field{Name: r.Status, Type: arrow.BinaryTypes.String, Nullable: true})
	case change.StatusBoolean:
		add([]string{r.Deleted})
	case change.StatusNone:
	}
	add(r.Payload)
	return arrow.NewSchema(fields, nil)
}

// CheckStateSchema refuses a table that cannot hold what the roles store
// (merge-semantics 1, "state table").
func CheckStateSchema(r *change.Roles, table *arrow.Schema) error {
	if r.Status != "" {
		f, ok := fieldOf(table, r.Status)
		want := arrow.STRING
		if r.StatusForm == change.StatusBoolean {
			want = arrow.BOOL
		}
		if !ok || f.Type.ID() != want {
			return &RuleError{fmt.Sprintf("the table has no %s column %s for the status (--status-column names it, or none)", strings.ToLower(want.String()), r.Status)}
		}
	}
	if !r.StatusForm.CanStore(change.Deleted) && !r.StatusForm.CanStore(change.Conflict) {
		return nil
	}
	for _, p := range r.Payload {
		if f, ok := fieldOf(table, p); ok && !f.Nullable {
			return &RuleError{fmt.Sprintf("payload column %s is NOT NULL, but deleted and conflict rows have a NULL payload", p)}
		}
	}
	return nil
}

// ddlOf spells a type as --schema takes it.
func ddlOf(t arrow.DataType) (string, error) {
	s, err := deltatable.SchemaFromArrow(arrow.NewSchema([]arrow.Field{{Name: "c", Type: t, Nullable: true}}, nil))
	if err != nil {
		return "", err
	}
	return s.Fields()[0].Type.String(), nil
}

// CheckFlags refuses flags that contradict what the table remembers
// (command.md: exit status 2).
func CheckFlags(f *RoleFlags, r *change.Roles) error {
	differs := func(flag string, given, remembered any) error {
		return usage("%s %v contradicts what the table remembers: %v", flag, given, remembered)
	}
	same := func(flag string, given, remembered []string) error {
		if len(given) > 0 && !slices.EqualFunc(given, remembered, strings.EqualFold) {
			return differs(flag, given, remembered)
		}
		return nil
	}
	text := func(flag, given, remembered string) error {
		if given != "" && !strings.EqualFold(given, remembered) {
			return differs(flag, given, remembered)
		}
		return nil
	}
	status := r.Status
	if r.StatusForm == change.StatusNone {
		status = NoStatus
	}
	for _, err := range []error{
		same("--key", f.Keys, r.Keys),
		same("--version-column", f.Versions, r.Versions),
		text("--operation-column", f.Operation, r.Operation),
		text("--deleted-column", f.Deleted, r.Deleted),
		text("--status-column", f.Status, status),
		text("--change-id-column", f.ChangeID, r.ChangeID),
	} {
		if err != nil {
			return err
		}
	}
	for _, w := range []struct{ flag, given, remembered string }{
		{"--upsert-word", f.UpsertWord, r.UpsertWord},
		{"--delete-word", f.DeleteWord, r.DeleteWord},
		{"--deletes-when", f.DeletesWhen, r.DeletesWhen},
		{"--on-conflict", f.OnConflict, string(r.Policy)},
		{"--property " + change.PropOutcomes, f.Outcomes, r.Outcomes},
	} {
		if w.given != "" && w.given != w.remembered {
			return differs(w.flag, w.given, w.remembered)
		}
	}
	if f.MinVersion != nil && (r.MinVersion == nil || *f.MinVersion != *r.MinVersion) {
		return differs("--min-version", *f.MinVersion, textOf(r.MinVersion))
	}
	if len(f.Payload) > 0 && !sameSet(f.Payload, r.Payload) {
		return differs("--payload", f.Payload, r.Payload)
	}
	if len(f.Required) > 0 && !sameSet(f.Required, r.Required) {
		return differs("--require", f.Required, r.Required)
	}
	for _, c := range f.NoCheck {
		if !slices.Contains(change.Checks(), change.Check(c)) {
			return usage("--no-check %s: only change_id, min_version, empty_upsert and delete_payload can be switched off", c)
		}
	}
	return remembers(r.Expectations, f.Expectations)
}

func textOf(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

func sameSet(a, b []string) bool {
	fold := func(in []string) []string {
		out := make([]string, len(in))
		for i, s := range in {
			out[i] = strings.ToLower(s)
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(fold(a), fold(b))
}
