// Package blobstoretest is the proof of package blobstore's seam, and tools for
// tests of whatever stands on it.
//
//   - [Run] is the suite that every store passes: contents, odd keys, order of
//     listing, races of goroutines and processes, cancelled and killed writers,
//     injected faults. A package that uses it hands its TestMain to [Main], which
//     also is the other process of the races.
//   - [Faults] wraps a store so that calls fail, do half, lose their answers,
//     land late or wait, as a test decides.
//   - [NewPowerLoss] is a folder store whose every change is recorded; its
//     [Recorder] makes a folder as a power loss after any of them would leave it.
//   - [Bucket] is an object store in memory that counts requests and round trips.
package blobstoretest
