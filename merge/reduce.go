package merge

import (
	"bytes"
	"slices"

	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/keyset"
	"github.com/deltafold/deltafold/merge/policy"
)

// candidate is what one key asks for (merge-semantics 3.1). Its number is the
// number of its key in candidates.keys.
type candidate struct {
	kind    policy.Candidate
	first   ref    // the row whose version, and unless kind is Conflict payload, are the candidate's
	version []byte // ordered form
}

// candidates are a batch reduced to one candidate per key.
type candidates struct {
	keys *keyset.Table
	all  []candidate
	// owner has, per row of the batch, the number of its candidate, or -1 if the
	// row is not valid or belongs to none (superseded).
	owner []int32
	// outcomes have, per row, what is settled before any file is read: the
	// reason of an invalid row, superseded, "" for rows of a candidate.
	outcomes []change.Outcome
	// contradicts has, per row, whether the row contradicts another of the batch
	// with its key and version; nil if none does.
	contradicts []bool
	invalid     int64
	// sorted has, per key column, the distinct values of the candidates,
	// ascending: what files are ruled out by.
	sorted [][][]byte
}

// reduce checks every row and reduces the valid ones to candidates.
func reduce(j *Job, in *input) (*candidates, error) {
	check, err := newChecker(j, in)
	if err != nil {
		return nil, err
	}
	cs := &candidates{
		keys:     keyset.New(in.total),
		owner:    make([]int32, in.total),
		outcomes: make([]change.Outcome, in.total),
	}
	ops := make([]change.Op, in.total)
	upserts := false
	var key []byte
	for r := range in.recs {
		keyRow := ordered.NewRow(in.columnsOf(r, in.keys)...)
		for i := range in.lens[r] {
			at := ref{int32(r), int32(i)}
			g := in.global(at)
			if j.Dropped != nil && j.Dropped[g] != "" {
				cs.outcomes[g], cs.owner[g] = j.Dropped[g], -1
				continue
			}
			op, outcome := check.check(at)
			if outcome != "" {
				cs.outcomes[g], cs.owner[g] = outcome, -1
				cs.invalid++
				continue
			}
			ops[g] = op
			upserts = upserts || op == change.Upsert
			key = keyRow.Append(key[:0], i)
			cs.owner[g], _ = cs.keys.Insert(key)
		}
	}
	cs.keys.Seal()
	if in.total > 0 {
		if err := missingColumns(j, in, upserts); err != nil {
			return nil, err
		}
	}
	cs.reduceKeys(in, ops)
	cs.sortColumns(in)
	return cs, nil
}

// reduceKeys brings the rows of each key together and reduces them.
func (cs *candidates) reduceKeys(in *input, ops []change.Op) {
	n := cs.keys.Len()
	starts := make([]int32, n+1)
	for _, id := range cs.owner {
		if id >= 0 {
			starts[id+1]++
		}
	}
	for i := range n {
		starts[i+1] += starts[i]
	}
	members := make([]ref, starts[n])
	next := slices.Clone(starts[:n])
	for r := range in.recs {
		for i := range in.lens[r] {
			at := ref{int32(r), int32(i)}
			if id := cs.owner[in.global(at)]; id >= 0 {
				members[next[id]] = at
				next[id]++
			}
		}
	}
	cs.all = make([]candidate, n)
	for id := range n {
		rows := members[starts[id]:starts[id+1]]
		if len(rows) == 1 {
			cs.all[id] = candidate{
				kind: policy.CandidateOf(ops[in.global(rows[0])]), first: rows[0],
				version: in.appendRow(nil, in.versions, rows[0]),
			}
			continue
		}
		cs.all[id] = cs.reduceRows(in, ops, rows)
	}
}

// reduceRows reduces the rows of one key that came more than once.
func (cs *candidates) reduceRows(in *input, ops []change.Op, rows []ref) candidate {
	versions := make([][]byte, len(rows))
	order := make([]int, len(rows))
	for i, at := range rows {
		versions[i], order[i] = in.appendRow(nil, in.versions, at), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(versions[a], versions[b]) })
	ranked := make([]policy.Row, len(rows))
	var contents []ref // one row of each content met at the current version
	rank := 0
	for k, i := range order {
		if k > 0 && !bytes.Equal(versions[i], versions[order[k-1]]) {
			rank++
			contents = contents[:0]
		}
		op := ops[in.global(rows[i])]
		content := slices.IndexFunc(contents, func(c ref) bool {
			return ops[in.global(c)] == op && (op == change.Delete || in.samePayload(c, rows[i]))
		})
		if content < 0 {
			content = len(contents)
			contents = append(contents, rows[i])
		}
		ranked[i] = policy.Row{Version: rank, Content: content, Op: op}
	}
	reduced := policy.Reduce(ranked)
	for i, at := range rows {
		g := in.global(at)
		if !reduced.Highest[i] {
			cs.outcomes[g], cs.owner[g] = change.Superseded, -1
		}
		if reduced.Contradicts != nil && reduced.Contradicts[i] {
			if cs.contradicts == nil {
				cs.contradicts = make([]bool, in.total)
			}
			cs.contradicts[g] = true
		}
	}
	return candidate{kind: reduced.Candidate, first: rows[reduced.First], version: versions[reduced.First]}
}

// sortColumns fills sorted.
func (cs *candidates) sortColumns(in *input) {
	cs.sorted = make([][][]byte, len(in.keys))
	for k, col := range in.keys {
		vals := make([][]byte, 0, len(cs.all))
		for id := range cs.all {
			if len(in.keys) == 1 {
				vals = append(vals, cs.keys.Key(int32(id)))
				continue
			}
			vals = append(vals, in.appendRow(nil, []int{col}, cs.all[id].first))
		}
		slices.SortFunc(vals, bytes.Compare)
		cs.sorted[k] = slices.CompactFunc(vals, bytes.Equal)
	}
}
