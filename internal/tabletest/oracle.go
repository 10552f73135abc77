package tabletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deltafold/deltafold/merge/change"
)

// Oracle folds batches by merge-semantics 2 and 3 in the plainest way: rows one
// by one, a Go map from key to stored row. It is not safe for concurrent use.
type Oracle struct {
	Roles *change.Roles
	// Partition names the table's partition columns: "" is stored as NULL there.
	Partition []string
	// FailOnInvalid refuses batches that hold an invalid row.
	FailOnInvalid bool
	// Condition evaluates Roles.DeletesWhen; null says that it is NULL for the row.
	Condition func(Row) (deletes, null bool)

	state map[string]*stored
}

// stored is one row of the state.
type stored struct {
	keys, versions, payload []Value
	status                  change.Status
}

// decided is one input row on its way.
type decided struct {
	stored
	op      change.Op
	key     string // text of keys
	version string // text of versions
	outcome change.Outcome
}

// Apply folds one batch. outcomes has one element a row, in the order of the
// rows; refused says that the batch was refused as a whole, and then the state
// is as it was.
func (o *Oracle) Apply(b Batch) (outcomes []change.Outcome, refused bool) {
	if o.state == nil {
		o.state = map[string]*stored{}
	}
	has := map[string]bool{}
	for _, row := range b.Rows {
		for c := range row {
			has[c] = true
		}
	}
	rows := make([]*decided, len(b.Rows))
	groups := map[string][]*decided{}
	for i, row := range b.Rows {
		rows[i] = o.read(row, has)
		if rows[i].outcome == "" {
			groups[rows[i].key] = append(groups[rows[i].key], rows[i])
		}
	}
	next := map[string]*stored{}
	for key, g := range groups {
		o.decide(key, g, next)
	}
	refused = o.refuse(rows, groups)
	if !refused {
		maps.Copy(o.state, next)
	}
	for _, r := range rows {
		outcomes = append(outcomes, r.outcome)
	}
	return outcomes, refused
}

// read takes a row apart and checks it (merge-semantics 2); the first check that
// fails is its outcome.
func (o *Oracle) read(row Row, has map[string]bool) *decided {
	r := &decided{}
	for _, c := range o.Roles.Keys {
		r.keys = append(r.keys, o.storedForm(c, row))
	}
	for _, c := range o.Roles.Versions {
		r.versions = append(r.versions, o.storedForm(c, row))
	}
	for _, c := range o.Roles.Payload {
		r.payload = append(r.payload, o.storedForm(c, row))
	}
	r.key, r.version = texts(r.keys), texts(r.versions)
	r.outcome = o.invalid(r, row, has)
	if r.op == change.Delete {
		r.payload = make([]Value, len(r.payload))
	}
	return r
}

// storedForm is a value as the table stores it.
func (o *Oracle) storedForm(column string, row Row) Value {
	v := row[column]
	if slices.Contains(o.Partition, column) && (v == "" || v == Bytes("")) {
		return nil
	}
	return v
}

func texts(vs []Value) string {
	var b strings.Builder
	for _, v := range vs {
		b.WriteString(text(v))
		b.WriteByte('|')
	}
	return b.String()
}

func blank(v Value) bool {
	s, isText := v.(string)
	return v == nil || isText && strings.Trim(s, " ") == ""
}

func allNull(vs []Value) bool {
	return !slices.ContainsFunc(vs, func(v Value) bool { return v != nil })
}

// invalid gives the first check that a row fails, "" if none, and sets its op.
func (o *Oracle) invalid(r *decided, row Row, has map[string]bool) change.Outcome {
	roles := o.Roles
	if roles.ChangeID != "" && (has[roles.ChangeID] || roles.ChangeIDGiven) && !roles.Off("change_id") && blank(row[roles.ChangeID]) {
		return change.InvalidChangeID
	}
	for i, k := range r.keys {
		if blank(k) {
			return change.InvalidKey(roles.Keys[i])
		}
	}
	for _, v := range r.versions {
		if v == nil {
			return change.InvalidVersion
		}
	}
	if roles.MinVersion != nil && !roles.Off("min_version") && o.belowMinimum(r.versions[0]) {
		return change.InvalidVersion
	}
	op, known := o.operation(row, has)
	if !known {
		return change.InvalidOperation
	}
	r.op = op
	if r.op == change.Delete {
		if roles.Operation != "" && !roles.Off("delete_payload") && !allNull(r.payload) {
			return change.InvalidPayload
		}
		return ""
	}
	if len(r.payload) > 0 && !roles.Off("empty_upsert") && allNull(r.payload) {
		return change.InvalidPayload
	}
	for i, c := range roles.Payload {
		if slices.Contains(roles.Required, c) && r.payload[i] == nil {
			return change.InvalidPayload
		}
	}
	return ""
}

func (o *Oracle) belowMinimum(v Value) bool {
	switch x := v.(type) {
	case int64:
		var least int64
		if _, err := fmt.Sscan(*o.Roles.MinVersion, &least); err != nil {
			panic(fmt.Sprintf("minimum %q is no integer: %v", *o.Roles.MinVersion, err))
		}
		return x < least
	case string:
		return x < *o.Roles.MinVersion
	}
	panic(fmt.Sprintf("no minimum for versions of type %T here", v))
}

func (o *Oracle) operation(row Row, has map[string]bool) (op change.Op, known bool) {
	roles := o.Roles
	switch {
	case roles.Deleted != "":
		deleted, ok := row[roles.Deleted].(bool)
		if deleted {
			return change.Delete, ok
		}
		return change.Upsert, ok
	case roles.DeletesWhen != "":
		deletes, null := o.Condition(row)
		if deletes {
			return change.Delete, !null
		}
		return change.Upsert, !null
	case roles.Operation != "" && (has[roles.Operation] || roles.OperationGiven):
		switch row[roles.Operation] {
		case roles.UpsertWord:
			return change.Upsert, true
		case roles.DeleteWord:
			return change.Delete, true
		}
		return 0, false
	}
	return change.Upsert, true
}

func compareVersions(a, b []Value) int {
	for i := range a {
		if c := Compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func sameContent(a, b *decided) bool { return a.op == b.op && equalAll(a.payload, b.payload) }

// decide gives the rows of one key their outcomes and puts what is stored
// afterwards into next (merge-semantics 3.1).
func (o *Oracle) decide(key string, rows []*decided, next map[string]*stored) {
	top := rows[0]
	for _, r := range rows {
		if compareVersions(r.versions, top.versions) > 0 {
			top = r
		}
	}
	var candidate []*decided
	conflict := false
	for _, r := range rows {
		if compareVersions(r.versions, top.versions) < 0 {
			r.outcome = change.Superseded
			continue
		}
		candidate = append(candidate, r)
		conflict = conflict || !sameContent(r, top)
	}
	u := top.stored
	u.status = change.Active
	if top.op == change.Delete {
		u.status = change.Deleted
	}
	if conflict {
		u.status, u.payload = change.Conflict, make([]Value, len(u.payload))
	}
	outcome := change.Accepted
	if conflict {
		outcome = change.Conflicted
	}
	write := true
	if s := o.state[key]; s != nil {
		switch c := compareVersions(u.versions, s.versions); {
		case c < 0:
			outcome, write = change.Stale, false
		case c > 0:
		case s.status == change.Conflict:
			outcome, write = change.Conflicted, false
		case u.status == s.status && equalAll(u.payload, s.payload):
			outcome, write = change.Duplicate, false
		default:
			outcome = change.Conflicted
			u.status, u.payload = change.Conflict, make([]Value, len(u.payload))
		}
	}
	for _, r := range candidate {
		r.outcome = outcome
	}
	if write {
		next[key] = &u
	}
}

// refuse applies policy reject (merge-semantics 3.2) and FailOnInvalid: if the
// batch is refused, culprits get their reason and all others batch_refused.
func (o *Oracle) refuse(rows []*decided, groups map[string][]*decided) bool {
	reject := o.Roles.Policy == change.Reject
	culprits := map[*decided]change.Outcome{}
	for _, r := range rows {
		if r.outcome.Invalid() && (reject || o.FailOnInvalid) {
			culprits[r] = r.outcome
		}
		if r.outcome == change.Conflicted && reject {
			culprits[r] = change.Conflicted
		}
	}
	for _, g := range groups {
		byVersion := map[string][]*decided{}
		for _, r := range g {
			byVersion[r.version] = append(byVersion[r.version], r)
		}
		for _, same := range byVersion {
			if reject && slices.ContainsFunc(same, func(r *decided) bool { return !sameContent(r, same[0]) }) {
				for _, r := range same {
					culprits[r] = change.Contradiction
				}
			}
		}
	}
	if len(culprits) == 0 {
		return false
	}
	for _, r := range rows {
		r.outcome = change.BatchRefused
		if c, ok := culprits[r]; ok {
			r.outcome = c
		}
	}
	return true
}
