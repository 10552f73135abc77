package checkpoints

import (
	"fmt"
	"slices"

	"github.com/deltafold/deltafold/deltatable"
)

// Names of the checks, see the package comment.
const (
	CheckWriter   = "writer"
	CheckFiles    = "files"
	CheckRecord   = "record"
	CheckFileHash = "file_hash"
	CheckDigest   = "digest"
	CheckCounts   = "counts"
	CheckForm     = "form"
	CheckVersions = "no_resurrection"
	CheckOthers   = "nothing_else_moves"
	CheckRows     = "rows_add_up"
	CheckKeys     = "one_row_per_key"
	CheckState    = "state"
	CheckOutcomes = "outcomes"

	CheckSequence     = "sequence_never_decreases"
	CheckExpectations = "expectations"
)

// Status is the result of one check at one version.
type Status string

// The results of a check.
const (
	// OK: checked, and as it should be.
	OK Status = "ok"
	// Failed: there are findings with the check's name at the version.
	Failed Status = "finding"
	// Note: nothing is wrong, but a reader should know.
	Note Status = "note"
	// Skipped: it could not be checked; the detail says why.
	Skipped Status = "skipped"
)

// Check is one check at one version.
type Check struct {
	Name   string
	Status Status
	// Detail is what was compared, or why not; may be empty.
	Detail string
}

// Finding is something wrong with a version.
type Finding struct {
	Version deltatable.Version
	// Check is the name of the check that failed.
	Check string
	// Keys are the keys concerned as text, the first 20 found, sorted; empty where the
	// finding is not about keys. Columns of one key are joined by ", ".
	Keys []string
	// Detail says what was expected and what is there.
	Detail string
}

// String gives the finding as one line.
func (f Finding) String() string {
	if len(f.Keys) == 0 {
		return fmt.Sprintf("version %d: %s: %s", f.Version, f.Check, f.Detail)
	}
	return fmt.Sprintf("version %d: %s: %s; keys %q", f.Version, f.Check, f.Detail, f.Keys)
}

// VersionReport is what the audit found out about one version.
type VersionReport struct {
	Version deltatable.Version
	// Operation is commitInfo's, "" where it is not known.
	Operation string
	// Writer is commitInfo's engineInfo, "" where it is not known.
	Writer string
	// Run is the run id of a commit of ours, "" otherwise.
	Run string
	// Ours says that the commit carries deltafold's record.
	Ours bool
	// Digest is the table digest as the audit computed it, "" where it could not.
	Digest string
	// Checks are the checks in the order in which they were made.
	Checks []Check
}

// Report is the result of an audit.
type Report struct {
	// From and To are the first and the last version audited.
	From, To deltatable.Version
	// Versions has one element for each version audited, in order.
	Versions []VersionReport
	// Findings are all that is wrong, in order of versions; empty: nothing is.
	Findings []Finding
}

// most is the number of keys that a finding names.
const most = 20

// keyList collects the keys of one finding: the first ones, and how many there are.
type keyList struct {
	keys []string
	n    int64
}

func (l *keyList) add(key func() string) {
	if l.n++; len(l.keys) < most {
		l.keys = append(l.keys, key())
	}
}

func (l *keyList) addText(key string) { l.add(func() string { return key }) }

// recorder builds the report of one version.
type recorder struct {
	report *VersionReport
	found  []Finding
}

func (r *recorder) check(name string, s Status, format string, args ...any) {
	r.report.Checks = append(r.report.Checks, Check{name, s, fmt.Sprintf(format, args...)})
}

// find adds a finding; finish gives its check the status Failed.
func (r *recorder) find(name string, keys []string, format string, args ...any) {
	r.found = append(r.found, Finding{
		Version: r.report.Version, Check: name, Keys: keys, Detail: fmt.Sprintf(format, args...),
	})
}

// findKeys adds a finding if there are keys.
func (r *recorder) findKeys(name string, l *keyList, what string) {
	if l.n > 0 {
		slices.Sort(l.keys)
		r.find(name, l.keys, "%d %s", l.n, what)
	}
}

func (r *recorder) failed(name string) bool {
	for _, f := range r.found {
		if f.Check == name {
			return true
		}
	}
	return false
}

// done closes a check: Failed if there are findings, else OK.
func (r *recorder) done(name, format string, args ...any) {
	if r.failed(name) {
		r.check(name, Failed, format, args...)
		return
	}
	r.check(name, OK, format, args...)
}
