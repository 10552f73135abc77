// Package integrity holds the hashes that deltafold writes into a table so
// that lost, doubled or altered rows and files are noticed later: a [Sum] over
// the rows of a table and a hash of each data file's bytes (merge-semantics 7).
//
// The hash is 128-bit XXH3. It finds accidents, not attacks: it is not
// cryptographic, and no equality of keys or payloads is ever decided by it
// (I11).
package integrity

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/zeebo/xxh3"
)

// Sum is an unsigned integer modulo 2^128: the hash of a row or a file, or a
// sum of such hashes. The zero Sum is the digest of no rows. Sums are
// comparable with ==.
type Sum struct{ Hi, Lo uint64 }

// Plus returns s + o modulo 2^128.
func (s Sum) Plus(o Sum) Sum {
	lo, carry := bits.Add64(s.Lo, o.Lo, 0)
	hi, _ := bits.Add64(s.Hi, o.Hi, carry)
	return Sum{hi, lo}
}

// Minus returns s - o modulo 2^128.
func (s Sum) Minus(o Sum) Sum {
	lo, borrow := bits.Sub64(s.Lo, o.Lo, 0)
	hi, _ := bits.Sub64(s.Hi, o.Hi, borrow)
	return Sum{hi, lo}
}

// String returns s as 32 lower-case hexadecimal digits, the highest first.
func (s Sum) String() string { return fmt.Sprintf("%016x%016x", s.Hi, s.Lo) }

// ParseSum reads what [Sum.String] writes: exactly 32 lower-case hexadecimal
// digits. Anything else is an error.
func ParseSum(text string) (Sum, error) {
	if len(text) != 32 {
		return Sum{}, fmt.Errorf("integrity: sum %q: want 32 hexadecimal digits, have %d bytes", text, len(text))
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Sum{}, fmt.Errorf("integrity: sum %q: byte %d is not a lower-case hexadecimal digit", text, i)
		}
	}
	hi, errHi := strconv.ParseUint(text[:16], 16, 64)
	lo, errLo := strconv.ParseUint(text[16:], 16, 64)
	if errHi != nil || errLo != nil {
		return Sum{}, fmt.Errorf("integrity: sum %q is not a hexadecimal number", text)
	}
	return Sum{hi, lo}, nil
}

// RowHash returns the hash of one row's canonical bytes: the concatenation of
// package ordered's form of the key columns, of the version columns and, as a
// string, of the status. The sum over all rows is the table digest.
func RowHash(canonical []byte) Sum {
	h := xxh3.Hash128(canonical)
	return Sum{h.Hi, h.Lo}
}

// FileHash hashes a file's bytes while they are written. It is an [io.Writer]
// whose Write never fails. It is not safe for concurrent use.
type FileHash struct{ h *xxh3.Hasher }

// NewFileHash returns the hash of an empty file.
func NewFileHash() *FileHash { return &FileHash{h: xxh3.New()} }

// Write adds p to the file. It always returns len(p), nil.
func (f *FileHash) Write(p []byte) (int, error) { return f.h.Write(p) }

// Sum returns the hash of the bytes written so far; more may follow.
func (f *FileHash) Sum() Sum {
	h := f.h.Sum128()
	return Sum{h.Hi, h.Lo}
}
