package change

import (
	"fmt"
	"slices"
	"strings"
)

// Validate reports the first contradiction in the roles as a *PropertyError named for the
// property that holds it (command.md, "Column roles, one derivation"). It knows nothing of
// the table's schema.
func (r *Roles) Validate() error {
	for _, check := range []func() error{r.validateWords, r.validateDeletes, r.validateColumns, r.validateExpectations} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Roles) bad(property, format string, args ...any) error {
	return &PropertyError{property, r.Properties()[property], fmt.Sprintf(format, args...)}
}

func (r *Roles) validateWords() error {
	switch {
	case r.Mode != Guarded:
		return r.bad(PropMode, "roles belong to mode guarded")
	case len(r.Keys) == 0:
		return r.bad(PropKeys, "no key column")
	case len(r.Versions) == 0:
		return r.bad(PropVersions, "no version column")
	case r.MinVersion != nil && len(r.Versions) > 1:
		return r.bad(PropMinVersion, "a minimum needs a single version column, here are %d", len(r.Versions))
	case r.Policy != Quarantine && r.Policy != Reject:
		return r.bad(PropPolicy, "not a conflict policy")
	case r.Operation != "" && (r.UpsertWord == "" || r.DeleteWord == ""):
		return r.bad(PropOperation, "an operation column needs %s and %s", PropUpsertWord, PropDeleteWord)
	case r.Operation != "" && r.UpsertWord == r.DeleteWord:
		return r.bad(PropDeleteWord, "the same word as %s", PropUpsertWord)
	case r.Operation == "" && (r.UpsertWord != "" || r.DeleteWord != "" || r.OperationGiven):
		return r.bad(PropOperation, "words of an operation without its column")
	}
	for _, c := range r.NoCheck {
		if !slices.Contains(Checks(), c) {
			return r.bad(PropNoCheck, "%q is not a check that can be switched off", c)
		}
	}
	return nil
}

func (r *Roles) validateDeletes() error {
	switch r.StatusForm {
	case StatusWord:
		if r.Status == "" {
			return r.bad(PropStatus, "form %s needs a status column", r.StatusForm)
		}
	case StatusBoolean:
		if r.Deleted == "" || r.Status != r.Deleted {
			return r.bad(PropStatus, "form %s needs %s as the status column", r.StatusForm, PropDeleted)
		}
	case StatusNone:
		if r.Status != "" {
			return r.bad(PropStatus, "form %s has no status column", r.StatusForm)
		}
	default:
		return r.bad(PropStatusForm, "not a status form")
	}
	switch {
	case r.Deleted != "" && r.StatusForm != StatusBoolean:
		return r.bad(PropDeleted, "needs %s %s", PropStatusForm, StatusBoolean)
	case r.Deleted != "" && r.Operation != "":
		return r.bad(PropOperation, "contradicts %s", PropDeleted)
	case r.Deleted != "" && r.DeletesWhen != "":
		return r.bad(PropDeletesWhen, "contradicts %s", PropDeleted)
	case r.Operation != "" && r.DeletesWhen != "":
		return r.bad(PropDeletesWhen, "contradicts %s", PropOperation)
	case r.StatusForm == StatusNone && r.Operation != "":
		return r.bad(PropOperation, "%s %s cannot store deletes", PropStatusForm, StatusNone)
	case r.StatusForm == StatusNone && r.DeletesWhen != "":
		return r.bad(PropDeletesWhen, "%s %s cannot store deletes", PropStatusForm, StatusNone)
	case !r.StatusForm.CanStore(Conflict) && r.Policy != Reject:
		return r.bad(PropPolicy, "%s %s cannot store a conflict, it needs %s", PropStatusForm, r.StatusForm, Reject)
	}
	return nil
}

// validateColumns refuses one name in two roles. Names are compared without case, as Delta
// compares columns.
func (r *Roles) validateColumns() error {
	roles := []struct {
		property string
		columns  []string
	}{
		{PropKeys, r.Keys},
		{PropVersions, r.Versions},
		{PropStatus, []string{r.Status}},
		{PropOperation, []string{r.Operation}},
		{PropChangeID, []string{r.ChangeID}},
		{PropPayload, r.Payload},
	}
	holder := map[string]string{}
	for _, role := range roles {
		for _, c := range role.columns {
			if c == "" && (role.property == PropStatus || role.property == PropOperation || role.property == PropChangeID) {
				continue
			}
			if c == "" {
				return r.bad(role.property, "an empty column name")
			}
			// NB: two input-only roles may not share a column either: its value would mean
			// two things.
			if other, ok := holder[strings.ToLower(c)]; ok {
				return r.bad(role.property, "column %q is claimed by %s too", c, other)
			}
			holder[strings.ToLower(c)] = role.property
		}
	}
	for _, c := range r.Required {
		if holder[strings.ToLower(c)] != PropPayload {
			return r.bad(PropRequired, "column %q is not a payload column", c)
		}
	}
	return nil
}

func (r *Roles) validateExpectations() error {
	if reason := badExpectations(r.Expectations); reason != "" {
		return r.bad(PropExpectations, "%s", reason)
	}
	return nil
}

// badExpectations says what is wrong with a list of expectations, if anything.
func badExpectations(all []Expectation) string {
	seen := map[string]bool{}
	for _, e := range all {
		switch {
		case e.Name == "" || e.Condition == "":
			return "an expectation without name or condition"
		case e.Action != ExpectFail && e.Action != ExpectDrop && e.Action != ExpectWarn:
			return fmt.Sprintf("expectation %q has the unknown action %q", e.Name, e.Action)
		case seen[e.Name]:
			return fmt.Sprintf("two expectations %q", e.Name)
		}
		seen[e.Name] = true
	}
	return ""
}
