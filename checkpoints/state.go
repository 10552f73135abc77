package checkpoints

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// correctness is the fold of one version's batch, and what it says of the version.
type correctness struct {
	recs         []arrow.RecordBatch
	inputs       []input
	folded       folded
	present      map[string]bool // the columns that the input has
	fromOutcomes bool            // the rows are those of the outcomes table
	source       string          // where the rows of the batch come from
	writes       map[string]bool
	fresh        int64 // keys that the batch brings into being
}

// text is the key of input n as people read it.
func (c *correctness) text(n int, keys []string) string {
	for _, rec := range c.recs {
		if n >= int(rec.NumRows()) {
			n -= int(rec.NumRows())
			continue
		}
		cols := make([]arrow.Array, len(keys))
		for i, k := range keys {
			if cols[i] = column(rec, k); cols[i] == nil {
				cols[i] = array.NewNull(int(rec.NumRows()))
			}
		}
		return keyText(cols, n)
	}
	panic("bug: no such row in the batch")
}

// stateReader reads the stored rows of a batch's keys.
type stateReader struct {
	rules *rules
	keys  *keySet
	names []string // key, version, status, payload of the roles
	shape *shape
}

// newStateReader wants the keys of all valid inputs, whose key columns are found in recs.
func newStateReader(s *deltatable.Snapshot, r *rules, recs []arrow.RecordBatch, inputs []input) *stateReader {
	sh := &shape{roles: r.roles, payload: r.roles.Payload}
	sr := &stateReader{rules: r, keys: newKeySet(s, r.roles.Keys), names: sh.columns(true), shape: sh}
	at := 0
	for _, rec := range recs {
		cols := make([]arrow.Array, len(r.roles.Keys))
		for i, k := range r.roles.Keys {
			cols[i] = column(rec, k)
		}
		for i := range int(rec.NumRows()) {
			if u := inputs[at]; u.key != "" {
				sr.keys.add(u.key, cols, i)
			}
			at++
		}
	}
	sr.keys.ready()
	return sr
}

// found are the stored rows of the keys, and the keys that have more than one.
type found struct {
	rows  map[string]stored
	twice map[string]bool
}

func (f *found) clone() *found { return &found{maps.Clone(f.rows), maps.Clone(f.twice)} }

// read adds the stored rows of the keys in files.
func (sr *stateReader) read(ctx context.Context, s *deltatable.Snapshot, files []*deltatable.Add, into *found) error {
	var b *block
	var of arrow.Array // the first column of the batch that b is made of
	return sr.keys.scan(ctx, s, files, sr.names, func(key string, cols []arrow.Array, i int) error {
		if of != cols[0] {
			b, of = sr.shape.block(cols), cols[0]
		}
		if _, ok := into.rows[key]; ok {
			into.twice[key] = true
			return nil
		}
		st := stored{status: b.statusOf(i), payload: string(appendAll(nil, b.payload, i)), version: make([]any, len(b.versions))}
		for k, arr := range b.versions {
			v, err := versionValue(arr, i)
			if err != nil {
				return err
			}
			st.version[k] = v
		}
		into.rows[key] = st
		return nil
	})
}

// noPayload is the form of an all-NULL payload.
func noPayload(columns int) string { return string(make([]byte, columns)) }

// correct folds the batch over version N-1 and compares the result with version N.
func (c *correctness) correct(ctx context.Context, s *step, rl *rules) error {
	sr := newStateReader(s.cur, rl, c.recs, c.inputs)
	// The files that both versions have are read once.
	before := &found{map[string]stored{}, map[string]bool{}}
	if err := sr.read(ctx, s.cur, s.live.kept, before); err != nil {
		return err
	}
	after := before.clone()
	if s.prev != nil {
		if err := sr.read(ctx, s.prev, s.live.removed, before); err != nil {
			return err
		}
	}
	if err := sr.read(ctx, s.cur, s.live.added, after); err != nil {
		return err
	}
	for k, row := range before.rows {
		if !sound(row) {
			before.twice[k] = true // not a state that changes can be folded over
			delete(before.rows, k)
		}
	}
	c.folded = foldBatch(before.rows, c.inputs, noPayload(len(rl.roles.Payload)))
	c.writes = make(map[string]bool, len(c.folded.after))
	bad := map[string]problem{}
	for key, want := range c.folded.after {
		was, had := before.rows[key]
		if !had && !before.twice[key] {
			c.fresh++
		}
		c.writes[key] = !had || !sameStored(was, want)
		if before.twice[key] || after.twice[key] {
			continue // a finding of law 6, here or earlier
		}
		got, ok := after.rows[key]
		if p := differs(want, got, ok); p != none {
			bad[key] = p
		}
	}
	c.reportState(s.recorder, bad, rl.roles.Keys)
	c.checkPolicy(s.recorder, rl)
	return nil
}

func sound(s stored) bool {
	return s.status != 0 && !slices.ContainsFunc(s.version, func(v any) bool { return v == nil })
}

func sameStored(a, b stored) bool {
	return a.status == b.status && a.payload == b.payload && compareVersions(a.version, b.version) == 0
}

// problem is what is wrong with a stored row.
type problem int

const (
	none problem = iota
	missing
	otherVersion
	otherStatus
	otherPayload
)

func differs(want, got stored, ok bool) problem {
	switch {
	case !ok:
		return missing
	case !sound(got):
		return otherStatus
	case compareVersions(want.version, got.version) != 0:
		return otherVersion
	case want.status != got.status:
		return otherStatus
	case want.payload != got.payload:
		return otherPayload
	}
	return none
}

// reportState names the keys in the order of the batch.
func (c *correctness) reportState(r *recorder, bad map[string]problem, keys []string) {
	if len(bad) == 0 {
		return
	}
	var lists [otherPayload + 1]keyList
	for i, u := range c.inputs {
		if p, ok := bad[u.key]; ok && u.invalid == "" {
			lists[p].add(func() string { return c.text(i, keys) })
			delete(bad, u.key)
		}
	}
	r.findKeys(CheckState, &lists[missing], "keys of the batch have no stored row")
	r.findKeys(CheckState, &lists[otherVersion], "keys of the batch are stored at another version than the fold expects")
	r.findKeys(CheckState, &lists[otherStatus], "keys of the batch are stored with another status than the fold expects")
	r.findKeys(CheckState, &lists[otherPayload], "keys of the batch are stored with another payload than the fold expects")
}

// checkPolicy finds batches that should have been refused (merge-semantics 2 and 3.2).
func (c *correctness) checkPolicy(r *recorder, rl *rules) {
	reject := rl.policy == change.Reject
	if !reject && !rl.failOn {
		return
	}
	var invalid, conflicts, contra keyList
	for i, u := range c.inputs {
		text := func() string { return c.text(i, rl.roles.Keys) }
		switch {
		case u.invalid.Dropped():
		case u.invalid != "":
			invalid.add(text)
		case reject && c.folded.outcomes[i] == change.Conflicted:
			conflicts.add(text)
		}
	}
	if reject {
		for _, i := range contradictions(c.inputs) {
			contra.add(func() string { return c.text(i, rl.roles.Keys) })
		}
	}
	r.findKeys(CheckState, &conflicts, "rows conflict, and policy reject refuses their batch")
	r.findKeys(CheckState, &contra, "rows contradict each other, and policy reject refuses their batch")
	r.findKeys(CheckState, &invalid, fmt.Sprintf("rows are invalid, and the run (policy %s, fail on invalid %v) refuses their batch", rl.policy, rl.failOn))
}
