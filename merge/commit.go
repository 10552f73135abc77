package merge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/internal/integrity"
	"github.com/deltafold/deltafold/internal/ordered"
	"github.com/deltafold/deltafold/merge/change"
)

// describe implements mode.
func (g *guarded) describe(ctx context.Context, snap *deltatable.Snapshot, res *Result, c *deltatable.Commit) error {
	digest, err := g.tableDigest(ctx, snap)
	if err != nil {
		return err
	}
	c.Operation, c.Parameters, c.Metrics = "MERGE", g.parameters(), g.metrics(res.Stats)
	for tag, value := range map[string]string{
		change.TagBatch:       g.job.Batch.Name,
		change.TagBatchDigest: g.job.Batch.Digest,
		change.TagTableDigest: digest,
		change.TagInserts:     strconv.FormatInt(res.Stats.Inserted, 10),
		change.TagDeletes:     "0",
	} {
		c.Tags[tag] = value
	}
	return nil
}

// parameters describe the guarded merge as Spark describes a MERGE (protocol
// notes 4.2).
func (g *guarded) parameters() map[string]string {
	var on []string
	for _, k := range g.job.Roles.Keys {
		on = append(on, fmt.Sprintf("(t.%s = s.%s)", k, k))
	}
	newer := make([]string, 0, len(g.job.Roles.Versions))
	for _, v := range g.job.Roles.Versions {
		newer = append(newer, "s."+v)
	}
	stored := strings.ReplaceAll(strings.Join(newer, ", "), "s.", "t.")
	predicate := fmt.Sprintf("((%s) >= (%s))", strings.Join(newer, ", "), stored)
	type clause struct {
		Predicate  string `json:"predicate,omitempty"`
		ActionType string `json:"actionType"`
	}
	return map[string]string{
		"predicate":                    jsonText(on),
		"matchedPredicates":            jsonText([]clause{{predicate, "update"}}),
		"notMatchedPredicates":         jsonText([]clause{{"", "insert"}}),
		"notMatchedBySourcePredicates": "[]",
	}
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("merge: internal error: %v", err))
	}
	return string(text)
}

func (g *guarded) metrics(s Stats) map[string]string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return map[string]string{
		"numSourceRows":                          n(int64(g.in.total)),
		"numTargetRowsInserted":                  n(s.Inserted),
		"numTargetRowsUpdated":                   n(s.Updated),
		"numTargetRowsMatchedUpdated":            n(s.Updated),
		"numTargetRowsNotMatchedBySourceUpdated": "0",
		"numTargetRowsDeleted":                   "0",
		"numTargetRowsMatchedDeleted":            "0",
		"numTargetRowsNotMatchedBySourceDeleted": "0",
		"numTargetRowsCopied":                    n(s.Copied),
		"numOutputRows":                          n(s.Inserted + s.Updated + s.Copied),
		"numTargetFilesAdded":                    n(int64(s.FilesAdded)),
		"numTargetFilesRemoved":                  n(int64(s.FilesRemoved)),
		"numTargetBytesAdded":                    n(s.BytesAdded),
		"numTargetBytesRemoved":                  n(s.BytesRemoved),
		"numTargetChangeFilesAdded":              "0",
		"executionTimeMs":                        n(g.job.now().Sub(g.engine.start).Milliseconds()),
	}
}

// digestBase is the table's digest at a version, kept between attempts.
type digestBase struct {
	valid   bool
	version deltatable.Version
	sum     integrity.Sum
	unknown bool
}

// tableDigest is the table's digest after the plan (merge-semantics 7).
func (g *guarded) tableDigest(ctx context.Context, snap *deltatable.Snapshot) (string, error) {
	if snap == nil {
		return g.digestDelta().String(), nil
	}
	if !g.base.valid || g.base.version != snap.Version() {
		base, err := baseDigest(ctx, g.job.Table, snap, g.job.Roles)
		if err != nil {
			return "", err
		}
		g.base = base
	}
	if g.base.unknown {
		return change.DigestUnknown, nil
	}
	return g.base.sum.Plus(g.digestDelta()).String(), nil
}

// baseDigest is the digest at a snapshot: the one that its version recorded, or
// else the last recorded one, plus the rows of the files that are live now and
// were not then, less those that were live then and are not now (R7). Where an
// entry or a file that it needs is gone, it is unknown.
func baseDigest(ctx context.Context, t *deltatable.Table, snap *deltatable.Snapshot, roles *change.Roles) (digestBase, error) {
	base := digestBase{valid: true, version: snap.Version(), unknown: true}
	text, at, err := recordedDigest(ctx, t, snap)
	switch {
	case gone(err):
		return base, nil
	case err != nil:
		return base, err
	case text == "", text == change.DigestUnknown:
		return base, nil
	}
	sum, err := integrity.ParseSum(text)
	if err != nil {
		return base, fmt.Errorf("version %d: tag %s: %w", at, change.TagTableDigest, err)
	}
	if at < snap.Version() {
		then, err := t.SnapshotAt(ctx, at)
		if err == nil {
			sum, err = liveDifference(ctx, sum, then, snap, roles)
		}
		if gone(err) {
			return base, nil
		}
		if err != nil {
			return base, err
		}
	}
	base.sum, base.unknown = sum, false
	return base, nil
}

// recordedDigest is the digest that the last version up to a snapshot's recorded,
// and that version; "" where none did. What the snapshot knows is not read again.
func recordedDigest(ctx context.Context, t *deltatable.Table, snap *deltatable.Snapshot) (string, deltatable.Version, error) {
	at, info := snap.Version(), snap.CommitInfo()
	for ; at >= 0; at-- {
		if info == nil {
			e, err := t.Entry(ctx, at)
			if err != nil {
				return "", at, err
			}
			info = e.Info
		}
		if info != nil {
			if text := info.Tags[change.TagTableDigest]; text != "" {
				return text, at, nil
			}
		}
		info = nil
	}
	return "", at, nil
}

// gone says whether an error means that an entry or a file was removed.
func gone(err error) bool {
	var missing *deltatable.MissingFileError
	var out *deltatable.VersionRangeError
	return errors.As(err, &missing) || errors.As(err, &out)
}

// liveDifference adds to sum the rows of files live in now and not in then, and
// takes away those live in then and not in now.
func liveDifference(ctx context.Context, sum integrity.Sum, then, now *deltatable.Snapshot, roles *change.Roles) (integrity.Sum, error) {
	for _, f := range now.Files() {
		if _, was := then.File(then.KeyOf(f)); was {
			continue
		}
		part, err := FileDigest(ctx, now, f, roles)
		if err != nil {
			return sum, err
		}
		sum = sum.Plus(part)
	}
	for _, f := range then.Files() {
		if _, is := now.File(now.KeyOf(f)); is {
			continue
		}
		part, err := FileDigest(ctx, then, f, roles)
		if err != nil {
			return sum, err
		}
		sum = sum.Minus(part)
	}
	return sum, nil
}

// FileDigest is the sum of the row hashes of one live file of a state table:
// what the file adds to the table's digest (merge-semantics 7). A row that
// breaks the rules of a state table (NULL version, unknown status) counts with
// status "".
func FileDigest(ctx context.Context, snap *deltatable.Snapshot, f *deltatable.Add, roles *change.Roles) (_ integrity.Sum, err error) {
	var sum integrity.Sum
	r, err := snap.OpenFile(ctx, f)
	if err != nil {
		return sum, err
	}
	defer func() {
		if cerr := r.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	names := append(append([]string(nil), roles.Keys...), roles.Versions...)
	n := len(names)
	if roles.Status != "" {
		names = append(names, roles.Status)
	}
	var buf []byte
	for b, err := range r.Read(ctx, &deltatable.ReadOptions{Columns: names}) {
		if err != nil {
			return sum, err
		}
		row := ordered.NewRow(b.Rec.Columns()[:n]...)
		for i := range int(b.Rec.NumRows()) {
			word := ""
			var s change.Status
			ok := true
			if roles.Status != "" {
				s, ok = statusOf(roles.StatusForm, b.Rec.Column(n), i)
			} else {
				s = change.Active
			}
			if ok {
				word = s.String()
			}
			buf = row.Append(buf[:0], i)
			sum = sum.Plus(integrity.RowHash(ordered.AppendString(buf, word)))
		}
	}
	return sum, nil
}
