package policy

import "github.com/deltafold/deltafold/merge/change"

// Row is a valid row of a batch, seen among the rows of its key. Version and Content are
// ranks within the key: any numbers that are equal exactly where the stored forms are, and
// for Version in the order of the versions. Content ranks (operation, payload).
type Row struct {
	Version, Content int
	Op               change.Op
}

// Reduced is what the rows of one key come to.
type Reduced struct {
	// Candidate is the kind of the key's candidate.
	Candidate Candidate
	// First is the first row of the candidate; its version, and unless the candidate is a
	// Conflict its payload, are the candidate's.
	First int
	// Highest has, for each row, whether it is a row of the candidate; every other row is
	// change.Superseded.
	Highest []bool
	// Contradicts has, for each row, whether another row of its version has other content,
	// at any version: under change.Reject these refuse the batch (merge-semantics 3.2). Nil
	// if no row does.
	Contradicts []bool
}

// Reduce gives the candidate of one key's valid rows (merge-semantics 3.1): the rows with
// the highest version, a Conflict where these do not all have the same content. The result
// depends on the order of the rows only in First. At least one row is needed.
func Reduce(rows []Row) Reduced {
	first := 0
	for i, r := range rows {
		if r.Version > rows[first].Version {
			first = i
		}
	}
	out := Reduced{
		Candidate: CandidateOf(rows[first].Op),
		First:     first,
		Highest:   make([]bool, len(rows)),
	}
	content := make(map[int]int, 1) // version -> content of its first row
	split := map[int]bool{}         // versions with more than one content
	for i, r := range rows {
		out.Highest[i] = r.Version == rows[first].Version
		if c, ok := content[r.Version]; !ok {
			content[r.Version] = r.Content
		} else if c != r.Content {
			split[r.Version] = true
		}
	}
	if len(split) == 0 {
		return out
	}
	out.Contradicts = make([]bool, len(rows))
	for i, r := range rows {
		out.Contradicts[i] = split[r.Version]
	}
	if split[rows[first].Version] {
		out.Candidate = Conflict
	}
	return out
}
