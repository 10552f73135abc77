package driver

import (
	"context"
	"fmt"
)

// NoConditionError is the refusal of a store that writes an object although one
// is there and the put said not to: two writers would overwrite each other's
// commits. [Config.UnsafeSingleWriter] is the only way round.
type NoConditionError struct {
	// Endpoint is the server, and Bucket the bucket on it.
	Endpoint, Bucket string
	// Detail is what the store did.
	Detail string
}

// Error says what to do.
func (e *NoConditionError) Error() string {
	return fmt.Sprintf("the store %s (bucket %s) does not refuse to overwrite an object when asked to (If-None-Match): %s; "+
		"concurrent commits would be lost. Use a store that honours conditional puts (a newer version of this one may), "+
		"or allow an unsafe single writer if nothing else ever writes to the table",
		e.Endpoint, e.Bucket, e.Detail)
}

// LogStoreError is the refusal of a table whose other writers exclude each other
// by a way that this program does not take part in.
type LogStoreError struct {
	// LogStore is the Delta log store of the others, such as S3DynamoDBLogStore.
	LogStore string
	// Key is the object in the table that tells of it.
	Key string
}

// Error says what to do.
func (e *LogStoreError) Error() string {
	return fmt.Sprintf("the table is written through %s (%s is there), whose protocol is not spoken here: its writers would "+
		"overwrite our commits. Stop them, switch all writers to conditional puts, and delete the folder _delta_log/.tmp",
		e.LogStore, e.Key)
}

// Preparer is a [Driver] that has something to find out before its first Create.
type Preparer interface {
	// Prepare finds it out, once; after an error it will try again. Nothing that is
	// visible to readers of a table is written. After it, SingleWriter is known.
	Prepare(ctx context.Context) error
}
