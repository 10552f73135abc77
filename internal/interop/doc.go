// Package interop holds the tests of deltafold beside other writers and readers
// of Delta tables: delta-rs, Delta on Spark, Sail and DuckDB. It has no code of
// its own outside its tests.
//
// A peer is one warm process, a Python driver from the folder peers, that
// answers requests in line-delimited JSON. deltafold is driven as users drive
// it, through its command, which is built once. Rows are compared whole, as
// multisets, in the JSON encoding of deltafold's read command. Where peers
// differ from each other, Spark is the arbiter.
//
// Tests on S3 run on versitygw, which internal/storeserver builds and starts. All
// write there in turns, never at once: Spark's log store for S3 puts log entries
// without a condition.
//
// The peers are installed by .ci/peers into $DELTAFOLD_PEERS. Without them the
// tests skip and say so; with DELTAFOLD_REQUIRE_PEERS=1 that is a failure.
// Tables and fixtures that are kept beside the repository are looked for in
// $DELTAFOLD_SHARED, by default ../shared; with DELTAFOLD_REQUIRE_TABLES=1 their
// absence is a failure too. DELTAFOLD_SOAK=1 runs the full numbers of random
// cases, DELTAFOLD_SEED=n repeats a run.
//
// # Caveats
//
// What peers are known to refuse or to get wrong is written down beside the
// test that avoids it.
package interop
