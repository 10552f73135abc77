package checkpoints

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// correctness is the fold of one version's batch, and what it says of the version.
type correctness struct {
	recs    []arrow.RecordBatch
	inputs  []input
	folded  folded
	present map[string]bool // the columns that the input has
	source  string          // where the rows of the batch come from
	writes  map[string]bool
	fresh   int64 // keys that the batch brings into being
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
	return sr.keys.scan(ctx, s, files, sr.names, func(key string, cols []arrow.Array, i int) error {
		b := sr.shape.block(cols)
		st := stored{status: b.statusOf(i), payload: string(appendAll(nil, b.payload, i))}
		for _, arr := range b.versions {
			v, err := versionValue(arr, i)
			if err != nil {
				return err
			}
			st.version = append(st.version, v)
		}
		if _, ok := into.rows[key]; ok {
			into.twice[key] = true
			return nil
		}
		into.rows[key] = st
		return nil
	})
}

// noPayload is the form of an all-NULL payload.
func noPayload(columns int) string { return string(make([]byte, columns)) }

// correct folds the batch over version N-1 and compares the result with version N.
func (c *correctness) correct(ctx context.Context, r *recorder, prev, cur *deltatable.Snapshot, live liveSets, rl *rules) error {
	sr := newStateReader(cur, rl, c.recs, c.inputs)
	// The files that both versions have are read once.
	before := &found{map[string]stored{}, map[string]bool{}}
	if err := sr.read(ctx, cur, live.kept, before); err != nil {
		return err
	}
	after := before.clone()
	if prev != nil {
		if err := sr.read(ctx, prev, live.removed, before); err != nil {
			return err
		}
	}
	if err := sr.read(ctx, cur, live.added, after); err != nil {
		return err
	}
	for k, s := range before.rows {
		if !sound(s) {
			before.twice[k] = true // not a state that changes can be folded over
			delete(before.rows, k)
		}
	}
	c.folded = foldBatch(before.rows, c.inputs, noPayload(len(rl.roles.Payload)))
	c.writes = map[string]bool{}
	var bad mismatch
	texts := map[string]string{}
	for _, u := range c.inputs {
		if u.invalid == "" {
			texts[u.key] = u.text
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.folded.after)) {
		want := c.folded.after[key]
		was, had := before.rows[key]
		if !had && !before.twice[key] {
			c.fresh++
		}
		c.writes[key] = !had || !sameStored(was, want)
		got, ok := after.rows[key]
		if before.twice[key] || after.twice[key] {
			continue // a finding of law 6, here or earlier
		}
		bad.compare(texts[key], want, got, ok)
	}
	bad.report(r)
	c.checkPolicy(r, rl)
	return nil
}

func sound(s stored) bool {
	return s.status != 0 && !slices.ContainsFunc(s.version, func(v any) bool { return v == nil })
}

func sameStored(a, b stored) bool {
	return a.status == b.status && a.payload == b.payload && compareVersions(a.version, b.version) == 0
}

// mismatch collects keys whose stored row is not the expected one.
type mismatch struct {
	missing, version, status, payload keyList
}

func (m *mismatch) compare(text string, want, got stored, ok bool) {
	switch {
	case !ok:
		m.missing.addText(text)
	case !sound(got):
		m.status.addText(text)
	case compareVersions(want.version, got.version) != 0:
		m.version.addText(text)
	case want.status != got.status:
		m.status.addText(text)
	case want.payload != got.payload:
		m.payload.addText(text)
	}
}

func (m *mismatch) report(r *recorder) {
	for _, l := range []struct {
		keys *keyList
		what string
	}{
		{&m.missing, "keys of the batch have no stored row"},
		{&m.version, "keys of the batch are stored at another version than the fold expects"},
		{&m.status, "keys of the batch are stored with another status than the fold expects"},
		{&m.payload, "keys of the batch are stored with another payload than the fold expects"},
	} {
		r.findKeys(CheckState, l.keys, l.what)
	}
}

// checkPolicy finds batches that should have been refused (merge-semantics 2 and 3.2).
func (c *correctness) checkPolicy(r *recorder, rl *rules) {
	var invalid, conflicts, contra keyList
	for i, u := range c.inputs {
		switch {
		case u.invalid != "":
			invalid.addText(u.text)
		case c.folded.outcomes[i] == change.Conflicted:
			conflicts.addText(u.text)
		}
	}
	for _, i := range c.folded.contradictions {
		contra.addText(c.inputs[i].text)
	}
	if rl.policy == change.Reject {
		r.findKeys(CheckState, &conflicts, "rows conflict, and policy reject refuses their batch")
		r.findKeys(CheckState, &contra, "rows contradict each other, and policy reject refuses their batch")
	}
	if rl.policy == change.Reject || rl.failOn {
		r.findKeys(CheckState, &invalid, fmt.Sprintf("rows are invalid, and the run (policy %s, fail on invalid %v) refuses their batch", rl.policy, rl.failOn))
	}
}
