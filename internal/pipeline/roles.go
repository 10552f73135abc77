package pipeline

import (
	"fmt"

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
	// Expectations are those that a table which is made or adopted remembers.
	Expectations []change.Expectation
}

// NoStatus is the value of --status-column for a table without one.
const NoStatus = "none"

// Given says whether any role flag was given. Expectations name no role.
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
