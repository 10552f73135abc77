// Package keyset is the hash table of a batch: its distinct keys, in binary
// form, numbered in the order in which they came.
//
// It is the build side of the merge's join and holds the batch only, never the
// table (I9). A small bloom filter in front rules most probes out; what is
// found is found by comparing bytes, never by a hash alone (I11).
package keyset

import (
	"bytes"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Table maps keys to dense numbers from 0. Insert is for one goroutine; after
// Seal, Find may be called by any number at once.
type Table struct {
	arena  []byte
	ends   []int // ends[id] is where the key of id ends in arena
	hashes []uint64
	slots  []int32 // id+1, 0 is free; a power of two of them
	filter []uint64
}

// New returns an empty table that expects about n keys.
func New(n int) *Table {
	return &Table{slots: make([]int32, slotsFor(n))}
}

func slotsFor(n int) int {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return size
}

// Len is the number of distinct keys.
func (t *Table) Len() int { return len(t.ends) }

// Key returns the key of id. The caller must not change it.
func (t *Table) Key(id int32) []byte {
	start := 0
	if id > 0 {
		start = t.ends[id-1]
	}
	return t.arena[start:t.ends[id]:t.ends[id]]
}

// Insert returns the number of key and whether it is new. The key is copied.
func (t *Table) Insert(key []byte) (id int32, added bool) {
	h := xxh3.Hash(key)
	mask := uint64(len(t.slots) - 1)
	i := h & mask
	for ; t.slots[i] != 0; i = (i + 1) & mask {
		if id := t.slots[i] - 1; t.hashes[id] == h && bytes.Equal(t.Key(id), key) {
			return id, false
		}
	}
	id = int32(len(t.ends))
	t.arena = append(t.arena, key...)
	t.ends = append(t.ends, len(t.arena))
	t.hashes = append(t.hashes, h)
	t.slots[i] = id + 1
	if 2*len(t.ends) > len(t.slots) {
		t.grow()
	}
	return id, true
}

func (t *Table) grow() {
	t.slots = make([]int32, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for id, h := range t.hashes {
		i := h & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = int32(id) + 1
	}
}

// Seal builds the filter. Insert must not be called afterwards.
func (t *Table) Seal() {
	words := 1
	for words*4 < len(t.ends) { // 16 bits a key and more
		words *= 2
	}
	t.filter = make([]uint64, words)
	for _, h := range t.hashes {
		t.filter[filterWord(h, words)] |= filterBits(h)
	}
}

// filterWord and filterBits take disjoint parts of the hash: the slot index
// uses the low bits, so the filter uses the high ones.
func filterWord(h uint64, words int) int {
	return int(bits.RotateLeft64(h, 20) & uint64(words-1))
}

func filterBits(h uint64) uint64 {
	return 1<<(h>>58) | 1<<(h>>52&63) | 1<<(h>>46&63) | 1<<(h>>40&63)
}

// Find returns the number of key, or -1 if the batch does not hold it. Seal
// must have been called.
func (t *Table) Find(key []byte) int32 {
	h := xxh3.Hash(key)
	if want := filterBits(h); t.filter[filterWord(h, len(t.filter))]&want != want {
		return -1
	}
	mask := uint64(len(t.slots) - 1)
	for i := h & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if id := t.slots[i] - 1; t.hashes[id] == h && bytes.Equal(t.Key(id), key) {
			return id
		}
	}
	return -1
}
