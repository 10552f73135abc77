package integrity

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var sums = rapid.Custom(func(t *rapid.T) Sum {
	edge := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 1<<64 - 1, 1 << 63}))
	return Sum{edge.Draw(t, "hi"), edge.Draw(t, "lo")}
})

var modulus = new(big.Int).Lsh(big.NewInt(1), 128)

func (s Sum) big() *big.Int {
	b, _ := new(big.Int).SetString(s.String(), 16)
	return b
}

func TestSumIsModulo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := sums.Draw(t, "a"), sums.Draw(t, "b")
		plus := new(big.Int).Add(a.big(), b.big())
		if got := a.Plus(b); got.big().Cmp(plus.Mod(plus, modulus)) != 0 {
			t.Fatalf("%s + %s = %s", a, b, got)
		}
		minus := new(big.Int).Sub(a.big(), b.big())
		if got := a.Minus(b); got.big().Cmp(minus.Mod(minus, modulus)) != 0 {
			t.Fatalf("%s - %s = %s", a, b, got)
		}
		if got, err := ParseSum(a.String()); got != a || err != nil {
			t.Fatalf("ParseSum(%s) = %s, %v", a, got, err)
		}
	})
}

func TestParseSumRefuses(t *testing.T) {
	for _, text := range []string{
		"", "0", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("A", 32), strings.Repeat("g", 32),
		"+" + strings.Repeat("0", 31), strings.Repeat("0", 16) + "-" + strings.Repeat("0", 15), strings.Repeat("_", 32),
	} {
		if got, err := ParseSum(text); err == nil {
			t.Errorf("ParseSum(%q) = %s", text, got)
		}
	}
}

// The hashes are recorded in tables: they may not change. The first is the
// published XXH3-128 of the empty input.
func TestHashesAreFixed(t *testing.T) {
	for data, want := range map[string]string{
		"":    "99aa06d3014798d86001c324468d497f",
		"abc": "06b05ab6733a618578af5f94892f3950",
	} {
		if got := RowHash([]byte(data)).String(); got != want {
			t.Errorf("RowHash(%q) = %s, want %s", data, got, want)
		}
		f := NewFileHash()
		for i := range len(data) {
			if n, err := f.Write([]byte(data[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := f.Sum().String(); got != want {
			t.Errorf("FileHash of %q = %s, want %s", data, got, want)
		}
	}
}

func TestFileHashOfParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "data")
		cut := rapid.IntRange(0, len(data)).Draw(t, "cut")
		f := NewFileHash()
		for _, part := range [][]byte{data[:cut], data[cut:]} {
			if _, err := f.Write(part); err != nil {
				t.Fatal(err)
			}
			_ = f.Sum() // asking in between changes nothing
		}
		if f.Sum() != RowHash(data) {
			t.Fatal("parts and whole differ")
		}
	})
}
