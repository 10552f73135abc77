package s3_test

import (
	"context"
	"fmt"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/s3"
	"github.com/deltafold/deltafold/deltatable"
)

// A table in a bucket of a server that is not Amazon's, and what reading it cost.
func Example() {
	ctx := context.Background()
	c := &blobstore.Config{Endpoint: "http://127.0.0.1:9000", Stats: &blobstore.Stats{}}
	open := func(ctx context.Context, url string) (*blobstore.Store, error) {
		return blobstore.OpenWith(ctx, url, c)
	}
	store, err := open(ctx, "s3://lake/customers")
	if err != nil {
		fmt.Println(err)
		return
	}
	// Open is for files that the table names in other buckets.
	table := deltatable.NewTable(store, &deltatable.Options{Open: open})
	snapshot, err := table.Snapshot(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(snapshot.Version(), len(snapshot.Files()), c.Stats.Counts().Total())
}
