package azure_test

import (
	"context"
	"fmt"

	"github.com/deltafold/deltafold/blobstore"
	_ "github.com/deltafold/deltafold/blobstore/azure"
)

// The log of a table in a container of an account that the URL names; credentials
// come from the environment.
func Example() {
	ctx := context.Background()
	store, err := blobstore.Open(ctx, "abfss://lake@account.dfs.core.windows.net/customers")
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
