package datafile

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/deltafold/deltafold/deltatable/internal/schema"
)

// The texts of bounds (protocol notes 1.6; PROTOCOL.md "Per-file Statistics").

func appendInt(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

// Years that everybody reads: some readers fail on a table one of whose bounds
// has a sign or a fifth digit in its year, so such bounds are left out.
const (
	firstDay    = -719162 // 0001-01-01
	lastDay     = 2932896 // 9999-12-31
	firstMicros = firstDay * 86_400_000_000
	lastMicros  = (lastDay+1)*86_400_000_000 - 1
)

// appendDate appends nothing for a date outside the years 1 to 9999.
func appendDate(b []byte, days int64) []byte {
	if days < firstDay || days > lastDay {
		return b
	}
	return append(schema.AppendDate(append(b, '"'), days), '"')
}

// appendTimestamp cuts to milliseconds towards the past: readers take a max for
// up to a millisecond less than it was. It appends nothing for a timestamp outside
// the years 1 to 9999.
func appendTimestamp(b []byte, micros int64) []byte {
	if micros < firstMicros || micros > lastMicros {
		return b
	}
	return append(schema.AppendTimestamp(append(b, '"'), micros, 'T', 3), `Z"`...)
}

// appendTimestampNTZ is appendTimestamp without the zone.
func appendTimestampNTZ(b []byte, micros int64) []byte {
	if micros < firstMicros || micros > lastMicros {
		return b
	}
	return append(schema.AppendTimestamp(append(b, '"'), micros, 'T', 3), '"')
}

// appendFloat writes a finite number as a JSON number.
func appendFloat(b []byte, v float64, bits int) []byte {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return b // the caller leaves it out
	}
	return schema.AppendFloat(b, v, bits)
}

func quoted(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // valid UTF-8: the callers have checked
	return b
}

const (
	tieASCII   = 0x7F     // above every ASCII character that may be cut off
	tieUnicode = 0x10FFFF // above every other character but itself
)

func utf16Len(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// prefixEnd is the length in bytes of the longest prefix of at most n UTF-16
// units that does not cut a character; units is its length.
func prefixEnd(s string, n int) (end, units int) {
	for i, r := range s {
		if units+utf16Len(r) > n {
			return i, units
		}
		units += utf16Len(r)
	}
	return len(s), units
}

func truncateMin(s string, n int) string {
	end, _ := prefixEnd(s, n)
	return s[:end]
}

// truncateMax gives a string of about n units that is not below s. Cutting alone
// would give one that is below (field-problems D1), so a character goes in the
// place of the first one cut off that is above it. Where that character is the
// greatest there is, more of s is kept, up to 2n units; then there is no bound.
func truncateMax(s string, n int) (string, bool) {
	end, units := prefixEnd(s, n)
	for end < len(s) {
		r, size := utf8.DecodeRuneInString(s[end:])
		switch {
		case r < tieASCII:
			return s[:end] + string(rune(tieASCII)), true
		case r < tieUnicode:
			return s[:end] + string(rune(tieUnicode)), true
		}
		end, units = end+size, units+2
		if units > 2*n && end < len(s) {
			return "", false
		}
	}
	return s, true
}
