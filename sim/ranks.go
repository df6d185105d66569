package sim

import (
	"math/big"
	"math/bits"
	"sort"
)

// ranks draws one of n, the first the most often: the one of rank i is drawn in
// proportion to 1/i^skew, Zipf's law.
//
// A pick is a binary search over sum: the rank whose stretch a random number falls into. All
// weights are whole numbers, and each is at least 1, so the last of a million clients can still be
// drawn.
type ranks struct {
	n   uint64
	sum []uint64 // of the weights up to each rank; nil when all weigh the same
}

// weightBits makes the weight of rank 1 2^weightBits. A million such ranks stay
// below 2^64.
const weightBits = 43

// newRanks is for n ≥ 1 and a skew in hundredths.
func newRanks(n int, skew int64) *ranks {
	r := &ranks{n: uint64(n)}
	if skew == 0 || n == 1 {
		return r
	}
	roots := halvings()
	r.sum = make([]uint64, n)
	total := uint64(0)
	for i := range r.sum {
		total += max(power(uint64(i+1), uint64(skew), roots), 1)
		r.sum[i] = total
	}
	return r
}

func (r *ranks) pick(d *draw) int {
	if r.sum == nil {
		if r.n == 1 {
			return 0
		}
		return int(d.below(r.n))
	}
	at := d.below(r.sum[r.n-1])
	return sort.Search(int(r.n), func(i int) bool { return r.sum[i] > at })
}

// fractionBits is how many bits of a logarithm are computed.
//
// A logarithm is below 20 for up to a million ranks. Times skew, at most 1000 hundredths, it stays
// below 2^47, far from overflow. An error of 2^-32 in it moves a weight by less than a part in a
// hundred millions.
const fractionBits = 32

// halvings are 2^(−1/2), 2^(−1/4), … as shares of one.
func halvings() [fractionBits]uint64 {
	var roots [fractionBits]uint64
	// A share x stands for x/2^63. The root of x × 2^63 stands for the root of x, rounded down.
	x := big.NewInt(one / 2)
	for i := range roots {
		x.Lsh(x, 63)
		x.Sqrt(x)
		roots[i] = x.Uint64()
	}
	return roots
}

// power is 2^weightBits / n^(skew/100), by way of the logarithm, in integers.
//
// The exponent's whole part shifts. Each bit of its fraction multiplies by the root that stands
// for it. A weight too small for a bit is 0 here, and newRanks makes it 1.
func power(n, skew uint64, roots [fractionBits]uint64) uint64 {
	exponent := log2(n) * skew / 100
	w := uint64(one)
	for i, root := range roots {
		if exponent>>(fractionBits-1-i)&1 == 1 {
			w = mul(w, root)
		}
	}
	return w >> min(exponent>>fractionBits+63-weightBits, 63)
}

// log2 is the logarithm of n ≥ 1 with fractionBits bits after the point: the
// square of what is left tells the next bit.
//
// At each turn x stands for 1 up to 2. Its square is 1 up to 4; where it is 2 or more the next bit
// is 1, and halving it brings it back.
func log2(n uint64) uint64 {
	whole := bits.Len64(n) - 1
	x := n << (63 - whole) // 1…2, as a multiple of one
	l := uint64(whole)
	for range fractionBits {
		hi, _ := bits.Mul64(x, x)
		l <<= 1
		if hi >= one { // the square is 2 or more
			l |= 1
			x = hi
		} else {
			x = hi << 1
		}
	}
	return l
}
