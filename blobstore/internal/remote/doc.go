// Package remote is what all object stores share: it makes a driver of blobstore
// out of a [Bucket], whose methods are single requests. Retries, outcomes of
// conditional puts, reads by coalesced ranges, writes in parts and the counting
// of requests are here, once; a cloud's package says how its requests look and
// what its errors mean.
//
// # Retries
//
// A request is sent again when it was throttled, not clearly answered, met
// another one under way, or had credentials that have expired; with waits that
// double from 100 ms to 5 s, half of them random, and are no shorter than the
// store asks for. It ends after 30 s or 16 attempts, but not before the third. An
// attempt ends when nothing is heard for 30 s, and a second for each 64 KiB that
// it sends; a body that goes on arriving is never cut. See [Options].
//
// # Conditional puts
//
// A store that is not known to honour the condition of a put is probed before
// the first one: an object _delta_log/.deltafold-probe-… is created twice, read
// and deleted. That a store honours it is remembered for 30 days in the user's
// cache folder, deltafold/conditional-put, one file an endpoint and bucket;
// whatever else is in such a file means that it is not known. A store that does
// not is refused with [driver.NoConditionError]. An answer that is not clear is
// an error, never a yes.
//
// # Caveats
//
// The probe finds stores that ignore the condition, not stores that look first
// and write then. If the answer to the start of an upload in parts is lost, the
// upload stays at the store, without parts; a lifecycle rule removes such.
package remote
