// Package remote is what all object stores share: it makes a driver of blobstore
// out of a [Bucket], whose methods are single requests. Retries, outcomes of
// conditional puts, reads by coalesced ranges, writes in parts and the counting
// of requests are here, once; a cloud's package says how its requests look and
// what its errors mean.
package remote
