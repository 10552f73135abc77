package gcs_test

import (
	"context"
	"fmt"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/gcs"
)

// The log of a table in a public bucket, which needs no credentials.
func Example() {
	ctx := context.Background()
	store, err := blobstore.Open(ctx, "gs://public-bucket/customers?anonymous=true")
	if err != nil {
		fmt.Println(err)
		return
	}
	for info, err := range store.List(ctx, "_delta_log/", "_delta_log/00000000000000000100") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(info.Key, info.Size)
	}
}
