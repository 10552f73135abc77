package s3

import (
	"context"
	"regexp"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// tempFolder is where Delta's S3DynamoDBLogStore writes an entry before it names
// it in DynamoDB; it never deletes what it wrote there.
const tempFolder = "_delta_log/.tmp/"

// tempEntry is the name of such an object: the entry's, and a UUID.
var tempEntry = regexp.MustCompile(`^` + regexp.QuoteMeta(tempFolder) + `[0-9]{20}\.json\.[0-9a-fA-F-]{36}$`)

// checkLog refuses a table that is written through DynamoDB. There is no way
// round: while such writers are at work, each side overwrites the other's commits.
func checkLog(ctx context.Context, d driver.Driver) error {
	for info, err := range d.List(ctx, tempFolder, "") {
		if err != nil {
			return err
		}
		if tempEntry.MatchString(info.Key) {
			return &blobstore.LogStoreError{LogStore: "S3DynamoDBLogStore", Key: info.Key}
		}
	}
	return nil
}
