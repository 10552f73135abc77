package changefile

import "math/bits"

// parseDecimal gives the unscaled value of tok, a number by the JSON grammar,
// for decimal(precision,scale), exactly or not at all. fault is a text to which
// the type is added; it never goes through a float (I7).
func parseDecimal(tok []byte, precision, scale int32) (hi int64, lo uint64, fault string) {
	neg := tok[0] == '-'
	if neg {
		tok = tok[1:]
	}
	// exp10 is the power of ten of the last digit kept; zeros wait in pending,
	// since trailing ones are no digits of the value.
	var h, l uint64
	digits, pending, exp10 := 0, 0, 0
	point := false
	i := 0
	for ; i < len(tok); i++ {
		c := tok[i]
		if c == '.' {
			point = true
			continue
		}
		if c-'0' > 9 {
			break
		}
		if point {
			exp10--
		}
		if c == '0' {
			if digits > 0 {
				pending++
			}
			continue
		}
		if digits += pending + 1; digits > 38 {
			// Too long for any decimal: but say whether it is the scale or the size.
			if point && int32(digits)+int32(exp10) <= 38 {
				return 0, 0, "it has digits beyond the scale of"
			}
			return 0, 0, "it does not fit"
		}
		h, l = shifted(h, l, pending)
		h, l = timesTen(h, l, uint64(c-'0'))
		pending = 0
	}
	if digits == 0 {
		return 0, 0, ""
	}
	e := exp10 + pending
	if i < len(tok) {
		e += exponent(tok[i+1:])
	}
	shift := e + int(scale)
	switch {
	case digits+shift > int(precision):
		return 0, 0, "it does not fit"
	case shift < 0:
		return 0, 0, "it has digits beyond the scale of"
	}
	h, l = shifted(h, l, shift)
	if neg {
		var borrow uint64
		l, borrow = bits.Sub64(0, l, 0)
		h, _ = bits.Sub64(0, h, borrow)
	}
	return int64(h), l, ""
}

// timesTen is (h,l)*10 + d modulo 2^128.
func timesTen(h, l, d uint64) (uint64, uint64) {
	over, low := bits.Mul64(l, 10)
	low, carry := bits.Add64(low, d, 0)
	return h*10 + over + carry, low
}

// shifted is (h,l) with n zeros behind it, modulo 2^128.
func shifted(h, l uint64, n int) (uint64, uint64) {
	for range n {
		h, l = timesTen(h, l, 0)
	}
	return h, l
}

// exponent reads the digits after e, with their sign; beyond a million it stops
// growing, which is out of range for every decimal and for the sums made here.
func exponent(b []byte) int {
	neg := false
	if b[0] == '+' || b[0] == '-' {
		neg, b = b[0] == '-', b[1:]
	}
	v := 0
	for _, c := range b {
		v = min(v*10+int(c-'0'), 1_000_000)
	}
	if neg {
		return -v
	}
	return v
}
