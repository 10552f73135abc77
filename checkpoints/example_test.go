package checkpoints_test

import (
	"context"
	"fmt"

	"github.com/deltafold/deltafold/blobstore"
	"github.com/deltafold/deltafold/checkpoints"
	"github.com/deltafold/deltafold/deltatable"
)

func ExampleAudit() {
	ctx := context.Background()
	store, err := blobstore.Open(ctx, "mem://audit-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	table := deltatable.NewTable(store, nil)
	schema, err := deltatable.ParseDDL("id long, name string")
	if err != nil {
		fmt.Println(err)
		return
	}
	md, protocol, err := deltatable.NewTableMetadata(schema, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := table.TryCommit(ctx, nil, &deltatable.Commit{Operation: "CREATE TABLE", Metadata: md, Protocol: protocol}); err != nil {
		fmt.Println(err)
		return
	}
	report, err := checkpoints.Audit(ctx, table, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range report.Versions {
		fmt.Println(v.Version, v.Operation, v.Checks)
	}
	fmt.Println(len(report.Findings), "findings")
	// Output:
	// 0 CREATE TABLE [{files ok 0 files added, 0 removed, 0 kept}]
	// 0 findings
}
