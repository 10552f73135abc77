// Package checkpoints is the audit: it reads versions of a table back and checks what each
// commit did. (In Delta's language a checkpoint is a file of the log. That is a log
// checkpoint and has nothing to do with this package.)
//
// It never imports merge or merge/policy, so that what it expects does not come from what
// it audits (I6): the rules of merge-semantics 2 to 4 are implemented here a second time,
// in the plainest way, one change at a time over a Go map (fold.go, replacefold.go). It shares with merge
// only the words of merge/change and the hash of package integrity.
//
// # Checks
//
// Each version is compared with the one before it. Integrity:
//
//	files               every data file that is needed is there and can be read
//	record              what commitInfo carries can be read and does not contradict itself
//	file_hash           bytes of the files added hash to the tag of their add action
//	digest              recorded digest before - rows of files removed + rows of files
//	                    added = recorded digest (canonical key, version, status)
//	counts              counts by outcome equal the rows of the outcomes table
//	form                key and version are not NULL, the status is known, tombstones and
//	                    conflicts have no payload
//
// Laws (merge-semantics 3.3):
//
//	no_resurrection     law 3: no stored version decreases, no key or tombstone disappears
//	nothing_else_moves  law 4: rows of keys that the batch does not write are equal in value
//	rows_add_up         law 5: footers of files removed + inserts - deletes = footers of
//	                    files added
//	one_row_per_key     law 6: within the files added, and each new key against every other
//	                    live file that statistics cannot rule out
//
// Correctness, where the batch is at hand, or its rows in the outcomes table:
//
//	state               the fold of the batch over the rows of version N-1, as committed,
//	                    equals the rows of version N
//	outcomes            each row's outcome is what the fold says
//	expectations        the recorded expectations, evaluated again on each row, drop the rows
//	                    that were dropped and no others, and refuse none (merge-semantics 4)
//
// In mode replace (merge-semantics 4) these apply instead of laws 3 and 6, and of the fold:
//
//	sequence_never_decreases
//	                    no key's highest sequence decreases, no key disappears
//	nothing_else_moves  the rows of keys that the batch does not write are the same multiset
//	state               the rows of each key of the batch are what REPLACE USING makes of those
//	                    before; without the batch, that some batch can have left them
//	form                no sequence is NULL
//
// On plain tables it is law 5, file hashes, counts and expectations. A commit that set a
// guard aside (--break-guard) is a note; what it did against the rules of the mode is found
// by the mode's checks, as if another writer had done it.
//
// A check that could not be made is skipped and says why; a version of another writer is a
// note, unless it broke a law.
//
// # Caveats
//
// The cost of a version follows the files it changed, and the files that may hold its new
// keys. Memory is bounded by the batch and Options.MemoryBytes: where the rows of the files
// changed do not fit, they are compared in passes, each over the keys of one part of the
// key hash, and the files are read once a pass. Options.Full reads every file of every
// version once for its digest, and all rows of the first and the last version for law 6.
//
// The hashes find accidents, not forgery.
package checkpoints
