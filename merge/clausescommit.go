package merge

import (
	"context"
	"strconv"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
	"github.com/deltafold/deltafold/merge/statement"
)

// describe implements mode (protocol notes 4.2).
func (c *clauses) describe(_ context.Context, _ *deltatable.Snapshot, res *Result, commit *deltatable.Commit) error {
	commit.Operation, commit.Parameters = "MERGE", c.parameters()
	if c.job.Operation != "" {
		commit.Operation, commit.Parameters = c.job.Operation, c.job.Parameters
	}
	var by [2]int64
	for _, r := range c.files {
		by[0], by[1] = by[0]+r.bySource[0], by[1]+r.bySource[1]
	}
	s, n := res.Stats, func(v int64) string { return strconv.FormatInt(v, 10) }
	commit.Metrics = map[string]string{
		"numSourceRows":                          n(int64(c.source.total)),
		"numTargetRowsInserted":                  n(s.Inserted),
		"numTargetRowsUpdated":                   n(s.Updated),
		"numTargetRowsMatchedUpdated":            n(s.Updated - by[0]),
		"numTargetRowsNotMatchedBySourceUpdated": n(by[0]),
		"numTargetRowsDeleted":                   n(s.Deleted),
		"numTargetRowsMatchedDeleted":            n(s.Deleted - by[1]),
		"numTargetRowsNotMatchedBySourceDeleted": n(by[1]),
		"numTargetRowsCopied":                    n(s.Copied),
		"numOutputRows":                          n(s.Inserted + s.Updated + s.Copied),
		"numTargetFilesAdded":                    n(int64(s.FilesAdded)),
		"numTargetFilesRemoved":                  n(int64(s.FilesRemoved)),
		"numTargetBytesAdded":                    n(s.BytesAdded),
		"numTargetBytesRemoved":                  n(s.BytesRemoved),
		"numTargetChangeFilesAdded":              "0",
		"executionTimeMs":                        n(c.job.now().Sub(c.engine.start).Milliseconds()),
	}
	commit.Tags[change.TagBatch] = c.job.Source.Name
	commit.Tags[change.TagBatchDigest] = c.job.Source.Digest
	commit.Tags[change.TagInserts] = n(s.Inserted)
	commit.Tags[change.TagDeletes] = n(s.Deleted)
	return nil
}

// parameters are the statement as Spark records it.
func (c *clauses) parameters() map[string]string {
	type clause struct {
		Predicate  string `json:"predicate,omitzero"`
		ActionType string `json:"actionType"`
	}
	names := map[statement.Action]string{statement.Update: "update", statement.Delete: "delete", statement.Insert: "insert"}
	lists := map[statement.When][]clause{statement.Matched: {}, statement.NotMatched: {}, statement.NotMatchedBySource: {}}
	for _, b := range c.bound.Branches {
		lists[b.When] = append(lists[b.When], clause{b.Text, names[b.Action]})
	}
	return map[string]string{
		"predicate":                    jsonText([]string{c.bound.On}),
		"matchedPredicates":            jsonText(lists[statement.Matched]),
		"notMatchedPredicates":         jsonText(lists[statement.NotMatched]),
		"notMatchedBySourcePredicates": jsonText(lists[statement.NotMatchedBySource]),
	}
}
