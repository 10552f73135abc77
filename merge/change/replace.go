package change

import (
	"fmt"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json"
)

// Names of the table properties of mode replace besides those that it shares
// with the guarded mode (PropMode, PropKeys, PropVersions for the sequence,
// PropOutcomes).
const (
	PropTies         = "deltafold.ties"
	PropExpectations = "deltafold.expectations"
)

// TiesAppend and TiesIgnoreIdentical are the values of --ties.
const (
	TiesAppend          = "append"
	TiesIgnoreIdentical = "ignore-identical"
)

// Outcomes of rows under REPLACE USING (merge-semantics 4); the rest are shared.
const (
	// Added rows are of a key that the target did not have.
	Added Outcome = "added"
	// Replaced rows took the place of all rows of their key.
	Replaced Outcome = "replaced"
	// Appended rows joined rows of their key at the same sequence.
	Appended Outcome = "appended"
)

// ReplaceRoles say what the columns of a table in mode replace are for
// (merge-semantics 4). Column names are in the table's spelling.
type ReplaceRoles struct {
	// Keys are the columns of USING; never empty. Sequence is the column of
	// SEQUENCE BY.
	Keys     []string
	Sequence string
	// IgnoreIdentical drops tie rows that exist exactly (--ties ignore-identical).
	IgnoreIdentical bool
	// Outcomes is the outcomes table's URL, OutcomesNone, or "" for TABLE-outcomes.
	Outcomes string
	// Expectations are checked on every batch.
	Expectations []Expectation
}

// Properties gives the roles as table properties.
func (r *ReplaceRoles) Properties() map[string]string {
	p := map[string]string{
		PropMode: string(Replace), PropKeys: mustJSON(r.Keys), PropVersions: mustJSON([]string{r.Sequence}), PropTies: TiesAppend,
	}
	if r.IgnoreIdentical {
		p[PropTies] = TiesIgnoreIdentical
	}
	if r.Outcomes != "" {
		p[PropOutcomes] = r.Outcomes
	}
	if len(r.Expectations) > 0 {
		p[PropExpectations] = mustJSON(r.Expectations)
	}
	return p
}

// ReplaceRolesFromProperties reads the roles of a table in mode replace; false
// for a table in another mode. Damaged values are a *PropertyError.
func ReplaceRolesFromProperties(props map[string]string) (*ReplaceRoles, bool, error) {
	mode, err := ModeOf(props)
	if err != nil || mode != Replace {
		return nil, false, err
	}
	r := &ReplaceRoles{Outcomes: props[PropOutcomes]}
	var versions []string
	for _, p := range []struct {
		name string
		into any
	}{{PropKeys, &r.Keys}, {PropVersions, &versions}, {PropExpectations, &r.Expectations}} {
		text, ok := props[p.name]
		if !ok && p.name == PropExpectations {
			continue
		}
		if err := json.Unmarshal([]byte(text), p.into); err != nil {
			return nil, false, &PropertyError{p.name, text, err.Error()}
		}
	}
	switch {
	case len(r.Keys) == 0:
		return nil, false, &PropertyError{PropKeys, props[PropKeys], "no key column"}
	case len(versions) != 1:
		return nil, false, &PropertyError{PropVersions, props[PropVersions], "not a single sequence column"}
	}
	r.Sequence = versions[0]
	switch text := props[PropTies]; text {
	case "", TiesAppend:
	case TiesIgnoreIdentical:
		r.IgnoreIdentical = true
	default:
		return nil, false, &PropertyError{PropTies, text, "not a way of handling ties"}
	}
	if reason := badExpectations(r.Expectations); reason != "" {
		return nil, false, &PropertyError{PropExpectations, props[PropExpectations], reason}
	}
	seen := []string{strings.ToLower(r.Sequence)}
	for _, k := range r.Keys {
		if slices.Contains(seen, strings.ToLower(k)) {
			return nil, false, &PropertyError{PropKeys, props[PropKeys], fmt.Sprintf("column %q has two roles", k)}
		}
		seen = append(seen, strings.ToLower(k))
	}
	return r, true, nil
}

// Expectation is a named condition on the rows of a batch (merge-semantics 4,
// "Expectations").
type Expectation struct {
	Name      string            `json:"name"`
	Condition string            `json:"condition"`
	Action    ExpectationAction `json:"action"`
}

// ExpectationAction is what a violated expectation does.
type ExpectationAction string

// The actions, in the order in which they win.
const (
	ExpectFail ExpectationAction = "fail"
	ExpectDrop ExpectationAction = "drop"
	ExpectWarn ExpectationAction = "warn"
)

// DroppedBy is the outcome of a row that the expectation of this name dropped.
func DroppedBy(name string) Outcome { return Outcome(droppedPrefix + name) }

const droppedPrefix = "dropped_"

// Dropped reports whether o says that an expectation dropped the row.
func (o Outcome) Dropped() bool { return strings.HasPrefix(string(o), droppedPrefix) }

// FailedExpectation is the reason of a row that violates an expectation whose action is
// fail: its batch is refused.
const FailedExpectation Outcome = "failed_expectation"

// ParseExpectations reads the value of TagExpectations or PropExpectations; "" is none.
func ParseExpectations(text string) ([]Expectation, error) {
	if text == "" {
		return nil, nil
	}
	var all []Expectation
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("read expectations: %w", err)
	}
	return all, nil
}
