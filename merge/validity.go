package merge

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
)

// checker decides the validity of rows, merge-semantics 2.
type checker struct {
	in       *input
	job      *Job
	minimum  []byte // ordered form of the least version, nil for none
	required []int
	upsert   string
	delete   string
	changeID bool
	empty    bool // an upsert with nothing but NULL is refused
	payload  bool // a delete with a payload is refused
}

func newChecker(j *Job, in *input) (*checker, error) {
	r := j.Roles
	c := &checker{
		in: in, job: j, upsert: r.UpsertWord, delete: r.DeleteWord,
		changeID: in.id >= 0 && !j.off(change.CheckChangeID),
		empty:    !j.off(change.CheckEmptyUpsert) && len(in.payload) > 0,
		payload:  !j.off(change.CheckDeletePayload),
	}
	for _, name := range r.Required {
		col, ok := in.columns[name]
		if !ok {
			return nil, fmt.Errorf("internal error: the batch's schema lacks required column %s", name)
		}
		c.required = append(c.required, col)
	}
	if r.MinVersion == nil || j.off(change.CheckMinVersion) {
		return c, nil
	}
	dt := j.Batch.Schema.Field(in.versions[0]).Type
	text := *r.MinVersion
	switch dt.ID() {
	case arrow.STRING, arrow.DECIMAL128, arrow.DATE32, arrow.TIMESTAMP:
		text = `"` + text + `"`
	}
	a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader("["+text+"]"))
	if err != nil {
		return nil, fmt.Errorf("minimum version %q is no %s: %w", *r.MinVersion, dt, err)
	}
	c.minimum = ordered.Append(nil, a, 0)
	return c, nil
}

// check gives the operation of a valid row, or the outcome of an invalid one.
func (c *checker) check(at ref) (change.Op, change.Outcome) {
	in, cols, row := c.in, c.in.recs[at.rec], int(at.row)
	if c.changeID && blank(cols[in.id], row) {
		return 0, change.InvalidChangeID
	}
	for i, k := range in.keys {
		if blank(cols[k], row) {
			return 0, change.InvalidKey(c.job.Roles.Keys[i])
		}
	}
	for _, v := range in.versions {
		if cols[v].IsNull(row) {
			return 0, change.InvalidVersion
		}
	}
	if c.minimum != nil {
		var buf [32]byte
		if bytes.Compare(ordered.Append(buf[:0], cols[in.versions[0]], row), c.minimum) < 0 {
			return 0, change.InvalidVersion
		}
	}
	op, ok := c.operation(at)
	if !ok {
		return 0, change.InvalidOperation
	}
	if !c.payloadValid(op, at) {
		return 0, change.InvalidPayload
	}
	return op, ""
}

func (c *checker) operation(at ref) (change.Op, bool) {
	in, cols, row := c.in, c.in.recs[at.rec], int(at.row)
	var condition *array.Boolean
	switch {
	case in.condition != nil:
		condition = in.condition[at.rec]
	case in.deleted >= 0:
		condition = cols[in.deleted].(*array.Boolean)
	case in.operation >= 0:
		words, ok := cols[in.operation].(*array.String)
		if !ok || words.IsNull(row) {
			return 0, false
		}
		switch words.Value(row) {
		case c.upsert:
			return change.Upsert, true
		case c.delete:
			return change.Delete, true
		}
		return 0, false
	default:
		return change.Upsert, true
	}
	if condition.IsNull(row) {
		return 0, false
	}
	if condition.Value(row) {
		return change.Delete, true
	}
	return change.Upsert, true
}

func (c *checker) payloadValid(op change.Op, at ref) bool {
	cols, row := c.in.recs[at.rec], int(at.row)
	if op == change.Delete {
		if c.in.operation < 0 || c.in.condition != nil || c.in.deleted >= 0 || !c.payload {
			return true
		}
		for _, p := range c.in.payload {
			if !cols[p].IsNull(row) {
				return false
			}
		}
		return true
	}
	for _, p := range c.required {
		if cols[p].IsNull(row) {
			return false
		}
	}
	if !c.empty {
		return true
	}
	for _, p := range c.in.payload {
		if !cols[p].IsNull(row) {
			return true
		}
	}
	return false
}

// blank says whether a value is NULL or a string of nothing but U+0020.
func blank(a arrow.Array, i int) bool {
	if a.IsNull(i) {
		return true
	}
	s, ok := a.(*array.String)
	return ok && strings.Trim(s.Value(i), " ") == ""
}

// missingColumns refuses a batch that lacks a column altogether
// (merge-semantics 2, last paragraph).
func missingColumns(j *Job, in *input, upserts bool) error {
	r := j.Roles
	var missing []string
	lack := func(names []string) {
		for _, n := range names {
			if !in.present[n] {
				missing = append(missing, n)
			}
		}
	}
	lack(r.Keys)
	lack(r.Versions)
	if r.Deleted != "" {
		lack([]string{r.Deleted})
	}
	if r.OperationGiven && r.Operation != "" {
		lack([]string{r.Operation})
	}
	if len(missing) > 0 {
		return &RefusedError{Reason: "no file of the batch has column " + strings.Join(missing, ", ")}
	}
	if upserts && !j.MissingAsNull {
		lack(r.Payload)
	}
	if len(missing) > 0 {
		return &RefusedError{Reason: "no file of the batch has payload column " + strings.Join(missing, ", ") +
			" (an upsert would set it to NULL everywhere; --missing-as-null allows that)"}
	}
	return nil
}
