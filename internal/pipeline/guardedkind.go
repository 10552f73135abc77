package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// kind is a way of folding a batch into a table, as the loop of a run needs it.
type kind interface {
	// prepare takes roles from the table, or from the flags for a new one, and
	// gives the schema that the files are read in.
	prepare(ctx context.Context, a *applier) (*arrow.Schema, error)
	// merge carries the batch out.
	merge(ctx context.Context, a *applier) (*merge.Result, error)
	// outcomesAt is the table's property of that name.
	outcomesAt() string
	// columns are those that a sample of outcomes shows: keys and versions.
	columns() (keys, versions []string)
	// expectations are those that the table remembers.
	expectations() []change.Expectation
	// ignores says that fields which the schema lacks are ignored.
	ignores() bool
}

// guardedKind is the guarded merge.
type guardedKind struct {
	roles  *change.Roles
	create *merge.NewTable
}

func (k *guardedKind) outcomesAt() string                 { return k.roles.Outcomes }
func (k *guardedKind) columns() (keys, versions []string) { return k.roles.Keys, k.roles.Versions }
func (k *guardedKind) expectations() []change.Expectation { return k.roles.Expectations }
func (k *guardedKind) ignores() bool                      { return k.roles.PayloadGiven }

func (k *guardedKind) prepare(ctx context.Context, a *applier) (*arrow.Schema, error) {
	if a.snap == nil {
		return k.fresh(ctx, a)
	}
	roles, err := GuardedRoles(a.snap)
	if err != nil {
		return nil, err
	}
	if err := CheckFlags(&a.job.Roles, roles); err != nil {
		return nil, err
	}
	if err := checkTableFlags(a.snap, a.job.PartitionBy, a.job.Properties); err != nil {
		return nil, err
	}
	k.roles, k.create = roles, nil
	return InputSchema(roles, a.snap.Schema(), a.job.Schema)
}

// fresh derives roles and schema of a table that is to be made.
func (k *guardedKind) fresh(ctx context.Context, a *applier) (*arrow.Schema, error) {
	sch, err := a.firstSchema(ctx)
	if err != nil {
		return nil, err
	}
	flags := a.job.Roles
	flags.Expectations = a.job.Expectations
	roles, table, err := DeriveRoles(&flags, sch)
	if err != nil {
		return nil, err
	}
	k.roles = roles
	k.create, err = NewGuardedTable(roles, table, a.job.PartitionBy, a.job.Properties)
	return sch, err
}

// GuardedRoles gives the roles of a guarded table; another table is a
// *RuleError that says what to do.
func GuardedRoles(s *deltatable.Snapshot) (*change.Roles, error) {
	props := s.Properties()
	roles, ok, err := change.RolesFromProperties(props)
	if err != nil {
		return nil, err
	}
	if ok {
		return roles, nil
	}
	if mode := props[change.PropMode]; mode != "" && mode != string(change.Plain) {
		return nil, &RuleError{fmt.Sprintf("the table is under mode %s, not guarded", mode)}
	}
	return nil, &RuleError{"the table is not guarded: adopt it first (deltafold adopt TABLE --key … --version-column …)"}
}

// NewGuardedTable makes the first metadata and protocol of a guarded table.
func NewGuardedTable(roles *change.Roles, table *arrow.Schema, partitionBy []string, given map[string]string) (*merge.NewTable, error) {
	props := roles.Properties()
	if err := addProperties(props, given); err != nil {
		return nil, err
	}
	if _, _, err := change.RolesFromProperties(props); err != nil {
		return nil, usage("%v", err)
	}
	return stateTable(table, partitionBy, props)
}

const propAppendOnly = "delta.appendOnly"

// appendOnly says whether properties forbid to take rows out (PROTOCOL.md
// "Append-only Tables").
func appendOnly(props map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(props[propAppendOnly]), "true")
}

// addProperties adds the properties of flags to those of roles.
func addProperties(props, given map[string]string) error {
	for k, v := range given {
		if _, is := props[k]; is {
			return usage("--property %s is set by the role flags", k)
		}
		props[k] = v
	}
	return nil
}

// stateTable makes the first metadata and protocol of a table under a mode.
func stateTable(table *arrow.Schema, partitionBy []string, props map[string]string) (*merge.NewTable, error) {
	if appendOnly(props) {
		return nil, usage("--property %s: in a table that only grows no change could be folded", propAppendOnly)
	}
	sch, err := deltatable.SchemaFromArrow(table)
	if err != nil {
		return nil, err
	}
	md, protocol, err := deltatable.NewTableMetadata(sch, partitionBy, props)
	if err != nil {
		return nil, newTableError(err)
	}
	return &merge.NewTable{Metadata: md, Protocol: protocol}, nil
}

func (k *guardedKind) merge(ctx context.Context, a *applier) (*merge.Result, error) {
	flags := &change.Flags{
		Policy: k.roles.Policy, FailOnInvalid: a.job.FailOnInvalid, MissingAsNull: a.job.MissingAsNull,
		AllowUnknown: a.job.AllowUnknown, Required: k.roles.Required, Format: a.job.Format,
	}
	if a.job.Zone != nil {
		flags.Timezone = a.job.Zone.String()
	}
	job := &merge.Job{
		Table: a.table, Read: a.snap, Create: k.create, Batch: a.batch, Roles: k.roles, Dropped: a.dropped,
		FailOnInvalid: a.job.FailOnInvalid, MissingAsNull: a.job.MissingAsNull,
		RunID: a.run, Retry: a.env.Retry, Now: a.env.Now, Workers: a.env.Workers,
		BeforeCommit: a.record, Identifier: a.identifier(),
	}
	if a.snap != nil {
		for _, c := range a.job.Roles.NoCheck {
			job.NoCheck = append(job.NoCheck, change.Check(c))
		}
		flags.NoCheck = job.NoCheck
	}
	text, err := flags.JSON()
	if err != nil {
		return nil, err
	}
	job.Tags = a.tags(map[string]string{change.TagFlags: text})
	return merge.Run(ctx, job)
}
