package checkpoints

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/deltatable/expr"
	"github.com/deltafold/deltafold/merge/change"
)

// Batch is the input of a run, read again.
type Batch struct {
	// Files hold the batch's rows; their order does not matter.
	Files []BatchFile
}

// BatchFile is one file of a batch.
type BatchFile struct {
	// Records are the file's rows in canonical Arrow types, columns by name.
	Records []arrow.RecordBatch
	// Present has the columns that the file has at all; nil: all that Records have.
	Present map[string]bool
}

// BatchRequest says which batch is wanted and how it was read.
type BatchRequest struct {
	// Version is the version that the batch made.
	Version deltatable.Version
	// Digest is the batch's digest as recorded, lower-case hex.
	Digest string
	// Name is the batch's name as recorded, for messages.
	Name string
	// Schema, Roles and Flags are those that the run read the batch with. Roles is nil for a
	// table that is not guarded, whose batches have its own columns.
	Schema *arrow.Schema
	Roles  *change.Roles
	Flags  *change.Flags
}

// BatchSource finds the batches behind versions. It is false for a batch that it does not
// have; it answers for the digest of what it returns. Calls come one at a time.
type BatchSource interface {
	Batch(ctx context.Context, want *BatchRequest) (*Batch, bool, error)
}

// rules are what decides over validity at one version (merge-semantics 2).
type rules struct {
	roles      *change.Roles
	policy     change.Policy
	failOn     bool // FailOnInvalid
	off        map[change.Check]bool
	required   []string
	minimum    any // nil: none
	partitions map[string]bool
}

func newRules(s *deltatable.Snapshot, roles *change.Roles, flags *change.Flags) (*rules, error) {
	r := &rules{
		roles: roles, policy: roles.Policy, failOn: flags.FailOnInvalid, off: map[change.Check]bool{},
		required: append(slices.Clone(roles.Required), flags.Required...), partitions: map[string]bool{},
	}
	if flags.Policy != "" {
		r.policy = flags.Policy
	}
	for _, c := range append(slices.Clone(roles.NoCheck), flags.NoCheck...) {
		r.off[c] = true
	}
	for _, c := range s.PartitionColumns() {
		r.partitions[c] = true
	}
	if roles.MinVersion == nil || r.off[change.CheckMinVersion] {
		return r, nil
	}
	fields, ok := s.Schema().FieldsByName(roles.Versions[0])
	if !ok {
		return nil, fmt.Errorf("the table has no column %q", roles.Versions[0])
	}
	m, err := parseVersion(*roles.MinVersion, fields[0].Type)
	if err != nil {
		return nil, fmt.Errorf("minimum version: %w", err)
	}
	r.minimum = m
	return r, nil
}

// rowReader reads the rows of one record of a batch as inputs.
type rowReader struct {
	rules     *rules
	changeID  arrow.Array // nil: the input has none
	keys      []arrow.Array
	versions  []arrow.Array
	operation arrow.Array // nil: none
	deletes   arrow.Array // boolean: deleted column or condition; nil: none
	payload   []arrow.Array
	required  []arrow.Array
}

// readInputs reads records as rows of a batch. present says which columns the input has.
func readInputs(recs []arrow.RecordBatch, present map[string]bool, r *rules) ([]input, error) {
	var out []input
	for _, rec := range recs {
		rd, err := newRowReader(rec, present, r)
		if err != nil {
			return nil, err
		}
		for i := range int(rec.NumRows()) {
			in, err := rd.row(i)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
		}
	}
	return out, nil
}

// column finds a column by name, exactly or else without case.
func column(rec arrow.RecordBatch, name string) arrow.Array {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for i, f := range rec.Schema().Fields() {
			if same(f.Name, name) {
				return rec.Column(i)
			}
		}
	}
	return nil
}

func newRowReader(rec arrow.RecordBatch, present map[string]bool, r *rules) (*rowReader, error) {
	nulls := array.NewNull(int(rec.NumRows()))
	find := func(name string) arrow.Array {
		arr := column(rec, name)
		if name == "" || arr == nil || present != nil && !present[name] {
			return nil
		}
		if s, ok := arr.(*array.String); ok && r.partitions[name] {
			return emptyIsNull(s)
		}
		return arr
	}
	all := func(names []string) []arrow.Array {
		out := make([]arrow.Array, len(names))
		for i, n := range names {
			if out[i] = find(n); out[i] == nil {
				out[i] = nulls
			}
		}
		return out
	}
	rd := &rowReader{
		rules: r, changeID: find(r.roles.ChangeID), operation: find(r.roles.Operation),
		keys: all(r.roles.Keys), versions: all(r.roles.Versions), payload: all(r.roles.Payload), required: all(r.required),
	}
	switch {
	case r.roles.DeletesWhen != "":
		arr, err := evaluate(rec, r.roles.DeletesWhen)
		if err != nil {
			return nil, fmt.Errorf("deletes-when: %w", err)
		}
		rd.deletes = arr
	case r.roles.Deleted != "":
		rd.deletes = find(r.roles.Deleted)
	}
	if _, ok := rd.deletes.(*array.Boolean); rd.deletes != nil && !ok {
		return nil, fmt.Errorf("what makes a delete is of type %s, not boolean", deltatable.TypeName(rd.deletes.DataType()))
	}
	if _, ok := rd.operation.(*array.String); rd.operation != nil && !ok {
		return nil, fmt.Errorf("operation column %q is of type %s, not string", r.roles.Operation, deltatable.TypeName(rd.operation.DataType()))
	}
	return rd, nil
}

func evaluate(rec arrow.RecordBatch, condition string) (arrow.Array, error) {
	e, err := expr.Parse(condition)
	if err != nil {
		return nil, err
	}
	b, err := expr.Bind(e, rec.Schema())
	if err != nil {
		return nil, err
	}
	return b.Eval(rec)
}

// emptyIsNull is the stored form of a string in a partition column (merge-semantics 1).
func emptyIsNull(a *array.String) arrow.Array {
	b := array.NewStringBuilder(allocator())
	for i := range a.Len() {
		if a.IsNull(i) || a.Value(i) == "" {
			b.AppendNull()
		} else {
			b.Append(a.Value(i))
		}
	}
	return b.NewArray()
}

// blank says whether a value is NULL or, for strings, empty or only U+0020.
func blank(arr arrow.Array, i int) bool {
	if arr.DataType().ID() == arrow.NULL || arr.IsNull(i) {
		return true
	}
	s, ok := arr.(*array.String)
	return ok && strings.Trim(s.Value(i), " ") == ""
}

func isNull(arr arrow.Array, i int) bool {
	return arr.DataType().ID() == arrow.NULL || arr.IsNull(i)
}

// row reads row i and judges it in the order of merge-semantics 2.
func (rd *rowReader) row(i int) (input, error) {
	r := rd.rules
	if rd.changeID != nil && !r.off[change.CheckChangeID] && blank(rd.changeID, i) {
		return input{invalid: change.InvalidChangeID}, nil
	}
	for k, arr := range rd.keys {
		if blank(arr, i) {
			return input{invalid: change.InvalidKey(r.roles.Keys[k])}, nil
		}
	}
	in := input{key: string(appendAll(nil, rd.keys, i))}
	for _, arr := range rd.versions {
		v, err := versionValue(arr, i)
		if err != nil {
			return input{}, err
		}
		if v == nil {
			in.invalid = change.InvalidVersion
			return in, nil
		}
		in.version = append(in.version, v)
	}
	if r.minimum != nil && compareVersions(in.version[:1], []any{r.minimum}) < 0 {
		in.invalid = change.InvalidVersion
		return in, nil
	}
	op, ok := rd.op(i)
	if !ok {
		in.invalid = change.InvalidOperation
		return in, nil
	}
	in.op = op
	if !rd.payloadValid(op, i) {
		in.invalid = change.InvalidPayload
		return in, nil
	}
	if op == change.Upsert {
		in.payload = string(appendAll(nil, rd.payload, i))
	}
	return in, nil
}

func appendAll(dst []byte, arrs []arrow.Array, i int) []byte {
	for _, arr := range arrs {
		dst = appendValue(dst, arr, i)
	}
	return dst
}

func (rd *rowReader) op(i int) (change.Op, bool) {
	switch {
	case rd.deletes != nil:
		b := rd.deletes.(*array.Boolean)
		if b.IsNull(i) {
			return 0, false
		}
		if b.Value(i) {
			return change.Delete, true
		}
	case rd.operation != nil:
		s := rd.operation.(*array.String)
		if s.IsNull(i) {
			return 0, false
		}
		switch s.Value(i) {
		case rd.rules.roles.UpsertWord:
		case rd.rules.roles.DeleteWord:
			return change.Delete, true
		default:
			return 0, false
		}
	}
	return change.Upsert, true
}

func (rd *rowReader) payloadValid(op change.Op, i int) bool {
	given := slices.ContainsFunc(rd.payload, func(arr arrow.Array) bool { return !isNull(arr, i) })
	if op == change.Delete {
		byWord := rd.deletes == nil
		return !byWord || !given || rd.rules.off[change.CheckDeletePayload]
	}
	if slices.ContainsFunc(rd.required, func(arr arrow.Array) bool { return isNull(arr, i) }) {
		return false
	}
	return given || len(rd.payload) == 0 || rd.rules.off[change.CheckEmptyUpsert]
}
