package merge

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/deltafold/deltafold/deltatable"
	"github.com/deltafold/deltafold/merge/change"
)

// describe implements mode. The operation is a WRITE with a predicate, as other
// engines record a selective overwrite.
func (r *replace) describe(_ context.Context, _ *deltatable.Snapshot, res *Result, c *deltatable.Commit) error {
	s, n := res.Stats, func(v int64) string { return strconv.FormatInt(v, 10) }
	c.Operation = "WRITE"
	c.Parameters = map[string]string{
		"mode": "Overwrite", "partitionBy": jsonText(r.engine.layout.PartitionColumns()),
		"replaceUsing": fmt.Sprintf("(%s) SEQUENCE BY %s", strings.Join(r.job.Roles.Keys, ", "), r.job.Roles.Sequence),
	}
	c.Metrics = map[string]string{
		"numFiles": n(int64(s.FilesAdded)), "numRemovedFiles": n(int64(s.FilesRemoved)),
		"numOutputRows": n(s.Inserted + s.Copied), "numOutputBytes": n(s.BytesAdded),
		"numDeletedRows": n(s.Deleted), "numCopiedRows": n(s.Copied), "numSourceRows": n(int64(r.in.total)),
	}
	c.Tags[change.TagBatch] = r.job.Batch.Name
	c.Tags[change.TagBatchDigest] = r.job.Batch.Digest
	c.Tags[change.TagInserts] = n(s.Inserted)
	c.Tags[change.TagDeletes] = n(s.Deleted)
	return nil
}
