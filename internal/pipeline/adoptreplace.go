package pipeline

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/internal/rowfile"
	"github.com/deltafold/deltafold/merge"
	"github.com/deltafold/deltafold/merge/change"
)

// checkedRows is the number of rows whose keys are held at once while a table
// is checked.
const checkedRows = 4 << 20

// checkReplace reads key and sequence of every row and says whether REPLACE
// USING could have made them: no sequence is NULL, and all rows of a key have
// the same one (merge-semantics 4). A *merge.TargetError names the first keys
// that break a rule. Memory is bounded (I9): as many passes as the keys need,
// each for those of one share of the hash space.
func checkReplace(ctx context.Context, snap *deltatable.Snapshot, r *change.ReplaceRoles) error {
	var rows int64
	for _, f := range snap.Files() {
		n, ok := snap.NumRecords(f)
		if !ok {
			n = checkedRows
		}
		rows += n
	}
	passes := uint64(rows/checkedRows) + 1
	for pass := range passes {
		c := &replaceCheck{roles: r, pass: pass, passes: passes, seen: map[string][]byte{}}
		columns := append(append([]string(nil), r.Keys...), r.Sequence)
		for rec, err := range snap.Scan(ctx, &deltatable.ScanOptions{Columns: columns}) {
			if err != nil {
				return err
			}
			c.batch(rec)
		}
		if len(c.keys) > 0 {
			return &merge.TargetError{Reason: c.reason, Keys: c.keys}
		}
	}
	return nil
}

// replaceRoles derives the roles of a table that is adopted for REPLACE USING.
func (j *AdoptJob) replaceRoles(sch *arrow.Schema) (*change.ReplaceRoles, error) {
	r, err := DeriveReplace(j.Using, j.Sequence, j.Ties, sch)
	if err != nil {
		return nil, err
	}
	r.Expectations = slices.Clone(j.Roles.Expectations)
	return r, checkExpectations(r.Expectations, sch)
}

type replaceCheck struct {
	roles        *change.ReplaceRoles
	pass, passes uint64
	seen         map[string][]byte // sequence by key, in ordered forms
	reason       string
	keys         []string
}

func (c *replaceCheck) batch(rec arrow.RecordBatch) {
	n := len(c.roles.Keys)
	keys, sequence := ordered.NewRow(rec.Columns()[:n]...), ordered.NewColumn(rec.Column(n))
	var key, seq []byte
	for i := range int(rec.NumRows()) {
		key, seq = keys.Append(key[:0], i), sequence.Append(seq[:0], i)
		if c.passes > 1 && integrity.RowHash(key).Lo%c.passes != c.pass {
			continue
		}
		before, was := c.seen[string(key)]
		switch {
		case ordered.IsNull(seq):
			c.finding("a sequence is NULL", rec, i)
		case !was:
			c.seen[string(key)] = bytes.Clone(seq)
		case !bytes.Equal(before, seq):
			c.finding("a key has rows at more than one sequence", rec, i)
		}
	}
}

func (c *replaceCheck) finding(reason string, rec arrow.RecordBatch, i int) {
	const most = 20
	if len(c.keys) > 0 && reason != c.reason || len(c.keys) == most {
		return
	}
	var parts []string
	for k, name := range c.roles.Keys {
		parts = append(parts, name+"="+rowfile.Format(rec.Column(k), i))
	}
	c.reason, c.keys = reason, append(c.keys, strings.Join(parts, " "))
}
