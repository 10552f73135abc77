package change

import (
	"fmt"
	"maps"
	"slices"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Names of the commitInfo tags that a commit of ours carries, and of the tag on each data
// file (merge-semantics 7, "What a version can prove").
const (
	// TagRun is the run id of the commit; a commit that has it is ours.
	TagRun = "deltafold.run"
	// TagBatch is the batch's name.
	TagBatch = "deltafold.batch"
	// TagBatchDigest is the batch's digest, lower-case hex SHA-256.
	TagBatchDigest = "deltafold.batchDigest"
	// TagTableDigest is the table's digest after the commit, 32 lower-case hex digits, or
	// DigestUnknown.
	TagTableDigest = "deltafold.tableDigest"
	// TagCounts is the JSON object of Counts.
	TagCounts = "deltafold.counts"
	// TagFlags is the JSON object of Flags.
	TagFlags = "deltafold.flags"
	// TagOutcomesFile is the outcomes file of the run, as a path in the outcomes table.
	TagOutcomesFile = "deltafold.outcomesFile"
	// TagInserts and TagDeletes are the decimal counts of rows that the commit added and
	// removed for good; rewritten rows are in neither (law 5).
	TagInserts = "deltafold.inserts"
	// TagDeletes is described at TagInserts.
	TagDeletes = "deltafold.deletes"
	// TagFileHash is the tag of an add action: the hash of the file's bytes, 32 lower-case
	// hex digits.
	TagFileHash = "deltafold.xxh128"
	// TagExpectations is the JSON list of all Expectations of the run, those that the table
	// remembers and those of its flags; absent where there are none.
	TagExpectations = "deltafold.expectations"
	// TagExpectationCounts is the JSON object of the numbers of rows that violate each
	// expectation, by name, whatever its action.
	TagExpectationCounts = "deltafold.expectationCounts"
	// TagBreakGuard is the operation that was told to set the table's guard aside
	// (merge-semantics 8).
	TagBreakGuard = "deltafold.breakGuard"
)

// DigestUnknown is the value of TagTableDigest where files that the digest needs are gone.
const DigestUnknown = "unknown"

// Counts are the numbers of input rows by outcome.
type Counts map[Outcome]int64

// JSON gives the counts as an object with sorted names; zero counts are left out.
func (c Counts) JSON() string {
	out := []byte{'{'}
	for _, o := range slices.Sorted(maps.Keys(c)) {
		if c[o] == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		name, err := jsontext.AppendQuote(nil, string(o))
		if err != nil {
			panic(fmt.Sprintf("bug: outcome %q is not text: %v", o, err))
		}
		out = append(out, name...)
		out = fmt.Appendf(out, ":%d", c[o])
	}
	return string(append(out, '}'))
}

// ParseCounts reads what JSON wrote. Zero counts are dropped, negative ones refused.
func ParseCounts(text string) (Counts, error) {
	var c Counts
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("read outcome counts: %w", err)
	}
	for o, n := range c {
		if n < 0 {
			return nil, fmt.Errorf("read outcome counts: %q is %d", o, n)
		}
		if n == 0 {
			delete(c, o)
		}
	}
	if c == nil {
		c = Counts{}
	}
	return c, nil
}

// Flags are the settings of a run that decide how its batch was read and judged, recorded
// in the commit so that the audit reads the batch the same way (merge-semantics 7).
type Flags struct {
	Policy        Policy   `json:"policy,omitzero"`
	FailOnInvalid bool     `json:"failOnInvalid,omitzero"`
	MissingAsNull bool     `json:"missingAsNull,omitzero"`
	AllowUnknown  bool     `json:"allowUnknown,omitzero"`
	NoCheck       []Check  `json:"noCheck,omitempty"`
	Required      []string `json:"required,omitempty"`
	Format        string   `json:"format,omitzero"`
	Timezone      string   `json:"timezone,omitzero"`
	// Ties is TiesAppend or TiesIgnoreIdentical in mode replace, "" in others.
	Ties string `json:"ties,omitzero"`
	// Extra keeps members that this version does not know.
	Extra jsontext.Value `json:",embed"`
}

// JSON gives the flags as one JSON object.
func (f *Flags) JSON() (string, error) {
	text, err := json.Marshal(f, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("write run flags: %w", err)
	}
	return string(text), nil
}

// ParseFlags reads what JSON wrote; unknown members are kept, a missing tag ("") is the
// zero Flags.
func ParseFlags(text string) (*Flags, error) {
	f := &Flags{}
	if text == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(text), f); err != nil {
		return nil, fmt.Errorf("read run flags: %w", err)
	}
	return f, nil
}
