// Package pipeline is the loop of a run behind the command: roles from flags,
// the batch from files, the merge, the outcomes table and the audit, put
// together. It owns what no other package may know of the others.
//
// # Errors
//
// [UsageError] is the caller's mistake (exit status 2). Errors of package
// merge, deltatable, changefile and checkpoints pass through with what was being
// done put before them.
package pipeline
