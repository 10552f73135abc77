package blobstore_test

import (
	"context"
	"fmt"

	"github.com/deltafold/deltafold/blobstore"
)

// Two writers want version 0; one gets it.
func ExampleStore_Create() {
	ctx := context.Background()
	store, err := blobstore.Open(ctx, "mem://example")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, who := range []string{"first", "second"} {
		outcome, err := store.Create(ctx, "_delta_log/00000000000000000000.json", []byte(who))
		fmt.Println(who, outcome, err)
	}
	for info, err := range store.List(ctx, "_delta_log/", "") {
		fmt.Println(info.Key, info.Size, err)
	}
	// Output:
	// first created <nil>
	// second exists <nil>
	// _delta_log/00000000000000000000.json 5 <nil>
}
