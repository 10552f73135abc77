// Package failpoint names the places where a crash is interesting, so that
// tests can kill the process exactly there.
//
// A normal build compiles [Hit] to nothing. A build with the tag failpoint
// reads two environment variables:
//
//   - DELTAFOLD_FAILPOINT=name or name:n sends SIGKILL to the process itself at
//     the n-th hit of that name (default 1): no deferred function runs, no
//     buffer is flushed.
//   - DELTAFOLD_FAILPOINT_LOG=file appends each name hit, one a line, to file,
//     before the kill; tests count the points of a run with it.
//
// The points of a run are, in the order met: batch-read, outcomes-written,
// data-file (before each data file is made durable), data-file-done,
// commit-before, commit-after, log-checkpoint-before, log-checkpoint-after,
// outcomes-appended.
package failpoint
