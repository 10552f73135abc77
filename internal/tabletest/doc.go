// Package tabletest makes data for tests: random schemas and record batches of
// every canonical type, and random histories of guarded merges together with a
// plain oracle that says what each must give.
//
// Its nouns: a [Gen] makes batches of rows from a seed; a [Batch] is the input
// of one merge; an [Oracle] is the state that the rules of merge-semantics 2 and
// 3 give, one change at a time, on a Go map.
//
// A test of the merge makes a [World] ([Default], or [RandomWorld] from a seed),
// a generator and an oracle, gives each batch to both, and compares the
// outcomes and, by [Oracle.Diff], the rows that it scanned:
//
//	w := tabletest.RandomWorld(tabletest.NewRand(seed), tabletest.WorldOptions{})
//	g, o := tabletest.NewGen(seed, tabletest.GenOptions{World: w}), w.Oracle()
//	b := g.Batch()
//	want, refused := o.Apply(b)
//	// merge b.Records(w.Input) into a table of schema w.Table and roles w.Roles
//	diff := o.Diff(tabletest.Rows(scanned...))
//
// [Batch.Permute], [Batch.Split] and [Join] make other deliveries of the same
// changes, for law 1.
//
// # Caveats
//
// The oracle is a third telling of the rules, written from the text alone: it
// shares no code with merge, merge/policy or checkpoints, and must not (I6).
// The package is for tests only. Everything random comes from a seed; print it.
package tabletest
