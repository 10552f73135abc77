// Package tabletest makes data for tests: random schemas and record batches of
// every canonical type, and random histories of guarded merges together with a
// plain oracle that says what each must give.
//
// Its nouns: a [Gen] makes batches of rows from a seed; a [Batch] is the input
// of one merge; an [Oracle] is the state that the rules of merge-semantics 2 and
// 3 give, one change at a time, on a Go map.
//
// # Caveats
//
// The oracle is a third telling of the rules, written from the text alone: it
// shares no code with merge, merge/policy or checkpoints, and must not (I6).
// The package is for tests only. Everything random comes from a seed; print it.
package tabletest
