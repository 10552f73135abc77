package merge

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/internal/keyset"
)

// checkKeys is the number of keys held at once while a table is checked.
const checkKeys = 4 << 20

// CheckTable reads the key, version and status of every row of a snapshot and
// says whether it is a state table: one row per key, no NULL in key or version,
// a known status, NULL payload in rows that are not active (merge-semantics 1). What breaks a rule is a *TargetError with
// the first keys. It gives the table's digest, the baseline of merge-semantics 7.
//
// Memory is bounded (I9): the table is read in as many passes as its keys need,
// each for the keys of one share of the hash space.
func CheckTable(ctx context.Context, snap *deltatable.Snapshot, roles *change.Roles) (integrity.Sum, error) {
	var total int64
	for _, f := range snap.Files() {
		n, ok := snap.NumRecords(f)
		if !ok {
			n = checkKeys // unknown: one pass more for it does no harm
		}
		total += n
	}
	passes := uint64(total/checkKeys) + 1
	var sum integrity.Sum
	for pass := range passes {
		c := tableCheck{snap: snap, roles: roles, keys: keyset.New(0), pass: pass, passes: passes}
		for _, f := range snap.Files() {
			if err := c.file(ctx, f); err != nil {
				return sum, err
			}
		}
		if len(c.bad) > 0 {
			return sum, &TargetError{Reason: c.reason, Keys: c.bad}
		}
		sum = sum.Plus(c.sum)
	}
	return sum, nil
}

type tableCheck struct {
	snap         *deltatable.Snapshot
	roles        *change.Roles
	keys         *keyset.Table
	pass, passes uint64
	sum          integrity.Sum
	reason       string
	bad          []string
}

func (c *tableCheck) file(ctx context.Context, f *deltatable.Add) (err error) {
	r, err := c.snap.OpenFile(ctx, f)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := r.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	names := append(append([]string(nil), c.roles.Keys...), c.roles.Versions...)
	if c.roles.Status != "" {
		names = append(append(names, c.roles.Status), c.roles.Payload...)
	}
	for b, err := range r.Read(ctx, &deltatable.ReadOptions{Columns: names}) {
		if err != nil {
			return err
		}
		c.batch(b)
	}
	return nil
}

func (c *tableCheck) batch(b deltatable.FileBatch) {
	cols, nk, nv := b.Rec.Columns(), len(c.roles.Keys), len(c.roles.Versions)
	keys, versions := ordered.NewRow(cols[:nk]...), ordered.NewRow(cols[nk:nk+nv]...)
	var buf []byte
	for i := range int(b.Rec.NumRows()) {
		buf = keys.Append(buf[:0], i)
		if xxh3.Hash(buf)%c.passes != c.pass {
			continue
		}
		if _, added := c.keys.Insert(buf); !added {
			c.finding("more than one row with one key", b, i)
		}
		for k := range nk + nv {
			if cols[k].IsNull(i) {
				c.finding("a key or version column is NULL", b, i)
			}
		}
		s, ok := change.Active, true
		if c.roles.Status != "" {
			s, ok = statusOf(c.roles.StatusForm, cols[nk+nv], i)
		}
		if !ok {
			c.finding("a status is none that the table may hold", b, i)
			continue
		}
		if s != change.Active && hasPayload(cols[nk+nv+1:], i) {
			c.finding("a row that is not active has a payload", b, i)
		}
		buf = versions.Append(buf, i)
		c.sum = c.sum.Plus(integrity.RowHash(ordered.AppendString(buf, s.String())))
	}
}

// hasPayload says whether any payload column of a row is not NULL.
func hasPayload(payload []arrow.Array, i int) bool {
	return slices.ContainsFunc(payload, func(a arrow.Array) bool { return a.DataType().ID() != arrow.NULL && a.IsValid(i) })
}

func (c *tableCheck) finding(reason string, b deltatable.FileBatch, i int) {
	if len(c.bad) > 0 && reason != c.reason || len(c.bad) == 20 {
		return
	}
	c.reason = reason
	text := ""
	for k, name := range c.roles.Keys {
		if k > 0 {
			text += " "
		}
		text += fmt.Sprintf("%s=%s", name, b.Rec.Column(k).ValueStr(i))
	}
	c.bad = append(c.bad, text)
}
