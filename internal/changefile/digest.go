package changefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// digestDomain separates this form of digest from every other use of SHA-256
// and from later forms. NB: digests are recorded in tables for good; a change
// of the canonical form needs a new domain.
const digestDomain = "deltafold batch digest 1\n"

// Digest names a batch by its rows alone: 64 lower-case hexadecimal digits that
// are equal exactly when the multisets of parsed rows are (merge-semantics 1),
// SHA-256 collisions aside. The order of files, rows and columns, the spelling
// of column names, and whether a NULL was written out or left out do not matter.
//
// Its form: each row has a canonical text (see appendCells) and that text's
// SHA-256; the digest is the SHA-256 of digestDomain, the number of rows as 8
// bytes, big end first, and the rows' hashes in ascending order.
func Digest(files []*File) string {
	var rows int64
	for _, f := range files {
		rows += f.Rows
	}
	sums := make([][sha256.Size]byte, 0, rows)
	var text []byte
	for _, f := range files {
		for _, rec := range f.Records {
			c := newCells(rec)
			for i := range int(rec.NumRows()) {
				text = c.append(text[:0], i)
				sums = append(sums, sha256.Sum256(text))
			}
		}
	}
	slices.SortFunc(sums, func(a, b [sha256.Size]byte) int {
		// Most pairs differ in the first eight bytes.
		x, y := binary.BigEndian.Uint64(a[:]), binary.BigEndian.Uint64(b[:])
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return bytes.Compare(a[:], b[:])
	})
	h := sha256.New()
	h.Write([]byte(digestDomain))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(sums))))
	for i := range sums {
		h.Write(sums[i][:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// cells are the columns of a row or the fields of a struct, by lower-case name.
type cells struct {
	heads [][]byte // length and bytes of the name
	arrs  []encoder
}

func newCells(rec arrow.RecordBatch) *cells {
	return makeCells(rec.Schema().Fields(), rec.Column)
}

func makeCells(fields []arrow.Field, column func(int) arrow.Array) *cells {
	order := make([]int, len(fields))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return strings.Compare(strings.ToLower(fields[a].Name), strings.ToLower(fields[b].Name))
	})
	c := &cells{}
	for _, i := range order {
		name := strings.ToLower(fields[i].Name)
		c.heads = append(c.heads, append(binary.AppendUvarint(nil, uint64(len(name))+1), name...))
		c.arrs = append(c.arrs, newEncoder(column(i)))
	}
	return c
}

// append adds the canonical text of row i: for each column that is not NULL, in
// ascending order of its lower-case name, the name's length plus one as a
// uvarint, the name, and the value (see newEncoder); then a zero byte. NULL
// columns are left out, so that a missing field equals an explicit null, in the
// row and in structs.
func (c *cells) append(dst []byte, i int) []byte {
	for k, e := range c.arrs {
		if !e.isNull(i) {
			dst = append(dst, c.heads[k]...)
			dst = e.value(dst, i)
		}
	}
	return append(dst, 0)
}
