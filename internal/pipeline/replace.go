package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/changefile"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// ReplaceJob is one invocation of replace: one batch, at most one commit. Fold's
// role flags are not used.
type ReplaceJob struct {
	Fold ApplyJob
	// Using and Sequence are the key columns and the sequence column, needed for
	// a new table.
	Using    []string
	Sequence string
	Ties     string // --ties; "" is append, or what the table remembers
	Outcomes string // location of the outcomes table of a new table; "" is the default
	// Again applies a batch that was applied already (merge-semantics 4).
	Again bool
}

// ReplaceUsing folds a batch into a table in mode replace (merge-semantics 4).
// Report and errors are those of Apply.
func ReplaceUsing(ctx context.Context, e *Env, j *ReplaceJob) (*ApplyReport, error) {
	if j.Fold.Roles.Given() {
		return nil, usage("replace has --using and --sequence-by, no other role flags")
	}
	if strings.ContainsAny(j.Sequence, "()+-*/") {
		return nil, usage("--sequence-by %s: the sequence is a column, not an expression", j.Sequence)
	}
	return e.fold(ctx, &j.Fold, &replaceKind{job: j})
}

// replaceRetention keeps the identifiers of batches in tables that we make from
// piling up (merge-semantics 4).
const (
	propTxnRetention = "delta.setTransactionRetentionDuration"
	replaceRetention = "interval 30 days"
)

type replaceKind struct {
	job    *ReplaceJob
	roles  *change.ReplaceRoles
	create *merge.NewTable
}

func (k *replaceKind) outcomesAt() string { return k.roles.Outcomes }
func (k *replaceKind) columns() (keys, versions []string) {
	return k.roles.Keys, []string{k.roles.Sequence}
}
func (k *replaceKind) expectations() []change.Expectation { return k.roles.Expectations }
func (k *replaceKind) ignores() bool                      { return false }

func (k *replaceKind) prepare(ctx context.Context, a *applier) (*arrow.Schema, error) {
	if a.snap == nil {
		return k.fresh(ctx, a)
	}
	roles, ok, err := change.ReplaceRolesFromProperties(a.snap.Properties())
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &RuleError{"the table is not under mode replace: make it with replace, or adopt it (deltafold adopt TABLE --using … --sequence-by …)"}
	}
	if err := k.contradicts(roles); err != nil {
		return nil, err
	}
	k.roles, k.create = roles, nil
	if err := checkTies(k.job.Ties); err != nil {
		return nil, err
	}
	if k.job.Ties != "" {
		roles.IgnoreIdentical = k.job.Ties == change.TiesIgnoreIdentical
	}
	return nullable(a.snap.Schema()), nil
}

// contradicts refuses flags that contradict what the table remembers.
func (k *replaceKind) contradicts(r *change.ReplaceRoles) error {
	if len(k.job.Using) > 0 && !slices.EqualFunc(k.job.Using, r.Keys, strings.EqualFold) {
		return usage("--using %v contradicts what the table remembers: %v", k.job.Using, r.Keys)
	}
	if k.job.Sequence != "" && !strings.EqualFold(k.job.Sequence, r.Sequence) {
		return usage("--sequence-by %s contradicts what the table remembers: %s", k.job.Sequence, r.Sequence)
	}
	return nil
}

// nullable is a schema as inputs are read in: a NULL is judged later.
func nullable(sch *arrow.Schema) *arrow.Schema {
	fields := slices.Clone(sch.Fields())
	for i := range fields {
		fields[i].Nullable = true
	}
	return arrow.NewSchema(fields, nil)
}

func (k *replaceKind) fresh(ctx context.Context, a *applier) (*arrow.Schema, error) {
	if len(k.job.Using) == 0 || k.job.Sequence == "" {
		return nil, usage("a new table needs --using and --sequence-by")
	}
	sch, err := a.givenSchema(ctx)
	if err != nil {
		return nil, err
	}
	roles, err := DeriveReplace(k.job.Using, k.job.Sequence, k.job.Ties, sch)
	if err != nil {
		return nil, err
	}
	roles.Expectations, roles.Outcomes = slices.Clone(a.job.Expectations), k.job.Outcomes
	props := roles.Properties()
	if _, given := a.job.Properties[propTxnRetention]; !given {
		props[propTxnRetention] = replaceRetention
	}
	if err := addProperties(props, a.job.Properties); err != nil {
		return nil, err
	}
	k.roles = roles
	k.create, err = stateTable(sch, a.job.PartitionBy, props)
	return nullable(sch), err
}

// givenSchema is --schema, or the schema of a Parquet file.
func (a *applier) givenSchema(ctx context.Context) (*arrow.Schema, error) {
	if a.job.Schema != "" {
		return parseSchema(a.job.Schema)
	}
	f, err := changefile.Read(ctx, a.in.sources[0], &changefile.Options{Format: a.job.Format})
	if err != nil {
		return nil, usage("a new table needs --schema, or Parquet or Arrow files (%v)", err)
	}
	if len(f.Records) == 0 {
		return nil, usage("%s has no rows: a new table needs --schema", f.Name)
	}
	return f.Records[0].Schema(), nil
}

// checkTies refuses a value of --ties that is none.
func checkTies(ties string) error {
	switch ties {
	case "", change.TiesAppend, change.TiesIgnoreIdentical:
		return nil
	}
	return usage("--ties %s is not %s or %s", ties, change.TiesAppend, change.TiesIgnoreIdentical)
}

// DeriveReplace gives the roles of a table in mode replace (merge-semantics 4).
func DeriveReplace(using []string, sequence, ties string, sch *arrow.Schema) (*change.ReplaceRoles, error) {
	r := &change.ReplaceRoles{IgnoreIdentical: ties == change.TiesIgnoreIdentical}
	if err := checkTies(ties); err != nil {
		return nil, err
	}
	for _, name := range using {
		f, ok := fieldOf(sch, name)
		if !ok {
			return nil, usage("--using %s is not in the schema", name)
		}
		if id := f.Type.ID(); !ordered.Supported(f.Type) || id == arrow.FLOAT32 || id == arrow.FLOAT64 || id == arrow.NULL {
			return nil, &RuleError{fmt.Sprintf("key column %s is %s: keys are atomic and neither float nor double", f.Name, deltatable.TypeName(f.Type))}
		}
		if slices.Contains(r.Keys, f.Name) {
			return nil, usage("--using names %s twice", f.Name)
		}
		r.Keys = append(r.Keys, f.Name)
	}
	f, ok := fieldOf(sch, sequence)
	if !ok {
		return nil, usage("--sequence-by %s is not in the schema", sequence)
	}
	if !versionType(f.Type) {
		return nil, &RuleError{fmt.Sprintf("sequence column %s is %s: sequences are integers, decimals, dates, timestamps or strings", f.Name, deltatable.TypeName(f.Type))}
	}
	if slices.Contains(r.Keys, f.Name) {
		return nil, usage("column %s is claimed by --using and by --sequence-by", f.Name)
	}
	r.Sequence = f.Name
	return r, nil
}

func (k *replaceKind) merge(ctx context.Context, a *applier) (*merge.Result, error) {
	flags := a.flags()
	flags.Ties = change.TiesAppend
	if k.roles.IgnoreIdentical {
		flags.Ties = change.TiesIgnoreIdentical
	}
	text, err := flags.JSON()
	if err != nil {
		return nil, err
	}
	return merge.Replace(ctx, &merge.ReplaceJob{
		Table: a.table, Read: a.snap, Create: k.create, Batch: a.batch, Roles: k.roles, Dropped: a.dropped,
		Identifier: k.identifier(a), OwnIdentifier: a.identifier() == nil, RunID: a.run, Retry: a.env.Retry, Now: a.env.Now, Workers: a.env.Workers,
		BeforeCommit: a.record, Tags: a.tags(map[string]string{change.TagFlags: text}),
	})
}

// identifier is the user's, or one of ours: because ties append, delivering a
// batch twice would double rows (merge-semantics 4).
func (k *replaceKind) identifier(a *applier) *deltatable.Txn {
	if given := a.identifier(); given != nil || k.job.Again {
		return given
	}
	h := sha256.New()
	text := []string{a.batch.Digest, strings.Join(k.roles.Keys, "\x00"), k.roles.Sequence}
	for _, e := range a.expected.list() {
		text = append(text, e.Name, string(e.Action), e.Condition)
	}
	for _, s := range text {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return &deltatable.Txn{AppID: "deltafold-replace-" + hex.EncodeToString(h.Sum(nil)), Version: 1}
}
